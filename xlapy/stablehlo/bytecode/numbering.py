"""Encodes the attributes, types and strings of a program and numbers each distinct one.

The reverse of the decoders in `vhlo` and `builtin`. Does not depend on operations.

Source: StableHLO's VhloBytecode.cpp, MLIR's BuiltinDialectBytecode.td.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy.base.element_types import C64, C128, F64, PRED, S64, PrimitiveType
from xlapy.base.error_codes.formats import bytecode as codes
from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode.builtin import DYNAMIC
from xlapy.stablehlo.bytecode.encoding_emitter import EncodingEmitter
from xlapy.stablehlo.bytecode.legalize_to_vhlo import Case
from xlapy.stablehlo.bytecode.vhlo import ENUMS

_MODES = 19
"""The code of the enum of result accuracy modes."""
_SIGNED_FLAG = 1
"""The flag of quantized types with a signed storage type."""


class EntryNumbering:
    """Numbers the encodings of attributes or of types. Equal encodings have the same number.

    A nested attribute or type has a lower number than the one that contains it.
    """

    def __init__(self) -> None:
        self.entries: list[tuple[str, bytes, bool]] = []
        self._number_of: dict[tuple[str, bytes, bool], int] = {}

    def number(self, dialect: str, data: bytes, is_custom: bool = True) -> int:
        """Returns the number of an encoding; adds it if it is new."""
        key = (dialect, data, is_custom)
        number = self._number_of.get(key)
        if number is None:
            number = self._number_of[key] = len(self.entries)
            self.entries.append(key)
        return number


class IRNumbering:
    """Numbers the strings, attributes and types of a file that is being written. Methods return the number."""

    def __init__(self) -> None:
        self.attributes = EntryNumbering()
        self.types = EntryNumbering()
        self.strings: list[str] = []
        self._string_numbers: dict[str, int] = {}
        self._type_numbers: dict[Any, int] = {}

    def string(self, text: str) -> int:
        """Numbers a string."""
        number = self._string_numbers.get(text)
        if number is None:
            number = self._string_numbers[text] = len(self.strings)
            self.strings.append(text)
        return number

    def attribute(self, value: Any) -> int:
        """Numbers an attribute in VHLO's encoding."""
        if isinstance(value, ir.Unit):
            return self.builtin(value)
        if isinstance(value, ir.OpaqueAttribute):
            text = f"#{value.name}" + ("" if value.text is None else f"<{value.text}>")
            return self._text(value.name.partition(".")[0], text)
        emitter = EncodingEmitter()
        self._encode(emitter, value)
        return self.attributes.number("vhlo", bytes(emitter.data))

    def _text(self, dialect: str, text: str) -> int:
        emitter = EncodingEmitter()
        emitter.null_terminated(text)
        return self.attributes.number(dialect, bytes(emitter.data), False)

    def _encode(self, emitter: EncodingEmitter, value: Any) -> None:
        if isinstance(value, bool):
            emitter.varints(2, value)
        elif isinstance(value, str):
            emitter.varints(14, self.string(value))
        elif isinstance(value, ir.SymbolReference):
            emitter.varints(14, self.string(value.root))
        elif isinstance(value, Case):
            emitter.varints(value.enum, value.number)
        elif isinstance(value, tuple):
            emitter.varint(1)
            emitter.varint_list(self.attribute(part) for part in value)
        elif isinstance(value, dict):
            emitter.varint(6)
            emitter.varint(len(value))
            for name, part in value.items():
                emitter.varint(self.attribute(name))
                emitter.varint(self.attribute(part))
        elif isinstance(value, ir.IntegerAttribute):
            emitter.varints(9, self.type(value.type))
            emitter.integer(value.value, _element(value.type))
        elif isinstance(value, ir.FloatAttribute):
            emitter.varints(8, self.type(value.type))
            emitter.float_number(value.value, value.type.element)
        elif isinstance(value, ir.ElementsAttribute):
            emitter.varints(15, self.type(value.type))
            emitter.blob(blob(value))
        elif isinstance(value, ir.StructAttribute):
            self._encode_struct(emitter, value.name.removeprefix("stablehlo."), value.fields)
        else:
            emitter.varints(17, self.type(value))

    def _encode_struct(self, emitter: EncodingEmitter, name: str, fields: dict[str, Any]) -> None:
        if name == "output_operand_alias":
            emitter.varint(10)
            emitter.signed_varint_list(fields.get("output_tuple_indices", ()))
            emitter.signed_varint(fields.get("operand_index", 0))
            emitter.signed_varint_list(fields.get("operand_tuple_indices", ()))
        elif name == "result_accuracy":
            emitter.varint(20)
            emitter.float_number(fields.get("atol", 0.0), F64)
            emitter.float_number(fields.get("rtol", 0.0), F64)
            emitter.signed_varint(fields.get("ulps", 0))
            emitter.varint(self.attribute(Case(_MODES, ENUMS[_MODES].index(fields.get("mode", "DEFAULT")))))
        elif name == "sub_axis_info":
            emitter.varint(21)
            emitter.signed_varint(fields["pre_size"])
            emitter.signed_varint(fields["size"])
        elif name == "axis_ref":
            part = fields.get("sub_axis_info")
            emitter.varints(22, self.attribute(fields["name"]), part is not None)
            if part is not None:
                emitter.varint(self.attribute(part))
        elif name == "replica_group_mesh_axes":
            emitter.varints(23, self.attribute(fields["mesh"]), self.attribute(fields["axes"]))
        elif name == "mesh_axis":
            emitter.varints(24, self.attribute(fields["name"]))
            emitter.signed_varint(fields["size"])
        elif name == "mesh":
            devices = fields.get("device_ids")
            emitter.varints(25, self.attribute(fields["axes"]))
            emitter.varint_with_flag(0 if devices is None else self.attribute(devices), devices is not None)
        else:
            raise UnsupportedError(codes.ARTIFACT_ATTRIBUTE, f"a portable artifact cannot hold #stablehlo.{name}")

    def builtin(self, value: Any) -> int:
        """Numbers an attribute in the builtin dialect's encoding: attributes of a module, and names in a dictionary."""
        emitter = EncodingEmitter()
        if isinstance(value, str):
            emitter.varints(2, self.string(value))
        elif isinstance(value, ir.Unit):
            emitter.varint(7)
        elif isinstance(value, tuple):
            emitter.varint(0)
            emitter.varint_list(self.builtin(part) for part in value)
        elif isinstance(value, dict):
            emitter.varint(1)
            emitter.varint(len(value))
            for name, part in sorted(value.items()):
                emitter.varint(self.builtin(name))
                emitter.varint(self.builtin(part))
        elif isinstance(value, bool):
            emitter.varints(8, self._builtin_integer(PRED))
            emitter.integer(value, PRED)
        elif isinstance(value, ir.IntegerAttribute) and isinstance(value.type, ir.ScalarType):
            emitter.varints(8, self._builtin_integer(value.type.element))
            emitter.integer(value.value, value.type.element)
        else:
            return self.attribute(value)
        return self.attributes.number("builtin", bytes(emitter.data))

    def dictionary(self, attributes: dict[str, Any]) -> int:
        """Numbers the attribute dictionary of an operation, with names in the builtin encoding and values in VHLO's."""
        emitter = EncodingEmitter()
        emitter.varint(1)
        emitter.varint(len(attributes))
        for name, value in sorted(attributes.items()):
            emitter.varint(self.builtin(name))
            emitter.varint(self.attribute(value))
        return self.attributes.number("builtin", bytes(emitter.data))

    def _builtin_integer(self, element: PrimitiveType) -> int:
        bits = 1 if element is PRED else element.bits
        is_unsigned = element.is_integral and not element.is_signed
        emitter = EncodingEmitter()
        emitter.varints(0, bits << 2 | (2 if is_unsigned else 0))
        return self.types.number("builtin", bytes(emitter.data))

    def location(self, location: ir.FileLocation) -> int:
        """Numbers a location with its names and its call stack."""
        chain = [self._named_location(frame) for frame in (location, *location.callers)]
        number = chain.pop()
        while chain:
            emitter = EncodingEmitter()
            emitter.varints(10, chain.pop(), number)
            number = self.attributes.number("builtin", bytes(emitter.data))
        return number

    def _named_location(self, location: ir.FileLocation) -> int:
        emitter = EncodingEmitter()
        if location.file:
            emitter.varints(11, self.builtin(location.file), location.line, location.column)
        else:
            emitter.varint(15)
        number = self.attributes.number("builtin", bytes(emitter.data))
        for name in reversed(location.names):
            emitter = EncodingEmitter()
            emitter.varints(14, self.builtin(name), number)
            number = self.attributes.number("builtin", bytes(emitter.data))
        return number

    def type(self, type_: Any) -> int:
        """Numbers a type in VHLO's encoding."""
        number = self._type_numbers.get(type_)
        if number is None:
            emitter = EncodingEmitter()
            self._encode_type(emitter, type_)
            number = self._type_numbers[type_] = self.types.number("vhlo", bytes(emitter.data))
        return number

    def _encode_type(self, emitter: EncodingEmitter, type_: Any) -> None:
        if isinstance(type_, ir.TensorType):
            self._encode_tensor(emitter, type_)
        elif isinstance(type_, ir.ScalarType):
            self._encode_scalar(emitter, type_.element)
        elif isinstance(type_, ir.FunctionType):
            emitter.varint(8)
            emitter.varint_list(self.type(part) for part in type_.inputs)
            emitter.varint_list(self.type(part) for part in type_.results)
        elif isinstance(type_, ir.TupleType | ir.FutureType):
            emitter.varint(23 if isinstance(type_, ir.TupleType) else 42)
            emitter.varint_list(self.type(part) for part in type_.elements)
        elif isinstance(type_, ir.UnrankedTensorType):
            emitter.varints(25, self._element_type(type_.element))
        elif isinstance(type_, ir.BufferType):
            emitter.varint(41)
            emitter.signed_varint_list(type_.sizes)
            emitter.varint(self._element_type(type_.element))
        elif isinstance(type_, ir.QuantizedType):
            self._encode_quantized(emitter, type_)
        elif isinstance(type_, ir.IndexType | ir.TokenType | ir.NoneType):
            emitter.varint(9 if isinstance(type_, ir.IndexType) else 22 if isinstance(type_, ir.TokenType) else 33)
        elif type_ == ir.OpaqueType("tf32"):
            emitter.varint(34)
        else:
            raise UnsupportedError(codes.ARTIFACT_TYPE, f"a portable artifact cannot hold the type {type_}")

    def _encode_tensor(self, emitter: EncodingEmitter, type_: ir.TensorType) -> None:
        sizes = [DYNAMIC if size is None else size for size in type_.sizes]
        if type_.bounds:
            encoding = EncodingEmitter()
            encoding.varint(18)
            encoding.signed_varint_list(DYNAMIC if bound is None else bound for bound in type_.bounds)
            emitter.varints(21, self.attributes.number("vhlo", bytes(encoding.data)))
        elif type_.encoding is not None:
            emitter.varints(21, self.attribute(type_.encoding))
        else:
            emitter.varint(20)
        emitter.signed_varint_list(sizes)
        emitter.varint(self._element_type(type_.element))

    def _element_type(self, element: Any) -> int:
        return self.type(ir.ScalarType(element) if isinstance(element, PrimitiveType) else element)

    def _encode_scalar(self, emitter: EncodingEmitter, element: PrimitiveType) -> None:
        code = element.protocol_numbers.vhlo
        if code is not None:
            emitter.varint(code)
        elif element in (C64, C128):
            emitter.varints(1, self._element_type(element.component_type))
        else:
            raise UnsupportedError(codes.ARTIFACT_TYPE, f"a portable artifact cannot hold elements of {element}")

    def _encode_quantized(self, emitter: EncodingEmitter, type_: ir.QuantizedType) -> None:
        if type_.block_sizes:
            raise UnsupportedError(codes.ARTIFACT_TYPE, "a portable artifact cannot hold sub-channel quantization")
        flags = _SIGNED_FLAG if type_.storage.is_signed else 0
        storage = PrimitiveType.from_name(f"S{type_.storage.bits}")
        emitter.varints(30 if type_.axes else 24, flags)
        emitter.varints(self._element_type(storage), self._element_type(type_.expressed))
        if not type_.axes:
            emitter.float_number(type_.scales[0], F64)
            emitter.signed_varint(type_.zero_points[0])
            emitter.signed_varint(type_.storage_min)
            emitter.signed_varint(type_.storage_max)
            return
        emitter.varint(type_.axes[0])
        emitter.signed_varint(type_.storage_min)
        emitter.signed_varint(type_.storage_max)
        emitter.varint(len(type_.scales))
        for scale in type_.scales:
            emitter.float_number(scale, F64)
        emitter.signed_varint_list(type_.zero_points)


def _element(type_: Any) -> PrimitiveType | None:
    return type_.element if isinstance(type_, ir.ScalarType) else None


def blob(value: ir.ElementsAttribute) -> bytes:
    """Returns the bytes of constant elements: one element for a splat, booleans packed into bits."""
    values = np.asarray(value.values)
    element = value.type.element
    stored = element.storage if isinstance(element, ir.QuantizedType) else element
    stored = S64 if isinstance(stored, ir.IndexType) else stored
    is_splat = values.size > 1 and all(stride == 0 for stride in values.strides)
    if stored is PRED:
        if is_splat:
            return b"\xff" if values.flat[0] else b"\0"
        return np.packbits(values.reshape(-1), bitorder="little").tobytes()
    values = values.reshape(-1)[:1] if is_splat else values
    if stored.bits >= 8:
        return values.astype(stored.dtype, copy=False).tobytes()
    mask = (1 << stored.bits) - 1
    if stored.is_integral:
        return (values.astype(np.int16) & mask).astype(np.uint8).tobytes()
    return values.view(np.uint8).tobytes()
