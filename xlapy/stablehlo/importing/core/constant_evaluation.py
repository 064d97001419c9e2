"""Evaluates instructions that depend on constants only, such as computations of shapes.

Responsible for `ConstantEvaluator`, which runs instructions on the interpreter and caches their values. Does not depend
on StableHLO.
"""

from __future__ import annotations

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import Array
from xlapy.base.errors import XlaError
from xlapy.base.shape import Shape
from xlapy.base.shape_fields import bounded_product
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter import Context, rule_of
from xlapy.opcodes.attributes.dimensions import Window
from xlapy.opcodes.registry import Effect

MAX_EVALUATED_ELEMENTS = 4096
"""The largest array that is evaluated. Vectors of sizes are far smaller; larger constants are the program's data."""

MAX_EVALUATED_CALLS = 20_000
"""The most instructions of called computations that are evaluated for a program, each as often as it runs. A function
may call the next one twice, so that twenty short functions would run 2**20 times."""
MAX_WORK = 1 << 22
"""The most elements that are read and written when the constants of a program are evaluated."""
MAX_WINDOW_ELEMENTS = 1 << 16
"""The most elements of a padded array under a window. Padding and windows are not bounded by the arrays' sizes."""

_EVALUATED_FAMILIES = frozenset(
    {"elementwise", "sources", "movement", "contraction", "reduction", "indexing", "tuples", "sorting"}
)


class ConstantEvaluator:
    """Evaluates the instructions of one program and caches which values are known."""

    def __init__(self) -> None:
        self._values: dict[Instruction, object] = {}
        self._unknown: set[Instruction] = set()
        self._context: Context | None = None
        self._calls_left = MAX_EVALUATED_CALLS
        self._work_left = MAX_WORK
        self._run_lengths: dict[Computation, int] = {}
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
            if any(operand in self._unknown for operand in current.operands) or not self._is_evaluable(current):
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

    def _is_evaluable(self, instruction: Instruction) -> bool:
        """Returns whether an instruction is pure and its value is small, and work is left to evaluate it."""
        if instruction.op is opcodes.CALL:
            length = self._run_length(instruction.computations[0])
            if length <= self._calls_left:
                self._calls_left -= length
                return True
            return False
        if not is_pure(instruction) or not _is_small(instruction):
            return False
        self._work_left -= sum(_elements(i) for i in (instruction, *instruction.operands))
        return self._work_left >= 0

    def _run_length(self, computation: Computation) -> int:
        """Returns how many instructions run in a call; more than the limit if one of them cannot be evaluated."""
        known = self._run_lengths.get(computation)
        if known is None:
            known = 0
            for instruction in computation:
                if instruction.op is opcodes.CALL:
                    known += self._run_length(instruction.computations[0])
                elif instruction.op is not opcodes.PARAMETER:
                    known += 1 if is_pure(instruction) and _is_small(instruction) else MAX_EVALUATED_CALLS + 1
            self._run_lengths[computation] = known
        return known


def _is_small(instruction: Instruction) -> bool:
    window = getattr(instruction.attributes, "window", None)
    if window is not None and not _has_small_windows(window, instruction.operands[0].shape):
        return False
    return all(leaf.is_array and leaf.size <= MAX_EVALUATED_ELEMENTS for _, leaf in instruction.shape.leaves())


def _has_small_windows(window: Window, shape: Shape) -> bool:
    if len(window.dimensions) != shape.rank:
        return False
    extents = [
        size * each.base_dilation + abs(each.padding_low) + abs(each.padding_high) + each.size * each.window_dilation
        for size, each in zip(shape.dimensions, window.dimensions, strict=True)
    ]
    return bounded_product([max(extent, 1) for extent in extents]) <= MAX_WINDOW_ELEMENTS


def _elements(instruction: Instruction) -> int:
    shape = instruction.shape
    return shape.size if shape.is_array else shape.node_count


def is_pure(instruction: Instruction) -> bool:
    """Returns whether the value of an instruction depends on its operands only: not on the run or the device."""
    return (
        instruction.op is not opcodes.PARAMETER
        and instruction.op.family in _EVALUATED_FAMILIES
        and instruction.op.effect_of(instruction.attributes) is Effect.PURE
    )
