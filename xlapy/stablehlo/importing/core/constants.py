"""Values that follow from the program alone: what computations of shapes come to.

Owns: `Constants`, evaluation of instructions on the interpreter with the values kept. Must not know: StableHLO.
"""

from __future__ import annotations

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import Array
from xlapy.base.errors import XlaError
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter import Context, rule_of
from xlapy.opcodes.registry import Effect

MOST_ELEMENTS = 4096
"""Larger arrays are no shapes."""

_FAMILIES = frozenset(
    {"elementwise", "sources", "movement", "contraction", "reduction", "indexing", "tuples", "sorting"}
)


class Constants:
    """The values known so far of the instructions of one program."""

    def __init__(self) -> None:
        self._values: dict[Instruction, object] = {}
        self._unknown: set[Instruction] = set()
        self._context: Context | None = None
        self.were_asked = False
        """Whether some value was known."""

    def value_of(self, instruction: Instruction) -> Array | None:
        """The elements of an array that does not depend on how the program is run; None if it does, or is large."""
        if instruction in self._unknown:
            return None
        if instruction not in self._values:
            self._evaluate(instruction)
        value = self._values.get(instruction)
        if not isinstance(value, np.ndarray):
            return None
        self.were_asked = True
        return value

    def _evaluate(self, root: Instruction) -> None:
        stack = [root]
        while stack:
            current = stack[-1]
            if current in self._values or current in self._unknown:
                stack.pop()
                continue
            if not _is_small_function(current) or any(operand in self._unknown for operand in current.operands):
                self._unknown.add(stack.pop())
                continue
            missing = [operand for operand in current.operands if operand not in self._values]
            if missing:
                stack.extend(missing)
                continue
            self._evaluate_one(stack.pop())

    def _evaluate_one(self, instruction: Instruction) -> None:
        if self._context is None:
            self._context = Context()
        values = [self._values[operand] for operand in instruction.operands]
        try:
            self._values[instruction] = rule_of(instruction)(self._context, instruction, values)
        except XlaError:
            self._unknown.add(instruction)


def _is_small_function(instruction: Instruction) -> bool:
    """Whether an instruction gives the same small value for the same operands, always and everywhere."""
    if instruction.op is opcodes.CALL:
        inner = [i for called in instruction.computations for i in called]
        return all(i.op is opcodes.PARAMETER or _is_small_function(i) for i in inner)
    return _is_small(instruction) and is_function(instruction)


def _is_small(instruction: Instruction) -> bool:
    return all(leaf.is_array and leaf.size <= MOST_ELEMENTS for _, leaf in instruction.shape.leaves())


def is_function(instruction: Instruction) -> bool:
    """Whether an instruction that calls nothing gives the same value for the same operands, always and everywhere."""
    return (
        instruction.op is not opcodes.PARAMETER
        and instruction.op.family in _FAMILIES
        and instruction.op.effect_of(instruction.attributes) is Effect.PURE
    )
