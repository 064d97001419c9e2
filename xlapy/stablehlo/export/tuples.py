"""Export rules of tuple and get-tuple-element, which become value trees and no operations."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.error_codes.formats import stablehlo_export as codes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo.export.core.block_builder import BlockBuilder
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.stablehlo.export.core.value_tree import ValueTree


@RULES.rule(opcodes.TUPLE)
def tuple_(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return tuple([builder.values[operand] for operand in instruction.operands])


@RULES.rule(opcodes.GET_TUPLE_ELEMENT)
def get_tuple_element(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    (operand,) = instruction.operands
    structure = builder.values[operand]
    if not isinstance(structure, tuple) or len(structure) != len(operand.shape.tuple_shapes):
        raise UnsupportedError(
            codes.EXPORTED_START,
            f"StableHLO has no value for an element of {operand.op.name} before its done instruction",
        )
    return structure[instruction.tuple_index]
