"""Parses the resource blobs at the end of an MLIR text: `{-# dialect_resources: { builtin: { name: "0x..." } } #-}`.

The blobs are parsed before the operations that use them. A blob begins with its alignment, as four little-endian
bytes. Does not depend on types and attributes.
"""

from __future__ import annotations

import re

from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.stablehlo.text.cursor import MlirCursor

_OPENING = re.compile(r"\{-#", re.ASCII)
_KEY = re.compile(r"[A-Za-z_$][\w$.\-]*+", re.ASCII)
_DATA = re.compile(r'"0x([0-9a-fA-F]*)"', re.ASCII)
_ALIGNMENT_BYTES = 4


class Resources:
    """The resource blobs of one text by name."""

    def __init__(self, cursor: MlirCursor) -> None:
        self.cursor = cursor
        self._blobs: dict[str, tuple[int, str]] = {}
        self._decoded: dict[str, bytes] = {}
        self.end = len(cursor.text)
        """The offset where the operations end and the resources begin."""
        start = cursor.text.rfind("{-#")
        if start >= 0 and cursor.text.rstrip().endswith("#-}"):
            self.end = start
            self._parse(start)
            cursor.position = 0

    def blob(self, name: str, position: int) -> bytes:
        """Returns the bytes of a resource. `position` is the offset of its use, for errors."""
        if name in self._decoded:
            return self._decoded[name]
        found = self._blobs.get(name)
        if found is None:
            elided = "; it was elided when the text was printed" if name == "__elided__" else ""
            self.cursor.fail_at(
                position, codes.UNDEFINED_NAME, f"the resource {name!r} is not defined at the end of the text{elided}"
            )
        start, digits = found
        if len(digits) % 2 or len(digits) < 2 * _ALIGNMENT_BYTES:
            self.cursor.fail_at(
                start, codes.RESOURCE_BYTES, f"the resource {name!r} must be whole bytes after four bytes of alignment"
            )
        data = self._decoded[name] = bytes.fromhex(digits[2 * _ALIGNMENT_BYTES :])
        return data

    def _parse(self, start: int) -> None:
        cursor = self.cursor
        cursor.position = start
        cursor.match(_OPENING)
        for section in cursor.separated("#-}", self._section):
            for entries in section:
                self._blobs.update(entries)

    def _section(self) -> list[dict[str, tuple[int, str]]]:
        """Parses `dialect_resources: { builtin: {...} }`; skips `external_resources: {...}` of other tools."""
        cursor = self.cursor
        name = self._key()
        if name == "dialect_resources":
            cursor.expect("{", "before the resources of dialects")
            return cursor.separated("}", self._dialect)
        cursor.balanced()
        return []

    def _dialect(self) -> dict[str, tuple[int, str]]:
        self._key()
        self.cursor.expect("{", "before the resources of a dialect")
        return {name: blob for name, blob in self.cursor.separated("}", self._entry) if blob is not None}

    def _entry(self) -> tuple[str, tuple[int, str] | None]:
        name = self._key()
        start = self.cursor.skip()
        found = self.cursor.match(_DATA)
        if found is not None:
            return name, (start, found.group(1))
        if not self.cursor.accept_word("true") and not self.cursor.accept_word("false"):
            self.cursor.string("the value of a resource")
        return name, None

    def _key(self) -> str:
        found = self.cursor.match(_KEY)
        name = found.group() if found else self.cursor.string("the key of a resource")
        self.cursor.expect(":", "after the key of a resource")
        return name
