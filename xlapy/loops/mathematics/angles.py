"""Argument reduction of trigonometric functions: subtracts multiples of pi/2, for arguments of any size.

x = q pi/2 + r with |r| about pi/4 at most. Near multiples of pi/2 almost all digits of x cancel, so that r needs pi
with many more digits than r has, and is itself returned in two parts. There are three methods, by the size of x:

- small: x - q P1 is exact, for P1 the first digits of pi/2; two further parts of pi/2 follow;
- large, f32: in double precision, from x 2^-a (2^a mod 2 pi) for one of a few a for which x 2^-a is an integer;
- large, f64 (after Payne and Hanek): from the digits of 2/pi whose product with x is not a multiple of 4.

The last two are cold paths, for elements that are large or very near a multiple of pi/2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from xlapy.loops.mathematics.expression import DOUBLE, SINGLE, Expression, cold_path, fma, where
from xlapy.loops.mathematics.pairs import two_product, two_sum

_QUARTERS_PER_RADIAN: Final = 0.6366197723675814  # 2 / pi
_HALF_PI: Final = {
    SINGLE: (1.5707963705062866, -4.371138828673793e-08, -1.7151245100058819e-15),
    DOUBLE: (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33),
}
_SMALL: Final = {SINGLE: 2.0**15, DOUBLE: 2.0**28}
# If r is a smaller part of x than this, `rest - start` below loses significant digits.
_CANCELED: Final = {SINGLE: 2.0**-22, DOUBLE: 2.0**-51}

# (a, 2^a mod 2 pi in two parts)
_POWERS: Final = (
    (0, 1.0, 0.0),
    (24, -0.8939688666801969, -3.988009861375488e-18),
    (47, -3.0766623031116285, -7.910039066301396e-17),
    (70, -1.510444847866102, 3.03124859377616e-17),
    (93, -2.7571720760448204, 8.356331234901577e-17),
)

_DIGIT: Final = 53
# 2 / pi in digits of 53 bits
_TWO_OVER_PI: Final = (
    5734161139222658, 5814151408469972, 7440259586542284, 5563773718881558, 2066796102992750, 2563573915284664,
    55291115753100, 5098427330010289, 1465545334474430, 5835026907506289, 6776677510095004, 7069188010357663,
    2595984518904818, 2831001892290551, 4552804911380620, 3195225570766134, 4461702110328553, 8190251822055336,
    6397593724909042, 8751785341853560, 5811081437509311, 3456741467624832, 7180050975382879,
)  # fmt: skip
_DIGITS_NEEDED: Final = 5


@dataclass(frozen=True, slots=True)
class Angle:
    """The angle quarters * pi/2 + (rest - tail)."""

    quarters: Expression
    """An integer of the same width, correct at least modulo 4."""
    rest: Expression
    tail: Expression
    """The rounding error of `rest`: at most one ULP of it."""


def reduce(x: Expression) -> Angle:
    """Reduces an angle x in radians; NaN for infinities and NaN."""
    precision = x.precision
    first, second, third = _HALF_PI[precision]
    shifted = fma(x, _QUARTERS_PER_RADIAN, precision.rounder)
    whole = shifted - precision.rounder
    start = fma(whole, -first, x)
    rest = fma(whole, -second, start)
    tail = fma(whole, third, fma(whole, second, rest - start))
    size = abs(x)
    canceled = abs(rest) < size * _CANCELED[precision]
    large = _large_single if x.is_single else _large_double
    fast = [shifted.bits, rest, tail]
    return Angle(*cold_path("angle", (size > _SMALL[precision]) | canceled, fast, lambda: large(x)))


def _large_single(x: Expression) -> Sequence[Expression]:
    """Uses x = n 2^a with an integer n below 2^47: n (2^a mod 2 pi) is the same angle."""
    powers, highs, lows = zip(*_POWERS, strict=True)
    n = (x * _of_range(x, [x.like(2.0**-power) for power in powers])).as_double()
    product = two_product(n, _of_range(x, [n.like(high) for high in highs]))
    error = fma(n, _of_range(x, [n.like(low) for low in lows]), product.low)
    first, second, _ = _HALF_PI[DOUBLE]
    shifted = fma(product.high, _QUARTERS_PER_RADIAN, DOUBLE.rounder)
    whole = shifted - DOUBLE.rounder
    angle = fma(whole, -first, product.high) + fma(whole, -second, error)
    rest = angle.as_single()
    return [shifted.bits.as_integer(SINGLE.integer), rest, (rest.as_double() - angle).as_single()]


def _of_range(x: Expression, choices: Sequence[Expression]) -> Expression:
    """The choice for the last entry of _POWERS for which x 2^-a is an integer."""
    chosen = choices[0]
    for (power, _, _), choice in zip(_POWERS[1:], choices[1:], strict=True):
        chosen = where(abs(x) >= 2.0 ** (power + SINGLE.fraction), choice, chosen)
    return chosen


def _large_double(x: Expression) -> Sequence[Expression]:
    """The product of x and the digits of 2 / pi that matter, modulo four quarter turns."""
    exponent = ((x.bits >> DOUBLE.fraction) & 0x7FF) - DOUBLE.bias
    skipped = _skipped_digits(exponent)
    digits = _window(skipped, [x.like(digit * 2.0**-_DIGIT) for digit in _TWO_OVER_PI])
    scaled = x * ((DOUBLE.bias - skipped * _DIGIT) << DOUBLE.fraction).as_bits_of(DOUBLE)
    total = [x.like(0.0)] * 3
    for number, digit in enumerate(digits):
        factor = scaled * 2.0 ** (-_DIGIT * number)
        product = two_product(factor, digit)
        for term in (product.high, product.low):
            total = _added(total, _less_full_turns(term) if number < 2 else term)
    shifted = total[0] + DOUBLE.rounder
    turn = two_sum(total[0] - (shifted - DOUBLE.rounder), total[1])
    first, second, _ = _HALF_PI[DOUBLE]
    high = two_product(turn.high, x.like(first))
    low = fma(turn.high, second, high.low)
    angle = two_sum(high.high, fma(turn.low + total[2], first, low))
    return [shifted.bits, angle.high, -angle.low]


def _skipped_digits(exponent: Expression) -> Expression:
    """How many leading digits of 2 / pi contribute only multiples of four quarter turns: (exponent - 54) / 53."""
    past = exponent - (_DIGIT + 1)
    return where(past < 0, 0, (past * 1237) >> 16)


def _window(start: Expression, table: Sequence[Expression]) -> Sequence[Expression]:
    """The entries of a table from position `start` < 32 on, by conditional shifts; 0 beyond the end of the table."""
    entries = [*table]
    for step in (16, 8, 4, 2, 1):
        shift = (start & step).differs(0)
        kept = min(len(entries), _DIGITS_NEEDED + step - 1)
        padded = [*entries, *[table[0].like(0.0)] * (kept + step - len(entries))]
        entries = [where(shift, padded[at + step], padded[at]) for at in range(kept)]
    return entries


def _less_full_turns(term: Expression) -> Expression:
    """The term, in quarter turns, modulo four; exact."""
    return fma((term * 0.25).apply("rint"), -4.0, term)


def _added(total: Sequence[Expression], term: Expression) -> list[Expression]:
    """Adds a term to a sum in three parts."""
    first = two_sum(total[0], term)
    second = two_sum(total[1], first.low)
    return [first.high, second.high, total[2] + second.low]
