"""Rewrites of arithmetic, logic, comparisons and selects.

Floating-point rules keep every bit: x + (-0) is x, but x + 0 is not (-0 + 0 is 0); x * 0 is not 0 (NaN, infinities,
-0). Products and quotients of complex numbers are not rewritten, because they mix real and imaginary parts. Conversions
are in `conversion.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PRED, PrimitiveType
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection, ComparisonType
from xlapy.passes.algebra.core import (
    IEEE_TYPES,
    REWRITES,
    has_one_user,
    is_number,
    known_array,
    splat,
    splat_like,
)
from xlapy.passes.rewrite import Writer


def _operand_orders(instruction: Instruction) -> Iterator[tuple[Instruction, Instruction]]:
    """Yields the operands of a commutative operation in both orders."""
    lhs, rhs = instruction.operands
    yield lhs, rhs
    yield rhs, lhs


def _type(instruction: Instruction) -> PrimitiveType:
    return instruction.shape.element_type


def _is_true(value: Any | None) -> bool:
    return value is not None and value.dtype == np.bool_ and bool(value)


def _is_false(value: Any | None) -> bool:
    return value is not None and value.dtype == np.bool_ and not bool(value)


def _has_all_bits(value: Any | None, t: PrimitiveType) -> bool:
    """Returns whether a splat has all bits set: -1, the greatest value of an unsigned type, or true."""
    if value is None or not (t.is_integral or t is PRED):
        return False
    return bool(value) if t is PRED else int(value) == (-1 if t.is_signed else 2**t.bits - 1)


def _limits(t: PrimitiveType) -> tuple[float, float] | None:
    """Returns the least and greatest value, infinities included, of IEEE and integer types; None for other types."""
    if t in IEEE_TYPES:
        return -np.inf, np.inf
    if not t.is_integral:
        return None
    return (-(2 ** (t.bits - 1)), 2 ** (t.bits - 1) - 1) if t.is_signed else (0, 2**t.bits - 1)


# -- addition and subtraction


@REWRITES.rule(opcodes.ADD)
def add_identity(write: Writer, instruction: Instruction) -> Instruction | None:
    """x + 0 -> x of integers, x + (-0) -> x of floats, x + false -> x of predicates."""
    t = _type(instruction)
    for value, other in _operand_orders(instruction):
        zero = splat(other)
        if (t.is_integral and is_number(zero, 0)) or (t in IEEE_TYPES and is_number(zero, -0.0)) or _is_false(zero):
            return value
    return None


@REWRITES.rule(opcodes.ADD)
def add_negated(write: Writer, instruction: Instruction) -> Instruction | None:
    """x + (-y) -> x - y."""
    for value, other in _operand_orders(instruction):
        if other.op is opcodes.NEGATE:
            return write.add(opcodes.SUBTRACT, value, other.operands[0], shape=instruction.shape)
    return None


@REWRITES.rule(opcodes.ADD, opcodes.MULTIPLY, opcodes.AND, opcodes.OR, opcodes.XOR)
def reassociate_constants(write: Writer, instruction: Instruction) -> Instruction | None:
    """(x + c) + d -> x + (c + d) for constants c, d of integers or predicates; likewise for multiply, and, or, xor."""
    if not (_type(instruction).is_integral or _type(instruction) is PRED):
        return None
    for inner, outer in _operand_orders(instruction):
        if inner.op is not instruction.op or known_array(_broadcast_operand(outer)) is None:
            continue
        for value, constant in _operand_orders(inner):
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
    t = _type(instruction)
    lhs, rhs = instruction.operands
    return lhs if (t.is_integral or t in IEEE_TYPES) and is_number(splat(rhs), 0) else None


@REWRITES.rule(opcodes.SUBTRACT)
def subtract_from_itself(write: Writer, instruction: Instruction) -> Instruction | None:
    """x - x -> 0 of integers."""
    lhs, rhs = instruction.operands
    return splat_like(write, instruction, 0) if _type(instruction).is_integral and lhs is rhs else None


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
    t = _type(instruction)
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
    if operand.op is opcodes.SUBTRACT and _type(instruction).is_integral and has_one_user(operand):
        lhs, rhs = operand.operands
        return write.add(opcodes.SUBTRACT, rhs, lhs, shape=instruction.shape)
    return None


# -- multiplication, division, powers


@REWRITES.rule(opcodes.MULTIPLY)
def multiply_by_zero_one_or_minus_one(write: Writer, instruction: Instruction) -> Instruction | None:
    """x * 1 -> x; x * 0 -> 0 of integers; x * -1 -> -x; x * true -> x and x * false -> false of predicates."""
    t = _type(instruction)
    if t.is_complex:
        return None
    for value, other in _operand_orders(instruction):
        factor = splat(other)
        if is_number(factor, 1) or _is_true(factor):
            return value
        if (t.is_integral and is_number(factor, 0)) or _is_false(factor):
            return other
        if is_number(factor, -1) and (t.is_integral or t in IEEE_TYPES):
            return write.add(opcodes.NEGATE, value, shape=instruction.shape)
    return None


@REWRITES.rule(opcodes.DIVIDE)
def divide_by_one(write: Writer, instruction: Instruction) -> Instruction | None:
    """x / 1 -> x of real numbers."""
    lhs, rhs = instruction.operands
    return lhs if not _type(instruction).is_complex and is_number(splat(rhs), 1) else None


@REWRITES.rule(opcodes.DIVIDE)
def divide_float_by_power_of_two(write: Writer, instruction: Instruction) -> Instruction | None:
    """x / 2^k -> x * 2^-k of floats, if 2^k and 2^-k are normal numbers."""
    lhs, rhs = instruction.operands
    divisor = splat(rhs)
    reciprocal = None if divisor is None else _exact_reciprocal(divisor, _type(instruction))
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
    t = _type(instruction)
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
    t = _type(instruction)
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
    t, op = _type(instruction), instruction.op
    for value, other in _operand_orders(instruction):
        bits = splat(other)
        if is_number(bits, 0) or _is_false(bits):
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
    for value, other in _operand_orders(instruction):
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


@REWRITES.rule(opcodes.NOT)
def not_of_compare(write: Writer, instruction: Instruction) -> Instruction | None:
    """The negation of a comparison of integers or predicates -> the opposite comparison."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.COMPARE or not has_one_user(operand) or not _is_totally_ordered(operand):
        return None
    attributes = operand.attributes.replace(direction=_OPPOSITE[operand.attributes_as(CompareAttributes).direction])
    return write.add(opcodes.COMPARE, *operand.operands, attributes=attributes, shape=instruction.shape)


