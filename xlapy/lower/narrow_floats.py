"""Floats of 8 bits and less: from the bits in memory to F32 (F8E8M0FNU: F64), and back, rounded to nearest even.

Does not depend on operations or memory.
Source: the formats as ml_dtypes has them, which are those of XLA.
"""

from __future__ import annotations

from typing import Final

from xlapy.base.element_types import F8E8M0FNU, PrimitiveType
from xlapy.base.float_formats import SINGLE, FloatFormat
from xlapy.loops import F32, F64, I8, I32, I64, Builder, Value

_BIAS: Final = SINGLE.bias
_MANTISSA: Final = SINGLE.mantissa_bits


def is_narrow(t: PrimitiveType) -> bool:
    """Whether elements of the type are floats of at most 8 bits, which this module decodes and encodes."""
    return t.is_floating and t.bits <= 8


def decode(builder: Builder, stored: Value, t: PrimitiveType) -> Value:
    """Converts the bits of an element, an I8, to a number in a register."""
    code = builder.convert("zext", stored, I32)
    if t is F8E8M0FNU:
        return _decode_exponent(builder, code)
    f = t.float_format
    magnitude = builder.binary("and", code, _int(builder, f.magnitude_mask))
    moved = builder.binary("shl", magnitude, _int(builder, _MANTISSA - f.mantissa_bits))
    normal = builder.bitcast(builder.add(moved, _int(builder, (_BIAS - f.bias) << _MANTISSA)), F32)
    smallest = builder.constant(F32, f.smallest_subnormal)
    small = builder.mul(builder.convert("sitofp", magnitude, F32), smallest)
    is_small = builder.compare("ult", magnitude, _int(builder, 1 << f.mantissa_bits))
    value = builder.select(is_small, small, normal)
    value = _special(builder, f, code, magnitude, value)
    negative = builder.compare("ne", builder.binary("and", code, _int(builder, f.sign_mask)), _int(builder, 0))
    return builder.select(negative, builder.unary("neg", value), value)


def _special(builder: Builder, f: FloatFormat, code: Value, magnitude: Value, value: Value) -> Value:
    """Infinities and NaN."""
    if not f.has_nan:
        return value
    nan, infinity = builder.constant(F32, float("nan")), builder.constant(F32, float("inf"))
    if f.nan_code == f.sign_mask:  # the one NaN has the bits of -0
        return builder.select(builder.compare("eq", code, _int(builder, f.sign_mask)), nan, value)
    beyond = builder.compare("ugt", magnitude, _int(builder, f.largest_code))
    is_infinite = builder.compare("eq", magnitude, _int(builder, f.overflow_code))
    return builder.select(beyond, builder.select(is_infinite, infinity, nan) if f.has_infinity else nan, value)


def encode(builder: Builder, value: Value, t: PrimitiveType) -> Value:
    """Rounds a number in a register to the bits of an element, an I8."""
    if t is F8E8M0FNU:
        return builder.convert("trunc", _encode_exponent(builder, value), I8)
    f = t.float_format
    bits = builder.bitcast(value, I32)
    size = builder.unary("abs", value)
    is_small = builder.compare("olt", size, builder.constant(F32, f.smallest_normal))
    magnitude = builder.select(is_small, _small_code(builder, f, size), _normal_code(builder, f, size))
    beyond = builder.compare("ugt", magnitude, _int(builder, f.largest_code))
    magnitude = builder.select(beyond, _int(builder, f.overflow_code), magnitude)
    sign = builder.binary("and", builder.binary("lshr", bits, _int(builder, 31)), _int(builder, 1))
    sign = builder.mul(sign, _int(builder, f.sign_mask))
    code = builder.binary("or", magnitude, sign)
    if not f.has_negative_zero:
        code = builder.select(builder.compare("eq", magnitude, _int(builder, 0)), magnitude, code)
    is_nan = builder.compare("uno", value, value)
    if not f.is_signed:
        is_negative = builder.compare("slt", bits, _int(builder, 0))  # also for denormals, which may count as 0
        is_not_zero = builder.compare("ne", bits, _int(builder, -(1 << 31)))
        is_nan = builder.binary("or", is_nan, builder.binary("and", is_negative, is_not_zero))
    nan = builder.binary("xor", sign, _int(builder, f.sign_mask if f.nan_code is None else f.nan_code))
    if f.nan_code == f.sign_mask:
        nan = _int(builder, f.sign_mask)
    return builder.convert("trunc", builder.select(is_nan, nan, code), I8)


