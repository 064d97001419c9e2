"""Unique names inside a module, made the way XLA makes them.

Owns: `NameUniquer`. Must not know: instructions.
"""

from __future__ import annotations

import re

_SUFFIX = re.compile(r"(.+)\.(-?[0-9]+)", re.DOTALL)
_ILLEGAL = re.compile(r"[^a-zA-Z0-9_.\-]")
TYPE_NAMES = frozenset(
    "pred s1 s2 s4 s8 s16 s32 s64 u1 u2 u4 u8 u16 u32 u64 f16 bf16 f32 f64 c64 c128 token opaque opaque_type "
    "f8e5m2 f8e4m3 f8e4m3fn f8e4m3b11fnuz f8e3m4 f8e5m2fnuz f8e4m3fnuz f4e2m1fn f8e8m0fnu f6e3m2fn f6e2m3fn".split()
)


def sanitize(name: str) -> str:
    """A name of letters, digits, `_`, `-`, `.`, starting with a letter or `_`, and never a type's name.

    HLO text could not read `u2 = ...` back, so such a name gains an underscore; a leading `__`, which back ends reserve,
    becomes `a_` unless it is `__xla_`.
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


class NameUniquer:
    """Gives out names: `a`, then `a.1`, `a.2`; a numeric suffix asked for is kept while it is free."""

    __slots__ = ("_roots",)

    def __init__(self) -> None:
        self._roots: dict[str, _Numbers] = {}

    def unique(self, name: str) -> str:
        """A name not given out before, as near to `name` as XLA's rules make it."""
        root, wanted, suffixed = sanitize(name), 0, False
        match = _SUFFIX.fullmatch(root)
        if match and len(match[2]) < 21 and -(2**63) <= int(match[2]) < 2**63:
            root, wanted, suffixed = match[1], int(match[2]), True
        numbers = self._roots.get(root)
        if numbers is None:
            numbers = self._roots[root] = _Numbers()
        number = numbers.take(wanted)
        return root if number == 0 and not suffixed else f"{root}.{number}"
