"""A cursor over a piece of text for the small grammars of base: layouts, shapes, literals.

Owns blanks, comments, integers and words, and errors that point at the place; knows no grammar.
"""

from __future__ import annotations

import re
from typing import NoReturn

from xlapy.base.errors import ParseError

_BLANKS = re.compile(r"(?:[ \t\r\n]+|/\*.*?\*/|//[^\n\r]*)+", re.DOTALL)
_INTEGER = re.compile(r"-?\d+")
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_.\-]*")
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class Scanner:
    """Reads `text` from `offset` on. Blanks and both kinds of comment may stand before any token."""

    __slots__ = ("offset", "text")

    def __init__(self, text: str, offset: int = 0) -> None:
        self.text = text
        self.offset = offset

    def skip(self) -> int:
        """Moves past blanks and comments; returns the offset of what follows."""
        blanks = _BLANKS.match(self.text, self.offset)
        if blanks:
            self.offset = blanks.end()
        return self.offset

    def peek(self, token: str) -> bool:
        """Whether `token` comes next."""
        return self.text.startswith(token, self.skip())

    def accept(self, token: str) -> bool:
        """Eats `token` if it comes next."""
        if not self.peek(token):
            return False
        self.offset += len(token)
        return True

    def expect(self, token: str, where: str) -> None:
        """Eats `token`; ParseError naming `where` if something else comes."""
        if not self.accept(token):
            self.fail(f"expected '{token}' {where}, found {self.shown()}")

    def match(self, pattern: re.Pattern[str]) -> str | None:
        """Eats what `pattern` matches next and returns it."""
        found = pattern.match(self.text, self.skip())
        if found is None:
            return None
        self.offset = found.end()
        return found.group()

    def word(self) -> str | None:
        """Eats and returns an identifier, if one comes next."""
        return self.match(_WORD)

    def integer(self, what: str) -> int:
        """Eats and returns a 64-bit signed decimal integer; `what` names it in the error."""
        start = self.skip()
        digits = self.match(_INTEGER)
        if digits is None:
            self.fail(f"expected an integer for {what}, found {self.shown()}")
        # A longer run of digits cannot be a 64-bit integer, and int() refuses some of them with a ValueError.
        value = int(digits) if len(digits) <= 4096 else _INT64_MAX + 1
        if not _INT64_MIN <= value <= _INT64_MAX:
            self.fail(f"the integer for {what} does not fit in 64 bits", start)
        return value

    def at_end(self) -> bool:
        """Whether only blanks and comments are left."""
        return self.skip() >= len(self.text)

    def expect_end(self, what: str) -> None:
        """ParseError if anything but blanks and comments is left."""
        if not self.at_end():
            self.fail(f"unexpected {self.shown()} after the {what}")

    def shown(self) -> str:
        """What comes next, short and quoted, for a message."""
        rest = self.text[self.skip() : self.offset + 20]
        return repr(rest.split("\n")[0]) if rest else "the end of the text"

    def fail(self, message: str, offset: int | None = None) -> NoReturn:
        """Raises ParseError at `offset`, or where the cursor stands."""
        raise ParseError.at(self.text, self.offset if offset is None else offset, message)
