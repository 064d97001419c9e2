"""The cursor over MLIR text: `Cursor` with MLIR's lexical rules.

Responsible for the words, numbers, strings, symbols and nested brackets of MLIR. Does not depend on types, attributes
or operations.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import ClassVar

from xlapy.base.cursor import Cursor
from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.formats import stablehlo_text as codes

BLANK = r"[ \t\r\n]*+(?://[^\r\n]*+[ \t\r\n]*+)*+"
"""Matches blanks and comments, possibly none."""

NAME = r"(?:\d++|[A-Za-z_$.\-][\w$.\-]*+)"
"""Matches the name after `%`, `^` and, of an alias, after `#` and `!`."""

_ESCAPE = re.compile(rb'\\(?:([0-9a-fA-F]{2})|(["\\nt]))', re.ASCII)
_SIMPLE_ESCAPES = {b'"': b'"', b"\\": b"\\", b"n": b"\n", b"t": b"\t"}
_SYMBOL = re.compile(r'@(?:([A-Za-z_][\w$.\-]*+)|(?="))', re.ASCII)
_BRACKETS = re.compile(r'"(?:[^"\\]++|\\.)*+"?|->|[()<>\[\]{}]|//[^\r\n]*+', re.DOTALL | re.ASCII)
_CLOSING = {"(": ")", "<": ">", "[": "]", "{": "}"}
MAX_NESTING_DEPTH = 50
"""The deepest nesting of types and attributes. They are parsed by recursion, with up to 13 Python calls a level."""


class MlirCursor(Cursor):
    """A cursor over MLIR text: integers may be hexadecimal, and `\\22` in a string is the byte 0x22."""

    __slots__ = ("_depth", "_line_starts")

    BLANK_PATTERN: ClassVar[re.Pattern[str]] = re.compile(BLANK)
    WORD_PATTERN: ClassVar[re.Pattern[str]] = re.compile(r"[A-Za-z_][\w$.]*+", re.ASCII)
    INTEGER_PATTERN: ClassVar[re.Pattern[str]] = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+)", re.ASCII)
    STRING_PATTERN: ClassVar[re.Pattern[str]] = re.compile(r'"([^"\\\n\r]*+(?:\\.[^"\\\n\r]*+)*+)"', re.ASCII)

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._depth = 0
        self._line_starts = [0, *(found.end() for found in re.finditer("\n", text))]

    @staticmethod
    def unescape(raw: str) -> str | None:
        """Undoes the escapes of a string; None if one is malformed. Escapes of several bytes make one character."""
        data = raw.encode("utf-8", "surrogateescape")
        if _ESCAPE.sub(b"", data).count(b"\\"):
            return None
        return _ESCAPE.sub(_unescaped, data).decode("utf-8", "surrogateescape")

    def symbol(self, what: str) -> str:
        """Reads `@name` or `@"any name"` and returns the name; `what` says in errors what it names."""
        found = self.match(_SYMBOL)
        if found is None:
            self.fail(text_codes.TOKEN, f"expected {what}, with an '@', found {self.describe_next()}")
        return found.group(1) or self.string(what)

    def enter_nested(self, limit: int = MAX_NESTING_DEPTH) -> None:
        """Enters a nested type or attribute. Raises ParseError if the nesting is too deep for Python's stack."""
        self._depth += 1
        if self._depth > limit:
            self.fail(codes.TEXT_NESTING, f"types, attributes and locations are nested more than {limit} levels deep")

    def leave_nested(self) -> None:
        """Leaves the type or attribute that `enter_nested` entered."""
        self._depth -= 1

    def balanced(self) -> str:
        """Reads a group in brackets of any kind, such as `<...>`, and returns the text inside it."""
        start = self.skip()
        pending: list[str] = []
        for found in _BRACKETS.finditer(self.text, start):
            token = found.group()
            if token in _CLOSING:
                pending.append(_CLOSING[token])
            elif token in ")>]}":
                if not pending or token != pending.pop():
                    self.fail_at(found.start(), text_codes.CLOSING_BRACKET, f"the bracket {token!r} closes none")
                if not pending:
                    self.position = found.end()
                    break
        else:
            self.fail_at(
                start, text_codes.CLOSING_BRACKET, f"the bracket {self.text[start : start + 1]!r} is not closed"
            )
        return self.text[start + 1 : self.position - 1]

    def line_and_column(self, position: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1."""
        line = bisect_right(self._line_starts, position)
        return line, position - self._line_starts[line - 1] + 1


def _unescaped(found: re.Match[bytes]) -> bytes:
    if found.group(1):
        return bytes.fromhex(found.group(1).decode())
    return _SIMPLE_ESCAPES[found.group(2)]
