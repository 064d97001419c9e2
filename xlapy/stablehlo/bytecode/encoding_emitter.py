"""Writes the primitives of MLIR bytecode: numbers, strings and sections. The reverse of `encoding_reader`.

Does not depend on what the primitives mean.

Source: MLIR's BytecodeFormat.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from xlapy.base.element_types import PRED, PrimitiveType


class EncodingEmitter:
    """Appends primitives to `data`."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def byte(self, value: int) -> None:
        """Writes a byte."""
        self.data.append(value)

    def varint(self, value: int) -> None:
        """Writes an unsigned number of up to 64 bits in as few bytes as possible.

        The number of trailing zeros of the first byte is the number of bytes that follow it.
        """
        if value < 128:
            self.data.append(value << 1 | 1)
            return
        extra = (value.bit_length() - 1) // 7
        if extra < 8:
            self.data += ((value << 1 | 1) << extra).to_bytes(extra + 1, "little")
        else:
            self.data.append(0)
            self.data += value.to_bytes(8, "little")

    def varints(self, *values: int) -> None:
        """Writes several unsigned numbers."""
        for value in values:
            self.varint(value)

    def varint_list(self, values: Iterable[int]) -> None:
        """Writes the count of unsigned numbers, then the numbers."""
        found = list(values)
        self.varint(len(found))
        for value in found:
            self.varint(value)

    def signed_varint(self, value: int) -> None:
        """Writes a signed number, with its sign in the lowest bit."""
        self.varint(value << 1 if value >= 0 else ~value << 1 | 1)

    def signed_varint_list(self, values: Iterable[int]) -> None:
        """Writes the count of signed numbers, then the numbers."""
        found = list(values)
        self.varint(len(found))
        for value in found:
            self.signed_varint(value)

    def varint_with_flag(self, value: int, flag: bool) -> None:
        """Writes a number with a flag in its lowest bit."""
        self.varint(value << 1 | flag)

    def blob(self, data: bytes) -> None:
        """Writes the size of a blob, then its bytes."""
        self.varint(len(data))
        self.data += data

    def null_terminated(self, text: str) -> None:
        """Writes a string that ends in a zero byte."""
        self.data += text.encode("utf-8", "surrogateescape") + b"\0"

    def section(self, kind: int, data: bytes) -> None:
        """Writes a section without alignment."""
        self.byte(kind)
        self.blob(data)

    def integer(self, value: int, element: PrimitiveType | None) -> None:
        """Writes the value of an integer attribute as the bits of its type; None stands for `index`."""
        bits = 64 if element is None else 1 if element is PRED else element.bits
        value %= 1 << bits
        if bits <= 8:
            self.byte(value)
        else:
            self.signed_varint(value if value < 1 << 63 else value - (1 << 64))

    def float_number(self, value: float, element: PrimitiveType) -> None:
        """Writes the value of a floating-point attribute as the bits of its type."""
        data = np.asarray(value, element.dtype).tobytes()
        bits = int.from_bytes(data, "little")
        if len(data) == 1:
            self.byte(bits)
        else:
            self.signed_varint(bits if bits < 1 << 63 else bits - (1 << 64))
