"""Integer arithmetic of the elementwise operations: two's complement at any width, no traps.

Responsible for the kernels on arrays of integers. A kernel takes arrays of a native NumPy type (1-, 2- and 4-bit
elements are converted to 8 bits with the same signedness) and the true width in bits; the caller wraps the result. Does
not depend on instructions or other element types.
Source: "Element-wise binary arithmetic operations" and "Element-wise unary functions" of the specification; special
cases (division by zero, shifts beyond the width, negative exponents) follow XLA.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy.base.element_types import Array


def to_native_integer(array: Array) -> Array:
    """Converts 1-, 2- and 4-bit integers to int8 or uint8; returns wider ones unchanged."""
    if array.dtype.kind in "iu":
        return array
    return array.astype(np.uint8 if array.dtype.name.startswith("u") else np.int8)


def wrap(array: Array, dtype: np.dtype[Any]) -> Array:
    """Reduces integers modulo 2^bits to `dtype`."""
    return array.astype(dtype)


def is_signed(array: Array) -> bool:
    return array.dtype.kind == "i"


def unsigned_bits(array: Array, bits: int) -> Array:
    """Returns the bit patterns in an unsigned type of the same storage, with zeros above `bits`."""
    pattern = array.view(f"u{array.itemsize}")
    return pattern if bits == 8 * array.itemsize else pattern & pattern.dtype.type((1 << bits) - 1)


def add(lhs: Array, rhs: Array, _: int) -> Array:
    return lhs + rhs


def subtract(lhs: Array, rhs: Array, _: int) -> Array:
    return lhs - rhs


def multiply(lhs: Array, rhs: Array, _: int) -> Array:
    return lhs * rhs


def negate(operand: Array, _: int) -> Array:
    return np.negative(operand)


def absolute(operand: Array, _: int) -> Array:
    """|x|; the smallest number of the type is unchanged."""
    return np.abs(operand)


def sign(operand: Array, _: int) -> Array:
    return np.sign(operand)


def divide(lhs: Array, rhs: Array, _: int) -> Array:
    """Truncating division: x / 0 is all ones, and MIN / -1 wraps to MIN."""
    quotient, _remainder = _truncating_division(lhs, rhs)
    return np.where(rhs == 0, np.invert(np.zeros((), lhs.dtype)), quotient)


def remainder(lhs: Array, rhs: Array, _: int) -> Array:
    """The remainder of truncating division, with the sign of the dividend: x rem 0 is x, MIN rem -1 is 0."""
    _quotient, rest = _truncating_division(lhs, rhs)
    return np.where(rhs == 0, lhs, rest)


def _truncating_division(lhs: Array, rhs: Array) -> tuple[Array, Array]:
    """Returns quotient and remainder; those of a zero divisor are arbitrary."""
    one = rhs.dtype.type(1)
    safe = np.where(rhs == 0, one, rhs)
    if not is_signed(lhs):
        return lhs // safe, lhs % safe
    by_minus_one = safe == -1
    safe = np.where(by_minus_one, one, safe)
    quotient = lhs // safe
    rest = lhs - quotient * safe
    upwards = (rest != 0) & ((rest < 0) != (lhs < 0))  # NumPy rounds down, XLA toward zero
    quotient = np.where(upwards, quotient + one, quotient)
    rest = np.where(upwards, rest - safe, rest)
    return np.where(by_minus_one, np.negative(lhs), quotient), rest


def power(base: Array, exponent: Array, bits: int) -> Array:
    """Wrapping power; x^0 is 1, and a negative exponent rounds the reciprocal toward zero: 1^-n = 1, 2^-1 = 0."""
    remaining = unsigned_bits(exponent, bits)
    result = np.ones(np.broadcast_shapes(base.shape, exponent.shape), base.dtype)
    square = base
    for bit in range(bits):
        odd = (remaining >> remaining.dtype.type(bit)) & remaining.dtype.type(1)
        result = np.where(odd != 0, result * square, result)
        square = square * square
    if not is_signed(base):
        return result
    # (-1)^n depends on the lowest bit of n, also for negative n, so the loop is correct for the bases 1 and -1
    vanishes = (exponent < 0) & (base != 1) & (base != -1)
    return np.where(vanishes, base.dtype.type(0), result)


def maximum(lhs: Array, rhs: Array, _: int) -> Array:
    return np.maximum(lhs, rhs)


def minimum(lhs: Array, rhs: Array, _: int) -> Array:
    return np.minimum(lhs, rhs)


def multiply_high(lhs: Array, rhs: Array, bits: int) -> Array:
    """Returns the upper half of the product of two numbers of `bits` bits."""
    if bits < 64:
        wide = np.int64 if is_signed(lhs) else np.uint64
        return (lhs.astype(wide) * rhs.astype(wide)) >> wide(bits)
    a, b = lhs.view(np.uint64), rhs.view(np.uint64)
    high = _multiply_high_64(a, b)
    if not is_signed(lhs):
        return high
    # Read as unsigned, a negative operand is 2^64 too large, which adds the other operand to the upper half.
    zero = np.uint64(0)
    return (high - np.where(lhs < 0, b, zero) - np.where(rhs < 0, a, zero)).view(np.int64)


def _multiply_high_64(a: Array, b: Array) -> Array:
    """Multiplies 32-bit halves, so that no sum exceeds 64 bits."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    a_low, a_high, b_low, b_high = a & mask, a >> half, b & mask, b >> half
    middle = a_high * b_low + ((a_low * b_low) >> half)
    carry = (a_low * b_high + (middle & mask)) >> half
    return a_high * b_high + (middle >> half) + carry