def _normal_code(builder: Builder, f: FloatFormat, size: Value) -> Value:
    """The code of a normal or larger number: the bits of the F32, with the lowest ones rounded off."""
    bits, dropped = builder.bitcast(size, I32), _MANTISSA - f.mantissa_bits
    odd = builder.binary("and", builder.binary("lshr", bits, _int(builder, dropped)), _int(builder, 1))
    raised = builder.add(bits, builder.add(odd, _int(builder, (1 << (dropped - 1)) - 1)))
    return builder.sub(
        builder.binary("lshr", raised, _int(builder, dropped)), _int(builder, (_BIAS - f.bias) << f.mantissa_bits)
    )


def _small_code(builder: Builder, f: FloatFormat, size: Value) -> Value:
    """The code of a denormal number: its multiple of the smallest number."""
    scaled = builder.mul(size, builder.constant(F32, 1.0 / f.smallest_subnormal))
    return builder.convert("fptosi", builder.unary("rint", scaled), I32)


def _decode_exponent(builder: Builder, code: Value) -> Value:
    """2 ** (code - 127) as an F64, in which the smallest number is normal; 255 is NaN."""
    lifted = builder.add(builder.convert("zext", code, I64), builder.constant(I64, _LIFT))
    number = builder.bitcast(builder.binary("shl", lifted, builder.constant(I64, 52)), F64)
    return builder.select(builder.compare("eq", code, _int(builder, 255)), builder.constant(F64, float("nan")), number)


def _encode_exponent(builder: Builder, value: Value) -> Value:
    """The exponent of a positive F64 rounded to a power of two, ties up; NaN if it is not positive as an F32."""
    bits = builder.bitcast(value, I64)
    raised = builder.add(bits, builder.constant(I64, 1 << 51))
    code = builder.sub(builder.binary("lshr", raised, builder.constant(I64, 52)), builder.constant(I64, _LIFT))
    code = builder.binary("smax", code, builder.zero(I64))
    is_number = builder.binary(
        "and",
        builder.compare("sgt", bits, builder.constant(I64, (1023 - 150) << 52)),
        builder.compare("slt", code, builder.constant(I64, 255)),
    )
    return builder.select(is_number, code, builder.constant(I64, 255))


def raise_to_smallest_positive(builder: Builder, value: Value) -> Value:
    """Raises a positive F64 to at least 2^-149 before its conversion to F8E8M0FNU: only 0 may become NaN."""
    least = builder.constant(F64, 2.0**-149)
    is_small = builder.binary(
        "and", builder.compare("ogt", value, builder.zero(F64)), builder.compare("olt", value, least)
    )
    return builder.select(is_small, least, value)


def rounded_to_odd(builder: Builder, value: Value) -> Value:
    """Rounds an F64 to odd in F32, so that rounding again to a narrower type equals a single rounding."""
    nearest = builder.convert("fptrunc", value, F32)
    again = builder.convert("fpext", nearest, F64)
    bits = builder.bitcast(nearest, I32)
    beyond = builder.compare("ogt", builder.unary("abs", again), builder.unary("abs", value))
    before = builder.select(beyond, builder.sub(bits, _int(builder, 1)), bits)
    odd = builder.binary("or", before, _int(builder, 1))
    return builder.bitcast(builder.select(builder.compare("one", again, value), odd, bits), F32)


_LIFT: Final = 1023 - 127


def _int(builder: Builder, value: int) -> Value:
    return builder.constant(I32, value)
