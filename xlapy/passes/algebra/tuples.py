"""Rewrites of tuples that are made and taken apart again.

Must not know: what is in the tuples.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.passes.algebra.core import REWRITES
from xlapy.passes.rewrite import Writer


@REWRITES.rule(opcodes.GET_TUPLE_ELEMENT)
def element_of_tuple(write: Writer, instruction: Instruction) -> Instruction | None:
    """Element i of tuple(a, b, ...) -> the operand i."""
    (operand,) = instruction.operands
    return operand.operands[instruction.index] if operand.op is opcodes.TUPLE else None


@REWRITES.rule(opcodes.GET_TUPLE_ELEMENT)
def element_of_constant(write: Writer, instruction: Instruction) -> Instruction | None:
    """Element i of a constant tuple -> a constant."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.CONSTANT:
        return None
    return write.literal(operand.literal.elements[instruction.index], instruction.shape)


@REWRITES.rule(opcodes.TUPLE)
def tuple_of_elements(write: Writer, instruction: Instruction) -> Instruction | None:
    """tuple(element 0 of x, element 1 of x, ...) of all elements of x -> x."""
    operands = instruction.operands
    if not operands or operands[0].op is not opcodes.GET_TUPLE_ELEMENT:
        return None
    (source,) = operands[0].operands
    if len(operands) != len(source.shape.tuple_shapes):
        return None
    for index, operand in enumerate(operands):
        if operand.op is not opcodes.GET_TUPLE_ELEMENT or operand.operands[0] is not source or operand.index != index:
            return None
    return source
