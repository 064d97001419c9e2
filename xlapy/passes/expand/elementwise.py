"""Expansions of elementwise operations."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.passes.expand.core import EXPANSIONS, wide_type
from xlapy.passes.rewrite import Writer


@EXPANSIONS.rule(opcodes.LOGISTIC)
def logistic(write: Writer, instruction: Instruction) -> Instruction:
    """1 / (1 + exp(-x))"""
    t = instruction.shape.element_type
    operand = write.convert(instruction.operands[0], wide_type(t))
    one = write.splat(1, operand.shape)
    exponential = write.add(opcodes.EXPONENTIAL, write.add(opcodes.NEGATE, operand))
    return write.convert(write.add(opcodes.DIVIDE, one, write.add(opcodes.ADD, one, exponential)), t)


@EXPANSIONS.rule(opcodes.CLAMP)
def clamp(write: Writer, instruction: Instruction) -> Instruction:
    """min(max(x, low), high), in this order, so that high wins where low > high."""
    low, operand, high = instruction.operands
    shape = operand.shape
    low, high = (bound if bound.shape.rank == shape.rank else write.broadcast(bound, shape) for bound in (low, high))
    raised = write.add(opcodes.MAXIMUM, operand, low)
    return write.add(opcodes.MINIMUM, raised, high, shape=instruction.shape)
