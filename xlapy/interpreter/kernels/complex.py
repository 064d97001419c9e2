"""Complex functions of the elementwise operations, on arrays of complex128.

Responsible for the kernels whose infinities, NaNs and branch cuts differ between XLA and NumPy (which follows C99,
Annex G): XLA computes real and imaginary parts by formulas, so that an infinite part beside a NaN is usually lost. The
sign of a zero part is unspecified where XLA itself is not consistent. Functions that are not here (acos, sinh ...) are
NumPy's. Does not depend on operations, instructions or narrower types.
Source: "Element-wise unary functions" and "Element-wise binary arithmetic operations" of the specification.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy.base.element_types import Array

UNDEFINED = complex(np.nan, np.nan)


def compose(real: Any, imaginary: Any) -> Array:
    """Returns the complex array of two parts, without arithmetic, which would turn an infinite part into NaN."""
    shape = np.broadcast_shapes(np.shape(real), np.shape(imaginary))
    single = np.asarray(real).dtype == np.float32
    result = np.empty(shape, np.complex64 if single else np.complex128)
    result.real = real
    result.imag = imaginary
    return result


def _has_nan(operand: Array) -> Array:
    return np.isnan(operand.real) | np.isnan(operand.imag)


def _upper_cut(operand: Array) -> Array:
    """Replaces -0 imaginary parts by +0, for functions that are continuous from above at their branch cut."""
    return compose(operand.real, np.where(operand.imag == 0, 0.0, operand.imag))


def absolute(operand: Array) -> Array:
    """|z|; NaN if a part is NaN, even if the other is infinite."""
    return np.where(_has_nan(operand), np.nan, np.hypot(operand.real, operand.imag))


def sign(operand: Array) -> Array:
    """z / |z|, computed by parts: an infinite part gives NaN, and 0 gives 0. |z| may overflow, |z / 2| does not."""
    half = np.where(np.isfinite(operand), _by_parts(operand, 0.5), operand)
    large = np.maximum(np.abs(operand.real), np.abs(operand.imag)) > 1
    scaled = np.where(large, half, operand)
    size = absolute(scaled)
    return np.where(size == 0, operand, compose(scaled.real / size, scaled.imag / size))


def _by_parts(operand: Array, factor: Any) -> Array:
    """Multiplies both parts."""
    return compose(operand.real * factor, operand.imag * factor)


def divide(lhs: Array, rhs: Array) -> Array:
    """Divides by Smith's method; where that gives NaN + i NaN, uses the limits for a zero or infinite operand."""
    quotient = _smith(lhs, rhs)
    finite_left = np.isfinite(lhs.real) & np.isfinite(lhs.imag)
    finite_right = np.isfinite(rhs.real) & np.isfinite(rhs.imag)
    infinite_left = np.isinf(lhs.real) | np.isinf(lhs.imag)
    infinite_right = np.isinf(rhs.real) | np.isinf(rhs.imag)
    by_zero = (rhs == 0) & ~(np.isnan(lhs.real) & np.isnan(lhs.imag))
    pole = np.copysign(np.inf, rhs.real)
    limit = np.where(finite_left & infinite_right, _parts_of_quotient(lhs, _unit_box(rhs), 0.0), quotient)
    limit = np.where(infinite_left & finite_right, _parts_of_quotient(_unit_box(lhs), rhs, np.inf), limit)
    limit = np.where(by_zero, compose(pole * lhs.real, pole * lhs.imag), limit)
    return np.where(np.isnan(quotient.real) & np.isnan(quotient.imag), limit, quotient)


def _smith(lhs: Array, rhs: Array) -> Array:
    """Divides by Smith's method: scales by the larger part of the divisor, so that no square overflows. Sums do not
    overflow either, because operands near the largest number are divided by 4 first."""
    dividend, divisor = _factor_of_large(lhs), _factor_of_large(rhs)
    lhs, rhs = _by_parts(lhs, dividend), _by_parts(rhs, divisor)
    steep = np.abs(rhs.real) < np.abs(rhs.imag)
    large, small = np.where(steep, rhs.imag, rhs.real), np.where(steep, rhs.real, rhs.imag)
    ratio = small / large
    scale = large + small * ratio
    real = np.where(steep, lhs.real * ratio + lhs.imag, lhs.real + lhs.imag * ratio)
    imaginary = np.where(steep, lhs.imag * ratio - lhs.real, lhs.imag - lhs.real * ratio)
    return _by_parts(_by_parts(compose(real / scale, imaginary / scale), divisor), 1 / dividend)


