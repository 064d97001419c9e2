"""The cursor over HLO text: blanks, comments, names, strings, shapes, literals, and errors at a place.

Owns: the lexical rules of HLO text (scannerless: compiled patterns matched at a position; text is never cut up).
Must not know: instructions, ops, modules.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NoReturn

from xlapy.base.errors import ParseError, ShapeError
from xlapy.base.literal import Literal
from xlapy.base.literal_parser import parse_literal, parse_shaped_literal
from xlapy.base.scanner import Scanner
from xlapy.base.shape import SHAPE_PATTERN, Shape, scan_shape, shape_from_token

BLANK = r"[ \t\r\n]*+(?:(?:/\*(?s:.*?)\*/|//[^\r\n]*+)[ \t\r\n]*+)*+"
"""Blanks and both kinds of comment, possibly none."""

NAME = r"[A-Za-z_][\w.\-]*+"
"""A name of an instruction or computation, without the leading `%`."""

SHAPE_TOKEN = rf"\b{SHAPE_PATTERN}"

_BLANKS = re.compile(BLANK)
_INTEGER = re.compile(r"-?\d+")
_HUGE = re.compile(r"(?<![\d.])\d{21,}+(?![.eE])")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]*")
_NAME = re.compile(rf"%?({NAME}):?", re.ASCII)
_STRING = re.compile(r'"([^"\\]*+(?:\\.[^"\\]*+)*+)"|' r"'([^'\\]*+(?:\\.[^'\\]*+)*+)'", re.DOTALL)
_SHAPE = re.compile(SHAPE_TOKEN)
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
_JSON_MARK = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}"]', re.DOTALL)
_BRACKET = re.compile(r"/\*(?s:.*?)(?:\*/|\Z)|//[^\r\n]*|[(){}]")
_SCALAR = re.compile(r"[-+\w.]+(?:\(0x[0-9a-fA-F]+\))?")
_ELIDED = re.compile(r"\{\s*\.\.\.\s*\}")
_CACHE_LIMIT = 1 << 14
_SCALARS: dict[tuple[str, Shape], Literal] = {}


class TextReader:
    """Implements `xlapy.opcodes.attributes.codecs.Reader` over one text; `position` is the offset of the cursor."""

    __slots__ = ("position", "text")

    def __init__(self, text: str, position: int = 0) -> None:
        self.text = text
        self.position = position

    def skip(self) -> int:
        """Moves past blanks and comments; returns the cursor."""
        blanks = _BLANKS.match(self.text, self.position)
        assert blanks is not None
        self.position = blanks.end()
        return self.position

    def match(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        """As the protocol has it; refuses integers of more than 64 bits, so that kinds need not."""
        found = self._take(pattern)
        if found is not None and found.end() - found.start() > 20:
            huge = _HUGE.search(self.text, found.start(), found.end())
            if huge is not None:
                self.fail_at(huge.start(), "the integer does not fit in 64 bits")
        return found

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.skip())
        if found is not None:
            self.position = found.end()
        return found

    def peek(self, text: str) -> bool:
        """Whether `text` stands at the cursor."""
        return self.text.startswith(text, self.skip())

    def accept(self, text: str) -> bool:
        if not self.text.startswith(text, self.skip()):
            return False
        self.position += len(text)
        return True

    def expect(self, text: str) -> None:
        if not self.accept(text):
            self.fail(f"expected {text!r}, found {self.shown()}")

    def shown(self) -> str:
        """What stands at the cursor, short and quoted, for a message."""
        start = self.skip()
        if start >= len(self.text):
            return "the end of the text"
        word = _WORD.match(self.text, start)
        return repr(self.text[start : min(word.end() if word else start + 1, start + 40)])

    def fail(self, message: str) -> NoReturn:
        self.fail_at(self.skip(), message)

    def fail_at(self, position: int, message: str) -> NoReturn:
        """Raises `ParseError` at an offset."""
        raise ParseError.at(self.text, position, message)

    def at_end(self) -> bool:
        """Whether only blanks and comments are left."""
        return self.skip() >= len(self.text)

    def integer(self) -> int:
        found = self.match(_INTEGER)
        if found is None:
            self.fail(f"expected an integer, found {self.shown()}")
        value = int(found[0]) if len(found[0]) < 24 else 2**64
        if not -(2**63) <= value < 2**64:
            self.fail_at(found.start(), "the integer does not fit in 64 bits")
        return value if value < 2**63 else value - 2**64

    def word(self) -> str:
        found = self._take(_WORD)
        if found is None:
            self.fail(f"expected a word, found {self.shown()}")
        return found[0]

    def name(self, what: str) -> str:
        """A name with or without `%` in front or `:` behind; `what` says whose, for the error."""
        found = self._take(_NAME)
        if found is None:
            self.fail(f"expected the name of {what}, found {self.shown()}")
        return found[1]

    def string(self) -> str:
        found = self._take(_STRING)
        if found is None:
            self.fail(f"expected a string in quotes, found {self.shown()}")
        raw = found[1] if found[1] is not None else found[2]
        if "\\" not in raw:
            return raw
        text = unescape(raw)
        if text is None:
            self.fail_at(found.start(), "the string has a malformed escape")
        return text

    def string_or_json(self) -> str:
        """A string in quotes, its escapes undone, or a braced JSON dictionary as it stands."""
        if not self.peek("{"):
            return self.string()
        end = json_end(self.text, self.position)
        if end is None:
            self.fail("the dictionary opened here never ends")
        start, self.position = self.position, end
        return self.text[start:end]

    def raw_braces(self) -> str:
        """A braced group with whatever it holds (strings in quotes are skipped), braces included."""
        if not self.peek("{"):
            self.fail(f"expected '{{', found {self.shown()}")
        return self.string_or_json()

    def shape(self) -> Shape:
        found = _SHAPE.match(self.text, self.skip())
        if found is None:
            return self._scan_shape()
        try:
            shape = shape_from_token(found[0])
        except (ParseError, ShapeError):
            return self._scan_shape()
        self.position = found.end()
        return shape

    def _scan_shape(self) -> Shape:
        scanner = Scanner(self.text, self.position)
        shape = scan_shape(scanner)
        self.position = scanner.offset
        return shape

    def literal(self, shape: Shape | None) -> Literal:
        start = self.skip()
        if shape is None:
            return self._shaped_literal(start)
        if shape.is_tuple and self.match(_ELIDED):
            return self._parse(lambda: _elided(shape), start)
        end = self._literal_end(shape.brief)
        token = self.text[start:end]
        if len(token) > 40:
            return self._parse(parse_literal, start, token, shape)
        found = _SCALARS.get((token, shape))
        if found is None:
            found = self._parse(parse_literal, start, token, shape)
            if len(_SCALARS) < _CACHE_LIMIT:
                _SCALARS[token, shape] = found
        return found

    def _shaped_literal(self, start: int) -> Literal:
        if not self.peek("("):
            self.shape()
        end = self._literal_end("the shape before it")
        return self._parse(parse_shaped_literal, start, self.text[start:end])

    def _literal_end(self, of: str) -> int:
        """Moves past a literal: a bracketed group, or one word."""
        if not self.peek("{") and not self.peek("("):
            found = self._take(_SCALAR)
            if found is None:
                self.fail(f"expected a literal of {of}, found {self.shown()}")
            return found.end()
        depth = 0
        for mark in _BRACKET.finditer(self.text, self.position):
            character = mark[0]
            if len(character) > 1:
                continue
            depth += 1 if character in "({" else -1
            if depth == 0:
                self.position = mark.end()
                return self.position
        return self.fail("the literal opened here never ends")

    def _parse(self, parse: Callable[..., Literal], start: int, *given: Any) -> Literal:
        """A reader of literals applied to a piece of the text; its errors are moved to their place in the text."""
        try:
            return parse(*given)
        except ParseError as error:
            self.fail_at(start + error.offset, error.message)
        except ShapeError as error:
            self.fail_at(start, str(error))
        except MemoryError:
            self.fail_at(start, "the literal does not fit in memory")


def _elided(shape: Shape) -> Literal:
    """The literal that `{...}` stands for: its elements were left out and are zeros."""
    if shape.is_tuple:
        return Literal.tuple(_elided(part) for part in shape.tuple_shapes)
    return Literal.token() if shape.is_token else Literal.zeros(shape, elided=True)


def json_end(text: str, position: int) -> int | None:
    """The offset behind the braced dictionary that opens at `position`, or None if it does not close."""
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
    """Whether XLA writes the text as it is, not as a string: one braced dictionary, blanks and comments around it."""
    reader = TextReader(text)
    if not reader.peek("{"):
        return False
    end = json_end(text, reader.position)
    return end is not None and TextReader(text, end).at_end()


def unescape(raw: str) -> str | None:
    """Undoes C escapes; None if one is malformed. Octal and hexadecimal escapes are bytes of UTF-8."""
    data = bytearray()
    position = 0
    for escape in _ESCAPE.finditer(raw):
        data += raw[position : escape.start()].encode("utf-8", "surrogateescape")
        position = escape.end()
        piece = _escaped_bytes(escape)
        if piece is None:
            return None
        data += piece
    data += raw[position:].encode("utf-8", "surrogateescape")
    return data.decode("utf-8", "surrogateescape")


def _escaped_bytes(escape: re.Match[str]) -> bytes | None:
    octal, hexadecimal, short, long, simple = escape.groups()
    if octal or hexadecimal:
        value = int(octal, 8) if octal else int(hexadecimal[-16:], 16)
        return bytes([value]) if value < 256 else None
    if short or long:
        code = int(short or long, 16)
        return chr(code).encode("utf-8") if code < 0x110000 and not 0xD800 <= code < 0xE000 else None
    character = _SIMPLE_ESCAPES.get(simple or "")
    return None if character is None else character.encode()
