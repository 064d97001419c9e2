"""Lowers calls, conditionals and loops to thunks.

Responsible for the slices of a loop's state and of the results of branches. Does not depend on kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.analysis.aliasing import AliasAnalysis
from xlapy.cpu.program.buffer_reuse import ThunkSequence
from xlapy.cpu.program.buffer_slices import BufferSlice, StoredValue
from xlapy.cpu.program.builder import THUNK_RULES, LoweringContext
from xlapy.cpu.program.thunks import ConditionalThunk, CopyThunk, Thunk, WhileThunk
from xlapy.cpu.program.verification.value_records import BranchValues, LoopLeaf, LoopValues
from xlapy.hlo.instruction import Instruction


@THUNK_RULES.rule(opcodes.CALL)
def _lower_call(context: LoweringContext, instruction: Instruction) -> None:
    arguments = [context.stored_values(operand) for operand in instruction.operands]
    values = [value for operand in instruction.operands for value in context.alias_analysis.values(operand)]
    unique = [value for value, count in Counter(values).items() if count == 1]
    reusable = {slice_ for value in unique if (slice_ := context.try_reuse(value, instruction)) is not None}
    results = context.builder.lower_computation(instruction.to_apply, arguments, context.thunks, reusable=reusable)
    borrowed = {argument.slice for leaves in arguments for argument in leaves if argument.slice not in reusable}
    numbers = [result.number for result in results]
    context.define(instruction, [result.slice for result in results], borrowed, numbers)


@THUNK_RULES.rule(opcodes.CONDITIONAL)
def _lower_conditional(context: LoweringContext, instruction: Instruction) -> None:
    """Every branch writes its results to the same slices: those of operands that die here, or new ones.

    A branch may overwrite an operand that nothing reads later. If it leaves a result there, as an update does, the
    result lies there after all branches, and a branch that passes the operand on copies nothing.
    """
    index, *operands = instruction.operands
    (index_value,) = context.stored_values(index)
    arguments = [context.stored_values(operand) for operand in operands]
    dying = _dying_operands(context, instruction)
    overwritable = frozenset(dying)
    branches: list[_Branch] = []
    for computation, leaves in zip(instruction.computations, arguments, strict=True):
        counts = Counter(leaf.slice for leaf in leaves)
        reusable = {slice_ for slice_, count in counts.items() if count == 1 and slice_ in overwritable}
        thunks: list[Thunk] = []
        branch_results = context.builder.lower_computation(computation, [leaves], thunks, reusable=reusable)
        branches.append(_Branch(thunks, branch_results))
    results, borrowed = _conditional_results(instruction, branches, dying)
    for branch in branches:
        _append_parallel_copies(branch.thunks, [result.slice for result in branch.results], results)
    left = list(zip(*([result.number for result in branch.results] for branch in branches), strict=True))
    records = context.builder.values
    merged = [numbers[0] if len(set(numbers)) == 1 else records.new(instruction.name) for numbers in left]
    context.define(instruction, results, borrowed, merged)
    thunk = ConditionalThunk(index_value.slice, [branch.thunks for branch in branches], instruction.name, list(results))
    context.thunks.append(thunk)
    records.branches[thunk] = BranchValues(index_value.number, tuple(zip(left, merged, strict=True)))


@dataclass(frozen=True, slots=True)
class _Branch:
    """A branch of a conditional: its thunks, and its results before they are copied to those of the conditional."""

    thunks: list[Thunk]
    results: list[StoredValue]


def _dying_operands(context: LoweringContext, instruction: Instruction) -> list[BufferSlice]:
    """Returns the slices of a conditional's operands that its branches may overwrite."""
    values = [value for operand in instruction.operands[1:] for value in context.alias_analysis.values(operand)]
    reused = (context.try_reuse(value, instruction) for value in dict.fromkeys(values))
    return [slice_ for slice_ in reused if slice_ is not None]


