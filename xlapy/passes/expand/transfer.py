"""Expansion of asynchronous copies into synchronous ones."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.passes.expand.chains import chain_of, remove_chain
from xlapy.passes.expand.core import EXPANSIONS
from xlapy.passes.rewrite import Writer

EXPANSIONS.refuse("it is expanded with the copy-done that waits for it", opcodes.COPY_START)


@EXPANSIONS.rule(opcodes.COPY_DONE)
def copy_done(write: Writer, instruction: Instruction) -> Instruction:
    """A synchronous copy with the shape and layout of the copy-done."""
    chain = chain_of(instruction)
    copy = write.add(opcodes.COPY, chain[0].operands[0], shape=instruction.shape)
    remove_chain(chain, instruction, copy)
    return copy
