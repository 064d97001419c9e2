"""Rewrites of arithmetic, bitwise operations, rounding and complex numbers.

Floating-point rules keep every bit: x + (-0) is x, but x + 0 is not (-0 + 0 is 0); x * 0 is not 0 (NaN, infinities,
-0). Products and quotients of complex numbers are not rewritten, because they mix real and imaginary parts.

Does not depend on conversions (`conversion.py`), comparisons or selects (`predicates.py`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.hlo.instruction import Instruction
from xlapy.passes.algebra.core import (
    IEEE_TYPES,
    REWRITES,
    element_type_of,
    has_one_user,
    is_false,
    is_number,
    is_true,
    known_array,
    limits_of_type,
    operand_orders,
    splat,
    splat_like,
)
from xlapy.passes.rewrite import Writer


def _has_all_bits(value: Any | None, t: PrimitiveType) -> bool:
    """Returns whether a splat has all bits set: -1, the greatest value of an unsigned type, or true."""
    if value is None or not (t.is_integral or t is PRED):
        return False
    return bool(value) if t is PRED else int(value) == (-1 if t.is_signed else 2**t.bits - 1)


# -- addition and subtraction


@REWRITES.rule(opcodes.ADD)
def add_identity(write: Writer, instruction: Instruction) -> Instruction | None:
    """x + 0 -> x of integers, x + (-0) -> x of floats, x + false -> x of predicates."""
    t = element_type_of(instruction)
    for value, other in operand_orders(instruction):
        zero = splat(other)
        if (t.is_integral and is_number(zero, 0)) or (t in IEEE_TYPES and is_number(zero, -0.0)) or is_false(zero):
            return value
    return None


@REWRITES.rule(opcodes.ADD)
def add_negated(write: Writer, instruction: Instruction) -> Instruction | None:
    """x + (-y) -> x - y."""
    for value, other in operand_orders(instruction):
        if other.op is opcodes.NEGATE:
            return write.add(opcodes.SUBTRACT, value, other.operands[0], shape=instruction.shape)
    return None


@REWRITES.rule(opcodes.ADD, opcodes.MULTIPLY, opcodes.AND, opcodes.OR, opcodes.XOR)
def reassociate_constants(write: Writer, instruction: Instruction) -> Instruction | None:
    """(x + c) + d -> x + (c + d) for constants c, d of integers or predicates; likewise for multiply, and, or, xor."""
    if not (element_type_of(instruction).is_integral or element_type_of(instruction) is PRED):
        return None
    for inner, outer in operand_orders(instruction):
        if inner.op is not instruction.op or known_array(_broadcast_operand(outer)) is None:
            continue
        for value, constant in operand_orders(inner):
            if known_array(_broadcast_operand(constant)) is not None and known_array(_broadcast_operand(value)) is None:
                both = write.add(instruction.op, constant, outer)
                return write.add(instruction.op, value, both, shape=instruction.shape)
    return None


def _broadcast_operand(instruction: Instruction) -> Instruction:
    """Returns the operand of a broadcast; other instructions as they are."""
    return instruction.operands[0] if instruction.op is opcodes.BROADCAST else instruction


@REWRITES.rule(opcodes.SUBTRACT)
def subtract_zero(write: Writer, instruction: Instruction) -> Instruction | None:
    """x - 0 -> x of integers and floats."""
    t = element_type_of(instruction)
    lhs, rhs = instruction.operands
    return lhs if (t.is_integral or t in IEEE_TYPES) and is_number(splat(rhs), 0) else None


@REWRITES.rule(opcodes.SUBTRACT)
def subtract_from_itself(write: Writer, instruction: Instruction) -> Instruction | None:
    """x - x -> 0 of integers."""
    lhs, rhs = instruction.operands
    return splat_like(write, instruction, 0) if element_type_of(instruction).is_integral and lhs is rhs else None


@REWRITES.rule(opcodes.SUBTRACT)
def subtract_negated(write: Writer, instruction: Instruction) -> Instruction | None:
    """x - (-y) -> x + y."""
    lhs, rhs = instruction.operands
    if rhs.op is not opcodes.NEGATE:
        return None
    return write.add(opcodes.ADD, lhs, rhs.operands[0], shape=instruction.shape)


@REWRITES.rule(opcodes.SUBTRACT)
def subtract_from_zero(write: Writer, instruction: Instruction) -> Instruction | None:
    """0 - x -> -x of integers, (-0) - x -> -x of floats."""
    t = element_type_of(instruction)
    lhs, rhs = instruction.operands
    if is_number(splat(lhs), 0 if t.is_integral else -0.0) and (t.is_integral or t in IEEE_TYPES):
        return write.add(opcodes.NEGATE, rhs, shape=instruction.shape)
    return None


@REWRITES.rule(opcodes.NEGATE)
def negate_of_negate(write: Writer, instruction: Instruction) -> Instruction | None:
    """-(-x) -> x."""
    (operand,) = instruction.operands
    return operand.operands[0] if operand.op is opcodes.NEGATE else None


@REWRITES.rule(opcodes.NEGATE)
def negate_of_subtract(write: Writer, instruction: Instruction) -> Instruction | None:
    """-(x - y) -> y - x of integers."""
    (operand,) = instruction.operands
    if operand.op is opcodes.SUBTRACT and element_type_of(instruction).is_integral and has_one_user(operand):
        lhs, rhs = operand.operands
        return write.add(opcodes.SUBTRACT, rhs, lhs, shape=instruction.shape)
    return None


# -- multiplication, division, powers


@REWRITES.rule(opcodes.MULTIPLY)
def multiply_by_zero_one_or_minus_one(write: Writer, instruction: Instruction) -> Instruction | None:
    """x * 1 -> x; x * 0 -> 0 of integers; x * -1 -> -x; x * true -> x and x * false -> false of predicates."""
    t = element_type_of(instruction)
    if t.is_complex:
        return None
    for value, other in operand_orders(instruction):
        factor = splat(other)
        if is_number(factor, 1) or is_true(factor):
            return value
        if (t.is_integral and is_number(factor, 0)) or is_false(factor):
            return other
        if is_number(factor, -1) and (t.is_integral or t in IEEE_TYPES):
            return write.add(opcodes.NEGATE, value, shape=instruction.shape)
    return None


@REWRITES.rule(opcodes.DIVIDE)
def divide_by_one(write: Writer, instruction: Instruction) -> Instruction | None:
    """x / 1 -> x of real numbers."""
    lhs, rhs = instruction.operands
    return lhs if not element_type_of(instruction).is_complex and is_number(splat(rhs), 1) else None


@REWRITES.rule(opcodes.DIVIDE)
def divide_float_by_power_of_two(write: Writer, instruction: Instruction) -> Instruction | None:
    """x / 2^k -> x * 2^-k of floats, if 2^k and 2^-k are normal numbers."""
    lhs, rhs = instruction.operands
    divisor = splat(rhs)
    reciprocal = None if divisor is None else _exact_reciprocal(divisor, element_type_of(instruction))
    if reciprocal is None:
        return None
    return write.add(opcodes.MULTIPLY, lhs, write.splat(reciprocal, rhs.shape), shape=instruction.shape)


def _exact_reciprocal(divisor: Any, t: PrimitiveType) -> float | None:
    """Returns 1 / divisor if that is exact: for powers of two whose reciprocals are normal numbers; else None."""
    value = float(divisor) if t in IEEE_TYPES else 0.0
    if not np.isfinite(value) or abs(np.frexp(value)[0]) != 0.5:
        return None
    smallest = {16: 2.0**-14, 32: 2.0**-126, 64: 2.0**-1022}[t.bits] if t.name != "BF16" else 2.0**-126
    return 1.0 / value if smallest <= abs(value) <= 1.0 / smallest else None


@REWRITES.rule(opcodes.DIVIDE, opcodes.REMAINDER)
def unsigned_divide_or_remainder_by_power_of_two(write: Writer, instruction: Instruction) -> Instruction | None:
    """x / 2^k -> x >> k and x rem 2^k -> x & (2^k - 1) of unsigned integers."""
    t = element_type_of(instruction)
    lhs, rhs = instruction.operands
    value = splat(rhs) if t.is_integral and not t.is_signed else None
    if value is None or int(value).bit_count() != 1:
        return None
    if instruction.op is opcodes.REMAINDER:
        return write.add(opcodes.AND, lhs, write.splat(int(value) - 1, rhs.shape), shape=instruction.shape)
    shift = write.splat(int(value).bit_length() - 1, rhs.shape)
    return write.add(opcodes.SHIFT_RIGHT_LOGICAL, lhs, shift, shape=instruction.shape)


@REWRITES.rule(opcodes.POWER)
def power_with_exponent_of_minus_one_to_two(write: Writer, instruction: Instruction) -> Instruction | None:
    """x^0 -> 1, x^1 -> x, x^2 -> x * x; x^-1 -> 1 / x of floats."""
    t = element_type_of(instruction)
    base, exponent = instruction.operands
    value = splat(exponent)
    if t.is_complex or value is None or instruction.result_accuracy:
        return None
    if not (t.is_integral or t in IEEE_TYPES):
        return None
    if is_number(value, 1):
        return base
    if float(value) == 0:
        return splat_like(write, instruction, 1)
    if is_number(value, 2):
        return write.add(opcodes.MULTIPLY, base, base, shape=instruction.shape)
    if is_number(value, -1) and t in IEEE_TYPES:
        return write.add(opcodes.DIVIDE, write.splat(1, base.shape), base, shape=instruction.shape)
    return None


# -- bits and predicates


@REWRITES.rule(opcodes.AND, opcodes.OR, opcodes.XOR)
def bitwise_with_all_zeros_or_ones(write: Writer, instruction: Instruction) -> Instruction | None:
    """x & 0 -> 0, x & ~0 -> x, x | 0 -> x, x | ~0 -> ~0, x ^ 0 -> x, x ^ ~0 -> ~x; predicates likewise."""
    t, op = element_type_of(instruction), instruction.op
    for value, other in operand_orders(instruction):
        bits = splat(other)
        if is_number(bits, 0) or is_false(bits):
            return other if op is opcodes.AND else value
        if _has_all_bits(bits, t):
            if op is opcodes.XOR:
                return write.add(opcodes.NOT, value, shape=instruction.shape)
            return value if op is opcodes.AND else other
    return None


@REWRITES.rule(opcodes.AND, opcodes.OR, opcodes.MAXIMUM, opcodes.MINIMUM)
def idempotent_operation_of_itself(write: Writer, instruction: Instruction) -> Instruction | None:
    """x & x, x | x, max(x, x) and min(x, x) -> x."""
    lhs, rhs = instruction.operands
    return lhs if lhs is rhs else None


@REWRITES.rule(opcodes.XOR)
def xor_of_itself(write: Writer, instruction: Instruction) -> Instruction | None:
    """x ^ x -> 0."""
    lhs, rhs = instruction.operands
    return splat_like(write, instruction, 0) if lhs is rhs else None


@REWRITES.rule(opcodes.AND, opcodes.OR)
def absorb_nested_bitwise_operand(write: Writer, instruction: Instruction) -> Instruction | None:
    """x & (x | y) and x | (x & y) -> x; x & (x & y) -> x & y, and likewise for or."""
    dual = opcodes.OR if instruction.op is opcodes.AND else opcodes.AND
    for value, other in operand_orders(instruction):
        if other.op is dual and value in other.operands:
            return value
        if other.op is instruction.op and value in other.operands:
            return other
    return None


@REWRITES.rule(opcodes.NOT)
def not_of_not(write: Writer, instruction: Instruction) -> Instruction | None:
    """not not x -> x."""
    (operand,) = instruction.operands
    return operand.operands[0] if operand.op is opcodes.NOT else None


@REWRITES.rule(opcodes.SHIFT_LEFT, opcodes.SHIFT_RIGHT_ARITHMETIC, opcodes.SHIFT_RIGHT_LOGICAL)
def shift_by_zero_or_at_least_width(write: Writer, instruction: Instruction) -> Instruction | None:
    """x << 0 -> x, likewise right shifts; x << n and x >>> n -> 0 for amounts n of at least the width."""
    t = element_type_of(instruction)
    value, amount = instruction.operands[0], splat(instruction.operands[1])
    if amount is None:
        return None
    if int(amount) == 0:
        return value
    is_at_least_width = int(amount) >= t.bits or int(amount) < 0
    if is_at_least_width and instruction.op is not opcodes.SHIFT_RIGHT_ARITHMETIC:
        return splat_like(write, instruction, 0)
    return None


# -- maximum, minimum, sign, rounding


@REWRITES.rule(opcodes.MAXIMUM, opcodes.MINIMUM)
def maximum_or_minimum_of_predicates(write: Writer, instruction: Instruction) -> Instruction | None:
    """max(p, q) -> p or q; min(p, q) -> p and q of predicates."""
    if element_type_of(instruction) is not PRED:
        return None
    op = opcodes.OR if instruction.op is opcodes.MAXIMUM else opcodes.AND
    return write.add(op, *instruction.operands, shape=instruction.shape)


@REWRITES.rule(opcodes.MAXIMUM, opcodes.MINIMUM)
def maximum_or_minimum_with_type_limit(write: Writer, instruction: Instruction) -> Instruction | None:
    """max(x, least) -> x; max(x, greatest) -> greatest of integers; min likewise."""
    t = element_type_of(instruction)
    limits = limits_of_type(t)
    if limits is None:
        return None
    identity, absorbing = limits if instruction.op is opcodes.MAXIMUM else limits[::-1]
    for value, other in operand_orders(instruction):
        if is_number(splat(other), identity):
            return value
        if t.is_integral and is_number(splat(other), absorbing):
            return other
    return None


@REWRITES.rule(opcodes.ABS)
def abs_of_negate_or_abs(write: Writer, instruction: Instruction) -> Instruction | None:
    """|-x| -> |x|; ||x|| -> |x|."""
    (operand,) = instruction.operands
    if operand.op is opcodes.NEGATE:
        return write.add(opcodes.ABS, operand.operands[0], shape=instruction.shape)
    return operand if operand.op is opcodes.ABS else None


_ROUNDING = (opcodes.FLOOR, opcodes.CEIL, opcodes.ROUND_NEAREST_AFZ, opcodes.ROUND_NEAREST_EVEN)


@REWRITES.rule(*_ROUNDING)
def round_of_rounded(write: Writer, instruction: Instruction) -> Instruction | None:
    """floor(ceil(x)) -> ceil(x), likewise for all pairs of rounding operations: a rounded number is an integer."""
    (operand,) = instruction.operands
    return operand if operand.op in _ROUNDING else None


@REWRITES.rule(opcodes.CLAMP)
def clamp_of_clamp(write: Writer, instruction: Instruction) -> Instruction | None:
    """clamp(l, clamp(l, x, h), h) -> clamp(l, x, h)."""
    low, operand, high = instruction.operands
    if operand.op is opcodes.CLAMP and operand.operands[0] is low and operand.operands[2] is high:
        return operand
    return None


# -- complex numbers


@REWRITES.rule(opcodes.REAL, opcodes.IMAG)
def real_or_imag_of_complex_or_real(write: Writer, instruction: Instruction) -> Instruction | None:
    """real(complex(a, b)) -> a, imag(complex(a, b)) -> b; real(x) -> x of a real x."""
    (operand,) = instruction.operands
    if operand.op is opcodes.COMPLEX:
        return operand.operands[0 if instruction.op is opcodes.REAL else 1]
    return operand if instruction.op is opcodes.REAL and operand.shape.element_type.is_floating else None


@REWRITES.rule(opcodes.COMPLEX)
def complex_of_real_and_imag(write: Writer, instruction: Instruction) -> Instruction | None:
    """complex(real(x), imag(x)) -> x."""
    lhs, rhs = instruction.operands
    if lhs.op is not opcodes.REAL or rhs.op is not opcodes.IMAG or lhs.operands[0] is not rhs.operands[0]:
        return None
    return lhs.operands[0] if lhs.operands[0].shape.element_type.is_complex else None
