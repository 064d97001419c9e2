"""Modules, functions, calls and returns."""

from __future__ import annotations

import re
from typing import Any

from xlapy.stablehlo import ir
from xlapy.stablehlo.text.forms.common import ends_with_function_type, ends_with_types_of_operands
from xlapy.stablehlo.text.operations import Argument, Bodies, Body, Form, OperationReader

_VISIBILITY = re.compile(r"(?:public|private|nested)\b")


def module(reader: OperationReader, operation: ir.Operation) -> Bodies:
    """`module @name attributes {...} { ... }`"""
    if reader.cursor.peek("@"):
        operation.attributes["sym_name"] = reader.cursor.symbol("the name of a module")
    reader.attributes_with_keyword(operation)
    region = ir.Region([ir.Block()])
    yield from _whole(operation, region)


def _whole(operation: ir.Operation, region: ir.Region) -> Bodies:
    """A region of exactly one block, though it may be empty."""
    operation.regions = [region]
    region.blocks.clear()
    yield Body(region, is_isolated=True)
    if not region.blocks:
        region.blocks.append(ir.Block())


def function(reader: OperationReader, operation: ir.Operation) -> Bodies:
    """`func.func public @name(%a: type {...} loc(...)) -> (type {...}) attributes {...} { ... }`

    A declaration has no body, and types without names.
    """
    cursor = reader.cursor
    visibility = cursor.match(_VISIBILITY)
    operation.attributes["sym_name"] = ""
    operation.attributes["sym_name"] = cursor.symbol("the name of a function")
    if visibility is not None:
        operation.attributes["sym_visibility"] = visibility.group()
    cursor.expect("(", "before the arguments of a function")
    arguments = cursor.separated(")", lambda: _argument(reader))
    results = _results(reader) if cursor.accept("->") else []
    operation.attributes["function_type"] = ir.FunctionType(
        tuple(argument.type for argument, _ in arguments), tuple(type_ for type_, _ in results)
    )
    _attributes_of(operation, "arg_attrs", [attributes for _, attributes in arguments])
    _attributes_of(operation, "res_attrs", [attributes for _, attributes in results])
    reader.attributes_with_keyword(operation)
    region = ir.Region()
    operation.regions = [region]
    if cursor.peek("{"):
        named = [argument for argument, _ in arguments]
        if any(not argument.name for argument in named):
            cursor.fail("the arguments of a function with a body need names")
        yield Body(region, named, is_isolated=True)


def _argument(reader: OperationReader) -> tuple[Argument, dict[str, Any]]:
    position = reader.cursor.skip()
    name = ""
    if reader.cursor.peek("%"):
        name = reader.value_name().name
        reader.cursor.expect(":", "before the type of an argument")
    type_ = reader.types.read()
    attributes = reader.attributes.read_dictionary() if reader.cursor.peek("{") else {}
    return Argument(name, type_, position, reader.location()), attributes


def _results(reader: OperationReader) -> list[tuple[ir.Type, dict[str, Any]]]:
    if reader.cursor.accept("("):
        return reader.cursor.separated(")", lambda: _result(reader))
    return [(reader.types.read(), {})]


def _result(reader: OperationReader) -> tuple[ir.Type, dict[str, Any]]:
    type_ = reader.types.read()
    return type_, reader.attributes.read_dictionary() if reader.cursor.peek("{") else {}


def _attributes_of(operation: ir.Operation, name: str, attributes: list[dict[str, Any]]) -> None:
    if any(attributes):
        operation.attributes[name] = tuple(attributes)


def call(reader: OperationReader, operation: ir.Operation) -> None:
    """`call @name(%a, %b) {...} : (...) -> ...`"""
    cursor = reader.cursor
    operation.attributes["callee"] = ir.SymbolReference(cursor.symbol("the name of a function"))
    cursor.expect("(", "before the operands of a call")
    operation.operands = reader.operands()
    cursor.expect(")", "after the operands of a call")
    ends_with_function_type(reader, operation)


def terminator(reader: OperationReader, operation: ir.Operation) -> None:
    """`return %a, %b : type, type`"""
    operation.operands = reader.operands()
    ends_with_types_of_operands(reader, operation)


def cast(reader: OperationReader, operation: ir.Operation) -> None:
    """`builtin.unrealized_conversion_cast %a : type to type`"""
    operation.operands = reader.operands()
    position = reader.cursor.skip()
    types: list[ir.Type] = []
    if operation.operands:
        reader.cursor.expect(":", "before the types of a cast")
        types = reader.types.read_list()
    reader.check(operation, types, position)
    reader.cursor.expect_word("to")
    reader.results(operation, reader.types.read_list())
    reader.attribute_dictionary(operation)


FORMS: dict[str, Form] = {
    "builtin.module": module,
    "builtin.unrealized_conversion_cast": cast,
    "func.func": function,
    "func.call": call,
    "func.return": terminator,
}