@REWRITES.rule(opcodes.SHIFT_LEFT, opcodes.SHIFT_RIGHT_ARITHMETIC, opcodes.SHIFT_RIGHT_LOGICAL)
def shift_by_zero_or_at_least_width(write: Writer, instruction: Instruction) -> Instruction | None:
    """x << 0 -> x, likewise right shifts; x << n and x >>> n -> 0 for amounts n of at least the width."""
    t = _type(instruction)
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
    if _type(instruction) is not PRED:
        return None
    op = opcodes.OR if instruction.op is opcodes.MAXIMUM else opcodes.AND
    return write.add(op, *instruction.operands, shape=instruction.shape)


@REWRITES.rule(opcodes.MAXIMUM, opcodes.MINIMUM)
def maximum_or_minimum_with_type_limit(write: Writer, instruction: Instruction) -> Instruction | None:
    """max(x, least) -> x; max(x, greatest) -> greatest of integers; min likewise."""
    t = _type(instruction)
    limits = _limits(t)
    if limits is None:
        return None
    identity, absorbing = limits if instruction.op is opcodes.MAXIMUM else limits[::-1]
    for value, other in _operand_orders(instruction):
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


# -- comparison and select

_OPPOSITE = {
    ComparisonDirection.EQ: ComparisonDirection.NE,
    ComparisonDirection.NE: ComparisonDirection.EQ,
    ComparisonDirection.LT: ComparisonDirection.GE,
    ComparisonDirection.GE: ComparisonDirection.LT,
    ComparisonDirection.GT: ComparisonDirection.LE,
    ComparisonDirection.LE: ComparisonDirection.GT,
}
_EQUALITIES = (ComparisonDirection.EQ, ComparisonDirection.NE)
_REFLEXIVE = (ComparisonDirection.EQ, ComparisonDirection.LE, ComparisonDirection.GE)


def _is_totally_ordered(compare: Instruction) -> bool:
    """Returns whether a comparison orders all values; IEEE comparisons of floats do not order NaN."""
    t = compare.operands[0].shape.element_type
    return t.is_integral or t is PRED or compare.attributes_as(CompareAttributes).type is ComparisonType.TOTALORDER


