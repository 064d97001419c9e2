"""Definitions of the elementwise operations: what one element of the result is.

A function takes the element type of the operands and one number of each operand, and returns a number; `element` gives
it the type of the result (`elements.py`): integers wrap at their width, and floating-point results are rounded once.
Numbers of floating-point types are computed in f64, which is exact enough that the sum, difference, product, quotient
and root of two narrower numbers is correctly rounded. Functions such as sine are NumPy's in f64; a platform may differ
from them by a few units in the last place.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PRED, Array, PrimitiveType
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonType
from xlapy.opcodes.registry import OpDef
from xlapy.reference import complex_functions as complexes
from xlapy.reference.core import defines
from xlapy.reference.elements import array_of_shape, bits_of, element, number, type_of

Scalar = Callable[..., Any]
"""`(element type of the operands, one number per operand) -> number`"""


def at(operand: Array, index: tuple[int, ...]) -> Any:
    """Returns the element at an index; a scalar has the same element at every index."""
    return operand[index] if operand.ndim else operand[()]


def elementwise(*ops: OpDef) -> Callable[[Scalar], Scalar]:
    """Registers a function of numbers as the definition of ops."""

    def register(function: Scalar) -> Scalar:
        def definition(instruction: Instruction, *operands: Array) -> Array:
            source, target = type_of(operands[0]), instruction.shape.element_type

            def element_at(index: tuple[int, ...]) -> Any:
                return element(function(source, *(number(at(operand, index)) for operand in operands)), target)

            return array_of_shape(instruction.shape, element_at)

        defines(*ops, shown=function)(definition)
        return function

    return register


# -- arithmetic


@elementwise(opcodes.ADD)
def add(t: PrimitiveType, a: Any, b: Any) -> Any:
    return a or b if t is PRED else a + b


@elementwise(opcodes.SUBTRACT)
def subtract(t: PrimitiveType, a: Any, b: Any) -> Any:
    return a - b


@elementwise(opcodes.MULTIPLY)
def multiply(t: PrimitiveType, a: Any, b: Any) -> Any:
    return a and b if t is PRED else a * b


@elementwise(opcodes.DIVIDE)
def divide(t: PrimitiveType, a: Any, b: Any) -> Any:
    """Integer quotients are truncated toward zero; a / 0 has all bits set, and MIN / -1 wraps to MIN."""
    if t.is_complex:
        return complexes.divide(a, b)
    if t.is_floating:
        return a / b
    if b == 0:
        return -1
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


@elementwise(opcodes.REMAINDER)
def remainder(t: PrimitiveType, a: Any, b: Any) -> Any:
    """The remainder of the truncated quotient, with the sign of a; for integers, a rem 0 is a."""
    if t.is_floating:
        return np.fmod(a, b)
    return a if b == 0 else a - divide(t, a, b) * b


@elementwise(opcodes.POWER)
def power(t: PrimitiveType, a: Any, b: Any) -> Any:
    """For integers, 1 divided by the power if the exponent is negative, truncated; 0 to such a power is 0."""
    if t.is_complex:
        return complexes.power(a, b)
    if t.is_floating:
        return np.power(a, b)
    if b >= 0:
        return pow(a, b, 1 << t.bits)
    if a not in (1, -1):
        return 0
    return a if b % 2 else 1


@elementwise(opcodes.MULHI)
def mulhi(t: PrimitiveType, a: int, b: int) -> int:
    """The upper half of the product of twice the width."""
    return (a * b) >> t.bits


@elementwise(opcodes.NEGATE)
def negate(t: PrimitiveType, a: Any) -> Any:
    return -a


@elementwise(opcodes.ABS)
def abs_(t: PrimitiveType, a: Any) -> Any:
    """The smallest integer of a type is its own absolute value, because it wraps."""
    return complexes.absolute(a) if t.is_complex else abs(a)


@elementwise(opcodes.SIGN)
def sign(t: PrimitiveType, a: Any) -> Any:
    """-1, 0 or 1; NaN and zeros stay what they are."""
    if t.is_complex:
        return complexes.sign(a)
    if a != a or a == 0:
        return a
    return 1 if a > 0 else -1


@elementwise(opcodes.MAXIMUM)
def maximum(t: PrimitiveType, a: Any, b: Any) -> Any:
    """NaN if either is NaN; +0 is larger than -0."""
    if a != a or b != b:
        return a if a != a else b
    if a == b:
        return b if t.is_floating and np.signbit(a) else a
    return a if a > b else b


@elementwise(opcodes.MINIMUM)
def minimum(t: PrimitiveType, a: Any, b: Any) -> Any:
    """NaN if either is NaN; -0 is smaller than +0."""
    if a != a or b != b:
        return a if a != a else b
    if a == b:
        return a if t.is_floating and np.signbit(a) else b
    return a if a < b else b


@elementwise(opcodes.CLAMP)
def clamp(t: PrimitiveType, low: Any, a: Any, high: Any) -> Any:
    """min(max(low, a), high): high if low > high, and NaN if one of the three is NaN."""
    return minimum(t, high, maximum(t, low, a))


# -- bits


def _unsigned(t: PrimitiveType, a: int) -> int:
    """Reads the bits of an integer as an unsigned integer."""
    return a % (1 << t.bits)


@elementwise(opcodes.AND)
def and_(t: PrimitiveType, a: Any, b: Any) -> Any:
    return a & b


@elementwise(opcodes.OR)
def or_(t: PrimitiveType, a: Any, b: Any) -> Any:
    return a | b


@elementwise(opcodes.XOR)
def xor(t: PrimitiveType, a: Any, b: Any) -> Any:
    return a ^ b


@elementwise(opcodes.NOT)
def not_(t: PrimitiveType, a: Any) -> Any:
    return not a if t is PRED else ~a


@elementwise(opcodes.SHIFT_LEFT)
def shift_left(t: PrimitiveType, a: int, b: int) -> int:
    """0 if the amount, read as unsigned, is the width or more."""
    amount = _unsigned(t, b)
    return a << amount if amount < t.bits else 0


@elementwise(opcodes.SHIFT_RIGHT_LOGICAL)
def shift_right_logical(t: PrimitiveType, a: int, b: int) -> int:
    """Zeros move in; 0 if the amount, read as unsigned, is the width or more."""
    return _unsigned(t, a) >> _unsigned(t, b)


@elementwise(opcodes.SHIFT_RIGHT_ARITHMETIC)
def shift_right_arithmetic(t: PrimitiveType, a: int, b: int) -> int:
    """Copies of the highest bit move in, for unsigned types too, at most as many as the type has bits."""
    bits = _unsigned(t, a)
    signed = bits - (1 << t.bits) if bits >> (t.bits - 1) else bits
    return signed >> min(_unsigned(t, b), t.bits)


@elementwise(opcodes.POPCNT)
def popcnt(t: PrimitiveType, a: int) -> int:
    """The number of bits that are set."""
    return _unsigned(t, a).bit_count()


@elementwise(opcodes.COUNT_LEADING_ZEROS)
def count_leading_zeros(t: PrimitiveType, a: int) -> int:
    """The number of zeros above the highest bit that is set."""
    return t.bits - _unsigned(t, a).bit_length()


# -- rounding and classification of floating-point numbers


@elementwise(opcodes.CEIL)
def ceil(t: PrimitiveType, a: Any) -> Any:
    return np.ceil(a)


@elementwise(opcodes.FLOOR)
def floor(t: PrimitiveType, a: Any) -> Any:
    return np.floor(a)


@elementwise(opcodes.ROUND_NEAREST_AFZ)
def round_nearest_afz(t: PrimitiveType, a: Any) -> Any:
    """The nearest integer; halves go away from zero."""
    whole = np.trunc(a)
    return np.copysign(abs(whole) + (1 if abs(a - whole) >= 0.5 else 0), a)


@elementwise(opcodes.ROUND_NEAREST_EVEN)
def round_nearest_even(t: PrimitiveType, a: Any) -> Any:
    """The nearest integer; halves go to the even one."""
    return np.rint(a)


@elementwise(opcodes.IS_FINITE)
def is_finite(t: PrimitiveType, a: Any) -> bool:
    return math.isfinite(a)


# -- functions


@elementwise(opcodes.SQRT)
def sqrt(t: PrimitiveType, a: Any) -> Any:
    return complexes.square_root(a) if t.is_complex else np.sqrt(a)


@elementwise(opcodes.RSQRT)
def rsqrt(t: PrimitiveType, a: Any) -> Any:
    return complexes.reciprocal_square_root(a) if t.is_complex else 1 / np.sqrt(a)


@elementwise(opcodes.CBRT)
def cbrt(t: PrimitiveType, a: Any) -> Any:
    return np.cbrt(a)


@elementwise(opcodes.EXPONENTIAL)
def exponential(t: PrimitiveType, a: Any) -> Any:
    return complexes.exponential(a) if t.is_complex else np.exp(a)


@elementwise(opcodes.EXPONENTIAL_MINUS_ONE)
def exponential_minus_one(t: PrimitiveType, a: Any) -> Any:
    """e^a - 1, accurate near 0."""
    return complexes.exponential_minus_one(a) if t.is_complex else np.expm1(a)


@elementwise(opcodes.LOG)
def log(t: PrimitiveType, a: Any) -> Any:
    return complexes.logarithm(a) if t.is_complex else np.log(a)


@elementwise(opcodes.LOG_PLUS_ONE)
def log_plus_one(t: PrimitiveType, a: Any) -> Any:
    """log(1 + a), accurate near 0."""
    return complexes.logarithm_plus_one(a) if t.is_complex else np.log1p(a)


@elementwise(opcodes.LOGISTIC)
def logistic(t: PrimitiveType, a: Any) -> Any:
    """1 / (1 + e^-a), written with e^-|a|, which does not overflow."""
    if t.is_complex:
        return complexes.logistic(a)
    decay = np.exp(-abs(a))
    return (decay if a < 0 else 1) / (1 + decay)


@elementwise(opcodes.ERF)
def erf(t: PrimitiveType, a: Any) -> Any:
    """The error function: 2 / sqrt(pi) times the integral of e^(-x^2) from 0 to a."""
    from scipy import special

    return special.erf(a)


@elementwise(opcodes.SINE)
def sine(t: PrimitiveType, a: Any) -> Any:
    return complexes.sine(a) if t.is_complex else np.sin(a)


@elementwise(opcodes.COSINE)
def cosine(t: PrimitiveType, a: Any) -> Any:
    return complexes.cosine(a) if t.is_complex else np.cos(a)


@elementwise(opcodes.TAN)
def tan(t: PrimitiveType, a: Any) -> Any:
    return complexes.tangent(a) if t.is_complex else np.tan(a)


@elementwise(opcodes.ASIN)
def asin(t: PrimitiveType, a: Any) -> Any:
    return np.arcsin(a)


@elementwise(opcodes.ACOS)
def acos(t: PrimitiveType, a: Any) -> Any:
    return np.arccos(a)


@elementwise(opcodes.ATAN)
def atan(t: PrimitiveType, a: Any) -> Any:
    return np.arctan(a)


@elementwise(opcodes.ATAN2)
def atan2(t: PrimitiveType, y: Any, x: Any) -> Any:
    """The angle of the point (x, y); for complex numbers, -i log((x + i y) / sqrt(x^2 + y^2))."""
    return complexes.arc_tangent_2(y, x) if t.is_complex else np.arctan2(y, x)


@elementwise(opcodes.SINH)
def sinh(t: PrimitiveType, a: Any) -> Any:
    return np.sinh(a)


@elementwise(opcodes.COSH)
def cosh(t: PrimitiveType, a: Any) -> Any:
    return np.cosh(a)


@elementwise(opcodes.TANH)
def tanh(t: PrimitiveType, a: Any) -> Any:
    return complexes.hyperbolic_tangent(a) if t.is_complex else np.tanh(a)


@elementwise(opcodes.ASINH)
def asinh(t: PrimitiveType, a: Any) -> Any:
    return np.arcsinh(a)


@elementwise(opcodes.ACOSH)
def acosh(t: PrimitiveType, a: Any) -> Any:
    return np.arccosh(a)


@elementwise(opcodes.ATANH)
def atanh(t: PrimitiveType, a: Any) -> Any:
    return np.arctanh(a)


# -- complex numbers


@elementwise(opcodes.COMPLEX)
def complex_(t: PrimitiveType, real: Any, imaginary: Any) -> Any:
    return complexes.compose(real, imaginary)


@elementwise(opcodes.REAL)
def real(t: PrimitiveType, a: Any) -> Any:
    """The real part; a real number is its own."""
    return a.real


@elementwise(opcodes.IMAG)
def imag(t: PrimitiveType, a: Any) -> Any:
    """The imaginary part; 0 for a real number."""
    return a.imag if t.is_complex else 0.0


# -- comparison and selection


@defines(opcodes.COMPARE)
def compare(instruction: Instruction, lhs: Array, rhs: Array) -> Array:
    """Compares numbers (false is less than true), or the positions of floats in the total order."""
    attributes = instruction.attributes_as(CompareAttributes)
    key = total_order if attributes.type is ComparisonType.TOTALORDER else number
    holds = getattr(operator, attributes.direction.value.lower())
    return array_of_shape(instruction.shape, lambda index: holds(key(lhs[index]), key(rhs[index])))


def total_order(x: Any) -> int:
    """Returns the position of a float in the order -NaN < -inf < ... < -0 < +0 < ... < inf < NaN.

    The bits of a float are a sign and a magnitude. The only NaN of a type without -0 is the least number, as in XLA.
    """
    form, bits = type_of(x).float_format, bits_of(x)
    magnitude = bits & form.magnitude_mask
    if form.is_signed and not form.has_negative_zero and bits == form.sign_mask:
        return -(1 << form.bits)
    return -magnitude - 1 if bits & form.sign_mask else magnitude


@defines(opcodes.SELECT)
def select(instruction: Instruction, predicate: Array, on_true: Array, on_false: Array) -> Array:
    """on_true where the predicate is true, else on_false; the predicate may be a scalar."""
    return array_of_shape(instruction.shape, lambda index: on_true[index] if at(predicate, index) else on_false[index])
