"""What is known of while loops: the elements of their state, and how often they run.

Owns: `TupleLoop`, and following a loop for a few rounds with what is known of its state. Must not know: passes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from xlapy import opcodes
from xlapy.analysis.constants import EXPANDING, is_steady, is_whole, literal_value
from xlapy.analysis.work import work_of
from xlapy.base.errors import XlaError
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import post_order
from xlapy.interpreter import RULES, Context


@dataclass(frozen=True)
class TupleLoop:
    """A while loop whose condition and body take a tuple apart element by element, and whose body returns a tuple.

    Example: body { p = (s32[], f32[2]) parameter(0)  i = get-tuple-element(p), index=0 ...  ROOT tuple(...) }
    """

    loop: Instruction
    condition: Computation
    body: Computation

    @staticmethod
    def of(loop: Instruction) -> TupleLoop | None:
        """The loop seen so; None if somebody takes its state whole."""
        condition, body = loop.computations
        if not loop.shape.is_tuple or body.root_instruction.op is not opcodes.TUPLE:
            return None
        for computation in (condition, body):
            (parameter,) = computation.parameters
            if parameter.is_root or any(user.op is not opcodes.GET_TUPLE_ELEMENT for user in parameter.users):
                return None
        return TupleLoop(loop, condition, body)

    @property
    def count(self) -> int:
        """How many elements the state has."""
        return len(self.loop.shape.tuple_shapes)

    def next_element(self, index: int) -> Instruction:
        """The value that the body gives to an element."""
        return self.body.root_instruction.operands[index]

    def is_invariant(self, index: int) -> bool:
        """Whether the body hands an element through."""
        value = self.next_element(index)
        through = value.op is opcodes.GET_TUPLE_ELEMENT and value.index == index
        return through and value.operands[0] is self.body.parameters[0]

    def elements(self, computation: Computation) -> list[Instruction]:
        """The instructions in condition or body that read elements of the state."""
        return list(computation.parameters[0].users)


# -- following a loop with what is known


class _Unknown:
    """Stands for a value that is not known before the program runs."""


UNKNOWN: Final = _Unknown()


def rounds(loop: Instruction, most: int, work: int = 1 << 16) -> int | None:
    """How often the body surely runs, if that is at most `most` times and follows from constants; else None.

    Values that are not known, or of instructions that take more than `work`, are left out; what does not depend on them
    decides.
    """
    condition, body = loop.computations
    state = known_value(loop.operands[0])
    for done in range(most + 1):
        goes_on = _evaluate(condition, state, work)
        if goes_on is UNKNOWN:
            return None
        if not bool(goes_on):
            return done
        if done < most:
            state = _evaluate(body, state, work)
    return None


def known_value(instruction: Instruction) -> Any:
    """The value of a constant, or of a tuple with what is known of its elements; else `UNKNOWN`."""
    if instruction.op is opcodes.CONSTANT:
        return literal_value(instruction.literal) if is_whole(instruction.literal) else UNKNOWN
    if instruction.op is opcodes.TUPLE:
        return tuple(map(known_value, instruction.operands))
    return UNKNOWN


def _evaluate(computation: Computation, argument: Any, work: int) -> Any:
    """The root's value as far as it follows from what is known of the argument."""
    values: dict[Instruction, Any] = {}
    for instruction in post_order(computation):
        values[instruction] = _step(instruction, [values[o] for o in instruction.operands], argument, work)
    return values[computation.root_instruction]


def _step(instruction: Instruction, operands: Sequence[Any], argument: Any, work: int) -> Any:
    op = instruction.op
    if op is opcodes.PARAMETER:
        return argument
    if op is opcodes.CONSTANT:
        return known_value(instruction)
    if op is opcodes.TUPLE:
        return tuple(operands)
    if op is opcodes.GET_TUPLE_ELEMENT:
        return UNKNOWN if operands[0] is UNKNOWN else operands[0][instruction.index]
    usable = is_steady(instruction) or op in EXPANDING
    if not usable or instruction.computations or not all(map(_is_known, operands)) or work_of(instruction) > work:
        return UNKNOWN
    try:
        with np.errstate(all="ignore"):
            return RULES.find(op)(Context(), instruction, operands)
    except (XlaError, MemoryError):
        return UNKNOWN


def _is_known(value: Any) -> bool:
    return all(map(_is_known, value)) if isinstance(value, tuple) else value is not UNKNOWN
