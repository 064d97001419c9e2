"""Lowers the chains of async-start, async-update and async-done that call one collective.

The collective begins at the start and ends at the done. If it falls back to the host, or others share its channel, it
runs as a whole at the done. Its operands stay unchanged until then.

Responsible for the chains, and for which of them stay asynchronous. Does not depend on what collectives exchange.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.analysis.aliasing import array_leaves, is_row_major
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.builder import THUNK_RULES, LoweringContext
from xlapy.cpu.program.communication.collective_parts import Collective, finish_pending, lower_start
from xlapy.cpu.program.communication.collective_thunks import LOWERINGS, rendezvous_of
from xlapy.hlo.computation import Computation, is_parameter
from xlapy.hlo.instruction import Instruction


def is_overlapping(done: Instruction) -> bool:
    """Whether an instruction is an async-done whose collective can run between start and done: the chain calls one
    collective of static row-major arrays, and binds all operands at its start."""
    if done.op is not opcodes.ASYNC_DONE:
        return False
    chain = [done.operands[0]]
    while chain[-1].op is opcodes.ASYNC_UPDATE:
        chain.append(chain[-1].operands[0])
    if any(member.user_count != 1 or len(member.operands) > 1 for member in chain[:-1]) or chain[-1].user_count != 1:
        return False
    (called,) = chain[-1].computations
    operation = called.root_instruction
    if operation.op not in LOWERINGS or len(called.callers) != 1:
        return False
    is_single = all(one is operation or is_parameter(one) for one in called)
    return is_single and all(map(is_parameter, operation.operands)) and _is_plain(called)


def _is_plain(called: Computation) -> bool:
    leaves = [leaf for one in called for _, leaf in one.shape.leaves()]
    return all(leaf.is_array and is_row_major(leaf) and not leaf.is_dynamic for leaf in leaves)


@THUNK_RULES.rule(opcodes.ASYNC_START)
def _lower_async_start(context: LoweringContext, start: Instruction) -> None:
    (called,) = start.computations
    operation = called.root_instruction
    done = start
    while done.op is not opcodes.ASYNC_DONE:
        (done,) = (user for user in done.users if user.op in (opcodes.ASYNC_UPDATE, opcodes.ASYNC_DONE))
    context.allocate(start)
    rendezvous = rendezvous_of(context, operation)
    if rendezvous is None or not rendezvous.may_stay_pending or context.builder.keeps_operands:
        _call_at_done(context, start)
        return
    operands = [context.slice_of(start.operands[one.parameter_number]) for one in operation.operands]
    results = [BufferSlice(leaf.without_layout(), name=done.name) for _, leaf in array_leaves(done.shape)]
    collective = Collective(context, operation, start, rendezvous, operands, results, is_asynchronous=True)
    lower_start(collective, LOWERINGS[operation.op])


def _call_at_done(context: LoweringContext, start: Instruction) -> None:
    """Leaves all of the collective to the done."""
    (called,) = start.computations
    arguments = [context.stored_values(operand) for operand in start.operands]
    borrowed = {argument.slice for leaves in arguments for argument in leaves}
    context.reusable -= borrowed

    def finish(done: Instruction) -> None:
        results = context.builder.lower_computation(called, arguments, context.thunks)
        context.define(done, [result.slice for result in results], borrowed, [result.number for result in results])

    context.pending[start] = finish


@THUNK_RULES.rule(opcodes.ASYNC_UPDATE)
def _lower_async_update(context: LoweringContext, update: Instruction) -> None:
    """Needs no thunk: the transport makes progress by itself."""
    context.allocate(update)
    context.pending[update] = context.pending.pop(update.operands[0])


@THUNK_RULES.rule(opcodes.ASYNC_DONE)
def _lower_async_done(context: LoweringContext, done: Instruction) -> None:
    is_finished = finish_pending(context, done.operands[0], done)
    assert is_finished, "each start leaves something pending"
