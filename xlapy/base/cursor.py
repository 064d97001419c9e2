"""The cursor that every text reader of xlapy moves over its text: HLO, literals, shapes, layouts, shardings, MLIR.

Responsible for blanks, comments, words, integers, quoted strings, and errors that point at a position. The text is
never split into a list of tokens: readers match compiled patterns at the position of the cursor. A language whose
lexical rules differ overrides the patterns of the class. Does not depend on any grammar.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import ClassVar, NoReturn, TypeVar

from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.formats import hlo_text as codes
from xlapy.base.errors import ParseError

BLANK = r"[ \t\r\n]*+(?:(?:/\*(?s:.*?)\*/|//[^\r\n]*+)[ \t\r\n]*+)*+"
"""Matches blanks and both kinds of comment in HLO text, possibly none. Readers build their own patterns from it."""

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

_NEXT_TOKEN = re.compile(r"->|[%@#!^]?[\w.$\-]+|.", re.DOTALL)
_MAX_SHOWN_CHARACTERS = 40
_MAX_CONVERTED_DIGITS = 400
_ESCAPE = re.compile(r"\\(?:([0-7]{1,3})|[xX]([0-9a-fA-F]+)|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.)|)", re.DOTALL)
_SIMPLE_ESCAPES = {
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "v": "\v",
    "\\": "\\",
    '"': '"',
    "'": "'",
    "?": "?",
}
_SURROGATE = re.compile(r"[\ud800-\udc7f\udd00-\udfff]")
"""Half of a character of UTF-16. The other surrogates stand for bytes that are not UTF-8 (`surrogateescape`)."""
T = TypeVar("T")


def check_characters(text: str, filename: str | None = None) -> None:
    """Checks that a text can be written as bytes. Raises `ParseError` at the first surrogate."""
    found = None if text.isascii() else _SURROGATE.search(text)
    if found:
        message = f"U+{ord(found[0]):04X} is half of a character and cannot be written as UTF-8"
        raise ParseError.at(text, found.start(), codes.CHARACTERS, message, filename=filename)


class Cursor:
    """A position in `text`. Every method that looks at a token first moves past blanks and comments.

    position: the offset, in characters, of the text that was not read yet. The patterns of the class are the lexical
    rules of HLO text; `STRING_PATTERN` captures the characters between the quotes in one of its groups.
    """

    __slots__ = ("position", "text")

    BLANK_PATTERN: ClassVar[re.Pattern[str]] = re.compile(BLANK)
    BLANK_CHARACTERS: ClassVar[str] = " \n\t\r/"
    """The characters that a non-empty match of `BLANK_PATTERN` can start with."""
    WORD_PATTERN: ClassVar[re.Pattern[str]] = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*+")
    INTEGER_PATTERN: ClassVar[re.Pattern[str]] = re.compile(r"-?\d+")
    STRING_PATTERN: ClassVar[re.Pattern[str]] = re.compile(
        r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"|' r"'([^'\\]*+(?:\\.[^'\\]*+)*+)'", re.DOTALL
    )

    def __init__(self, text: str, position: int = 0) -> None:
        self.text = text
        self.position = position

    # -- tokens

    def skip(self) -> int:
        """Moves past blanks and comments; returns the new position."""
        if self.text[self.position : self.position + 1] in self.BLANK_CHARACTERS:
            blanks = self.BLANK_PATTERN.match(self.text, self.position)
            assert blanks is not None
            self.position = blanks.end()
        return self.position

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """Matches `pattern` at the cursor and moves past the match; None, with the cursor unmoved, if it fails."""
        found = pattern.match(self.text, self.skip())
        if found is not None:
            self.position = found.end()
        return found

    _match = match
    """`match` without the checks that a class may add to it; for tokens that the checks do not concern."""

    def consume(self, pattern: re.Pattern[str]) -> str | None:
        """Moves past the text that `pattern` matches at the cursor and returns it; None if it does not match."""
        found = self.match(pattern)
        return None if found is None else found[0]

    def peek(self, token: str) -> bool:
        """Whether `token` comes next. The cursor stays before it."""
        return self.text.startswith(token, self.skip())

    def accept(self, token: str) -> bool:
        """Moves past `token` if it comes next; returns whether it did."""
        if not self.text.startswith(token, self.skip()):
            return False
        self.position += len(token)
        return True

    def expect(self, token: str, where: str = "") -> None:
        """Moves past `token`. Raises ParseError, which mentions `where`, if something else comes next."""
        if not self.accept(token):
            self.fail(codes.TOKEN, f"expected {token!r}{where and ' ' + where}, found {self.describe_next()}")

    def accept_word(self, word: str) -> bool:
        """Moves past `word` if it is the whole word that comes next (`S` is not the start of `SC`)."""
        found = self.WORD_PATTERN.match(self.text, self.skip())
        if found is None or found[0] != word:
            return False
        self.position = found.end()
        return True

    def expect_word(self, word: str) -> None:
        """Moves past `word`. Raises ParseError if another word or something else comes next."""
        if not self.accept_word(word):
            self.fail(codes.TOKEN, f"expected {word!r}, found {self.describe_next()}")

    def word(self, what: str = "a word") -> str:
        """Reads a bare word. Raises ParseError, which says that `what` was expected, if none comes next."""
        found = self._match(self.WORD_PATTERN)
        if found is None:
            self.fail(codes.TOKEN, f"expected {what}, found {self.describe_next()}")
        return found[0]

    def integer(self, what: str = "", *, max_value: int = INT64_MAX) -> int:
        """Reads an integer from -2**63 to `max_value`; `what` says in errors what the integer means."""
        found = self._match(self.INTEGER_PATTERN)
        purpose = what and f" for {what}"
        if found is None:
            self.fail(codes.TOKEN, f"expected an integer{purpose}, found {self.describe_next()}")
        value = integer_from_text(found[0])
        if not INT64_MIN <= value <= max_value:
            self.fail_at(found.start(), codes.INTEGER_RANGE, f"the integer{purpose} does not fit in 64 bits")
        return value

    def string(self, what: str = "") -> str:
        """Reads a string in quotes and undoes its escapes; `what` says in errors what the string means.

        Bytes that are not UTF-8 become surrogates, as with Python's `surrogateescape`.
        """
        found = self._match(self.STRING_PATTERN)
        if found is None:
            self.fail(
                codes.TOKEN, f"expected a string in quotes{what and f' for {what}'}, found {self.describe_next()}"
            )
        raw = found[found.lastindex or 1]
        text = self.unescape(raw) if "\\" in raw else raw
        if text is None:
            self.fail_at(found.start(), codes.ESCAPE, "the string has a malformed escape")
        return text

    @staticmethod
    def unescape(raw: str) -> str | None:
        """Undoes the C escapes of a string; None if one is malformed. `\\x` and octal escapes are bytes of UTF-8."""
        data = bytearray()
        position = 0
        for escape in _ESCAPE.finditer(raw):
            data += raw[position : escape.start()].encode("utf-8", "surrogateescape")
            position = escape.end()
            escaped = _escaped_bytes(escape)
            if escaped is None:
                return None
            data += escaped
        data += raw[position:].encode("utf-8", "surrogateescape")
        return data.decode("utf-8", "surrogateescape")

    def separated(self, closing: str, read: Callable[[], T]) -> list[T]:
        """Reads items separated by commas up to and including `closing`. The caller has read the opening bracket."""
        items: list[T] = []
        if self.accept(closing):
            return items
        while True:
            items.append(read())
            if not self.accept(","):
                break
        self.expect(closing, "at the end of a list")
        return items

    # -- the end, and errors

    def at_end(self) -> bool:
        """Whether only blanks and comments are left."""
        return self.skip() >= len(self.text)

    def expect_end(self, what: str) -> None:
        """Raises ParseError if anything but blanks and comments is left after `what`."""
        if not self.at_end():
            self.fail(codes.TOKEN, f"unexpected {self.describe_next()} after the {what}")

    def describe_next(self) -> str:
        """The next token in quotes, cut to 40 characters, or "the end of the text"; for error messages."""
        found = _NEXT_TOKEN.match(self.text, self.skip())
        return repr(found[0][:_MAX_SHOWN_CHARACTERS]) if found else "the end of the text"

    def fail(self, code: ErrorCode, message: str) -> NoReturn:
        """Raises ParseError at the next token."""
        self.fail_at(self.skip(), code, message)

    def fail_at(self, position: int, code: ErrorCode, message: str) -> NoReturn:
        """Raises ParseError at `position`."""
        raise ParseError.at(self.text, position, code, message)


def integer_from_text(spelling: str) -> int:
    """The value of `12`, `-12` or `0x1F`.

    A number of more than 400 digits, which `int` may refuse, becomes 2**1000 or -2**1000: outside of every range.
    """
    if len(spelling) > _MAX_CONVERTED_DIGITS:
        return -(1 << 1000) if spelling[0] == "-" else 1 << 1000
    return int(spelling, 16 if "x" in spelling else 10)


def _escaped_bytes(escape: re.Match[str]) -> bytes | None:
    """The bytes that one C escape stands for; None if there are none."""
    octal, hexadecimal, short, long, simple = escape.groups()
    if octal or hexadecimal:
        value = int(octal, 8) if octal else int(hexadecimal[-16:], 16)
        return bytes([value]) if value < 256 else None
    if short or long:
        code = int(short or long, 16)
        return chr(code).encode("utf-8") if code < 0x110000 and not 0xD800 <= code < 0xE000 else None
    character = _SIMPLE_ESCAPES.get(simple or "")
    return None if character is None else character.encode()
