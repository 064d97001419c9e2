"""Double-double arithmetic: a number as the unevaluated sum of two floats, the second one below an ULP of the first."""

from __future__ import annotations

from dataclasses import dataclass

from xlapy.loops.mathematics.expression import Expression, fma


@dataclass(frozen=True, slots=True)
class Pair:
    """high + low, with |low| at most half an ULP of high."""

    high: Expression
    low: Expression


def two_sum(left: Expression, right: Expression) -> Pair:
    """left + right exactly."""
    total = left + right
    share = total - left
    return Pair(total, (left - (total - share)) + (right - share))


def ordered_sum(large: Expression, small: Expression) -> Pair:
    """large + small exactly, for |large| >= |small| or large = 0."""
    total = large + small
    return Pair(total, (large - total) + small)


def two_product(left: Expression, right: Expression) -> Pair:
    """left * right exactly."""
    product = left * right
    return Pair(product, fma(left, right, -product))


def multiply(left: Pair, right: Pair) -> Pair:
    exact = two_product(left.high, right.high)
    return Pair(exact.high, exact.low + fma(left.high, right.low, left.low * right.high))
