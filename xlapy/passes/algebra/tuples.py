"""Rewrites of tuples and get-tuple-elements that undo each other."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.passes.algebra.core import REWRITES
from xlapy.passes.rewrite import Writer


@REWRITES.rule(opcodes.GET_TUPLE_ELEMENT)
def get_element_of_tuple(write: Writer, instruction: Instruction) -> Instruction | None:
    """Element i of tuple(a, b, ...) -> operand i."""
    (operand,) = instruction.operands
    return operand.operands[instruction.tuple_index] if operand.op is opcodes.TUPLE else None


@REWRITES.rule(opcodes.GET_TUPLE_ELEMENT)
def get_element_of_constant(write: Writer, instruction: Instruction) -> Instruction | None:
    """Element i of a constant tuple -> a constant."""
    (operand,) = instruction.operands
    if operand.op is not opcodes.CONSTANT:
        return None
    return write.constant(operand.literal.elements[instruction.tuple_index], instruction.shape)


@REWRITES.rule(opcodes.TUPLE)
def tuple_of_all_elements(write: Writer, instruction: Instruction) -> Instruction | None:
    """tuple(x[0], x[1], ...) of all elements of x, in order -> x."""
    operands = instruction.operands
    if not operands or operands[0].op is not opcodes.GET_TUPLE_ELEMENT:
        return None
    (source,) = operands[0].operands
    if len(operands) != len(source.shape.tuple_shapes):
        return None
    for index, operand in enumerate(operands):
        if (
            operand.op is not opcodes.GET_TUPLE_ELEMENT
            or operand.operands[0] is not source
            or operand.tuple_index != index
        ):
            return None
    return source
