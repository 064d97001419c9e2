"""Functions of complex numbers, by formulas for their real and imaginary parts.

XLA computes the parts by these formulas, so that an infinite part beside a NaN is usually lost, unlike in C99, Annex G.
Functions that are not here (acos, sinh ...) are NumPy's. A number is a `complex128`, its parts are `float64`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Number = Any

UNDEFINED = np.complex128(complex(np.nan, np.nan))


def compose(real: Number, imaginary: Number) -> Number:
    """Returns the number with the given parts; no arithmetic turns an infinite part into NaN."""
    return np.complex128(complex(real, imaginary))


def _has_nan(z: Number) -> bool:
    return bool(np.isnan(z.real) or np.isnan(z.imag))


def _is_infinite(z: Number) -> bool:
    return bool(np.isinf(z.real) or np.isinf(z.imag))


def _is_finite(z: Number) -> bool:
    return bool(np.isfinite(z.real) and np.isfinite(z.imag))


def _times(z: Number, factor: Number) -> Number:
    """Multiplies both parts by a real number."""
    return compose(z.real * factor, z.imag * factor)


def _above_cut(z: Number) -> Number:
    """Replaces an imaginary part of -0 by +0."""
    return compose(z.real, 0.0 if z.imag == 0 else z.imag)


def absolute(z: Number) -> Number:
    """|z|; NaN if a part is NaN, even if the other one is infinite."""
    return np.float64(np.nan) if _has_nan(z) else np.hypot(z.real, z.imag)


def sign(z: Number) -> Number:
    """z / |z|; 0 stays 0. |z| may overflow, |z / 2| does not."""
    if z == 0:
        return z
    scaled = _times(z, 0.5) if _is_finite(z) and max(abs(z.real), abs(z.imag)) > 1 else z
    return compose(scaled.real / absolute(scaled), scaled.imag / absolute(scaled))


def divide(a: Number, b: Number) -> Number:
    """The quotient; where both parts are NaN, the limit for an operand that is infinite, or a divisor that is 0."""
    quotient = _smith(a, b)
    if not (np.isnan(quotient.real) and np.isnan(quotient.imag)):
        return quotient
    if b == 0 and not (np.isnan(a.real) and np.isnan(a.imag)):
        pole = np.copysign(np.inf, b.real)
        return compose(pole * a.real, pole * a.imag)
    if _is_infinite(a) and _is_finite(b):
        return _times_conjugate(_direction(a), b, np.inf)
    if _is_finite(a) and _is_infinite(b):
        return _times_conjugate(a, _direction(b), 0.0)
    return quotient


def _smith(a: Number, b: Number) -> Number:
    """Smith's method: the parts are divided by the larger part of the divisor. Large operands are scaled by 1/4."""
    scale_a, scale_b = _quarter_if_large(a), _quarter_if_large(b)
    a, b = _times(a, scale_a), _times(b, scale_b)
    if abs(b.real) < abs(b.imag):
        ratio = b.real / b.imag
        denominator = b.imag + b.real * ratio
        parts = a.real * ratio + a.imag, a.imag * ratio - a.real
    else:
        ratio = b.imag / b.real
        denominator = b.real + b.imag * ratio
        parts = a.real + a.imag * ratio, a.imag - a.real * ratio
    return _times(_times(compose(parts[0] / denominator, parts[1] / denominator), scale_b), 1 / scale_a)


def _quarter_if_large(z: Number) -> float:
    return 0.25 if np.maximum(abs(z.real), abs(z.imag)) > np.finfo(np.float64).max / 8 else 1.0


def _direction(z: Number) -> Number:
    """Infinite parts become 1 and the others 0, with their signs."""
    real, imaginary = float(np.isinf(z.real)), float(np.isinf(z.imag))
    return compose(np.copysign(real, z.real), np.copysign(imaginary, z.imag))


def _times_conjugate(a: Number, b: Number, scale: float) -> Number:
    return compose(scale * (a.real * b.real + a.imag * b.imag), scale * (a.imag * b.real - a.real * b.imag))


def exponential(z: Number) -> Number:
    """e^real (cos imag + i sin imag), in two steps where e^real overflows; real if the imaginary part is 0."""
    overflows = np.isposinf(np.exp(z.real))
    first = np.exp(z.real / 2 if overflows else z.real)
    second = first if overflows else 1.0
    imaginary = 0.0 if z.imag == 0 else first * np.sin(z.imag) * second
    return compose(first * np.cos(z.imag) * second, imaginary)


def exponential_minus_one(z: Number) -> Number:
    """e^z - 1; its real part is expm1(real) cos(imag) + (cos(imag) - 1)."""
    growth, whole = np.expm1(z.real), exponential(z)
    if np.isposinf(growth):
        return whole
    return compose(growth * np.cos(z.imag) + (0.0 - 2 * np.sin(z.imag / 2) ** 2), whole.imag)


def logarithm(z: Number) -> Number:
    return UNDEFINED if _has_nan(z) else np.log(z)


