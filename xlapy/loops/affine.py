"""Positions as sums: `Affine`, c0 + c1 * v1 + c2 * v2 ..., over axes and other 64-bit integer values of loop IR.

Owns the arithmetic of positions and its simplifications. Must not know: buffers, loops, how values are computed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xlapy.loops.ir import Value


@dataclass(frozen=True, slots=True)
class Affine:
    """A sum of integer multiples of values, and a constant. Terms are ordered and never zero."""

    terms: tuple[tuple[Value, int], ...] = ()
    constant: int = 0

    @staticmethod
    def of(value: Value) -> Affine:
        """The value itself; a constant becomes the constant."""
        if value.op == "const":
            return Affine((), int(value.attribute))
        return Affine(((value, 1),))

    @staticmethod
    def sum(parts: Iterable[tuple[Affine, int]]) -> Affine:
        """The sum of multiples: pairs (position, factor)."""
        constant = 0
        found: dict[Value, int] = {}
        for part, factor in parts:
            constant += part.constant * factor
            for value, coefficient in part.terms:
                found[value] = found.get(value, 0) + coefficient * factor
        return _made(found, constant)

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def coefficient(self, value: Value) -> int:
        """The factor of a value; 0 if it does not occur."""
        return next((c for v, c in self.terms if v is value), 0)

    def without(self, value: Value) -> Affine:
        """The sum less the term of a value."""
        return Affine(tuple((v, c) for v, c in self.terms if v is not value), self.constant)

    def __add__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.terms, self.constant + other)
        return Affine.sum(((self, 1), (other, 1)))

    def __sub__(self, other: Affine | int) -> Affine:
        if isinstance(other, int):
            return Affine(self.terms, self.constant - other)
        return Affine.sum(((self, 1), (other, -1)))

    def __mul__(self, factor: int) -> Affine:
        if factor == 0:
            return ZERO
        return Affine(tuple((v, c * factor) for v, c in self.terms), self.constant * factor)

    def bounds(self) -> tuple[int, int] | None:
        """The least and the greatest value, from the ranges of the terms; None if one of them has no known range."""
        low = high = self.constant
        for value, coefficient in self.terms:
            if value.range is None:
                return None
            ends = (value.range[0] * coefficient, value.range[1] * coefficient)
            low, high = low + min(ends), high + max(ends)
        return low, high

    def __str__(self) -> str:
        parts = [f"{c} * {v}" if c != 1 else str(v) for v, c in self.terms]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts).replace("+ -", "- ")


ZERO = Affine()


def _made(terms: Mapping[Value, int], constant: int) -> Affine:
    kept = {value: c for value, c in terms.items() if c}
    for value, coefficient in kept.items():
        if value.op == "mod" and (quotient := _quotient_of(value, coefficient, kept)) is not None:
            rest = {v: c for v, c in kept.items() if v is not value and v is not quotient}
            dividend, _ = value.attribute
            return Affine.sum(((Affine(tuple(rest.items()), constant), 1), (dividend, coefficient)))
    return Affine(tuple(sorted(kept.items(), key=lambda item: item[0].number)), constant)


def _quotient_of(remainder: Value, coefficient: int, terms: Mapping[Value, int]) -> Value | None:
    """The m div n among the terms that stands to c * (m mod n) with the factor n * c: together they are c * m.

    A position split over dimensions and put together again (a reshape, a loop over several dimensions at once) so
    becomes one term, which memory is read by in one go.
    """
    _, divisor = remainder.attribute
    for value, factor in terms.items():
        if value.op == "div" and value.attribute == remainder.attribute and factor == coefficient * divisor:
            return value
    return None
