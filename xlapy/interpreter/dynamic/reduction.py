"""Reductions on dynamic dimensions, evaluated at actual sizes.

Does not depend on what the called computations mean.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.base.value import actual_array, pad_value_to_bounds
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import DYNAMIC_RULES, Array, Context, Value
from xlapy.interpreter.dynamic.core import apply_at_actual_sizes, broadcast_sizes, crop_to_smallest_sizes, crop_value
from xlapy.interpreter.reduction import reduce_with_inits
from xlapy.opcodes.attributes.dimensions import Window
from xlapy.opcodes.reduction import WindowAttributes

DYNAMIC_RULES.refuse("its body takes slices of the sizes of the bounds", opcodes.SCAN)


@DYNAMIC_RULES.rule(opcodes.REDUCE)
def reduce(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Crops the operands to the smallest sizes.

    The initial value takes part, whatever the sizes, unless the bounds of the reduced dimensions hold a single element.
    """
    count, bounds = len(values) // 2, instruction.operands[0].shape.dimensions
    given = [*crop_to_smallest_sizes(values[:count]), *values[count:]]
    if math.prod(bounds[d] for d in instruction.dimensions) == 1:
        return apply_at_actual_sizes(context, instruction, given)
    return pad_value_to_bounds(reduce_with_inits(context, instruction, given), instruction.shape)


@DYNAMIC_RULES.rule(opcodes.REDUCE_WINDOW)
def reduce_window(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Crops the operands to the smallest sizes; the padding of a window surrounds the remaining elements."""
    count = len(values) // 2
    return apply_at_actual_sizes(context, instruction, [*crop_to_smallest_sizes(values[:count]), *values[count:]])


@DYNAMIC_RULES.rule(opcodes.MAP)
def map_(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Maps only the elements within the actual sizes: on padding, the computation might not terminate."""
    sizes = broadcast_sizes(instruction, values)
    pairs = zip(values, instruction.operand_shapes, strict=True)
    return apply_at_actual_sizes(context, instruction, [_mapped(value, shape, sizes) for value, shape in pairs])


def _mapped(value: Value, shape: Shape, sizes: Sequence[int]) -> Array:
    return np.broadcast_to(crop_value(value, sizes), sizes) if shape.rank else actual_array(value)


@DYNAMIC_RULES.rule(opcodes.SELECT_AND_SCATTER)
def select_and_scatter(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    operand, source, init = values
    fitting = fit_source_to_windows(
        actual_array(operand), source, init, instruction.attributes_as(WindowAttributes).window
    )
    return apply_at_actual_sizes(context, instruction, [operand, fitting, init])


def fit_source_to_windows(operand: Array, source: Value, init: Array, window: Window) -> Array:
    """Returns the source with one element per window position, cropped or filled up with the initial value."""
    positions = window.output_sizes(operand.shape)
    whole = np.full(positions, init)
    known = crop_value(source, positions)
    whole[tuple(map(slice, known.shape))] = known
    return whole
