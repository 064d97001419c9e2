"""Parses MLIR text into operations: regions, blocks, value names, aliases and the generic form of operations.

The generic form is `%0:2 = "dialect.name"(%a, %b#1) <{...}> ({...}) {...} : (...) -> ... loc(...)`. The custom assembly
formats of particular operations are in `custom_parsers`. Does not depend on what operations mean.

A custom parser parses everything but the names of the results and the location. The parser of an operation with regions
is a generator: it yields each region when the region begins, and is resumed when the region has ended. Nested regions
therefore do not nest Python calls, and programs may be nested to any depth.

Source: MLIR's language reference.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, NoReturn, TypeAlias

from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.attributes import AttributeParser
from xlapy.stablehlo.text.cursor import BLANK, NAME, MlirCursor
from xlapy.stablehlo.text.locations import LocationParser
from xlapy.stablehlo.text.resources import Resources

_VALUE = rf"%{NAME}(?:#\d+)?"
_OPERAND = re.compile(rf"%({NAME}(?:#\d+)?)", re.ASCII)
_OPERANDS = re.compile(rf"%{NAME}(?:#\d+)?(?:,{BLANK}{_VALUE})*+(?!,?{BLANK}%)", re.ASCII)
_NAME_OF_VALUE = re.compile(rf"%({NAME})(?!#)", re.ASCII)
_HEAD = re.compile(rf'(?:(%[%\w$.\-:, ]*+){BLANK}={BLANK})?(?:"([^"\n]+)"|([A-Za-z_][\w$.]*+))', re.ASCII)
_RESULTS = re.compile(rf"{BLANK}%({NAME})(?:{BLANK}:{BLANK}(\d+))?{BLANK}(,|$)", re.ASCII)
_LABEL = re.compile(rf"\^({NAME})", re.ASCII)
_ALIAS = re.compile(rf"([#!])({NAME}){BLANK}={BLANK}", re.ASCII)
_SHORT_NAMES = {
    "module": "builtin.module",
    "unrealized_conversion_cast": "builtin.unrealized_conversion_cast",
    "call": "func.call",
    "return": "func.return",
}
_MAX_RESULT_COUNT = 1 << 16
"""Greater numbers in `%name:number` count as this one, which exceeds the number of results of any operation."""


class Argument(NamedTuple):
    """A declared argument of a region: its name, its type, its offset and the offset of its location, if any."""

    name: str
    type: ir.Type
    position: int
    location: int | None = None


@dataclass(slots=True)
class RegionStart:
    """A region that begins at the cursor.

    `arguments` are the arguments of its first block if the custom assembly format declares them before the region.
    `is_isolated`: the region cannot use values of the enclosing regions.
    """

    region: ir.Region
    arguments: Sequence[Argument] = ()
    is_isolated: bool = False


RegionStarts: TypeAlias = Generator[RegionStart, None, None]
CustomParser: TypeAlias = Callable[["OperationParser", ir.Operation], RegionStarts | None]


@dataclass(slots=True)
class _Frame:
    """An operation whose regions are being parsed."""

    operation: ir.Operation
    names: str
    start: int
    region_starts: RegionStarts
    region_start: RegionStart | None = None
    block: ir.Block | None = None
    opened_at: int = 0
    outer_values: dict[str, ir.Value] = field(default_factory=dict)
    outer_defined: list[str] = field(default_factory=list)


class OperationParser:
    """Parses one text. `custom_parsers` holds the parsers of custom assembly formats by operation name."""

    def __init__(self, text: str, custom_parsers: dict[str, CustomParser]) -> None:
        self.cursor = MlirCursor(text)
        self.resources = Resources(self.cursor)
        self.attributes = AttributeParser(self.cursor, self.resources)
        self.types = self.attributes.types
        self.locations = LocationParser(self.cursor)
        self.custom_parsers = custom_parsers
        self._values: dict[str, ir.Value] = {}
        self._defined: list[str] = []
        self._frames: list[_Frame] = []

    def parse(self) -> ir.Operation:
        """Parses the text and returns its module. Operations outside a module are put into a new one."""
        top = ir.Block()
        self._parse_operations(top)
        self.locations.resolve()
        if len(top.operations) == 1 and top.operations[0].name == "builtin.module":
            return top.operations[0]
        return ir.Operation("builtin.module", regions=[ir.Region([top])], text_line=1, text_column=1)

    # -- the loop over operations

    def _parse_operations(self, top: ir.Block) -> None:
        cursor = self.cursor
        text, end, frames = cursor.text, self.resources.end, self._frames
        block = top
        while True:
            position = cursor.skip()
            first = text[position : position + 1]
            if position >= end:
                break
            if first == "}" and frames:
                cursor.position += 1
                self._close_region()
                block = self._resume(top)
            elif first == "^" and frames:
                block = self._parse_label(frames[-1])
            elif first in "#!" and not frames:
                self._parse_alias()
            elif self._parse_operation(block):
                block = self._resume(top)
        if frames:
            cursor.fail_at(
                frames[-1].opened_at,
                text_codes.CLOSING_BRACKET,
                f"a region of {frames[-1].operation.name} has no closing '}}'",
            )

    def _parse_operation(self, block: ir.Block) -> bool:
        """Parses an operation into the block, up to its first region. Returns whether it has regions."""
        cursor = self.cursor
        start = cursor.position
        head = _HEAD.match(cursor.text, start)
        if head is None:
            cursor.fail(text_codes.TOKEN, f"expected an operation, found {cursor.describe_next()}")
        names, quoted, bare = head.groups()
        names = names and names.rstrip(" ")
        cursor.position = head.end()
        line, column = cursor.line_and_column(start)
        operation = ir.Operation(quoted or _SHORT_NAMES.get(bare, bare), text_line=line, text_column=column)
        block.operations.append(operation)
        if quoted is not None:
            region_starts = self._parse_generic(operation)
        else:
            form = self.custom_parsers.get(operation.name)
            if form is None:
                cursor.fail_at(
                    head.start(3),
                    codes.SHORT_FORM,
                    f"{bare!r} has no custom form here; use the generic form, its name in quotes",
                )
            region_starts = form(self, operation)
        if region_starts is None:
            self._finish(operation, names, start)
            return False
        self._frames.append(_Frame(operation, names, start, region_starts))
        return True

    def _finish(self, operation: ir.Operation, names: str | None, start: int) -> None:
        if self.cursor.text.startswith("loc", self.cursor.skip()):
            self.locations.attach(operation)
        if names is not None:
            self._bind_results(operation, names, start)

    def _bind_results(self, operation: ir.Operation, names: str, start: int) -> None:
        results = operation.results
        if len(results) == 1 and ":" not in names and "," not in names:
            results[0].name = names[1:]
            self._define(results[0], names[1:], start)
            return
        position = 0
        count = 0
        while position < len(names):
            found = _RESULTS.match(names, position)
            if found is None:
                self.cursor.fail_at(start, text_codes.TOKEN, f"malformed result names {names[:40]!r}")
            size = min(int(found.group(2)[:6]), _MAX_RESULT_COUNT) if found.group(2) else 1
            pack = results[count : count + size]
            self._bind_pack(found.group(1), pack, start, found.group(2) is not None)
            position, count = found.end(), count + size
        if count != len(results):
            self.cursor.fail_at(
                start, codes.FORM_COUNT, f"{operation.name} has {len(results)} results, but there are names for {count}"
            )

    def _bind_pack(self, name: str, pack: list[ir.Value], start: int, is_numbered: bool) -> None:
        for index, value in enumerate(pack):
            value.name = f"{name}#{index}" if is_numbered else name
            if index == 0:
                self._define(value, name, start)
            if is_numbered:
                self._define(value, f"{name}#{index}", start)

    def _define(self, value: ir.Value, name: str, position: int) -> None:
        if name in self._values:
            self.cursor.fail_at(position, codes.DEFINED_ONCE, f"the value {'%' + name!r} is defined twice")
        self._values[name] = value
        self._defined.append(name)

    # -- regions

    def _resume(self, top: ir.Block) -> ir.Block:
        """Opens the next region of the innermost operation, or finishes the operation. Returns the block to fill."""
        while self._frames:
            frame = self._frames[-1]
            if frame.region_start is not None:
                assert frame.block is not None
                return frame.block
            start = next(frame.region_starts, None)
            if start is not None:
                return self._open_region(frame, start)
            self._frames.pop()
            self._finish(frame.operation, frame.names, frame.start)
        return top

    def _open_region(self, frame: _Frame, start: RegionStart) -> ir.Block:
        cursor = self.cursor
        frame.opened_at = cursor.skip()
        cursor.expect("{", f"before a region of {frame.operation.name}")
        frame.region_start = start
        frame.outer_values, frame.outer_defined = self._values, self._defined
        self._defined = []
        if start.is_isolated:
            self._values = {}
        frame.block = ir.Block()
        is_empty = not start.arguments and (cursor.peek("}") or cursor.peek("^"))
        if not is_empty:
            start.region.blocks.append(frame.block)
        self._declare_arguments(frame.block, start.arguments)
        return frame.block

    def _close_region(self) -> None:
        frame = self._frames[-1]
        frame.region_start = None
        if self._values is frame.outer_values:
            for name in self._defined:
                del self._values[name]
        self._values, self._defined = frame.outer_values, frame.outer_defined

    def _parse_label(self, frame: _Frame) -> ir.Block:
        """Parses a block label: `^bb0(%a: type, %b: type loc(...)):`."""
        cursor = self.cursor
        start = cursor.position
        if cursor.match(_LABEL) is None:
            cursor.fail(text_codes.TOKEN, "expected the name of a block after '^'")
        arguments = cursor.separated(")", self.argument) if cursor.accept("(") else []
        cursor.expect(":", "after the arguments of a block")
        assert frame.region_start is not None
        if frame.region_start.arguments and frame.block is not None and not frame.block.operations:
            cursor.fail_at(
                start, codes.DEFINED_ONCE, "the arguments of this region's first block are declared before its brace"
            )
        frame.block = ir.Block()
        frame.region_start.region.blocks.append(frame.block)
        self._declare_arguments(frame.block, arguments)
        return frame.block

    def _declare_arguments(self, block: ir.Block, arguments: Sequence[Argument]) -> None:
        for argument in arguments:
            value = ir.Value(argument.type, block, len(block.arguments), argument.name)
            block.arguments.append(value)
            self._define(value, argument.name, argument.position)
            if argument.location is not None:
                self.locations.record(value, argument.location)

    def _parse_alias(self) -> None:
        """Parses the definition of an alias: `#name = attribute` or `!name = type`."""
        cursor = self.cursor
        found = cursor.match(_ALIAS)
        if found is None:
            cursor.fail(text_codes.TOKEN, "expected '#name = ...' or '!name = ...'")
        sign, name = found.groups()
        if sign == "!":
            self._check_new(found, self.types.aliases)
            self.types.aliases[name] = self.types.parse()
        elif cursor.text.startswith("loc(", cursor.position):
            self.locations.define(name)
        else:
            self._check_new(found, self.attributes.aliases)
            self.attributes.define_alias(name)

    def _check_new(self, found: re.Match[str], aliases: Mapping[str, object]) -> None:
        sign, name = found.groups()
        if name in aliases:
            self.cursor.fail_at(found.start(), codes.DEFINED_ONCE, f"the alias {sign + name!r} is defined twice")

    # -- building blocks of custom parsers

    def argument_name(self) -> Argument:
        """Parses `%name`, where a custom assembly format declares an argument without its type."""
        cursor = self.cursor
        position = cursor.skip()
        found = cursor.match(_NAME_OF_VALUE)
        if found is None:
            cursor.fail(text_codes.TOKEN, f"expected the name of a value, found {cursor.describe_next()}")
        return Argument(found.group(1), ir.NoneType(), position)

    def argument(self) -> Argument:
        """Parses an argument `%name: type loc(...)`."""
        name = self.argument_name()
        self.cursor.expect(":", "before the type of an argument")
        return Argument(name.name, self.types.parse(), name.position, self.skip_location())

    def skip_location(self) -> int | None:
        """Moves past `loc(...)` if it comes next and returns its offset, else None."""
        position = self.cursor.skip()
        if not self.cursor.text.startswith("loc(", position):
            return None
        self.locations.skip()
        return position

    def operand(self) -> ir.Value:
        """Parses the name of a defined value."""
        cursor = self.cursor
        found = cursor.match(_OPERAND)
        if found is None:
            cursor.fail(text_codes.TOKEN, f"expected a value, found {cursor.describe_next()}")
        value = self._values.get(found.group(1))
        return value if value is not None else self._undefined(found.group(1), found.start())

    def operands(self) -> list[ir.Value]:
        """Parses zero or more values, separated by commas."""
        cursor = self.cursor
        found = _OPERANDS.match(cursor.text, cursor.skip())
        if found is None:
            return []
        cursor.position = found.end()
        values = self._values
        names = [name.strip() for name in found.group().split(",")]
        try:
            return [values[name[1:]] for name in names]
        except KeyError:
            cursor.position = found.start()
            return self._operands_one_by_one()

    def _operands_one_by_one(self) -> list[ir.Value]:
        values = [self.operand()]
        while self.cursor.accept(","):
            values.append(self.operand())
        return values

    def _undefined(self, name: str, position: int) -> ir.Value:
        """Returns the value of `%0#0` for a single result. Raises ParseError for any other name."""
        root, _, index = name.partition("#")
        value = self._values.get(root)
        if value is None or index != "0":
            self.cursor.fail_at(position, codes.UNDEFINED_NAME, f"the value {'%' + name!r} is not defined here")
        return value

    def optional_attributes(self, operation: ir.Operation) -> None:
        """Parses an attribute dictionary `{...}`, if it comes next, into the operation's attributes."""
        if self.cursor.peek("{"):
            operation.attributes.update(self.attributes.parse_dictionary())

    def optional_attributes_with_keyword(self, operation: ir.Operation) -> None:
        """Parses `attributes {...}`, if it comes next, into the operation's attributes."""
        if self.cursor.accept_word("attributes"):
            operation.attributes.update(self.attributes.parse_dictionary())

    def function_type(self, operation: ir.Operation) -> None:
        """Parses `: (...) -> ...`, checks the operand types and makes the results."""
        cursor = self.cursor
        cursor.expect(":", f"before the types of {operation.name}")
        position = cursor.skip()
        type_ = self.types.parse_function()
        self.check_operand_types(operation, type_.inputs, position)
        self.make_results(operation, type_.results)

    def check_operand_types(self, operation: ir.Operation, types: Sequence[ir.Type], position: int) -> None:
        """Raises ParseError unless the operands have these types."""
        operands = operation.operands
        if len(operands) != len(types):
            self.cursor.fail_at(
                position,
                codes.FORM_COUNT,
                f"{operation.name} has {len(operands)} operands, but there are types for {len(types)}",
            )
        for value, type_ in zip(operands, types, strict=True):
            if value.type is not type_ and value.type != type_:
                self._fail_type(value, position)

    def _fail_type(self, value: ir.Value, position: int) -> NoReturn:
        self.cursor.fail_at(
            position, codes.VALUE_TYPE, f"the value '%{value.name}' is used with another type than it was defined with"
        )

    def make_results(self, operation: ir.Operation, types: Sequence[ir.Type]) -> None:
        """Makes the results of the operation, with these types."""
        operation.results = [ir.Value(type_, operation, index) for index, type_ in enumerate(types)]

    # -- the generic form

    def _parse_generic(self, operation: ir.Operation) -> RegionStarts | None:
        cursor = self.cursor
        cursor.expect("(", f"before the operands of {operation.name}")
        operation.operands = self.operands()
        cursor.expect(")", f"after the operands of {operation.name}")
        if cursor.peek("["):
            cursor.fail(
                codes.SUCCESSOR_BLOCKS, f"{operation.name} has successor blocks, which no operation of StableHLO has"
            )
        if cursor.accept("<"):
            operation.attributes.update(self.attributes.parse_dictionary())
            cursor.expect(">", f"after the properties of {operation.name}")
        if cursor.accept("("):
            return self._generic_regions(operation)
        self._generic_end(operation)
        return None

    def _generic_regions(self, operation: ir.Operation) -> RegionStarts:
        cursor = self.cursor
        is_isolated = operation.name in ("func.func", "builtin.module")
        while True:
            region = ir.Region()
            operation.regions.append(region)
            yield RegionStart(region, is_isolated=is_isolated)
            if not cursor.accept(","):
                break
        cursor.expect(")", f"after the regions of {operation.name}")
        self._generic_end(operation)

    def _generic_end(self, operation: ir.Operation) -> None:
        self.optional_attributes(operation)
        self.function_type(operation)
