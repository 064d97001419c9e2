"""Parses MLIR locations: `loc("file":1:2)`, `loc("name"(#loc1))`, `loc(callsite(#loc1 at #loc2))`.

Responsible for their grammar and for location aliases. An alias may be defined after its use, so that locations are
resolved after the whole text is parsed. Sets the `location` of operations and values; does not depend on their other
fields.
"""

from __future__ import annotations

import re

from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.cursor import MlirCursor

_ALIAS = re.compile(r"#([\w$.\-]+)", re.ASCII)
_ALIAS_USE = re.compile(r"loc\(#([\w$.\-]+)\)", re.ASCII)
_POSITION = re.compile(r":(\d+)(?::(\d+))?(?:\s*to\s*(?:\d+)?:\d+)?", re.ASCII)
_MAX_ALIAS_DEPTH = 100
"""The deepest chain of unresolved aliases. They are resolved by recursion."""


_MAX_NESTING_DEPTH = 150
"""The deepest nesting of locations: call stacks are deep, and a level takes fewer Python calls than that of a type."""


class LocationParser:
    """Parses the locations of one text."""

    def __init__(self, cursor: MlirCursor) -> None:
        self.cursor = cursor
        self._definitions: dict[str, int] = {}
        self._alias_uses: list[tuple[ir.Operation, str, int]] = []
        self._inline_locations: list[tuple[ir.Operation | ir.Value, int]] = []
        self._resolved: dict[str, ir.FileLocation] = {}
        self._aliases_in_progress: list[str] = []

    def define(self, alias: str) -> None:
        """Records the definition `loc(...)` of an alias at the cursor and moves past it."""
        self._definitions[alias] = self.cursor.skip()
        self.skip()

    def attach(self, operation: ir.Operation) -> None:
        """Records that the `loc(...)` at the cursor belongs to the operation and moves past it."""
        cursor = self.cursor
        found = cursor.match(_ALIAS_USE)
        if found is not None:
            self._alias_uses.append((operation, found.group(1), found.start(1)))
            return
        self.record(operation, cursor.skip())
        self.skip()

    def record(self, target: ir.Operation | ir.Value, position: int) -> None:
        """Records that the `loc(...)` at a position belongs to an operation or argument."""
        self._inline_locations.append((target, position))

    def skip(self) -> None:
        """Moves past a `loc(...)` without parsing it."""
        self.cursor.expect_word("loc")
        if not self.cursor.peek("("):
            self.cursor.fail(text_codes.TOKEN, "expected '(' after 'loc'")
        self.cursor.balanced()

    def resolve(self) -> None:
        """Parses the recorded locations after all aliases are known and sets them. The cursor does not move."""
        end = self.cursor.position
        # In text order, inner locations mostly come before outer ones, so that long call stacks cause little recursion.
        for alias, start in self._definitions.items():
            self._resolve_alias(alias, start)
        for operation, alias, position in self._alias_uses:
            operation.location = self._resolve_alias(alias, position)
        for target, position in self._inline_locations:
            target.location = self._parse_at(position)
        self.cursor.position = end

    def _resolve_alias(self, alias: str, position: int) -> ir.FileLocation:
        known = self._resolved.get(alias)
        if known is not None:
            return known
        start = self._definitions.get(alias)
        if start is None:
            self.cursor.fail_at(position, codes.UNDEFINED_NAME, f"the location {'#' + alias!r} is not defined")
        if alias in self._aliases_in_progress or len(self._aliases_in_progress) >= _MAX_ALIAS_DEPTH:
            self.cursor.fail_at(
                position, codes.TEXT_NESTING, f"the location {'#' + alias!r} refers to itself or is nested too deep"
            )
        self._aliases_in_progress.append(alias)
        after = self.cursor.position
        known = self._resolved[alias] = self._parse_at(start)
        self.cursor.position = after
        self._aliases_in_progress.pop()
        return known

    def _parse_at(self, position: int) -> ir.FileLocation:
        """Parses the `loc(...)` at a position."""
        cursor = self.cursor
        cursor.position = position
        cursor.expect_word("loc")
        cursor.expect("(", "after 'loc'")
        location = self._parse()
        cursor.expect(")", "at the end of a location")
        return location

    def _parse(self) -> ir.FileLocation:
        cursor = self.cursor
        cursor.enter_nested(_MAX_NESTING_DEPTH)
        position = cursor.skip()
        alias = cursor.match(_ALIAS)
        if alias is not None:
            location = self._resolve_alias(alias.group(1), position)
        elif cursor.peek('"'):
            location = self._file_or_name()
        elif cursor.accept_word("callsite"):
            location = self._call_site()
        elif cursor.accept_word("fused"):
            location = self._fused()
        elif cursor.accept_word("unknown"):
            location = ir.UNKNOWN_LOCATION
        else:
            cursor.fail(text_codes.TOKEN, f"expected a location, found {cursor.describe_next()}")
        cursor.leave_nested()
        return location

    def _file_or_name(self) -> ir.FileLocation:
        """Parses `"file":line:column`, a range `"file":1:2 to 3:4` (as its start), or `"name"(location)`."""
        cursor = self.cursor
        name = cursor.string("a location")
        position_match = cursor.match(_POSITION)
        if position_match is not None:
            return ir.FileLocation(
                name, _line_or_column(position_match.group(1)), _line_or_column(position_match.group(2) or "0")
            )
        if not cursor.accept("("):
            return ir.FileLocation(names=(name,))
        inner = self._parse()
        cursor.expect(")", "after the location of a name")
        return ir.named_location(name, inner)

    def _call_site(self) -> ir.FileLocation:
        cursor = self.cursor
        cursor.expect("(", "after 'callsite'")
        callee = self._parse()
        cursor.expect_word("at")
        caller = self._parse()
        cursor.expect(")", "after a call site")
        return ir.call_site_location(callee, caller)

    def _fused(self) -> ir.FileLocation:
        """Parses a fused location as its first location that is known."""
        cursor = self.cursor
        if cursor.peek("<"):
            cursor.balanced()
        cursor.expect("[", "before fused locations")
        known = [location for location in cursor.separated("]", self._parse) if location != ir.UNKNOWN_LOCATION]
        return known[0] if known else ir.UNKNOWN_LOCATION


def _line_or_column(digits: str) -> int:
    """Parses a line or column number, of which at most 18 digits count."""
    return int(digits[:18])
