"""Rounding to integers, and the remainder of a division."""

from __future__ import annotations

from xlapy.loops.mathematics.exponential import scale
from xlapy.loops.mathematics.expression import DOUBLE, Expression, copysign, fma, repeat, where


def round_half_away(x: Expression) -> Expression:
    """The nearest integer, ties away from 0. Adding 0.5 itself would round up the number just below 0.5."""
    return (x + copysign(0.5 - 2.0 ** -(x.precision.digits + 1), x)).apply("trunc")


def remainder(dividend: Expression, divisor: Expression) -> Expression:
    """The exact remainder of the quotient rounded toward 0, with the sign of the dividend."""
    if dividend.is_single:
        return remainder(dividend.as_double(), divisor.as_double()).as_single()
    size, step = abs(dividend), abs(divisor)
    valid = size.is_finite & (step > 0)
    rest = where(valid, size, 0)
    (rest,) = repeat([rest], lambda values: values[0] >= step, lambda values: [_less_multiple(values[0], step)])
    return where(valid, copysign(rest, dividend), float("nan"))


def _less_multiple(rest: Expression, step: Expression) -> Expression:
    """The remainder by step * 2^k, for the smallest k >= 0 for which a float can represent the integer quotient.

    All steps are exact: the product of quotient and step is subtracted before it is rounded.
    """
    excess = _exponent(rest) - _exponent(step) - (DOUBLE.fraction - 1)
    multiple = scale(step, where(excess > 0, excess, 0))
    quotient = (rest / multiple).apply("trunc")
    difference = fma(-quotient, multiple, rest)
    difference = where(difference < 0, difference + multiple, difference)
    return where(rest >= step, difference, rest)


def _exponent(x: Expression) -> Expression:
    """The exponent of the leading bit of a positive number, plus the bias."""
    tiny = x < DOUBLE.smallest_normal
    field = where(tiny, x * 2.0**DOUBLE.digits, x).bits >> DOUBLE.fraction
    return field - where(tiny, field.like(DOUBLE.digits), 0)
