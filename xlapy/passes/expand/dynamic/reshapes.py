"""Reshapes on dynamic dimensions: they keep the elements within the actual sizes in row-major order, without gaps.

If only the first dimension of a group of merged or split dimensions is dynamic, elements keep their positions in the
padded array. Otherwise, each element is gathered from an index computed from the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xlapy import opcodes
from xlapy.base.element_types import S32
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.indexing import GatherAttributes
from xlapy.opcodes.movement import factor_groups
from xlapy.passes.expand.blocks import compare
from xlapy.passes.expand.dynamic.core import (
    DYNAMIC_EXPANSIONS,
    Size,
    Sized,
    SizeWriter,
    Value,
    array_of,
    sizes_of,
    unsupported,
)


@DYNAMIC_EXPANSIONS.rule(opcodes.RESHAPE)
def reshape(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Rounds down a size that is not divisible. A static result begins with the elements within the sizes."""
    shape, array = instruction.shape, array_of(values[0])
    if shape.is_static:
        return _static_reshape(write, array, sizes_of(values[0]), shape)
    groups = list(factor_groups(array.shape.dimensions, shape.dimensions))
    taken = list(sizes_of(values[0]))
    for merged, made in groups:  # groups whose result is static use the bounds
        if made and not any(shape.dynamic_dimensions[d] for d in made):
            taken[merged.start : merged.stop] = array.shape.dimensions[merged.start : merged.stop]
    sizes = _reshaped_sizes(write, instruction, groups, taken)
    if all(
        _padding_is_last(array.shape.dimensions, taken, merged) and _padding_is_last(shape.dimensions, sizes, made)
        for merged, made in groups
    ):
        return Sized(write.like(instruction, [array]), sizes)
    return Sized(_gather_row_major(write, array, taken, shape, sizes), sizes)


def _reshaped_sizes(
    write: SizeWriter, instruction: Instruction, groups: Sequence[tuple[range, range]], taken: Sequence[Size]
) -> tuple[Size, ...]:
    """Returns the sizes of the result.

    A single dynamic dimension gets the number of all elements divided by the static dimensions. Each of several dynamic
    dimensions is computed from the dimensions of its own group.
    """
    shape = instruction.shape
    dynamic = [d for d, flag in enumerate(shape.dynamic_dimensions) if flag]
    sizes: list[Size] = list(shape.dimensions)
    if len(dynamic) == 1:
        groups = [(range(len(taken)), range(shape.rank))]
    for merged, made in groups:
        dynamic_in_group = [d for d in made if d in dynamic]
        if len(dynamic_in_group) > 1:
            raise unsupported(instruction, f"the sizes of the dimensions {dynamic_in_group} are ambiguous")
        if dynamic_in_group:
            others = prod(shape.dimensions[d] for d in made if d != dynamic_in_group[0])
            sizes[dynamic_in_group[0]] = write.quotient(write.product(taken[d] for d in merged), others)
    return tuple(sizes)


def _padding_is_last(bounds: Sequence[int], sizes: Sequence[Size], group: range) -> bool:
    """Whether the elements within the actual sizes precede the padding in row-major order, in a group of dimensions."""
    long = [d for d in group if bounds[d] > 1]
    return all(sizes[d] == bounds[d] for d in group if d not in long[:1])


@DYNAMIC_EXPANSIONS.rule(opcodes.DYNAMIC_RESHAPE)
def dynamic_reshape(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Reshapes the elements within the actual sizes to the given sizes, each clamped to its bound."""
    operand, *given = values
    shape = instruction.shape
    sizes: list[Size] = list(shape.dimensions)
    for dimension, size in enumerate(given):
        if shape.dynamic_dimensions[dimension]:
            number = write.convert(array_of(size), S32)
            sizes[dimension] = write.smaller(write.larger(number, 0), shape.dimensions[dimension])
    return Sized(_gather_row_major(write, array_of(operand), sizes_of(operand), shape, sizes), tuple(sizes))


def _gather_row_major(
    write: SizeWriter, array: Instruction, taken: Sequence[Size], shape: Shape, sizes: Sequence[Size]
) -> Instruction:
    """Returns an array with the bounds of `shape` and the actual `sizes`.

    Its elements are those of `array` within the sizes `taken`, in row-major order.
    """
    if not shape.size or not array.shape.size:
        return write.splat(0, shape.with_dimensions(shape.dimensions))
    row = _row_major_numbers(write, shape.dimensions, sizes)
    index = write.broadcast_size(0, shape.dimensions)
    stride = 1
    for dimension in reversed(range(array.shape.rank)):
        size = write.larger(taken[dimension], 1)
        length = write.broadcast_size(size, shape.dimensions)
        part = write.add(opcodes.REMAINDER, row, length)
        scaled = write.add(opcodes.MULTIPLY, part, write.broadcast_size(stride, shape.dimensions))
        index, row = write.add(opcodes.ADD, index, scaled), write.add(opcodes.DIVIDE, row, length)
        stride *= array.shape.dimensions[dimension]
    flat = write.reshape(array, array.shape.with_dimensions((array.shape.size,)))
    attributes = GatherAttributes.make(
        offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=shape.rank, slice_sizes=(1,)
    )
    return write.add(opcodes.GATHER, flat, index, attributes=attributes)


def _row_major_numbers(write: SizeWriter, bounds: Sequence[int], sizes: Sequence[Size]) -> Instruction:
    """Returns the row-major number of each element, counted among the elements within the sizes."""
    total = write.broadcast_size(0, bounds)
    stride: Size = 1
    for dimension in reversed(range(len(bounds))):
        scaled = write.add(opcodes.MULTIPLY, write.positions(bounds, dimension), write.broadcast_size(stride, bounds))
        total = write.add(opcodes.ADD, total, scaled)
        stride = write.times(stride, sizes[dimension])
    return total


def _static_reshape(write: SizeWriter, array: Instruction, taken: Sequence[Size], shape: Shape) -> Instruction:
    """Returns a static array that begins with the elements within the sizes `taken` and continues with zeros."""
    made = _gather_row_major(write, array, taken, shape, shape.dimensions)
    count = write.broadcast_size(write.product(taken), shape.dimensions)
    numbers = _row_major_numbers(write, shape.dimensions, shape.dimensions)
    within_sizes = compare(write, numbers, count, ComparisonDirection.LT)
    return write.where(within_sizes, made, write.splat(0, shape))
