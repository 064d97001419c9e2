"""Export rules of elementwise opcodes. Those that StableHLO lacks become CHLO operations or composites."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import CompareAttributes, ReducePrecisionAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.elementwise_operations import COMPOSITES, OPERATIONS, composite_name
from xlapy.stablehlo.export.core.attributes import integer32
from xlapy.stablehlo.export.core.block_builder import BlockBuilder
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.stablehlo.export.core.value_tree import ValueTree


@RULES.rule(*OPERATIONS)
def elementwise(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.emit_for(OPERATIONS[instruction.op], instruction)


@RULES.rule(*COMPOSITES.values())
def composite(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    """Exports an opcode that neither dialect has as a composite, whose decomposition computes the same."""
    function = builder.context.function_name(builder.context.decomposition(instruction))
    attributes = {
        "name": composite_name(instruction.op),
        "decomposition": ir.SymbolReference(function),
        "version": integer32(1),
    }
    return builder.emit_for("stablehlo.composite", instruction, attributes)


@RULES.rule(opcodes.COMPARE)
def compare(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    given = instruction.attributes_as(CompareAttributes)
    attributes = {"comparison_direction": given.direction.name}
    if given.type is not None:
        attributes["compare_type"] = given.type.name
    return builder.emit_for("stablehlo.compare", instruction, attributes)


@RULES.rule(opcodes.REDUCE_PRECISION)
def reduce_precision(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    given = instruction.attributes_as(ReducePrecisionAttributes)
    attributes = {
        "exponent_bits": integer32(given.exponent_bits),
        "mantissa_bits": integer32(given.mantissa_bits),
    }
    return builder.emit_for("stablehlo.reduce_precision", instruction, attributes)
