"""Rewrites of operations that move elements.

Must not know: what is computed with the elements; what broadcasts become under movement (`movement_of_broadcasts`).
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension, SliceRanges
from xlapy.opcodes.movement import DimensionsAttributes, PadAttributes, ShuffleMode
from xlapy.passes.algebra.core import REWRITES, has_one_user, scalar_integer, splat_source
from xlapy.passes.rewrite import Writer

# -- reshape, transpose, reverse, copy, bitcast


@REWRITES.rule(opcodes.RESHAPE)
def reshape_to_itself(write: Writer, instruction: Instruction) -> Instruction | None:
    """A reshape to the same dimensions -> its operand; of a reshape -> one reshape."""
    (operand,) = instruction.operands
    if operand.shape.dimensions == instruction.shape.dimensions:
        return operand
    if operand.op is opcodes.RESHAPE:
        return write.reshape(operand.operands[0], instruction.shape)
    return None


@REWRITES.rule(opcodes.TRANSPOSE)
def transpose_in_place(write: Writer, instruction: Instruction) -> Instruction | None:
    """The identity -> its operand; a transpose that moves dimensions of size 1 only -> a reshape."""
    (operand,) = instruction.operands
    permutation = instruction.dimensions
    if list(permutation) == sorted(permutation):
        return operand
    moved = [d for d in permutation if operand.shape.dimensions[d] != 1]
    return write.reshape(operand, instruction.shape) if moved == sorted(moved) else None


@REWRITES.rule(opcodes.TRANSPOSE)
def transpose_twice(write: Writer, instruction: Instruction) -> Instruction | None:
    """A transpose of a transpose -> one."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.TRANSPOSE:
        return None
    permutation = [operand.dimensions[d] for d in instruction.dimensions]
    return write.transpose(operand.operands[0], permutation, instruction.shape)


@REWRITES.rule(opcodes.REVERSE)
def reverse_nothing(write: Writer, instruction: Instruction) -> Instruction | None:
    """Dimensions of one element or none are not reversed; reversed twice they stand as they were."""
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
def copy_of_the_same(write: Writer, instruction: Instruction) -> Instruction | None:
    """A copy in the layout of its operand -> its operand; a copy of a copy -> one."""
    (operand,) = instruction.operands
    if operand.shape == instruction.shape:
        return operand
    if operand.op is opcodes.COPY:
        return write.add(opcodes.COPY, operand.operands[0], shape=instruction.shape)
    return None


@REWRITES.rule(opcodes.BITCAST)
def bitcast_twice(write: Writer, instruction: Instruction) -> Instruction | None:
    """A bitcast to the same shape and layout -> its operand; of a bitcast -> one."""
    (operand,) = instruction.operands
    if operand.shape == instruction.shape:
        return operand
    if operand.op is opcodes.BITCAST:
        return write.add(opcodes.BITCAST, operand.operands[0], shape=instruction.shape)
    return None


# -- slice


@REWRITES.rule(opcodes.SLICE)
def slice_of_everything(write: Writer, instruction: Instruction) -> Instruction | None:
    """A slice that takes all -> its operand; of a slice -> one."""
    (operand,) = instruction.operands
    if operand.shape.dimensions == instruction.shape.dimensions:
        return operand
    if operand.op is not opcodes.SLICE:
        return None
    outer, inner = instruction.ranges, operand.ranges
    starts, limits, strides = [], [], []
    for d, size in enumerate(instruction.shape.dimensions):
        stride = outer.strides[d] * inner.strides[d]
        start = inner.starts[d] + outer.starts[d] * inner.strides[d]
        starts.append(start if size else 0)
        limits.append(start + (size - 1) * stride + 1 if size else 0)
        strides.append(stride)
    return write.slice(operand.operands[0], starts, limits, strides, shape=instruction.shape)


def _moved(ranges: SliceRanges, dimension: int, by: int) -> tuple[list[int], list[int]]:
    """Starts and limits with those of one dimension moved."""
    starts, limits = list(ranges.starts), list(ranges.limits)
    starts[dimension] += by
    limits[dimension] += by
    return starts, limits


