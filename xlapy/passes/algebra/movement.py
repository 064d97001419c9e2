"""Rewrites of data movement: reshape, transpose, slice, pad, concatenate and the like.

Rewrites of data movement applied to broadcasts are in `movement_of_broadcasts.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension, SliceRanges
from xlapy.opcodes.movement import (
    DimensionsAttributes,
    DynamicSliceAttributes,
    PadAttributes,
    ShuffleAttributes,
    ShuffleMode,
    SliceAttributes,
)
from xlapy.passes.algebra.core import REWRITES, broadcast_scalar_of, has_one_user, scalar_integer
from xlapy.passes.rewrite import Writer

# -- reshape, transpose, reverse, copy, bitcast


@REWRITES.rule(opcodes.RESHAPE)
def reshape_to_same_dimensions(write: Writer, instruction: Instruction) -> Instruction | None:
    """A reshape to the same dimensions -> its operand."""
    (operand,) = instruction.operands
    return operand if operand.shape.dimensions == instruction.shape.dimensions else None


@REWRITES.rule(opcodes.RESHAPE)
def reshape_of_reshape(write: Writer, instruction: Instruction) -> Instruction | None:
    """A reshape of a reshape -> one reshape."""
    (operand,) = instruction.operands
    return write.reshape(operand.operands[0], instruction.shape) if operand.op is opcodes.RESHAPE else None


@REWRITES.rule(opcodes.TRANSPOSE)
def transpose_by_identity(write: Writer, instruction: Instruction) -> Instruction | None:
    """A transpose that leaves all dimensions in place -> its operand."""
    permutation = instruction.dimensions
    return instruction.operands[0] if list(permutation) == sorted(permutation) else None


@REWRITES.rule(opcodes.TRANSPOSE)
def transpose_of_unit_dimensions(write: Writer, instruction: Instruction) -> Instruction | None:
    """A transpose that moves dimensions of size 1 only -> a reshape."""
    (operand,) = instruction.operands
    moved = [d for d in instruction.dimensions if operand.shape.dimensions[d] != 1]
    return write.reshape(operand, instruction.shape) if moved == sorted(moved) else None


@REWRITES.rule(opcodes.TRANSPOSE)
def transpose_of_transpose(write: Writer, instruction: Instruction) -> Instruction | None:
    """A transpose of a transpose -> one transpose."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.TRANSPOSE:
        return None
    permutation = [operand.dimensions[d] for d in instruction.dimensions]
    return write.transpose(operand.operands[0], permutation, instruction.shape)


@REWRITES.rule(opcodes.REVERSE)
def reverse_of_reverse_or_unit_dimensions(write: Writer, instruction: Instruction) -> Instruction | None:
    """A reverse of a reverse -> at most one reverse; dimensions of at most one element need not be reversed."""
    (operand,) = instruction.operands
    source, dimensions = operand, set(instruction.dimensions)
    if operand.op is opcodes.REVERSE:
        source = operand.operands[0]
        dimensions ^= set(operand.dimensions)
    kept = tuple(sorted(d for d in dimensions if instruction.shape.dimensions[d] > 1))
    if source is operand and kept == tuple(sorted(instruction.dimensions)):
        return None
    if not kept:
        return source
    return write.add(
        opcodes.REVERSE, source, attributes=DimensionsAttributes.make(dimensions=kept), shape=instruction.shape
    )


@REWRITES.rule(opcodes.COPY)
def copy_in_same_layout(write: Writer, instruction: Instruction) -> Instruction | None:
    """A copy in the layout of its operand -> its operand."""
    (operand,) = instruction.operands
    return operand if operand.shape == instruction.shape else None


@REWRITES.rule(opcodes.COPY)
def copy_of_copy(write: Writer, instruction: Instruction) -> Instruction | None:
    """A copy of a copy -> one copy."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.COPY:
        return None
    return write.add(opcodes.COPY, operand.operands[0], shape=instruction.shape)


@REWRITES.rule(opcodes.BITCAST)
def bitcast_to_same_shape(write: Writer, instruction: Instruction) -> Instruction | None:
    """A bitcast to the same shape and layout -> its operand."""
    (operand,) = instruction.operands
    return operand if operand.shape == instruction.shape else None


@REWRITES.rule(opcodes.BITCAST)
def bitcast_of_bitcast(write: Writer, instruction: Instruction) -> Instruction | None:
    """A bitcast of a bitcast -> one bitcast."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.BITCAST:
        return None
    return write.add(opcodes.BITCAST, operand.operands[0], shape=instruction.shape)


