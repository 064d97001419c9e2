"""Hyperbolic and inverse functions of complex numbers, with the infinities, NaNs and branch cuts of C99, Annex G.

The sign of a zero part selects the side of a branch cut. Errors are relative to the absolute value of the result. The
inverse functions compute in double precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from xlapy.loops.mathematics import hyperbolic, trigonometry
from xlapy.loops.mathematics.complex import Complex, choose, growth_of, in_double, signed_root
from xlapy.loops.mathematics.expression import Expression, copysign, fma, where
from xlapy.loops.mathematics.inverse_trigonometry import arc_tangent_2
from xlapy.loops.mathematics.logarithm import log_plus_one

_INFINITY: Final = float("inf")
_HALF_PI: Final = 1.5707963267948966
_LARGE: Final = 2.0**1000
_SHRINKAGE: Final = 2.0**-20


def sinh(operand: Complex) -> Complex:
    real, imaginary = operand.real, operand.imaginary
    growth = growth_of(real)
    even = growth.times_sinh(trigonometry.cosine(imaginary))
    odd = growth.times_cosh(trigonometry.sine(imaginary))
    even = where(real.equals(0), real, where(real.is_infinite & ~imaginary.is_finite, _INFINITY, even))
    return Complex(even, where(imaginary.equals(0), imaginary, odd))


def cosh(operand: Complex) -> Complex:
    real, imaginary = operand.real, operand.imaginary
    growth = growth_of(real)
    even = growth.times_cosh(trigonometry.cosine(imaginary))
    odd = growth.times_sinh(trigonometry.sine(imaginary))
    even = where(real.is_infinite & ~imaginary.is_finite, _INFINITY, even)
    return Complex(even, where(imaginary.equals(0) | real.equals(0), 0, odd))


@dataclass(frozen=True, slots=True)
class _Shrunk:
    """A number whose products of square roots do not overflow, and the logarithm of the factor that it lacks.

    The inverse functions of large numbers are an angle, which the factor does not change, and log|2 z|.
    """

    operand: Complex
    logarithm: Expression

    def restored(self, size: Expression) -> Expression:
        """Adds the logarithm of the factor to log|2 z| with the sign of `size`."""
        return size + copysign(self.logarithm, size)


def _shrunk(operand: Complex) -> _Shrunk:
    large = (abs(operand.real) > _LARGE) | (abs(operand.imaginary) > _LARGE)
    return _Shrunk(
        operand.scaled(where(large, operand.real.like(_SHRINKAGE), 1)),
        where(large, operand.real.like(-math.log(_SHRINKAGE)), 0),
    )


@in_double
def arc_sine(operand: Complex) -> Complex:
    """Kahan's formula: all terms of every sum of products have the same sign."""
    shrunk = _shrunk(operand)
    real, imaginary = shrunk.operand.real, shrunk.operand.imaginary
    minus, plus = signed_root(Complex(1 - real, -imaginary)), signed_root(Complex(real + 1, imaginary))
    width = fma(minus.real, plus.real, -(minus.imaginary * plus.imaginary))
    height = fma(minus.real, plus.imaginary, -(minus.imaginary * plus.real))
    result = Complex(arc_tangent_2(real, width), shrunk.restored(hyperbolic.asinh(height)))
    infinite = Complex(arc_tangent_2(real, abs(imaginary)), copysign(_INFINITY, imaginary))
    result = choose(operand.is_infinite, infinite, result)
    return Complex(where(real.equals(0), real, result.real), result.imaginary)


@in_double
def arc_cosine(operand: Complex) -> Complex:
    shrunk = _shrunk(operand)
    real, imaginary = shrunk.operand.real, shrunk.operand.imaginary
    minus, plus = signed_root(Complex(1 - real, -imaginary)), signed_root(Complex(real + 1, imaginary))
    height = fma(plus.real, minus.imaginary, -(plus.imaginary * minus.real))
    result = Complex(arc_tangent_2(minus.real, plus.real) * 2, shrunk.restored(hyperbolic.asinh(height)))
    infinite = Complex(arc_tangent_2(abs(imaginary), real), -copysign(_INFINITY, imaginary))
    result = choose(operand.is_infinite, infinite, result)
    return Complex(where(real.equals(0), _HALF_PI, result.real), result.imaginary)


@in_double
def acosh(operand: Complex) -> Complex:
    shrunk = _shrunk(operand)
    real, imaginary = shrunk.operand.real, shrunk.operand.imaginary
    minus, plus = signed_root(Complex(real - 1, imaginary)), signed_root(Complex(real + 1, imaginary))
    width = fma(minus.real, plus.real, minus.imaginary * plus.imaginary)
    result = Complex(shrunk.restored(hyperbolic.asinh(width)), arc_tangent_2(minus.imaginary, plus.real) * 2)
    infinite = Complex(real.like(_INFINITY), arc_tangent_2(imaginary, real))
    result = choose(operand.is_infinite, infinite, result)
    undefined = real.equals(0) & imaginary.is_nan
    return Complex(result.real, where(undefined, _HALF_PI, result.imaginary))


@in_double
def atanh(operand: Complex) -> Complex:
    """log((1 + z) / (1 - z)) / 2 by parts."""
    real, imaginary = operand.real, operand.imaginary
    size = abs(real)
    distance = fma(1 - size, 1 - size, imaginary * imaginary)
    close = size.equals(1) & (abs(imaginary) < 2.0**-60)  # to the pole: the square might underflow
    growth = where(close, 2 / abs(imaginary), size * 4 / distance)
    length = log_plus_one(growth) * where(close, imaginary.like(0.5), imaginary.like(0.25))
    angle = arc_tangent_2(imaginary * 2, fma(-imaginary, imaginary, (1 - size) * (size + 1))) * 0.5
    far = (size > 2.0**500) | (abs(imaginary) > 2.0**500)  # so that squares overflow
    angle = where(far, copysign(_HALF_PI, imaginary), angle)
    angle = where(imaginary.is_nan | (real.is_nan & imaginary.is_finite), float("nan"), angle)
    length = where((far & ~operand.has_nan) | operand.is_infinite | real.equals(0), 0, length)
    return Complex(copysign(length, real), angle)


def asinh(operand: Complex) -> Complex:
    return _turned(arc_sine)(operand)


def arc_tangent(operand: Complex) -> Complex:
    return _turned(atanh)(operand)


def _turned(function: Callable[[Complex], Complex]) -> Callable[[Complex], Complex]:
    """-i f(i z)"""

    def apply(operand: Complex) -> Complex:
        result = function(Complex(-operand.imaginary, operand.real))
        return Complex(result.imaginary, -result.real)

    return apply
