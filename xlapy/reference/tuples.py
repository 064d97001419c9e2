"""Definitions of tuple and get-tuple-element."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.reference.core import Value, defines


@defines(opcodes.TUPLE)
def tuple_(instruction: Instruction, *operands: Value) -> Value:
    """The tuple of the operands."""
    return operands


@defines(opcodes.GET_TUPLE_ELEMENT)
def get_tuple_element(instruction: Instruction, operand: Value) -> Value:
    """The element at `index`, counted from 0."""
    return operand[instruction.tuple_index]
