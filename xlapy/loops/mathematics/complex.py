"""Functions of complex numbers, which are pairs of values.

They follow XLA, not C99, Annex G: formulas on the parts, so that an infinite part next to a NaN is usually lost. Where
XLA is not consistent about the sign of a zero part, it follows from the formula. Errors are relative to the absolute
value of the result, not to each part.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from xlapy.loops.builder import Builder
from xlapy.loops.ir import Value
from xlapy.loops.mathematics import exponential as exponentials
from xlapy.loops.mathematics import hyperbolic, inverse_trigonometry, logarithm, power, trigonometry
from xlapy.loops.mathematics.expression import DOUBLE, SINGLE, Expression, Number, copysign, fma, square_root, where

_INFINITY: Final = float("inf")
_NAN: Final = float("nan")


@dataclass(frozen=True, slots=True)
class Complex:
    real: Expression
    imaginary: Expression

    @property
    def has_nan(self) -> Expression:
        return self.real.compare("uno", "", self.imaginary)

    @property
    def is_infinite(self) -> Expression:
        """Whether one part or both are infinite."""
        return self.real.is_infinite | self.imaginary.is_infinite

    @property
    def is_finite(self) -> Expression:
        return self.real.is_finite & self.imaginary.is_finite

    @property
    def is_zero(self) -> Expression:
        return self.real.equals(0) & self.imaginary.equals(0)

    def scaled(self, factor: Expression | Number) -> Complex:
        return Complex(self.real * factor, self.imaginary * factor)


def choose(condition: Expression, on_true: Complex | tuple[Number, Number], on_false: Complex) -> Complex:
    real, imaginary = on_true if isinstance(on_true, tuple) else (on_true.real, on_true.imaginary)
    return Complex(where(condition, real, on_false.real), where(condition, imaginary, on_false.imaginary))


def _undefined(condition: Expression, otherwise: Complex) -> Complex:
    return choose(condition, (_NAN, _NAN), otherwise)


def in_double(function: Callable[..., Complex]) -> Callable[..., Complex]:
    """Computes a function in double precision, whatever the type of its operands, and rounds its result."""

    def apply(*operands: Complex) -> Complex:
        if not operands[0].real.is_single:
            return function(*operands)
        result = function(*(Complex(z.real.as_double(), z.imaginary.as_double()) for z in operands))
        return Complex(result.real.as_single(), result.imaginary.as_single())

    return apply


# -- arithmetic


def add(left: Complex, right: Complex) -> Complex:
    return Complex(left.real + right.real, left.imaginary + right.imaginary)


def subtract(left: Complex, right: Complex) -> Complex:
    return Complex(left.real - right.real, left.imaginary - right.imaginary)


def negate(operand: Complex) -> Complex:
    return Complex(-operand.real, -operand.imaginary)


def multiply(left: Complex, right: Complex) -> Complex:
    return Complex(
        left.real * right.real - left.imaginary * right.imaginary,
        left.real * right.imaginary + left.imaginary * right.real,
    )


def divide(left: Complex, right: Complex) -> Complex:
    """Smith's method; where it yields NaN, the limits for a zero or an infinite operand."""
    quotient = _smith(left, right)
    limit = choose(left.is_finite & right.is_infinite, _times_conjugate(left, _unit_box(right)).scaled(0.0), quotient)
    infinite = _times_conjugate(_unit_box(left), right).scaled(_INFINITY)
    limit = choose(left.is_infinite & right.is_finite, infinite, limit)
    pole = left.scaled(copysign(_INFINITY, right.real))
    limit = choose(right.is_zero & ~(left.real.is_nan & left.imaginary.is_nan), pole, limit)
    return choose(quotient.real.is_nan & quotient.imaginary.is_nan, limit, quotient)


def _smith(left: Complex, right: Complex) -> Complex:
    """Division that scales by the larger part of the divisor, so that no square overflows. Sums do not overflow either,
    because operands near the largest number are divided by 4 first."""
    dividend, divisor = _factor_of_large(left), _factor_of_large(right)
    left, right = left.scaled(dividend), right.scaled(divisor)
    steep = abs(right.real) < abs(right.imaginary)
    large = where(steep, right.imaginary, right.real)
    ratio = where(steep, right.real, right.imaginary) / large
    scale = fma(where(steep, right.real, right.imaginary), ratio, large)
    on_large = where(steep, left.imaginary, left.real)
    on_small = where(steep, left.real, left.imaginary)
    imaginary = fma(on_large, -ratio, on_small)
    quotient = Complex(fma(on_small, ratio, on_large) / scale, where(steep, -imaginary, imaginary) / scale)
    return quotient.scaled(divisor).scaled(where(dividend.equals(1), dividend, 4))


