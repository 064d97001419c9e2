"""Export rules of sort and topk."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.sorting import SortAttributes, TopKAttributes
from xlapy.stablehlo.export.core.attributes import integer
from xlapy.stablehlo.export.core.block_builder import BlockBuilder
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.stablehlo.export.core.value_tree import ValueTree


@RULES.rule(opcodes.SORT)
def sort(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    attributes = {
        "dimension": integer(instruction.dimension),
        "is_stable": instruction.attributes_as(SortAttributes).is_stable,
    }
    return builder.emit_for("stablehlo.sort", instruction, attributes, [builder.region(instruction.to_apply)])


@RULES.rule(opcodes.TOPK)
def topk(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    """Exports the largest elements as CHLO's top_k, the smallest as the custom call `mhlo.topk`, which XLA reads."""
    given = instruction.attributes_as(TopKAttributes)
    if given.largest:
        attributes = {"k": integer(given.k), "is_stable": given.is_stable}
        return builder.emit_for("chlo.top_k", instruction, attributes)
    target_attributes = {"k": integer(given.k), "largest": False}
    return builder.emit_for(
        "stablehlo.custom_call", instruction, {"call_target_name": "mhlo.topk", "mhlo.attributes": target_attributes}
    )
