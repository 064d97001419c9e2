"""Attributes and types by their numbers, read when they are asked for.

Owns the tables and the order of reading: entries refer to each other by number, in any order and to any depth. Must
not know: how a dialect writes them, which it is given as two functions for each dialect.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from xlapy.base.element_types import PrimitiveType
from xlapy.base.errors import BytecodeError, ParseError, UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode.container import Container, Entry
from xlapy.stablehlo.bytecode.stream import Stream

_UNREAD = object()
_BEING_READ = object()
_DEEPEST = 50
"""Entries inside entries that are read by recursion; what lies deeper is read first, from a list."""

_ATTRIBUTE, _TYPE = 0, 1

Kind = TypeVar("Kind")
Decoder = Callable[["EntryStream"], Any]


class _ReadFirst(Exception):
    """An entry that lies too deep for recursion."""

    def __init__(self, kind: int, index: int) -> None:
        super().__init__()
        self.wanted = (kind, index)


class EntryStream(Stream):
    """The bytes of an attribute, a type or properties, with what they may refer to."""

    __slots__ = ("entries",)

    def __init__(self, entries: Entries, position: int, end: int) -> None:
        super().__init__(entries.container.data, position, end)
        self.entries = entries

    def attribute(self) -> Any:
        return self.entries.nested(_ATTRIBUTE, self.number())

    def attribute_of(self, kind: type[Kind]) -> Kind:
        """An attribute that damaged data alone has in another form."""
        found = self.attribute()
        if not isinstance(found, kind):
            raise self.fail(f"an attribute is a {kind.__name__} where {found!r} stands")
        return found

    def dictionary(self) -> dict[str, Any]:
        return {self.attribute_of(str): self.attribute() for _ in range(self.count())}

    def optional_attribute(self) -> Any:
        index, is_there = self.flagged()
        return self.entries.nested(_ATTRIBUTE, index) if is_there else None

    def attributes(self) -> tuple[Any, ...]:
        return tuple([self.attribute() for _ in range(self.count())])

    def type(self) -> Any:
        return self.entries.nested(_TYPE, self.number())

    def types(self) -> tuple[Any, ...]:
        return tuple([self.type() for _ in range(self.count())])

    def text(self) -> str:
        return self.entries.container.string(self)

    def blob(self) -> memoryview:
        return self.view(self.number())

    def resource(self) -> tuple[str, memoryview]:
        index, resources = self.number(), self.entries.container.resources
        if index >= len(resources):
            raise self.fail(f"there is no resource {index}, only {len(resources)}")
        return resources[index]

    def element_type(self) -> ir.ElementType | ir.IndexType:
        """The element type of a tensor."""
        found = self.type()
        if isinstance(found, ir.ScalarType):
            return found.element
        if isinstance(found, ir.QuantizedType | ir.IndexType):
            return found
        raise UnsupportedError(f"MLIR bytecode, byte {self.position}: no tensor has elements of the type {found}")

    def integer(self, kind: Any) -> int:
        """The number of an integer attribute of the type `kind`: a byte, or up to 64 bits with a sign."""
        if isinstance(kind, ir.IndexType):
            return self.signed()
        if not isinstance(kind, ir.ScalarType) or not (kind.element.is_integral or kind.element is PrimitiveType.PRED):
            raise self.fail(f"an integer of the type {kind}")
        bits = 1 if kind.element is PrimitiveType.PRED else kind.element.bits
        value = (self.signed() if bits > 8 else self.byte()) % (1 << bits)
        return value - (1 << bits) if kind.element.is_signed and value >> (bits - 1) else value

    def float_number(self, kind: Any) -> float:
        """The number of a float attribute of the type `kind`, as its bits are."""
        dtype = kind.element.dtype if isinstance(kind, ir.ScalarType) and kind.element.is_floating else None
        if dtype is None:
            raise self.fail(f"a float of the type {kind}")
        size = dtype.itemsize
        bits = self.byte() if size == 1 else self.signed() % (1 << (8 * size))
        return float(np.frombuffer(bits.to_bytes(size, "little"), dtype)[0])


class Entries:
    """The attributes and types of a file."""

    def __init__(
        self,
        container: Container,
        attributes: Mapping[str, Decoder],
        types: Mapping[str, Decoder],
        text: tuple[Callable[[str], Any], Callable[[str], Any]],
    ) -> None:
        self.container = container
        self._entries: tuple[list[Entry], list[Entry]] = (container.attributes, container.types)
        self._values: tuple[list[Any], list[Any]] = (
            [_UNREAD] * len(container.attributes),
            [_UNREAD] * len(container.types),
        )
        self._decoders = (attributes, types)
        self._from_text = text
        self._depth = 0

    def attribute(self, index: int) -> Any:
        return self._resolve(_ATTRIBUTE, index)

    def type(self, index: int) -> Any:
        return self._resolve(_TYPE, index)

    def nested(self, kind: int, index: int) -> Any:
        """An entry that another one refers to."""
        values = self._values[kind]
        if index >= len(values):
            raise BytecodeError(f"MLIR bytecode: there is no {_name(kind)} {index}, only {len(values)}")
        value = values[index]
        if value is _BEING_READ:
            raise BytecodeError(f"MLIR bytecode: {_name(kind)} {index} is a part of itself")
        if value is not _UNREAD:
            return value
        if self._depth >= _DEEPEST:
            raise _ReadFirst(kind, index)
        return self._read(kind, index)

    def _resolve(self, kind: int, index: int) -> Any:
        values = self._values[kind]
        if index < len(values) and values[index] is not _UNREAD:
            return values[index]
        pending = [(kind, index)]
        while pending:
            self._depth = 0
            try:
                self.nested(*pending[-1])
            except _ReadFirst as first:
                if first.wanted in pending:
                    raise BytecodeError(f"MLIR bytecode: {_name(kind)} {index} is a part of itself") from None
                pending.append(first.wanted)
            else:
                pending.pop()
        return values[index]

    def _read(self, kind: int, index: int) -> Any:
        values = self._values[kind]
        values[index] = _BEING_READ
        self._depth += 1
        try:
            value = self._decode(kind, self._entries[kind][index])
        except BaseException:
            values[index] = _UNREAD
            raise
        finally:
            self._depth -= 1
        values[index] = value
        return value

    def _decode(self, kind: int, entry: Entry) -> Any:
        stream = EntryStream(self, entry.position, entry.end)
        if not entry.is_custom:
            text = stream.terminated()
            try:
                return self._from_text[kind](text)
            except ParseError as error:
                raise stream.fail(f"damaged {_name(kind)} of {entry.dialect}, {text!r}: {error.message}") from error
        decoder = self._decoders[kind].get(entry.dialect)
        if decoder is None:
            raise UnsupportedError(
                f"MLIR bytecode, byte {entry.position}: the dialect {entry.dialect} has a form of its own for "
                f"{_name(kind)}s, which is not known here"
            )
        try:
            value = decoder(stream)
        except (ValueError, OverflowError) as error:
            raise stream.fail(f"damaged {_name(kind)} of {entry.dialect}: {error}") from error
        if stream.remaining:
            raise stream.fail(f"{stream.remaining} bytes are left behind the {_name(kind)}")
        return value


def _name(kind: int) -> str:
    return "attribute" if kind == _ATTRIBUTE else "type"


def elements(type_: Any, data: memoryview | bytes, stream: Stream) -> ir.ElementsAttribute:
    """Constant elements out of their bytes: all of them, or one that stands for all.

    Booleans are a byte each, or packed into bits from the lowest on, where one byte of 0xFF stands for all true;
    types of less than a byte take a byte each.
    """
    if not isinstance(type_, ir.TensorType) or not type_.is_static:
        raise stream.fail(f"constant elements need a tensor of known sizes, found {type_}")
    element = type_.element
    stored = _stored(element)
    if stored.dtype is None:
        raise stream.fail(f"no constant has elements of the type {element}")
    sizes = tuple([size or 0 for size in type_.sizes])
    count = 1
    for size in sizes:
        count *= size
    if stored is PrimitiveType.PRED:
        values = _booleans(data, count)
    else:
        values = np.frombuffer(data, np.uint8 if stored.bits < 8 else stored.dtype)
        if stored.bits < 8:
            values = _narrow(values, stored)
    if values.size == 1 and count != 1:
        return ir.ElementsAttribute(type_, np.broadcast_to(values[0], sizes))
    if values.size != count:
        raise stream.fail(f"{values.size} elements where {type_} has {count}")
    return ir.ElementsAttribute(type_, values.reshape(sizes))


def _stored(element: Any) -> PrimitiveType:
    if isinstance(element, ir.QuantizedType):
        return element.storage
    return PrimitiveType.S64 if isinstance(element, ir.IndexType) else element


def _booleans(data: memoryview | bytes, count: int) -> Any:
    raw = np.frombuffer(data, np.uint8)
    if raw.size == 1 and count != 1 and raw[0] in (0, 0xFF):
        return raw != 0
    if raw.size == -(-count // 8) and raw.size != count:
        return np.unpackbits(raw, count=count, bitorder="little").astype(bool)
    return raw != 0


def _narrow(values: Any, stored: PrimitiveType) -> Any:
    """Elements of a type of less than 8 bits out of bytes that hold one each."""
    bits = values & ((1 << stored.bits) - 1)
    if stored.is_signed:
        bits = bits.astype(np.int8)
        return np.where(bits >> (stored.bits - 1), bits - (1 << stored.bits), bits).astype(stored.dtype)
    return bits.astype(stored.dtype) if stored.is_integral else bits.view(stored.dtype)