def _factor_of_large(operand: Array) -> Array:
    """1/4 for numbers with a part near the largest one, else 1."""
    size = np.maximum(np.abs(operand.real), np.abs(operand.imag))
    return np.where(size > np.finfo(size.dtype).max / 8, 0.25, 1.0)


def _unit_box(operand: Array) -> Array:
    """Returns the direction of an infinity: infinite parts become 1 and the others 0, with their signs."""
    real, imaginary = np.isinf(operand.real).astype(float), np.isinf(operand.imag).astype(float)
    return compose(np.copysign(real, operand.real), np.copysign(imaginary, operand.imag))


def _parts_of_quotient(lhs: Array, rhs: Array, scale: float) -> Array:
    """Returns `scale` times lhs times the conjugate of rhs, part by part."""
    return compose(
        scale * (lhs.real * rhs.real + lhs.imag * rhs.imag), scale * (lhs.imag * rhs.real - lhs.real * rhs.imag)
    )


def exponential(operand: Array) -> Array:
    """e^z; real for a zero imaginary part, and finite where only e^real overflows."""
    real, imaginary = operand.real, operand.imag
    overflows = np.isposinf(np.exp(real))
    half = np.exp(np.where(overflows, real / 2, real))
    rest = np.where(overflows, half, 1.0)
    sine = np.where(imaginary == 0, 0.0, half * np.sin(imaginary) * rest)
    return compose(half * np.cos(imaginary) * rest, sine)


def exponential_minus_one(operand: Array) -> Array:
    """e^z - 1, accurate near 0, finite where only e^real overflows; real for a zero imaginary part."""
    real, imaginary = operand.real, operand.imag
    growth, whole = np.expm1(real), exponential(operand)
    cosine_minus_one = 0.0 - 2 * np.sin(imaginary / 2) ** 2
    cosine = np.where(np.isposinf(growth), whole.real, growth * np.cos(imaginary) + cosine_minus_one)
    return compose(cosine, whole.imag)


def logarithm(operand: Array) -> Array:
    return np.where(_has_nan(operand), UNDEFINED, np.log(operand))


def logarithm_plus_one(operand: Array) -> Array:
    """log(1 + z), accurate near 0 and where |1 + z| = 1: the rounding error of 1 + real is corrected to first order."""
    real, imaginary = operand.real, operand.imag
    shifted = 1 + real
    added = shifted - real
    lost = np.where(np.isfinite(shifted), (1 - added) + (real - (shifted - added)), 0.0)
    slope = shifted / (shifted * shifted + imaginary * imaginary)
    rounded = np.log(compose(shifted, imaginary))
    size = rounded.real + np.where(lost == 0, 0.0, lost * slope)
    return np.where(_has_nan(operand), UNDEFINED, compose(size, rounded.imag))


def logistic(operand: Array) -> Array:
    """1 / (1 + e^-z); near the imaginary axis, where the sum cancels next to the poles, (1 + tanh(z / 2)) / 2."""
    quotient = divide(np.ones_like(operand), 1 + exponential(-operand))
    near = (np.abs(operand.real) < 1) & np.isfinite(operand.imag)
    return np.where(near, _by_parts(1 + hyperbolic_tangent(_by_parts(operand, 0.5)), 0.5), quotient)


def square_root(operand: Array) -> Array:
    """The square root in the right half plane; on the negative axis the upper one, whatever the sign of the zero."""
    return np.where(_has_nan(operand), UNDEFINED, np.sqrt(_upper_cut(operand)))


