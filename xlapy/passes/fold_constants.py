"""The pass that evaluates what is known already.

Owns: what may be evaluated and how much of it. What operations mean is the interpreter's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from xlapy import opcodes
from xlapy.analysis.constants import CHEAP_TO_RECOMPUTE_OPS, depends_only_on_operands, has_all_elements, literal_value
from xlapy.analysis.effects import Effects
from xlapy.analysis.work import element_count, estimated_work
from xlapy.base.errors import InvalidArgumentError, XlaError
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order, post_order
from xlapy.interpreter import RULES, Context
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule

_PLAIN = frozenset(
    {opcodes.PARAMETER, opcodes.CONSTANT, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, *CHEAP_TO_RECOMPUTE_OPS}
)

_STEP = 256
"""What it costs to evaluate an instruction at all, in elements."""

_DEEPEST = 50
"""How deep calls may be inside each other, since the interpreter follows them by recursion."""


class _OverBudgetError(Exception):
    """An evaluation took more work than it may."""


@dataclass(frozen=True)
class FoldConstants:
    """Evaluates instructions whose operands are constants, on the interpreter.

    elements: the most elements of a result, unless its operands have more together. work: about how many elements an
    evaluation may handle; loops that take more are left. Broadcasts and iotas stay as they are, for they are cheaper
    made than stored, but may be operands. Effects, barriers, random numbers and what differs between devices are never
    folded.
    """

    name: ClassVar[str] = "fold-constants"
    elements: int = 4096
    work: int = 1 << 22

    def __post_init__(self) -> None:
        for option in ("elements", "work"):
            if getattr(self, option) < 0:
                value = getattr(self, option)
                raise InvalidArgumentError(f"option {option} of pass {self.name} must be at least 0, not {value}")

    def run(self, module: Module) -> bool:
        folder = _Folder(module, self.elements, self.work)
        changed = False
        for computation in editable_computations(module):
            for instruction in post_order(computation):
                changed |= instruction.parent is not None and folder.fold(instruction)
        return update_schedule(module, changed)


@dataclass(frozen=True, slots=True)
class _Inside:
    """What a computation holds, those that it calls included."""

    steady: bool
    """Everything follows from the parameters."""
    loops: bool
    watched: bool
    """No loop is in a computation that is applied to many elements, where nothing watches over its work."""
    depth: int


class _Folder:
    """One run of the pass over a module."""

    def __init__(self, module: Module, elements: int, work: int) -> None:
        self.elements = elements
        self.work = work
        self.effects = Effects(module)
        self._inside: dict[Computation, _Inside] = {}
        for computation in computation_post_order(module):
            self._inside[computation] = self._look_into(computation)

    def _look_into(self, computation: Computation) -> _Inside:
        steady, loops, watched, depth = True, False, True, 0
        for instruction in computation:
            called = [self._inside[each] for each in instruction.computations]
            steady &= (instruction.op in _PLAIN or depends_only_on_operands(instruction)) and all(
                each.steady for each in called
            )
            loops |= instruction.op is opcodes.WHILE or any(each.loops for each in called)
            watched &= self._is_watched(instruction)
            depth = max([depth, *(each.depth for each in called)])
        return _Inside(steady, loops, watched, depth + 1)

    def _is_watched(self, instruction: Instruction) -> bool:
        called = [self._inside[each] for each in instruction.computations]
        at_once = instruction.op not in (opcodes.CALL, opcodes.WHILE, opcodes.CONDITIONAL)
        return all(each.watched and not (at_once and each.loops) for each in called)

    def fold(self, instruction: Instruction) -> bool:
        """Replaces an instruction by its value if that is known and cheap to find; whether it did."""
        if not (instruction.has_users or instruction.is_root) or not self._is_foldable(instruction):
            return False
        if (
            not instruction.operands
            or not all(map(self._is_known, instruction.operands))
            or not self._fits(instruction)
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
            spent += _STEP + element_count(step.shape)
            if spent > self.work:
                raise _OverBudgetError

        context.observer = count
        return RULES.find(instruction.op)(context, instruction, values)

    def _is_foldable(self, instruction: Instruction) -> bool:
        """Whether the value follows from the operands alone, here and now, in a time that is watched over."""
        if not depends_only_on_operands(instruction) or not self.effects.is_pure(instruction):
            return False
        called = [self._inside[each] for each in instruction.computations]
        shallow = all(each.steady and each.depth <= _DEEPEST for each in called)
        return shallow and self._is_watched(instruction)

    def _is_known(self, operand: Instruction) -> bool:
        if operand.op is opcodes.CONSTANT:
            return has_all_elements(operand.literal)
        if operand.op is opcodes.TUPLE:
            return all(map(self._is_known, operand.operands))
        small = operand.op in CHEAP_TO_RECOMPUTE_OPS and operand.shape.is_static and operand.shape.size <= self.elements
        return small and all(map(self._is_known, operand.operands))

    def _fits(self, instruction: Instruction) -> bool:
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
    """A value as a constant; a tuple as constants put together."""
    if shape.is_tuple:
        elements = [_write_value(write, *each) for each in zip(value, shape.tuple_shapes, strict=True)]
        return write.add(opcodes.TUPLE, *elements, shape=shape)
    return write.constant(Literal.array_of(np.asarray(value), shape))
