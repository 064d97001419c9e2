"""Ops that move elements, on dynamic dimensions.

Owns: what becomes of sizes where elements move; reading and setting sizes. Elements whose places do not depend on the
sizes are moved in the arrays of the bounds, so that what lies beyond a size comes back when the size grows.
Must not know: reshapes (`reshapes`).
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

DYNAMIC_EXPANSIONS.refuse("coordinates and rotations would depend on the sizes", opcodes.SHUFFLE)

# -- sizes


@DYNAMIC_EXPANSIONS.rule(opcodes.GET_DIMENSION_SIZE)
def get_dimension_size(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    return write.size(sizes_of(values[0])[instruction.dimension])


@DYNAMIC_EXPANSIONS.rule(opcodes.SET_DIMENSION_SIZE)
def set_dimension_size(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """A size below 0 or above the bound becomes that."""
    operand, size = values
    dimension = instruction.dimension
    sizes = list(sizes_of(operand))
    sizes[dimension] = _bounded(write, size, array_of(operand).shape.dimensions[dimension])
    return Sized(array_of(operand), tuple(sizes))


def _bounded(write: SizeWriter, size: Instruction, bound: int) -> Size:
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
    """Of the elements that are there: the whole reversed, moved to the front by as many as are missing."""
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
    """Each operand over the padding of the one before it; the other dimensions take the smallest sizes."""
    dimension, sizes = instruction.dimension, list(write.smallest(values))
    result: Instruction | None = None
    offset: Size = 0
    for value in values:
        if result is None:
            result = _widened(write, array_of(value), instruction.shape.dimensions[dimension], dimension)
        else:
            starts = [write.size(offset if d == dimension else 0) for d in range(result.shape.rank)]
            result = write.add(opcodes.DYNAMIC_UPDATE_SLICE, result, array_of(value), *starts)
        offset = write.plus(offset, sizes_of(value)[dimension])
    assert result is not None
    sizes[dimension] = offset
    return Sized(result, tuple(sizes))


def _widened(write: SizeWriter, array: Instruction, size: int, dimension: int) -> Instruction:
    """The array with zeros behind it in a dimension."""
    dimensions = list(array.shape.dimensions)
    dimensions[dimension] = size - dimensions[dimension]
    return joined(write, [array, write.splat(0, array.shape.with_dimensions(dimensions))], dimension)


# -- slices and padding


@DYNAMIC_EXPANSIONS.rule(opcodes.SLICE)
def slice_(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """What the range holds of the elements that are there."""
    ranges = instruction.attributes_as(SliceAttributes).ranges
    sizes: list[Size] = []
    for size, *row in zip(sizes_of(values[0]), ranges.starts, ranges.limits, ranges.strides, strict=True):
        start, limit, stride = row
        held = write.larger(write.minus(write.smaller(size, limit), start), 0)
        sizes.append(write.strided(held, 1, stride))
    return Sized(write.like(instruction, [array_of(values[0])]), tuple(sizes))


@DYNAMIC_EXPANSIONS.rule(opcodes.PAD)
def pad(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The padding begins behind the last element that is there; less than nothing is nothing."""
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
    """Starts are clamped by the bounds. Only a dimension taken whole stays dynamic."""
    operand, *indices = values
    array, taken = array_of(operand), instruction.attributes_as(DynamicSliceAttributes).dynamic_slice_sizes
    rows = zip(sizes_of(operand), array.shape.dimensions, taken, strict=True)
    sizes = tuple(size if part == bound else part for size, bound, part in rows)
    return Sized(write.like(instruction, [array, *map(array_of, indices)]), sizes)


@DYNAMIC_EXPANSIONS.rule(opcodes.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Starts are clamped by the bounds; the padding of the update is not written.

    A dimension that a dynamic update replaces whole takes the update's size, any other keeps the operand's.
    """
    operand, update, *starts = values
    array, part, indices = array_of(operand), array_of(update), list(map(array_of, starts))
    mask = write.inside(part.shape.dimensions, sizes_of(update))
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
    """Memory as it is, padding included: sizes stay where the dimensions do, or the result is static."""
    shape = instruction.shape
    if shape.is_dynamic and instruction.operands[0].shape.dimensions != shape.dimensions:
        raise unsupported(instruction, "the sizes do not follow from those of the operand")
    return Sized(
        write.like(instruction, [array_of(values[0])]), sizes_of(values[0]) if shape.is_dynamic else shape.dimensions
    )
