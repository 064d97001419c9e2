"""Floats of 8 bits and less: from the bits in memory to F32 (F8E8M0FNU: F64), and back, rounded to nearest even.

Owns: the formats. Must not know: operations, memory.
Source: the formats as ml_dtypes has them, which are those of XLA.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from xlapy.base.element_types import F8E8M0FNU, PrimitiveType
from xlapy.loops import F32, F64, I8, I32, I64, Builder, Value


@dataclass(frozen=True, slots=True)
class Format:
    """A sign bit, `exponent` and `mantissa` bits. top: the greatest code of a number. over: the code beyond it.

    nan: the code of NaN; None where NaN becomes a zero of the other sign. signed_zero: whether there is a -0.
    """

    exponent: int
    mantissa: int
    bias: int
    top: int
    over: int
    nan: int | None
    signed_zero: bool = True

    @property
    def sign(self) -> int:
        return 1 << (self.exponent + self.mantissa)


FORMATS: Final = {
    "F8E5M2": Format(5, 2, 15, 0x7B, 0x7C, 0x7E),
    "F8E4M3": Format(4, 3, 7, 0x77, 0x78, 0x7C),
    "F8E3M4": Format(3, 4, 3, 0x6F, 0x70, 0x78),
    "F8E4M3FN": Format(4, 3, 7, 0x7E, 0x7F, 0x7F),
    "F8E4M3FNUZ": Format(4, 3, 8, 0x7F, 0x80, 0x80, signed_zero=False),
    "F8E4M3B11FNUZ": Format(4, 3, 11, 0x7F, 0x80, 0x80, signed_zero=False),
    "F8E5M2FNUZ": Format(5, 2, 16, 0x7F, 0x80, 0x80, signed_zero=False),
    "F6E2M3FN": Format(2, 3, 1, 0x1F, 0x1F, None),
    "F6E3M2FN": Format(3, 2, 3, 0x1F, 0x1F, None),
    "F4E2M1FN": Format(2, 1, 1, 0x07, 0x07, None),
}
"""But F8E8M0FNU, which has neither sign nor mantissa."""


def is_narrow(t: PrimitiveType) -> bool:
    return t.name in FORMATS or t is F8E8M0FNU


def decode(builder: Builder, stored: Value, t: PrimitiveType) -> Value:
    """The bits of an element, an I8, as a number in a register."""
    code = builder.convert("zext", stored, I32)
    if t is F8E8M0FNU:
        return _decode_exponent(builder, code)
    f = FORMATS[t.name]
    magnitude = builder.binary("and", code, _int(builder, f.sign - 1))
    moved = builder.binary("shl", magnitude, _int(builder, 23 - f.mantissa))
    normal = builder.bitcast(builder.add(moved, _int(builder, (127 - f.bias) << 23)), F32)
    smallest = builder.constant(F32, 2.0 ** (1 - f.bias - f.mantissa))
    small = builder.mul(builder.convert("sitofp", magnitude, F32), smallest)
    is_small = builder.compare("ult", magnitude, _int(builder, 1 << f.mantissa))
    value = builder.select(is_small, small, normal)
    value = _special(builder, f, code, magnitude, value)
    negative = builder.compare("ne", builder.binary("and", code, _int(builder, f.sign)), _int(builder, 0))
    return builder.select(negative, builder.unary("neg", value), value)


def _special(builder: Builder, f: Format, code: Value, magnitude: Value, value: Value) -> Value:
    """Infinities and NaN."""
    if f.nan is None:
        return value
    nan, infinity = builder.constant(F32, float("nan")), builder.constant(F32, float("inf"))
    if f.over == f.sign:  # the one NaN has the bits of -0
        return builder.select(builder.compare("eq", code, _int(builder, f.sign)), nan, value)
    beyond = builder.compare("ugt", magnitude, _int(builder, f.top))
    is_infinite = builder.compare("eq", magnitude, _int(builder, f.over))
    return builder.select(beyond, builder.select(is_infinite, infinity, nan) if f.over != f.nan else nan, value)


def encode(builder: Builder, value: Value, t: PrimitiveType) -> Value:
    """A number in a register rounded to the bits of an element, an I8."""
    if t is F8E8M0FNU:
        return builder.convert("trunc", _encode_exponent(builder, value), I8)
    f = FORMATS[t.name]
    bits = builder.bitcast(value, I32)
    size = builder.unary("abs", value)
    is_small = builder.compare("olt", size, builder.constant(F32, 2.0 ** (1 - f.bias)))
    magnitude = builder.select(is_small, _small_code(builder, f, size), _normal_code(builder, f, size))
    beyond = builder.compare("ugt", magnitude, _int(builder, f.top))
    magnitude = builder.select(beyond, _int(builder, f.over), magnitude)
    sign = builder.binary("and", builder.binary("lshr", bits, _int(builder, 31)), _int(builder, 1))
    sign = builder.mul(sign, _int(builder, f.sign))
    code = builder.binary("or", magnitude, sign)
    if not f.signed_zero:
        code = builder.select(builder.compare("eq", magnitude, _int(builder, 0)), magnitude, code)
    is_nan = builder.compare("uno", value, value)
    nan = builder.binary("xor", sign, _int(builder, f.sign if f.nan is None else f.nan))
    if f.over == f.sign:
        nan = _int(builder, f.sign)
    return builder.convert("trunc", builder.select(is_nan, nan, code), I8)


def _normal_code(builder: Builder, f: Format, size: Value) -> Value:
    """The code of a number in the normal range or above it: the F32's bits with the last places rounded away."""
    bits, dropped = builder.bitcast(size, I32), 23 - f.mantissa
    odd = builder.binary("and", builder.binary("lshr", bits, _int(builder, dropped)), _int(builder, 1))
    raised = builder.add(bits, builder.add(odd, _int(builder, (1 << (dropped - 1)) - 1)))
    return builder.sub(
        builder.binary("lshr", raised, _int(builder, dropped)), _int(builder, (127 - f.bias) << f.mantissa)
    )


def _small_code(builder: Builder, f: Format, size: Value) -> Value:
    """The code of a number below the normal range: how many times the smallest number it is."""
    scaled = builder.mul(size, builder.constant(F32, 2.0 ** (f.bias - 1 + f.mantissa)))
    return builder.convert("fptosi", builder.unary("rint", scaled), I32)


def _decode_exponent(builder: Builder, code: Value) -> Value:
    """2 ** (code - 127) as an F64, in which the smallest is no denormal; 255 is NaN."""
    lifted = builder.add(builder.convert("zext", code, I64), builder.constant(I64, _LIFT))
    number = builder.bitcast(builder.binary("shl", lifted, builder.constant(I64, 52)), F64)
    return builder.select(builder.compare("eq", code, _int(builder, 255)), builder.constant(F64, float("nan")), number)


def _encode_exponent(builder: Builder, value: Value) -> Value:
    """The exponent of a positive F64 rounded to a power of two, ties up; NaN for others, and for what is 0 as F32."""
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


def kept_positive(builder: Builder, value: Value) -> Value:
    """An F64 on its way to an F8E8M0FNU: what is positive stays so, however small; only 0 becomes NaN."""
    least = builder.constant(F64, 2.0**-149)
    is_small = builder.binary(
        "and", builder.compare("ogt", value, builder.zero(F64)), builder.compare("olt", value, least)
    )
    return builder.select(is_small, least, value)


def rounded_to_odd(builder: Builder, value: Value) -> Value:
    """An F64 as one of the two F32 beside it, that whose last bit is 1: rounded again it is as if rounded once."""
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
