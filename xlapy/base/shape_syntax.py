"""The syntax of shapes in HLO text: patterns, and the reader and printer of dimension sizes.

Does not depend on `Shape`. Source: XLA's HLO parser and printer.
"""

from __future__ import annotations

import re

from xlapy.base.cursor import Cursor
from xlapy.base.element_types import ALL_TYPES, OPAQUE_TYPE, TOKEN
from xlapy.base.error_codes.structure import values as codes
from xlapy.base.shape_fields import UNBOUNDED

TYPES_BY_WORD = {t.text: t for t in ALL_TYPES if t.is_array or t in (TOKEN, OPAQUE_TYPE)}
"""The element types that shapes begin with, by their text."""
_TYPE_PATTERN = "|".join(sorted(TYPES_BY_WORD, key=len, reverse=True))

SHAPE_PATTERN: str = rf"(?:{_TYPE_PATTERN})\s*\[[\d,<=?\s]*\](?:\s*\{{\s*[\d:][^{{}}]*\}})?"
"""Matches the shape of an array, token or opaque object with its layout: `f32[2,<=3]{1,0:T(8)}`, `token[]`.

As in XLA, a brace opens a layout only if an integer or a colon follows. Users put a word boundary before the pattern.
"""

PLAIN_ARRAY = re.compile(rf"({_TYPE_PATTERN})\[((?:\d+(?:,\d+)*)?)\](?:\{{(\d+(?:,\d+)*)\}})?")
MAX_PLAIN_ARRAY_CHARACTERS = 4096
"""`PLAIN_ARRAY` is not used for longer texts, which may have very many dimensions."""
TYPE_WORD = re.compile(rf"(?:{_TYPE_PATTERN})(?![\w.\-])")
"""Matches the element type at the start of a shape."""
LAYOUT_AHEAD = re.compile(r"[ \t\r\n]*+[{/]")
"""Matches if a brace, or a comment before it, comes next: the shape may have a layout."""
_LAYOUT_START = re.compile(r"\{(?:[ \t\r\n]++|/\*.*?\*/)*+[-\d:]", re.DOTALL)
BUFFER_START = re.compile(r"b\s*\(")


def size_text(size: int, dynamic: bool) -> str:
    """The text of a dimension size: `3`, `<=3` or `?`."""
    if not dynamic:
        return str(size)
    return "?" if size == UNBOUNDED else f"<={size}"


def layout_follows(cursor: Cursor) -> bool:
    """Whether the next brace opens a layout: an integer or a colon follows it. Otherwise it opens a body."""
    return _LAYOUT_START.match(cursor.text, cursor.skip()) is not None


def read_sizes(cursor: Cursor) -> tuple[list[int], list[bool]]:
    """Reads `[2,<=3,?]`; returns the sizes and, for each, whether it is dynamic."""
    sizes: list[int] = []
    dynamic: list[bool] = []
    cursor.expect("[", "after the element type")
    while not cursor.accept("]"):
        if sizes:
            cursor.expect(",", "or ']' after a dimension size")
        unbounded = cursor.accept("?")
        bounded = not unbounded and cursor.accept("<=")
        sizes.append(UNBOUNDED if unbounded else _read_size(cursor))
        dynamic.append(unbounded or bounded)
    return sizes, dynamic


def _read_size(cursor: Cursor) -> int:
    start = cursor.skip()
    size = cursor.integer("a dimension size")
    if size < 0:
        cursor.fail_at(start, codes.DIMENSION_SIZE, f"a dimension size must be >= 0, not {size}")
    return size
