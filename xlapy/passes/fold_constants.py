"""The pass that evaluates instructions with constant operands, by the interpreter.

Responsible for what may be evaluated and for limits of size and work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from xlapy import opcodes
from xlapy.analysis.constants import CHEAP_TO_RECOMPUTE_OPS, depends_only_on_operands, has_all_elements, literal_value
from xlapy.analysis.cost import element_count
from xlapy.analysis.cost.evaluation import estimated_work
from xlapy.analysis.effects import Effects
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import InvalidArgumentError, XlaError
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order, post_order
from xlapy.interpreter import RULES, Context
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule

_TRIVIALLY_FOLDABLE = frozenset(
    {opcodes.PARAMETER, opcodes.CONSTANT, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, *CHEAP_TO_RECOMPUTE_OPS}
)

_WORK_PER_INSTRUCTION = 256
"""The fixed work of evaluating an instruction, in the unit of its work on elements."""

_MAX_CALL_DEPTH = 50
"""Calls nested deeper are not evaluated, because the interpreter follows calls by recursion."""


class _OverBudgetError(Exception):
    """An evaluation exceeded its work budget."""


@dataclass(frozen=True)
class FoldConstants:
    """Evaluates instructions whose operands are constants, on the interpreter.

    elements: the maximum number of elements of a result; more are allowed if the constant operands have more. work: a
    bound on the elements that an evaluation processes; longer loops are not evaluated. Broadcasts and iotas may be
    operands but are not folded themselves, because they are cheaper to compute than to store. Side effects, barriers,
    random numbers and values that differ between devices are never folded.
    """

    name: ClassVar[str] = "fold-constants"
    elements: int = 4096
    work: int = 1 << 22

    def __post_init__(self) -> None:
        for option in ("elements", "work"):
            if getattr(self, option) < 0:
                value = getattr(self, option)
                raise InvalidArgumentError(
                    codes.PASS_OPTION_VALUE, f"option {option} of pass {self.name} must be at least 0, not {value}"
                )

    def run(self, module: Module) -> bool:
        folder = _Folder(module, self.elements, self.work)
        changed = False
        for computation in editable_computations(module):
            for instruction in post_order(computation):
                changed |= instruction.parent is not None and folder.fold(instruction)
        return update_schedule(module, changed)


@dataclass(frozen=True, slots=True)
class _ComputationFacts:
    """Facts about a computation, including the computations that it calls."""

    is_deterministic: bool
    """Whether the parameters determine all values."""
    has_loops: bool
    has_bounded_work: bool
    """Whether no loop is in a computation that is applied to many elements, where its work is not counted."""
    depth: int


class _Folder:
    """One run of the pass over a module."""

    def __init__(self, module: Module, elements: int, work: int) -> None:
        self.elements = elements
        self.work = work
        self.effects = Effects(module)
        self._facts: dict[Computation, _ComputationFacts] = {}
        for computation in computation_post_order(module):
            self._facts[computation] = self._analyze(computation)

    def _analyze(self, computation: Computation) -> _ComputationFacts:
        is_deterministic, has_loops, has_bounded_work, depth = True, False, True, 0
        for instruction in computation:
            called = [self._facts[each] for each in instruction.computations]
            is_deterministic &= (
                instruction.op in _TRIVIALLY_FOLDABLE or depends_only_on_operands(instruction)
            ) and all(each.is_deterministic for each in called)
            has_loops |= instruction.op is opcodes.WHILE or any(each.has_loops for each in called)
            has_bounded_work &= self._has_bounded_work(instruction)
            depth = max([depth, *(each.depth for each in called)])
        return _ComputationFacts(is_deterministic, has_loops, has_bounded_work, depth + 1)

    def _has_bounded_work(self, instruction: Instruction) -> bool:
        called = [self._facts[each] for each in instruction.computations]
        applies_to_elements = instruction.op not in (opcodes.CALL, opcodes.WHILE, opcodes.CONDITIONAL)
        return all(each.has_bounded_work and not (applies_to_elements and each.has_loops) for each in called)

    def fold(self, instruction: Instruction) -> bool:
        """Replaces an instruction by its value if that is known and cheap to compute; returns whether it did."""
        if not (instruction.has_users or instruction.is_root) or not self._is_foldable(instruction):
            return False
        if (
            not instruction.operands
            or not all(map(self._is_known, instruction.operands))
            or not self._is_within_limits(instruction)
        ):
            return False
        values = [self._value(operand) for operand in instruction.operands]
        try:
            with np.errstate(all="ignore"):
                value = self._evaluate(instruction, values)
        except (XlaError, MemoryError, _OverBudgetError):
            return False
        write = Writer(instruction)
        replace_with_new(instruction, _write_value(write, value, instruction.shape))
        return True

    def _evaluate(self, instruction: Instruction, values: Sequence[Any]) -> Any:
        context = Context()
        spent = 0

        def count(step: Instruction, _: Sequence[Any], __: Any) -> None:
            nonlocal spent
            spent += _WORK_PER_INSTRUCTION + element_count(step.shape)
            if spent > self.work:
                raise _OverBudgetError

        context.observer = count
        return RULES.find(instruction.op)(context, instruction, values)

    def _is_foldable(self, instruction: Instruction) -> bool:
        """Returns whether operands alone determine the value, and the work of its evaluation is bounded."""
        if not depends_only_on_operands(instruction) or not self.effects.is_pure(instruction):
            return False
        called = [self._facts[each] for each in instruction.computations]
        is_foldable = all(each.is_deterministic and each.depth <= _MAX_CALL_DEPTH for each in called)
        return is_foldable and self._has_bounded_work(instruction)

    def _is_known(self, operand: Instruction) -> bool:
        if operand.op is opcodes.CONSTANT:
            return has_all_elements(operand.literal)
        if operand.op is opcodes.TUPLE:
            return all(map(self._is_known, operand.operands))
        small = operand.op in CHEAP_TO_RECOMPUTE_OPS and operand.shape.is_static and operand.shape.size <= self.elements
        return small and all(map(self._is_known, operand.operands))

    def _is_within_limits(self, instruction: Instruction) -> bool:
        if instruction.shape.is_dynamic:
            return False
        stored = sum(element_count(o.shape) for o in instruction.operands if o.op is opcodes.CONSTANT)
        size = element_count(instruction.shape)
        return size <= max(self.elements, stored) and estimated_work(instruction) <= self.work

    def _value(self, operand: Instruction) -> Any:
        if operand.op is opcodes.CONSTANT:
            return literal_value(operand.literal)
        values = [self._value(each) for each in operand.operands]
        return RULES.find(operand.op)(Context(), operand, values)


def _write_value(write: Writer, value: Any, shape: Shape) -> Instruction:
    """Writes a value as a constant; a tuple as a tuple of constants."""
    if shape.is_tuple:
        elements = [_write_value(write, *each) for each in zip(value, shape.tuple_shapes, strict=True)]
        return write.add(opcodes.TUPLE, *elements, shape=shape)
    return write.constant(Literal.array_of(np.asarray(value), shape))
