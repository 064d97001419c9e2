"""The table of algebraic rewrite rules, and helpers that many rules share.

A rule is `rule(write, instruction) -> replacement or None`. It returns None, and writes nothing, if it does not match.
The replacement has the same value for all operand values (NaN, infinities, zeros of both signs, integer extremes, no
elements at all). It is cheaper, or closer to a form that other rules match. Rules must not undo each other.

Responsible for the form of a rule and for facts about values (equal elements, constant scalars). Does not depend on
when rules are applied (`passes/simplify.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import BF16, F16, F32, F64, Array, PrimitiveType
from xlapy.base.literal import Literal
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.registry import OpDef
from xlapy.passes.rewrite import Writer

RewriteRule = Callable[[Writer, Instruction], Instruction | None]

IEEE_TYPES = frozenset({F16, BF16, F32, F64})
"""Floating-point types with infinities, NaN and zeros of both signs."""


class Rewrites:
    """The rules of each operation, in the order in which they are tried."""

    def __init__(self) -> None:
        self._table: dict[OpDef, list[RewriteRule]] = {}
        self._general: list[RewriteRule] = []

    def rule(self, *defs: OpDef) -> Callable[[RewriteRule], RewriteRule]:
        """Returns a decorator that adds a rule to operations; without any, to all operations, after their own rules."""

        def register(function: RewriteRule) -> RewriteRule:
            for op in defs:
                self._table.setdefault(op, []).append(function)
            if not defs:
                self._general.append(function)
            return function

        return register

    def of(self, op: OpDef) -> list[RewriteRule]:
        """Returns the rules that apply to an operation."""
        return [*self._table.get(op, ()), *self._general]

    def all_rules(self) -> list[RewriteRule]:
        """Returns every rule once."""
        return list(dict.fromkeys([*(rule for rules in self._table.values() for rule in rules), *self._general]))


REWRITES = Rewrites()


# -- facts about values


def known_array(instruction: Instruction) -> Array | None:
    """Returns the elements of a constant array; None for other instructions and for elided constants."""
    if instruction.op is not opcodes.CONSTANT or not instruction.shape.is_array:
        return None
    literal: Literal = instruction.literal
    return None if literal.is_elided else literal.array


def splat(instruction: Instruction) -> Any | None:
    """Returns the common value of all elements as a NumPy scalar; None if it is unknown or elements differ.

    Follows broadcasts, reshapes, transposes and copies to a constant.
    """
    while instruction.op in (opcodes.BROADCAST, opcodes.RESHAPE, opcodes.TRANSPOSE, opcodes.COPY):
        instruction = instruction.operands[0]
    array = known_array(instruction)
    if array is None or not array.size:
        return None
    flat = array.reshape(-1)
    first = flat[:1].tobytes()
    if flat[-1:].tobytes() != first or flat.tobytes() != first * flat.size:
        return None
    return flat[0]


def broadcast_scalar_of(instruction: Instruction) -> Instruction | None:
    """Returns the scalar of which an array is a broadcast, possibly reshaped or transposed; None for other arrays."""
    while (
        instruction.op in (opcodes.BROADCAST, opcodes.RESHAPE, opcodes.TRANSPOSE) and instruction.operands[0].shape.rank
    ):
        instruction = instruction.operands[0]
    return instruction.operands[0] if instruction.op is opcodes.BROADCAST else None


def is_number(value: Any | None, number: float) -> bool:
    """Returns whether a value that `splat` returned equals a number. The sign of zero counts; NaN equals nothing."""
    if value is None or np.iscomplexobj(value) or value.dtype == np.bool_:
        return False
    if not is_float(value):
        return int(value) == number and not (number == 0 and np.signbit(number))
    wide = float(value)
    return wide == number and bool(np.signbit(wide)) == bool(np.signbit(number))


def is_true(value: Any | None) -> bool:
    """Returns whether a value that `splat` returned is the predicate true."""
    return value is not None and value.dtype == np.bool_ and bool(value)


def is_false(value: Any | None) -> bool:
    """Returns whether a value that `splat` returned is the predicate false."""
    return value is not None and value.dtype == np.bool_ and not bool(value)


def is_float(value: Any) -> bool:
    """Returns whether a NumPy scalar has a real floating-point type."""
    return PrimitiveType.from_dtype(value.dtype).is_floating


def limits_of_type(t: PrimitiveType) -> tuple[float, float] | None:
    """Returns the least and greatest value, infinities included, of IEEE and integer types; None for other types."""
    if t in IEEE_TYPES:
        return -np.inf, np.inf
    if not t.is_integral:
        return None
    return (-(2 ** (t.bits - 1)), 2 ** (t.bits - 1) - 1) if t.is_signed else (0, 2**t.bits - 1)


def scalar_integer(instruction: Instruction) -> int | None:
    """Returns the value of a constant integer scalar; None for other instructions."""
    array = known_array(instruction)
    if array is None or array.ndim or not instruction.shape.element_type.is_integral:
        return None
    return int(array)


def splat_like(write: Writer, instruction: Instruction, value: complex | bool) -> Instruction:
    """Writes a broadcast of a number to the shape of an instruction."""
    return write.splat(value, instruction.shape)


def has_one_user(instruction: Instruction) -> bool:
    """Returns whether exactly one instruction uses a value and the computation does not return it."""
    return instruction.user_count == 1 and not instruction.is_root


def operand_orders(instruction: Instruction) -> Iterator[tuple[Instruction, Instruction]]:
    """Yields the operands of a commutative operation in both orders."""
    lhs, rhs = instruction.operands
    yield lhs, rhs
    yield rhs, lhs


def element_type_of(instruction: Instruction) -> PrimitiveType:
    """Returns the element type of the result."""
    return instruction.shape.element_type
