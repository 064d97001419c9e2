"""Bessel functions: bessel_i1e, built from HLO operations."""

from __future__ import annotations

from xlapy.base.element_types import F64
from xlapy.builder import elementwise as e
from xlapy.builder.core.op import XlaOp
from xlapy.builder.mathematics import coefficients as c
from xlapy.builder.mathematics.polynomials import chebyshev, in_f32


@in_f32
def bessel_i1e(x: XlaOp) -> XlaOp:
    """The modified Bessel function of the first kind of order 1, scaled by e^-|x|."""
    wide = x.element_type is F64
    distance = abs(x)
    near = distance * chebyshev(distance * 0.5 - 2.0, c.BESSEL_I1E_SMALL_F64 if wide else c.BESSEL_I1E_SMALL_F32)
    beyond = chebyshev(32.0 / distance - 2.0, c.BESSEL_I1E_LARGE_F64 if wide else c.BESSEL_I1E_LARGE_F32) / e.sqrt(
        distance
    )
    return e.sign(x) * e.select(distance <= 8.0, near, beyond)
