"""Division of positions: quotients and remainders of affine functions, simplified by the ranges of their terms.

A position along several dimensions is split and combined again by reshapes. `quotient` and `remainder` return affine
functions without a division wherever the ranges of the terms allow it. Example: with i below 8 and j below 100, the
quotient of 100 i + j by 100 is i, the remainder is j.

Does not depend on what computes a division that remains.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

from xlapy.loops.ir import Affine, Value


class PositionArithmetic(ABC):
    """Divides positions. A subclass makes the values of the divisions that cannot be simplified."""

    @abstractmethod
    def divided(self, op: str, dividend: Affine, divisor: int, limits: tuple[int, int] | None) -> Value:
        """The value of `dividend` `op` `divisor`. op: "div" or "mod". limits: its minimum and maximum, if known.

        Equal arguments give the same value.
        """

    def quotient(self, dividend: Affine, divisor: int) -> Affine:
        """dividend div divisor; the dividend must not be negative."""
        whole, rest = _split(dividend, divisor)
        limits = rest.bounds()
        if limits is None or limits[0] < 0:
            return self._div(dividend, divisor)
        if limits[1] < divisor:
            return whole
        # (8 i + 5) div 128 is 8 i div 128
        return whole + self._div(rest - rest.constant % _common_factor(rest, divisor), divisor)

    def remainder(self, dividend: Affine, divisor: int) -> Affine:
        """dividend mod divisor; the dividend must not be negative."""
        if divisor == 1:
            return Affine()
        _, rest = _split(dividend, divisor)
        limits = rest.bounds()
        if limits is not None and limits[0] >= 0 and limits[1] < divisor:
            return rest
        if limits is None or limits[0] < 0:
            return Affine.of(self.divided("mod", dividend, divisor, (0, divisor - 1)))
        step = _common_factor(rest, divisor)
        excess = rest.constant % step
        return Affine.of(self.divided("mod", rest - excess, divisor, (0, divisor - step))) + excess

    def _div(self, dividend: Affine, divisor: int) -> Affine:
        if divisor == 1:
            return dividend
        limits = dividend.bounds()
        ends = None if limits is None else (limits[0] // divisor, limits[1] // divisor)
        return Affine.of(self.divided("div", dividend, divisor, ends))


def _common_factor(dividend: Affine, divisor: int) -> int:
    """The largest number that divides the divisor and all factors of a dividend."""
    return math.gcd(divisor, *(factor for _, factor in dividend.terms))


def _split(dividend: Affine, divisor: int) -> tuple[Affine, Affine]:
    """Splits a dividend: the terms that are multiples of the divisor, divided by it; and the other terms."""
    whole = [(v, c // divisor) for v, c in dividend.terms if c % divisor == 0]
    rest = [(v, c) for v, c in dividend.terms if c % divisor]
    constant, remainder = divmod(dividend.constant, divisor)
    return Affine(tuple(whole), constant), Affine(tuple(rest), remainder)


def is_equal_in_lanes(quotient: Value, axis: Value, width: int) -> bool:
    """Whether a quotient is the same in all lanes of a vector axis, if no other term of its dividend differs in them.

    A vector begins at a multiple of its width. Example: i div 128 is the same in the lanes i to i + 15 of 16.
    """
    if quotient.op != "div" or quotient.attribute is None:
        return False
    dividend, divisor = quotient.attribute
    span = dividend.coefficient(axis) * width
    parts = [dividend.constant, divisor, *(factor for value, factor in dividend.terms if value is not axis)]
    return span > 0 and all(part % span == 0 for part in parts)
