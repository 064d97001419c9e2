"""Rewrites of division that rounds down, and of its remainder, as front ends write them.

HLO's `divide` truncates, and `remainder` has the sign of the dividend. Python's `//` and `%` are therefore written with
a select that corrects the result of a negative dividend. Does not depend on divisions that are not corrected.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection
from xlapy.passes.algebra.core import REWRITES, element_type_of, is_number, operand_orders, splat
from xlapy.passes.rewrite import Writer


@REWRITES.rule(opcodes.SELECT)
def floor_divide_by_power_of_two(write: Writer, instruction: Instruction) -> Instruction | None:
    """select(sign(x) != 1 & x rem 2^k != 0, x / 2^k - 1, x / 2^k) -> x >> k of signed integers.

    The condition is true if x is negative and not a multiple of 2^k.
    """
    condition, corrected, quotient = instruction.operands
    dividend_and_power = _dividend_and_power(quotient, opcodes.DIVIDE)
    if dividend_and_power is None or condition.op is not opcodes.AND or not _is_sum(corrected, quotient, -1):
        return None
    dividend, power = dividend_and_power
    is_exact = any(
        _compares_with(sign, opcodes.SIGN, ComparisonDirection.NE, 1, (dividend,))
        and _compares_with(rest, opcodes.REMAINDER, ComparisonDirection.NE, 0, quotient.operands)
        for sign, rest in operand_orders(condition)
    )
    if not is_exact:
        return None
    shift = write.splat(power, instruction.shape)
    return write.add(opcodes.SHIFT_RIGHT_ARITHMETIC, dividend, shift, shape=instruction.shape)


@REWRITES.rule(opcodes.SELECT)
def floor_remainder_by_power_of_two(write: Writer, instruction: Instruction) -> Instruction | None:
    """select(r < 0 [& r != 0], r + 2^k, r) -> x & (2^k - 1), if r is x rem 2^k of signed integers."""
    condition, corrected, remainder = instruction.operands
    dividend_and_power = _dividend_and_power(remainder, opcodes.REMAINDER)
    if dividend_and_power is None or not _is_sum(corrected, remainder, 1 << dividend_and_power[1]):
        return None
    parts = [condition] if condition.op is not opcodes.AND else list(condition.operands)
    directions = {_direction_to_zero(part, remainder) for part in parts}
    if ComparisonDirection.LT not in directions or directions - {ComparisonDirection.LT, ComparisonDirection.NE}:
        return None
    dividend, power = dividend_and_power
    mask = write.splat((1 << power) - 1, instruction.shape)
    return write.add(opcodes.AND, dividend, mask, shape=instruction.shape)


def _dividend_and_power(instruction: Instruction, op: object) -> tuple[Instruction, int] | None:
    """Returns x and k if an instruction divides a signed integer x by 2^k."""
    t = element_type_of(instruction)
    if instruction.op is not op or not (t.is_integral and t.is_signed):
        return None
    value = splat(instruction.operands[1])
    if value is None or int(value) <= 0 or int(value).bit_count() != 1:
        return None
    return instruction.operands[0], int(value).bit_length() - 1


def _is_sum(instruction: Instruction, value: Instruction, constant: int) -> bool:
    """Whether an instruction adds a constant to a value."""
    if instruction.op is opcodes.SUBTRACT:
        return instruction.operands[0] is value and is_number(splat(instruction.operands[1]), -constant)
    if instruction.op is not opcodes.ADD:
        return False
    return any(one is value and is_number(splat(other), constant) for one, other in operand_orders(instruction))


def _compares_with(
    compare: Instruction, op: object, direction: ComparisonDirection, number: int, operands: tuple[Instruction, ...]
) -> bool:
    """Whether a comparison compares the result of an operation on some operands with a number."""
    if compare.op is not opcodes.COMPARE:
        return False
    left, right = compare.operands
    is_operation = left.op is op and all(a is b for a, b in zip(left.operands, operands, strict=True))
    given = compare.attributes_as(CompareAttributes).direction
    return is_operation and given is direction and is_number(splat(right), number)


def _direction_to_zero(compare: Instruction, value: Instruction) -> ComparisonDirection | None:
    """Returns how a comparison compares a value with zero; None for other instructions."""
    is_comparison = compare.op is opcodes.COMPARE and compare.operands[0] is value
    if not is_comparison or not is_number(splat(compare.operands[1]), 0):
        return None
    return compare.attributes_as(CompareAttributes).direction
