"""Reductions on dynamic dimensions: they combine only the elements within the actual sizes.

Elements beyond the actual sizes are replaced by the identity of the reducer. If the identity is not known, each value
is reduced together with a flag, and the reducer ignores values whose flag is not set. Does not depend on what reducers
compute.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.inlining import inline_call
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import identity_value, monoid
from xlapy.opcodes.attributes.dimensions import WindowDimension
from xlapy.opcodes.reduction import WindowAttributes
from xlapy.passes.expand.blocks import new_computation
from xlapy.passes.expand.dynamic.core import (
    DYNAMIC_EXPANSIONS,
    Size,
    Sized,
    SizeWriter,
    Value,
    array_of,
    sizes_of,
    static,
)
from xlapy.passes.expand.reduction import scatter_selected
from xlapy.passes.rewrite import Writer

DYNAMIC_EXPANSIONS.refuse("its body takes slices of the padded size", opcodes.SCAN)


@DYNAMIC_EXPANSIONS.rule(opcodes.REDUCE)
def reduce(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """If the sizes of the operands differ, the smallest counts."""
    count = len(values) // 2
    sizes = write.smallest_sizes(values[:count])
    kept = tuple(size for d, size in enumerate(sizes) if d not in instruction.dimensions)
    reduced = [size if d in instruction.dimensions else bound for d, (size, bound) in _rows(values[0], sizes)]
    bounds = array_of(values[0]).shape.dimensions
    is_single = math.prod(bounds[d] for d in instruction.dimensions) == 1
    write_elements = _single_elements if is_single else _reduced
    return _sized(write, write_elements(write, instruction, values, reduced), kept)


def _single_elements(
    write: SizeWriter, instruction: Instruction, values: Sequence[Value], sizes: Sequence[Size]
) -> list[Instruction]:
    """Returns the result of reducing dimensions whose bounds hold one element: that element if it is within the sizes,
    else the initial value.

    A static reduce of one element leaves the initial value out, so it cannot stand for the element that may be missing.
    """
    count = len(values) // 2
    pairs = list(zip(map(array_of, values[:count]), map(array_of, values[count:]), strict=True))
    chosen = [write.masked(array, sizes, init) for array, init in pairs]
    return [write.reshape(array, shape) for array, shape in zip(chosen, map(static, _leaves(instruction)), strict=True)]


def _leaves(instruction: Instruction) -> Sequence[Shape]:
    return instruction.shape.tuple_shapes if instruction.shape.is_tuple else [instruction.shape]


@DYNAMIC_EXPANSIONS.rule(opcodes.REDUCE_WINDOW)
def reduce_window(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The padding of the window surrounds the elements within the actual sizes."""
    sizes = write.smallest_sizes(values[: len(values) // 2])
    rows = zip(sizes, instruction.attributes_as(WindowAttributes).window.dimensions, strict=True)
    return _sized(
        write, _reduced(write, instruction, values, sizes), tuple(window_positions(write, *row) for row in rows)
    )


def window_positions(write: SizeWriter, size: Size, window: WindowDimension) -> Size:
    """Returns the number of window positions over `size` elements."""
    if isinstance(size, int):
        return window.output_size(size)
    holes = write.times(write.larger(write.minus(size, 1), 0), window.base_dilation - 1)
    extent = write.plus(write.plus(size, holes), window.padding_low + window.padding_high)
    return write.window_count(extent, window.dilated_size, window.stride)


def _rows(value: Value, sizes: Sequence[Size]) -> list[tuple[int, tuple[Size, int]]]:
    return list(enumerate(zip(sizes, array_of(value).shape.dimensions, strict=True)))


def _sized(write: SizeWriter, result: list[Instruction], sizes: tuple[Size, ...]) -> Value:
    sized = tuple(Sized(array, sizes) for array in result)
    return sized[0] if len(sized) == 1 else sized


def _reduced(
    write: SizeWriter, instruction: Instruction, values: Sequence[Value], sizes: Sequence[Size]
) -> list[Instruction]:
    """Returns the arrays of the result, reduced over the elements within the sizes."""
    count = len(values) // 2
    arrays, initial = [array_of(value) for value in values[:count]], [array_of(value) for value in values[count:]]
    mask = write.mask_within(arrays[0].shape.dimensions, sizes)
    if mask is None:
        return _elements(write, write.like(instruction, [*arrays, *initial]), count)
    identity = _identity(instruction.to_apply) if count == 1 else None
    if identity is not None:
        fill = write.splat(identity, arrays[0].shape)
        return [write.like(instruction, [write.where(mask, arrays[0], fill), *initial])]
    with_flags = write.add(
        instruction.op,
        *[*arrays, mask, *initial, write.scalar(True, PRED)],
        attributes=instruction.attributes,
        computations=[_flagged_reducer(write, instruction.to_apply)],
    )
    return _elements(write, with_flags, count)


def _elements(write: SizeWriter, result: Instruction, count: int) -> list[Instruction]:
    return [write.get_tuple_element(result, number) for number in range(count)] if result.shape.is_tuple else [result]


def _identity(computation: Computation) -> float | None:
    """Returns the identity of a reducer; None if it has none or the element type cannot represent it.

    Of complex numbers, 1 is none: the product of infinity and 1 + 0i has a NaN. Nor is 0, for the signs of zeros.
    """
    op = monoid(computation)
    element_type = computation.parameters[0].shape.element_type
    if op is None or element_type.is_complex:
        return None
    identity = identity_value(op, element_type)
    with np.errstate(all="ignore"):
        held = np.asarray(identity).astype(Shape.scalar(element_type).dtype)
    return identity if held.item() == identity else None


def _flagged_reducer(write: SizeWriter, computation: Computation) -> Computation:
    """Extends a reducer to pairs of a value and a flag.

    If both flags are set, the reducer combines the values; if one is set, the result is that value.
    """
    shapes = [parameter.shape for parameter in computation.parameters]
    count = len(shapes) // 2
    flag = Shape.scalar(PRED)

    def combine(into: Writer, given: list[Instruction]) -> Instruction:
        left, (has_left,), right, (has_right,) = (
            given[:count], given[count : count + 1], given[count + 1 : 2 * count + 1], given[2 * count + 1 :],
        )  # fmt: skip
        both = inline_call(into.add(opcodes.CALL, *left, *right, computations=[computation]))
        results = list(both.operands) if both.op is opcodes.TUPLE else [both]
        if both.shape.is_tuple and both.op is not opcodes.TUPLE:
            results = [into.get_tuple_element(both, number) for number in range(count)]
        alone = [into.add(opcodes.SELECT, has_left, a, b) for a, b in zip(left, right, strict=True)]
        are_two = into.add(opcodes.AND, has_left, has_right)
        chosen = [into.add(opcodes.SELECT, are_two, a, b) for a, b in zip(results, alone, strict=True)]
        return into.add(opcodes.TUPLE, *chosen, into.add(opcodes.OR, has_left, has_right))

    return new_computation(write, "flagged_reducer", [*shapes[:count], flag, *shapes[count:], flag], combine)


@DYNAMIC_EXPANSIONS.rule(opcodes.SELECT_AND_SCATTER)
def select_and_scatter(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The source has one element per window position.

    It is cropped to the number of positions, or padded with the initial value.
    """
    operand, source, initial = values
    sizes = sizes_of(operand)
    rows = zip(sizes, instruction.attributes_as(WindowAttributes).window.dimensions, strict=True)
    positions = [window_positions(write, *row) for row in rows]
    known = write.masked(array_of(source), sizes_of(source), array_of(initial))
    within_sizes = write.mask_within(array_of(operand).shape.dimensions, sizes)
    taken = write.mask_within(known.shape.dimensions, positions)
    arrays = [array_of(operand), known, array_of(initial)]
    return Sized(scatter_selected(write, instruction, arrays, within_sizes, taken), sizes)
