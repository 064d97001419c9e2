"""The logarithm of the gamma function, its derivatives, and the Hurwitz zeta function: lgamma, digamma, polygamma,
zeta.

Values and limits are those of XLA, which uses the same approximations (Lanczos; Euler-Maclaurin).
"""

from __future__ import annotations

import math

from xlapy.base.element_types import F64
from xlapy.builder import elementwise as e
from xlapy.builder.core.op import XlaOp
from xlapy.builder.mathematics import coefficients as c
from xlapy.builder.mathematics.polynomials import constant_like, in_f32

_SHIFT = c.LANCZOS_G + 0.5
_SMALLEST = {False: 2.0**-149, True: 2.0**-1074}
_SUMMED = 9
"""The number of terms of zeta that are summed directly."""


@in_f32
def lgamma(x: XlaOp) -> XlaOp:
    """log |gamma(x)| of each element; infinite at infinity and at the poles 0, -1, -2 ..."""
    reflected = x < 0.5
    z = e.select(reflected, -x, x - 1.0)
    log_t = _log_shifted(z)
    total = (z + 0.5 - (z + _SHIFT) / log_t) * log_t + (math.log(2 * math.pi) / 2) + e.log(_lanczos(z))
    distance = abs(x)
    fraction = distance - e.floor(distance)
    fraction = e.select(fraction > 0.5, 1.0 - fraction, fraction)
    sine = e.log(e.sin(fraction * math.pi))
    mirrored = e.select(e.is_finite(sine), math.log(math.pi) - sine - total, -sine)
    result = e.select(reflected, mirrored, total)
    return e.select(distance == math.inf, constant_like(x, math.inf), result)


def _log_shifted(z: XlaOp) -> XlaOp:
    """log(z + g + 1/2), accurate for small z."""
    return e.log1p(z / _SHIFT) + math.log(_SHIFT)


def _lanczos(z: XlaOp) -> XlaOp:
    total = constant_like(z, c.LANCZOS_BASE)
    for number, coefficient in enumerate(c.LANCZOS, 1):
        total = total + coefficient / (z + float(number))
    return total


@in_f32
def digamma(x: XlaOp) -> XlaOp:
    """The derivative of lgamma; NaN at the poles."""
    reflected = x < 0.5
    z = e.select(reflected, -x, x - 1.0)
    slope = constant_like(z, 0.0)
    total = constant_like(z, c.LANCZOS_BASE)
    for number, coefficient in enumerate(c.LANCZOS, 1):
        place = z + float(number)
        slope = slope - coefficient / (place * place)
        total = total + coefficient / place
    t = z + _SHIFT
    value = _log_shifted(z) + slope / total - c.LANCZOS_G / t
    angle = (x + abs(e.floor(x + 0.5))) * math.pi
    mirrored = value - e.cos(angle) * math.pi / e.sin(angle)
    pole = (x <= 0.0) & (x == e.floor(x))
    return e.select(pole, constant_like(x, math.nan), e.select(reflected, mirrored, value))


@in_f32
def zeta(x: XlaOp, q: XlaOp) -> XlaOp:
    """The sum of (q + n)^-x over n = 0, 1, 2 ...

    NaN for x < 1, and for q <= 0 unless x is an integer; infinite for x = 1, and at q = 0, -1 ... for even x.
    """
    place = q
    total = e.pow(q, -x)
    for _ in range(_SUMMED):
        place = place + 1.0
        total = total + e.pow(place, -x)
    place = place + 1.0
    last = e.pow(place, -x)
    refined = total + last * place / (x - 1.0) + last * (0.5 + x / place * _bernoulli(x, place))
    smallest = _SMALLEST[x.element_type is F64]
    result = e.select(abs(last) < abs(total) * smallest, total, refined)
    return _with_limits(result, x, q)


def _bernoulli(x: XlaOp, place: XlaOp) -> XlaOp:
    """The tail of the Euler-Maclaurin formula, from its last term on."""
    inverse = 1.0 / (place * place)
    total = constant_like(x, 0.0)
    for number, coefficient in enumerate(c.ZETA[:-1]):
        offset = 2 * (len(c.ZETA) - number) - 2
        total = (x + float(offset)) * (x + float(offset - 1)) * (inverse * (total + 1.0 / coefficient))
    return total + 1.0 / c.ZETA[-1]


def _with_limits(result: XlaOp, x: XlaOp, q: XlaOp) -> XlaOp:
    nan, infinity = constant_like(x, math.nan), constant_like(x, math.inf)
    whole = x == e.floor(x)
    result = e.select((x < 1.0) | ((q <= 0.0) & ~whole), nan, result)
    pole = (q <= 0.0) & (q == e.floor(q))
    even = whole & (x % 2.0 == 0.0)
    result = e.select(pole, e.select(even, infinity, nan), result)
    return e.select(x == 1.0, infinity, result)


@in_f32
def polygamma(n: XlaOp, x: XlaOp) -> XlaOp:
    """The derivative of order n of digamma; NaN unless n is 0, 1, 2 ..."""
    sign = (n % 2.0) * 2.0 - 1.0
    higher = sign * e.exp(lgamma(n + 1.0)) * zeta(n + 1.0, x)
    result = e.select(n == 0.0, digamma(x), higher)
    unnatural = (n != e.floor(n)) | (n < 0.0)
    return e.select(unnatural, constant_like(x, math.nan), result)
