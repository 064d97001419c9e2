"""Rewrites of broadcasts, and of movement of repeated elements.

Must not know: what is computed with the elements.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.sources import IotaAttributes
from xlapy.passes.algebra.core import REWRITES
from xlapy.passes.rewrite import Writer


@REWRITES.rule(opcodes.BROADCAST)
def broadcast_of_the_same(write: Writer, instruction: Instruction) -> Instruction | None:
    """A broadcast that repeats nothing -> its operand, a transpose, or a reshape."""
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
def broadcast_twice(write: Writer, instruction: Instruction) -> Instruction | None:
    """A broadcast of a broadcast -> one; of a transpose -> a broadcast in another order."""
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
    """A broadcast of a reshape that only inserted dimensions of size 1 -> a broadcast of what was reshaped."""
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
def reshape_of_broadcast(write: Writer, instruction: Instruction) -> Instruction | None:
    """A reshape of a repeated scalar -> the scalar repeated."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.BROADCAST or operand.operands[0].shape.rank:
        return None
    return write.broadcast(operand.operands[0], instruction.shape)


@REWRITES.rule(opcodes.REVERSE)
def reverse_of_broadcast(write: Writer, instruction: Instruction) -> Instruction | None:
    """Reversing dimensions along which all elements are equal changes nothing."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.BROADCAST or set(operand.dimensions) & set(instruction.dimensions):
        return None
    return operand


@REWRITES.rule(opcodes.SLICE, opcodes.DYNAMIC_SLICE)
def slice_of_broadcast(write: Writer, instruction: Instruction) -> Instruction | None:
    """A slice of repeated elements -> fewer of them, wherever it lies; along dimensions that it takes whole they may
    differ."""
    operand = instruction.operands[0]
    if operand.op is not opcodes.BROADCAST:
        return None
    if any(operand.shape.dimensions[d] != instruction.shape.dimensions[d] for d in operand.dimensions):
        return None
    return write.broadcast(operand.operands[0], instruction.shape, operand.dimensions)


@REWRITES.rule(opcodes.PAD)
def pad_of_padding(write: Writer, instruction: Instruction) -> Instruction | None:
    """The padding value around itself -> the value repeated."""
    operand, value = instruction.operands
    if operand.op is not opcodes.BROADCAST or operand.operands[0] is not value:
        return None
    return write.broadcast(value, instruction.shape)


@REWRITES.rule(opcodes.SLICE)
def slice_of_iota(write: Writer, instruction: Instruction) -> Instruction | None:
    """A slice from the start of the counted dimension -> a smaller iota."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.IOTA or not instruction.shape.size:
        return None
    dimension, ranges = operand.iota_dimension, instruction.ranges
    if ranges.starts[dimension] or ranges.strides[dimension] != 1:
        return None
    attributes = IotaAttributes.make(iota_dimension=dimension)
    return write.add(opcodes.IOTA, attributes=attributes, shape=instruction.shape)


@REWRITES.rule(opcodes.TRANSPOSE)
def transpose_of_iota(write: Writer, instruction: Instruction) -> Instruction | None:
    """A transpose of an iota -> an iota of the dimension that the counted one became."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.IOTA:
        return None
    attributes = IotaAttributes.make(iota_dimension=instruction.dimensions.index(operand.iota_dimension))
    return write.add(opcodes.IOTA, attributes=attributes, shape=instruction.shape)


@REWRITES.rule(opcodes.IOTA)
def iota_of_one(write: Writer, instruction: Instruction) -> Instruction | None:
    """Counting up to one -> zeros."""
    counted = instruction.shape.dimensions[instruction.iota_dimension]
    return write.filled(0, instruction.shape) if counted <= 1 else None
