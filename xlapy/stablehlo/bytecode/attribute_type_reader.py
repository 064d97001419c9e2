"""Reads attributes and types by number, lazily.

Responsible for the tables and the order of reading: attributes and types refer to each other by number, in any order
and to any depth. Does not depend on how a dialect encodes them; it gets a decoder of attributes and one of types for
each dialect.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import numpy as np

from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.formats import bytecode as codes
from xlapy.base.error_codes.formats import stablehlo_text as text_codes
from xlapy.base.errors import BytecodeError, ParseError, ShapeError, UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode.bytecode_file import BytecodeFile, EncodedEntry, EntryTable
from xlapy.stablehlo.bytecode.encoding_reader import EncodingReader

_UNREAD = object()
_BEING_READ = object()
_MAX_RECURSION_DEPTH = 50
"""How deeply nested attributes and types are read by recursion. Deeper ones are read first, from a work list."""

_MAX_NESTING_DEPTH = 100
"""How deeply attributes and types may be nested. Locations may be nested to any depth: call stacks consist of them."""
_MAX_PARTS = 1 << 18
_MAX_PARTS_PER_BYTE = 16
"""Bounds of the attributes and types that references stand for: a number, and more for each byte of the file."""
_CHARACTERS_PER_PART = 8
"""Characters of a text that count as one attribute."""
_ELEMENTS_PER_PART = 32
"""Elements of a constant that count as one attribute. Constants that are equal share one attribute."""

_ATTRIBUTE, _TYPE = 0, 1

Kind = TypeVar("Kind")
Decoder = Callable[["DialectReader"], Any]


class _TooDeep(Exception):
    """Raised for an attribute or type that is nested too deep for recursion and must be read first."""

    def __init__(self, kind: int, index: int) -> None:
        super().__init__()
        self.entry = (kind, index)


class DialectReader(EncodingReader):
    """Reads the bytes of an attribute, a type or properties, and the attributes and types that they refer to."""

    __slots__ = ("entries",)

    def __init__(self, entries: AttributeTypeReader, position: int, end: int) -> None:
        super().__init__(entries.file.data, position, end)
        self.entries = entries

    def attribute(self) -> Any:
        """Reads a reference to an attribute."""
        return self.entries.nested(_ATTRIBUTE, self.varint())

    def attribute_of(self, kind: type[Kind]) -> Kind:
        """Reads a reference to an attribute of a kind. Raises `BytecodeError` for another kind, which is damage."""
        found = self.attribute()
        if not isinstance(found, kind):
            raise self.fail(codes.BYTECODE_KIND, f"expected an attribute of kind {kind.__name__}, found {found!r}")
        return found

    def dictionary(self) -> dict[str, Any]:
        """Reads the references of a dictionary attribute."""
        return {self.attribute_of(str): self.attribute() for _ in range(self.count())}

    def optional_attribute(self) -> Any:
        """Reads a reference to an attribute that may be absent; None if it is."""
        index, is_present = self.varint_with_flag()
        return self.entries.nested(_ATTRIBUTE, index) if is_present else None

    def attributes(self) -> tuple[Any, ...]:
        """Reads a list of references to attributes."""
        return tuple([self.attribute() for _ in range(self.count())])

    def type(self) -> Any:
        """Reads a reference to a type."""
        return self.entries.nested(_TYPE, self.varint())

    def types(self) -> tuple[Any, ...]:
        """Reads a list of references to types."""
        return tuple([self.type() for _ in range(self.count())])

    def text(self) -> str:
        """Reads a reference to a string."""
        return self.entries.file.string(self)

    def blob(self) -> memoryview:
        """Reads a blob: its size, then its bytes."""
        return self.view(self.varint())

    def resource(self, type_: Any) -> ir.ElementsAttribute:
        """Reads a reference to a resource, whose bytes are the elements of a type."""
        index, resources = self.varint(), self.entries.file.resources
        if index >= len(resources):
            raise self.fail(codes.BYTECODE_REFERENCE, f"there is no resource {index}, only {len(resources)}")
        name, data = resources[index]
        found = elements(type_, data, self, self.entries.resource_values, index)
        return ir.ElementsAttribute(found.type, found.values, name)

    def element_type(self) -> ir.ElementType | ir.IndexType:
        """Reads a reference to the element type of a tensor."""
        found = self.type()
        if isinstance(found, ir.ScalarType):
            return found.element
        if isinstance(found, ir.QuantizedType | ir.IndexType):
            return found
        raise UnsupportedError(
            codes.BYTECODE_TYPE, f"MLIR bytecode, byte {self.position}: StableHLO has no tensors of {found}"
        )

    def integer(self, kind: Any) -> int:
        """Reads the value of an integer attribute of a type: a byte for up to 8 bits, else a signed varint."""
        if isinstance(kind, ir.IndexType):
            return self.signed_varint()
        if not isinstance(kind, ir.ScalarType) or not (kind.element.is_integral or kind.element is PrimitiveType.PRED):
            raise self.fail(codes.BYTECODE_KIND, f"{kind} is not the type of an integer")
        bits = 1 if kind.element is PrimitiveType.PRED else kind.element.bits
        value = (self.signed_varint() if bits > 8 else self.byte()) % (1 << bits)
        return value - (1 << bits) if kind.element.is_signed and value >> (bits - 1) else value

    def float_number(self, kind: Any) -> float:
        """Reads the value of a floating-point attribute of a type, which is encoded as its bits."""
        dtype = kind.element.dtype if isinstance(kind, ir.ScalarType) and kind.element.is_floating else None
        if dtype is None:
            raise self.fail(codes.BYTECODE_KIND, f"{kind} is not the type of a floating-point number")
        size = dtype.itemsize
        bits = self.byte() if size == 1 else self.signed_varint() % (1 << (8 * size))
        return float(np.frombuffer(bits.to_bytes(size, "little"), dtype)[0])


class AttributeTypeReader:
    """Reads the attributes and types of a file and caches them."""

    def __init__(
        self,
        file: BytecodeFile,
        attributes: Mapping[str, Decoder],
        types: Mapping[str, Decoder],
        text: tuple[Callable[[str], Any], Callable[[str], Any]],
    ) -> None:
        self.file = file
        self._entries: tuple[EntryTable, EntryTable] = (file.attributes, file.types)
        self._values: tuple[list[Any], list[Any]] = (
            [_UNREAD] * len(file.attributes),
            [_UNREAD] * len(file.types),
        )
        self._decoders = (attributes, types)
        self._from_text = text
        self._depth = 0
        self._parts: tuple[list[int], list[int]] = ([1] * len(file.attributes), [1] * len(file.types))
        self._nesting: tuple[list[int], list[int]] = ([0] * len(file.attributes), [0] * len(file.types))
        self._inner_parts = self._inner_nesting = 0
        self._parts_left = _MAX_PARTS + _MAX_PARTS_PER_BYTE * len(file.data)
        self._composites: dict[Any, Any] = {}
        self.resource_values: dict[object, Any] = {}
        """The elements of resources, of which many attributes can be made, by number, type of elements and count."""

    def spend(self, parts: int) -> None:
        """Counts attributes and types that references stand for. Raises `BytecodeError` if they are too many.

        An entry may refer to the one before it twice, so that forty entries would stand for 2**40.
        """
        self._parts_left -= parts
        if self._parts_left < 0:
            raise BytecodeError(
                codes.BYTECODE_NESTING,
                "MLIR bytecode: the references between attributes and types stand for too many of them",
            )

    def attribute(self, index: int) -> Any:
        """Returns the attribute with a number."""
        return self._resolve(_ATTRIBUTE, index)

    def type(self, index: int) -> Any:
        """Returns the type with a number."""
        return self._resolve(_TYPE, index)

    def nested(self, kind: int, index: int) -> Any:
        """Returns an attribute or type that another one refers to."""
        values = self._values[kind]
        if index >= len(values):
            raise BytecodeError(
                codes.BYTECODE_REFERENCE, f"MLIR bytecode: there is no {_kind_name(kind)} {index}, only {len(values)}"
            )
        value = values[index]
        if value is _BEING_READ:
            raise BytecodeError(codes.BYTECODE_NESTING, f"MLIR bytecode: {_kind_name(kind)} {index} contains itself")
        if value is _UNREAD:
            self.spend(1)  # reading one may begin several times
            if self._depth >= _MAX_RECURSION_DEPTH:
                raise _TooDeep(kind, index)
            value = self._read(kind, index)
        self.spend(self._parts[kind][index])
        self._inner_parts += self._parts[kind][index]
        self._inner_nesting = max(self._inner_nesting, self._nesting[kind][index])
        return value

    def _resolve(self, kind: int, index: int) -> Any:
        values = self._values[kind]
        if index < len(values) and values[index] is not _UNREAD:
            return values[index]
        pending = {(kind, index): None}
        while pending:
            self._depth = 0
            try:
                self.nested(*next(reversed(pending)))
            except _TooDeep as first:
                if first.entry in pending:
                    raise BytecodeError(
                        codes.BYTECODE_NESTING, f"MLIR bytecode: {_kind_name(kind)} {index} contains itself"
                    ) from None
                pending[first.entry] = None
            else:
                pending.popitem()
        return values[index]

    def _read(self, kind: int, index: int) -> Any:
        values = self._values[kind]
        values[index] = _BEING_READ
        self._depth += 1
        outer = self._inner_parts, self._inner_nesting
        self._inner_parts = self._inner_nesting = 0
        try:
            value = self._decode(kind, self._entries[kind][index])
            self._measure(kind, index, value)
        except BaseException:
            values[index] = _UNREAD
            raise
        finally:
            self._depth -= 1
            self._inner_parts, self._inner_nesting = outer
        if isinstance(value, ir.CompositeType):
            value = self._composites.setdefault(value, value)  # equal ones are the same object, and compare fast
        values[index] = value
        return value

    def _measure(self, kind: int, index: int, value: Any) -> None:
        """Notes how much a reference to an entry stands for. The names and callers of a location are flat lists."""
        if isinstance(value, ir.FileLocation):
            parts, nesting = 1 + len(value.names) + len(value.callers), 0
        elif isinstance(value, ir.ElementsAttribute):
            parts, nesting = 1 + (0 if value.is_splat else value.values.size // _ELEMENTS_PER_PART), 1
        elif isinstance(value, str):
            parts, nesting = 1 + len(value) // _CHARACTERS_PER_PART, 1
        elif isinstance(value, ir.OpaqueAttribute):
            parts, nesting = 1 + len(value.text or "") // _CHARACTERS_PER_PART, 0
        else:
            parts, nesting = 1 + self._inner_parts, 1 + self._inner_nesting
        if nesting > _MAX_NESTING_DEPTH:
            raise BytecodeError(
                codes.BYTECODE_NESTING,
                f"MLIR bytecode: {_kind_name(kind)} {index} nests deeper than {_MAX_NESTING_DEPTH}",
            )
        self._parts[kind][index], self._nesting[kind][index] = parts, nesting

    def _decode(self, kind: int, entry: EncodedEntry) -> Any:
        reader = DialectReader(self, entry.position, entry.end)
        if not entry.is_custom:
            text = reader.null_terminated()
            try:
                return self._from_text[kind](text)
            except ParseError as error:
                raise reader.fail(
                    error.code, f"damaged {_kind_name(kind)} of {entry.dialect}, {text!r}: {error.message}"
                ) from error
        decoder = self._decoders[kind].get(entry.dialect)
        if decoder is None:
            raise UnsupportedError(
                codes.BYTECODE_ENCODING,
                f"MLIR bytecode, byte {entry.position}: the encoding of {_kind_name(kind)}s of the dialect "
                f"{entry.dialect} is not supported",
            )
        try:
            value = decoder(reader)
        except ShapeError as error:
            raise reader.fail(error.code, f"damaged {_kind_name(kind)} of {entry.dialect}: {error.message}") from error
        except (ValueError, OverflowError) as error:
            raise reader.fail(
                codes.DAMAGED_BYTECODE, f"damaged {_kind_name(kind)} of {entry.dialect}: {error}"
            ) from error
        if reader.remaining:
            raise reader.fail(codes.DAMAGED_BYTECODE, f"{reader.remaining} bytes are left after the {_kind_name(kind)}")
        return value


def _kind_name(kind: int) -> str:
    return "attribute" if kind == _ATTRIBUTE else "type"


def elements(
    type_: Any,
    data: memoryview | bytes,
    reader: EncodingReader,
    known: dict[object, Any] | None = None,
    number: int | None = None,
) -> ir.ElementsAttribute:
    """Returns the constant elements of a tensor from their bytes: all elements, or a splat.

    `known` keeps the elements of the bytes with a number, which may be used many times.

    Booleans are bytes, or bits from the lowest on; a byte 0xFF as a splat is true. Narrower elements
    take a byte each.
    """
    if not isinstance(type_, ir.TensorType):
        raise reader.fail(codes.BYTECODE_KIND, f"the type of constant elements must be a tensor, found {type_}")
    element = type_.element
    stored = _stored(element)
    if stored.dtype is None:
        raise reader.fail(codes.BYTECODE_KIND, f"constants cannot have elements of the type {element}")
    try:
        sizes = ir.check_constant(type_, stored)
    except ShapeError as error:
        raise reader.fail(error.code, error.message) from error
    count = math.prod(sizes)
    key = (number, stored, count)
    values = None if known is None else known.get(key)
    if values is None:
        values = _values(data, stored, count)
        if known is not None:
            known[key] = values
    if values.size == 1 and count != 1:
        return ir.ElementsAttribute(type_, np.broadcast_to(values[0], sizes))
    if values.size != count:
        raise reader.fail(text_codes.ELEMENT_COUNT, f"{type_} has {count} elements, found {values.size}")
    return ir.ElementsAttribute(type_, values.reshape(sizes))


def _values(data: memoryview | bytes, stored: PrimitiveType, count: int) -> Any:
    if stored is PrimitiveType.PRED:
        return _booleans(data, count)
    if stored.bits < 8:
        return _narrow(np.frombuffer(data, np.uint8), stored)
    return np.frombuffer(data, stored.dtype)


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
    """Converts bytes to elements of a type of less than 8 bits, one element per byte."""
    bits = values & ((1 << stored.bits) - 1)
    if stored.is_signed:
        bits = bits.astype(np.int8)
        return np.where(bits >> (stored.bits - 1), bits - (1 << stored.bits), bits).astype(stored.dtype)
    return bits.astype(stored.dtype) if stored.is_integral else bits.view(stored.dtype)
