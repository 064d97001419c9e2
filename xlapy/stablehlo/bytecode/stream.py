"""Reading numbers, strings and sections out of MLIR bytecode.

Owns the encodings of the format's primitives and the checks that they end inside the data. Must not know: what they
mean. Source: MLIR's BytecodeFormat.md.
"""

from __future__ import annotations

from xlapy.base.errors import BytecodeError

_PADDING = 0xCB


class Stream:
    """A place in `data`, from `position` up to `end`. Every read raises `BytecodeError` rather than pass the end."""

    __slots__ = ("data", "end", "position")

    def __init__(self, data: bytes, position: int = 0, end: int | None = None) -> None:
        self.data = data
        self.position = position
        self.end = len(data) if end is None else end

    def fail(self, message: str) -> BytecodeError:
        return BytecodeError(f"MLIR bytecode, byte {self.position}: {message}")

    @property
    def remaining(self) -> int:
        return self.end - self.position

    def byte(self) -> int:
        position = self.position
        if position >= self.end:
            raise self.fail("the data ends in the middle of a value")
        self.position = position + 1
        return self.data[position]

    def part(self, size: int) -> Stream:
        """The next `size` bytes as a stream of their own; this one goes on behind them."""
        start = self.position
        if size > self.end - start:
            raise self.fail(f"{size} bytes are needed where {self.end - start} are left")
        self.position = start + size
        return Stream(self.data, start, start + size)

    def view(self, size: int) -> memoryview:
        """The next `size` bytes, not copied."""
        part = self.part(size)
        return memoryview(self.data)[part.position : part.end]

    def number(self) -> int:
        """A number of up to 64 bits: the zeros at the low end of the first byte tell how many bytes follow it."""
        first = self.byte()
        if first & 1:
            return first >> 1
        extra = 8 if first == 0 else (first & -first).bit_length() - 1
        position = self.position
        if position + extra > self.end:
            raise self.fail("the data ends in the middle of a number")
        self.position = position + extra
        rest = int.from_bytes(self.data[position : position + extra], "little")
        return rest if first == 0 else (rest << 8 | first) >> (extra + 1)

    def signed(self) -> int:
        """A number whose sign is the lowest bit: 0, -1, 1, -2, 2 ..."""
        value = self.number()
        return (value >> 1) ^ -(value & 1)

    def flagged(self) -> tuple[int, bool]:
        """A number whose lowest bit is a flag."""
        value = self.number()
        return value >> 1, bool(value & 1)

    def count(self) -> int:
        """How many things follow, each of at least a byte: damaged data cannot ask for more memory than it is long."""
        count = self.number()
        if count > self.remaining:
            raise self.fail(f"{count} entries are announced where {self.remaining} bytes are left")
        return count

    def signed_numbers(self) -> list[int]:
        return [self.signed() for _ in range(self.count())]

    def terminated(self) -> str:
        """Text up to a zero byte."""
        found = self.data.find(b"\0", self.position, self.end)
        if found < 0:
            raise self.fail("a text without an end")
        text = self.data[self.position : found].decode("utf-8", "surrogateescape")
        self.position = found + 1
        return text

    def align(self, alignment: int) -> None:
        """Goes on to the next multiple of `alignment`, counted from the beginning of all data."""
        if alignment <= 0 or alignment & (alignment - 1):
            raise self.fail(f"an alignment is a power of 2, found {alignment}")
        while self.position % alignment:
            if self.byte() != _PADDING:
                self.position -= 1
                raise self.fail(f"padding up to a multiple of {alignment} is of bytes 0xCB")

    def section(self) -> tuple[int, Stream]:
        """A section: its number and what is in it."""
        kind = self.byte()
        size = self.number()
        if kind & 0x80:
            self.align(self.number())
        return kind & 0x7F, self.part(size)
