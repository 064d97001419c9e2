"""Estimates how often loops run whose condition compares a counter.

A loop is counted if its condition, or one of the conditions that it joins by `and`, compares an element of the state
with a constant, and the body adds a constant to that element that leads to it. Nothing bounds other loops, such as
those that wait for an error to become small.

Responsible for this estimate. Does not depend on what a loop computes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import ceil, inf
from typing import Final

from xlapy import opcodes
from xlapy.analysis.constants import has_all_elements, literal_value
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection

_SAME_VALUE: Final = frozenset({opcodes.BITCAST, opcodes.CONVERT, opcodes.COPY, opcodes.RESHAPE})
"""Opcodes whose result is their operand, if both are integers and the result's type has all values of the operand's."""

_MIRRORED: Final = {
    ComparisonDirection.LT: ComparisonDirection.GT,
    ComparisonDirection.LE: ComparisonDirection.GE,
    ComparisonDirection.GT: ComparisonDirection.LT,
    ComparisonDirection.GE: ComparisonDirection.LE,
}
_UPWARD: Final = (ComparisonDirection.LT, ComparisonDirection.LE, ComparisonDirection.NE)
_DOWNWARD: Final = (ComparisonDirection.GT, ComparisonDirection.GE, ComparisonDirection.NE)


def estimated_trip_count(loop: Instruction) -> float:
    """Returns an upper bound of the trip count, or infinity if there is none. A counter whose first value is unknown is
    taken to begin with 0 if it counts up."""
    condition = _Value.root(loop.computations[0])
    return min((_bound(loop, one) for one in _joined(condition)), default=inf)


@dataclass(frozen=True, slots=True)
class Counter:
    """An element of a loop's state that counts its iterations: `first`, `first + step`, ..."""

    number: int
    """The number of the element in the state."""
    first: int
    step: int
    trip_count: int
    """How often the loop runs."""


def exact_trip_count(loop: Instruction) -> int | None:
    """Returns the trip count of a loop that adds a constant to a counter until it reaches another; None for others.

    Neither conversions nor overflows of the counter are followed.
    """
    counter = counter_of(loop)
    return None if counter is None else counter.trip_count


