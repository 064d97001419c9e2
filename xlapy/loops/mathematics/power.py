"""x^y = e^(y log |x|). The logarithm needs more digits than a float has, so it is computed in pairs of floats.

For some constant exponents, products and roots give the same to within an ULP or two.
"""

from __future__ import annotations

from typing import Final

from xlapy.loops.mathematics import exponential, logarithm, roots
from xlapy.loops.mathematics.expression import DOUBLE, SINGLE, Expression, fma, polynomial, square_root, where
from xlapy.loops.mathematics.pairs import Pair, multiply, ordered_sum, two_product, two_sum

_LOG2: Final = {
    SINGLE: (0.6931471824645996, -1.9046542121259336e-09),
    DOUBLE: (0.6931471805599453, 2.3190468138462996e-17),
}
_TWO_THIRDS: Final = {
    SINGLE: (0.6666666865348816, -1.9868214925130207e-08),
    DOUBLE: (0.6666666666666666, 3.700743415417188e-17),
}
# (log((1 + s) / (1 - s)) - 2 s - 2/3 s^3) / s^5 as a polynomial in s^2
_TAIL: Final = {
    SINGLE: (0.40000155568122864, 0.2854677140712738, 0.23427578806877136),
    DOUBLE: (
        0.4000000000000234, 0.28571428570057616, 0.22222222527753457, 0.18181783654671627, 0.15386791302494465,
        0.1325600198453096, 0.13204112173515326,
    ),
}  # fmt: skip


_MAX_PRODUCT: Final = 4
"""The largest exponent for which the product of as many factors is exact to 2 ULP, each multiplication rounded."""

_MAX_DOUBLE_PRODUCT: Final = 16
"""The largest exponent of an F32 for which the product is computed in F64, where rounding does not matter."""


def power(base: Expression, exponent: Expression) -> Expression:
    """Returns what C's pow returns: 1 if the exponent is 0 or the base is 1, even if the other operand is NaN."""
    if exponent.value.op == "const":
        known = _constant_power(base, float(exponent.value.attribute))
        if known is not None:
            return known
    size = abs(base)
    result = _power_of_size(size, exponent)
    whole = exponent.apply("trunc").equals(exponent)
    half = exponent * 0.5
    odd = whole & half.apply("trunc").differs(half)
    result = where(base.sign_bit & odd, -result, result)
    undefined = (base < 0) & ~whole & size.is_finite
    result = where(undefined, float("nan"), result)
    one = exponent.equals(0) | base.equals(1) | (size.equals(1) & exponent.is_infinite)
    return where(one, 1, result)


def _constant_power(base: Expression, exponent: float) -> Expression | None:
    """Returns the power by products and roots, which need no special values; None for other exponents."""
    number = abs(exponent)
    if number.is_integer() and number > 0:
        return _whole_power(base, int(exponent))
    size = abs(base)
    if exponent == -0.5:
        result = roots.reciprocal_square_root(size)
    elif exponent in (0.5, 1.5, 2.5):
        result = square_root(size)
        for _ in range(int(exponent)):
            result = result * size
    else:
        return None
    return where((base < 0) & size.is_finite, float("nan"), result)


def _whole_power(base: Expression, exponent: int) -> Expression | None:
    number = abs(exponent)
    if 0 < exponent <= _MAX_PRODUCT:
        return _product(base, number)
    if base.is_single and number <= _MAX_DOUBLE_PRODUCT:
        product = _product(base.as_double(), number)
        return (1 / product if exponent < 0 else product).as_single()
    # the inverse of a product could overflow where the power does not
    return _product(1 / base, number) if number <= 2 else None


def _product(base: Expression, count: int) -> Expression:
    """The product of `count` equal factors."""
    if count == 1:
        return base
    half = _product(base, count // 2)
    return half * half * base if count % 2 else half * half


def _power_of_size(size: Expression, exponent: Expression) -> Expression:
    product, low = _exponent_of_e(size, exponent)
    return _exponential(product.high, fma(exponent, low, product.low))


def power_times_exponential(size: Expression, exponent: Expression, addend: Expression) -> Expression:
    """size^exponent * e^addend, for a nonnegative size; overflows only if the product does."""
    product, low = _exponent_of_e(size, exponent)
    total = two_sum(where(exponent.equals(0), 0, product.high), addend)
    return _exponential(total.high, total.low + fma(exponent, low, product.low))


def _exponent_of_e(size: Expression, exponent: Expression) -> tuple[Pair, Expression]:
    """exponent * log(size), and the low part of the logarithm, which is not multiplied yet."""
    infinity = float("inf")
    logarithm_ = _logarithm(size)
    high = where(size < infinity, where(size.equals(0), -infinity, logarithm_.high), size)
    return two_product(exponent, high), logarithm_.low


def _exponential(x: Expression, tail: Expression) -> Expression:
    """e^(x + tail); if e^x is 0 or infinite, the tail is ignored."""
    known = abs(x) < 2.0**10
    reduced = exponential.reduce(exponential.clamp(x), where(known, tail, 0))
    return exponential.scale(reduced.growth + 1, reduced.exponent)


def _logarithm(x: Expression) -> Pair:
    """log x = e ln(2) + log((1 + s) / (1 - s)), for a positive number."""
    parts = logarithm.split(x)
    fraction = parts.fraction
    divisor = ordered_sum(fraction.like(2.0), fraction)
    reciprocal = 1 / divisor.high
    s = fraction * reciprocal
    rest = fma(-s, divisor.low, fma(-s, divisor.high, fraction))
    ratio = Pair(s, rest * reciprocal)
    square = multiply(ratio, ratio)
    third, third_low = _TWO_THIRDS[x.precision]
    tail = ordered_sum(s.like(third), square.high * polynomial(square.high, _TAIL[x.precision]))
    tail = multiply(ratio, multiply(square, Pair(tail.high, tail.low + third_low)))
    sum_ = ordered_sum(s + s, tail.high)
    low = sum_.low + fma(ratio.low, 2, tail.low)
    log2, log2_low = _LOG2[x.precision]
    whole = two_product(parts.exponent, s.like(log2))
    total = ordered_sum(whole.high, sum_.high)
    return Pair(total.high, total.low + (fma(parts.exponent, log2_low, whole.low) + low))
