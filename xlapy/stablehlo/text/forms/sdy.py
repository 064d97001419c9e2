"""Shardy's operations. What they say of shardings is kept as it is spelled."""

from __future__ import annotations

import re

from xlapy.stablehlo import ir
from xlapy.stablehlo.text.forms.common import (
    I32,
    assigned,
    ends_with_function_type,
    ends_with_result_type,
    ends_with_same_type,
    ends_with_types_of_operands,
    set_integer,
)
from xlapy.stablehlo.text.forms.sources import constant
from xlapy.stablehlo.text.operations import Bodies, Body, Form, OperationReader

_LISTS = "sdy.list_of_axis_ref_lists"
_AXES = "sdy.axis_ref_list"
_COLLECTIVES = {
    "all_gather": ("gathering_axes", _LISTS),
    "all_reduce": ("reduction_axes", _AXES),
    "all_slice": ("slicing_axes", _LISTS),
    "all_to_all": ("params", "sdy.all_to_all_param_list"),
    "collective_permute": None,
    "reduce_scatter": ("reduce_scatter_axes", _LISTS),
    "replicated_to_unreduced": ("axes", _AXES),
    "sharded_to_unreduced": ("axes", _LISTS),
}
"""Per operation, the attribute that stands before the operand and its kind."""

_DIRECTIONS = ("NONE", "FORWARD", "BACKWARD", "BOTH")
_BRACKET = re.compile(r"(?=[<\[{])")


def _spelled(reader: OperationReader, kind: str) -> ir.OpaqueAttribute:
    """What stands in brackets; those of `<...>` belong to no kind."""
    cursor = reader.cursor
    if cursor.match(_BRACKET) is None:
        cursor.fail(f"expected {kind}, in brackets, found {cursor.describe_next()}")
    start = cursor.position
    inside = cursor.balanced()
    return ir.OpaqueAttribute(kind, inside if cursor.text[start] == "<" else cursor.text[start : cursor.position])


def _set_spelled(reader: OperationReader, operation: ir.Operation, word: str, kind: str) -> None:
    """`word=[...]`"""
    assigned(reader, word)
    operation.attributes[word] = _spelled(reader, kind)


def mesh(reader: OperationReader, operation: ir.Operation) -> None:
    """`@name = <["x"=2]> {...}`"""
    operation.attributes["sym_name"] = reader.cursor.symbol("the name of a mesh")
    reader.cursor.expect("=", "after the name of a mesh")
    operation.attributes["mesh"] = _spelled(reader, "sdy.mesh")
    reader.attribute_dictionary(operation)


def constrained(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a <@mesh, [{"x"}, {}]> {...} : type`"""
    operation.operands = [reader.operand()]
    operation.attributes["sharding"] = _spelled(reader, "sdy.sharding")
    ends_with_same_type(reader, operation)


def sharding_group(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a group_id=3 {...} : type`"""
    operation.operands = [reader.operand()]
    set_integer(reader, operation, "group_id", "group_id")
    ends_with_types_of_operands(reader, operation)


def propagation_barrier(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a allowed_direction=NONE {...} : type`"""
    cursor = reader.cursor
    operation.operands = [reader.operand()]
    assigned(reader, "allowed_direction")
    start = cursor.skip()
    word = cursor.word("a direction")
    if word not in _DIRECTIONS:
        cursor.fail_at(start, f"a direction is one of {', '.join(_DIRECTIONS)}; found {word!r}")
    operation.attributes["allowed_direction"] = ir.IntegerAttribute(_DIRECTIONS.index(word), I32)
    ends_with_same_type(reader, operation)


def data_flow_edge(reader: OperationReader, operation: ir.Operation) -> None:
    """`%a sharding=<@mesh, [{}]> {...} : type`, the sharding of which may be missing."""
    operation.operands = [reader.operand()]
    if reader.cursor.accept_word("sharding"):
        reader.cursor.expect("=", "after 'sharding'")
        operation.attributes["sharding"] = _spelled(reader, "sdy.sharding")
    ends_with_same_type(reader, operation)


def collective(reader: OperationReader, operation: ir.Operation) -> None:
    """`[{"x"}, {}] %a out_sharding=<@mesh, [{}, {}]> {...} : type`"""
    axes = _COLLECTIVES[operation.name.partition(".")[2]]
    if axes is not None:
        name, kind = axes
        operation.attributes[name] = _spelled(reader, kind)
    operation.operands = [reader.operand()]
    _set_spelled(reader, operation, "out_sharding", "sdy.sharding")
    ends_with_result_type(reader, operation)


def terminator(reader: OperationReader, operation: ir.Operation) -> None:
    """`{...} %a, %b : type, type`"""
    reader.attribute_dictionary(operation)
    operation.operands = reader.operands()
    ends_with_types_of_operands(reader, operation)


def manual_computation(reader: OperationReader, operation: ir.Operation) -> Bodies:
    """`(%a) in_shardings=[...] out_shardings=[...] manual_axes={"x"} (%b: type) { ... } {...} : (...) -> ...`"""
    _operands(reader, operation)
    _set_spelled(reader, operation, "in_shardings", "sdy.sharding_per_value")
    _set_spelled(reader, operation, "out_shardings", "sdy.sharding_per_value")
    _set_spelled(reader, operation, "manual_axes", "sdy.manual_axes")
    yield from _body(reader, operation)


def named_computation(reader: OperationReader, operation: ir.Operation) -> Bodies:
    """`<"name">(%a) in_shardings=[...] out_shardings=[...] (%b: type) { ... } {...} : (...) -> ...`"""
    cursor = reader.cursor
    cursor.expect("<", "before the name of a computation")
    operation.attributes["name"] = cursor.string("the name of a computation")
    cursor.expect(">", "after the name of a computation")
    _operands(reader, operation)
    for word in ("in_shardings", "out_shardings"):
        if cursor.accept_word(word):
            cursor.expect("=", f"after {word!r}")
            operation.attributes[word] = _spelled(reader, "sdy.sharding_per_value")
    yield from _body(reader, operation)


def _operands(reader: OperationReader, operation: ir.Operation) -> None:
    reader.cursor.expect("(", f"before the operands of {operation.name}")
    operation.operands = reader.operands()
    reader.cursor.expect(")", f"after the operands of {operation.name}")


def _body(reader: OperationReader, operation: ir.Operation) -> Bodies:
    reader.cursor.expect("(", "before the arguments of a computation")
    arguments = reader.cursor.separated(")", reader.argument)
    region = ir.Region()
    operation.regions.append(region)
    yield Body(region, arguments, is_isolated=True)
    ends_with_function_type(reader, operation)


FORMS: dict[str, Form] = {
    **{f"sdy.{name}": collective for name in _COLLECTIVES},
    "sdy.constant": constant,
    "sdy.data_flow_edge": data_flow_edge,
    "sdy.manual_computation": manual_computation,
    "sdy.mesh": mesh,
    "sdy.named_computation": named_computation,
    "sdy.propagation_barrier": propagation_barrier,
    "sdy.reshard": constrained,
    "sdy.return": terminator,
    "sdy.sharding_constraint": constrained,
    "sdy.sharding_group": sharding_group,
}