def counter_of(loop: Instruction) -> Counter | None:
    """Returns the counter that alone decides how often a loop runs; None if `exact_trip_count` is not known."""
    compare = loop.computations[0].root_instruction
    if compare.op is not opcodes.COMPARE:
        return None
    direction = compare.attributes_as(CompareAttributes).direction
    left, right = compare.operands
    if left.op is opcodes.CONSTANT:
        left, right, direction = right, left, _MIRRORED.get(direction, direction)
    number, limit = _Value(left).element(), _Value(right).constant()
    if number is None or limit is None or direction not in _MIRRORED:
        return None
    steps = constant_steps(loop, number)
    if steps is None or not steps[1] or (steps[1] > 0) != (direction in _UPWARD):
        return None
    first, step = steps
    distance = limit + (direction is ComparisonDirection.LE) - (direction is ComparisonDirection.GE) - first
    count = max(0, -(-distance // step))
    t = left.shape.element_type
    lowest, highest = (-(1 << t.bits - 1), (1 << t.bits - 1) - 1) if t.is_signed else (0, (1 << t.bits) - 1)
    return Counter(number, first, step, count) if lowest <= first + count * step <= highest else None


def counter_range(loop: Instruction, number: int, *, in_body: bool) -> tuple[int, int] | None:
    """Returns bounds of an element of a loop's state to which each iteration adds a constant; None for others.

    in_body: the bounds in the body; else those in the condition, which the last value does not meet.
    """
    step, first = _step(loop, number), _first(loop, number)
    if step is None or first is None:
        return None
    conditions = list(_joined(_Value.root(loop.computations[0])))
    trips = min((_bound(loop, one, first_known=True) for one in conditions), default=inf)
    if trips == inf:
        return _one_sided_range(loop, number, first, step, conditions, in_body=in_body)
    if in_body and not trips:
        return None
    last = first + step * (int(trips) - in_body)
    return min(first, last), max(first, last)


def _one_sided_range(
    loop: Instruction, number: int, first: int, step: int, conditions: Iterable[_Value], *, in_body: bool
) -> tuple[int, int] | None:
    """The bounds of a counter that is compared with a computed limit: it reaches the limit before it overflows."""
    t = loop.shape.tuple_shapes[number].element_type
    wanted = {1: ComparisonDirection.LT, -1: ComparisonDirection.GT}.get(step)
    for condition in conditions:
        if condition.instruction.op is not opcodes.COMPARE:
            continue
        direction = condition.instruction.attributes_as(CompareAttributes).direction
        left, right = condition.instruction.operands
        if _Value(right, condition.caller).resolved().element() == number:
            left, direction = right, _MIRRORED.get(direction, direction)
        counter = _Value(left, condition.caller).resolved()
        if counter.element() == number and left.shape.element_type is t and direction is wanted:
            highest = (1 << t.bits - t.is_signed) - 1
            lowest = -(1 << t.bits - 1) if t.is_signed else 0
            return (first, highest - in_body) if step > 0 else (lowest + in_body, first)
    return None


def constant_steps(loop: Instruction, number: int) -> tuple[int, int] | None:
    """Returns the first value of an element of a loop's state and what each iteration adds, if both are constants."""
    state, (initial,) = loop.computations[1].root_instruction, loop.operands
    if state.op is not opcodes.TUPLE or initial.op is not opcodes.TUPLE:
        return None
    first, step = _Value(initial.operands[number]).constant(), _constant_step(state.operands[number], number)
    return None if first is None or step is None else (first, step)


def _constant_step(following: Instruction, number: int) -> int | None:
    """Returns the constant that an instruction adds to an element of the state."""
    if following.op not in (opcodes.ADD, opcodes.SUBTRACT):
        return None
    left, right = following.operands
    if following.op is opcodes.ADD and left.op is opcodes.CONSTANT:
        left, right = right, left
    constant = _Value(right).constant()
    if constant is None or _Value(left).element() != number:
        return None
    return constant if following.op is opcodes.ADD else -constant


@dataclass(frozen=True, slots=True)
class _Value:
    """An instruction, and the calls that its parameters belong to, from the innermost fusion or call outward."""

    instruction: Instruction
    caller: _Value | None = None

    @staticmethod
    def root(computation: Computation) -> _Value:
        return _Value(computation.root_instruction).resolved()

    def operand(self, number: int) -> _Value:
        return _Value(self.instruction.operands[number], self.caller).resolved()

    def resolved(self) -> _Value:
        """Returns the instruction that computes the value, behind copies, calls, fusions and tuples."""
        current = self
        while (inner := current._inner()) is not None:
            current = inner
        return current

    def _inner(self) -> _Value | None:
        one = self.instruction
        if one.op in _SAME_VALUE and _keeps_integers(one):
            return _Value(one.operands[0], self.caller)
        if one.op in (opcodes.CALL, opcodes.FUSION):
            return _Value(one.computations[0].root_instruction, self)
        if one.op is opcodes.PARAMETER and self.caller is not None:
            return _Value(self.caller.instruction.operands[one.parameter_number], self.caller.caller)
        if one.op is opcodes.GET_TUPLE_ELEMENT:
            whole = self.operand(0)
            if whole.instruction.op is opcodes.TUPLE:
                return _Value(whole.instruction.operands[one.tuple_index], whole.caller)
        return None

    def constant(self) -> int | None:
        """Returns the value of an integer constant."""
        one = self.instruction
        if (
            one.op is not opcodes.CONSTANT
            or one.shape.rank
            or not _is_integral(one)
            or not has_all_elements(one.literal)
        ):
            return None
        return int(literal_value(one.literal))

    def element(self) -> int | None:
        """Returns the number of the element of the loop's state that the value is."""
        one = self.instruction
        if one.op is not opcodes.GET_TUPLE_ELEMENT:
            return None
        whole = self.operand(0)
        return one.tuple_index if whole.instruction.op is opcodes.PARAMETER and whole.caller is None else None


def _keeps_integers(instruction: Instruction) -> bool:
    """Whether an instruction with one operand returns the same integers, whatever they are."""
    (operand,) = instruction.operands
    if not _is_integral(instruction) or not _is_integral(operand):
        return False
    before, after = operand.shape.element_type, instruction.shape.element_type
    return before is after or (before.bits < after.bits and (after.is_signed or not before.is_signed))


def _is_integral(instruction: Instruction) -> bool:
    shape = instruction.shape
    return shape.is_array and shape.element_type.is_integral


def _joined(condition: _Value) -> Iterator[_Value]:
    """Yields the conditions that must all hold."""
    stack, seen = [condition], set[_Value]()
    while stack:
        one = stack.pop()
        if one in seen:
            continue
        seen.add(one)
        if one.instruction.op is opcodes.AND:
            stack += [one.operand(0), one.operand(1)]
        else:
            yield one


def _bound(loop: Instruction, condition: _Value, *, first_known: bool = False) -> float:
    """Returns how often a comparison of a counter can hold; infinity for other conditions.

    first_known: whether the bound must hold for any first value that is not constant, and for counters that overflow.
    """
    if condition.instruction.op is not opcodes.COMPARE:
        return inf
    direction = condition.instruction.attributes_as(CompareAttributes).direction
    left, right = condition.operand(0), condition.operand(1)
    if right.element() is not None:
        left, right, direction = right, left, _MIRRORED.get(direction, direction)
    number, limit = left.element(), right.constant()
    if number is None or limit is None:
        return inf
    step, first = _step(loop, number), _first(loop, number)
    distance = limit + (direction is ComparisonDirection.LE) - (direction is ComparisonDirection.GE)
    if first_known:
        if first is None or step is None or direction is ComparisonDirection.NE:  # it may step over its limit
            return inf
        if not _fits(loop, number, distance + step + (-1 if step > 0 else 1)):  # it overflows
            return inf
    if step is not None and step > 0 and direction in _UPWARD:
        return max(0, ceil((distance - (first or 0)) / step))
    if step is not None and step < 0 and direction in _DOWNWARD and first is not None:
        return max(0, ceil((distance - first) / step))
    return inf


def _fits(loop: Instruction, number: int, value: int) -> bool:
    """Whether an integer is a value of the type of an element of the state."""
    t = loop.shape.tuple_shapes[number].element_type
    return -(1 << t.bits - 1) <= value < 1 << t.bits - 1 if t.is_signed else 0 <= value < 1 << t.bits


def _step(loop: Instruction, number: int) -> int | None:
    """Returns the constant that the body adds to an element of the state."""
    state = _Value.root(loop.computations[1])
    if state.instruction.op is not opcodes.TUPLE:
        return None
    following = state.operand(number)
    if following.instruction.op not in (opcodes.ADD, opcodes.SUBTRACT):
        return None
    left, right = following.operand(0), following.operand(1)
    if following.instruction.op is opcodes.ADD and right.element() == number:
        left, right = right, left
    constant = right.constant()
    if left.element() != number or constant is None:
        return None
    return constant if following.instruction.op is opcodes.ADD else -constant


def _first(loop: Instruction, number: int) -> int | None:
    """Returns the value of an element of the state before the loop, if it is a constant."""
    state = _Value(loop.operands[0]).resolved()
    return state.operand(number).constant() if state.instruction.op is opcodes.TUPLE else None