def _conditional_results(
    instruction: Instruction, branches: Sequence[_Branch], dying: Sequence[BufferSlice]
) -> tuple[list[BufferSlice], set[BufferSlice]]:
    """Returns the slices of a conditional's results, and those of them that other arrays may share.

    A result lies in the operand in which most branches leave it, or the first of several. If none does, it lies in an
    operand in which all branches can compute it.
    """
    leaves = [[result.slice for result in leaf] for leaf in zip(*(b.results for b in branches), strict=True)]
    chosen: list[BufferSlice | None] = [None] * len(leaves)
    ranks = {slice_: rank for rank, slice_ in enumerate(dying)}
    borrowed: set[BufferSlice] = set()
    taken: set[BufferSlice | None] = set()
    for number, slices in enumerate(leaves):
        left = Counter(slice_ for slice_ in slices if slice_ in ranks and slice_ not in taken)
        chosen[number] = min(left, key=lambda slice_: (-left[slice_], ranks[slice_]), default=None)
        if len(set(slices)) == 1 and slices[0] not in ranks:
            chosen[number] = slices[0]
            borrowed.add(slices[0])
        taken.add(chosen[number])
    sequences = [ThunkSequence(branch.thunks) for branch in branches]
    for number, slices in enumerate(leaves):
        if chosen[number] is not None:
            continue
        free = (slice_ for slice_ in dying if slice_ not in taken)
        found = next((slice_ for slice_ in free if _can_be_computed_in(sequences, slices, slice_)), None)
        chosen[number] = found or BufferSlice(slices[0].shape, name=instruction.name)
        taken.add(chosen[number])
    return [slice_ for slice_ in chosen if slice_ is not None], borrowed


def _can_be_computed_in(
    sequences: Sequence[ThunkSequence], results: Sequence[BufferSlice], target: BufferSlice
) -> bool:
    """Whether each branch can compute its result in the memory of an operand, with no copy."""
    return all(
        result.size == target.size and sequence.may_redirect(result, target)
        for sequence, result in zip(sequences, results, strict=True)
    )


@THUNK_RULES.rule(opcodes.WHILE)
def _lower_while(context: LoweringContext, instruction: Instruction) -> None:
    (operand,) = instruction.operands
    records, initial = context.builder.values, context.stored_values(operand)
    values = context.alias_analysis.values(operand)
    counts = Counter(values)
    invariant = _loop_invariant_leaves(context.builder.alias_analysis(instruction.computation("body")))
    first_inner = records.count
    state: list[StoredValue] = []
    for number, (value, source) in enumerate(zip(values, initial, strict=True)):
        if number in invariant:
            state.append(source)
            continue
        reused = context.try_reuse(value, instruction) if counts[value] == 1 else None
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
    sequence = ThunkSequence(thunks)
    pairs = [(s, t) for s, t in zip(sources, targets, strict=True) if s is not t]
    read, written = Counter(sources), frozenset(targets)
    copies = [
        (source, target)
        for source, target in pairs
        if target in read or source in written or read[source] > 1 or not sequence.redirect(source, target)
    ]
    _append_copies_in_order(thunks, copies)


def _append_copies_in_order(thunks: list[Thunk], copies: Sequence[tuple[BufferSlice, BufferSlice]]) -> None:
    """Appends copies in an order in which each reads its source before it is overwritten.

    In a cycle, as that of a swap, one of the arrays is saved first. Each target occurs once.
    """
    sources = {target: source for source, target in copies}
    reader_counts = Counter(sources.values())
    ready = [target for target in sources if not reader_counts[target]]
    while sources:
        if not ready:
            saved = next(iter(sources))
            copy = BufferSlice(saved.shape, name=saved.name)
            thunks.append(CopyThunk(saved, copy))
            sources = {target: copy if source is saved else source for target, source in sources.items()}
            reader_counts[copy] = reader_counts.pop(saved)
            ready.append(saved)
        target = ready.pop()
        source = sources.pop(target)
        thunks.append(CopyThunk(source, target))
        reader_counts[source] -= 1
        if source in sources and not reader_counts[source]:
            ready.append(source)
