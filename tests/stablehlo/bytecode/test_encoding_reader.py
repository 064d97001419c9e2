"""Primitives of MLIR bytecode: numbers of every length, padding, and data that ends too early."""

from __future__ import annotations

import pytest

from tests.raising import raises
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.formats import bytecode as codes
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
    ("data", "read", "code", "values"),
    [
        (b"", "varint", codes.TRUNCATED_BYTECODE, ("byte 0",)),
        (b"\x04\x01", "varint", codes.TRUNCATED_BYTECODE, ("byte 1",)),
        (b"\xff", "count", codes.TRUNCATED_BYTECODE, ("byte 1", "127", "only 0")),
        (b"ab", "null_terminated", codes.DAMAGED_BYTECODE, ("byte 0",)),
        (b"\x81\x05\x07", "section", codes.DAMAGED_BYTECODE, ("byte 3", "2", "found 3")),
        (b"\x81\x05\x09\x00", "section", codes.DAMAGED_BYTECODE, ("byte 3", "4", "0xCB")),
        (b"\x01\x0b\x00", "section", codes.TRUNCATED_BYTECODE, ("byte 2", "5 bytes", "only 1")),
    ],
)
def test_errors_name_the_position_of_damage(data: bytes, read: str, code: ErrorCode, values: tuple[str, ...]) -> None:
    with raises(BytecodeError, code, *values):
        getattr(EncodingReader(data), read)()