def logarithm_plus_one(z: Number) -> Number:
    """log(1 + z); the rounding error of 1 + real is corrected to first order, which matters where |1 + z| is near 1."""
    if _has_nan(z):
        return UNDEFINED
    shifted = 1 + z.real
    added = shifted - z.real
    lost = (1 - added) + (z.real - (shifted - added)) if np.isfinite(shifted) else 0.0
    rounded = np.log(compose(shifted, z.imag))
    slope = shifted / (shifted * shifted + z.imag * z.imag)
    return compose(rounded.real + (lost * slope if lost else 0.0), rounded.imag)


def logistic(z: Number) -> Number:
    """1 / (1 + e^-z); (1 + tanh(z / 2)) / 2 near the imaginary axis, where the sum cancels."""
    if abs(z.real) < 1 and np.isfinite(z.imag):
        return _times(1 + hyperbolic_tangent(_times(z, 0.5)), 0.5)
    return divide(compose(1.0, 0.0), 1 + exponential(-z))


def square_root(z: Number) -> Number:
    """The root with a real part that is not negative; on the negative axis the upper one."""
    return UNDEFINED if _has_nan(z) else np.sqrt(_above_cut(z))


def reciprocal_square_root(z: Number) -> Number:
    """1 / sqrt(z); 0 if a part is infinite, inf + i nan at 0. The side of the cut follows the sign of the zero."""
    if z == 0:
        return compose(np.inf, np.nan)
    if _is_infinite(z):
        return compose(np.copysign(0.0, z.real), np.copysign(0.0, -z.imag))
    root = np.sqrt(z)
    size = np.hypot(root.real, root.imag)
    return compose(root.real / size / size, -root.imag / size / size)


def cosine(z: Number) -> Number:
    """cos x cosh y - i sin x sinh y; real if x is 0, even where cosh overflows."""
    real, sinh = _with_growth(np.cos(z.real), np.sin(z.real), z.imag)
    is_real = z.real == 0 and np.isfinite(z.imag)
    return compose(real, -(z.real * np.copysign(1.0, z.imag) if is_real else sinh))


def sine(z: Number) -> Number:
    """sin x cosh y + i cos x sinh y; imaginary if x is 0, even where cosh overflows."""
    real, imaginary = _with_growth(np.sin(z.real), np.cos(z.real), z.imag)
    return compose(z.real if z.real == 0 and np.isfinite(z.imag) else real, imaginary)


def _with_growth(cosh_factor: Number, sinh_factor: Number, y: Number) -> tuple[Number, Number]:
    """Returns the factors times cosh(y) and sinh(y); of a large y, parts of 380 are applied as further factors, because
    cosh(y) may overflow where the product does not."""
    first, second = 380.0 if abs(y) > 600 else 0.0, 380.0 if abs(y) > 1060 else 0.0
    rest = np.copysign(abs(y) - first - second, y)
    cosh, sinh = cosh_factor * np.cosh(rest), sinh_factor * np.sinh(rest)
    return cosh * np.exp(first) * np.exp(second), sinh * np.exp(first) * np.exp(second)


def hyperbolic_tangent(z: Number) -> Number:
    """tanh z; undefined for a finite real part beside an infinite or NaN imaginary one."""
    if not np.isfinite(z.imag) and not np.isinf(z.real):
        return UNDEFINED
    return np.tanh(_above_cut(z))


def tangent(z: Number) -> Number:
    """-i tanh(i z)"""
    rotated = hyperbolic_tangent(compose(-z.imag, z.real))
    return compose(rotated.imag, -rotated.real)


def power(base: Number, exponent: Number) -> Number:
    """The power in polar form, in the widest type there is, because its error grows with the exponent.

    z^0 = 1^z = 1; for a real exponent c, 0^c is 0 if c > 0, and inf^c is inf or 0.
    """
    if exponent == 0 or base == 1:
        return compose(1.0, 0.0)
    c, d = np.longdouble(exponent.real), np.longdouble(exponent.imag)
    if d == 0 and np.isposinf(base.real) and base.imag == 0 and c != 0 and not np.isnan(c):
        return compose(np.inf, 0.0) if c > 0 else compose(0.0, 0.0)
    wide = np.clongdouble(base)
    size = np.longdouble(np.nan) if _has_nan(base) else np.hypot(wide.real, wide.imag)
    if d == 0 and size == 0 and c > 0:
        return compose(0.0, 0.0)
    angle = np.arctan2(np.longdouble(base.imag), np.longdouble(base.real))
    scale, turn = np.power(size, c) * np.exp(-d * angle), c * angle + d * np.log(size)
    return compose(scale * np.cos(turn), scale * np.sin(turn))


def arc_tangent_2(y: Number, x: Number) -> Number:
    """-i log((x + i y) / sqrt(x^2 + y^2))"""
    rotated = compose(x.real - y.imag, x.imag + y.real)
    direction = logarithm(divide(rotated, square_root(y * y + x * x)))
    return compose(direction.imag, -direction.real)
