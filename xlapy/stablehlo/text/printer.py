"""Prints operations as MLIR text that MLIR's parser accepts.

Responsible for value names, indentation, locations, modules, functions and the generic form of operations. The custom
assembly formats of particular operations are in `custom_printers`. Does not depend on what operations mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xlapy.stablehlo import ir
from xlapy.stablehlo.text.print_attributes import dictionary_text, named_text, quoted, symbol_text
from xlapy.stablehlo.text.print_types import function_text, type_text

CustomPrinter = Callable[["Printer", ir.Operation], str | None]
"""Returns the text of an operation after the names of its results, or None if the generic form must be used."""

_NAME = re.compile(r"[A-Za-z_$.\-][\w$.\-]*", re.ASCII)
_FUNCTION = ("sym_name", "sym_visibility", "function_type", "arg_attrs", "res_attrs")


def print_text(module: ir.Operation, custom_printers: dict[str, CustomPrinter], locations: bool = True) -> str:
    """Returns the text of a `builtin.module`. Raises `UnsupportedError` for a type or attribute that MLIR lacks."""
    return Printer(custom_printers, locations).module(module)


class Printer:
    """Prints one program."""

    def __init__(self, custom_printers: dict[str, CustomPrinter], locations: bool) -> None:
        self.custom_printers = custom_printers
        self.locations = locations
        self._names: dict[int, str] = {}
        self._used_names: set[str] = set()
        self._counter = 0
        self._depth = 0
        self._lines: list[str] = []
        self._aliases: dict[ir.FileLocation, str] = {}
        self._definitions: list[str] = []

    # -- modules and functions

    def module(self, module: ir.Operation) -> str:
        """Prints a module and returns the whole text."""
        name = module.attributes.get("sym_name")
        rest = {key: value for key, value in module.attributes.items() if key != "sym_name"}
        head = ["module"]
        if isinstance(name, str) and name:
            head.append(symbol_text(name))
        if rest:
            head.append(f"attributes {dictionary_text(rest)}")
        self._lines.append(" ".join([*head, "{"]))
        self._depth += 1
        for operation in _operations(module):
            self._top_level_operation(operation)
        self._lines.append("}")
        return "\n".join([*self._lines, *self._definitions, ""])

    def _top_level_operation(self, operation: ir.Operation) -> None:
        self._names, self._used_names, self._counter = {}, set(), 0
        if operation.name == "func.func" and operation.regions and operation.regions[0].blocks:
            self._function(operation)
        else:
            self.operation(operation)

    def _function(self, function: ir.Operation) -> None:
        attributes = function.attributes
        type_ = attributes["function_type"]
        (block,) = function.regions[0].blocks
        visibility = attributes.get("sym_visibility", "")
        arguments = [
            f"{self.define(argument)}: {type_text(argument.type)}{attached}{self.location(argument.location)}"
            for argument, attached in zip(
                block.arguments, _dictionaries(attributes, "arg_attrs", block.arguments), strict=True
            )
        ]
        results = [
            f"{type_text(result)}{attached}"
            for result, attached in zip(
                type_.results, _dictionaries(attributes, "res_attrs", type_.results), strict=True
            )
        ]
        rest = {key: value for key, value in attributes.items() if key not in _FUNCTION}
        parts = ["func.func", visibility, f"{symbol_text(attributes['sym_name'])}({', '.join(arguments)})"]
        if results:
            bare = len(results) == 1 and "{" not in results[0]
            parts.append(f"-> {results[0] if bare else f'({_joined(results)})'}")
        if rest:
            parts.append(f"attributes {dictionary_text(rest)}")
        self.line(" ".join(word for word in [*parts, "{"] if word))
        self.block(block.operations)
        self.line("}" + self.location(function.location))

    # -- operations

    def operation(self, operation: ir.Operation) -> None:
        """Prints an operation with its regions, in its custom assembly format if it has one."""
        start = len(self._lines)
        custom_printer = self.custom_printers.get(operation.name)
        text = custom_printer(self, operation) if custom_printer is not None else None
        if text is None:
            del self._lines[start:]
            text = self.generic(operation)
        text += self.location(operation.location)
        # Results are named last, because the names inside the regions go out of scope with them.
        names = self._results(operation)
        if len(self._lines) == start:
            self.line(f"{names}{text}")
            return
        self._lines[start] = "  " * self._depth + names + self._lines[start].lstrip()
        self.line(text)

    def generic(self, operation: ir.Operation) -> str:
        """Returns the last line of the generic form, without the result names, and writes the lines before it."""
        parts = f'"{operation.name}"({self.values(operation.operands)})'
        dialect = operation.name.partition(".")[0]
        if operation.attributes:
            listed = [named_text(name, operation.attributes[name], dialect) for name in sorted(operation.attributes)]
            attributes = f" {{{_joined(listed)}}}"
        else:
            attributes = ""
        types = function_text(map(_type, operation.operands), map(_type, operation.results))
        if not operation.regions:
            return f"{parts}{attributes} : {types}"
        opening = f"{parts} ({{"
        for number, region in enumerate(operation.regions):
            self.line(opening if number == 0 else "}, {")
            self.region(region)
        return f"}}){attributes} : {types}"

    def region(self, region: ir.Region) -> None:
        """Prints the blocks of a region, with their arguments in labels."""
        for number, block in enumerate(region.blocks):
            outer = set(self._used_names)
            if block.arguments or number:
                arguments = [
                    f"{self.define(argument)}: {type_text(argument.type)}{self.location(argument.location)}"
                    for argument in block.arguments
                ]
                self.line(f"^bb{number}({_joined(arguments)}):")
            self.block(block.operations)
            self._used_names = outer

    def block(self, operations: Sequence[ir.Operation]) -> None:
        """Prints operations with one more level of indentation."""
        self._depth += 1
        for operation in operations:
            self.operation(operation)
        self._depth -= 1

    def region_body(self, block: ir.Block, names: Sequence[str]) -> None:
        """Prints the operations of a region whose arguments are named already."""
        outer = set(self._used_names)
        for argument, name in zip(block.arguments, names, strict=True):
            self._names[id(argument)] = name
            self._used_names.add(name[1:])
        self.block(block.operations)
        self._used_names = outer

    def with_scoped_names(self, names: Callable[[], list[str]]) -> list[str]:
        """Calls `names` and returns its result; the names that it takes are free again afterwards."""
        outer = set(self._used_names)
        assigned = names()
        self._used_names = outer
        return assigned

    def line(self, text: str) -> None:
        """Writes a line of an operation that takes several lines."""
        self._lines.append("  " * self._depth + text)

    # -- values

    def values(self, values: Iterable[ir.Value]) -> str:
        """Returns the names of values, separated by commas."""
        return ", ".join([self._names[id(value)] for value in values])

    def value(self, value: ir.Value) -> str:
        """Returns the name `%name` of a value."""
        return self._names[id(value)]

    def define(self, value: ir.Value) -> str:
        """Assigns a name to a value and returns it."""
        name = self._names[id(value)] = f"%{self._unique_name(value.name)}"
        return name

    def _results(self, operation: ir.Operation) -> str:
        results = operation.results
        if not results:
            return ""
        if len(results) == 1:
            return f"{self.define(results[0])} = "
        name = f"%{self._unique_name(results[0].name.partition('#')[0])}"
        for number, result in enumerate(results):
            self._names[id(result)] = f"{name}#{number}"
        return f"{name}:{len(results)} = "

    def _unique_name(self, preferred: str) -> str:
        """Returns the name if it is valid and free, else the name with a number appended, or a number."""
        if not _NAME.fullmatch(preferred):
            preferred = ""
        name = preferred
        while not name or name in self._used_names:
            name = f"{preferred}_{self._counter}" if preferred else str(self._counter)
            self._counter += 1
        self._used_names.add(name)
        return name

    # -- locations

    def location(self, location: ir.FileLocation) -> str:
        """Returns ` loc(#loc1)`, or "" for an unknown location or if locations are not printed."""
        if not self.locations or location == ir.UNKNOWN_LOCATION:
            return ""
        return f" loc({self._alias(location)})"

    def _alias(self, location: ir.FileLocation) -> str:
        """Returns the alias of a location, which is defined at the end of the text."""
        alias = self._aliases.get(location)
        if alias is None:
            alias = self._aliases[location] = f"#loc{len(self._aliases) + 1}"
            self._definitions.append(f"{alias} = loc({_location_text(location)})")
        return alias


def _type(value: ir.Value) -> ir.Type:
    return value.type


def _operations(module: ir.Operation) -> list[ir.Operation]:
    return [operation for region in module.regions for block in region.blocks for operation in block.operations]


def _dictionaries(attributes: dict[str, Any], name: str, of: Sequence[Any]) -> list[str]:
    """Returns the attribute dictionaries of arguments or results, with a blank before each."""
    given: Sequence[dict[str, Any]] = attributes.get(name) or ({},) * len(of)
    return [f" {dictionary_text(each)}" if each else "" for each in given]


def _joined(texts: Iterable[str]) -> str:
    return ", ".join(texts)


def _location_text(location: ir.FileLocation) -> str:
    """Returns `"name"(callsite("function"("file":1:2) at ...))`. With callers, the last name is the function's."""
    outer_names = location.names[:-1] if location.callers else ()
    stack = [_position_text(each, each.names) for each in location.callers]
    text = _position_text(location, location.names[len(outer_names) :])
    if stack:
        caller_text = stack.pop()
        while stack:
            caller_text = f"callsite({stack.pop()} at {caller_text})"
        text = f"callsite({text} at {caller_text})"
    return _named(text, outer_names)


def _position_text(location: ir.FileLocation, names: Sequence[str]) -> str:
    position = f"{quoted(location.file)}:{location.line}:{location.column}" if location.file else ""
    return _named(position, names) or "unknown"


def _named(text: str, names: Sequence[str]) -> str:
    for name in reversed(names):
        text = f"{quoted(name)}({text})" if text else quoted(name)
    return text
