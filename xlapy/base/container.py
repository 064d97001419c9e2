"""The file format of everything xlapy stores: a JSON header and sections of raw bytes, protected by a checksum.

    bytes 0-7      b"XLAPY\\r\\n\\0"
    bytes 8-39     SHA-256 of all bytes from 40 on
    bytes 40-47    the length of the header, little-endian
    from 48 on     the header, UTF-8: {"format": 1, "kind": "...", "sections": [3, 70], "header": {...}}
    after it       the sections, without gaps; "sections" holds their lengths

The checksum detects damage, not tampering: any process that can write a file can also write a matching checksum.

A few kilobytes of zlib can expand to gigabytes. `compress`, for sections that are text, therefore never compresses by
more than `MAX_RATIO`, and `expand` refuses data that does.

Does not depend on the meaning of headers and sections.
"""

from __future__ import annotations

import hashlib
import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xlapy.base.error_codes.interfaces import files as codes
from xlapy.base.errors import InvalidArgumentError

MALFORMED = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading the values of a header raises if `pack` did not write them."""

MAGIC = b"XLAPY\r\n\0"
FORMAT_VERSION = 1

_LENGTH = struct.Struct("<Q")
_CHECKSUM_END = len(MAGIC) + hashlib.sha256().digest_size
_HEADER_START = _CHECKSUM_END + _LENGTH.size


MAX_RATIO = 64
"""Limit on the size of data divided by its compressed size. HLO text shrinks to about a tenth."""
_MIN_LIMIT = 1 << 16
"""Bytes up to which any ratio is allowed: the limit is for large results."""
_LEVEL, _STORED = 1, 0


@dataclass(frozen=True, slots=True)
class Container:
    """The content of a container. The sections are views of the bytes that were unpacked."""

    header: Mapping[str, Any]
    sections: tuple[memoryview, ...]


def pack(kind: str, header: Mapping[str, Any], sections: Sequence[bytes]) -> bytes:
    """The bytes of a container. kind: what it holds, which `unpack` checks. header: values that JSON can represent."""
    whole = {
        "format": FORMAT_VERSION,
        "kind": kind,
        "sections": [len(section) for section in sections],
        "header": dict(header),
    }
    text = json.dumps(whole, separators=(",", ":")).encode()
    checked = b"".join([_LENGTH.pack(len(text)), text, *sections])
    return b"".join([MAGIC, hashlib.sha256(checked).digest(), checked])


def is_container(data: bytes | memoryview) -> bool:
    """Whether the data begins with the magic bytes of a container."""
    return bytes(data[: len(MAGIC)]) == MAGIC


def unpack(kind: str, data: bytes | memoryview) -> Container:
    """The inverse of `pack`. Raises InvalidArgumentError for data that `pack` did not make for this kind."""
    view = memoryview(data)
    if not is_container(view):
        raise InvalidArgumentError(
            codes.STORED_KIND,
            f"the {kind} does not begin with the bytes of a container: {bytes(view[: len(MAGIC)])!r}, not {MAGIC!r}",
        )
    if len(view) < _HEADER_START or hashlib.sha256(view[_CHECKSUM_END:]).digest() != bytes(
        view[len(MAGIC) : _CHECKSUM_END]
    ):
        raise InvalidArgumentError(
            codes.STORED_DAMAGE, f"the {kind} is damaged: its checksum is not that of its {len(view)} bytes"
        )
    try:
        return _read_sections(kind, view)
    except MALFORMED as error:
        raise InvalidArgumentError(
            codes.STORED_DAMAGE, f"the {kind} has a malformed header: {type(error).__name__}: {error}"
        ) from error


def _read_sections(kind: str, view: memoryview) -> Container:
    (length,) = _LENGTH.unpack_from(view, _CHECKSUM_END)
    begin = _HEADER_START + length
    whole = json.loads(bytes(view[_HEADER_START:begin]))
    if whole["format"] != FORMAT_VERSION:
        raise InvalidArgumentError(
            codes.STORED_VERSION,
            f"the {kind} has format version {whole['format']}, but this version of xlapy reads {FORMAT_VERSION}",
        )
    if whole["kind"] != kind:
        raise InvalidArgumentError(
            codes.STORED_KIND, f"expected a container of kind {kind!r}, found kind {whole['kind']!r}"
        )
    sections: list[memoryview] = []
    for size in whole["sections"]:
        sections.append(view[begin : begin + size])
        begin += size
    if begin != len(view) or any(size < 0 for size in whole["sections"]):
        raise InvalidArgumentError(
            codes.STORED_DAMAGE, f"the {kind} has {len(view)} bytes, but its header and sections take {begin}"
        )
    return Container(dict(whole["header"]), tuple(sections))


# -- compression


def compress(data: bytes) -> bytes:
    """Compresses data; stores it as it is if it would become more than `MAX_RATIO` times smaller."""
    compressed = zlib.compress(data, _LEVEL)
    return compressed if len(data) <= _limit(compressed) else zlib.compress(data, _STORED)


def expand(data: bytes | memoryview, what: str) -> bytes:
    """The inverse of `compress`. Raises InvalidArgumentError, which calls the data `what`, if it is malformed."""
    expander = zlib.decompressobj()
    limit = _limit(data)
    try:
        expanded = expander.decompress(data, limit + 1)
    except zlib.error as error:
        raise InvalidArgumentError(codes.STORED_DAMAGE, f"{what} is damaged: {error}") from error
    if len(expanded) > limit:
        raise InvalidArgumentError(
            codes.STORED_RATIO, f"{what} of {len(data)} bytes expands to more than {MAX_RATIO} times as many"
        )
    if not expander.eof or expander.unused_data:
        raise InvalidArgumentError(
            codes.STORED_DAMAGE, f"{what} is damaged: the compressed data does not end where its {len(data)} bytes do"
        )
    return expanded


def _limit(compressed: bytes | memoryview) -> int:
    return max(_MIN_LIMIT, MAX_RATIO * len(compressed))
