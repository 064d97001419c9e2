"""Elementwise ops on dynamic dimensions: they run on the padded arrays, because padding is combined only with padding.

Does not depend on what the ops compute.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.base.value import DynamicArray, array_of_bounds, sizes_of
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import DYNAMIC_RULES, Array, Context, Value
from xlapy.interpreter.dynamic.core import apply_ordinary_rule, broadcast_sizes, repeated_dimensions
from xlapy.opcodes.registry import REGISTRY


def elementwise(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Applies the op to the padded arrays.

    A dynamic dimension of size 1 is repeated to the size of another operand's, as XLA does for two operands.
    """
    sizes = broadcast_sizes(instruction, values)
    pairs = zip(values, instruction.operand_shapes, strict=True)
    arrays = [_repeated(value, shape, sizes) for value, shape in pairs]
    return DynamicArray(apply_ordinary_rule(context, instruction, arrays), sizes)


def _repeated(value: Value, shape: Shape, sizes: Sequence[int]) -> Array:
    array = array_of_bounds(value)
    stretched = repeated_dimensions(value, shape, sizes)
    if not stretched:
        return array
    kept = tuple(slice(1) if d in stretched else slice(None) for d in range(array.ndim))
    return np.broadcast_to(array[kept], array.shape)


DYNAMIC_RULES.rule(*(op for op in REGISTRY.values() if op.elementwise))(elementwise)


@DYNAMIC_RULES.rule(opcodes.BITCAST_CONVERT)
def bitcast_convert(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Reads the bits as another type; a last dimension that the change of width adds or removes is never padded."""
    result = apply_ordinary_rule(context, instruction, [array_of_bounds(values[0])])
    sizes = sizes_of(values[0])[: result.ndim]
    return DynamicArray(result, (*sizes, *result.shape[len(sizes) :]))