def _factor_of_large(operand: Complex) -> Expression:
    """1/4 for a number with a part near the largest one, else 1."""
    large = operand.real.precision.largest / 8
    return where((abs(operand.real) > large) | (abs(operand.imaginary) > large), operand.real.like(0.25), 1)


def _unit_box(operand: Complex) -> Complex:
    """Infinite parts become 1 and the others 0, signs kept: the direction of an infinity."""
    return Complex(_unit(operand.real), _unit(operand.imaginary))


def _unit(part: Expression) -> Expression:
    return copysign(where(part.is_infinite, part.like(1.0), 0), part)


def _times_conjugate(left: Complex, right: Complex) -> Complex:
    return Complex(
        left.real * right.real + left.imaginary * right.imaginary,
        left.imaginary * right.real - left.real * right.imaginary,
    )


# -- absolute value and sign


@dataclass(frozen=True, slots=True)
class _Box:
    """|z| = size * sqrt(1 + ratio^2), where `size` is the larger absolute value of the parts and ratio <= 1."""

    size: Expression
    ratio: Expression

    @property
    def stretch(self) -> Expression:
        return square_root(fma(self.ratio, self.ratio, 1))


def _box(operand: Complex) -> _Box:
    """The box of a number. The ratio is 0 for 0 and for infinities; if a part is NaN, both are unspecified."""
    x, y = abs(operand.real), abs(operand.imaginary)
    size, small = where(x > y, x, y), where(x > y, y, x)
    return _Box(size, where((size > 0) & size.is_finite, small / size, 0))


def absolute(operand: Complex) -> Expression:
    """|z|; NaN if a part is NaN, even if the other part is infinite."""
    box = _box(operand)
    return where(operand.has_nan, _NAN, box.size * box.stretch)


def sign(operand: Complex) -> Complex:
    """z / |z| by parts: an infinite part gives NaN. 0 for 0. |z| may overflow, so it divides as two factors."""
    box = _box(operand)
    direction = Complex(operand.real / box.size / box.stretch, operand.imaginary / box.size / box.stretch)
    return _undefined(operand.has_nan, choose(operand.is_zero, operand, direction))


# -- exponentials and logarithms


# Above the first number, e^x is scaled in two steps, the second of which adds so many bits to the exponent: its product
# with a tiny sine may be finite where 2^n is not.
_HUGE_EXPONENT: Final = {SINGLE: 100.0, DOUBLE: 700.0}
_LATER_BITS: Final = {SINGLE: 64, DOUBLE: 900}


def exponential(operand: Complex) -> Complex:
    """e^z; real for a zero imaginary part, and finite where only e^real overflows."""
    real, imaginary = operand.real, operand.imaginary
    reduced = exponentials.reduce(exponentials.clamp(real, further=True))
    growth = reduced.growth + 1
    steep, later = real > _HUGE_EXPONENT[real.precision], _LATER_BITS[real.precision]
    exponent = reduced.exponent - where(steep, reduced.exponent.like(later), 0)
    factor = where(steep, real.like(2.0**later), 1)
    cosine_ = exponentials.scale(growth * trigonometry.cosine(imaginary), exponent) * factor
    sine_ = exponentials.scale(growth * trigonometry.sine(imaginary), exponent) * factor
    return Complex(cosine_, where(imaginary.equals(0), 0, sine_))


def exponential_minus_one(operand: Complex) -> Complex:
    """e^z - 1, accurate near 0, finite where only e^real overflows; real for a zero imaginary part."""
    real, imaginary = operand.real, operand.imaginary
    half_sine = trigonometry.sine(imaginary * 0.5)
    growth = exponentials.exponential_minus_one(real)
    cosine_ = fma(growth, trigonometry.cosine(imaginary), half_sine * half_sine * -2)
    whole = exponential(operand)
    return Complex(where(growth.is_infinite, whole.real, cosine_), whole.imaginary)


def log(operand: Complex) -> Complex:
    angle = inverse_trigonometry.arc_tangent_2(operand.imaginary, operand.real)
    return _undefined(operand.has_nan, Complex(_log_of_size(operand), angle))


def _log_of_size(operand: Complex) -> Expression:
    """log|z|, accurate also if |z| is near 1 because a part is near 1."""
    box = _box(operand)
    return fma(logarithm.log_plus_one(box.ratio * box.ratio), 0.5, logarithm.log(box.size))


