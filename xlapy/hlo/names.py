"""Unique names of the instructions and computations of a module, formed as in XLA.

Responsible for `NameUniquer`. Does not depend on instructions.
"""

from __future__ import annotations

import functools
import re

from xlapy.base.element_types import ALL_TYPES, BUFFER, PRIMITIVE_TYPE_INVALID, TUPLE

_SUFFIX = re.compile(r"(.+)\.(-?[0-9]+)", re.DOTALL)
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_.\-]")
_NOT_WRITTEN_AS_WORDS = (TUPLE, BUFFER, PRIMITIVE_TYPE_INVALID)
TYPE_NAMES = frozenset([*(t.text for t in ALL_TYPES if t not in _NOT_WRITTEN_AS_WORDS), "opaque_type"])
"""Words that the HLO parser reads as the element type of an array. They cannot be names of instructions."""


def sanitize(name: str) -> str:
    """Makes a legal name: letters, digits, `_`, `-` and `.`, starting with a letter or `_`, and not an element type.

    The parser could not read `u2 = ...`, so an underscore is appended to the name of a type. A leading `__`, which back
    ends reserve, becomes `a_`, except in `__xla_`.
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
    """The numeric suffixes that are in use for one root name; 0 stands for the bare root."""

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


@functools.lru_cache(1 << 16)
def _parts(name: str) -> tuple[str, int, bool]:
    """Splits a name into root and numeric suffix (0 if it has none), and tells whether it has a suffix.

    Results are cached, because copies of a module have the same names.
    """
    root = sanitize(name)
    match = _SUFFIX.fullmatch(root)
    if match and len(match[2]) < 21 and -(2**63) <= int(match[2]) < 2**63:
        return match[1], int(match[2]), True
    return root, 0, False


class NameUniquer:
    """Makes names unique: `a`, then `a.1`, `a.2`. A requested numeric suffix is kept if it is unused."""

    __slots__ = ("_roots",)

    def __init__(self) -> None:
        self._roots: dict[str, _Numbers] = {}

    def unique(self, name: str) -> str:
        """Returns a name that was not returned before, derived from `name` by XLA's rules."""
        root, wanted, suffixed = _parts(name)
        numbers = self._roots.get(root)
        if numbers is None:
            numbers = self._roots[root] = _Numbers()
        number = numbers.take(wanted)
        return root if number == 0 and not suffixed else f"{root}.{number}"