def reciprocal_square_root(operand: Array) -> Array:
    """1 / sqrt(z); inf + i nan at 0, and 0 wherever a part is infinite.

    The side of the branch cut follows the sign of the zero.
    """
    root: Array = np.sqrt(operand)
    size = np.hypot(root.real, root.imag)
    result = compose(root.real / size / size, -root.imag / size / size)
    vanishing = compose(np.copysign(0.0, operand.real), np.copysign(0.0, -operand.imag))
    result = np.where(np.isinf(operand.real) | np.isinf(operand.imag), vanishing, result)
    return np.where(operand == 0, complex(np.inf, np.nan), result)


def cosine(operand: Array) -> Array:
    """cos z; real for a zero real part, even where the hyperbolic functions overflow, but not at infinity."""
    real, imaginary = operand.real, operand.imag
    is_real = (real == 0) & np.isfinite(imaginary)
    cosh, sinh = _products_with_growth(np.cos(real), np.sin(real), imaginary)
    return compose(cosh, -np.where(is_real, real * np.copysign(1.0, imaginary), sinh))


def sine(operand: Array) -> Array:
    """sin z; imaginary for a zero real part, even where the hyperbolic functions overflow, but not at infinity."""
    real, imaginary = operand.real, operand.imag
    cosh, sinh = _products_with_growth(np.sin(real), np.cos(real), imaginary)
    return compose(np.where((real == 0) & np.isfinite(imaginary), real, cosh), sinh)


def _products_with_growth(cosh_factor: Array, sinh_factor: Array, y: Array) -> tuple[Array, Array]:
    """Returns products with cosh(y) and sinh(y), which may overflow where the products do not: where they are equal,
    the exponential of a part of y is multiplied later, at most twice."""
    part, size = 380.0, np.abs(y)
    first, second = np.where(size > 600, part, 0.0), np.where(size > 1060, part, 0.0)
    reduced = np.copysign(size - first - second, y)
    cosh, sinh = cosh_factor * np.cosh(reduced), sinh_factor * np.sinh(reduced)
    return cosh * np.exp(first) * np.exp(second), sinh * np.exp(first) * np.exp(second)


def hyperbolic_tangent(operand: Array) -> Array:
    """tanh z; undefined for a finite real part beside an infinite or NaN imaginary one."""
    undefined = ~np.isfinite(operand.imag) & ~np.isinf(operand.real)
    return np.where(undefined, UNDEFINED, np.tanh(_upper_cut(operand)))


def tangent(operand: Array) -> Array:
    """tan z = -i tanh(i z)"""
    rotated = hyperbolic_tangent(compose(-operand.imag, operand.real))
    return compose(rotated.imag, -rotated.real)


def power(base: Array, exponent: Array) -> Array:
    """base^exponent by polar form; z^0 = 1^z = 1, 0^c = 0 for c > 0, and inf^c is inf or 0 for real c.

    Errors of the polar form grow with the exponent, so it is taken in the widest type there is.
    """
    c, d = exponent.real.astype(np.longdouble), exponent.imag.astype(np.longdouble)
    size = absolute(base.astype(np.clongdouble))
    angle = np.arctan2(base.imag.astype(np.longdouble), base.real)
    scale = np.power(size, c) * np.exp(-d * angle)
    turn = c * angle + d * np.log(size)
    result = compose(scale * np.cos(turn), scale * np.sin(turn))
    real_exponent = d == 0
    positive_infinity = np.isposinf(base.real) & (base.imag == 0)
    result = np.where((size == 0) & real_exponent & (c > 0), 0.0, result)
    result = np.where(positive_infinity & real_exponent & (c > 0), complex(np.inf, 0), result)
    result = np.where(positive_infinity & real_exponent & (c < 0), 0.0, result)
    return np.where((exponent == 0) | (base == 1), 1.0, result)


def arc_tangent_2(lhs: Array, rhs: Array) -> Array:
    """-i log((x + i y) / sqrt(x^2 + y^2)) for y = lhs, x = rhs."""
    rotated = compose(rhs.real - lhs.imag, rhs.imag + lhs.real)
    direction = logarithm(divide(rotated, square_root(lhs * lhs + rhs * rhs)))
    return compose(direction.imag, -direction.real)
