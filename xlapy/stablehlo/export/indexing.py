"""Export rules of gather and scatter, with their dimension numbers."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.codecs import Attributes
from xlapy.opcodes.indexing import GatherAttributes, ScatterAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import integers
from xlapy.stablehlo.export.core.block_builder import BlockBuilder
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.stablehlo.export.core.value_tree import ValueTree
from xlapy.stablehlo.text.structs import FIELDS


def _dimension_numbers(struct: str, attributes: Attributes) -> ir.StructAttribute:
    """Returns a struct of these attributes, without those that are empty or zero, as MLIR prints it."""
    given = {field: getattr(attributes, field) for field in FIELDS[struct]}
    return ir.StructAttribute(
        f"stablehlo.{struct}", {field: value for field, value in given.items() if value not in (0, ())}
    )


@RULES.rule(opcodes.GATHER)
def gather(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    given = instruction.attributes_as(GatherAttributes)
    attributes = {
        "dimension_numbers": _dimension_numbers("gather", given),
        "slice_sizes": integers(given.slice_sizes),
        "indices_are_sorted": given.indices_are_sorted,
    }
    return builder.emit_for("stablehlo.gather", instruction, attributes)


@RULES.rule(opcodes.SCATTER)
def scatter(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    given = instruction.attributes_as(ScatterAttributes)
    attributes = {
        "scatter_dimension_numbers": _dimension_numbers("scatter", given),
        "indices_are_sorted": given.indices_are_sorted,
        "unique_indices": given.unique_indices,
    }
    return builder.emit_for("stablehlo.scatter", instruction, attributes, [builder.region(instruction.to_apply)])
