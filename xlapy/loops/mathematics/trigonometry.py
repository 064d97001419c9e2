"""Sine, cosine and tangent, after `angles` reduces their arguments to at most about pi/4."""

from __future__ import annotations

from typing import Final

from xlapy.loops.mathematics.angles import Angle, reduce
from xlapy.loops.mathematics.expression import DOUBLE, SINGLE, Expression, fma, polynomial, where

# (sin(r) / r - 1) / r^2 as a polynomial in r^2
_SINE: Final = {
    SINGLE: (-0.16666653752326965, 0.008332106284797192, -0.00019507882825564593),
    DOUBLE: (
        -0.1666666666666663, 0.008333333333321745, -0.00019841269829238268, 2.7557313486660757e-06,
        -2.5050725101864555e-08, 1.5894841863935967e-10,
    ),
}  # fmt: skip
# (cos(r) - 1 + r^2 / 2) / r^4
_COSINE: Final = {
    SINGLE: (0.04166664555668831, -0.0013887304812669754, 2.4431425117654726e-05),
    DOUBLE: (
        0.04166666666666659, -0.0013888888888872186, 2.4801587288296067e-05, -2.7557314015377447e-07,
        2.0875678125675823e-09, -1.1357339093405917e-11,
    ),
}  # fmt: skip
# (tan(r) / r - 1) / r^2
_TANGENT: Final = {
    SINGLE: (
        0.3333335220813751, 0.13332577049732208, 0.05406986549496651, 0.02123011089861393, 0.010972213000059128,
        -8.474870264763013e-05, 0.004462775774300098,
    ),
    DOUBLE: (
    0.33333333333333387, 0.13333333333324474, 0.05396825397337589, 0.021869488386352023, 0.008863238132456947,
    0.003592098684612949, 0.0014560611768626897, 0.0005887864027579821, 0.00024403077456123032,
    8.284027654003924e-05, 6.85366929674632e-05, -2.7304779755927838e-05, 5.003757740406786e-05,
    -2.497145817355294e-05, 9.954982074269412e-06,
    ),
}  # fmt: skip


def sine(x: Expression) -> Expression:
    angle = reduce(x)
    return where(x.equals(0), x, _turned(angle, angle.quarters))


def cosine(x: Expression) -> Expression:
    angle = reduce(x)
    return _turned(angle, angle.quarters + 1)


def _turned(angle: Angle, quarters: Expression) -> Expression:
    """The sine of rest - tail plus a number of quarter turns."""
    size = where((quarters & 1).equals(0), _sine(angle), _cosine(angle))
    precision = size.precision
    sign = (quarters & 2) << (precision.type.bits - 2)
    return (size.bits ^ sign).as_bits_of(precision)


def _sine(angle: Angle) -> Expression:
    rest = angle.rest
    square = rest * rest
    return rest - fma(-(rest * square), polynomial(square, _SINE[rest.precision]), angle.tail)


def _cosine(angle: Angle) -> Expression:
    rest = angle.rest
    square = rest * rest
    half = square * 0.5
    start = 1 - half
    lost = (1 - start) - half
    small = fma(square * square, polynomial(square, _COSINE[rest.precision]), rest * angle.tail)
    return start + (lost + small)


def tangent(x: Expression) -> Expression:
    """tan r; after an odd number of quarter turns -1 / tan r, corrected by the rounding error of tan r."""
    angle = reduce(x)
    rest = angle.rest
    square = rest * rest
    small = rest * square * polynomial(square, _TANGENT[rest.precision])
    slope = fma(rest + small, rest + small, 1)
    small = fma(-slope, angle.tail, small)
    tan = rest + small
    tail = (rest - tan) + small
    cotangent = -1 / tan
    error = fma(cotangent, tail, fma(cotangent, tan, 1))
    result = where((angle.quarters & 1).equals(0), tan, fma(cotangent, error, cotangent))
    return where(x.equals(0), x, result)
