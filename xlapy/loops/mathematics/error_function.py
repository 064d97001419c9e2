"""The error function."""

from __future__ import annotations

from typing import Final

from xlapy.loops.mathematics.exponential import exponential_of_clamped
from xlapy.loops.mathematics.expression import DOUBLE, SINGLE, Expression, at_most, copysign, fma, polynomial, where

# erf(x) / x - 1 as a polynomial in x^2, for x <= 1
_NEAR: Final = {
    SINGLE: (
        0.12837916612625122, -0.3761262595653534, 0.11283578723669052, -0.026853347197175026, 0.005187162198126316,
        -0.0007997851935215294, 7.806890789652243e-05,
    ),
    DOUBLE: (
        0.1283791670955126, -0.376126389031841, 0.11283791670971276, -0.026866170648079807, 0.005223977653304882,
        -0.0008548328578518778, 0.00012055388010748802, -1.4926931024019941e-05, 1.6481943249801123e-06,
        -1.656740232365213e-07, 1.6088041179715978e-08, -1.6774868278611513e-09, 1.490177686631841e-10,
    ),
}  # fmt: skip
# -log(1 - erf(x)) for x >= 1, up to where erf(x) is 1
_FAR: Final = {
    SINGLE: (
        -0.00018344314594287425, 1.1295567750930786, 0.6332626342773438, 0.10837246477603912, -0.025178959593176842,
        0.004193608183413744, -0.0004391057009343058, 2.1496052795555443e-05,
    ),
    DOUBLE: (
        -2.7157566839249642e-08, 1.1283795126984122, 0.636617691802483, 0.10278048645455902, -0.019149544003268272,
        -0.00016677802389218724, 0.0016296947922037777, -0.0005068154204736165, -5.874633018877481e-05,
        0.00013477474594816567, -7.751263915644583e-05, 2.9805898716528304e-05, -8.732768039750643e-06,
        2.0258790262316033e-06, -3.7536057647467225e-07, 5.515842969924435e-08, -6.302356364148991e-09,
        5.405096762441764e-10, -3.2748405007665754e-11, 1.2496525543614815e-12, -2.2577322814403864e-14,
    ),
}  # fmt: skip
_ONE_FROM: Final = {SINGLE: 4.0, DOUBLE: 6.0}


def error_function(x: Expression) -> Expression:
    """x times a polynomial near 0; above 1, 1 minus the exponential of a polynomial."""
    size = at_most(abs(x), _ONE_FROM[x.precision])
    square = size * size
    near = fma(x, polynomial(square, _NEAR[x.precision]), x)
    far = 1 - exponential_of_clamped(-polynomial(size, _FAR[x.precision]))
    return where(size < 1, near, copysign(far, x))
