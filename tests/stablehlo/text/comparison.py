"""Compares two programs as objects, ignoring value names and positions."""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy.stablehlo import ir


def same(one: ir.Operation, other: ir.Operation) -> str:
    """Returns the first difference of two programs, or "" if there is none."""
    numbers: tuple[dict[int, int], dict[int, int]] = ({}, {})
    operations = list(ir.walk(one)), list(ir.walk(other))
    for numbered, all_of in zip(numbers, operations, strict=True):
        _number(numbered, all_of)
    if len(operations[0]) != len(operations[1]):
        return f"{len(operations[0])} operations and {len(operations[1])}"
    for left, right in zip(*operations, strict=True):
        found = _differs(left, right, *numbers)
        if found:
            return f"{left.name} at line {left.text_line}: {found}"
    return ""


def _number(numbered: dict[int, int], operations: list[ir.Operation]) -> None:
    for operation in operations:
        blocks = [block for region in operation.regions for block in region.blocks]
        for value in [*operation.results, *(value for block in blocks for value in block.arguments)]:
            numbered[id(value)] = len(numbered)


def _differs(left: ir.Operation, right: ir.Operation, lefts: dict[int, int], rights: dict[int, int]) -> str:
    if left.name != right.name:
        return f"the other is {right.name}"
    if [lefts[id(value)] for value in left.operands] != [rights[id(value)] for value in right.operands]:
        return "operands"
    if [value.type for value in left.results] != [value.type for value in right.results]:
        return "types of results"
    shapes = [
        [[[argument.type for argument in block.arguments] for block in region.blocks] for region in operation.regions]
        for operation in (left, right)
    ]
    if shapes[0] != shapes[1]:
        return f"regions {shapes[0]} and {shapes[1]}"
    attributes = _without_defaults(left), _without_defaults(right)
    return "" if plain(attributes[0]) == plain(attributes[1]) else f"{attributes[0]} and {attributes[1]}"


def _without_defaults(operation: ir.Operation) -> dict[str, Any]:
    """Returns the attributes without default values, which MLIR prints in only one of the two forms."""
    return {
        name: value
        for name, value in operation.attributes.items()
        if not (
            (name == "has_side_effect" and value is False)
            or (name in ("backend_config", "infeed_config", "outfeed_config") and value == "")
            or (name in ("arg_attrs", "res_attrs") and not any(value))
            or (name == "api_version" and value.value == 1)
            or (name == "called_computations" and value == ())
            or (name in ("fastmath", "overflowFlags") and value.text == "none")
            or (name in ("isExact", "nonNeg") and value is False)
        )
    }


def plain(attribute: Any) -> Any:
    """Returns an attribute in a form that `==` compares completely: elements by type and bits, text without blanks."""
    if isinstance(attribute, ir.ElementsAttribute):
        values = np.ascontiguousarray(attribute.values)
        return attribute.type, values.shape, str(values.dtype), values.tobytes()
    if isinstance(attribute, ir.FloatAttribute):
        return "float", np.float64(attribute.value).tobytes(), attribute.type
    if isinstance(attribute, ir.OpaqueAttribute):
        return "opaque", attribute.name, (attribute.text or "").replace(" ", "")
    if isinstance(attribute, ir.StructAttribute):
        return attribute.name, plain(attribute.fields)
    if isinstance(attribute, dict):
        return {name: plain(value) for name, value in attribute.items()}
    if isinstance(attribute, tuple):
        return tuple(plain(value) for value in attribute)
    return attribute
