"""Primitives of MLIR bytecode: numbers of every length, padding, and data that ends too early."""

from __future__ import annotations

import pytest

from xlapy.base.errors import BytecodeError
from xlapy.stablehlo.bytecode.encoding_reader import EncodingReader


def encoded(value: int) -> bytes:
    """Returns the shortest encoding of a number: the first byte has as many trailing zeros as bytes follow it."""
    for extra in range(8):
        if value < 1 << (7 * (extra + 1)):
            return ((value << 1 | 1) << extra).to_bytes(extra + 1, "little")
    return b"\0" + value.to_bytes(8, "little")


@pytest.mark.parametrize("bits", range(65))
def test_varints_of_every_length(bits: int) -> None:
    values = {(1 << bits) - 1, 1 << max(bits - 1, 0), (0xA5A5A5A5A5A5A5A5 & ((1 << bits) - 1))}
    for value in values:
        reader = EncodingReader(encoded(value) + b"\x07")
        assert reader.varint() == value
        assert reader.varint() == 3


@pytest.mark.parametrize(("value", "coded"), [(0, 0), (-1, 1), (1, 2), (-2, 3), (2**62, 2**63), (-(2**63), 2**64 - 1)])
def test_signed_varints(value: int, coded: int) -> None:
    assert EncodingReader(encoded(coded)).signed_varint() == value


def test_padding_is_counted_from_the_beginning_of_the_data() -> None:
    reader = EncodingReader(b"\x03\x05\xcb\xcb\x2a", 1)
    assert reader.varint() == 2
    reader.align(4)
    assert reader.byte() == 0x2A


@pytest.mark.parametrize(
    ("data", "read", "message"),
    [
        (b"", "varint", "byte 0: the data ends in the middle of a value"),
        (b"\x04\x01", "varint", "byte 1: the data ends in the middle of a number"),
        (b"\xff", "count", "byte 1: expected 127 items, but only 0 bytes are left"),
        (b"ab", "null_terminated", "byte 0: a string lacks its terminating zero byte"),
        (b"\x81\x05\x07", "section", "byte 3: an alignment must be a power of 2, found 3"),
        (b"\x81\x05\x09\x00", "section", "byte 3: the padding to a multiple of 4 must be bytes 0xCB"),
        (b"\x01\x0b\x00", "section", "byte 2: 5 bytes are needed, but only 1 are left"),
    ],
)
def test_errors_name_the_position_of_damage(data: bytes, read: str, message: str) -> None:
    with pytest.raises(BytecodeError, match=message):
        getattr(EncodingReader(data), read)()
