"""Containers: unpacking returns what was packed and rejects all other bytes."""

from __future__ import annotations

import hashlib
import json
import struct

import pytest

from tests.raising import raises
from xlapy.base.container import FORMAT_VERSION, MAGIC, is_container, pack, unpack
from xlapy.base.error_codes.interfaces import files as codes
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
            code = codes.STORED_KIND if data[: len(MAGIC)] != MAGIC else codes.STORED_DAMAGE
            with raises(InvalidArgumentError, code, "the thing"):
                unpack("thing", data)
    with raises(InvalidArgumentError, codes.STORED_DAMAGE, f"{len(WHOLE) + 1} bytes"):
        unpack("thing", WHOLE + b"\0")


def test_containers_of_another_kind_are_rejected():
    with raises(InvalidArgumentError, codes.STORED_KIND, "'other'", "'thing'"):
        unpack("other", WHOLE)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b"", (codes.STORED_DAMAGE, "header", "JSONDecodeError")),
        (b"{", (codes.STORED_DAMAGE, "header", "JSONDecodeError")),
        (b"[]", (codes.STORED_DAMAGE, "header", "TypeError")),
        (b"[" * 100_000, (codes.STORED_DAMAGE, "header", "RecursionError")),
        (b"\xff", (codes.STORED_DAMAGE, "header", "UnicodeDecodeError")),
        (json.dumps({"format": FORMAT_VERSION}).encode(), (codes.STORED_DAMAGE, "header", "KeyError: 'kind'")),
        (
            json.dumps({"format": 99}).encode(),
            (codes.STORED_VERSION, "version 99", f"reads {FORMAT_VERSION}"),
        ),
        (
            json.dumps({"format": FORMAT_VERSION, "kind": "thing", "sections": [9], "header": {}}).encode(),
            (codes.STORED_DAMAGE,),
        ),
        (
            json.dumps({"format": FORMAT_VERSION, "kind": "thing", "sections": [-1, 4], "header": {}}).encode(),
            (codes.STORED_DAMAGE,),
        ),
        (
            json.dumps({"format": FORMAT_VERSION, "kind": "thing", "sections": ["x"], "header": {}}).encode(),
            (codes.STORED_DAMAGE,),
        ),
        (
            json.dumps({"format": FORMAT_VERSION, "kind": "thing", "sections": [3], "header": 5}).encode(),
            (codes.STORED_DAMAGE,),
        ),
    ],
)
def test_malformed_headers_are_rejected(header, expected):
    with raises(InvalidArgumentError, *expected):
        unpack("thing", sealed(header, b"abc"))


def test_a_header_longer_than_the_data():
    checked = struct.pack("<Q", 1 << 62) + b"{}"
    with raises(InvalidArgumentError, codes.STORED_DAMAGE):
        unpack("thing", MAGIC + hashlib.sha256(checked).digest() + checked)
