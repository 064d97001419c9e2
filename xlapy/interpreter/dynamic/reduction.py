"""Reductions on dynamic dimensions: of the elements that are there.

Must not know: what the computations mean.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import DYNAMIC_RULES, Array, Context, Value
from xlapy.interpreter.dynamic.core import agreed, at_actual_sizes, broadcast_sizes, cropped
from xlapy.interpreter.dynamic_array import actual
from xlapy.opcodes.attributes.dimensions import Window

DYNAMIC_RULES.refuse("its body is written for slices of the bounds", opcodes.SCAN)


@DYNAMIC_RULES.rule(opcodes.REDUCE, opcodes.REDUCE_WINDOW)
def reduce(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Operands take the smallest sizes; the padding of a window surrounds the elements that are there."""
    count = len(values) // 2
    return at_actual_sizes(context, instruction, [*agreed(values[:count]), *values[count:]])


@DYNAMIC_RULES.rule(opcodes.MAP)
def map_(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Of the elements that are there alone: the computation may not end on others."""
    sizes = broadcast_sizes(instruction, values)
    pairs = zip(values, instruction.operand_shapes, strict=True)
    return at_actual_sizes(context, instruction, [_mapped(value, shape, sizes) for value, shape in pairs])


def _mapped(value: Value, shape: Shape, sizes: Sequence[int]) -> Array:
    return np.broadcast_to(cropped(value, sizes), sizes) if shape.rank else actual(value)


@DYNAMIC_RULES.rule(opcodes.SELECT_AND_SCATTER)
def select_and_scatter(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    operand, source, init = values
    fitting = fitted_source(actual(operand), source, init, instruction.attributes.window)
    return at_actual_sizes(context, instruction, [operand, fitting, init])


def fitted_source(operand: Array, source: Value, init: Array, window: Window) -> Array:
    """The source with one element a window position: cut off, or filled up with the initial value."""
    positions = window.output_sizes(operand.shape)
    whole = np.full(positions, init)
    known = cropped(source, positions)
    whole[tuple(map(slice, known.shape))] = known
    return whole
