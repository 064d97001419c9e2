"""Plans of Fourier transforms: which kernels, one after the other, transform a dimension of an array.

A kernel transforms as many points as fit into its scratch memory, for a register's lanes of transforms at once. A
longer dimension of n = p q points is p points q apart, roots exp(2 pi i j k / n), then q neighbouring points, whose
results go p apart; with three factors alike.

    x[j1, j2]  ->  columns j1 to k1, times the root of j2 k1  ->  rows j2 to k2, stored at [k2, k1]

Owns: lengths and strides. Must not know: code, memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import prod

LARGEST_PRIME = 31
"""The largest factor of a length that is transformed as it is."""

LONE_SPLIT = 64
"""Points from which on few transforms are split so that lanes have something to do."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop: how often, and how far apart its elements are in the operand and in the result, in complex numbers."""

    size: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Twist:
    """Roots exp(2 pi i k j / length) that result k is multiplied by; j is the lane, or the place on an outer axis."""

    length: int
    outer: int | None = None


@dataclass(frozen=True, slots=True)
class Transform:
    """What one kernel does: a transform of `points` for all of `lanes` and all of `outer`."""

    points: Axis
    lanes: Axis
    outer: tuple[Axis, ...] = ()
    twist: Twist | None = None
    halves: bool = False
    """Whether it is of real numbers, two a point: their transform has a point more, behind it or before it."""

    @property
    def size(self) -> int:
        """Complex numbers of the whole array, where it has as many in front as behind."""
        return self.points.size * self.lanes.size * prod(axis.size for axis in self.outer)


def transforms_of(length: int, outer: int, inner: int, most: int, lanes: int) -> list[Transform] | None:
    """The kernels for the middle dimension of [outer, length, inner]; None if it is no length for them.

    most: the points of one kernel; lanes: of a register.
    """
    if not is_smooth(length):
        return None
    is_split = length > most or (inner == 1 and outer < lanes and length >= LONE_SPLIT)
    whole = Axis(outer, length * inner, length * inner)
    parts = _parts(length, most) if is_split else None
    if parts is None:
        if length > most:
            return None
        if inner == 1:
            return [Transform(Axis(length, 1, 1), Axis(outer, length, length))]
        return [Transform(Axis(length, inner, inner), Axis(inner, 1, 1), (whole,))]
    return _rows(parts, whole) if inner == 1 else _columns(parts, whole, inner)


def _rows(parts: tuple[int, ...], whole: Axis) -> list[Transform]:
    """A contiguous dimension: its lanes are points of it."""
    first, rest = parts[0], prod(parts[1:])
    length = first * rest
    made = [Transform(Axis(first, rest, rest), Axis(rest, 1, 1), (whole,), Twist(length))]
    lanes = Axis(first, rest, 1)
    if len(parts) == 2:
        return [*made, Transform(Axis(rest, 1, first), lanes, (whole,))]
    second, third = parts[1:]
    every = Axis(whole.size * first, rest, rest)
    made.append(Transform(Axis(second, third, third), Axis(third, 1, 1), (every,), Twist(rest)))
    return [*made, Transform(Axis(third, 1, second * first), lanes, (whole, Axis(second, third, first)))]


def _columns(parts: tuple[int, ...], whole: Axis, inner: int) -> list[Transform] | None:
    """Another dimension: its lanes are what lies inside of it."""
    if len(parts) > 2:
        return None
    first, rest = parts
    lanes, apart = Axis(inner, 1, 1), rest * inner
    twist = Twist(first * rest, outer=1)
    return [
        Transform(Axis(first, apart, apart), lanes, (whole, Axis(rest, inner, inner)), twist),
        Transform(Axis(rest, inner, first * inner), lanes, (whole, Axis(first, apart, inner))),
    ]


@cache
def is_smooth(length: int) -> bool:
    """Whether a length has small prime factors only."""
    for factor in range(2, LARGEST_PRIME + 1):
        while length % factor == 0:
            length //= factor
    return length == 1


@cache
def _parts(length: int, most: int) -> tuple[int, ...] | None:
    """Two or three factors, alike and none larger than `most`; None if there are none, as for a prime."""
    divisors = [d for d in range(2, most + 1) if length % d == 0]
    for first in sorted(divisors, key=lambda d: abs(d * d - length)):
        if 1 < length // first <= most:
            return first, length // first
    for first in sorted(divisors, key=lambda d: abs(d**3 - length)):
        rest = _parts(length // first, most) if length // first > most else None
        if rest is not None and len(rest) == 2:
            return first, *rest
    return None


@cache
def radices(length: int) -> tuple[int, ...]:
    """The factors of a length, one a pass: odd primes, then eights and fours."""
    found: list[int] = []
    for prime in range(3, LARGEST_PRIME + 1, 2):
        while length % prime == 0:
            found.append(prime)
            length //= prime
    bits = length.bit_length() - 1
    eights, rest = divmod(bits, 3)
    if rest == 1 and eights:
        return *found, *[8] * (eights - 1), 4, 4
    return *found, *[8] * eights, *([1 << rest] if rest else [])
