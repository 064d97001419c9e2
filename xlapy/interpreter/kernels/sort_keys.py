"""Recognizes comparators that compare by keys, so that a sort computes each key once and sorts integers.

Responsible for recognizing lexicographic comparisons of keys. Does not depend on how an array is sorted.

Most comparators compare a key of the left element with the same key of the right element, and if these are equal, the
next key. A key is any elementwise function of one element, such as `select(x != x, nan, x)`. The logic that combines
the comparisons (`or(lt1, and(eq1, lt2))`, `select(eq1, lt2, lt1)` ...) is not matched by pattern: the comparator is
evaluated for all 3^k outcomes (less, equal, greater) of its k keys, and that table shows which key decides first.
Example: for `or(lt1, and(eq1, lt2))` the table is true wherever key 1 is less and false wherever it is greater,
whatever key 2 is: key 1 decides first. Where key 1 is equal, the same holds for key 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PrimitiveType
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import ancestors, post_order
from xlapy.interpreter.core import RULES, Array, Context
from xlapy.interpreter.elementwise import total_order_key
from xlapy.interpreter.kernels.integer import to_native_integer
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection, ComparisonType

_MAX_KEYS = 8  # the table has 3^keys entries

_TRUE_FOR = {
    ComparisonDirection.EQ: (False, True, False),
    ComparisonDirection.NE: (True, False, True),
    ComparisonDirection.LT: (True, False, False),
    ComparisonDirection.LE: (True, True, False),
    ComparisonDirection.GT: (False, False, True),
    ComparisonDirection.GE: (False, True, True),
}
"""The result of a comparison if its left side is less than, equal to, greater than its right side."""


def integer_key(array: Array) -> Array:
    """Returns integers in the order of the elements: integers by value, floats in total order, false before true."""
    if array.dtype == np.bool_:
        return array.astype(np.uint8)
    element_type = PrimitiveType.from_dtype(array.dtype)
    return total_order_key(array) if element_type.is_floating else to_native_integer(array)


def comparator_keys(context: Context, comparator: Computation, operands: Sequence[Array]) -> list[Array] | None:
    """Returns integer arrays, most significant first, such that sorting by them is sorting by the comparator.

    Returns None if the comparator has another form, or if a NaN is compared by IEEE's partial order, in which NaN is
    unordered.
    """
    reading = _Reading(comparator)
    if not reading.find_comparisons() or len(reading.keys) > _MAX_KEYS:
        return None
    decisions = _decisions(reading.table(context))
    if decisions is None:
        return None
    keys = [_evaluate_key(context, comparator, key, operands) for key in reading.keys]
    known = [key for key in keys if key is not None]
    if len(known) < len(keys):
        return None
    return [~known[number] if descending else known[number] for number, descending in decisions]


@dataclass(frozen=True, slots=True)
class _Key:
    """A function of the left element, and the order in which its values are compared."""

    value: Instruction
    partial_order: bool


@dataclass(slots=True)
class _Reading:
    """The instructions of a comparator, classified as constants, comparisons of keys, and logic that combines these."""

    comparator: Computation
    keys: list[_Key] = field(default_factory=list[_Key])
    comparisons: dict[Instruction, tuple[int, bool]] = field(default_factory=dict[Instruction, tuple[int, bool]])
    """The key of each comparison, and whether the left element is its right operand."""
    logic: list[Instruction] = field(default_factory=list[Instruction])
    """Constants, comparisons and the logic that combines them, operands first."""

    def find_comparisons(self) -> bool:
        """Returns whether every instruction that the root depends on can be classified."""
        sides: dict[Instruction, set[int]] = {}
        needed = ancestors([self.comparator.root_instruction])
        for instruction in post_order(self.comparator):
            if instruction not in needed:
                continue
            if instruction.op is opcodes.PARAMETER:
                sides[instruction] = {instruction.parameter_number % 2}
                continue
            sides[instruction] = {side for operand in instruction.operands for side in sides[operand]}
            if not self._classify(instruction, sides):
                return False
        return len(sides[self.comparator.root_instruction]) == 2

    def _classify(self, instruction: Instruction, sides: dict[Instruction, set[int]]) -> bool:
        """Classifies an instruction; returns False if it is none of the three and not part of a key."""
        if instruction.shape.rank or not instruction.shape.is_array:
            return False
        if not (instruction.op.elementwise or instruction.op in (opcodes.CONSTANT, opcodes.BITCAST_CONVERT)):
            return False
        if len(sides[instruction]) == 1:
            return True
        joins = all(len(sides[operand]) != 1 for operand in instruction.operands)
        if not joins and not self._is_comparison(instruction, sides):
            return False
        self.logic.append(instruction)
        return True

    def _is_comparison(self, instruction: Instruction, sides: dict[Instruction, set[int]]) -> bool:
        if instruction.op is not opcodes.COMPARE or not _mirror(*instruction.operands):
            return False
        left, right = instruction.operands
        swapped = 1 in sides[left]
        has_partial_order = left.shape.element_type.is_floating or left.shape.element_type.is_complex
        partial = (
            has_partial_order and instruction.attributes_as(CompareAttributes).type is not ComparisonType.TOTALORDER
        )
        self.comparisons[instruction] = (self._number(_Key(right if swapped else left, partial)), swapped)
        return True

    def _number(self, key: _Key) -> int:
        for number, known in enumerate(self.keys):
            if known.partial_order == key.partial_order and _same(known.value, key.value):
                return number
        self.keys.append(key)
        return len(self.keys) - 1

    def table(self, context: Context) -> Array:
        """Returns the comparator's result for all outcomes: pred[3, 3, ...], one dimension (<, =, >) per key."""
        rank = len(self.keys)
        values: dict[Instruction, Array] = {}
        for instruction in self.logic:
            if instruction in self.comparisons:
                number, swapped = self.comparisons[instruction]
                results = np.array(_TRUE_FOR[instruction.attributes_as(CompareAttributes).direction])
                shape = [3 if d == number else 1 for d in range(rank)]
                values[instruction] = (results[::-1] if swapped else results).reshape(shape)
            else:
                operands = [values[operand] for operand in instruction.operands]
                values[instruction] = RULES.find(instruction.op)(context, instruction, operands)
        return np.broadcast_to(values[self.comparator.root_instruction], (3,) * rank)


