"""Lowers calls, conditionals and loops to thunks.

Responsible for the slices of a loop's state and of the results of branches. Does not depend on kernels.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.analysis.aliasing import AliasAnalysis
from xlapy.cpu.program.buffer_reuse import redirect_result
from xlapy.cpu.program.buffer_slices import BufferSlice, StoredValue
from xlapy.cpu.program.builder import THUNK_RULES, LoweringContext
from xlapy.cpu.program.thunks import ConditionalThunk, CopyThunk, Thunk, WhileThunk
from xlapy.cpu.program.verification.value_records import BranchValues, LoopLeaf, LoopValues
from xlapy.hlo.instruction import Instruction


@THUNK_RULES.rule(opcodes.CALL)
def _lower_call(context: LoweringContext, instruction: Instruction) -> None:
    arguments = [context.stored_values(operand) for operand in instruction.operands]
    values = [value for operand in instruction.operands for value in context.alias_analysis.values(operand)]
    unique = [value for value in values if values.count(value) == 1]
    reusable = {slice_ for value in unique if (slice_ := context.try_reuse(value, instruction)) is not None}
    results = context.builder.lower_computation(instruction.to_apply, arguments, context.thunks, reusable=reusable)
    borrowed = {argument.slice for leaves in arguments for argument in leaves if argument.slice not in reusable}
    numbers = [result.number for result in results]
    context.define(instruction, [result.slice for result in results], borrowed, numbers)


@THUNK_RULES.rule(opcodes.CONDITIONAL)
def _lower_conditional(context: LoweringContext, instruction: Instruction) -> None:
    """Every branch writes its results to the same slices."""
    index, *operands = instruction.operands
    (index_value,) = context.stored_values(index)
    arguments = [context.stored_values(operand) for operand in operands]
    results = context.allocate(instruction)
    thunk = ConditionalThunk(index_value.slice, op_name=instruction.name, results=results)
    numbers: list[list[int]] = []
    for branch, leaves in zip(instruction.computations, arguments, strict=True):
        thunks: list[Thunk] = []
        branch_results = context.builder.lower_computation(branch, [leaves], thunks)
        numbers.append([result.number for result in branch_results])
        _append_parallel_copies(thunks, [result.slice for result in branch_results], results)
        thunk.branches.append(thunks)
    context.thunks.append(thunk)
    merged = [result.number for result in context.stored_values(instruction)]
    context.builder.values.branches[thunk] = BranchValues(
        index_value.number, tuple(zip(zip(*numbers, strict=True), merged, strict=True))
    )


@THUNK_RULES.rule(opcodes.WHILE)
def _lower_while(context: LoweringContext, instruction: Instruction) -> None:
    (operand,) = instruction.operands
    records, initial = context.builder.values, context.stored_values(operand)
    values = context.alias_analysis.values(operand)
    invariant = _loop_invariant_leaves(context.builder.alias_analysis(instruction.computation("body")))
    first_inner = records.count
    state: list[StoredValue] = []
    for number, (value, source) in enumerate(zip(values, initial, strict=True)):
        if number in invariant:
            state.append(source)
            continue
        reused = context.try_reuse(value, instruction) if values.count(value) == 1 else None
        slice_ = reused or BufferSlice(source.slice.shape, name=instruction.name)
        state.append(StoredValue(slice_, records.new(f"state of {instruction.name}")))
        if reused is None:
            context.thunks.append(CopyThunk(source.slice, slice_))
    slices = [leaf.slice for leaf in state]
    borrowed = {state[number].slice for number in invariant}
    lower = context.builder.lower_computation
    condition: list[Thunk] = []
    (predicate,) = lower(instruction.computation("condition"), [state], condition)
    body: list[Thunk] = []
    next_state = lower(instruction.computation("body"), [state], body, reusable=set(slices) - borrowed)
    inner = range(first_inner, records.count)
    _append_parallel_copies(body, [leaf.slice for leaf in next_state], slices)
    changing = [number for number in range(len(state)) if number not in invariant]
    thunk = WhileThunk(condition, predicate.slice, body, instruction.name, [slices[number] for number in changing])
    context.thunks.append(thunk)
    final = [leaf.number if number in invariant else records.new(instruction.name) for number, leaf in enumerate(state)]
    context.define(instruction, slices, borrowed, final)
    leaves = (LoopLeaf(initial[n].number, state[n].number, next_state[n].number, final[n]) for n in changing)
    records.loops[thunk] = LoopValues(predicate.number, inner, tuple(leaves))


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
