"""Export rules: code outside of HLO.

Owns: custom-call with its layouts, aliases, configuration and called computations. Must not know: what targets do.
"""

from __future__ import annotations

from typing import Any

from xlapy import opcodes
from xlapy.base.errors import ParseError, UnsupportedError
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.custom import CustomCallApiVersion, CustomCallAttributes, CustomCallSchedule
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import order, small
from xlapy.stablehlo.export.core.rules import RULES, Structure
from xlapy.stablehlo.export.core.scope import Scope
from xlapy.stablehlo.export.core.types import leaves
from xlapy.stablehlo.text import read_attribute

_VERSIONS = list(CustomCallApiVersion)
_WITHOUT_FORM = (
    "window", "dim_labels", "feature_group_count", "batch_group_count", "operand_precision", "padding_type", "literal",
)  # fmt: skip


@RULES.rule(opcodes.CUSTOM_CALL)
def custom_call(scope: Scope, instruction: Instruction) -> Structure:
    _check(instruction)
    attributes: dict[str, Any] = {"call_target_name": instruction.custom_call_target}
    if instruction.custom_call_has_side_effect:
        attributes["has_side_effect"] = True
    if instruction.backend_config:
        attributes["backend_config"] = _configuration(instruction)
    if instruction.api_version is not CustomCallApiVersion.ORIGINAL:
        attributes["api_version"] = small(_VERSIONS.index(instruction.api_version))
    if instruction.schedule is not CustomCallSchedule.NONE:
        attributes["custom_call_schedule"] = instruction.schedule.name
    if instruction.computations:
        called = [scope.program.function(computation) for computation in instruction.computations]
        attributes["called_computations"] = tuple(map(ir.SymbolReference, called))
    attributes |= _layouts(instruction)
    if instruction.output_to_operand_aliasing:
        attributes["output_operand_aliases"] = _aliases(instruction)
    return scope.all("stablehlo.custom_call", instruction, attributes)


def _check(instruction: Instruction) -> None:
    plain = CustomCallAttributes.make(custom_call_target=instruction.custom_call_target)
    for name in _WITHOUT_FORM:
        if getattr(instruction, name) != getattr(plain, name):
            raise UnsupportedError(f"StableHLO's custom calls have no {name}")


def _configuration(instruction: Instruction) -> Any:
    """A dictionary for targets of the typed interface, if it is spelled as one; else the text."""
    text = instruction.backend_config
    if instruction.api_version is not CustomCallApiVersion.TYPED_FFI or not text.startswith("{"):
        return text
    try:
        return read_attribute(text)
    except ParseError:  # JSON
        return text


def _layouts(instruction: Instruction) -> dict[str, Any]:
    constraints = instruction.operand_layout_constraints
    if constraints is None:
        return {}
    operands = [leaf for shape in constraints for leaf in leaves(shape)]
    return {
        "operand_layouts": tuple(map(_order, operands)),
        "result_layouts": tuple(map(_order, leaves(instruction.shape))),
    }


def _order(shape: Shape) -> ir.ElementsAttribute:
    layout = shape.layout or Layout.default(shape.rank if shape.is_array else 0)
    return order(layout.minor_to_major)


def _aliases(instruction: Instruction) -> tuple[ir.StructAttribute, ...]:
    """Operands that are tuples are taken apart, so an alias names the leaf."""
    found: list[ir.StructAttribute] = []
    for alias in instruction.output_to_operand_aliasing:
        before = sum(len(leaves(operand.shape)) for operand in instruction.operands[: alias.operand])
        paths = [path for path, _ in instruction.operands[alias.operand].shape.leaves()]
        results = [path for path, _ in instruction.shape.leaves()]
        if alias.output_index not in results or alias.operand_index not in paths:
            raise UnsupportedError(f"StableHLO has no alias of whole tuples: {alias}")
        number = results.index(alias.output_index)
        fields = {
            "output_tuple_indices": (number,) if instruction.shape.is_tuple and len(results) > 1 else (),
            "operand_index": before + paths.index(alias.operand_index),
            "operand_tuple_indices": (),
        }
        found.append(ir.StructAttribute("stablehlo.output_operand_alias", fields))
    return tuple(found)
