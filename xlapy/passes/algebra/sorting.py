"""Rewrites of sorts. Does not depend on comparators."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.passes.algebra.core import REWRITES
from xlapy.passes.rewrite import Writer


@REWRITES.rule(opcodes.SORT)
def sort_of_at_most_one_element(write: Writer, instruction: Instruction) -> Instruction | None:
    """A sort along a dimension of at most one element -> its operands."""
    operands = instruction.operands
    if operands[0].shape.dimensions[instruction.dimension] > 1:
        return None
    return write.add(opcodes.TUPLE, *operands, shape=instruction.shape) if instruction.shape.is_tuple else operands[0]
