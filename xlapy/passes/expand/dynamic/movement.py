"""Ops that move elements, on dynamic dimensions.

Responsible for the sizes of results, and for reading and setting sizes. Where the position of an element does not
depend on the sizes, elements are moved within the padded arrays, so that elements beyond a size reappear when the size
grows. Does not depend on reshapes (`reshapes`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import S32
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.movement import DynamicSliceAttributes, PadAttributes, SliceAttributes
from xlapy.passes.expand.blocks import concatenate as joined
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

DYNAMIC_EXPANSIONS.refuse("its coordinates and rotations would depend on the sizes", opcodes.SHUFFLE)

# -- sizes


@DYNAMIC_EXPANSIONS.rule(opcodes.GET_DIMENSION_SIZE)
def get_dimension_size(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    return write.size(sizes_of(values[0])[instruction.dimension])


@DYNAMIC_EXPANSIONS.rule(opcodes.SET_DIMENSION_SIZE)
def set_dimension_size(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Clamps the size to the range from 0 to the bound."""
    operand, size = values
    dimension = instruction.dimension
    sizes = list(sizes_of(operand))
    sizes[dimension] = _clamp_size(write, size, array_of(operand).shape.dimensions[dimension])
    return Sized(array_of(operand), tuple(sizes))


def _clamp_size(write: SizeWriter, size: Instruction, bound: int) -> Size:
    return write.smaller(write.larger(write.convert(size, S32), 0), bound)


# -- whole dimensions


@DYNAMIC_EXPANSIONS.rule(opcodes.BROADCAST)
def broadcast(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    sizes: list[Size] = list(instruction.shape.dimensions)
    for size, dimension in zip(sizes_of(values[0]), instruction.dimensions, strict=True):
        sizes[dimension] = size
    return Sized(write.like(instruction, [array_of(values[0])]), tuple(sizes))


@DYNAMIC_EXPANSIONS.rule(opcodes.TRANSPOSE)
def transpose(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    sizes = sizes_of(values[0])
    moved = write.like(instruction, [array_of(values[0])])
    return Sized(moved, tuple(sizes[d] for d in instruction.dimensions))


@DYNAMIC_EXPANSIONS.rule(opcodes.REVERSE)
def reverse(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Reverses the elements within the actual sizes.

    The whole padded array is reversed and then shifted toward index 0 by the number of padding elements.
    """
    sizes = sizes_of(values[0])
    result = write.like(instruction, [array_of(values[0])])
    for dimension in instruction.dimensions:
        bound = result.shape.dimensions[dimension]
        if bound and not isinstance(sizes[dimension], int):
            missing = write.minus(bound, sizes[dimension])
            starts = [write.size(missing if d == dimension else 0) for d in range(result.shape.rank)]
            twice = joined(write, [result, result], dimension)
            attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=result.shape.dimensions)
            result = write.add(opcodes.DYNAMIC_SLICE, twice, *starts, attributes=attributes)
    return Sized(result, sizes)


@DYNAMIC_EXPANSIONS.rule(opcodes.CONCATENATE)
def concatenate(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Concatenates without gaps: each operand overwrites the padding of the one before.

    The other dimensions have the smallest sizes.
    """
    dimension, sizes = instruction.dimension, list(write.smallest_sizes(values))
    result: Instruction | None = None
    offset: Size = 0
    for value in values:
        if result is None:
            result = _append_zeros(write, array_of(value), instruction.shape.dimensions[dimension], dimension)
        else:
            starts = [write.size(offset if d == dimension else 0) for d in range(result.shape.rank)]
            result = write.add(opcodes.DYNAMIC_UPDATE_SLICE, result, array_of(value), *starts)
        offset = write.plus(offset, sizes_of(value)[dimension])
    assert result is not None
    sizes[dimension] = offset
    return Sized(result, tuple(sizes))


def _append_zeros(write: SizeWriter, array: Instruction, size: int, dimension: int) -> Instruction:
    """Appends zeros to the array in a dimension, up to the given size."""
    dimensions = list(array.shape.dimensions)
    dimensions[dimension] = size - dimensions[dimension]
    return joined(write, [array, write.splat(0, array.shape.with_dimensions(dimensions))], dimension)


# -- slices and padding


@DYNAMIC_EXPANSIONS.rule(opcodes.SLICE)
def slice_(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the elements of the range that are within the actual sizes."""
    ranges = instruction.attributes_as(SliceAttributes).ranges
    sizes: list[Size] = []
    for size, *row in zip(sizes_of(values[0]), ranges.starts, ranges.limits, ranges.strides, strict=True):
        start, limit, stride = row
        held = write.larger(write.minus(write.smaller(size, limit), start), 0)
        sizes.append(write.window_count(held, 1, stride))
    return Sized(write.like(instruction, [array_of(values[0])]), tuple(sizes))


@DYNAMIC_EXPANSIONS.rule(opcodes.PAD)
def pad(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Adds the padding after the last element within the actual size; a negative size becomes 0."""
    sizes: list[Size] = []
    for entry, size in zip(
        instruction.attributes_as(PadAttributes).padding.dimensions, sizes_of(values[0]), strict=True
    ):
        holes = write.times(write.larger(write.minus(size, 1), 0), entry.interior)
        total = write.plus(write.plus(size, holes), entry.low + entry.high)
        sizes.append(write.larger(total, 0))
    operand = write.masked(array_of(values[0]), sizes_of(values[0]), values[1])
    return Sized(write.like(instruction, [operand, values[1]]), tuple(sizes))


@DYNAMIC_EXPANSIONS.rule(opcodes.DYNAMIC_SLICE)
def dynamic_slice(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Clamps the start indices to the bounds. Only dimensions that the slice covers completely stay dynamic."""
    operand, *indices = values
    array, taken = array_of(operand), instruction.attributes_as(DynamicSliceAttributes).dynamic_slice_sizes
    rows = zip(sizes_of(operand), array.shape.dimensions, taken, strict=True)
    sizes = tuple(size if part == bound else part for size, bound, part in rows)
    return Sized(write.like(instruction, [array, *map(array_of, indices)]), sizes)


@DYNAMIC_EXPANSIONS.rule(opcodes.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Clamps the start indices to the bounds; the padding of the update is not written.

    A dimension that a dynamic update covers completely has the update's size; other dimensions have the operand's size.
    """
    operand, update, *starts = values
    array, part, indices = array_of(operand), array_of(update), list(map(array_of, starts))
    mask = write.mask_within(part.shape.dimensions, sizes_of(update))
    if mask is not None:
        attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=part.shape.dimensions)
        part = write.where(mask, part, write.add(opcodes.DYNAMIC_SLICE, array, *indices, attributes=attributes))
    flags = instruction.operands[1].shape.dynamic_dimensions
    whole, bounds = array.shape.dimensions, part.shape.dimensions
    rows = zip(sizes_of(operand), sizes_of(update), whole, bounds, flags, strict=True)
    sizes = tuple(new if flag and bound == full else old for old, new, full, bound, flag in rows)
    return Sized(write.like(instruction, [array, part, *indices]), sizes)


@DYNAMIC_EXPANSIONS.rule(opcodes.BITCAST)
def bitcast(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Reinterprets the memory, padding included.

    A dynamic result has the dimensions and sizes of the operand; other dynamic results are not supported.
    """
    shape = instruction.shape
    if shape.is_dynamic and instruction.operands[0].shape.dimensions != shape.dimensions:
        raise unsupported(instruction, "the sizes do not follow from those of the operand")
    return Sized(
        write.like(instruction, [array_of(values[0])]), sizes_of(values[0]) if shape.is_dynamic else shape.dimensions
    )
