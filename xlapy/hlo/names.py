"""Unique names inside a module, made the way XLA makes them.

Owns: `NameUniquer`. Must not know: instructions.
"""

from __future__ import annotations

import functools
import re

from xlapy.base.element_types import ALL_TYPES, BUFFER, PRIMITIVE_TYPE_INVALID, TUPLE

_SUFFIX = re.compile(r"(.+)\.(-?[0-9]+)", re.DOTALL)
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_.\-]")
_NO_WORDS = (TUPLE, BUFFER, PRIMITIVE_TYPE_INVALID)
TYPE_NAMES = frozenset([*(t.text for t in ALL_TYPES if t not in _NO_WORDS), "opaque_type"])
"""Words that HLO text reads as the type of an array, so that no instruction can have them as its name."""


def sanitize(name: str) -> str:
    """A name of letters, digits, `_`, `-`, `.`, starting with a letter or `_`, and never a type's name.

    HLO text could not read `u2 = ...` back, so such a name gains an underscore; a leading `__`, which back ends
    reserve, becomes `a_` unless it is `__xla_`.
    """
    clean = _ILLEGAL.sub("_", name)
    if not clean:
        return "name"
    if not (clean[0].isalpha() or clean[0] == "_"):
        clean = "_" + clean[1:]
    if clean in TYPE_NAMES:
        return clean + "_"
    if clean.startswith("__") and not clean.startswith("__xla_"):
        return "a" + clean[1:]
    return clean


class _Numbers:
    """The numeric suffixes in use behind one root (0 is the bare root)."""

    __slots__ = ("following", "used")

    def __init__(self) -> None:
        self.used: set[int] = set()
        self.following = 0

    def take(self, number: int) -> int:
        if number not in self.used:
            self.used.add(number)
            return number
        while self.following in self.used:
            self.following += 1
        self.used.add(self.following)
        return self.following


@functools.lru_cache(1 << 14)
def _parts(name: str) -> tuple[str, int, bool]:
    """The root of a name, its numeric suffix or 0, and whether it has one; modules are copied with their names."""
    root = sanitize(name)
    match = _SUFFIX.fullmatch(root)
    if match and len(match[2]) < 21 and -(2**63) <= int(match[2]) < 2**63:
        return match[1], int(match[2]), True
    return root, 0, False


class NameUniquer:
    """Gives out names: `a`, then `a.1`, `a.2`; a numeric suffix asked for is kept while it is free."""

    __slots__ = ("_roots",)

    def __init__(self) -> None:
        self._roots: dict[str, _Numbers] = {}

    def unique(self, name: str) -> str:
        """A name not given out before, as near to `name` as XLA's rules make it."""
        root, wanted, suffixed = _parts(name)
        numbers = self._roots.get(root)
        if numbers is None:
            numbers = self._roots[root] = _Numbers()
        number = numbers.take(wanted)
        return root if number == 0 and not suffixed else f"{root}.{number}"
