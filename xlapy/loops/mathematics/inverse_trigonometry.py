"""Inverse sine, cosine and tangent, and the angle of a point."""

from __future__ import annotations

from typing import Final

from xlapy.loops.mathematics.expression import (
    DOUBLE,
    SINGLE,
    Expression,
    copysign,
    fma,
    polynomial,
    square_root,
    where,
)
from xlapy.loops.mathematics.pairs import Pair, ordered_sum

_HALF_PI: Final = {
    SINGLE: (1.5707963705062866, -4.371138828673793e-08),
    DOUBLE: (1.5707963267948966, 6.123233995736766e-17),
}
# (atan(t) / t - 1) / t^2 as a polynomial in t^2
_ARC_TANGENT: Final = {
    SINGLE: (
        -0.333333283662796, 0.1999971568584442, -0.14280343055725098, 0.11061233282089233, -0.08821462094783783,
        0.06763648986816406, -0.044983260333538055, 0.022777630016207695, -0.007425378542393446,
        0.0011345281964167953,
    ),
    DOUBLE: (
        -0.33333333333333326, 0.19999999999998289, -0.14285714285577944, 0.11111111105599544, -0.09090908956580591,
        0.07692305516080937, -0.06666641713553662, 0.05882141466559481, -0.052617909284439254, 0.0475500439946774,
        -0.04320123630582932, 0.039102553545785096, -0.03466233418458765, 0.029294006372566857, -0.022791933591470134,
        0.015696599128594006, -0.009183517534410776, 0.004368955576733971, -0.0016050120277596612,
        0.00042389131680629547, -7.124401259018018e-05, 5.702411444371694e-06,
    ),
}  # fmt: skip
# (asin(t) / t - 1) / t^2 for t <= 1/2
_ARC_SINE: Final = {
    SINGLE: (
        0.16666753590106964, 0.07495247572660446, 0.045477282255887985, 0.02414255402982235, 0.04223364219069481,
    ),
    DOUBLE: (
        0.16666666666666763, 0.07499999999970051, 0.04464285717538719, 0.030381942668104976, 0.022372216167305656,
        0.01735158981909325, 0.013981097718907274, 0.01139655937844937, 0.010793891410575277, 0.003653265017048303,
        0.021840558999686677, -0.021192647587456027, 0.0327528496263838,
    ),
}  # fmt: skip


def arc_tangent(x: Expression) -> Expression:
    size = abs(x)
    one = x.like(1.0)
    steep = size > 1
    angle = _first_octant(where(steep, one, size) / where(steep, size, one))
    half, half_low = _HALF_PI[x.precision]
    return copysign(where(steep, half - (angle - half_low), angle), x)


def arc_tangent_2(y: Expression, x: Expression) -> Expression:
    """The angle of the point (x, y) from the positive x axis; its sign is that of y, zeros included."""
    height, width, left = abs(y), abs(x), x.sign_bit
    steep = height > width
    large, small = where(steep, height, width), where(steep, width, height)
    ratio = where(small.equals(large), where(large.equals(0), large, 1), small / large)
    angle = _first_octant(ratio)
    angle = where(steep ^ left, -angle, angle)
    half, half_low = _HALF_PI[x.precision]
    start = where(steep, half, where(left, x.like(2 * half), 0))
    start_low = where(steep, half_low, where(left, x.like(2 * half_low), 0))
    angle = where(x.is_nan | y.is_nan, float("nan"), start + (angle + start_low))
    return copysign(angle, y)


def _first_octant(ratio: Expression) -> Expression:
    """atan of a number from 0 to 1."""
    square = ratio * ratio
    return fma(ratio * square, polynomial(square, _ARC_TANGENT[ratio.precision]), ratio)


def arc_sine(x: Expression) -> Expression:
    """A polynomial up to 1/2; beyond it pi/2 - 2 asin(sqrt((1 - x) / 2))."""
    size = abs(x)
    steep = size > 0.5
    half, half_low = _HALF_PI[x.precision]
    parts = _arc_sine(size, steep)
    start = ordered_sum(x.like(half), parts.high * -2)
    turned = start.high + (start.low - fma(parts.low, 2, -half_low))
    return copysign(where(steep, turned, parts.high + parts.low), x)


def arc_cosine(x: Expression) -> Expression:
    """pi/2 - asin(x); beyond 1/2, 2 asin(sqrt((1 - x) / 2)), and pi less that on the negative side."""
    size = abs(x)
    steep = size > 0.5
    half, half_low = _HALF_PI[x.precision]
    parts = _arc_sine(size, steep)
    high, low = copysign(parts.high, x), copysign(parts.low, x)
    level = ordered_sum(x.like(half), -high)
    level_sum = level.high + (level.low - (low - half_low))
    double = (parts.high + parts.low) * 2
    back = ordered_sum(x.like(2 * half), parts.high * -2)
    turned = back.high + (back.low - (parts.low - half_low) * 2)
    return where(steep, where(x < 0, turned, double), level_sum)


def _arc_sine(size: Expression, steep: Expression) -> Pair:
    """asin of the size or, where it is steep, of sqrt((1 - size) / 2), in two parts."""
    half = fma(size, -0.5, 0.5)
    root = square_root(half)
    lost = fma(-root, root, half) / (root + root)
    lost = where(steep & (half > 0), lost, 0)
    argument, square = where(steep, root, size), where(steep, half, size * size)
    return Pair(argument, fma(argument * square, polynomial(square, _ARC_SINE[size.precision]), lost))
