"""The table of rewrites, and the questions that many of them ask.

Owns: the form of a rule, what is known of a value (all elements equal, constant scalars). Must not know: when rules are
tried (`passes/simplify`).

A rule is `rule(write, instruction) -> replacement or None`: None if it does not fire, and then nothing was written. The
replacement has the same value for every operand value there is (NaN, infinities, zeros of both signs, integer extremes,
no elements at all) and is cheaper, or nearer to a form that other rules know; rules must not undo each other.
"""

from __future__ import annotations

from collections.abc import Callable
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
    """The rules of each op, in the order in which they are tried."""

    def __init__(self) -> None:
        self._table: dict[OpDef, list[RewriteRule]] = {}
        self._general: list[RewriteRule] = []

    def rule(self, *defs: OpDef) -> Callable[[RewriteRule], RewriteRule]:
        """Decorator: adds a rule to ops; without any, to all of them, behind their own."""

        def register(function: RewriteRule) -> RewriteRule:
            for op in defs:
                self._table.setdefault(op, []).append(function)
            if not defs:
                self._general.append(function)
            return function

        return register

    def of(self, op: OpDef) -> list[RewriteRule]:
        return [*self._table.get(op, ()), *self._general]

    def all_rules(self) -> list[RewriteRule]:
        return list(dict.fromkeys([*(rule for rules in self._table.values() for rule in rules), *self._general]))


REWRITES = Rewrites()


# -- what is known of a value


def known_array(instruction: Instruction) -> Array | None:
    """The elements of a constant array; None for anything else, and where text left the elements out."""
    if instruction.op is not opcodes.CONSTANT or not instruction.shape.is_array:
        return None
    literal: Literal = instruction.literal
    return None if literal.is_elided else literal.array


def splat(instruction: Instruction) -> Any | None:
    """The one value of all elements, as a NumPy scalar, if it is known: of a constant, seen through broadcasts,
    reshapes and the like."""
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


def splat_source(instruction: Instruction) -> Instruction | None:
    """The scalar that all elements are, for a broadcast of a scalar."""
    while (
        instruction.op in (opcodes.BROADCAST, opcodes.RESHAPE, opcodes.TRANSPOSE) and instruction.operands[0].shape.rank
    ):
        instruction = instruction.operands[0]
    return instruction.operands[0] if instruction.op is opcodes.BROADCAST else None


def is_number(value: Any | None, number: float) -> bool:
    """Whether a splat is a number exactly; the sign of a zero counts, NaN is no number."""
    if value is None or np.iscomplexobj(value) or value.dtype == np.bool_:
        return False
    if not is_float(value):
        return int(value) == number and not (number == 0 and np.signbit(number))
    wide = float(value)
    return wide == number and bool(np.signbit(wide)) == bool(np.signbit(number))


def is_float(value: Any) -> bool:
    """Whether a NumPy scalar is a real floating-point number."""
    return PrimitiveType.from_dtype(value.dtype).is_floating


def scalar_integer(instruction: Instruction) -> int | None:
    """The value of a constant integer scalar."""
    array = known_array(instruction)
    if array is None or array.ndim or not instruction.shape.element_type.is_integral:
        return None
    return int(array)


def same_everywhere(write: Writer, instruction: Instruction, value: complex | bool) -> Instruction:
    """A number in every element of the instruction's shape."""
    return write.filled(value, instruction.shape)


def has_one_user(instruction: Instruction) -> bool:
    return len(instruction.users) == 1 and not instruction.is_root
