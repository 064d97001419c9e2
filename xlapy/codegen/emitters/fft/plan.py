"""Plans Fourier transforms: which kernels, one after the other, transform a dimension of an array.

A kernel transforms as many points as fit into its scratch memory, one transform per lane. A longer dimension of n = p q
points takes two kernels: transforms of p points that are q apart, times twiddle factors exp(2 pi i j k / n), whose
results are stored next to each other; then transforms of q points that are p apart. Three factors work alike. All
kernels but the first keep the places of their points, so that they work in place.

    x[j1, j2]  ->  j1 to k1, times the twiddle factor of j2 k1, stored at [j2, k1]  ->  j2 to k2, in place at [k2, k1]

Responsible for lengths and strides. Does not depend on code or memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import isqrt, prod

MAX_PRIME_FACTOR = 31
"""The largest prime factor of a length that a kernel transforms; other lengths take another algorithm."""

MAX_LONG_POINTS = 4
"""The largest length of a convolution and of real numbers in a kernel, relative to that of other transforms. More
kernels would need more temporaries for these; scratch memory still fits into a level-2 cache of 1 MiB."""

MIN_SPLIT_POINTS = 64
"""The smallest number of points for which a few contiguous transforms are split in two, so that all lanes have work."""


@dataclass(frozen=True, slots=True)
class Axis:
    """A loop of `size` iterations, and its strides in the operand and in the result, in complex numbers."""

    size: int
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Twiddle:
    """Factors exp(2 pi i k j / length) of result k, where j is the sum of the lane and of `apart` times the position on
    the outer axis `outer`; without `lanes`, only the second term."""

    length: int
    outer: int | None = None
    apart: int = 1
    lanes: bool = True


@dataclass(frozen=True, slots=True)
class Transform:
    """What one kernel does: transforms along `points`, for all iterations of `lanes` and of `outer`."""

    points: Axis
    lanes: Axis
    outer: tuple[Axis, ...] = ()
    twiddle: Twiddle | None = None
    halves: bool = False
    """Whether the numbers on one side are real, two per point; the other side then has one more point."""
    reals: bool = False
    """Whether the numbers on one side are real, one per point; the other side has the first half of the points."""
    packs: bool = False
    """Whether the operand is half the spectrum of rows of real numbers, from which the points are formed: each point
    from itself and from its mirror. A row, a position on the first outer axis, has one more number in the operand."""

    @property
    def size(self) -> int:
        """The number of complex numbers in the array."""
        return self.points.size * self.lanes.size * prod(axis.size for axis in self.outer)

    @property
    def axes(self) -> tuple[Axis, ...]:
        return (self.points, self.lanes, *self.outer)

    @property
    def keeps_places(self) -> bool:
        """Whether each result has the place of an operand of the same transform, so that both can share memory."""
        return not (self.halves or self.reals) and all(axis.source == axis.target for axis in self.axes)


def plan_transforms(
    length: int, outer: int, inner: int, max_points: int, lanes: int, pitches: tuple[int, int] | None = None
) -> list[Transform] | None:
    """Plans the transforms of the middle dimension of [outer, length, inner]; returns None if kernels cannot do them.

    max_points: of one kernel. lanes: of a vector register. pitches: the distance of the outer positions in the operand
    and in the result, if there may be numbers between them.
    """
    if not is_smooth(length):
        return _convolution(length, outer, inner, max_points, lanes)
    is_split = length > max_points or (inner == 1 and outer < lanes and length >= MIN_SPLIT_POINTS)
    whole = Axis(outer, *(pitches or (length * inner, length * inner)))
    factors = _factors(length, max_points) if is_split else None
    if factors is None:
        if length > max_points:
            return None
        if inner == 1:
            return [Transform(Axis(length, 1, 1), whole)]
        return [Transform(Axis(length, inner, inner), Axis(inner, 1, 1), (whole,))]
    return _rows(factors, whole) if inner == 1 else _columns(factors, whole, inner)


def _convolution(length: int, outer: int, inner: int, max_points: int, lanes: int) -> list[Transform] | None:
    """Returns the one transform of a length with a large prime factor, if its convolution fits into a kernel and there
    are rows for all lanes. Otherwise the convolution of other kernels is faster, because these split its length."""
    # two points more: the first point and the first result of Rader's algorithm
    needed = length + 1 if is_convolved_by_rader(length) else bluestein_points(length)
    if needed > MAX_LONG_POINTS * max_points or (outer if inner == 1 else inner) < lanes:
        return None
    if inner == 1:
        return [Transform(Axis(length, 1, 1), Axis(outer, length, length))]
    whole = Axis(outer, length * inner, length * inner)
    return [Transform(Axis(length, inner, inner), Axis(inner, 1, 1), (whole,))]


def _rows(factors: tuple[int, ...], whole: Axis) -> list[Transform]:
    """Splits a contiguous dimension: the lanes of each transform are points of the other."""
    first, rest = factors[0], prod(factors[1:])
    length, later = first * rest, Axis(whole.size, whole.target, whole.target)
    if len(factors) == 2:
        return [
            Transform(Axis(first, rest, 1), Axis(rest, 1, first), (whole,), Twiddle(length)),
            Transform(Axis(rest, first, first), Axis(first, 1, 1), (later,)),
        ]
    second, third = factors[1:]
    between = Axis(second, third, first)
    inner = Axis(third, second * first, second * first)
    return [
        Transform(
            Axis(first, rest, 1),
            Axis(third, 1, inner.target),
            (whole, between),
            Twiddle(length, outer=1, apart=third),
        ),
        Transform(Axis(second, first, first), Axis(first, 1, 1), (later, inner), Twiddle(rest, outer=1, lanes=False)),
        Transform(inner, Axis(second * first, 1, 1), (later,)),
    ]


def _columns(factors: tuple[int, ...], whole: Axis, inner: int) -> list[Transform] | None:
    """Splits a dimension that is not contiguous: the lanes are the elements of the dimensions inside of it."""
    if len(factors) > 2:
        return None
    first, rest = factors
    lanes, apart = Axis(inner, 1, 1), first * inner
    twiddle = Twiddle(first * rest, outer=1, lanes=False)
    return [
        Transform(Axis(first, rest * inner, inner), lanes, (whole, Axis(rest, inner, apart)), twiddle),
        Transform(Axis(rest, apart, apart), lanes, (whole, Axis(first, inner, inner))),
    ]


@cache
def is_smooth(length: int) -> bool:
    """Whether a length has no prime factor above `MAX_PRIME_FACTOR`."""
    for factor in range(2, MAX_PRIME_FACTOR + 1):
        while length % factor == 0:
            length //= factor
    return length == 1


def convolution_points(length: int) -> int:
    """The length of the convolution that computes a transform of a length with a large prime factor."""
    return length - 1 if is_convolved_by_rader(length) else bluestein_points(length)


def bluestein_points(length: int) -> int:
    """The smallest number, not below 2 length - 1, that is a power of two times 1, 3, 5, 7, 9 or 15."""
    least = 2 * length - 1
    return min(odd << max(0, -(-least // odd) - 1).bit_length() for odd in (1, 3, 5, 7, 9, 15))


def is_convolved_by_rader(length: int) -> bool:
    """Whether a length is a prime and the length below it has no large prime factor."""
    return is_smooth(length - 1) and all(length % factor for factor in range(2, isqrt(length) + 1))


@cache
def _factors(length: int, most: int) -> tuple[int, ...] | None:
    """Two or three factors of similar size, none larger than `most`; None if there are none, as for a prime."""
    divisors = [d for d in range(2, most + 1) if length % d == 0]
    for first in sorted(divisors, key=lambda d: abs(d * d - length)):
        if 1 < length // first <= most:
            return first, length // first
    for first in sorted(divisors, key=lambda d: abs(d**3 - length)):
        rest = _factors(length // first, most) if length // first > most else None
        if rest is not None and len(rest) == 2:
            return first, *rest
    return None


@cache
def radices(length: int) -> tuple[int, ...]:
    """The radix of each pass for a length: odd primes, then eights and fours."""
    found: list[int] = []
    for prime in range(3, MAX_PRIME_FACTOR + 1, 2):
        while length % prime == 0:
            found.append(prime)
            length //= prime
    bits = length.bit_length() - 1
    eights, rest = divmod(bits, 3)
    if rest == 1 and eights:
        return *found, *[8] * (eights - 1), 4, 4
    return *found, *[8] * eights, *([1 << rest] if rest else [])
