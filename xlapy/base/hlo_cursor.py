"""The cursor over HLO text: `Cursor` with names of instructions, JSON dictionaries, shapes and literals.

Responsible for the lexical rules that are particular to HLO text. Does not depend on opcodes, instructions or modules.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from xlapy.base.cursor import INT64_MAX, Cursor
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.structure import values as value_codes
from xlapy.base.errors import ParseError, ShapeError
from xlapy.base.literal import Literal
from xlapy.base.literal_parser import parse_literal, parse_shaped_literal
from xlapy.base.shape import Shape, parse_shape, read_shape
from xlapy.base.shape_syntax import SHAPE_PATTERN

NAME = r"[A-Za-z_][\w.\-]*+"
"""Matches the name of an instruction or computation, without the leading `%`."""

_UINT64_MAX = 2**64 - 1
_TOO_LONG_INTEGER = re.compile(r"(?<![\d.])\d{21,}+(?![.eE])")
_MAX_INTEGER_CHARACTERS = 20  # those of -(2**63) and of 2**64 - 1
_PREFIXED_NAME = re.compile(rf"%?({NAME}):?", re.ASCII)
_SHAPE = re.compile(rf"\b{SHAPE_PATTERN}")
_JSON_MARK = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}"]', re.DOTALL)
_COMMENT_OR_BRACKET = re.compile(r"/\*(?s:.*?)(?:\*/|\Z)|//[^\r\n]*|[(){}]")
_SCALAR = re.compile(r"[-+\w.]+(?:\(0x[0-9a-fA-F]+\))?")
_ELIDED = re.compile(r"\{\s*\.\.\.\s*\}")
_MAX_CACHED_SCALARS = 1 << 12
_MAX_CACHED_CHARACTERS = 40
_SCALARS: dict[tuple[str, Shape], Literal] = {}


class HloCursor(Cursor):
    """A cursor over HLO text. The codecs of attributes read their values from it."""

    __slots__ = ()

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Like `Cursor.match`, but refuses integers of more than 64 bits, so that callers need not check them."""
        found = self._match(pattern)
        if found is not None and found.end() - found.start() > _MAX_INTEGER_CHARACTERS:
            too_long = _TOO_LONG_INTEGER.search(self.text, found.start(), found.end())
            if too_long is not None:
                self.fail_at(too_long.start(), text_codes.INTEGER_RANGE, "the integer does not fit in 64 bits")
        return found

    def integer(self, what: str = "", *, max_value: int = _UINT64_MAX) -> int:
        """Reads a 64-bit integer. As in XLA, 2**63 and above wrap around: 2**64 - 1 is -1."""
        value = super().integer(what, max_value=max_value)
        return value if value <= INT64_MAX else value - 2**64

    def name(self, what: str) -> str:
        """Reads a name, with or without `%` before it and `:` after it; `what` says in errors what it names."""
        found = self._match(_PREFIXED_NAME)
        if found is None:
            self.fail(text_codes.TOKEN, f"expected the name of {what}, found {self.describe_next()}")
        return found[1]

    def string_or_json(self) -> str:
        """Reads a string in quotes, its escapes undone, or a JSON dictionary in braces, returned unchanged."""
        if not self.peek("{"):
            return self.string()
        end = json_end(self.text, self.position)
        if end is None:
            self.fail(text_codes.CLOSING_BRACKET, "the dictionary opened here never ends")
        start, self.position = self.position, end
        return self.text[start:end]

    def raw_braces(self) -> str:
        """Reads a group in braces and returns its text, braces included. Braces in quoted strings do not count."""
        if not self.peek("{"):
            self.fail(text_codes.TOKEN, f"expected '{{', found {self.describe_next()}")
        return self.string_or_json()

    def shape(self) -> Shape:
        """Reads a shape such as `f32[2,3]{1,0}` or `(f32[], s32[4])`."""
        found = _SHAPE.match(self.text, self.skip())
        if found is None:
            return self._read_any_shape()
        try:
            shape = parse_shape(found[0])
        except (ParseError, ShapeError):
            return self._read_any_shape()
        self.position = found.end()
        return shape

    def _read_any_shape(self) -> Shape:
        # A plain cursor: in a shape, integers of 2**63 and above are errors and do not wrap around.
        cursor = Cursor(self.text, self.position)
        shape = read_shape(cursor)
        self.position = cursor.position
        return shape

    def literal(self, shape: Shape | None) -> Literal:
        """Reads a literal of `shape`; if it is None, the text gives the shape before the literal."""
        start = self.skip()
        if shape is None:
            return self._shaped_literal(start)
        if shape.is_tuple and self.match(_ELIDED):
            return self._parse_literal(Literal.elided, start, shape)
        end = self._skip_literal(shape.to_text(layout=False))
        token = self.text[start:end]
        if len(token) > _MAX_CACHED_CHARACTERS:
            return self._parse_literal(parse_literal, start, token, shape)
        found = _SCALARS.get((token, shape))
        if found is None:
            found = self._parse_literal(parse_literal, start, token, shape)
            if len(_SCALARS) < _MAX_CACHED_SCALARS:
                _SCALARS[token, shape] = found
        return found

    def _shaped_literal(self, start: int) -> Literal:
        if not self.peek("("):
            self.shape()
        end = self._skip_literal("the shape before it")
        return self._parse_literal(parse_shaped_literal, start, self.text[start:end])

    def _skip_literal(self, shape_text: str) -> int:
        """Moves past a literal, a group in brackets or one word; returns the new position."""
        if not self.peek("{") and not self.peek("("):
            found = self._match(_SCALAR)
            if found is None:
                self.fail(text_codes.TOKEN, f"expected a literal of {shape_text}, found {self.describe_next()}")
            return found.end()
        depth = 0
        for mark in _COMMENT_OR_BRACKET.finditer(self.text, self.position):
            character = mark[0]
            if len(character) > 1:
                continue
            depth += 1 if character in "({" else -1
            if depth == 0:
                self.position = mark.end()
                return self.position
        return self.fail(text_codes.CLOSING_BRACKET, "the literal opened here never ends")

    def _parse_literal(self, parse: Callable[..., Literal], start: int, *arguments: Any) -> Literal:
        """`parse(*arguments)`; its errors, whose offsets count from `start`, are raised at their position here."""
        try:
            return parse(*arguments)
        except ParseError as error:
            self.fail_at(start + error.offset, error.code, error.message)
        except ShapeError as error:
            self.fail_at(start, error.code, error.message)
        except MemoryError:
            self.fail_at(start, value_codes.LITERAL_MEMORY, "the literal does not fit in memory")


def json_end(text: str, position: int) -> int | None:
    """The position after the braced dictionary that opens at `position`, or None if it does not close."""
    depth = 0
    for mark in _JSON_MARK.finditer(text, position):
        if mark[0] == '"':
            return None
        if mark[0] == "{":
            depth += 1
        elif mark[0] == "}":
            depth -= 1
            if depth == 0:
                return mark.end()
    return None


def is_json(text: str) -> bool:
    """Whether XLA prints `text` without quotes: one dictionary in braces, with blanks and comments around it."""
    cursor = HloCursor(text)
    if not cursor.peek("{"):
        return False
    end = json_end(text, cursor.position)
    return end is not None and HloCursor(text, end).at_end()