@REWRITES.rule(opcodes.SLICE)
def slice_of_concatenation(write: Writer, instruction: Instruction) -> Instruction | None:
    """A slice that lies in one operand of a concatenation -> a slice of that operand."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.CONCATENATE or not instruction.shape.size:
        return None
    dimension, offset, ranges = operand.dimension, 0, instruction.ranges
    for part in operand.operands:
        size = part.shape.dimensions[dimension]
        if offset <= ranges.starts[dimension] and ranges.limits[dimension] <= offset + size:
            starts, limits = _moved(ranges, dimension, -offset)
            return write.slice(part, starts, limits, ranges.strides, shape=instruction.shape)
        offset += size
    return None


@REWRITES.rule(opcodes.SLICE)
def slice_of_padding(write: Writer, instruction: Instruction) -> Instruction | None:
    """A slice that misses all padding -> a slice of what was padded; one of padding alone -> the padding value."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.PAD or not instruction.shape.size:
        return None
    source, value = operand.operands
    ranges, config = instruction.ranges, operand.padding.dimensions
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
def pad_nothing(write: Writer, instruction: Instruction) -> Instruction | None:
    """No padding -> the operand; padding of nothing -> the padding value; edges that only crop -> a slice."""
    operand, value = instruction.operands
    config = instruction.padding.dimensions
    if not operand.shape.size:
        return write.broadcast(value, instruction.shape)
    if any(each.interior and size > 1 for each, size in zip(config, operand.shape.dimensions, strict=True)):
        return None
    if not any(each.low or each.high for each in config):
        return operand
    if any(each.low > 0 or each.high > 0 for each in config):
        return None
    limits = [size + each.high for size, each in zip(operand.shape.dimensions, config, strict=True)]
    starts = [-each.low for each in config]
    if any(start > limit for start, limit in zip(starts, limits, strict=True)):
        return None
    return write.slice(operand, starts, limits, shape=instruction.shape)


@REWRITES.rule(opcodes.PAD)
def pad_twice(write: Writer, instruction: Instruction) -> Instruction | None:
    """Edges around edges of the same value -> edges."""
    operand, value = instruction.operands
    if operand.op is not opcodes.PAD or operand.operands[1] is not value or not has_one_user(operand):
        return None
    pairs = list(zip(operand.padding.dimensions, instruction.padding.dimensions, strict=True))
    if any(min(a.low, a.high, b.low, b.high) < 0 or a.interior or b.interior for a, b in pairs):
        return None
    edges = tuple(PaddingDimension(a.low + b.low, a.high + b.high) for a, b in pairs)
    attributes = PadAttributes.make(padding=PaddingConfig(edges))
    return write.add(opcodes.PAD, operand.operands[0], value, attributes=attributes, shape=instruction.shape)


# -- concatenate


@REWRITES.rule(opcodes.CONCATENATE)
def concatenate_little(write: Writer, instruction: Instruction) -> Instruction | None:
    """Operands without elements go; a single operand is the result."""
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
def concatenate_concatenations(write: Writer, instruction: Instruction) -> Instruction | None:
    """Concatenations of the same dimension that nobody else uses are taken apart."""
    operands: list[Instruction] = []
    for operand in instruction.operands:
        same = operand.op is opcodes.CONCATENATE and operand.attributes == instruction.attributes
        operands += operand.operands if same and has_one_user(operand) else [operand]
    return None if tuple(operands) == instruction.operands else _concatenation(write, instruction, operands)


@REWRITES.rule(opcodes.CONCATENATE)
def concatenate_neighbours(write: Writer, instruction: Instruction) -> Instruction | None:
    """Slices that follow each other in one array -> one slice."""
    dimension = instruction.dimension
    operands: list[Instruction] = [instruction.operands[0]]
    for operand in instruction.operands[1:]:
        joined = _joined_slice(write, operands[-1], operand, dimension)
        if joined is None:
            operands.append(operand)
        else:
            operands[-1] = joined
    return _concatenation(write, instruction, operands) if write.made else None


