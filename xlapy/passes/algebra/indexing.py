"""Rewrites of gathers and scatters whose positions are known, or that touch nothing.

Must not know: what a scatter combines.
"""

from __future__ import annotations

from math import prod

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.passes.algebra.core import REWRITES, known_array
from xlapy.passes.rewrite import Writer


@REWRITES.rule(opcodes.GATHER)
def gather_one_slice(write: Writer, instruction: Instruction) -> Instruction | None:
    """One known index vector -> a slice at its clamped position, reshaped."""
    operand, indices = instruction.operands
    attributes = instruction.attributes
    if attributes.operand_batching_dims or not instruction.shape.size:
        return None
    vector = known_array(indices)
    if vector is None or vector.size != len(attributes.start_index_map):
        return None
    starts = [0] * operand.shape.rank
    for component, dimension in zip(vector.reshape(-1), attributes.start_index_map, strict=True):
        room = operand.shape.dimensions[dimension] - attributes.slice_sizes[dimension]
        starts[dimension] = min(max(int(component), 0), room)
    limits = [start + size for start, size in zip(starts, attributes.slice_sizes, strict=True)]
    return write.reshape(write.slice(operand, starts, limits), instruction.shape)


@REWRITES.rule(opcodes.GATHER)
def gather_of_repeated(write: Writer, instruction: Instruction) -> Instruction | None:
    """A gather from elements that are all one scalar -> the scalar repeated, wherever it reads."""
    source = instruction.operands[0]
    if source.op is not opcodes.BROADCAST or source.operands[0].shape.rank or not source.shape.size:
        return None
    return write.broadcast(source.operands[0], instruction.shape)


@REWRITES.rule(opcodes.SCATTER)
def scatter_nothing(write: Writer, instruction: Instruction) -> Instruction | None:
    """No updates -> the operands."""
    count = len(instruction.operands) // 2
    if prod(instruction.operands[count + 1].shape.dimensions):
        return None
    operands = instruction.operands[:count]
    return write.add(opcodes.TUPLE, *operands, shape=instruction.shape) if instruction.shape.is_tuple else operands[0]


@REWRITES.rule(opcodes.SELECT_AND_SCATTER)
def select_and_scatter_nothing(write: Writer, instruction: Instruction) -> Instruction | None:
    """No source values -> the initial value everywhere."""
    _, source, init = instruction.operands
    return None if source.shape.size else write.broadcast(init, instruction.shape)
