"""Custom parsers of modules, functions, calls, returns and casts."""

from __future__ import annotations

import re
from typing import Any

from xlapy.base.error_codes.formats import hlo_text as codes
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.custom_parsers.common import finish_with_function_type, finish_with_types_of_operands
from xlapy.stablehlo.text.operations import Argument, CustomParser, OperationParser, RegionStart, RegionStarts

_VISIBILITY = re.compile(r"(?:public|private|nested)\b", re.ASCII)


def module(parser: OperationParser, operation: ir.Operation) -> RegionStarts:
    """Parses `module @name attributes {...} { ... }`."""
    if parser.cursor.peek("@"):
        operation.attributes["sym_name"] = parser.cursor.symbol("the name of a module")
    parser.optional_attributes_with_keyword(operation)
    region = ir.Region([ir.Block()])
    yield from _whole(operation, region)


def _whole(operation: ir.Operation, region: ir.Region) -> RegionStarts:
    """Yields a region that gets exactly one block, even if its text is empty."""
    operation.regions = [region]
    region.blocks.clear()
    yield RegionStart(region, is_isolated=True)
    if not region.blocks:
        region.blocks.append(ir.Block())


def function(parser: OperationParser, operation: ir.Operation) -> RegionStarts:
    """Parses `func.func public @name(%a: type {...} loc(...)) -> (type {...}) attributes {...} { ... }`.

    A declaration has no body, and its arguments may have no names.
    """
    cursor = parser.cursor
    visibility = cursor.match(_VISIBILITY)
    operation.attributes["sym_name"] = ""
    operation.attributes["sym_name"] = cursor.symbol("the name of a function")
    if visibility is not None:
        operation.attributes["sym_visibility"] = visibility.group()
    cursor.expect("(", "before the arguments of a function")
    arguments = cursor.separated(")", lambda: _argument(parser))
    results = _results(parser) if cursor.accept("->") else []
    operation.attributes["function_type"] = ir.FunctionType(
        tuple(argument.type for argument, _ in arguments), tuple(type_ for type_, _ in results)
    )
    _attributes_of(operation, "arg_attrs", [attributes for _, attributes in arguments])
    _attributes_of(operation, "res_attrs", [attributes for _, attributes in results])
    parser.optional_attributes_with_keyword(operation)
    region = ir.Region()
    operation.regions = [region]
    if cursor.peek("{"):
        named = [argument for argument, _ in arguments]
        if any(not argument.name for argument in named):
            cursor.fail(codes.TOKEN, "the arguments of a function with a body need names")
        yield RegionStart(region, named, is_isolated=True)


def _argument(parser: OperationParser) -> tuple[Argument, dict[str, Any]]:
    position = parser.cursor.skip()
    name = ""
    if parser.cursor.peek("%"):
        name = parser.argument_name().name
        parser.cursor.expect(":", "before the type of an argument")
    type_ = parser.types.parse()
    attributes = parser.attributes.parse_dictionary() if parser.cursor.peek("{") else {}
    return Argument(name, type_, position, parser.skip_location()), attributes


def _results(parser: OperationParser) -> list[tuple[ir.Type, dict[str, Any]]]:
    if parser.cursor.accept("("):
        return parser.cursor.separated(")", lambda: _result(parser))
    return [(parser.types.parse(), {})]


def _result(parser: OperationParser) -> tuple[ir.Type, dict[str, Any]]:
    type_ = parser.types.parse()
    return type_, parser.attributes.parse_dictionary() if parser.cursor.peek("{") else {}


def _attributes_of(operation: ir.Operation, name: str, attributes: list[dict[str, Any]]) -> None:
    if any(attributes):
        operation.attributes[name] = tuple(attributes)


def call(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `call @name(%a, %b) {...} : (...) -> ...`."""
    cursor = parser.cursor
    operation.attributes["callee"] = ir.SymbolReference(cursor.symbol("the name of a function"))
    cursor.expect("(", "before the operands of a call")
    operation.operands = parser.operands()
    cursor.expect(")", "after the operands of a call")
    finish_with_function_type(parser, operation)


def terminator(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `return %a, %b : type, type`."""
    operation.operands = parser.operands()
    finish_with_types_of_operands(parser, operation)


def cast(parser: OperationParser, operation: ir.Operation) -> None:
    """Parses `builtin.unrealized_conversion_cast %a : type to type`."""
    operation.operands = parser.operands()
    position = parser.cursor.skip()
    types: list[ir.Type] = []
    if operation.operands:
        parser.cursor.expect(":", "before the types of a cast")
        types = parser.types.parse_list()
    parser.check_operand_types(operation, types, position)
    parser.cursor.expect_word("to")
    parser.make_results(operation, parser.types.parse_list())
    parser.optional_attributes(operation)


CUSTOM_PARSERS: dict[str, CustomParser] = {
    "builtin.module": module,
    "builtin.unrealized_conversion_cast": cast,
    "func.func": function,
    "func.call": call,
    "func.return": terminator,
}
