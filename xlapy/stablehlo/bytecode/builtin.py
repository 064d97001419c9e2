"""Decodes attributes, types and locations of MLIR's builtin dialect.

Responsible for their codes and the order of their fields. Does not depend on operations or StableHLO.

Source: MLIR's BuiltinDialectBytecode.td.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from xlapy.base.element_types import ALL_TYPES, C64, C128, F32, F64, PRED, PrimitiveType
from xlapy.base.error_codes.formats import bytecode as codes
from xlapy.base.error_codes.formats import stablehlo_text as text_codes
from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode.attribute_type_reader import DialectReader, elements

DYNAMIC = -(2**63)
"""The encoding of the size `?`."""


def read_attribute(reader: DialectReader) -> Any:
    """Decodes an attribute or a location of the builtin dialect."""
    return _decode(reader, _ATTRIBUTES, "attribute")


def read_type(reader: DialectReader) -> Any:
    """Decodes a type of the builtin dialect."""
    return _decode(reader, _TYPES, "type")


def _decode(reader: DialectReader, table: dict[int, Callable[[DialectReader], Any]], what: str) -> Any:
    code = reader.varint()
    decoder = table.get(code)
    if decoder is None:
        raise UnsupportedError(
            codes.BYTECODE_ENCODING, f"MLIR bytecode, byte {reader.position}: unknown builtin {what} {code}"
        )
    return decoder(reader)


def sizes_of(numbers: list[int]) -> tuple[int | None, ...]:
    """Converts encoded sizes, with None for `?`."""
    return tuple([None if number == DYNAMIC else number for number in numbers])


def _typed_text(reader: DialectReader) -> str:
    text = reader.text()
    reader.type()
    return text


def _flat_symbol(reader: DialectReader) -> ir.SymbolReference:
    return ir.SymbolReference(reader.attribute_of(str))


def _symbol(reader: DialectReader) -> ir.SymbolReference:
    root = reader.attribute_of(str)
    return ir.SymbolReference(
        root, tuple([reader.attribute_of(ir.SymbolReference).root for _ in range(reader.count())])
    )


def _integer(reader: DialectReader) -> Any:
    kind = reader.type()
    value = reader.integer(kind)
    if isinstance(kind, ir.ScalarType) and kind.element is PRED:
        return bool(value)
    return ir.IntegerAttribute(value, kind)


def float_attribute(reader: DialectReader) -> ir.FloatAttribute:
    """Decodes a floating-point number with its type."""
    kind = reader.type()
    return ir.FloatAttribute(reader.float_number(kind), kind)


def _location(reader: DialectReader) -> ir.FileLocation:
    return reader.attribute_of(ir.FileLocation)


def _call_site(reader: DialectReader) -> ir.FileLocation:
    callee, caller = _location(reader), _location(reader)
    return ir.call_site_location(callee, caller)


def _file(reader: DialectReader) -> ir.FileLocation:
    return ir.FileLocation(reader.attribute_of(str), reader.varint(), reader.varint())


def _range(reader: DialectReader) -> ir.FileLocation:
    """Decodes a file range as its start. Up to four numbers follow the file: line and column of start and end."""
    file = reader.attribute_of(str)
    line, column, *_ = [*[reader.varint() for _ in range(reader.count())], 0, 0]
    return ir.FileLocation(file, line, column)


def _fused(reader: DialectReader) -> ir.FileLocation:
    """Decodes a fused location as its first location with a file."""
    found = [_location(reader) for _ in range(reader.count())]
    return next((location for location in found if location.file), found[0] if found else ir.UNKNOWN_LOCATION)


def _fused_with_metadata(reader: DialectReader) -> ir.FileLocation:
    found = _fused(reader)
    reader.attribute()
    return found


def _name(reader: DialectReader) -> ir.FileLocation:
    name, child = reader.attribute_of(str), _location(reader)
    return ir.named_location(name, child)


def _resource(reader: DialectReader) -> ir.ElementsAttribute:
    return reader.resource(reader.type())


def _dense_array(reader: DialectReader) -> ir.ElementsAttribute:
    element, size = reader.element_type(), reader.varint()
    found = elements(ir.TensorType((size,), element), reader.blob(), reader)
    if found.is_splat:
        raise reader.fail(text_codes.ELEMENT_COUNT, f"an array of {size} elements has one")
    return found


def dense_elements(reader: DialectReader) -> ir.ElementsAttribute:
    """Decodes constant elements, which follow their type."""
    type_ = reader.type()
    return elements(type_, reader.blob(), reader)


def _dense_strings(reader: DialectReader) -> Any:
    raise UnsupportedError(
        codes.BYTECODE_TYPE, f"MLIR bytecode, byte {reader.position}: StableHLO has no tensors of strings"
    )


def _sparse(reader: DialectReader) -> Any:
    raise UnsupportedError(
        codes.BYTECODE_TYPE, f"MLIR bytecode, byte {reader.position}: StableHLO has no sparse constants"
    )


_ATTRIBUTES: dict[int, Callable[[DialectReader], Any]] = {
    0: DialectReader.attributes,
    1: DialectReader.dictionary,
    2: DialectReader.text,
    3: _typed_text,
    4: _flat_symbol,
    5: _symbol,
    6: DialectReader.type,
    7: lambda reader: ir.Unit(),
    8: _integer,
    9: float_attribute,
    10: _call_site,
    11: _file,
    12: _fused,
    13: _fused_with_metadata,
    14: _name,
    15: lambda reader: ir.UNKNOWN_LOCATION,
    16: _resource,
    17: _dense_array,
    18: dense_elements,
    19: _dense_strings,
    20: _sparse,
    21: DialectReader.attribute,
    22: _range,
}

_SIGNLESS, _SIGNED = 0, 1


def _integer_type(reader: DialectReader) -> ir.Type:
    coded = reader.varint()
    bits, signedness = coded >> 2, coded & 3
    if bits == 1 and signedness == _SIGNLESS:
        return ir.ScalarType(PRED)
    name = f"{'S' if signedness in (_SIGNLESS, _SIGNED) else 'U'}{bits}"
    if name[1:] not in ("1", "2", "4", "8", "16", "32", "64"):
        raise UnsupportedError(
            codes.BYTECODE_TYPE, f"MLIR bytecode, byte {reader.position}: StableHLO has no integers of {bits} bits"
        )
    return ir.ScalarType(PrimitiveType.from_name(name))


def complex_type(reader: DialectReader) -> ir.Type:
    """Decodes a complex type, which is encoded as the type of its parts."""
    part = reader.element_type()
    if part is F32:
        return ir.ScalarType(C64)
    if part is F64:
        return ir.ScalarType(C128)
    raise UnsupportedError(
        codes.BYTECODE_TYPE, f"MLIR bytecode, byte {reader.position}: StableHLO has no complex numbers of {part}"
    )


def _memref(reader: DialectReader) -> ir.BufferType:
    sizes, element = reader.signed_varint_list(), reader.element_type()
    reader.attribute()
    return buffer_type(sizes, element, reader)


def _memref_in_space(reader: DialectReader) -> ir.BufferType:
    reader.attribute()
    return _memref(reader)


def buffer_type(sizes: list[int], element: Any, reader: DialectReader) -> ir.BufferType:
    """Returns a buffer type. Raises `BytecodeError` if a size is unknown."""
    if DYNAMIC in sizes or isinstance(element, ir.IndexType):
        raise reader.fail(codes.BYTECODE_KIND, "a buffer must have static sizes and an element type of StableHLO")
    return ir.BufferType(tuple(sizes), element)


def tensor_type(reader: DialectReader) -> ir.TensorType:
    """Decodes a tensor type without an encoding."""
    return ir.TensorType(sizes_of(reader.signed_varint_list()), reader.element_type())


def encoded_tensor_type(reader: DialectReader) -> ir.TensorType:
    """Decodes a tensor type that follows its encoding."""
    encoding = reader.attribute()
    return with_encoding(tensor_type(reader), encoding)


def with_encoding(tensor: ir.TensorType, encoding: Any) -> ir.TensorType:
    """Returns a tensor type with an encoding, which may be the bounds of its dimensions."""
    if isinstance(encoding, ir.StructAttribute) and encoding.name == "stablehlo.bounds":
        return replace(tensor, bounds=encoding.fields["bounds"])
    return replace(tensor, encoding=encoding)


def _unsupported(what: str) -> Callable[[DialectReader], Any]:
    def fail(reader: DialectReader) -> Any:
        raise UnsupportedError(codes.BYTECODE_TYPE, f"MLIR bytecode, byte {reader.position}: StableHLO has no {what}")

    return fail


def scalar(element_type: PrimitiveType) -> Callable[[DialectReader], ir.Type]:
    """Returns the decoder of an element type, which has no fields."""
    found = ir.ScalarType(element_type)
    return lambda reader: found


_TYPES: dict[int, Callable[[DialectReader], Any]] = {
    0: _integer_type,
    1: lambda reader: ir.IndexType(),
    2: lambda reader: ir.FunctionType(reader.types(), reader.types()),
    7: _unsupported("f80"),
    8: _unsupported("f128"),
    9: complex_type,
    10: _memref,
    11: _memref_in_space,
    12: lambda reader: ir.NoneType(),
    13: tensor_type,
    14: encoded_tensor_type,
    15: lambda reader: ir.TupleType(reader.types()),
    16: _unsupported("unranked buffers"),
    17: _unsupported("unranked buffers"),
    18: lambda reader: ir.UnrankedTensorType(reader.element_type()),
    19: _unsupported("vectors"),
    20: _unsupported("vectors"),
    21: lambda reader: ir.OpaqueType("tf32"),
    **{code: scalar(t) for t in ALL_TYPES if (code := t.protocol_numbers.builtin) is not None},
}
