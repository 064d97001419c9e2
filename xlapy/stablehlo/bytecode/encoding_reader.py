"""Reads the primitives of MLIR bytecode: numbers, strings and sections.

Responsible for their encodings and for checking that they end inside the data. Does not depend on what they mean.

Source: MLIR's BytecodeFormat.md.
"""

from __future__ import annotations

from array import array

from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.formats import bytecode as codes
from xlapy.base.errors import BytecodeError

_PADDING = 0xCB


class EncodingReader:
    """Reads `data` from `position` up to `end`. Every method raises `BytecodeError` instead of reading past the end."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes, position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.position = position
        self.end = len(data) if end is None else end

    def fail(self, code: ErrorCode, message: str) -> BytecodeError:
        """Returns the error to raise for damage at the current position."""
        return BytecodeError(code, f"MLIR bytecode, byte {self.position}: {message}")

    @property
    def remaining(self) -> int:
        """The number of bytes that are left."""
        return self.end - self.position

    def byte(self) -> int:
        """Reads a byte."""
        position = self.position
        if position >= self.end:
            raise self.fail(codes.TRUNCATED_BYTECODE, "the data ends in the middle of a value")
        self.position = position + 1
        return self.data[position]

    def sub_reader(self, size: int) -> EncodingReader:
        """Returns a reader of the next `size` bytes and moves past them."""
        start = self.position
        if size > self.end - start:
            raise self.fail(codes.TRUNCATED_BYTECODE, f"{size} bytes are needed, but only {self.end - start} are left")
        self.position = start + size
        return EncodingReader(self.data, start, start + size)

    def view(self, size: int) -> memoryview:
        """Returns the next `size` bytes without a copy."""
        part = self.sub_reader(size)
        return memoryview(self.data)[part.position : part.end]

    def varint(self) -> int:
        """Reads an unsigned number of up to 64 bits.

        The number of trailing zeros of the first byte is the number of bytes that follow it.
        """
        first = self.byte()
        if first & 1:
            return first >> 1
        extra = 8 if first == 0 else (first & -first).bit_length() - 1
        position = self.position
        if position + extra > self.end:
            raise self.fail(codes.TRUNCATED_BYTECODE, "the data ends in the middle of a number")
        self.position = position + extra
        rest = int.from_bytes(self.data[position : position + extra], "little")
        return rest if first == 0 else (rest << 8 | first) >> (extra + 1)

    def varints(self, count: int) -> list[int]:
        """Reads unsigned numbers, as `varint` does but several times as fast: a file has many of a byte each."""
        data, position, end = self.data, self.position, self.end
        found: list[int] = []
        append = found.append
        for _ in range(count):
            first = data[position] if position < end else 0
            if first & 1:
                append(first >> 1)
                position += 1
            else:
                self.position = position
                append(self.varint())
                position = self.position
        self.position = position
        return found

    def sized_parts(self, count: int) -> tuple[array[int], array[int]]:
        """Reads parts, each with its size before it, and returns where they start and end."""
        data, position, end = self.data, self.position, self.end
        starts, ends = array("Q"), array("Q")
        for _ in range(count):
            size = data[position] if position < end else 0
            if size & 1 and position + (size >> 1) < end:
                position += 1
                starts.append(position)
                position += size >> 1
            else:
                self.position = position
                starts.append(self.sub_reader(self.varint()).position)
                position = self.position
            ends.append(position)
        self.position = position
        return starts, ends

    def signed_varint(self) -> int:
        """Reads a signed number, with its sign in the lowest bit: the encodings 0, 1, 2, 3 are 0, -1, 1, -2."""
        value = self.varint()
        return (value >> 1) ^ -(value & 1)

    def varint_with_flag(self) -> tuple[int, bool]:
        """Reads a number whose lowest bit is a flag."""
        value = self.varint()
        return value >> 1, bool(value & 1)

    def count(self) -> int:
        """Reads the number of items that follow, each of at least a byte.

        The check against the remaining bytes keeps damaged data from requesting huge amounts of memory.
        """
        count = self.varint()
        if count > self.remaining:
            raise self.fail(
                codes.TRUNCATED_BYTECODE, f"expected {count} items, but only {self.remaining} bytes are left"
            )
        return count

    def signed_varint_list(self) -> list[int]:
        """Reads the count of signed numbers, then the numbers."""
        return [(value >> 1) ^ -(value & 1) for value in self.varints(self.count())]

    def null_terminated(self) -> str:
        """Reads a string that ends in a zero byte."""
        found = self.data.find(b"\0", self.position, self.end)
        if found < 0:
            raise self.fail(codes.DAMAGED_BYTECODE, "a string lacks its terminating zero byte")
        text = self.data[self.position : found].decode("utf-8", "surrogateescape")
        self.position = found + 1
        return text

    def align(self, alignment: int) -> None:
        """Moves to the next multiple of `alignment` from the beginning of the file."""
        if alignment <= 0 or alignment & (alignment - 1):
            raise self.fail(codes.DAMAGED_BYTECODE, f"an alignment must be a power of 2, found {alignment}")
        while self.position % alignment:
            if self.byte() != _PADDING:
                self.position -= 1
                raise self.fail(codes.DAMAGED_BYTECODE, f"the padding to a multiple of {alignment} must be bytes 0xCB")

    def section(self) -> tuple[int, EncodingReader]:
        """Reads a section: its number and a reader of its contents."""
        kind = self.byte()
        size = self.varint()
        if kind & 0x80:
            self.align(self.varint())
        return kind & 0x7F, self.sub_reader(size)
