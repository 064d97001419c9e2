"""Lowers calls, conditionals and loops to thunks.

Responsible for the slices of a loop's state and of the results of branches. Does not depend on kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.analysis.aliasing import AliasAnalysis
from xlapy.cpu.program.buffer_reuse import redirect_result
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.builder import THUNK_RULES, LoweringContext
from xlapy.cpu.program.thunks import ConditionalThunk, CopyThunk, Thunk, WhileThunk
from xlapy.hlo.instruction import Instruction


@THUNK_RULES.rule(opcodes.CALL)
def _lower_call(context: LoweringContext, instruction: Instruction) -> None:
    arguments = [context.slices_of(operand) for operand in instruction.operands]
    values = [value for operand in instruction.operands for value in context.alias_analysis.values(operand)]
    unique = [value for value in values if values.count(value) == 1]
    reusable = {slice_ for value in unique if (slice_ := context.try_reuse(value, instruction)) is not None}
    results = context.builder.lower_computation(instruction.to_apply, arguments, context.thunks, reusable=reusable)
    borrowed = {slice_ for slices in arguments for slice_ in slices if slice_ not in reusable}
    context.define(instruction, results, borrowed)


@THUNK_RULES.rule(opcodes.CONDITIONAL)
def _lower_conditional(context: LoweringContext, instruction: Instruction) -> None:
    """Every branch writes its results to the same slices."""
    index, *operands = instruction.operands
    results = context.allocate(instruction)
    thunk = ConditionalThunk(context.slice_of(index), op_name=instruction.name)
    for branch, operand in zip(instruction.computations, operands, strict=True):
        thunks: list[Thunk] = []
        branch_results = context.builder.lower_computation(branch, [context.slices_of(operand)], thunks)
        _append_parallel_copies(thunks, branch_results, results)
        thunk.branches.append(thunks)
    context.thunks.append(thunk)


@THUNK_RULES.rule(opcodes.WHILE)
def _lower_while(context: LoweringContext, instruction: Instruction) -> None:
    (operand,) = instruction.operands
    initial = context.alias_analysis.values(operand)
    invariant = _loop_invariant_leaves(context.builder.alias_analysis(instruction.computation("body")))
    state: list[BufferSlice] = []
    borrowed: set[BufferSlice] = set()
    for number, value in enumerate(initial):
        source = context.slices[value]
        if number in invariant:
            state.append(source)
            borrowed.add(source)
            continue
        reused = context.try_reuse(value, instruction) if initial.count(value) == 1 else None
        state.append(reused or BufferSlice(source.shape, name=instruction.name))
        if reused is None:
            context.thunks.append(CopyThunk(source, state[-1]))
    context.define(instruction, state, borrowed)
    lower = context.builder.lower_computation
    condition: list[Thunk] = []
    (predicate,) = lower(instruction.computation("condition"), [state], condition)
    body: list[Thunk] = []
    next_state = lower(instruction.computation("body"), [state], body, reusable=set(state) - borrowed)
    _append_parallel_copies(body, next_state, state)
    context.thunks.append(WhileThunk(condition, predicate, body, instruction.name))


def _loop_invariant_leaves(body: AliasAnalysis) -> set[int]:
    """Returns the leaves of a loop's state that its body passes on unchanged.

    They stay in the initial values' memory.
    """
    (parameter,), root = body.computation.parameters, body.computation.root_instruction
    pairs = zip(body.values(root), body.values(parameter), strict=True)
    return {number for number, (after, before) in enumerate(pairs) if after == before}


def _append_parallel_copies(
    thunks: list[Thunk], sources: Sequence[BufferSlice], targets: Sequence[BufferSlice]
) -> None:
    """Appends copies of the sources to the targets that behave as if all happened at once.

    A source that a kernel computes for this purpose only is computed in the target, if nothing needs the target's old
    contents from there on.
    """
    pairs = [(s, t) for s, t in zip(sources, targets, strict=True) if s is not t]
    copies = [
        (source, target)
        for source, target in pairs
        if target in sources
        or source in targets
        or sources.count(source) > 1
        or not redirect_result(thunks, source, target)
    ]
    overwritten = {target for _, target in copies}
    saved = [_append_copy(thunks, source) if source in overwritten else source for source, _ in copies]
    thunks += [CopyThunk(source, target) for source, (_, target) in zip(saved, copies, strict=True)]


def _append_copy(thunks: list[Thunk], slice_: BufferSlice) -> BufferSlice:
    copy = BufferSlice(slice_.shape, name=slice_.name)
    thunks.append(CopyThunk(slice_, copy))
    return copy