def _joined_slice(write: Writer, first: Instruction, second: Instruction, dimension: int) -> Instruction | None:
    if first.op is not opcodes.SLICE or second.op is not opcodes.SLICE or first.operands != second.operands:
        return None
    a, b = first.ranges, second.ranges
    steps_of_one = {*a.strides, *b.strides} == {1}
    if not steps_of_one or a.limits[dimension] != b.starts[dimension]:
        return None
    others = [d for d in range(first.shape.rank) if d != dimension]
    if any((a.starts[d], a.limits[d]) != (b.starts[d], b.limits[d]) for d in others):
        return None
    limits = [b.limits[d] if d == dimension else a.limits[d] for d in range(first.shape.rank)]
    return write.slice(first.operands[0], a.starts, limits)


@REWRITES.rule(opcodes.CONCATENATE)
def concatenate_repeated(write: Writer, instruction: Instruction) -> Instruction | None:
    """Operands that all repeat one scalar -> the scalar repeated."""
    source = splat_source(instruction.operands[0])
    if source is None or any(splat_source(operand) is not source for operand in instruction.operands):
        return None
    return write.broadcast(source, instruction.shape)


# -- positions known when the program is compiled


def known_starts(indices: Sequence[Instruction], room: Sequence[int]) -> list[int] | None:
    """Constant start indices, each clamped to [0, room]; where there is no room a start needs not be known."""
    if len(indices) != len(room):
        return None
    starts: list[int] = []
    for index, most in zip(indices, room, strict=True):
        value = 0 if most == 0 else scalar_integer(index)
        if value is None or index.shape.rank:
            return None
        starts.append(min(max(value, 0), most))
    return starts


@REWRITES.rule(opcodes.DYNAMIC_SLICE)
def dynamic_slice_at_known_place(write: Writer, instruction: Instruction) -> Instruction | None:
    """Constant start indices -> a slice; all of the operand -> the operand."""
    operand, *indices = instruction.operands
    sizes = instruction.dynamic_slice_sizes
    if operand.shape.dimensions == instruction.shape.dimensions:
        return operand
    room = [whole - size for whole, size in zip(operand.shape.dimensions, sizes, strict=True)]
    starts = known_starts(indices, room)
    if starts is None:
        return None
    limits = [start + size for start, size in zip(starts, sizes, strict=True)]
    return write.slice(operand, starts, limits, shape=instruction.shape)


@REWRITES.rule(opcodes.DYNAMIC_UPDATE_SLICE)
def dynamic_update_of_everything(write: Writer, instruction: Instruction) -> Instruction | None:
    """An update of the whole operand -> the update; of nothing -> the operand; with what stood there -> the operand."""
    operand, update, *indices = instruction.operands
    if update.shape.dimensions == operand.shape.dimensions:
        return update
    if not update.shape.size:
        return operand
    put_back = update.op is opcodes.DYNAMIC_SLICE and update.operands == (operand, *indices)
    return operand if put_back else None


@REWRITES.rule(opcodes.GET_DIMENSION_SIZE)
def known_dimension_size(write: Writer, instruction: Instruction) -> Instruction | None:
    """The size of a static dimension -> a constant."""
    size = instruction.operands[0].shape.dimensions[instruction.dimension]
    return same_scalar(write, size, instruction.shape)


def same_scalar(write: Writer, value: int, shape: Shape) -> Instruction:
    return write.literal(Literal.of(value, shape.element_type), shape)


@REWRITES.rule(opcodes.SHUFFLE)
def shuffle_nothing(write: Writer, instruction: Instruction) -> Instruction | None:
    """A rotation of no dimension, or by multiples of their sizes -> the operand."""
    (operand,) = instruction.operands
    if instruction.mode is not ShuffleMode.ROTATE:
        return None
    sizes = [max(1, operand.shape.dimensions[d]) for d in instruction.dimensions]
    return None if any(shift % size for shift, size in zip(instruction.shifts, sizes, strict=True)) else operand
