"""Evaluates instructions that depend on constants only, such as computations of shapes.

Responsible for `ConstantEvaluator`, which runs instructions on the interpreter and caches their values. Does not depend
on StableHLO.
"""

from __future__ import annotations

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import Array
from xlapy.base.errors import XlaError
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter import Context, rule_of
from xlapy.opcodes.registry import Effect

MAX_EVALUATED_ELEMENTS = 4096
"""The largest array that is evaluated. Vectors of sizes are far smaller; larger constants are the program's data."""

_EVALUATED_FAMILIES = frozenset(
    {"elementwise", "sources", "movement", "contraction", "reduction", "indexing", "tuples", "sorting"}
)


class ConstantEvaluator:
    """Evaluates the instructions of one program and caches which values are known."""

    def __init__(self) -> None:
        self._values: dict[Instruction, object] = {}
        self._unknown: set[Instruction] = set()
        self._context: Context | None = None
        self.has_known_values = False
        """Whether `value_of` has returned a value, so that the instructions that compute it may be dead."""

    def value_of(self, instruction: Instruction) -> Array | None:
        """Returns the elements of an array, or None if they depend on the program's inputs or the array is large."""
        if instruction in self._unknown:
            return None
        if instruction not in self._values:
            self._evaluate(instruction)
        value = self._values.get(instruction)
        if not isinstance(value, np.ndarray):
            return None
        self.has_known_values = True
        return value

    def _evaluate(self, root: Instruction) -> None:
        """Evaluates an instruction after its operands, without recursion; it ends up known or unknown."""
        stack = [root]
        while stack:
            current = stack[-1]
            if current in self._values or current in self._unknown:
                stack.pop()
                continue
            if not _is_evaluable(current) or any(operand in self._unknown for operand in current.operands):
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


def _is_evaluable(instruction: Instruction) -> bool:
    """Returns whether an instruction is pure and its value is small; a call, whether its instructions are."""
    if instruction.op is opcodes.CALL:
        inner = [i for called in instruction.computations for i in called]
        return all(i.op is opcodes.PARAMETER or _is_evaluable(i) for i in inner)
    return _is_small(instruction) and is_pure(instruction)


def _is_small(instruction: Instruction) -> bool:
    return all(leaf.is_array and leaf.size <= MAX_EVALUATED_ELEMENTS for _, leaf in instruction.shape.leaves())


def is_pure(instruction: Instruction) -> bool:
    """Returns whether the value of an instruction depends on its operands only: not on the run or the device."""
    return (
        instruction.op is not opcodes.PARAMETER
        and instruction.op.family in _EVALUATED_FAMILIES
        and instruction.op.effect_of(instruction.attributes) is Effect.PURE
    )
