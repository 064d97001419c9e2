"""The complementary error function erfc and the inverse error function erf_inv. (erf is an HLO operation.)"""

from __future__ import annotations

import math

from xlapy.base.element_types import F64
from xlapy.builder import elementwise as e
from xlapy.builder.core.op import XlaOp
from xlapy.builder.mathematics import coefficients as c
from xlapy.builder.mathematics.polynomials import constant_like, horner, horner_of_two, in_f32

_LARGEST_EXPONENT = {False: 88.72283905206835, True: 7.09782712893383996843e2}
"""The largest exponent for which e^x does not overflow."""


@in_f32
def erfc(x: XlaOp) -> XlaOp:
    """1 - erf(x), accurate where the result is small."""
    far = far_erfc(x)
    far = e.select(x < 0.0, 2.0 - far, far)
    return e.select(abs(x) > 1.0, far, 1.0 - e.erf(x))


def far_erfc(x: XlaOp) -> XlaOp:
    """erfc of |x| for |x| >= 1."""
    wide = x.element_type is F64
    z = -(x * x)
    far = _far_f64(x, z) if wide else _far_f32(x, z)
    return e.select(z < -_LARGEST_EXPONENT[wide], constant_like(x, 0.0), far)


def _far_f32(x: XlaOp, z: XlaOp) -> XlaOp:
    inverse = 1.0 / (x * x)
    near, beyond = horner(inverse, c.ERFC_P_F32), horner(inverse, c.ERFC_R_F32)
    distance = abs(x)
    return e.exp(z) * (1.0 / distance) * e.select(distance < 2.0, near, beyond)


def _far_f64(x: XlaOp, z: XlaOp) -> XlaOp:
    distance = abs(x)
    power = e.exp(z)
    near = power * horner(distance, c.ERFC_P_F64) / horner(distance, c.ERFC_Q_F64)
    beyond = power * horner(distance, c.ERFC_R_F64) / horner(distance, c.ERFC_S_F64)
    return e.select(distance < 8.0, near, beyond)


@in_f32
def erf_inv(x: XlaOp) -> XlaOp:
    """The inverse of erf; infinite at -1 and 1, NaN outside."""
    w = -e.log1p(x * -x)
    factor = _inverse_f64(w) if x.element_type is F64 else _inverse_f32(w)
    return e.select(abs(x) == 1.0, x * math.inf, factor * x)


def _inverse_f32(w: XlaOp) -> XlaOp:
    small = w < 5.0
    place = e.select(small, w - 2.5, e.sqrt(w) - 3.0)
    return horner_of_two(place, small, c.ERF_INV_SMALL_F32, c.ERF_INV_LARGE_F32)


def _inverse_f64(w: XlaOp) -> XlaOp:
    root = e.sqrt(w)
    small = horner(w - 3.125, c.ERF_INV_SMALL_F64)
    middle = horner(root - 3.25, c.ERF_INV_MIDDLE_F64)
    large = horner(root - 5.0, c.ERF_INV_LARGE_F64)
    return e.select(w < 6.25, small, e.select(w < 16.0, middle, large))
