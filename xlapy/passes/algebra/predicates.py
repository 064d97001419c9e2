"""Rewrites of comparisons, their negations, and selects.

Floating-point comparisons do not order NaN, unless their type is TOTALORDER: rules that need a total order apply to
integers, predicates and TOTALORDER comparisons only.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.analysis.integer_ranges import known_comparison
from xlapy.base.element_types import PRED
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection, ComparisonType
from xlapy.passes.algebra.core import (
    REWRITES,
    element_type_of,
    has_one_user,
    is_false,
    is_true,
    limits_of_type,
    operand_orders,
    splat,
    splat_like,
)
from xlapy.passes.rewrite import Writer

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


# -- comparison


@REWRITES.rule(opcodes.NOT)
def not_of_compare(write: Writer, instruction: Instruction) -> Instruction | None:
    """The negation of a comparison of integers or predicates -> the opposite comparison."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.COMPARE or not has_one_user(operand) or not _is_totally_ordered(operand):
        return None
    attributes = operand.attributes.replace(direction=_OPPOSITE[operand.attributes_as(CompareAttributes).direction])
    return write.add(opcodes.COMPARE, *operand.operands, attributes=attributes, shape=instruction.shape)


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
def compare_of_known_integers(write: Writer, instruction: Instruction) -> Instruction | None:
    """i < 0 -> false, if i counts the iterations of a loop from 0 on, and others that are the same for all integers."""
    known = known_comparison(instruction)
    return None if known is None else splat_like(write, instruction, known)


@REWRITES.rule(opcodes.COMPARE)
def compare_with_type_limit(write: Writer, instruction: Instruction) -> Instruction | None:
    """x < least and x > greatest -> false, x >= least and x <= greatest -> true of integers."""
    lhs, rhs = instruction.operands
    t = lhs.shape.element_type
    limits = limits_of_type(t) if t.is_integral else None
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
    for value, other in operand_orders(instruction):
        known = splat(other)
        if known is not None:
            return value if bool(known) == equal else write.add(opcodes.NOT, value, shape=instruction.shape)
    return None


# -- select


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
    if element_type_of(instruction) is not PRED or predicate.shape.dimensions != instruction.shape.dimensions:
        return None
    values = splat(on_true), splat(on_false)
    if is_true(values[0]) and is_false(values[1]):
        return predicate
    if is_false(values[0]) and is_true(values[1]):
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