def log_plus_one(operand: Complex) -> Complex:
    """log(1 + z), accurate near 0."""
    real, imaginary = operand.real, operand.imaginary
    near = (abs(real) < 0.5) & (abs(imaginary) < 0.5)
    excess = where(near, fma(imaginary, imaginary, real * (real + 2)), 0)
    shifted = Complex(real + 1, imaginary)
    size = where(near, logarithm.log_plus_one(excess) * 0.5, _log_of_size(shifted))
    angle = inverse_trigonometry.arc_tangent_2(imaginary, shifted.real)
    return _undefined(operand.has_nan, Complex(size, angle))


def logistic(operand: Complex) -> Complex:
    """1 / (1 + e^-z); near the imaginary axis, where the sum cancels next to the poles, (1 + tanh(z / 2)) / 2."""
    decay = exponential(negate(operand))
    one = operand.real.like(1.0)
    quotient = divide(Complex(one, one.like(0.0)), Complex(decay.real + 1, decay.imaginary))
    tanh = hyperbolic_tangent(operand.scaled(0.5))
    near = Complex(fma(tanh.real, 0.5, 0.5), tanh.imaginary * 0.5)
    return choose((abs(operand.real) < 1) & operand.imaginary.is_finite, near, quotient)


# -- roots and powers


def signed_root(operand: Complex) -> Complex:
    """The root in the right half plane; on the negative axis, the sign of the zero imaginary part selects the root.

    NaN for infinities. Half of |z| + |real| is computed in units of the larger part, so that it cannot overflow.
    """
    box = _box(operand)
    longest = square_root((abs(operand.real) / box.size + box.stretch) * 0.5) * square_root(box.size)
    other = abs(operand.imaginary) / longest * 0.5
    left = operand.real < 0
    result = Complex(where(left, other, longest), copysign(where(left, longest, other), operand.imaginary))
    return choose(operand.is_zero, Complex(box.size, operand.imaginary), result)


def root(operand: Complex) -> Complex:
    """The square root in the right half plane; on the negative axis the upper one, for both signs of the zero."""
    operand = _above_cut(operand)
    real, imaginary = operand.real, operand.imaginary
    result = signed_root(operand)
    zero = copysign(real.like(0.0), imaginary)
    on_axis = Complex(where(real > 0, real, 0), where(real > 0, zero, copysign(_INFINITY, imaginary)))
    result = choose(real.is_infinite, on_axis, result)
    result = choose(imaginary.is_infinite, Complex(abs(imaginary), imaginary), result)
    return _undefined(operand.has_nan, result)


def _above_cut(operand: Complex) -> Complex:
    """Replaces an imaginary part of -0 by +0, for functions that are continuous with the cut from above."""
    return Complex(operand.real, where(operand.imaginary.equals(0), 0, operand.imaginary))


def reciprocal_root(operand: Complex) -> Complex:
    """1 / sqrt(z); inf + i nan at 0, and 0 if a part is infinite. The sign of a zero selects the side of the cut."""
    box, root_ = _box(operand), signed_root(operand)
    size = square_root(box.size) * square_root(box.stretch)
    result = _undefined(operand.has_nan, Complex(root_.real / size / size, -root_.imaginary / size / size))
    vanishing = Complex(copysign(0.0, operand.real), copysign(0.0, -operand.imaginary))
    result = choose(operand.is_infinite, vanishing, result)
    return choose(operand.is_zero, (_INFINITY, _NAN), result)


@in_double
def to_power(base: Complex, exponent: Complex) -> Complex:
    """base^exponent in polar form; z^0 = 1^z = 1, 0^c = 0 for c > 0, and inf^c is inf or 0 for real c.

    The error of the polar form grows with the exponent, so single precision is computed in double precision.
    """
    c, d = exponent.real, exponent.imaginary
    size = absolute(base)
    angle = inverse_trigonometry.arc_tangent_2(base.imaginary, base.real)
    scale = power.power_times_exponential(size, c, -(d * angle))
    turn = fma(c, angle, d * logarithm.log(size))
    result = Complex(scale * trigonometry.cosine(turn), scale * trigonometry.sine(turn))
    is_real = d.equals(0)
    at_infinity = is_real & base.real.equals(_INFINITY) & base.imaginary.equals(0)
    result = choose((is_real & (c > 0)) & size.equals(0), (0.0, 0.0), result)
    result = choose(at_infinity & (c > 0), (_INFINITY, 0.0), result)
    result = choose(at_infinity & (c < 0), (0.0, 0.0), result)
    one = exponent.is_zero | (base.real.equals(1) & base.imaginary.equals(0))
    return choose(one, (1.0, 0.0), result)


# -- trigonometry

# Above each of these numbers, once more the first number is subtracted from the argument of hyperbolic functions, and
# its exponential, the second number, multiplies the product with the other factor.
_PART: Final = {SINGLE: (50.0, 5.184705528587072e21), DOUBLE: (380.0, 1.0762251165510499e165)}
_STEEP: Final = {SINGLE: (64.0, 120.0), DOUBLE: (600.0, 1060.0)}


