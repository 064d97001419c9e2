"""Reads a comparator as an order of keys, so that a sort can compute each key once and sort by integers.

Owns: recognising comparators that compare lexicographically by keys. Must not know: how an array is sorted.

Most comparators say: compare a key of the left element with the same key of the right one, and if they are equal the
next key. A key is any elementwise function of one element, such as `select(x != x, nan, x)`. How the comparisons are
put together (`or(lt1, and(eq1, lt2))`, `select(eq1, lt2, lt1)` ...) is not matched by pattern: the comparator is
evaluated for all 3^k outcomes (less, equal, greater) of its k keys, and that table shows which key decides first.
Example: for `or(lt1, and(eq1, lt2))` the table is true wherever key 1 is less and false wherever it is greater,
whatever key 2 is; so key 1 decides. Where key 1 is equal, the same holds of key 2.
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

_MOST_KEYS = 8  # the table has 3^keys entries

_TRUE_FOR = {
    ComparisonDirection.EQ: (False, True, False),
    ComparisonDirection.NE: (True, False, True),
    ComparisonDirection.LT: (True, False, False),
    ComparisonDirection.LE: (True, True, False),
    ComparisonDirection.GT: (False, False, True),
    ComparisonDirection.GE: (False, True, True),
}
"""What a comparison says if its left side is less than, equal to, greater than its right side."""


def integer_key(array: Array) -> Array:
    """Integers in the order of the elements: numbers by value, floats in the total order, false before true."""
    if array.dtype == np.bool_:
        return array.astype(np.uint8)
    element_type = PrimitiveType.from_dtype(array.dtype)
    return total_order_key(array) if element_type.is_floating else to_native_integer(array)


def comparator_keys(context: Context, comparator: Computation, operands: Sequence[Array]) -> list[Array] | None:
    """Integer arrays, the first decides first, such that sorting by them ascending is sorting by the comparator.

    None if the comparator cannot be read so, or if a NaN is compared by IEEE's partial order, which orders it nowhere.
    """
    reading = _Reading(comparator)
    if not reading.find_comparisons() or len(reading.keys) > _MOST_KEYS:
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
    """A function of the left element, and the order its values are compared in."""

    value: Instruction
    partial_order: bool


@dataclass(slots=True)
class _Reading:
    """The instructions of a comparator told apart: constants, comparisons of keys, and the logic that joins these."""

    comparator: Computation
    keys: list[_Key] = field(default_factory=list[_Key])
    comparisons: dict[Instruction, tuple[int, bool]] = field(default_factory=dict[Instruction, tuple[int, bool]])
    """The key of each comparison, and whether the left element stands on its right side."""
    logic: list[Instruction] = field(default_factory=list[Instruction])
    """Constants, comparisons and what joins them, operands first."""

    def find_comparisons(self) -> bool:
        """Whether all that the root depends on can be told apart."""
        sides: dict[Instruction, set[int]] = {}
        needed = ancestors([self.comparator.root_instruction])
        for instruction in post_order(self.comparator):
            if instruction not in needed:
                continue
            if instruction.op is opcodes.PARAMETER:
                sides[instruction] = {instruction.parameter_number % 2}
                continue
            sides[instruction] = {side for operand in instruction.operands for side in sides[operand]}
            if not self._place(instruction, sides):
                return False
        return len(sides[self.comparator.root_instruction]) == 2

    def _place(self, instruction: Instruction, sides: dict[Instruction, set[int]]) -> bool:
        """Tells an instruction apart; False if it is none of the three, nor part of a key."""
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
        """What the comparator says for each outcome of its keys: pred[3, 3, ...], a dimension (<, =, >) a key."""
        rank = len(self.keys)
        values: dict[Instruction, Array] = {}
        for instruction in self.logic:
            if instruction in self.comparisons:
                number, swapped = self.comparisons[instruction]
                says = np.array(_TRUE_FOR[instruction.attributes_as(CompareAttributes).direction])
                along = [3 if d == number else 1 for d in range(rank)]
                values[instruction] = (says[::-1] if swapped else says).reshape(along)
            else:
                operands = [values[operand] for operand in instruction.operands]
                values[instruction] = RULES.find(instruction.op)(context, instruction, operands)
        return np.broadcast_to(values[self.comparator.root_instruction], (3,) * rank)


def _decisions(table: Array) -> list[tuple[int, bool]] | None:
    """The keys in the order in which they decide, each with whether it descends; None if it is not so simple."""
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
    """The key of every element; None for a NaN in partial order, and for complex numbers, which have none."""
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
    """Whether `b` computes from the right element what `a` computes from the left one, or the other way round."""
    return _agree(a, b, 1)


def _agree(a: Instruction, b: Instruction, flip: int) -> bool:
    """Whether two expressions are equal once the lowest bit of parameter numbers is flipped."""
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
