"""Integer arithmetic as HLO defines it: gives a value to what is undefined in machine arithmetic.

Responsible for division by zero and overflow, shifts by the width or more, powers, and rounding of floats by their
bits. Does not depend on indices or memory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from xlapy import opcodes
from xlapy.base.element_types import PrimitiveType
from xlapy.loops import I1, Builder, Value
from xlapy.loops.types import integer_type
from xlapy.opcodes.elementwise import reduce_precision_format
from xlapy.opcodes.registry import OpDef

IntegerRule = Callable[..., Value]


def limits(t: PrimitiveType) -> tuple[int, int]:
    """The minimum and the maximum of an integer type."""
    if t.is_signed:
        return -(2 ** (t.bits - 1)), 2 ** (t.bits - 1) - 1
    return 0, 2**t.bits - 1


def _plain(op: str) -> IntegerRule:
    return lambda builder, t, *args: builder.op(op, args[0].type, *args)


def _by_sign(signed: str, unsigned: str) -> IntegerRule:
    return lambda builder, t, *args: builder.op(signed if t.is_signed else unsigned, args[0].type, *args)


def _absolute(builder: Builder, t: PrimitiveType, x: Value) -> Value:
    negative = builder.compare("slt", x, builder.zero(x.type))
    return builder.select(negative, builder.unary("neg", x), x) if t.is_signed else x


def _sign(builder: Builder, t: PrimitiveType, x: Value) -> Value:
    zero, one = builder.zero(x.type), builder.constant(x.type, 1)
    positive = builder.select(builder.compare("ne", x, zero), one, zero)
    if not t.is_signed:
        return positive
    return builder.select(builder.compare("slt", x, zero), builder.constant(x.type, -1), positive)


def _not(builder: Builder, t: PrimitiveType, x: Value) -> Value:
    return builder.binary("xor", x, builder.constant(x.type, -1))


def _safe_divisor(builder: Builder, t: PrimitiveType, dividend: Value, divisor: Value) -> tuple[Value, Value, Value]:
    """Returns a divisor that is safe to divide by, whether the real one is zero, and whether the quotient overflows."""
    kind = divisor.type
    is_zero = builder.compare("eq", divisor, builder.zero(kind))
    overflows = builder.constant(I1, 0)
    if t.is_signed:
        is_least = builder.compare("eq", dividend, builder.constant(kind, limits(t)[0]))
        overflows = builder.binary("and", is_least, builder.compare("eq", divisor, builder.constant(kind, -1)))
    unsafe = builder.binary("or", is_zero, overflows)
    return builder.select(unsafe, builder.constant(kind, 1), divisor), is_zero, overflows


def _divide(builder: Builder, t: PrimitiveType, dividend: Value, divisor: Value) -> Value:
    """Division by zero is -1, for unsigned types the maximum; the minimum divided by -1 is the minimum."""
    safe, is_zero, _ = _safe_divisor(builder, t, dividend, divisor)
    quotient = builder.binary("sdiv" if t.is_signed else "udiv", dividend, safe)
    return builder.select(is_zero, builder.constant(dividend.type, -1), quotient)


def _remainder(builder: Builder, t: PrimitiveType, dividend: Value, divisor: Value) -> Value:
    """The remainder by zero is the dividend; that of the minimum by -1 is 0."""
    safe, is_zero, overflows = _safe_divisor(builder, t, dividend, divisor)
    rest = builder.binary("srem" if t.is_signed else "urem", dividend, safe)
    rest = builder.select(overflows, builder.zero(dividend.type), rest)
    return builder.select(is_zero, dividend, rest)


def divided_by_positive(builder: Builder, t: PrimitiveType, op: OpDef, dividend: Value, divisor: Value) -> Value:
    """The quotient or the remainder by a divisor that is known to be positive."""
    name = "div" if op is opcodes.DIVIDE else "rem"
    return builder.binary(f"{'s' if t.is_signed else 'u'}{name}", dividend, divisor)


def _shift(op: str) -> IntegerRule:
    """A shift by an unsigned amount; by the width or more, the result is 0, or the sign for arithmetic shifts."""

    def emit(builder: Builder, t: PrimitiveType, x: Value, amount: Value) -> Value:
        value = _without_sign(builder, t, x) if op == "lshr" else x
        inside = builder.compare("ult", _without_sign(builder, t, amount), builder.constant(x.type, t.bits))
        last = builder.constant(x.type, t.bits - 1)
        shifted = builder.binary(op, value, builder.select(inside, amount, last))
        return shifted if op == "ashr" else builder.select(inside, shifted, builder.zero(x.type))

    return emit


def _without_sign(builder: Builder, t: PrimitiveType, x: Value) -> Value:
    """The bits of a narrow signed integer, which is sign extended in its register."""
    return x if t.bits >= 8 or not t.is_signed else builder.binary("and", x, builder.constant(x.type, 2**t.bits - 1))


def _shift_right_arithmetic(builder: Builder, t: PrimitiveType, x: Value, amount: Value) -> Value:
    """Extends the highest bit, also of unsigned types."""
    if t.bits < 8 and not t.is_signed:
        spare = builder.constant(x.type, 8 - t.bits)
        x = builder.binary("ashr", builder.binary("shl", x, spare), spare)
    return _shift("ashr")(builder, t, x, amount)


def _leading_zeros(builder: Builder, t: PrimitiveType, x: Value) -> Value:
    zeros = builder.unary("ctlz", _without_sign(builder, t, x))
    return builder.sub(zeros, builder.constant(x.type, x.type.bits - t.bits))


def _population_count(builder: Builder, t: PrimitiveType, x: Value) -> Value:
    return builder.unary("ctpop", _without_sign(builder, t, x))


def _multiply_high(builder: Builder, t: PrimitiveType, left: Value, right: Value) -> Value:
    """The upper half of the product."""
    if t.bits == 64:
        return _multiply_high_64(builder, t, left, right)
    wide, how = integer_type(max(16, 2 * t.bits)), "sext" if t.is_signed else "zext"
    product = builder.mul(builder.convert(how, left, wide), builder.convert(how, right, wide))
    return builder.convert("trunc", builder.binary("ashr", product, builder.constant(wide, t.bits)), left.type)


def _multiply_high_64(builder: Builder, t: PrimitiveType, left: Value, right: Value) -> Value:
    """Multiplies halves of 32 bits; corrects the unsigned product for negative factors."""
    kind = left.type
    low_bits, half = builder.constant(kind, 2**32 - 1), builder.constant(kind, 32)
    a, b = builder.binary("and", left, low_bits), builder.binary("lshr", left, half)
    c, d = builder.binary("and", right, low_bits), builder.binary("lshr", right, half)
    middle = builder.add(builder.mul(b, c), builder.binary("lshr", builder.mul(a, c), half))
    lower = builder.add(builder.mul(a, d), builder.binary("and", middle, low_bits))
    high = builder.add(builder.mul(b, d), builder.binary("lshr", middle, half))
    high = builder.add(high, builder.binary("lshr", lower, half))
    if not t.is_signed:
        return high
    zero = builder.zero(kind)
    for factor, other in ((left, right), (right, left)):
        negative = builder.compare("slt", factor, zero)
        high = builder.sub(high, builder.select(negative, other, zero))
    return high


def _power(builder: Builder, t: PrimitiveType, base: Value, exponent: Value) -> Value:
    """Powers by squaring, which wrap; a negative exponent rounds the reciprocal toward zero: 1^-n = 1, 2^-1 = 0."""
    kind = base.type
    one, minus_one, zero = builder.constant(kind, 1), builder.constant(kind, -1), builder.zero(kind)
    if exponent.op == "const" and exponent.attribute >= 0:
        return _product(builder, base, exponent.attribute)
    result, square = one, base
    for bit in range(t.bits):
        is_set = builder.compare("ne", builder.binary("and", exponent, builder.constant(kind, 1 << bit)), zero)
        result = builder.select(is_set, builder.mul(result, square), result)
        square = builder.mul(square, square)
    if not t.is_signed:
        return result
    differs = builder.binary("and", builder.compare("ne", base, one), builder.compare("ne", base, minus_one))
    vanishes = builder.binary("and", differs, builder.compare("slt", exponent, zero))
    return builder.select(vanishes, zero, result)


def _product(builder: Builder, base: Value, count: int) -> Value:
    """The product of `count` equal factors, which wraps."""
    if count < 2:
        return base if count else builder.constant(base.type, 1)
    half = _product(builder, base, count // 2)
    square = builder.mul(half, half)
    return builder.mul(square, base) if count % 2 else square


INTEGERS: Final[Mapping[OpDef, IntegerRule]] = {
    opcodes.ABS: _absolute,
    opcodes.ADD: _plain("add"),
    opcodes.AND: _plain("and"),
    opcodes.COUNT_LEADING_ZEROS: _leading_zeros,
    opcodes.DIVIDE: _divide,
    opcodes.MAXIMUM: _by_sign("smax", "umax"),
    opcodes.MINIMUM: _by_sign("smin", "umin"),
    opcodes.MULHI: _multiply_high,
    opcodes.MULTIPLY: _plain("mul"),
    opcodes.NEGATE: _plain("neg"),
    opcodes.NOT: _not,
    opcodes.OR: _plain("or"),
    opcodes.POPCNT: _population_count,
    opcodes.POWER: _power,
    opcodes.REMAINDER: _remainder,
    opcodes.SHIFT_LEFT: _shift("shl"),
    opcodes.SHIFT_RIGHT_ARITHMETIC: _shift_right_arithmetic,
    opcodes.SHIFT_RIGHT_LOGICAL: _shift("lshr"),
    opcodes.SIGN: _sign,
    opcodes.SUBTRACT: _plain("sub"),
    opcodes.XOR: _plain("xor"),
}
"""The rule of each opcode for integers; the caller wraps results of types below 8 bits."""


def reduced_precision(builder: Builder, t: PrimitiveType, x: Value, exponent_bits: int, mantissa_bits: int) -> Value:
    """Rounds a float of type t to fewer bits of mantissa (ties to even) and of exponent.

    Numbers below the smaller range become zero with their sign, those above it infinite.
    """
    own_mantissa, own_exponent = x.type.float_format.mantissa_bits, x.type.float_format.exponent_bits
    bits = builder.bitcast(x, integer_type(x.type.bits))
    if mantissa_bits < own_mantissa:
        bits = _rounded_mantissa(builder, bits, own_mantissa - mantissa_bits)
    if exponent_bits < reduce_precision_format(t).exponent_bits:
        bits = _narrowed_exponent(builder, bits, own_mantissa, own_exponent, exponent_bits)
    return builder.select(builder.compare("uno", x, x), x, builder.bitcast(bits, x.type))


def _rounded_mantissa(builder: Builder, bits: Value, dropped: int) -> Value:
    kind = bits.type
    last = builder.binary("lshr", bits, builder.constant(kind, dropped))
    odd = builder.binary("and", last, builder.constant(kind, 1))
    bias = builder.add(odd, builder.constant(kind, 2 ** (dropped - 1) - 1))
    return builder.binary("and", builder.add(bits, bias), builder.constant(kind, -(2**dropped)))


def _narrowed_exponent(
    builder: Builder, bits: Value, own_mantissa: int, own_exponent: int, exponent_bits: int
) -> Value:
    kind, width = bits.type, bits.type.bits
    bias, narrow = 2 ** (own_exponent - 1) - 1, 2 ** (exponent_bits - 1) - 1
    sign = builder.binary("and", bits, builder.constant(kind, -(2 ** (width - 1))))
    infinity = (2**own_exponent - 1) << own_mantissa
    exponent = builder.binary("and", bits, builder.constant(kind, infinity))
    too_large = builder.compare("ugt", exponent, builder.constant(kind, (bias + narrow) << own_mantissa))
    too_small = builder.compare("ule", exponent, builder.constant(kind, (bias - narrow) << own_mantissa))
    huge = builder.binary("or", sign, builder.constant(kind, infinity))
    return builder.select(too_large, huge, builder.select(too_small, sign, bits))