# -- slice


@REWRITES.rule(opcodes.SLICE)
def slice_of_all_elements(write: Writer, instruction: Instruction) -> Instruction | None:
    """A slice that takes all elements -> its operand."""
    (operand,) = instruction.operands
    return operand if operand.shape.dimensions == instruction.shape.dimensions else None


@REWRITES.rule(opcodes.SLICE)
def slice_of_slice(write: Writer, instruction: Instruction) -> Instruction | None:
    """A slice of a slice -> one slice."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.SLICE:
        return None
    outer, inner = instruction.attributes_as(SliceAttributes).ranges, operand.attributes_as(SliceAttributes).ranges
    starts, limits, strides = [], [], []
    for d, size in enumerate(instruction.shape.dimensions):
        stride = outer.strides[d] * inner.strides[d]
        start = inner.starts[d] + outer.starts[d] * inner.strides[d]
        starts.append(start if size else 0)
        limits.append(start + (size - 1) * stride + 1 if size else 0)
        strides.append(stride)
    return write.slice(operand.operands[0], starts, limits, strides, shape=instruction.shape)


def _shifted(ranges: SliceRanges, dimension: int, by: int) -> tuple[list[int], list[int]]:
    """Returns starts and limits with those of one dimension shifted by an offset."""
    starts, limits = list(ranges.starts), list(ranges.limits)
    starts[dimension] += by
    limits[dimension] += by
    return starts, limits


@REWRITES.rule(opcodes.SLICE)
def slice_of_concatenate(write: Writer, instruction: Instruction) -> Instruction | None:
    """A slice of elements of one operand of a concatenate -> a slice of that operand."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.CONCATENATE or not instruction.shape.size:
        return None
    dimension, offset, ranges = operand.dimension, 0, instruction.attributes_as(SliceAttributes).ranges
    for part in operand.operands:
        size = part.shape.dimensions[dimension]
        if offset <= ranges.starts[dimension] and ranges.limits[dimension] <= offset + size:
            starts, limits = _shifted(ranges, dimension, -offset)
            return write.slice(part, starts, limits, ranges.strides, shape=instruction.shape)
        offset += size
    return None