@dataclass(frozen=True, slots=True)
class Growth:
    """cosh(y) and sinh(y) as products with two factors, because they may overflow where a product with them does
    not."""

    cosh: Expression
    sinh: Expression
    factor: Expression
    other_factor: Expression

    def times_cosh(self, x: Expression) -> Expression:
        return x * self.cosh * self.factor * self.other_factor

    def times_sinh(self, x: Expression) -> Expression:
        return x * self.sinh * self.factor * self.other_factor


def growth_of(y: Expression) -> Growth:
    part, factor = _PART[y.precision]
    size = abs(y)
    steep, steeper = (size > limit for limit in _STEEP[y.precision])
    reduced = size - where(steep, y.like(part), 0) - where(steeper, y.like(part), 0)
    reduced = copysign(reduced, y)
    factors = (where(condition, y.like(factor), 1) for condition in (steep, steeper))
    return Growth(hyperbolic.cosh(reduced), hyperbolic.sinh(reduced), *factors)


def cosine(operand: Complex) -> Complex:
    """cos z; real for a zero real part, even where the hyperbolic functions overflow, but not at infinity."""
    real, imaginary = operand.real, operand.imaginary
    growth = growth_of(imaginary)
    sine_ = growth.times_sinh(trigonometry.sine(real))
    sine_ = where(real.equals(0) & imaginary.is_finite, copysign(0.0, real) * copysign(1.0, imaginary), sine_)
    return Complex(growth.times_cosh(trigonometry.cosine(real)), -sine_)


def sine(operand: Complex) -> Complex:
    """sin z; imaginary for a zero real part, even where the hyperbolic functions overflow, but not at infinity."""
    real, imaginary = operand.real, operand.imaginary
    growth = growth_of(imaginary)
    sine_ = growth.times_cosh(trigonometry.sine(real))
    sine_ = where(real.equals(0) & imaginary.is_finite, copysign(0.0, real), sine_)
    return Complex(sine_, growth.times_sinh(trigonometry.cosine(real)))


def hyperbolic_tangent(operand: Complex) -> Complex:
    """tanh z by Kahan's formula; unspecified if the real part is finite and the imaginary part is not."""
    operand = _above_cut(operand)
    real, imaginary = operand.real, operand.imaginary
    steep = abs(real) > (12.0 if real.is_single else 23.0)
    tan = trigonometry.tangent(imaginary)
    beta = fma(tan, tan, 1)
    sinh = hyperbolic.sinh(where(steep, 1, real))
    scale = fma(beta * sinh, sinh, 1)
    near = Complex(beta * square_root(fma(sinh, sinh, 1)) * sinh / scale, tan / scale)
    decay = exponentials.exponential(abs(real) * -2)
    turn = trigonometry.sine(imaginary) * trigonometry.cosine(imaginary) * 4 * decay
    infinite = real.is_infinite
    far = Complex(copysign(1.0, real), where(infinite & ~imaginary.is_finite, 0, turn))
    result = choose(steep, far, near)
    result = choose(real.is_nan & imaginary.equals(0), Complex(real, imaginary), result)
    return _undefined(~imaginary.is_finite & ~infinite, result)


def tangent(operand: Complex) -> Complex:
    """tan z = -i tanh(i z)"""
    rotated = hyperbolic_tangent(Complex(-operand.imaginary, operand.real))
    return Complex(rotated.imaginary, -rotated.real)


@in_double
def arc_tangent_2(y: Complex, x: Complex) -> Complex:
    """-i log((x + i y) / sqrt(x^2 + y^2)), in double precision since the quotient may be near 1."""
    rotated = Complex(x.real - y.imaginary, x.imaginary + y.real)
    direction = log(divide(rotated, root(add(multiply(y, y), multiply(x, x)))))
    return Complex(direction.imaginary, -direction.real)


# -- the interface of the package

ComplexFormula = Callable[..., Complex | Expression]
Parts = tuple[Value, Value]
ComplexFunction = Callable[..., tuple[Value, ...]]
"""Takes a builder and numbers as (real, imaginary) pairs; returns both parts, or one value if the result is real."""


def as_function(formula: ComplexFormula) -> ComplexFunction:
    """Wraps a formula on expressions as a function of a builder and values."""

    def apply(builder: Builder, *operands: Parts) -> tuple[Value, ...]:
        numbers = [Complex(*(Expression(builder, part) for part in operand)) for operand in operands]
        result = formula(*numbers)
        return (result.value,) if isinstance(result, Expression) else (result.real.value, result.imaginary.value)

    return apply
