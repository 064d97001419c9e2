"""The cursor over MLIR text: blanks, comments, names, numbers, strings, and errors at a place.

Owns: the lexical rules of MLIR (scannerless: compiled patterns matched at a position; text is never cut up).
Must not know: types, attributes, operations.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from typing import NoReturn, TypeVar

from xlapy.base.errors import ParseError

BLANK = r"[ \t\r\n]*+(?://[^\r\n]*+[ \t\r\n]*+)*+"
"""Blanks and comments, possibly none."""

NAME = r"(?:\d++|[A-Za-z_$.\-][\w$.\-]*+)"
"""What follows `%`, `^` and, in an alias, `#` and `!`."""

_BLANKS = re.compile(BLANK)
_MAY_BE_BLANK = " \n\t\r/"  # first characters; "" at the end of the text too
_INTEGER = re.compile(r"-?(?:0x[0-9a-fA-F]+|\d+)")
_KEYWORD = re.compile(r"[A-Za-z_][\w$.]*+")
_STRING = re.compile(r'"([^"\\\n\r]*+(?:\\.[^"\\\n\r]*+)*+)"')
_ESCAPE = re.compile(rb'\\(?:([0-9a-fA-F]{2})|(["\\nt]))')
_SIMPLE_ESCAPES = {b'"': b'"', b"\\": b"\\", b"n": b"\n", b"t": b"\t"}
_SYMBOL = re.compile(r'@(?:([A-Za-z_][\w$.\-]*+)|(?="))')
_SHOWN = re.compile(r"[%@#!^]?[\w.$\-]+|->|.", re.DOTALL)
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|->|[()<>\[\]{}]|//[^\r\n]*', re.DOTALL)
_CLOSING = {"(": ")", "<": ">", "[": "]", "{": "}"}
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_DEEPEST = 150
_T = TypeVar("_T")


class Cursor:
    """Reads `text`; `position` is the offset of what comes next."""

    __slots__ = ("_depth", "_lines", "position", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self._depth = 0
        self._lines = [0, *(found.end() for found in re.finditer("\n", text))]

    # -- tokens

    def skip(self) -> int:
        """Moves past blanks and comments; returns the position."""
        if self.text[self.position : self.position + 1] in _MAY_BE_BLANK:
            blanks = _BLANKS.match(self.text, self.position)
            assert blanks is not None
            self.position = blanks.end()
        return self.position

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Eats what `pattern` matches next, after blanks."""
        found = pattern.match(self.text, self.skip())
        if found is not None:
            self.position = found.end()
        return found

    def peek(self, token: str) -> bool:
        """Whether `token` comes next."""
        return self.text.startswith(token, self.skip())

    def accept(self, token: str) -> bool:
        """Eats `token`, of punctuation, if it comes next."""
        if not self.text.startswith(token, self.skip()):
            return False
        self.position += len(token)
        return True

    def expect(self, token: str, where: str = "") -> None:
        """Eats `token`; ParseError naming `where` if something else comes."""
        if not self.accept(token):
            self.fail(f"expected {token!r}{where and ' ' + where}, found {self.shown()}")

    def accept_word(self, word: str) -> bool:
        """Eats `word` if it is the keyword that comes next."""
        found = _KEYWORD.match(self.text, self.skip())
        if found is None or found.group() != word:
            return False
        self.position = found.end()
        return True

    def expect_word(self, word: str) -> None:
        """Eats `word`; ParseError if something else comes."""
        if not self.accept_word(word):
            self.fail(f"expected {word!r}, found {self.shown()}")

    def keyword(self, what: str) -> str:
        """Eats and returns a bare identifier; `what` names it in the error."""
        found = self.match(_KEYWORD)
        if found is None:
            self.fail(f"expected {what}, found {self.shown()}")
        return found.group()

    def integer(self, what: str, *, most: int = _INT64_MAX) -> int:
        """Eats and returns a 64-bit integer up to `most`, decimal or hexadecimal; `what` names it in the error."""
        start = self.skip()
        found = self.match(_INTEGER)
        if found is None:
            self.fail(f"expected an integer for {what}, found {self.shown()}")
        value = whole_number(found.group())
        if not _INT64_MIN <= value <= most:
            self.fail_at(start, f"the integer for {what} does not fit in 64 bits")
        return value

    def string(self, what: str) -> str:
        """Eats and returns a string in quotes, its escapes undone; bytes that are no UTF-8 as `surrogateescape`."""
        found = self.match(_STRING)
        if found is None:
            self.fail(f"expected a string for {what}, found {self.shown()}")
        raw = found.group(1)
        if "\\" not in raw:
            return raw
        # Escapes of several bytes make one character.
        whole = raw.encode("utf-8", "surrogateescape")
        if _ESCAPE.sub(b"", whole).count(b"\\"):
            self.fail_at(found.start(), "the string has a malformed escape")
        return _ESCAPE.sub(_unescaped, whole).decode("utf-8", "surrogateescape")

    def symbol(self, what: str) -> str:
        """Eats `@name` or `@"any name"` and returns the name."""
        found = self.match(_SYMBOL)
        if found is None:
            self.fail(f"expected {what}, with an '@', found {self.shown()}")
        return found.group(1) or self.string(what)

    # -- lists and nesting

    def separated(self, closing: str, read: Callable[[], _T]) -> list[_T]:
        """Items with commas between them up to `closing`, which is eaten; what opens them was eaten before."""
        items: list[_T] = []
        if self.accept(closing):
            return items
        while True:
            items.append(read())
            if not self.accept(","):
                break
        self.expect(closing, "at the end of a list")
        return items

    def deeper(self) -> None:
        """Enters a nested type or attribute; ParseError beyond a depth that no program has."""
        self._depth += 1
        if self._depth > _DEEPEST:
            self.fail(f"types and attributes are nested more than {_DEEPEST} levels deep")

    def higher(self) -> None:
        """Leaves what `deeper` entered."""
        self._depth -= 1

    def balanced(self) -> str:
        """Eats `<...>`, or any other pair of brackets, and returns what is inside, strings and all."""
        start = self.skip()
        pending: list[str] = []
        for found in _BRACKETS.finditer(self.text, start):
            token = found.group()
            if token in _CLOSING:
                pending.append(_CLOSING[token])
            elif token in ")>]}":
                if not pending or token != pending.pop():
                    self.fail_at(found.start(), f"the bracket {token!r} closes none")
                if not pending:
                    self.position = found.end()
                    break
        else:
            self.fail_at(start, f"the bracket {self.text[start : start + 1]!r} is not closed")
        return self.text[start + 1 : self.position - 1]

    # -- places

    def place(self, position: int) -> tuple[int, int]:
        """Line and column of an offset, both from 1."""
        line = bisect_right(self._lines, position)
        return line, position - self._lines[line - 1] + 1

    def shown(self) -> str:
        """What comes next, short and quoted, for a message."""
        found = _SHOWN.match(self.text, self.skip())
        return repr(found.group()[:40]) if found else "the end of the text"

    def fail(self, message: str) -> NoReturn:
        """Raises ParseError where the cursor stands."""
        self.fail_at(self.skip(), message)

    def fail_at(self, position: int, message: str) -> NoReturn:
        """Raises ParseError at an offset."""
        raise ParseError.at(self.text, position, message)


def whole_number(spelling: str) -> int:
    """`12`, `-12` or `0x1F` as a number; one of hundreds of digits, which int() may refuse, as far out of any range."""
    if len(spelling) > 400:
        return -(1 << 1000) if spelling[0] == "-" else 1 << 1000
    return int(spelling, 16 if "x" in spelling else 10)


def _unescaped(found: re.Match[bytes]) -> bytes:
    if found.group(1):
        return bytes.fromhex(found.group(1).decode())
    return _SIMPLE_ESCAPES[found.group(2)]