def _decisions(table: Array) -> list[tuple[int, bool]] | None:
    """Returns the keys in the order in which they decide, each with whether it descends; None if there is no order."""
    remaining = list(range(table.ndim))
    decided: list[tuple[int, bool]] = []
    while table.ndim and table.any() and not table.all():
        for axis in range(table.ndim):
            less, greater = table.take(0, axis), table.take(2, axis)
            ascends, descends = less.all() and not greater.any(), greater.all() and not less.any()
            if ascends or descends:
                decided.append((remaining.pop(axis), bool(descends)))
                table = table.take(1, axis)
                break
        else:
            return None
    return decided


def _evaluate_key(context: Context, comparator: Computation, key: _Key, operands: Sequence[Array]) -> Array | None:
    """Returns the key of every element; None for a NaN in partial order, and for complex numbers."""
    values: dict[Instruction, Array] = {}
    needed = ancestors([key.value])
    for instruction in post_order(comparator):
        if instruction in needed and instruction.op is opcodes.PARAMETER:
            values[instruction] = operands[instruction.parameter_number // 2]
        elif instruction in needed:
            arguments = [values[operand] for operand in instruction.operands]
            values[instruction] = RULES.find(instruction.op)(context, instruction, arguments)
    value = values[key.value]
    if value.dtype.kind == "c" or (key.partial_order and np.isnan(value).any()):
        return None
    if key.partial_order:
        value = np.where(value == 0, np.zeros((), value.dtype), value)  # -0 equals +0
    return integer_key(value)


def _same(a: Instruction, b: Instruction) -> bool:
    return _agree(a, b, 0)


def _mirror(a: Instruction, b: Instruction) -> bool:
    """Returns whether `a` and `b` are the same function, one of the left element and the other of the right one."""
    return _agree(a, b, 1)


def _agree(a: Instruction, b: Instruction, flip: int) -> bool:
    """Returns whether two expressions are equal if the lowest bit of parameter numbers in one is flipped by `flip`."""
    pairs = [(a, b)]
    seen: set[tuple[Instruction, Instruction]] = set()
    while pairs:
        x, y = pairs.pop()
        if (x, y) in seen:
            continue
        seen.add((x, y))
        if x.op is not y.op or x.shape.element_type is not y.shape.element_type or len(x.operands) != len(y.operands):
            return False
        if x.op is opcodes.PARAMETER:
            if x.parameter_number ^ flip != y.parameter_number:
                return False
        elif x.attributes != y.attributes:
            return False
        pairs.extend(zip(x.operands, y.operands, strict=True))
    return True


def partially_ordered_keys(comparator: Computation) -> list[Instruction] | None:
    """Returns the keys of the left element that a comparator compares by the partial order, in which NaN is unordered.

    If none of these keys is NaN, the comparator is a strict weak order of all elements. Returns None for a comparator
    that is not recognized as such an order.
    """
    reading = _Reading(comparator)
    if not reading.find_comparisons() or len(reading.keys) > _MAX_KEYS:
        return None
    table = reading.table(Context())
    is_strict = not table[(1,) * table.ndim]
    if not is_strict or _decisions(table) is None:
        return None
    partial = [key.value for key in reading.keys if key.partial_order]
    return None if any(key.shape.element_type.is_complex for key in partial) else partial
