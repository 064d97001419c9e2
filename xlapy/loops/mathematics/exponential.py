"""The exponential function and functions derived from it.

e^x = 2^n e^r with an integer n and |r| <= ln(2) / 2. e^r is a polynomial, and 2^n sets exponent bits. 2^n is applied in
one step, so that results overflow and become denormal correctly and are rounded once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from xlapy.loops.mathematics.expression import (
    DOUBLE,
    SINGLE,
    Expression,
    FloatParameters,
    at_least,
    at_most,
    fma,
    polynomial,
    where,
)

LOG2_E: Final = 1.4426950408889634


@dataclass(frozen=True, slots=True)
class _Constants:
    """ln(2) in two parts, the polynomial (e^r - 1 - r) / r^2, and limits of arguments.

    e^x is 0 below `least` and infinite above `greatest`. Above `beyond`, its product with any normal number is
    infinite, too.
    """

    log2_high: float
    log2_low: float
    polynomial: tuple[float, ...]
    least: float
    greatest: float
    beyond: float


_SINGLE: Final = (
    0.4999999701976776, 0.1666654646396637, 0.04166743904352188, 0.00836627371609211, 0.001387031632475555,
)  # fmt: skip
_DOUBLE: Final = (
    0.5, 0.16666666666666677, 0.041666666666666685, 0.008333333333321783, 0.0013888888888894872,
    0.00019841269885396897, 2.4801587276684574e-05, 2.755724507524915e-06, 2.7557331407214505e-07,
    2.5108720642770833e-08, 2.089336817778968e-09,
)  # fmt: skip
_CONSTANTS: Final = {
    SINGLE: _Constants(0.6931471824645996, -1.9046542121259336e-09, _SINGLE, -105.0, 90.0, 178.0),
    DOUBLE: _Constants(0.6931471805599453, 2.3190468138462996e-17, _DOUBLE, -746.0, 711.0, 1422.0),
}


@dataclass(frozen=True, slots=True)
class Reduced:
    """x = exponent * ln(2) + rest, and growth = e^rest - 1."""

    exponent: Expression
    """An integer of the same width."""
    growth: Expression


def reduce(x: Expression, tail: Expression | None = None) -> Reduced:
    """Reduces x, or x + tail, for an argument that `clamp` returned."""
    constants, precision = _CONSTANTS[x.precision], x.precision
    shifted = fma(x, LOG2_E, precision.rounder)
    whole = shifted - precision.rounder
    rest = fma(whole, -constants.log2_high, x)
    rest = fma(whole, -constants.log2_low, rest)
    if tail is not None:
        rest = rest + tail
    growth = fma(rest * rest, polynomial(rest, constants.polynomial), rest)
    return Reduced(shifted.bits - x.like(precision.rounder).bits, growth)


def clamp(x: Expression, *, further: bool = False) -> Expression:
    """Clamps the argument to the range in which the exponential is neither 0 nor infinite, plus one step.

    further: extends the range so that the product of the exponential with a normal number is infinite beyond it.
    """
    constants = _CONSTANTS[x.precision]
    return at_least(at_most(x, constants.beyond if further else constants.greatest), constants.least)


def power_of_two(exponent: Expression, precision: FloatParameters) -> Expression:
    """2^exponent, for an exponent of normal numbers."""
    return ((exponent + precision.bias) << precision.fraction).as_bits_of(precision)


def scale(x: Expression, exponent: Expression) -> Expression:
    """x * 2^exponent, rounded once, for |x| near 1 and an integer at most twice the range of normal numbers."""
    return x.apply("ldexp", exponent)


def exponential(x: Expression) -> Expression:
    return exponential_of_clamped(clamp(x))


def exponential_of_clamped(x: Expression) -> Expression:
    """e^x, for arguments that are within the range of `clamp`."""
    reduced = reduce(x)
    return scale(reduced.growth + 1, reduced.exponent)


def half_exponential_of_size(x: Expression) -> Expression:
    """e^|x| / 2, which is finite for somewhat larger arguments than the exponential."""
    reduced = reduce(at_most(abs(x), _CONSTANTS[x.precision].greatest))
    return scale(reduced.growth + 1, reduced.exponent - 1)


def exponential_minus_one(x: Expression) -> Expression:
    """2^n (e^r - 1) + (2^n - 1), computed in halves so that 2^n does not overflow before the result does."""
    greatest = _CONSTANTS[x.precision].greatest - 1
    reduced = reduce(at_least(at_most(x, greatest), -60.0))
    half = power_of_two(reduced.exponent - 1, x.precision)
    result = fma(half, reduced.growth, half - 0.5) * 2
    return where(abs(x) < 2.0 ** -(x.precision.digits + 1), x, result)


def logistic(x: Expression) -> Expression:
    """1 / (1 + e^-x) or e^x / (1 + e^x), with the exponential of a number that is not positive.

    The rounding errors of the divisor and the quotient are added back; 1 - quotient is the reciprocal of the divisor.
    """
    decay = exponential_of_clamped(at_least(-abs(x), _CONSTANTS[x.precision].least))
    left = x < 0
    dividend, divisor = where(left, decay, 1), decay + 1
    quotient = dividend / divisor
    rest = fma(-quotient, decay - (divisor - 1), fma(-quotient, divisor, dividend))
    return fma(rest, where(left, 1 - quotient, quotient), quotient)
