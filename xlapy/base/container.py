"""Bytes that outlive a process: a header of JSON and sections of raw bytes, with a checksum over everything.

    bytes 0-7      b"XLAPY\\r\\n\\0"
    bytes 8-39     SHA-256 of all bytes from 40 on
    bytes 40-47    the length of the header, little-endian
    from 48 on     the header, UTF-8: {"format": 1, "kind": "...", "sections": [3, 70], "header": {...}}
    behind it      the sections, one directly behind the other

The checksum finds damage, not malice: who can write a file can give it the right one.

Owns: this form. Must not know: what headers and sections mean.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xlapy.base.errors import InvalidArgumentError

MAGIC = b"XLAPY\r\n\0"
FORMAT = 1

_LENGTH = struct.Struct("<Q")
_CHECKED = len(MAGIC) + hashlib.sha256().digest_size
_HEADER = _CHECKED + _LENGTH.size


@dataclass(frozen=True, slots=True)
class Container:
    """What was packed."""

    header: Mapping[str, Any]
    sections: tuple[memoryview, ...]


def pack(kind: str, header: Mapping[str, Any], sections: Sequence[bytes]) -> bytes:
    """A container. header: what JSON can say."""
    whole = {"format": FORMAT, "kind": kind, "sections": [len(section) for section in sections], "header": dict(header)}
    text = json.dumps(whole, separators=(",", ":")).encode()
    checked = b"".join([_LENGTH.pack(len(text)), text, *sections])
    return b"".join([MAGIC, hashlib.sha256(checked).digest(), checked])


def is_container(data: bytes | memoryview) -> bool:
    """Whether data begins as a container does."""
    return bytes(data[: len(MAGIC)]) == MAGIC


def unpack(kind: str, data: bytes | memoryview) -> Container:
    """The inverse of `pack`; `InvalidArgumentError` for anything that `pack` has not made for this kind."""
    view = memoryview(data)
    if not is_container(view):
        raise InvalidArgumentError(f"the {kind} does not begin as one: {bytes(view[: len(MAGIC)])!r}, not {MAGIC!r}")
    if len(view) < _HEADER or hashlib.sha256(view[_CHECKED:]).digest() != bytes(view[len(MAGIC) : _CHECKED]):
        raise InvalidArgumentError(f"the {kind} is damaged: its checksum is not that of its {len(view)} bytes")
    try:
        return _read(kind, view)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InvalidArgumentError(f"the {kind} has no sound header: {type(error).__name__}: {error}") from error


def _read(kind: str, view: memoryview) -> Container:
    (length,) = _LENGTH.unpack_from(view, _CHECKED)
    begin = _HEADER + length
    whole = json.loads(bytes(view[_HEADER:begin]))
    if whole["format"] != FORMAT:
        raise InvalidArgumentError(f"the {kind} has format {whole['format']}, this version reads {FORMAT}")
    if whole["kind"] != kind:
        raise InvalidArgumentError(f"expected one {kind}, this is one {whole['kind']}")
    sections: list[memoryview] = []
    for size in whole["sections"]:
        sections.append(view[begin : begin + size])
        begin += size
    if begin != len(view) or any(size < 0 for size in whole["sections"]):
        raise InvalidArgumentError(f"the {kind} has {len(view)} bytes, its header and sections take {begin}")
    return Container(dict(whole["header"]), tuple(sections))