@REWRITES.rule(opcodes.COMPARE)
def compare_with_itself(write: Writer, instruction: Instruction) -> Instruction | None:
    """x == x, x <= x, x >= x -> true; x != x, x < x, x > x -> false; of floats only x < x and x > x, because of NaN."""
    lhs, rhs = instruction.operands
    if lhs is not rhs:
        return None
    direction = instruction.attributes_as(CompareAttributes).direction
    if _is_totally_ordered(instruction):
        return splat_like(write, instruction, direction in _REFLEXIVE)
    strict = direction in (ComparisonDirection.LT, ComparisonDirection.GT)
    return splat_like(write, instruction, False) if strict else None


@REWRITES.rule(opcodes.COMPARE)
def compare_with_type_limit(write: Writer, instruction: Instruction) -> Instruction | None:
    """x < least and x > greatest -> false, x >= least and x <= greatest -> true of integers."""
    lhs, rhs = instruction.operands
    t = lhs.shape.element_type
    limits = _limits(t) if t.is_integral else None
    value = splat(rhs)
    if limits is None or value is None:
        return None
    direction = instruction.attributes_as(CompareAttributes).direction
    below, above = (ComparisonDirection.LT, ComparisonDirection.GE), (ComparisonDirection.GT, ComparisonDirection.LE)
    for limit, (never, always) in zip(limits, (below, above), strict=True):
        if int(value) == limit and direction in (never, always):
            return splat_like(write, instruction, direction is always)
    return None


@REWRITES.rule(opcodes.COMPARE)
def compare_predicate_with_constant(write: Writer, instruction: Instruction) -> Instruction | None:
    """p == true and p != false -> p; p == false and p != true -> not p."""
    direction = instruction.attributes_as(CompareAttributes).direction
    equal = direction is ComparisonDirection.EQ
    if instruction.operands[0].shape.element_type is not PRED or direction not in _EQUALITIES:
        return None
    for value, other in _operand_orders(instruction):
        known = splat(other)
        if known is not None:
            return value if bool(known) == equal else write.add(opcodes.NOT, value, shape=instruction.shape)
    return None


@REWRITES.rule(opcodes.SELECT)
def select_of_equal_values(write: Writer, instruction: Instruction) -> Instruction | None:
    """select(p, a, a) -> a."""
    _, on_true, on_false = instruction.operands
    return on_true if on_true is on_false else None


@REWRITES.rule(opcodes.SELECT)
def select_by_constant(write: Writer, instruction: Instruction) -> Instruction | None:
    """select(true, a, b) -> a; select(false, a, b) -> b. A constant predicate with different elements stays."""
    predicate, on_true, on_false = instruction.operands
    known = splat(predicate)
    return None if known is None else (on_true if bool(known) else on_false)


@REWRITES.rule(opcodes.SELECT)
def select_by_not(write: Writer, instruction: Instruction) -> Instruction | None:
    """select(not p, a, b) -> select(p, b, a)."""
    predicate, on_true, on_false = instruction.operands
    if predicate.op is not opcodes.NOT:
        return None
    return write.add(opcodes.SELECT, predicate.operands[0], on_false, on_true, shape=instruction.shape)


@REWRITES.rule(opcodes.SELECT)
def select_of_constant_predicates(write: Writer, instruction: Instruction) -> Instruction | None:
    """select(p, true, false) -> p; select(p, false, true) -> not p."""
    predicate, on_true, on_false = instruction.operands
    if _type(instruction) is not PRED or predicate.shape.dimensions != instruction.shape.dimensions:
        return None
    values = splat(on_true), splat(on_false)
    if _is_true(values[0]) and _is_false(values[1]):
        return predicate
    if _is_false(values[0]) and _is_true(values[1]):
        return write.add(opcodes.NOT, predicate, shape=instruction.shape)
    return None


@REWRITES.rule(opcodes.SELECT)
def select_of_select(write: Writer, instruction: Instruction) -> Instruction | None:
    """select(p, select(p, a, b), c) -> select(p, a, c); select(p, a, select(p, b, c)) -> select(p, a, c)."""
    predicate, on_true, on_false = instruction.operands
    inner_true, inner_false = (v.op is opcodes.SELECT and v.operands[0] is predicate for v in (on_true, on_false))
    if not (inner_true or inner_false):
        return None
    chosen = (on_true.operands[1] if inner_true else on_true, on_false.operands[2] if inner_false else on_false)
    return write.add(opcodes.SELECT, predicate, *chosen, shape=instruction.shape)


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
