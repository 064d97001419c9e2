"""Rewrites of sorts. Must not know: comparators."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.passes.algebra.core import REWRITES
from xlapy.passes.rewrite import Writer


@REWRITES.rule(opcodes.SORT)
def sort_at_most_one(write: Writer, instruction: Instruction) -> Instruction | None:
    """A dimension of one element or none is in order already."""
    operands = instruction.operands
    if operands[0].shape.dimensions[instruction.dimension] > 1:
        return None
    return write.add(opcodes.TUPLE, *operands, shape=instruction.shape) if instruction.shape.is_tuple else operands[0]
