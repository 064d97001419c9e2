"""The axes of an iteration domain, and positions as affine functions of them, without a kernel.

The terms of a position are axes, quotients and remainders of positions, and values that depend on data. Does not
depend on instructions.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy.loops import I64, Affine, PositionArithmetic, Value
from xlapy.loops.ir import Block
from xlapy.lower.core import Index


@dataclass(frozen=True, slots=True)
class Condition:
    """low <= position < high."""

    position: Affine
    low: int
    high: int


class IterationSpace(PositionArithmetic):
    """The axes of an iteration domain, and the values that positions are functions of. Has no kernel."""

    def __init__(self) -> None:
        self._block = Block(None)
        self._divisions: dict[object, Value] = {}
        self._count = 0

    def axis(self, size: int) -> Affine:
        """A new axis with positions from 0 to size - 1."""
        return Affine.of(self._value("axis", (), None, (0, max(size - 1, 0))))

    def data(self, depends_on: Index, limit: int) -> Affine:
        """A position from 0 to `limit` that depends on data, which is read at the positions `depends_on`."""
        args = tuple(value for position in depends_on for value, _ in position.terms)
        return Affine.of(self._value("data", args, None, (0, limit)))

    def divided(self, op: str, dividend: Affine, divisor: int, limits: tuple[int, int] | None) -> Value:
        key = op, dividend, divisor
        found = self._divisions.get(key)
        if found is None:
            args = tuple(value for value, _ in dividend.terms)
            found = self._divisions[key] = self._value(op, args, (dividend, divisor), limits)
        return found

    def _value(self, op: str, args: tuple[Value, ...], attribute: object, limits: tuple[int, int] | None) -> Value:
        self._count += 1
        return Value(op, I64, args, attribute, self._block, self._count, limits)


def bounds_conditions(position: Affine, size: int) -> tuple[Condition, ...] | None:
    """The conditions that 0 <= position < size: () if it is always true, None if it never is."""
    limits = position.bounds()
    if limits is None:
        return (Condition(position, 0, size),)
    if limits[0] >= size or limits[1] < 0 or size == 0:
        return None
    return () if limits[0] >= 0 and limits[1] < size else (Condition(position, 0, size),)
