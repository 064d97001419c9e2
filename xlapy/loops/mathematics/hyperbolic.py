"""Hyperbolic functions."""

from __future__ import annotations

import math
from typing import Final

from xlapy.loops.mathematics.exponential import exponential_minus_one, exponential_of_clamped, half_exponential_of_size
from xlapy.loops.mathematics.expression import (
    DOUBLE,
    SINGLE,
    Expression,
    at_most,
    copysign,
    fma,
    polynomial,
    square_root,
    where,
)
from xlapy.loops.mathematics.logarithm import log_plus_one

# (tanh(x) / x - 1) / x^2 as a polynomial in x^2
_TANH_SINGLE: Final = (
    -0.33333319425582886, 0.13332636654376984, -0.05385684221982956, 0.021088235080242157, -0.006295486353337765,
)  # fmt: skip
# (sinh(x) / x - 1) / x^2, for x <= 1
_SINH: Final = {
    SINGLE: (
        0.1666666716337204, 0.008333311416208744, 0.0001984260161407292, 2.784373464237433e-06,
    ),
    DOUBLE: (
        0.16666666666666669, 0.008333333333332912, 0.00019841269841593207, 2.7557319106855813e-06,
        2.5052130977237118e-08, 1.6056661292689993e-10, 7.77652193741852e-13,
    ),
}  # fmt: skip


def tanh(x: Expression) -> Expression:
    """A polynomial near 0, 1 - 2 / (e^2x + 1) beyond; in double precision (e^2x - 1) / (e^2x + 1)."""
    size = at_most(abs(x), 20)
    if not x.is_single:
        growth = exponential_minus_one(size + size)
        return copysign(growth / (growth + 2), x)
    square = size * size
    near = fma(size * square, polynomial(square, _TANH_SINGLE), size)
    far = 1 - 2 / (exponential_of_clamped(size + size) + 1)
    return copysign(where(size < 0.55, near, far), x)


def sinh(x: Expression) -> Expression:
    """A polynomial up to 1, (e^x - e^-x) / 2 beyond."""
    square = x * x
    near = fma(x * square, polynomial(square, _SINH[x.precision]), x)
    half = half_exponential_of_size(x)
    return where(abs(x) < 1, near, copysign(half - 0.25 / half, x))


def cosh(x: Expression) -> Expression:
    half = half_exponential_of_size(x)
    return half + 0.25 / half


def asinh(x: Expression) -> Expression:
    """log(x + sqrt(x^2 + 1)), as log(1 + growth) because the argument of the logarithm may be near 1."""
    size = abs(x)
    huge = size > 2.0 ** (x.precision.digits // 2 + 2)
    square = size * size
    growth = size + square / (square_root(square + 1) + 1)
    return copysign(_logarithm_of_growth(growth, size, huge), x)


def acosh(x: Expression) -> Expression:
    """log(x + sqrt(x^2 - 1)), as `asinh`."""
    huge = x > 2.0 ** (x.precision.digits // 2 + 2)
    excess = x - 1
    growth = excess + square_root(fma(excess, excess, excess + excess))
    return where(x < 1, float("nan"), _logarithm_of_growth(growth, x, huge))


def _logarithm_of_growth(growth: Expression, size: Expression, huge: Expression) -> Expression:
    """log(1 + growth), or log(2 size) for huge ones."""
    return log_plus_one(where(huge, size - 1, growth)) + where(huge, size.like(math.log(2)), 0)


def atanh(x: Expression) -> Expression:
    """log((1 + x) / (1 - x)) / 2"""
    size = abs(x)
    double = size + size
    growth = where(size < 0.5, fma(double, size / (1 - size), double), double / (1 - size))
    return copysign(log_plus_one(growth) * 0.5, x)
