"""Containers: unpacking returns what was packed and rejects all other bytes."""

from __future__ import annotations

import hashlib
import json
import struct

import pytest

from xlapy.base.container import FORMAT_VERSION, MAGIC, is_container, pack, unpack
from xlapy.base.errors import InvalidArgumentError

SECTIONS = [b"first", b"", bytes(range(256))]
WHOLE = pack("thing", {"name": "ä", "numbers": [1, 2]}, SECTIONS)


def sealed(header: bytes, rest: bytes = b"") -> bytes:
    """Returns a container with these contents and a correct checksum."""
    checked = struct.pack("<Q", len(header)) + header + rest
    return MAGIC + hashlib.sha256(checked).digest() + checked


def test_unpacking_returns_header_and_sections():
    found = unpack("thing", WHOLE)
    assert found.header == {"name": "ä", "numbers": [1, 2]}
    assert [bytes(section) for section in found.sections] == SECTIONS
    assert is_container(WHOLE) and not is_container(b"HloModule m") and not is_container(b"")


def test_changed_and_missing_bytes_are_rejected():
    for place in range(len(WHOLE)):
        damaged = bytearray(WHOLE)
        damaged[place] ^= 0x10
        for data in (bytes(damaged), WHOLE[:place]):
            with pytest.raises(InvalidArgumentError, match=r"^the thing (is damaged|does not begin with)"):
                unpack("thing", data)
    with pytest.raises(InvalidArgumentError, match="is damaged"):
        unpack("thing", WHOLE + b"\0")


def test_containers_of_another_kind_are_rejected():
    with pytest.raises(InvalidArgumentError, match="expected a container of kind 'other', found kind 'thing'"):
        unpack("other", WHOLE)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        (b"", "malformed header"),
        (b"{", "malformed header"),
        (b"[]", "malformed header"),
        (b"[" * 100_000, "malformed header"),
        (b"\xff", "malformed header"),
        (json.dumps({"format": FORMAT_VERSION}).encode(), "malformed header: KeyError"),
        (
            json.dumps({"format": 99}).encode(),
            f"has format version 99, but this version of xlapy reads {FORMAT_VERSION}",
        ),
        (
            json.dumps({"format": FORMAT_VERSION, "kind": "thing", "sections": [9], "header": {}}).encode(),
            "sections take",
        ),
        (
            json.dumps({"format": FORMAT_VERSION, "kind": "thing", "sections": [-1, 4], "header": {}}).encode(),
            "sections take",
        ),
        (
            json.dumps({"format": FORMAT_VERSION, "kind": "thing", "sections": ["x"], "header": {}}).encode(),
            "malformed header",
        ),
        (
            json.dumps({"format": FORMAT_VERSION, "kind": "thing", "sections": [3], "header": 5}).encode(),
            "malformed header",
        ),
    ],
)
def test_malformed_headers_are_rejected(header, message):
    with pytest.raises(InvalidArgumentError, match=message):
        unpack("thing", sealed(header, b"abc"))


def test_a_header_longer_than_the_data():
    checked = struct.pack("<Q", 1 << 62) + b"{}"
    with pytest.raises(InvalidArgumentError, match=r"malformed header|sections take"):
        unpack("thing", MAGIC + hashlib.sha256(checked).digest() + checked)
