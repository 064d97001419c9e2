"""Expansion of asynchronous calls into synchronous ones."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import called_computations, computation_post_order
from xlapy.passes.expand.chains import chain_of, remove_chain
from xlapy.passes.expand.core import EXPANSIONS
from xlapy.passes.rewrite import Writer, remove_uncalled_computations

EXPANSIONS.refuse(
    "it is expanded with the async-done at the end of its chain", opcodes.ASYNC_START, opcodes.ASYNC_UPDATE
)


@EXPANSIONS.rule(opcodes.ASYNC_DONE)
def async_done(write: Writer, instruction: Instruction) -> Instruction:
    """A synchronous call, with all operands of the chain, on the thread of the done."""
    chain = chain_of(instruction)
    operands = [*chain[0].operands, *(operand for update in chain[1:] for operand in update.operands[1:])]
    (called,) = chain[0].computations
    call = write.add(opcodes.CALL, *operands, computations=[_on_thread(called, write.computation)])
    remove_chain(chain, instruction, call)
    remove_uncalled_computations([called])
    return call


def _on_thread(called: Computation, caller: Computation) -> Computation:
    """Returns the computation if it runs on the caller's thread, else a copy of it and its callees that does."""
    module = caller.module
    assert module is not None
    if called.execution_thread == caller.execution_thread:
        return called
    reached, pending = {called}, [called]
    while pending:
        found = [c for c in called_computations(pending.pop()) if c not in reached]
        reached.update(found)
        pending += found
    copies: dict[Computation, Computation] = {}
    for computation in computation_post_order(module):
        if computation in reached:
            copies[computation] = edit.clone_computation(computation, module, copies)
            copies[computation].execution_thread = caller.execution_thread
    return copies[called]
