"""Makes one kernel of each loop that treats the elements of its state separately (`emitters.elementwise_loops`).

The fusion contains the loop itself. Runs before `Fuse`, which leaves the computations inside of it as they are. Does
not depend on the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.analysis.loops import TupleLoop
from xlapy.codegen.fusion.decisions import Decision, DecisionKind, Explain, ignore_decision
from xlapy.codegen.plan import has_plan
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order
from xlapy.opcodes.control import FusionAttributes, FusionKind
from xlapy.opcodes.sources import ParameterAttributes
from xlapy.opcodes.tuples import GetTupleElementAttributes
from xlapy.passes.control_flow.hoist_loop_invariants import carry_values, extensible_loop
from xlapy.passes.rewrite import editable_computations, remove_if_dead, remove_uncalled_computations, update_schedule


@dataclass(frozen=True)
class FuseElementwiseLoops:
    """Replaces loops whose iterations need only one element of each array of the state by fusions."""

    name: ClassVar[str] = "fuse-elementwise-loops"
    reason_of_instructions: Callable[[Instruction], str]
    """Why a loop is not elementwise, as far as its opcodes tell; "" otherwise."""
    is_table: Callable[[Instruction], bool]
    """Whether an instruction is a constant that kernels load from memory."""
    reason: Callable[[Instruction], str]
    """Why a fusion of a loop has no kernel; "" if it has one."""
    explain: Explain | None = None

    def run(self, module: Module) -> bool:
        changed = False
        editable = set(editable_computations(module))
        for computation in reversed(computation_post_order(module)):  # outer loops first
            if computation not in editable or is_fused(computation):
                continue
            for instruction in list(computation.instructions):
                if instruction.op is opcodes.WHILE and self._fuse(module, instruction):
                    changed = True
        return update_schedule(module, changed)

    def _fuse(self, module: Module, loop: Instruction) -> bool:
        if loop.has_control_edges or has_plan(loop) or loop.sharding is not None or not loop.operands:
            return False
        if self.reason_of_instructions(loop) or not _has_own_computations(loop):
            return False
        if loop.operands[0].op is not opcodes.TUPLE:
            return False
        fusion, numbers = _fused(module, loop, self.is_table)
        if self.reason(fusion):
            fused = fusion.computations[0]
            operands = fusion.operands
            edit.remove(fusion)
            remove_uncalled_computations([fused])
            for operand in operands:
                if operand not in loop.operands[0].operands:  # a table
                    remove_if_dead(operand)
            return False
        text = f"{loop.name} becomes one kernel: each vector of its elements runs all iterations"
        (self.explain or ignore_decision)(Decision((loop.name,), DecisionKind.ELEMENTWISE_LOOP, text))
        _replace_results(loop, fusion, numbers)
        return True


def is_fused(computation: Computation) -> bool:
    """Whether a computation is that of a fusion, or of a loop in a fusion."""
    return any(
        caller.op is opcodes.FUSION or (caller.op is opcodes.WHILE and caller.parent and is_fused(caller.parent))
        for caller in computation.callers
    )


def _has_own_computations(loop: Instruction) -> bool:
    """Whether nothing else calls the computations of a loop, and of the loops in it."""
    return all(
        len(computation.callers) == 1
        and all(_has_own_computations(inner) for inner in computation if inner.op is opcodes.WHILE)
        for computation in loop.computations
    )


def _fused(module: Module, loop: Instruction, is_table: Callable[[Instruction], bool]) -> tuple[Instruction, list[int]]:
    """Writes a fusion of a loop; returns it with the numbers of its results in the state of the loop."""
    view, (initial,) = TupleLoop.of(loop), loop.operands
    assert view is not None and loop.parent is not None
    fused = edit.add_computation(module, "fused_computation")
    copies: dict[Instruction, Instruction] = {}
    operands: list[Instruction] = []
    for operand in initial.operands:
        if operand in copies:
            continue
        if _is_number(operand):
            copies[operand] = edit.clone_instruction(operand, fused, [])
            continue
        if operand.op is opcodes.BROADCAST and _is_number(operand.operands[0]):
            copies[operand] = edit.clone_instruction(
                operand, fused, [edit.clone_instruction(operand.operands[0], fused, [])]
            )
            continue
        attributes = ParameterAttributes.make(number=len(operands))
        copies[operand] = edit.create(fused, opcodes.PARAMETER, (), attributes, shape=operand.shape, name="param")
        operands.append(operand)
    state = edit.create(fused, opcodes.TUPLE, [copies[operand] for operand in initial.operands])
    copy = _with_tables_in_state(edit.clone_instruction(loop, fused, [state]), is_table)
    for table in [i for i in fused if is_table(i)]:
        attributes = ParameterAttributes.make(number=len(operands))
        operands.append(edit.clone_instruction(table, loop.parent, []))
        edit.replace_uses(table, edit.create(fused, opcodes.PARAMETER, (), attributes, shape=table.shape, name="param"))
        edit.remove(table)
    changing = [n for n in range(view.element_count) if not view.is_invariant(n)]
    readers = [user for user in loop.users if user.op is opcodes.GET_TUPLE_ELEMENT]
    read = {user.tuple_index for user in readers}
    reads_all = loop.is_root or len(readers) < len(set(loop.users))
    numbers = [n for n in changing if reads_all or n in read]
    results = [
        edit.create(fused, opcodes.GET_TUPLE_ELEMENT, [copy], GetTupleElementAttributes.make(index=n)) for n in numbers
    ]
    edit.set_root(fused, results[0] if len(results) == 1 else edit.create(fused, opcodes.TUPLE, results))
    kind = FusionAttributes.make(kind=FusionKind.LOOP)
    fusion = edit.create(
        loop.parent,
        opcodes.FUSION,
        operands,
        kind,
        [fused],
        shape=fused.root_instruction.shape,
        name=f"{loop.name}.fusion",
        metadata=loop.metadata,
    )
    return fusion, numbers


def _with_tables_in_state(loop: Instruction, is_table: Callable[[Instruction], bool]) -> Instruction:
    """Returns the loop, or one in its place that has the tables of its body, and of loops in it, in its state."""
    if not any(map(is_table, _all_instructions(loop))):
        return loop
    view = TupleLoop.of(loop)
    assert view is not None
    view = TupleLoop.of(carry_values(view, {}, []))  # with computations of its own
    assert view is not None
    for inner in [i for i in view.body if i.op is opcodes.WHILE]:
        if extensible_loop(inner) is not None:
            _with_tables_in_state(inner, is_table)
    tables = [i for i in view.body if is_table(i)]
    tested = [edit.clone_instruction(i, view.body, []) for i in view.condition if is_table(i)]
    loop = carry_values(view, dict.fromkeys([*tables, *tested]), [*tables, *tested])
    _read_tables_of_state(loop.computations[0], view.element_count + len(tables), is_table)
    return loop


def _read_tables_of_state(condition: Computation, first: int, is_table: Callable[[Instruction], bool]) -> None:
    """Replaces the tables of a condition by elements of the state. first: the number of the first element."""
    (state,) = condition.parameters
    for table in [i for i in condition if is_table(i)]:
        shapes = enumerate(state.shape.tuple_shapes)
        number = next(n for n, shape in shapes if n >= first and _is_initial(condition, n, table) and shape.rank)
        attributes = GetTupleElementAttributes.make(index=number)
        edit.replace_uses(table, edit.create(condition, opcodes.GET_TUPLE_ELEMENT, [state], attributes))
        edit.remove(table)


def _is_initial(condition: Computation, number: int, table: Instruction) -> bool:
    """Whether a table is the initial value of an element of the state of the loop that has a condition."""
    (loop,) = condition.callers
    initial = loop.operands[0].operands[number]
    return initial.op is opcodes.CONSTANT and initial.attributes == table.attributes


def _all_instructions(loop: Instruction) -> Iterator[Instruction]:
    """Yields the instructions of condition and body, and of the loops in it."""
    yield from loop.computations[0]
    for instruction in loop.computations[1]:
        yield instruction
        if instruction.op is opcodes.WHILE:
            yield from _all_instructions(instruction)


def _is_number(instruction: Instruction) -> bool:
    """Whether an instruction is a constant that is no array: kernels contain it."""
    return instruction.op is opcodes.CONSTANT and not instruction.shape.rank


def _replace_results(loop: Instruction, fusion: Instruction, numbers: list[int]) -> None:
    """Replaces a loop by the results of a fusion, and by the initial values of the other elements of its state."""
    (initial,), computation = loop.operands, loop.parent
    assert computation is not None
    elements = list(initial.operands)
    for position, number in enumerate(numbers):
        attributes = GetTupleElementAttributes.make(index=position)
        elements[number] = (
            fusion
            if len(numbers) == 1
            else edit.create(computation, opcodes.GET_TUPLE_ELEMENT, [fusion], attributes, name=loop.name)
        )
    for reader in [user for user in loop.users if user.op is opcodes.GET_TUPLE_ELEMENT]:
        edit.replace_uses(reader, elements[reader.tuple_index])
        edit.remove(reader)
    if loop.is_root or loop.has_users:
        edit.replace_uses(loop, edit.create(computation, opcodes.TUPLE, elements, name=loop.name))
    edit.remove(loop)
    if not initial.has_users and not initial.is_root:
        edit.remove(initial)