@REWRITES.rule(opcodes.SLICE)
def slice_of_pad(write: Writer, instruction: Instruction) -> Instruction | None:
    """A slice of a pad without padding elements -> a slice of its operand; of padding only -> the padding value."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.PAD or not instruction.shape.size:
        return None
    source, value = operand.operands
    ranges, config = (
        instruction.attributes_as(SliceAttributes).ranges,
        operand.attributes_as(PadAttributes).padding.dimensions,
    )
    inside = not any(each.interior for each in config)
    for d, each in enumerate(config):
        last = ranges.starts[d] + (instruction.shape.dimensions[d] - 1) * ranges.strides[d]
        end = operand.shape.dimensions[d] - each.high
        if last < each.low or ranges.starts[d] >= end:
            return write.broadcast(value, instruction.shape)
        inside = inside and each.low <= ranges.starts[d] and last < end
    if not inside:
        return None
    starts = [start - each.low for start, each in zip(ranges.starts, config, strict=True)]
    sizes = zip(instruction.shape.dimensions, ranges.strides, strict=True)
    limits = [start + (size - 1) * stride + 1 for start, (size, stride) in zip(starts, sizes, strict=True)]
    return write.slice(source, starts, limits, ranges.strides, shape=instruction.shape)


# -- pad


@REWRITES.rule(opcodes.PAD)
def pad_of_empty_operand(write: Writer, instruction: Instruction) -> Instruction | None:
    """Padding of an operand without elements -> the padding value everywhere."""
    operand, value = instruction.operands
    return None if operand.shape.size else write.broadcast(value, instruction.shape)


@REWRITES.rule(opcodes.PAD)
def pad_by_zero(write: Writer, instruction: Instruction) -> Instruction | None:
    """No padding at all -> the operand."""
    config = instruction.attributes_as(PadAttributes).padding.dimensions
    has_edges = any(each.low or each.high for each in config)
    return None if has_edges or _has_interior_padding(instruction) else instruction.operands[0]


def _has_interior_padding(pad: Instruction) -> bool:
    pairs = zip(pad.attributes_as(PadAttributes).padding.dimensions, pad.operands[0].shape.dimensions, strict=True)
    return any(each.interior and size > 1 for each, size in pairs)


@REWRITES.rule(opcodes.PAD)
def pad_by_negative_edges(write: Writer, instruction: Instruction) -> Instruction | None:
    """Padding that only crops -> a slice."""
    operand = instruction.operands[0]
    config = instruction.attributes_as(PadAttributes).padding.dimensions
    if _has_interior_padding(instruction) or any(each.low > 0 or each.high > 0 for each in config):
        return None
    limits = [size + each.high for size, each in zip(operand.shape.dimensions, config, strict=True)]
    starts = [-each.low for each in config]
    if any(start > limit for start, limit in zip(starts, limits, strict=True)):
        return None
    return write.slice(operand, starts, limits, shape=instruction.shape)


@REWRITES.rule(opcodes.PAD)
def pad_of_pad(write: Writer, instruction: Instruction) -> Instruction | None:
    """A pad of a pad with the same value -> one pad, unless either has interior or negative padding."""
    operand, value = instruction.operands
    if operand.op is not opcodes.PAD or operand.operands[1] is not value or not has_one_user(operand):
        return None
    pairs = list(
        zip(
            operand.attributes_as(PadAttributes).padding.dimensions,
            instruction.attributes_as(PadAttributes).padding.dimensions,
            strict=True,
        )
    )
    if any(min(a.low, a.high, b.low, b.high) < 0 or a.interior or b.interior for a, b in pairs):
        return None
    edges = tuple(PaddingDimension(a.low + b.low, a.high + b.high) for a, b in pairs)
    attributes = PadAttributes.make(padding=PaddingConfig(edges))
    return write.add(opcodes.PAD, operand.operands[0], value, attributes=attributes, shape=instruction.shape)


# -- concatenate


@REWRITES.rule(opcodes.CONCATENATE)
def concatenate_without_empty_operands(write: Writer, instruction: Instruction) -> Instruction | None:
    """Removes operands without elements; a concatenate of a single operand -> the operand."""
    operands, dimension = instruction.operands, instruction.dimension
    kept = [operand for operand in operands if operand.shape.dimensions[dimension]]
    if not kept:
        return None if len(operands) == 1 else operands[0]
    if len(kept) == 1:
        return kept[0]
    return None if len(kept) == len(operands) else _concatenation(write, instruction, kept)


def _concatenation(write: Writer, instruction: Instruction, operands: Sequence[Instruction]) -> Instruction:
    if len(operands) == 1 and operands[0].shape.dimensions == instruction.shape.dimensions:
        return operands[0]
    return write.add(opcodes.CONCATENATE, *operands, attributes=instruction.attributes, shape=instruction.shape)


@REWRITES.rule(opcodes.CONCATENATE)
def concatenate_of_concatenates(write: Writer, instruction: Instruction) -> Instruction | None:
    """concatenate(concatenate(a, b), c) -> concatenate(a, b, c), if the inner one has a single user."""
    operands: list[Instruction] = []
    for operand in instruction.operands:
        same = operand.op is opcodes.CONCATENATE and operand.attributes == instruction.attributes
        operands += operand.operands if same and has_one_user(operand) else [operand]
    return None if tuple(operands) == instruction.operands else _concatenation(write, instruction, operands)


@REWRITES.rule(opcodes.CONCATENATE)
def concatenate_of_adjacent_slices(write: Writer, instruction: Instruction) -> Instruction | None:
    """A concatenate of adjacent slices of one array -> one slice."""
    dimension = instruction.dimension
    operands: list[Instruction] = [instruction.operands[0]]
    for operand in instruction.operands[1:]:
        joined = _joined_slice(write, operands[-1], operand, dimension)
        if joined is None:
            operands.append(operand)
        else:
            operands[-1] = joined
    return _concatenation(write, instruction, operands) if write.created else None


def _joined_slice(write: Writer, first: Instruction, second: Instruction, dimension: int) -> Instruction | None:
    if first.op is not opcodes.SLICE or second.op is not opcodes.SLICE or first.operands != second.operands:
        return None
    a, b = first.attributes_as(SliceAttributes).ranges, second.attributes_as(SliceAttributes).ranges
    steps_of_one = {*a.strides, *b.strides} == {1}
    if not steps_of_one or a.limits[dimension] != b.starts[dimension]:
        return None
    others = [d for d in range(first.shape.rank) if d != dimension]
    if any((a.starts[d], a.limits[d]) != (b.starts[d], b.limits[d]) for d in others):
        return None
    limits = [b.limits[d] if d == dimension else a.limits[d] for d in range(first.shape.rank)]
    return write.slice(first.operands[0], a.starts, limits)


@REWRITES.rule(opcodes.CONCATENATE)
def concatenate_of_equal_broadcasts(write: Writer, instruction: Instruction) -> Instruction | None:
    """A concatenate of broadcasts of one scalar -> one broadcast."""
    source = broadcast_scalar_of(instruction.operands[0])
    if source is None or any(broadcast_scalar_of(operand) is not source for operand in instruction.operands):
        return None
    return write.broadcast(source, instruction.shape)


# -- indices known at compile time


def known_starts(indices: Sequence[Instruction], last_starts: Sequence[int]) -> list[int] | None:
    """Returns constant start indices, clamped to [0, last start]; None if one matters and is unknown."""
    if len(indices) != len(last_starts):
        return None
    starts: list[int] = []
    for index, last_start in zip(indices, last_starts, strict=True):
        value = 0 if last_start == 0 else scalar_integer(index)
        if value is None or index.shape.rank:
            return None
        starts.append(min(max(value, 0), last_start))
    return starts


@REWRITES.rule(opcodes.DYNAMIC_SLICE)
def dynamic_slice_of_all_elements(write: Writer, instruction: Instruction) -> Instruction | None:
    """A dynamic slice that takes all elements -> its operand."""
    operand = instruction.operands[0]
    return operand if operand.shape.dimensions == instruction.shape.dimensions else None


@REWRITES.rule(opcodes.DYNAMIC_SLICE)
def dynamic_slice_at_constant_indices(write: Writer, instruction: Instruction) -> Instruction | None:
    """A dynamic slice at constant start indices -> a slice."""
    operand, *indices = instruction.operands
    sizes = instruction.attributes_as(DynamicSliceAttributes).dynamic_slice_sizes
    last_starts = [whole - size for whole, size in zip(operand.shape.dimensions, sizes, strict=True)]
    starts = known_starts(indices, last_starts)
    if starts is None:
        return None
    limits = [start + size for start, size in zip(starts, sizes, strict=True)]
    return write.slice(operand, starts, limits, shape=instruction.shape)


@REWRITES.rule(opcodes.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice_of_all_elements(write: Writer, instruction: Instruction) -> Instruction | None:
    """An update of all elements -> the update."""
    operand, update = instruction.operands[:2]
    return update if update.shape.dimensions == operand.shape.dimensions else None


@REWRITES.rule(opcodes.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice_without_elements(write: Writer, instruction: Instruction) -> Instruction | None:
    """An update without elements -> the operand."""
    operand, update = instruction.operands[:2]
    return None if update.shape.size else operand


@REWRITES.rule(opcodes.DYNAMIC_UPDATE_SLICE)
def dynamic_update_slice_with_old_contents(write: Writer, instruction: Instruction) -> Instruction | None:
    """An update with the slice of the operand at the same indices -> the operand."""
    operand, update, *indices = instruction.operands
    return operand if update.op is opcodes.DYNAMIC_SLICE and update.operands == (operand, *indices) else None


@REWRITES.rule(opcodes.GET_DIMENSION_SIZE)
def get_dimension_size_of_static(write: Writer, instruction: Instruction) -> Instruction | None:
    """The size of a static dimension -> a constant."""
    size = instruction.operands[0].shape.dimensions[instruction.dimension]
    return same_scalar(write, size, instruction.shape)


def same_scalar(write: Writer, value: int, shape: Shape) -> Instruction:
    return write.constant(Literal.of(value, shape.element_type), shape)


@REWRITES.rule(opcodes.SHUFFLE)
def shuffle_by_zero_rotation(write: Writer, instruction: Instruction) -> Instruction | None:
    """A rotation of each dimension by a multiple of its size -> the operand."""
    (operand,) = instruction.operands
    attributes = instruction.attributes_as(ShuffleAttributes)
    if attributes.mode is not ShuffleMode.ROTATE:
        return None
    sizes = [max(1, operand.shape.dimensions[d]) for d in instruction.dimensions]
    return None if any(shift % size for shift, size in zip(attributes.shifts, sizes, strict=True)) else operand
