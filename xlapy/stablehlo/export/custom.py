"""Export rule of custom-call, with its layouts, aliases, backend config and called computations.

Does not depend on what targets do.
"""

from __future__ import annotations

from typing import Any

from xlapy import opcodes
from xlapy.base.error_codes.formats import stablehlo_export as codes
from xlapy.base.errors import ParseError, UnsupportedError
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.custom import CustomCallApiVersion, CustomCallAttributes, CustomCallSchedule
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import integer32, layout_order
from xlapy.stablehlo.export.core.block_builder import BlockBuilder
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.stablehlo.export.core.types import leaves
from xlapy.stablehlo.export.core.value_tree import ValueTree
from xlapy.stablehlo.text import parse_attribute

_VERSIONS = list(CustomCallApiVersion)
_UNSUPPORTED_ATTRIBUTES = (
    "window", "dim_labels", "feature_group_count", "batch_group_count", "operand_precision", "padding_type", "literal",
)  # fmt: skip


@RULES.rule(opcodes.CUSTOM_CALL)
def custom_call(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    _check_attributes(instruction)
    attributes: dict[str, Any] = {"call_target_name": instruction.custom_call_target}
    given = instruction.attributes_as(CustomCallAttributes)
    if given.custom_call_has_side_effect:
        attributes["has_side_effect"] = True
    if instruction.backend_config:
        attributes["backend_config"] = _configuration(instruction)
    if given.api_version is not CustomCallApiVersion.ORIGINAL:
        attributes["api_version"] = integer32(_VERSIONS.index(given.api_version))
    if given.schedule is not CustomCallSchedule.NONE:
        attributes["custom_call_schedule"] = given.schedule.name
    if instruction.computations:
        called = [builder.context.function_name(computation) for computation in instruction.computations]
        attributes["called_computations"] = tuple(map(ir.SymbolReference, called))
    attributes |= _layouts(instruction)
    if given.output_to_operand_aliasing:
        attributes["output_operand_aliases"] = _aliases(instruction)
    return builder.emit_for("stablehlo.custom_call", instruction, attributes)


def _check_attributes(instruction: Instruction) -> None:
    """Raises `UnsupportedError` if an attribute that StableHLO lacks does not have its default value."""
    default = CustomCallAttributes.make(custom_call_target=instruction.custom_call_target)
    for name in _UNSUPPORTED_ATTRIBUTES:
        if getattr(instruction, name) != getattr(default, name):
            raise UnsupportedError(codes.EXPORTED_ATTRIBUTE, f"StableHLO's custom calls have no {name}")


def _configuration(instruction: Instruction) -> Any:
    """Returns the backend config: a dictionary for typed FFI if the text is an MLIR dictionary, else the text."""
    text = instruction.backend_config
    if instruction.attributes_as(
        CustomCallAttributes
    ).api_version is not CustomCallApiVersion.TYPED_FFI or not text.startswith("{"):
        return text
    try:
        return parse_attribute(text)
    except ParseError:  # JSON
        return text


def _layouts(instruction: Instruction) -> dict[str, Any]:
    constraints = instruction.attributes_as(CustomCallAttributes).operand_layout_constraints
    if constraints is None:
        return {}
    operands = [leaf for shape in constraints for leaf in leaves(shape)]
    return {
        "operand_layouts": tuple(map(_layout_attribute, operands)),
        "result_layouts": tuple(map(_layout_attribute, leaves(instruction.shape))),
    }


def _layout_attribute(shape: Shape) -> ir.ElementsAttribute:
    layout = shape.layout or Layout.default(shape.rank if shape.is_array else 0)
    return layout_order(layout.minor_to_major)


def _aliases(instruction: Instruction) -> tuple[ir.StructAttribute, ...]:
    """Returns the aliases. Tuple operands are flattened, so that an alias refers to a leaf."""
    aliases: list[ir.StructAttribute] = []
    for alias in instruction.attributes_as(CustomCallAttributes).output_to_operand_aliasing:
        before = sum(len(leaves(operand.shape)) for operand in instruction.operands[: alias.operand])
        paths = [path for path, _ in instruction.operands[alias.operand].shape.leaves()]
        results = [path for path, _ in instruction.shape.leaves()]
        if alias.output_index not in results or alias.operand_index not in paths:
            raise UnsupportedError(codes.EXPORTED_ALIAS, f"StableHLO cannot alias a whole tuple: {alias}")
        number = results.index(alias.output_index)
        fields = {
            "output_tuple_indices": (number,) if instruction.shape.is_tuple and len(results) > 1 else (),
            "operand_index": before + paths.index(alias.operand_index),
            "operand_tuple_indices": (),
        }
        aliases.append(ir.StructAttribute("stablehlo.output_operand_alias", fields))
    return tuple(aliases)