def bitwise_and(lhs: Array, rhs: Array, _: int) -> Array:
    return lhs & rhs


def bitwise_or(lhs: Array, rhs: Array, _: int) -> Array:
    return lhs | rhs


def bitwise_xor(lhs: Array, rhs: Array, _: int) -> Array:
    return lhs ^ rhs


def bitwise_not(operand: Array, _: int) -> Array:
    return np.invert(operand)


def _amount(rhs: Array, bits: int) -> tuple[Array, Array]:
    """Reads a shift amount as unsigned; returns where it is less than the width, and the amount, 0 elsewhere."""
    amount = unsigned_bits(rhs, bits)
    within = amount < bits
    return within, np.where(within, amount, amount.dtype.type(0))


def shift_left(lhs: Array, rhs: Array, bits: int) -> Array:
    """Shifts by the width or more give 0."""
    within, amount = _amount(rhs, bits)
    pattern = unsigned_bits(lhs, bits)
    return np.where(within, pattern << amount, pattern.dtype.type(0))


def shift_right_logical(lhs: Array, rhs: Array, bits: int) -> Array:
    """Shifts in zeros; shifts by the width or more give 0."""
    within, amount = _amount(rhs, bits)
    pattern = unsigned_bits(lhs, bits)
    return np.where(within, pattern >> amount, pattern.dtype.type(0))


def shift_right_arithmetic(lhs: Array, rhs: Array, bits: int) -> Array:
    """Shifts in the top bit, for unsigned numbers too; shifts by the width or more give that bit in all positions."""
    within, amount = _amount(rhs, bits)
    signed = _as_signed(lhs, bits)
    last = amount.dtype.type(bits - 1)
    return signed >> np.where(within, amount, last).view(signed.dtype)


def _as_signed(array: Array, bits: int) -> Array:
    """Reads bit patterns as two's complement numbers of `bits` bits."""
    signed = array.view(f"i{array.itemsize}")
    spare = 8 * array.itemsize - bits
    if is_signed(array) or not spare:
        return signed
    shift = signed.dtype.type(spare)
    return (signed << shift) >> shift


def count_leading_zeros(operand: Array, bits: int) -> Array:
    """Counts the zeros above the highest set bit; the full width for 0."""
    pattern = unsigned_bits(operand, bits)
    step = 1
    while step < bits:
        pattern = pattern | (pattern >> pattern.dtype.type(step))
        step *= 2
    return bits - np.bitwise_count(pattern).astype(np.int16)


def population_count(operand: Array, bits: int) -> Array:
    return np.bitwise_count(unsigned_bits(operand, bits))
