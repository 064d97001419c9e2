"""Finds the integers in a loop whose values follow from the number of the iteration.

Example: in a loop whose counter i runs from 0 to 99, `99 - i` is 99, 98, ..., and `select(i < 0, i + 100, i)` is i.
Does not depend on what is done with them.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy import opcodes
from xlapy.analysis.constants import has_all_elements, literal_value
from xlapy.analysis.counted_loops import constant_steps
from xlapy.analysis.loops import TupleLoop
from xlapy.base.element_types import PrimitiveType
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection


@dataclass(frozen=True, slots=True)
class Steps:
    """The values of an integer in the iterations of a loop: `first`, `first + step`, `first + 2 * step`, ..."""

    first: int
    step: int

    def bounds(self, count: int) -> tuple[int, int]:
        """Returns the least and the greatest value in `count` iterations."""
        last = self.first + self.step * (count - 1)
        return min(self.first, last), max(self.first, last)


def iteration_numbers(view: TupleLoop, count: int) -> dict[Instruction, Steps]:
    """Returns the scalars of a loop's body that follow from the number of the iteration, constants among them.

    count: the trip count, at least 1. Values that do not fit in their element type in some iteration are left out.
    """
    found: dict[Instruction, Steps] = {}
    for instruction in post_order(view.body):
        shape = instruction.shape
        if not shape.is_array or shape.size != 1 or not shape.element_type.is_integral:
            continue
        steps = _steps(view, instruction, found, count)
        if steps is not None and fits(steps, shape.element_type, count):
            found[instruction] = steps
    return found


def fits(steps: Steps, t: PrimitiveType, count: int) -> bool:
    """Whether the values in `count` iterations are values of an integer type."""
    lowest, highest = (-(1 << t.bits - 1), (1 << t.bits - 1) - 1) if t.is_signed else (0, (1 << t.bits) - 1)
    low, high = steps.bounds(count)
    return lowest <= low and high <= highest


def _steps(view: TupleLoop, one: Instruction, found: dict[Instruction, Steps], count: int) -> Steps | None:
    if one.op is opcodes.CONSTANT:
        known = has_all_elements(one.literal)
        return Steps(int(literal_value(one.literal).reshape(())), 0) if known else None
    if one.op is opcodes.GET_TUPLE_ELEMENT and one.operands[0] is view.body.parameters[0]:
        counter = constant_steps(view.loop, one.tuple_index)
        return None if counter is None else Steps(*counter)
    if one.op is opcodes.SELECT:
        chosen = _known_comparison(one.operands[0], found, count)
        return None if chosen is None else found.get(one.operands[1 if chosen else 2])
    operands = [found.get(operand) for operand in one.operands]
    values = [operand for operand in operands if operand is not None]
    if not values or len(values) < len(operands):
        return None
    if one.op in (opcodes.CONVERT, opcodes.COPY, opcodes.RESHAPE):
        return values[0]
    if one.op is opcodes.ADD:
        return Steps(values[0].first + values[1].first, values[0].step + values[1].step)
    if one.op is opcodes.SUBTRACT:
        return Steps(values[0].first - values[1].first, values[0].step - values[1].step)
    if one.op in (opcodes.MAXIMUM, opcodes.MINIMUM):
        (low0, high0), (low1, high1) = (value.bounds(count) for value in values)
        if low0 >= high1 or low1 >= high0:
            return values[(low0 >= high1) != (one.op is opcodes.MAXIMUM)]
    return None


def _known_comparison(one: Instruction, found: dict[Instruction, Steps], count: int) -> bool | None:
    """Returns the result of a comparison of a scalar if it is the same in all iterations."""
    if one.op is not opcodes.COMPARE or any(operand not in found for operand in one.operands):
        return None
    left, right = (found[operand] for operand in one.operands)
    low, high = Steps(left.first - right.first, left.step - right.step).bounds(count)
    direction = one.attributes_as(CompareAttributes).direction
    if direction in (ComparisonDirection.LT, ComparisonDirection.GE):
        known = True if high < 0 else False if low >= 0 else None
        return known if direction is ComparisonDirection.LT or known is None else not known
    if direction in (ComparisonDirection.GT, ComparisonDirection.LE):
        known = True if low > 0 else False if high <= 0 else None
        return known if direction is ComparisonDirection.GT or known is None else not known
    return None
