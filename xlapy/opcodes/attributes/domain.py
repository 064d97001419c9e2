"""The attribute of `domain`: the metadata on both sides of the border between two domains."""

from __future__ import annotations

import re
from dataclasses import dataclass

from xlapy.base.error_codes.operations import attributes as codes
from xlapy.base.hlo_cursor import HloCursor
from xlapy.opcodes.attributes.codecs import AttributeCodec, entries, quote


@dataclass(frozen=True, slots=True)
class DomainSides:
    """The metadata on both sides of a `domain`, as text: `entry` applies to its users, `exit` to its operand."""

    kind: str
    entry: str
    exit: str


_SIDE = re.compile(r"(kind|entry|exit)\s*=")
_PIECE = re.compile(r'[^{}"]+|"(?:[^"\\]|\\.)*"|[{}]')
_BETWEEN = re.compile(r"\}\s*,\s*\{")


class DomainCodec(AttributeCodec[DomainSides]):
    """Reads and writes `domain={kind="sharding", entry={replicated}, exit={maximal device=0}}`."""

    def read(self, cursor: HloCursor) -> DomainSides:
        sides: dict[str, str] = {}
        for _ in entries(cursor):
            match = cursor.match(_SIDE)
            if match is None or match[1] in sides:
                cursor.fail(codes.ATTRIBUTE_FIELDS, "expected each of kind=, entry= and exit= once")
            sides[match[1]] = cursor.string() if match[1] == "kind" else _read_braced(cursor)
        if len(sides) < 3:
            cursor.fail(
                codes.ATTRIBUTE_FIELDS,
                f"domain needs kind=, entry= and exit=, found only {', '.join(sides) or 'none of them'}",
            )
        if sides["kind"] != "sharding":
            cursor.fail(codes.ATTRIBUTE_WORD, f"unsupported domain kind {sides['kind']!r}; expected sharding")
        return DomainSides(**sides)

    def write(self, value: DomainSides) -> str:
        return f"{{kind={quote(value.kind)}, entry={value.entry}, exit={value.exit}}}"


def _read_braced(cursor: HloCursor) -> str:
    """Reads text in balanced braces, with lists spaced as XLA writes them."""
    cursor.expect("{")
    parts = ["{"]
    depth = 1
    while depth:
        match = cursor.match(_PIECE)
        if match is None:
            cursor.fail(codes.ATTRIBUTE_FORM, "expected } to end the braces")
        parts.append(match[0])
        depth += (match[0] == "{") - (match[0] == "}")
    return _BETWEEN.sub("}, {", "".join(part.rstrip() if part != ", " else part for part in parts))
