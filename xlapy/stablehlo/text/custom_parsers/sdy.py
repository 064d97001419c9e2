"""Custom parsers of Shardy (`sdy`). Shardings and axes are kept as text in opaque attributes."""

from __future__ import annotations

import re

from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.custom_parsers.common import (
    I32,
    expect_assignment,
    finish_with_function_type,
    finish_with_result_type,
    finish_with_same_type,
    finish_with_types_of_operands,
    set_integer,
)
from xlapy.stablehlo.text.custom_parsers.sources import constant
from xlapy.stablehlo.text.operations import CustomParser, OperationParser, RegionStart, RegionStarts

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
"""For each collective, the attribute before the operand: its name in the operation and the name of its kind."""

_DIRECTIONS = ("NONE", "FORWARD", "BACKWARD", "BOTH")
_BRACKET = re.compile(r"(?=[<\[{])", re.ASCII)


def _spelled(parser: OperationParser, kind: str) -> ir.OpaqueAttribute:
    """Parses text in brackets as an opaque attribute. The brackets belong to the text unless they are `<...>`."""
    cursor = parser.cursor
    if cursor.match(_BRACKET) is None:
        cursor.fail(text_codes.TOKEN, f"expected {kind}, in brackets, found {cursor.describe_next()}")
    start = cursor.position
    inside = cursor.balanced()
    return ir.OpaqueAttribute(kind, inside if cursor.text[start] == "<" else cursor.text[start : cursor.position])


def _set_spelled(parser: OperationParser, operation: ir.Operation, word: str, kind: str) -> None:
    """Parses `word=[...]`."""
    expect_assignment(parser, word)
    operation.attributes[word] = _spelled(parser, kind)


def mesh(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `@name = <["x"=2]> {...}`."""
    operation.attributes["sym_name"] = parser.cursor.symbol("the name of a mesh")
    parser.cursor.expect("=", "after the name of a mesh")
    operation.attributes["mesh"] = _spelled(parser, "sdy.mesh")
    parser.optional_attributes(operation)


def constrained(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a <@mesh, [{"x"}, {}]> {...} : type`."""
    operation.operands = [parser.operand()]
    operation.attributes["sharding"] = _spelled(parser, "sdy.sharding")
    finish_with_same_type(parser, operation)


def sharding_group(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a group_id=3 {...} : type`."""
    operation.operands = [parser.operand()]
    set_integer(parser, operation, "group_id", "group_id")
    finish_with_types_of_operands(parser, operation)


def propagation_barrier(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a allowed_direction=NONE {...} : type`."""
    cursor = parser.cursor
    operation.operands = [parser.operand()]
    expect_assignment(parser, "allowed_direction")
    start = cursor.skip()
    word = cursor.word("a direction")
    if word not in _DIRECTIONS:
        cursor.fail_at(start, codes.KNOWN_KEYWORD, f"a direction is one of {', '.join(_DIRECTIONS)}; found {word!r}")
    operation.attributes["allowed_direction"] = ir.IntegerAttribute(_DIRECTIONS.index(word), I32)
    finish_with_same_type(parser, operation)


def data_flow_edge(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `%a sharding=<@mesh, [{}]> {...} : type`. The sharding is optional."""
    operation.operands = [parser.operand()]
    if parser.cursor.accept_word("sharding"):
        parser.cursor.expect("=", "after 'sharding'")
        operation.attributes["sharding"] = _spelled(parser, "sdy.sharding")
    finish_with_same_type(parser, operation)


def collective(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `[{"x"}, {}] %a out_sharding=<@mesh, [{}, {}]> {...} : type`."""
    axes = _COLLECTIVES[operation.name.partition(".")[2]]
    if axes is not None:
        name, kind = axes
        operation.attributes[name] = _spelled(parser, kind)
    operation.operands = [parser.operand()]
    _set_spelled(parser, operation, "out_sharding", "sdy.sharding")
    finish_with_result_type(parser, operation)


def terminator(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `{...} %a, %b : type, type`."""
    parser.optional_attributes(operation)
    operation.operands = parser.operands()
    finish_with_types_of_operands(parser, operation)


def manual_computation(parser: OperationParser, operation: ir.Operation) -> RegionStarts:
    """Parses `(%a) in_shardings=[...] out_shardings=[...] manual_axes={...} (%b: type) {...} {...} : (...) -> ...`."""
    _operands(parser, operation)
    _set_spelled(parser, operation, "in_shardings", "sdy.sharding_per_value")
    _set_spelled(parser, operation, "out_shardings", "sdy.sharding_per_value")
    _set_spelled(parser, operation, "manual_axes", "sdy.manual_axes")
    yield from _body(parser, operation)


def named_computation(parser: OperationParser, operation: ir.Operation) -> RegionStarts:
    """Parses `<"name">(%a) in_shardings=[...] out_shardings=[...] (%b: type) { ... } {...} : (...) -> ...`."""
    cursor = parser.cursor
    cursor.expect("<", "before the name of a computation")
    operation.attributes["name"] = cursor.string("the name of a computation")
    cursor.expect(">", "after the name of a computation")
    _operands(parser, operation)
    for word in ("in_shardings", "out_shardings"):
        if cursor.accept_word(word):
            cursor.expect("=", f"after {word!r}")
            operation.attributes[word] = _spelled(parser, "sdy.sharding_per_value")
    yield from _body(parser, operation)


def _operands(parser: OperationParser, operation: ir.Operation) -> None:
    parser.cursor.expect("(", f"before the operands of {operation.name}")
    operation.operands = parser.operands()
    parser.cursor.expect(")", f"after the operands of {operation.name}")


def _body(parser: OperationParser, operation: ir.Operation) -> RegionStarts:
    parser.cursor.expect("(", "before the arguments of a computation")
    arguments = parser.cursor.separated(")", parser.argument)
    region = ir.Region()
    operation.regions.append(region)
    yield RegionStart(region, arguments, is_isolated=True)
    finish_with_function_type(parser, operation)


CUSTOM_PARSERS: dict[str, CustomParser] = {
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
