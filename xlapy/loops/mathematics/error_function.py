"""The error function."""

from __future__ import annotations

from itertools import zip_longest
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
# log2(1 - erf(x)) for x >= 1, up to where erf(x) is 1
_FAR_SINGLE: Final = (
    0.00027127939392812550, -1.6296371221542358, -0.9135432243347168, -0.15641489624977112, 0.03636780008673668,
    -0.006065891124308109, 0.0006367120076902211, -3.128736716462299e-05,
)  # fmt: skip
# -log(1 - erf(x)) for x >= 1, up to where erf(x) is 1
_FAR_DOUBLE: Final = (
    -2.7157566839249642e-08, 1.1283795126984122, 0.636617691802483, 0.10278048645455902, -0.019149544003268272,
    -0.00016677802389218724, 0.0016296947922037777, -0.0005068154204736165, -5.874633018877481e-05,
    0.00013477474594816567, -7.751263915644583e-05, 2.9805898716528304e-05, -8.732768039750643e-06,
    2.0258790262316033e-06, -3.7536057647467225e-07, 5.515842969924435e-08, -6.302356364148991e-09,
    5.405096762441764e-10, -3.2748405007665754e-11, 1.2496525543614815e-12, -2.2577322814403864e-14,
)  # fmt: skip
# 2^x for |x| <= 1/2
_POWER_OF_TWO: Final = (
    1.0000001192092896, 0.6931469440460205, 0.24022120237350464, 0.05550713092088699, 0.009675540961325169,
    0.0013276472454890609,
)  # fmt: skip
_ONE_FROM: Final = {SINGLE: 4.0, DOUBLE: 6.0}


def error_function(x: Expression) -> Expression:
    """x times a polynomial near 0; above 1, 1 minus the exponential of a polynomial."""
    size = at_most(abs(x), _ONE_FROM[x.precision])
    square = size * size
    is_near = size < 1
    if x.is_single:
        # one polynomial, whose coefficients depend on the range: selecting them costs less than a second one
        exponent = _selected_polynomial(is_near, (square, _NEAR[SINGLE]), (size, _FAR_SINGLE))
        return where(is_near, fma(x, exponent, x), copysign(1 - _power_of_two(exponent), x))
    near = fma(x, polynomial(square, _NEAR[DOUBLE]), x)
    far = 1 - exponential_of_clamped(-polynomial(size, _FAR_DOUBLE))
    return where(is_near, near, copysign(far, x))


def _selected_polynomial(
    condition: Expression,
    on_true: tuple[Expression, tuple[float, ...]],
    on_false: tuple[Expression, tuple[float, ...]],
) -> Expression:
    """The value of one of two polynomials, each given by its argument and its coefficients from degree 0 up."""
    argument = where(condition, on_true[0], on_false[0])
    pairs = list(zip_longest(on_true[1], on_false[1], fillvalue=0.0))
    selected = [where(condition, argument.like(true), false) for true, false in pairs]
    total = selected.pop()
    while selected:
        total = fma(total, argument, selected.pop())
    return total


def _power_of_two(x: Expression) -> Expression:
    """2^x in single precision, for x from -100 to 0, with an error of 1.1e-7 of it at most."""
    shifted = x + SINGLE.rounder
    rest = x - (shifted - SINGLE.rounder)
    power = polynomial(rest, _POWER_OF_TWO)
    return (power.bits + (shifted.bits << SINGLE.fraction)).as_bits_of(SINGLE)
