"""Rewrites of gathers with constant indices, and of gathers and scatters without elements.

Does not depend on the computation of a scatter.
"""

from __future__ import annotations

from math import prod

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.indexing import GatherAttributes
from xlapy.passes.algebra.core import REWRITES, known_array
from xlapy.passes.rewrite import Writer


@REWRITES.rule(opcodes.GATHER)
def gather_at_one_constant_index(write: Writer, instruction: Instruction) -> Instruction | None:
    """A gather with one constant index vector -> a reshaped slice at its clamped indices."""
    operand, indices = instruction.operands
    attributes = instruction.attributes_as(GatherAttributes)
    if attributes.operand_batching_dims or not instruction.shape.size:
        return None
    vector = known_array(indices)
    if vector is None or vector.size != len(attributes.start_index_map):
        return None
    starts = [0] * operand.shape.rank
    for component, dimension in zip(vector.reshape(-1), attributes.start_index_map, strict=True):
        last_start = operand.shape.dimensions[dimension] - attributes.slice_sizes[dimension]
        starts[dimension] = min(max(int(component), 0), last_start)
    limits = [start + size for start, size in zip(starts, attributes.slice_sizes, strict=True)]
    return write.reshape(write.slice(operand, starts, limits), instruction.shape)


@REWRITES.rule(opcodes.GATHER)
def gather_of_broadcast_scalar(write: Writer, instruction: Instruction) -> Instruction | None:
    """A gather from a broadcast scalar -> a broadcast of the scalar, whatever the indices."""
    source = instruction.operands[0]
    if source.op is not opcodes.BROADCAST or source.operands[0].shape.rank or not source.shape.size:
        return None
    return write.broadcast(source.operands[0], instruction.shape)


@REWRITES.rule(opcodes.SCATTER)
def scatter_without_updates(write: Writer, instruction: Instruction) -> Instruction | None:
    """A scatter without updates -> its operands."""
    count = len(instruction.operands) // 2
    if prod(instruction.operands[count + 1].shape.dimensions):
        return None
    operands = instruction.operands[:count]
    return write.add(opcodes.TUPLE, *operands, shape=instruction.shape) if instruction.shape.is_tuple else operands[0]


@REWRITES.rule(opcodes.SELECT_AND_SCATTER)
def select_and_scatter_without_source(write: Writer, instruction: Instruction) -> Instruction | None:
    """A select-and-scatter without source elements -> the initial value everywhere."""
    _, source, init = instruction.operands
    return None if source.shape.size else write.broadcast(init, instruction.shape)
