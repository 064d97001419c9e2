"""Reshapes on dynamic dimensions: the elements that are there, in row-major order, without gaps.

Where only the first dimension of a group of merged or split dimensions is dynamic, nothing moves; else each element is
gathered from the place that the sizes give it.
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
    """A division of the size that does not come out rounds down; a static result begins with the elements."""
    shape, array = instruction.shape, array_of(values[0])
    if shape.is_static:
        return _from_front(write, array, sizes_of(values[0]), shape)
    groups = list(factor_groups(array.shape.dimensions, shape.dimensions))
    taken = list(sizes_of(values[0]))
    for merged, made in groups:  # dimensions of the bounds, where they meet static dimensions alone
        if made and not any(shape.dynamic_dimensions[d] for d in made):
            taken[merged.start : merged.stop] = array.shape.dimensions[merged.start : merged.stop]
    sizes = _reshaped_sizes(write, instruction, groups, taken)
    if all(
        _stays(array.shape.dimensions, taken, merged) and _stays(shape.dimensions, sizes, made)
        for merged, made in groups
    ):
        return Sized(write.like(instruction, [array]), sizes)
    return Sized(rearranged(write, array, taken, shape, sizes), sizes)


def _reshaped_sizes(
    write: SizeWriter, instruction: Instruction, groups: Sequence[tuple[range, range]], taken: Sequence[Size]
) -> tuple[Size, ...]:
    """The one dynamic dimension takes all elements that there are; of several each takes those of its own group."""
    shape = instruction.shape
    dynamic = [d for d, flag in enumerate(shape.dynamic_dimensions) if flag]
    sizes: list[Size] = list(shape.dimensions)
    if len(dynamic) == 1:
        groups = [(range(len(taken)), range(shape.rank))]
    for merged, made in groups:
        grown = [d for d in made if d in dynamic]
        if len(grown) > 1:
            raise unsupported(instruction, f"which of the dimensions {grown} has which size is open")
        if grown:
            others = prod(shape.dimensions[d] for d in made if d != grown[0])
            sizes[grown[0]] = write.quotient(write.product(taken[d] for d in merged), others)
    return tuple(sizes)


def _stays(bounds: Sequence[int], sizes: Sequence[Size], group: range) -> bool:
    """Whether the elements that are there lie in front of those that are not, within a group of dimensions."""
    long = [d for d in group if bounds[d] > 1]
    return all(sizes[d] == bounds[d] for d in group if d not in long[:1])


@DYNAMIC_EXPANSIONS.rule(opcodes.DYNAMIC_RESHAPE)
def dynamic_reshape(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The elements that are there, under the given sizes, each within its bound."""
    operand, *given = values
    shape = instruction.shape
    sizes: list[Size] = list(shape.dimensions)
    for dimension, size in enumerate(given):
        if shape.dynamic_dimensions[dimension]:
            number = write.convert(array_of(size), S32)
            sizes[dimension] = write.smaller(write.larger(number, 0), shape.dimensions[dimension])
    return Sized(rearranged(write, array_of(operand), sizes_of(operand), shape, sizes), tuple(sizes))


def rearranged(
    write: SizeWriter, array: Instruction, taken: Sequence[Size], shape: Shape, sizes: Sequence[Size]
) -> Instruction:
    """An array of a shape's bounds: the first elements of `taken` sizes, in row-major order, under `sizes`."""
    if not shape.size or not array.shape.size:
        return write.splat(0, shape.with_dimensions(shape.dimensions))
    row = _row_numbers(write, shape.dimensions, sizes)
    place = write.spread(0, shape.dimensions)
    stride = 1
    for dimension in reversed(range(array.shape.rank)):
        size = write.larger(taken[dimension], 1)
        length = write.spread(size, shape.dimensions)
        part = write.add(opcodes.REMAINDER, row, length)
        scaled = write.add(opcodes.MULTIPLY, part, write.spread(stride, shape.dimensions))
        place, row = write.add(opcodes.ADD, place, scaled), write.add(opcodes.DIVIDE, row, length)
        stride *= array.shape.dimensions[dimension]
    flat = write.reshape(array, array.shape.with_dimensions((array.shape.size,)))
    attributes = GatherAttributes.make(
        offset_dims=(), collapsed_slice_dims=(0,), start_index_map=(0,), index_vector_dim=shape.rank, slice_sizes=(1,)
    )
    return write.add(opcodes.GATHER, flat, place, attributes=attributes)


def _row_numbers(write: SizeWriter, bounds: Sequence[int], sizes: Sequence[Size]) -> Instruction:
    """The row-major place of each element among those that are there."""
    total = write.spread(0, bounds)
    stride: Size = 1
    for dimension in reversed(range(len(bounds))):
        scaled = write.add(opcodes.MULTIPLY, write.positions(bounds, dimension), write.spread(stride, bounds))
        total = write.add(opcodes.ADD, total, scaled)
        stride = write.times(stride, sizes[dimension])
    return total


def _from_front(write: SizeWriter, array: Instruction, taken: Sequence[Size], shape: Shape) -> Instruction:
    """An array that begins with the elements that are there, and goes on with zeros."""
    made = rearranged(write, array, taken, shape, shape.dimensions)
    count = write.spread(write.product(taken), shape.dimensions)
    numbers = _row_numbers(write, shape.dimensions, shape.dimensions)
    there = compare(write, numbers, count, ComparisonDirection.LT)
    return write.where(there, made, write.splat(0, shape))
