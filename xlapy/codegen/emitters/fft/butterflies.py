"""Butterflies: short Fourier transforms of values in registers, unrolled.

Does not depend on where the values come from. Source: Cooley and Tukey (1965); for prime lengths, terms with conjugate
roots are combined in pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin

from xlapy.loops import Builder, Value

Point = tuple[Value, Value]
"""A complex number as its real and imaginary parts."""


class Butterflies:
    """Emits transforms with roots of unity exp(sign 2 pi i / n) into the kernel of a builder."""

    def __init__(self, builder: Builder, sign: int) -> None:
        self._builder = builder
        self._sign = sign

    def transform(self, points: Sequence[Point]) -> list[Point]:
        """The Fourier transform of the points, in natural order."""
        count = len(points)
        if count == 1:
            return list(points)
        if count == 2:
            return [self.add(*points), self.sub(*points)]
        if count == 4:
            return self._four(points)
        factor = _factor(count)
        return self._prime(points) if factor == count else self._composite(points, factor)

    def _four(self, points: Sequence[Point]) -> list[Point]:
        a, b, c, d = points
        even, odd = self.add(a, c), self.add(b, d)
        left, right = self.sub(a, c), self.times_i(self.sub(b, d))
        return [self.add(even, odd), self.add(left, right), self.sub(even, odd), self.sub(left, right)]

    def _composite(self, points: Sequence[Point], factor: int) -> list[Point]:
        """Cooley-Tukey: transforms of points `rest` apart, twiddle factors, transforms of the rest of the length."""
        count, rest = len(points), len(points) // factor
        results: list[Point] = list(points)
        columns = [self.transform(points[start::rest]) for start in range(rest)]
        for k in range(factor):
            row = [self.times_root(columns[start][k], start * k, count) for start in range(rest)]
            results[k::factor] = self.transform(row)
        return results

    def _prime(self, points: Sequence[Point]) -> list[Point]:
        """Combines term j with term n - j: cosines multiply their sum, sines their difference."""
        count, half = len(points), len(points) // 2
        sums = [self.add(points[j], points[count - j]) for j in range(1, half + 1)]
        differences = [self.sub(points[j], points[count - j]) for j in range(1, half + 1)]
        total = points[0]
        for each in sums:
            total = self.add(total, each)
        results = [total] * count
        for k in range(1, half + 1):
            even, odd = points[0], (self._builder.zero(total[0].type),) * 2
            for j in range(1, half + 1):
                angle = 2 * pi * (j * k % count) / count
                even = self._scaled(sums[j - 1], cos(angle), even)
                odd = self._scaled(differences[j - 1], sin(angle), None if j == 1 else odd)
            rotated = self.times_i(odd)
            results[k], results[count - k] = self.add(even, rotated), self.sub(even, rotated)
        return results

    # -- arithmetic

    def add(self, left: Point, right: Point) -> Point:
        builder = self._builder
        return builder.add(left[0], right[0]), builder.add(left[1], right[1])

    def sub(self, left: Point, right: Point) -> Point:
        builder = self._builder
        return builder.sub(left[0], right[0]), builder.sub(left[1], right[1])

    def times_i(self, point: Point) -> Point:
        """The point times i, or times -i for a negative sign."""
        real, imaginary = point
        negate = self._builder.unary
        return (negate("neg", imaginary), real) if self._sign > 0 else (imaginary, negate("neg", real))

    def _scaled(self, point: Point, factor: float, addend: Point | None) -> Point:
        builder = self._builder
        number = builder.constant(point[0].type, factor)
        if addend is None:
            return builder.mul(point[0], number), builder.mul(point[1], number)
        return builder.fma(point[0], number, addend[0]), builder.fma(point[1], number, addend[1])

    def times(self, point: Point, factor: Point) -> Point:
        """The product of two complex numbers."""
        builder, (a, b), (c, d) = self._builder, point, factor
        real = builder.fma(a, c, builder.unary("neg", builder.mul(b, d)))
        return real, builder.fma(a, d, builder.mul(b, c))

    def times_root(self, point: Point, power: int, count: int) -> Point:
        """The point times a constant power of the root of unity of order `count`."""
        power %= count
        if 4 * power % count == 0:
            for _ in range(4 * power // count):
                point = self.times_i(point)
            return point
        angle, type = self._sign * 2 * pi * power / count, point[0].type
        root = self._builder.constant(type, cos(angle)), self._builder.constant(type, sin(angle))
        return self.times(point, root)


def _factor(count: int) -> int:
    """The factor by which a length is split: 8 is 2 * 4, 16 is 4 * 4."""
    if count % 4 == 0:
        return 2 if count == 8 else 4
    return next(factor for factor in range(2, count + 1) if count % factor == 0)
