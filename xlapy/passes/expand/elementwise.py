"""Expansions of elementwise operations."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.element_types import C64
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.builder.mathematics.decompositions import DECOMPOSITIONS, decomposition_of
from xlapy.hlo.computation import is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.registry import OpDef
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


def _is_real(op: OpDef) -> bool:
    """Returns whether a unary opcode refuses complex numbers, so that its decomposition covers all its operands."""
    try:
        op.result_shape([Shape.scalar(C64)])
    except ShapeError:
        return True
    return False


@EXPANSIONS.rule(*filter(_is_real, DECOMPOSITIONS))
def decomposed(write: Writer, instruction: Instruction) -> Instruction:
    """The decomposition of the builder, which computes narrower floats in f32."""
    (operand,) = instruction.operands
    decomposition = decomposition_of(instruction.op, operand.shape.without_layout(), instruction.op.name)
    written: dict[Instruction, Instruction] = {}
    for inner in decomposition:
        operands = [written[each] for each in inner.operands]
        shape = inner.shape if inner.op.infer is None else None
        written[inner] = (
            operand if is_parameter(inner) else write.add(inner.op, *operands, attributes=inner.attributes, shape=shape)
        )
    return written[decomposition.root_instruction]
