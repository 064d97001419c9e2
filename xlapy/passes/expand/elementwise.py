"""Expansions of elementwise operations."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.passes.expand.blocks import compare
from xlapy.passes.expand.core import EXPANSIONS, wide_type
from xlapy.passes.rewrite import Writer


@EXPANSIONS.rule(opcodes.LOGISTIC)
def logistic(write: Writer, instruction: Instruction) -> Instruction:
    """exp(min(x, 0)) / (exp(min(x, 0)) + exp(min(-x, 0))), in which nothing overflows: for large negative x,
    1 / (1 + exp(-x)) is 0 where the result is a denormal number. For complex x, the signs are those of its real part.
    """
    t = instruction.shape.element_type
    operand = write.convert(instruction.operands[0], wide_type(t))
    negated, zero = write.add(opcodes.NEGATE, operand), write.splat(0, operand.shape)
    if t.is_complex:
        part = write.add(opcodes.REAL, operand)
        is_negative = compare(write, part, write.splat(0, part.shape), ComparisonDirection.LT)
        exponents = [
            write.add(opcodes.SELECT, is_negative, *choices, shape=operand.shape)
            for choices in ((operand, zero), (zero, negated))
        ]
    else:
        exponents = [write.add(opcodes.NEGATE, write.add(opcodes.MAXIMUM, value, zero)) for value in (negated, operand)]
    upper, rest = (write.add(opcodes.EXPONENTIAL, exponent) for exponent in exponents)
    return write.convert(write.add(opcodes.DIVIDE, upper, write.add(opcodes.ADD, upper, rest)), t)


@EXPANSIONS.rule(opcodes.CLAMP)
def clamp(write: Writer, instruction: Instruction) -> Instruction:
    """min(max(x, low), high), in this order, so that high wins where low > high."""
    low, operand, high = instruction.operands
    shape = operand.shape
    low, high = (bound if bound.shape.rank == shape.rank else write.broadcast(bound, shape) for bound in (low, high))
    raised = write.add(opcodes.MAXIMUM, operand, low)
    return write.add(opcodes.MINIMUM, raised, high, shape=instruction.shape)
