"""Rewrites of broadcasts and iotas, and of data movement applied to them."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.movement import SliceAttributes
from xlapy.opcodes.sources import IotaAttributes
from xlapy.passes.algebra.core import REWRITES
from xlapy.passes.rewrite import Writer


@REWRITES.rule(opcodes.BROADCAST)
def broadcast_without_repetition(write: Writer, instruction: Instruction) -> Instruction | None:
    """A broadcast that repeats no element -> its operand, a transpose, or a reshape."""
    (operand,) = instruction.operands
    dimensions = instruction.dimensions
    if operand.shape.size != instruction.shape.size or not instruction.shape.size:
        return None
    if list(dimensions) == sorted(dimensions):
        return operand if operand.shape.rank == instruction.shape.rank else write.reshape(operand, instruction.shape)
    if operand.shape.rank != instruction.shape.rank:
        return None
    permutation = [dimensions.index(d) for d in range(instruction.shape.rank)]
    return write.transpose(operand, permutation, instruction.shape)


@REWRITES.rule(opcodes.BROADCAST)
def broadcast_of_broadcast_or_transpose(write: Writer, instruction: Instruction) -> Instruction | None:
    """A broadcast of a broadcast -> one broadcast; of a transpose -> a broadcast with permuted dimensions."""
    (operand,) = instruction.operands
    if operand.op is opcodes.BROADCAST:
        dimensions = [instruction.dimensions[d] for d in operand.dimensions]
        return write.broadcast(operand.operands[0], instruction.shape, dimensions)
    if operand.op is opcodes.TRANSPOSE:
        source = operand.operands[0]
        dimensions = [instruction.dimensions[operand.dimensions.index(d)] for d in range(source.shape.rank)]
        return write.broadcast(source, instruction.shape, dimensions)
    return None


@REWRITES.rule(opcodes.BROADCAST)
def broadcast_of_inserted_dimensions(write: Writer, instruction: Instruction) -> Instruction | None:
    """A broadcast of a reshape that only inserted dimensions of size 1 -> a broadcast of the reshape's operand."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.RESHAPE or operand.operands[0].shape.rank >= operand.shape.rank:
        return None
    kept = [d for d, size in enumerate(operand.shape.dimensions) if size != 1]
    source = operand.operands[0]
    if source.shape.dimensions != tuple(operand.shape.dimensions[d] for d in kept):
        return None
    return write.broadcast(source, instruction.shape, [instruction.dimensions[d] for d in kept])


@REWRITES.rule(opcodes.TRANSPOSE)
def transpose_of_broadcast(write: Writer, instruction: Instruction) -> Instruction | None:
    """A transpose of a broadcast -> a broadcast to the permuted dimensions."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.BROADCAST:
        return None
    dimensions = [instruction.dimensions.index(d) for d in operand.dimensions]
    return write.broadcast(operand.operands[0], instruction.shape, dimensions)


@REWRITES.rule(opcodes.RESHAPE)
def reshape_of_broadcast_scalar(write: Writer, instruction: Instruction) -> Instruction | None:
    """A reshape of a broadcast scalar -> a broadcast of the scalar."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.BROADCAST or operand.operands[0].shape.rank:
        return None
    return write.broadcast(operand.operands[0], instruction.shape)


@REWRITES.rule(opcodes.REVERSE)
def reverse_of_broadcast(write: Writer, instruction: Instruction) -> Instruction | None:
    """A reverse of dimensions along which a broadcast repeats its operand -> the broadcast."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.BROADCAST or set(operand.dimensions) & set(instruction.dimensions):
        return None
    return operand


@REWRITES.rule(opcodes.SLICE, opcodes.DYNAMIC_SLICE)
def slice_of_broadcast(write: Writer, instruction: Instruction) -> Instruction | None:
    """A slice of a broadcast -> a smaller broadcast, if the slice takes all elements of the operand's dimensions."""
    operand = instruction.operands[0]
    if operand.op is not opcodes.BROADCAST:
        return None
    if any(operand.shape.dimensions[d] != instruction.shape.dimensions[d] for d in operand.dimensions):
        return None
    return write.broadcast(operand.operands[0], instruction.shape, operand.dimensions)


@REWRITES.rule(opcodes.PAD)
def pad_of_broadcast_padding_value(write: Writer, instruction: Instruction) -> Instruction | None:
    """A broadcast of the padding value, padded -> a larger broadcast of the value."""
    operand, value = instruction.operands
    if operand.op is not opcodes.BROADCAST or operand.operands[0] is not value:
        return None
    return write.broadcast(value, instruction.shape)


@REWRITES.rule(opcodes.SLICE)
def slice_of_iota(write: Writer, instruction: Instruction) -> Instruction | None:
    """A slice that takes the first elements of the iota dimension -> a smaller iota."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.IOTA or not instruction.shape.size:
        return None
    dimension, ranges = (
        operand.attributes_as(IotaAttributes).iota_dimension,
        instruction.attributes_as(SliceAttributes).ranges,
    )
    if ranges.starts[dimension] or ranges.strides[dimension] != 1:
        return None
    attributes = IotaAttributes.make(iota_dimension=dimension)
    return write.add(opcodes.IOTA, attributes=attributes, shape=instruction.shape)


@REWRITES.rule(opcodes.TRANSPOSE)
def transpose_of_iota(write: Writer, instruction: Instruction) -> Instruction | None:
    """A transpose of an iota -> an iota along the permuted dimension."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.IOTA:
        return None
    attributes = IotaAttributes.make(
        iota_dimension=instruction.dimensions.index(operand.attributes_as(IotaAttributes).iota_dimension)
    )
    return write.add(opcodes.IOTA, attributes=attributes, shape=instruction.shape)


@REWRITES.rule(opcodes.IOTA)
def iota_of_unit_dimension(write: Writer, instruction: Instruction) -> Instruction | None:
    """An iota along a dimension of at most one element -> zeros."""
    size = instruction.shape.dimensions[instruction.attributes_as(IotaAttributes).iota_dimension]
    return write.splat(0, instruction.shape) if size <= 1 else None
