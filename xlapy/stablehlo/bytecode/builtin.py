"""Attributes, types and locations of MLIR's builtin dialect in bytecode.

Owns the numbers that tell them apart and the order of their parts. Must not know: operations, StableHLO.
Source: MLIR's BuiltinDialectBytecode.td.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from xlapy.base.element_types import C64, C128, F32, F64, PRED, PrimitiveType
from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode.entries import EntryStream, elements

DYNAMIC = -(2**63)
"""The size `?`."""


def read_attribute(stream: EntryStream) -> Any:
    """An attribute or a location of the builtin dialect."""
    return _decode(stream, _ATTRIBUTES, "attribute")


def read_type(stream: EntryStream) -> Any:
    """A type of the builtin dialect."""
    return _decode(stream, _TYPES, "type")


def _decode(stream: EntryStream, table: tuple[Callable[[EntryStream], Any], ...], what: str) -> Any:
    code = stream.number()
    if code >= len(table):
        raise UnsupportedError(f"MLIR bytecode, byte {stream.position}: builtin {what} {code} is not known here")
    return table[code](stream)


def sizes_of(numbers: list[int]) -> tuple[int | None, ...]:
    """Sizes with None for `?`."""
    return tuple([None if number == DYNAMIC else number for number in numbers])


def _typed_text(stream: EntryStream) -> str:
    text = stream.text()
    stream.type()
    return text


def _flat_symbol(stream: EntryStream) -> ir.SymbolReference:
    return ir.SymbolReference(stream.attribute_of(str))


def _symbol(stream: EntryStream) -> ir.SymbolReference:
    root = stream.attribute_of(str)
    return ir.SymbolReference(
        root, tuple([stream.attribute_of(ir.SymbolReference).root for _ in range(stream.count())])
    )


def _integer(stream: EntryStream) -> Any:
    kind = stream.type()
    value = stream.integer(kind)
    if isinstance(kind, ir.ScalarType) and kind.element is PRED:
        return bool(value)
    return ir.IntegerAttribute(value, kind)


def float_attribute(stream: EntryStream) -> ir.FloatAttribute:
    """A number with a type."""
    kind = stream.type()
    return ir.FloatAttribute(stream.float_number(kind), kind)


def _location(stream: EntryStream) -> ir.FileLocation:
    return stream.attribute_of(ir.FileLocation)


def _call_site(stream: EntryStream) -> ir.FileLocation:
    callee, caller = _location(stream), _location(stream)
    return replace(callee, callers=(*callee.callers, replace(caller, callers=()), *caller.callers))


def _file(stream: EntryStream) -> ir.FileLocation:
    return ir.FileLocation(stream.attribute_of(str), stream.number(), stream.number())


def _range(stream: EntryStream) -> ir.FileLocation:
    """A range of a file, as up to four numbers: the first line, its column, then where it ends."""
    file = stream.attribute_of(str)
    line, column, *_ = [*[stream.number() for _ in range(stream.count())], 0, 0]
    return ir.FileLocation(file, line, column)


def _fused(stream: EntryStream) -> ir.FileLocation:
    """The first of several locations that names a file."""
    found = [_location(stream) for _ in range(stream.count())]
    return next((location for location in found if location.file), found[0] if found else ir.UNKNOWN_LOCATION)


def _fused_with_metadata(stream: EntryStream) -> ir.FileLocation:
    found = _fused(stream)
    stream.attribute()
    return found


def _name(stream: EntryStream) -> ir.FileLocation:
    name, child = stream.attribute_of(str), _location(stream)
    return replace(child, names=(name, *child.names))


def _resource(stream: EntryStream) -> ir.ElementsAttribute:
    type_ = stream.type()
    name, data = stream.resource()
    found = elements(type_, data, stream)
    return ir.ElementsAttribute(found.type, found.values, name)


def _dense_array(stream: EntryStream) -> ir.ElementsAttribute:
    element, size = stream.element_type(), stream.number()
    return elements(ir.TensorType((size,), element), stream.blob(), stream)


def dense_elements(stream: EntryStream) -> ir.ElementsAttribute:
    """Constant elements behind their type."""
    type_ = stream.type()
    return elements(type_, stream.blob(), stream)


def _dense_strings(stream: EntryStream) -> Any:
    raise UnsupportedError(f"MLIR bytecode, byte {stream.position}: tensors of strings have no place in StableHLO")


def _sparse(stream: EntryStream) -> Any:
    raise UnsupportedError(f"MLIR bytecode, byte {stream.position}: sparse constants have no place in StableHLO")


_ATTRIBUTES: tuple[Callable[[EntryStream], Any], ...] = (
    EntryStream.attributes,
    EntryStream.dictionary,
    EntryStream.text,
    _typed_text,
    _flat_symbol,
    _symbol,
    EntryStream.type,
    lambda stream: ir.Unit(),
    _integer,
    float_attribute,
    _call_site,
    _file,
    _fused,
    _fused_with_metadata,
    _name,
    lambda stream: ir.UNKNOWN_LOCATION,
    _resource,
    _dense_array,
    dense_elements,
    _dense_strings,
    _sparse,
    EntryStream.attribute,
    _range,
)

_SIGNLESS, _SIGNED = 0, 1


def _integer_type(stream: EntryStream) -> ir.Type:
    coded = stream.number()
    bits, signedness = coded >> 2, coded & 3
    if bits == 1 and signedness == _SIGNLESS:
        return ir.ScalarType(PRED)
    name = f"{'S' if signedness in (_SIGNLESS, _SIGNED) else 'U'}{bits}"
    if name[1:] not in ("1", "2", "4", "8", "16", "32", "64"):
        raise UnsupportedError(f"MLIR bytecode, byte {stream.position}: StableHLO has no integers of {bits} bits")
    return ir.ScalarType(PrimitiveType.from_name(name))


def complex_type(stream: EntryStream) -> ir.Type:
    """A complex type by the type of its parts."""
    part = stream.element_type()
    if part is F32:
        return ir.ScalarType(C64)
    if part is F64:
        return ir.ScalarType(C128)
    raise UnsupportedError(f"MLIR bytecode, byte {stream.position}: there are no complex numbers of {part}")


def _memref(stream: EntryStream) -> ir.BufferType:
    sizes, element = stream.signed_numbers(), stream.element_type()
    stream.attribute()
    return buffer_type(sizes, element, stream)


def _memref_in_space(stream: EntryStream) -> ir.BufferType:
    stream.attribute()
    return _memref(stream)


def buffer_type(sizes: list[int], element: Any, stream: EntryStream) -> ir.BufferType:
    """A buffer of known sizes."""
    if DYNAMIC in sizes or isinstance(element, ir.IndexType):
        raise stream.fail("a buffer has known sizes and elements of StableHLO's types")
    return ir.BufferType(tuple(sizes), element)


def tensor_type(stream: EntryStream) -> ir.TensorType:
    """A tensor without an encoding."""
    return ir.TensorType(sizes_of(stream.signed_numbers()), stream.element_type())


def encoded_tensor_type(stream: EntryStream) -> ir.TensorType:
    """A tensor with an encoding before it."""
    encoding = stream.attribute()
    return with_encoding(tensor_type(stream), encoding)


def with_encoding(tensor: ir.TensorType, encoding: Any) -> ir.TensorType:
    """A tensor with bounds of its dimensions, or another encoding."""
    if isinstance(encoding, ir.StructAttribute) and encoding.name == "stablehlo.bounds":
        return replace(tensor, bounds=encoding.fields["bounds"])
    return replace(tensor, encoding=encoding)


def _no_such(what: str) -> Callable[[EntryStream], Any]:
    def fail(stream: EntryStream) -> Any:
        raise UnsupportedError(f"MLIR bytecode, byte {stream.position}: StableHLO has no {what}")

    return fail


def scalar(name: str) -> Callable[[EntryStream], ir.Type]:
    """A type that has no parts."""
    found = ir.ScalarType(PrimitiveType.from_name(name))
    return lambda stream: found


_NARROW_FLOATS = (
    *("F8E5M2", "F8E4M3", "F8E4M3FN", "F8E5M2FNUZ", "F8E4M3FNUZ", "F8E4M3B11FNUZ", "F8E3M4", "F4E2M1FN", "F6E2M3FN"),
    *("F6E3M2FN", "F8E8M0FNU"),
)

_TYPES: tuple[Callable[[EntryStream], Any], ...] = (
    _integer_type,
    lambda stream: ir.IndexType(),
    lambda stream: ir.FunctionType(stream.types(), stream.types()),
    scalar("BF16"),
    scalar("F16"),
    scalar("F32"),
    scalar("F64"),
    _no_such("f80"),
    _no_such("f128"),
    complex_type,
    _memref,
    _memref_in_space,
    lambda stream: ir.NoneType(),
    tensor_type,
    encoded_tensor_type,
    lambda stream: ir.TupleType(stream.types()),
    _no_such("unranked buffers"),
    _no_such("unranked buffers"),
    lambda stream: ir.UnrankedTensorType(stream.element_type()),
    _no_such("vectors"),
    _no_such("vectors"),
    lambda stream: ir.OpaqueType("tf32"),
    *[scalar(name) for name in _NARROW_FLOATS],
)
