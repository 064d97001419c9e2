"""Analysis of while loops: the elements of their state, and their trip counts.

Responsible for `TupleLoop`, and for evaluating a few iterations of a loop with the known part of its state. Does not
depend on passes.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from xlapy import opcodes
from xlapy.analysis.constants import CHEAP_TO_RECOMPUTE_OPS, depends_only_on_operands, has_all_elements, literal_value
from xlapy.analysis.cost.evaluation import estimated_work
from xlapy.base.errors import XlaError
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import ancestors, post_order
from xlapy.interpreter import RULES, Context


@dataclass(frozen=True)
class TupleLoop:
    """A while loop with a tuple as state, of which condition and body read single elements only.

    The root of the body is a tuple instruction.
    Example: body { p = (s32[], f32[2]) parameter(0)  i = get-tuple-element(p), index=0 ...  ROOT tuple(...) }
    """

    loop: Instruction
    condition: Computation
    body: Computation

    @staticmethod
    def of(loop: Instruction) -> TupleLoop | None:
        """Returns the loop in this form; None if condition or body use the state as a whole."""
        condition, body = loop.computations
        if not loop.shape.is_tuple or body.root_instruction.op is not opcodes.TUPLE:
            return None
        for computation in (condition, body):
            (parameter,) = computation.parameters
            if parameter.is_root or any(user.op is not opcodes.GET_TUPLE_ELEMENT for user in parameter.users):
                return None
        return TupleLoop(loop, condition, body)

    @property
    def element_count(self) -> int:
        """The number of elements of the state."""
        return len(self.loop.shape.tuple_shapes)

    def next_element(self, index: int) -> Instruction:
        """Returns the value of an element of the state after one iteration."""
        return self.body.root_instruction.operands[index]

    def is_invariant(self, index: int) -> bool:
        """Returns whether the body leaves an element of the state as it is."""
        value = self.next_element(index)
        is_element = value.op is opcodes.GET_TUPLE_ELEMENT and value.tuple_index == index
        return is_element and value.operands[0] is self.body.parameters[0]

    def element_reads(self, computation: Computation) -> list[Instruction]:
        """Returns the get-tuple-elements in condition or body that read elements of the state."""
        return list(computation.parameters[0].users)


# -- trip counts


class _Unknown:
    """The type of `UNKNOWN`, which stands for a value that depends on the program's arguments."""


UNKNOWN: Final = _Unknown()


def known_trip_count(loop: Instruction, max_trip_count: int, max_work: int = 1 << 16) -> int | None:
    """Returns the trip count of a loop if constants determine it and it is at most `max_trip_count`; else None.

    Evaluates the condition, and what it needs of the body. An instruction with more work than `max_work` (see
    `estimated_work`) counts as unknown; the trip count is known if the condition does not depend on an unknown value.
    """
    condition, body = loop.computations
    state, view = known_value(loop.operands[0]), TupleLoop.of(loop)
    needed = None if view is None else _needed_by_condition(view)
    for iteration in range(max_trip_count + 1):
        continues = _evaluate(condition, state, max_work)
        if continues is UNKNOWN:
            return None
        if not bool(continues):
            return iteration
        if iteration < max_trip_count:
            state = _evaluate(body, state, max_work, needed)
    return None


def _needed_by_condition(view: TupleLoop) -> set[Instruction]:
    """Returns the instructions of the body on which the condition of some later iteration depends, and the root."""
    (parameter,) = view.body.parameters
    needed: set[Instruction] = set()
    elements, pending = set[int](), {read.tuple_index for read in view.element_reads(view.condition)}
    while pending:
        elements |= pending
        needed |= ancestors(view.next_element(index) for index in pending)
        reads = {read.tuple_index for read in parameter.users if read in needed}
        pending = reads - elements
    return needed | {view.body.root_instruction}


def known_value(instruction: Instruction) -> Any:
    """Returns the value of a constant, or of a tuple with `UNKNOWN` for unknown elements; else `UNKNOWN`."""
    if instruction.op is opcodes.CONSTANT:
        return literal_value(instruction.literal) if has_all_elements(instruction.literal) else UNKNOWN
    if instruction.op is opcodes.TUPLE:
        return tuple(map(known_value, instruction.operands))
    return UNKNOWN


def _evaluate(
    computation: Computation, argument: Any, max_work: int, needed: Container[Instruction] | None = None
) -> Any:
    """Returns the value of the root as far as the known part of the argument determines it.

    needed: the instructions to evaluate, all by default. Elements of the root that are not among them are unknown.
    """
    values: dict[Instruction, Any] = {}
    for instruction in post_order(computation):
        if needed is not None and instruction not in needed:
            continue
        operands = [values.get(operand, UNKNOWN) for operand in instruction.operands]
        values[instruction] = _evaluate_instruction(instruction, operands, argument, max_work)
    return values[computation.root_instruction]


def _evaluate_instruction(instruction: Instruction, operands: Sequence[Any], argument: Any, max_work: int) -> Any:
    op = instruction.op
    if op is opcodes.PARAMETER:
        return argument
    if op is opcodes.CONSTANT:
        return known_value(instruction)
    if op is opcodes.TUPLE:
        return tuple(operands)
    if op is opcodes.GET_TUPLE_ELEMENT:
        return UNKNOWN if operands[0] is UNKNOWN else operands[0][instruction.tuple_index]
    can_evaluate = depends_only_on_operands(instruction) or op in CHEAP_TO_RECOMPUTE_OPS
    if not can_evaluate or instruction.computations or not all(map(_is_known, operands)):
        return UNKNOWN
    if estimated_work(instruction) > max_work:
        return UNKNOWN
    try:
        with np.errstate(all="ignore"):
            return RULES.find(op)(Context(), instruction, operands)
    except (XlaError, MemoryError):
        return UNKNOWN


def _is_known(value: Any) -> bool:
    return all(map(_is_known, value)) if isinstance(value, tuple) else value is not UNKNOWN
