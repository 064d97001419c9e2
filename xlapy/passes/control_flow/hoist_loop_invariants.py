"""Loop-invariant code motion: the pass that moves instructions with the same value in every iteration before the loop.

Responsible for what may be moved and what is worth it. Unused elements of the state are removed by `simplify_loops.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.analysis.cost import element_count
from xlapy.analysis.effects import SPECULATABLE_FAMILIES, Effects
from xlapy.analysis.loops import TupleLoop
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.passes.rewrite import (
    Writer,
    editable_computations,
    is_dead,
    remove_if_dead,
    remove_replaced,
    remove_uncalled_computations,
    replace_with_new,
    transfer_annotations,
    update_schedule,
)
from xlapy.passes.signature import Values, clone_with_signature, tuple_elements

_CHEAP_OPS = frozenset(
    {
        opcodes.BITCAST,
        opcodes.BROADCAST,
        opcodes.CONSTANT,
        opcodes.COPY,
        opcodes.IOTA,
        opcodes.RESHAPE,
        opcodes.REVERSE,
        opcodes.SLICE,
        opcodes.TRANSPOSE,
    }
)
"""Operations that are moved only with instructions that use them, because their values are not worth carrying."""


@dataclass(frozen=True)
class HoistLoopInvariants:
    """Computes before a loop the values that depend only on invariant elements of its state.

    Only pure operations that terminate and cannot fail are moved. elements: a value with more elements than its
    operands is moved only if it has at most this many, because the loop has to carry it.
    """

    name: ClassVar[str] = "hoist-loop-invariants"
    elements: int = 4096

    def __post_init__(self) -> None:
        if self.elements < 0:
            raise InvalidArgumentError(
                codes.PASS_OPTION_VALUE, f"option elements of pass {self.name} is negative: {self.elements}"
            )

    def run(self, module: Module) -> bool:
        effects = Effects(module)
        return rewrite_loops(module, lambda loop: self._hoist(loop, effects))

    def _hoist(self, loop: Instruction, effects: Effects) -> bool:
        view = extensible_loop(loop)
        if view is None:
            return False
        moved = self._movable(view, effects)
        carried = [i for i in moved if i.op not in _CHEAP_OPS and any(user not in moved for user in i.users)]
        if not carried:
            return False
        carry_values(view, moved, carried)
        return True

    def _movable(self, view: TupleLoop, effects: Effects) -> dict[Instruction, None]:
        """Returns the instructions to move, operands first."""
        sources: dict[Instruction, int] = {}
        worth: list[Instruction] = []
        for instruction in post_order(view.body):
            size = self._invariant_size(view, instruction, sources, effects)
            if size is None:
                continue
            sources[instruction] = size
            result = element_count(instruction.shape)
            if instruction.op not in _CHEAP_OPS and instruction.operands and result <= max(size, self.elements):
                worth.append(instruction)
        needed: set[Instruction] = set()
        pending = worth
        while pending:
            current = pending.pop()
            if current not in needed and current in sources and not _is_element(view, current):
                needed.add(current)
                pending += current.operands
        return {i: None for i in sources if i in needed}

    def _invariant_size(
        self, view: TupleLoop, instruction: Instruction, sources: dict[Instruction, int], effects: Effects
    ) -> int | None:
        """Returns the number of elements from which an instruction is computed if it is loop-invariant; else None."""
        if _is_element(view, instruction):
            return element_count(instruction.shape) if view.is_invariant(instruction.tuple_index) else None
        if instruction.op in (opcodes.CONSTANT, opcodes.IOTA):
            return 0
        if instruction.op.family not in SPECULATABLE_FAMILIES or instruction is view.body.root_instruction:
            return None
        if not effects.is_pure(instruction) or instruction.has_control_edges:
            return None
        if not all(operand in sources for operand in instruction.operands):
            return None
        return sum(sources[operand] for operand in set(instruction.operands))


def rewrite_loops(module: Module, rewrite: Callable[[Instruction], bool]) -> bool:
    """Applies `rewrite`, which returns whether it has changed the loop, to all loops; returns whether any has changed.

    Loops and computations that a rewrite removes are left out.
    """
    changed = False
    for computation in editable_computations(module):
        if computation.module is None:
            continue
        for instruction in [i for i in computation if i.op is opcodes.WHILE]:
            changed |= instruction.parent is not None and rewrite(instruction)
    return update_schedule(module, changed)


def _is_element(view: TupleLoop, instruction: Instruction) -> bool:
    reads = instruction.op is opcodes.GET_TUPLE_ELEMENT
    return reads and instruction.operands[0] is view.body.parameters[0]


def extensible_loop(loop: Instruction) -> TupleLoop | None:
    """Returns the loop if its state can get further elements; else None."""
    view = None if loop.shape.is_dynamic or loop.sharding is not None else TupleLoop.of(loop)
    if view is None or is_dead(loop) or loop.is_root:
        return None
    return view if all(user.op is opcodes.GET_TUPLE_ELEMENT for user in loop.users) else None


def carry_values(view: TupleLoop, moved: dict[Instruction, None], carried: Sequence[Instruction]) -> Instruction:
    """Replaces an extensible loop by one whose state also contains values that are computed before it; returns it.

    moved: the instructions of the body that are computed before the loop, operands first; their operands are others of
    them, or invariant elements of the state. carried: those of them that other instructions of the body use.
    """
    called = view.loop.computations
    made = _rebuild_with_carried(view, moved, carried)
    remove_uncalled_computations(called)
    return made


def _rebuild_with_carried(
    view: TupleLoop, moved: dict[Instruction, None], carried: Sequence[Instruction]
) -> Instruction:
    loop = view.loop
    write = Writer(loop)
    values = tuple_elements(write, loop.operands[0])
    outside = _copies_outside(view, values, moved)
    shape = Shape.tuple([*loop.shape.tuple_shapes, *(i.shape for i in carried)])
    init = write.add(opcodes.TUPLE, *values, *[outside[i] for i in carried], shape=shape)
    condition = _with_state(view.condition, shape, (), is_body=False)
    body = _with_state(view.body, shape, carried, is_body=True)
    made = write.add(opcodes.WHILE, init, computations=[condition, body], shape=shape)
    made.backend_config = loop.backend_config
    transfer_annotations(loop, made)
    for reader in loop.users:
        if is_dead(reader):
            edit.remove(reader)
        else:
            replace_with_new(reader, Writer(reader).get_tuple_element(made, reader.tuple_index))
    for value in (*values, *outside.values()):
        remove_if_dead(value)
    if loop.parent is not None:
        remove_replaced(loop)
    return made


def _copies_outside(
    view: TupleLoop, values: Sequence[Instruction], moved: dict[Instruction, None]
) -> dict[Instruction, Instruction]:
    """Writes copies of the moved instructions before the loop; returns them by their originals."""
    computation = view.loop.parent
    assert computation is not None
    copies = {element: values[element.tuple_index] for element in view.element_reads(view.body)}
    for instruction in moved:
        operands = [copies[operand] for operand in instruction.operands]
        copies[instruction] = edit.clone_instruction(instruction, computation, operands)
    return copies


def _with_state(computation: Computation, shape: Shape, carried: Sequence[Instruction], is_body: bool) -> Computation:
    """Returns a copy of a condition or body for a state with further elements, which a body leaves as they are."""
    (parameter,) = computation.parameters
    root = computation.root_instruction
    count = len(parameter.shape.tuple_shapes)

    def bind(write: Writer, parameters: Sequence[Instruction]) -> Values:
        (state,) = parameters
        bound = {element: write.get_tuple_element(state, element.tuple_index) for element in parameter.users}
        return bound | {
            value: write.get_tuple_element(state, count + position) for position, value in enumerate(carried)
        }

    def finish(write: Writer, values: Values) -> Instruction:
        if not is_body:
            return values[root]
        (state,) = write.computation.parameters
        further = [write.get_tuple_element(state, position) for position in range(count, len(shape.tuple_shapes))]
        return write.add(opcodes.TUPLE, *[values[operand] for operand in root.operands], *further, shape=shape)

    return clone_with_signature(computation, [shape], bind, finish)
