"""Writing numbers, strings and sections of MLIR bytecode.

Owns the encodings of the format's primitives, the other way round from `stream`. Must not know: what they mean.
Source: MLIR's BytecodeFormat.md.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from xlapy.base.element_types import PRED, PrimitiveType


class Output:
    """Bytes that grow."""

    __slots__ = ("data",)

    def __init__(self) -> None:
        self.data = bytearray()

    def byte(self, value: int) -> None:
        self.data.append(value)

    def number(self, value: int) -> None:
        """A number of up to 64 bits, in as few bytes as it needs: as many zeros at the low end as bytes follow."""
        if value < 128:
            self.data.append(value << 1 | 1)
            return
        extra = (value.bit_length() - 1) // 7
        if extra < 8:
            self.data += ((value << 1 | 1) << extra).to_bytes(extra + 1, "little")
        else:
            self.data.append(0)
            self.data += value.to_bytes(8, "little")

    def sequence(self, *values: int) -> None:
        """Numbers one behind the other."""
        for value in values:
            self.number(value)

    def numbers(self, values: Iterable[int]) -> None:
        """How many, then each."""
        found = list(values)
        self.number(len(found))
        for value in found:
            self.number(value)

    def signed(self, value: int) -> None:
        """A number whose sign is the lowest bit."""
        self.number(value << 1 if value >= 0 else ~value << 1 | 1)

    def signed_numbers(self, values: Iterable[int]) -> None:
        found = list(values)
        self.number(len(found))
        for value in found:
            self.signed(value)

    def flagged(self, value: int, flag: bool) -> None:
        self.number(value << 1 | flag)

    def blob(self, data: bytes) -> None:
        self.number(len(data))
        self.data += data

    def terminated(self, text: str) -> None:
        self.data += text.encode("utf-8", "surrogateescape") + b"\0"

    def section(self, kind: int, data: bytes) -> None:
        """A section without an alignment."""
        self.byte(kind)
        self.blob(data)

    def integer(self, value: int, element: PrimitiveType | None) -> None:
        """The number of an integer attribute, as the bits of its type; None is `index`."""
        bits = 64 if element is None else 1 if element is PRED else element.bits
        value %= 1 << bits
        if bits <= 8:
            self.byte(value)
        else:
            self.signed(value if value < 1 << 63 else value - (1 << 64))

    def float_number(self, value: float, element: PrimitiveType) -> None:
        """The number of a float attribute, as the bits of its type."""
        data = np.asarray(value, element.dtype).tobytes()
        bits = int.from_bytes(data, "little")
        if len(data) == 1:
            self.byte(bits)
        else:
            self.signed(bits if bits < 1 << 63 else bits - (1 << 64))
