"""Attributes, types and strings on their way into MLIR bytecode: each once, with a number.

Owns how they are encoded, as `entries`, `vhlo` and `builtin` read them. Must not know: operations.
Source: StableHLO's VhloBytecode.cpp, MLIR's BuiltinDialectBytecode.td.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy.base.element_types import C64, C128, F32, F64, PRED, S64, PrimitiveType
from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode.builtin import DYNAMIC
from xlapy.stablehlo.bytecode.downgrade import Case
from xlapy.stablehlo.bytecode.output import Output
from xlapy.stablehlo.bytecode.vhlo import ENUMS, SCALARS

_CODES = {name: code for code, name in SCALARS.items()}
_MODES = 19
_SIGNED_FLAG = 1


class Table:
    """Encodings of one kind and their numbers. Equal ones are kept once; a part has a lower number than its whole."""

    def __init__(self) -> None:
        self.entries: list[tuple[str, bytes, bool]] = []
        self._numbers: dict[tuple[str, bytes, bool], int] = {}

    def number(self, dialect: str, data: bytes, is_custom: bool = True) -> int:
        key = (dialect, data, is_custom)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.entries)
            self.entries.append(key)
        return found


class Tables:
    """The strings, attributes and types of a file that is written. Methods give the number of what they are given."""

    def __init__(self) -> None:
        self.attributes = Table()
        self.types = Table()
        self.strings: list[str] = []
        self._string_numbers: dict[str, int] = {}
        self._type_numbers: dict[Any, int] = {}

    def string(self, text: str) -> int:
        found = self._string_numbers.get(text)
        if found is None:
            found = self._string_numbers[text] = len(self.strings)
            self.strings.append(text)
        return found

    def attribute(self, value: Any) -> int:
        """An attribute in VHLO's form."""
        if isinstance(value, ir.Unit):
            return self.builtin(value)
        if isinstance(value, ir.OpaqueAttribute):
            text = f"#{value.name}" + ("" if value.text is None else f"<{value.text}>")
            return self._text(value.name.partition(".")[0], text)
        output = Output()
        self._encode(output, value)
        return self.attributes.number("vhlo", bytes(output.data))

    def _text(self, dialect: str, text: str) -> int:
        output = Output()
        output.terminated(text)
        return self.attributes.number(dialect, bytes(output.data), False)

    def _encode(self, output: Output, value: Any) -> None:
        if isinstance(value, bool):
            output.sequence(2, value)
        elif isinstance(value, str):
            output.sequence(14, self.string(value))
        elif isinstance(value, ir.SymbolReference):
            output.sequence(14, self.string(value.root))
        elif isinstance(value, Case):
            output.sequence(value.enum, value.number)
        elif isinstance(value, tuple):
            output.number(1)
            output.numbers(self.attribute(part) for part in value)
        elif isinstance(value, dict):
            output.number(6)
            output.number(len(value))
            for name, part in value.items():
                output.number(self.attribute(name))
                output.number(self.attribute(part))
        elif isinstance(value, ir.IntegerAttribute):
            output.sequence(9, self.type(value.type))
            output.integer(value.value, _element(value.type))
        elif isinstance(value, ir.FloatAttribute):
            output.sequence(8, self.type(value.type))
            output.float_number(value.value, value.type.element)
        elif isinstance(value, ir.ElementsAttribute):
            output.sequence(15, self.type(value.type))
            output.blob(blob(value))
        elif isinstance(value, ir.StructAttribute):
            self._encode_struct(output, value.name.removeprefix("stablehlo."), value.fields)
        else:
            output.sequence(17, self.type(value))

    def _encode_struct(self, output: Output, name: str, fields: dict[str, Any]) -> None:
        if name == "output_operand_alias":
            output.number(10)
            output.signed_numbers(fields.get("output_tuple_indices", ()))
            output.signed(fields.get("operand_index", 0))
            output.signed_numbers(fields.get("operand_tuple_indices", ()))
        elif name == "result_accuracy":
            output.number(20)
            output.float_number(fields.get("atol", 0.0), F64)
            output.float_number(fields.get("rtol", 0.0), F64)
            output.signed(fields.get("ulps", 0))
            output.number(self.attribute(Case(_MODES, ENUMS[_MODES].index(fields.get("mode", "DEFAULT")))))
        elif name == "sub_axis_info":
            output.number(21)
            output.signed(fields["pre_size"])
            output.signed(fields["size"])
        elif name == "axis_ref":
            part = fields.get("sub_axis_info")
            output.sequence(22, self.attribute(fields["name"]), part is not None)
            if part is not None:
                output.number(self.attribute(part))
        elif name == "replica_group_mesh_axes":
            output.sequence(23, self.attribute(fields["mesh"]), self.attribute(fields["axes"]))
        elif name == "mesh_axis":
            output.sequence(24, self.attribute(fields["name"]))
            output.signed(fields["size"])
        elif name == "mesh":
            devices = fields.get("device_ids")
            output.sequence(25, self.attribute(fields["axes"]))
            output.flagged(0 if devices is None else self.attribute(devices), devices is not None)
        else:
            raise UnsupportedError(f"#stablehlo.{name} has no form in a portable artifact")

    def builtin(self, value: Any) -> int:
        """An attribute in the form of the builtin dialect: those of a module, and names of a dictionary."""
        output = Output()
        if isinstance(value, str):
            output.sequence(2, self.string(value))
        elif isinstance(value, ir.Unit):
            output.number(7)
        elif isinstance(value, tuple):
            output.number(0)
            output.numbers(self.builtin(part) for part in value)
        elif isinstance(value, dict):
            output.number(1)
            output.number(len(value))
            for name, part in sorted(value.items()):
                output.number(self.builtin(name))
                output.number(self.builtin(part))
        elif isinstance(value, bool):
            output.sequence(8, self._builtin_integer(PRED))
            output.integer(value, PRED)
        elif isinstance(value, ir.IntegerAttribute) and isinstance(value.type, ir.ScalarType):
            output.sequence(8, self._builtin_integer(value.type.element))
            output.integer(value.value, value.type.element)
        else:
            return self.attribute(value)
        return self.attributes.number("builtin", bytes(output.data))

    def dictionary(self, attributes: dict[str, Any]) -> int:
        """The attributes of an operation by their names: the names in builtin form, the values in VHLO's."""
        output = Output()
        output.number(1)
        output.number(len(attributes))
        for name, value in sorted(attributes.items()):
            output.number(self.builtin(name))
            output.number(self.attribute(value))
        return self.attributes.number("builtin", bytes(output.data))

    def _builtin_integer(self, element: PrimitiveType) -> int:
        bits = 1 if element is PRED else element.bits
        is_unsigned = element.is_integral and not element.is_signed
        output = Output()
        output.sequence(0, bits << 2 | (2 if is_unsigned else 0))
        return self.types.number("builtin", bytes(output.data))

    def location(self, location: ir.FileLocation) -> int:
        """Names around a file, and the calls that led there."""
        chain = [self._named(place) for place in (location, *location.callers)]
        found = chain.pop()
        while chain:
            output = Output()
            output.sequence(10, chain.pop(), found)
            found = self.attributes.number("builtin", bytes(output.data))
        return found

    def _named(self, location: ir.FileLocation) -> int:
        output = Output()
        if location.file:
            output.sequence(11, self.builtin(location.file), location.line, location.column)
        else:
            output.number(15)
        found = self.attributes.number("builtin", bytes(output.data))
        for name in reversed(location.names):
            output = Output()
            output.sequence(14, self.builtin(name), found)
            found = self.attributes.number("builtin", bytes(output.data))
        return found

    def type(self, type_: Any) -> int:
        """A type in VHLO's form."""
        found = self._type_numbers.get(type_)
        if found is None:
            output = Output()
            self._encode_type(output, type_)
            found = self._type_numbers[type_] = self.types.number("vhlo", bytes(output.data))
        return found

    def _encode_type(self, output: Output, type_: Any) -> None:
        if isinstance(type_, ir.TensorType):
            self._encode_tensor(output, type_)
        elif isinstance(type_, ir.ScalarType):
            self._encode_scalar(output, type_.element)
        elif isinstance(type_, ir.FunctionType):
            output.number(8)
            output.numbers(self.type(part) for part in type_.inputs)
            output.numbers(self.type(part) for part in type_.results)
        elif isinstance(type_, ir.TupleType | ir.FutureType):
            output.number(23 if isinstance(type_, ir.TupleType) else 42)
            output.numbers(self.type(part) for part in type_.elements)
        elif isinstance(type_, ir.UnrankedTensorType):
            output.sequence(25, self._element_type(type_.element))
        elif isinstance(type_, ir.BufferType):
            output.number(41)
            output.signed_numbers(type_.sizes)
            output.number(self._element_type(type_.element))
        elif isinstance(type_, ir.QuantizedType):
            self._encode_quantized(output, type_)
        elif isinstance(type_, ir.IndexType | ir.TokenType | ir.NoneType):
            output.number(9 if isinstance(type_, ir.IndexType) else 22 if isinstance(type_, ir.TokenType) else 33)
        elif type_ == ir.OpaqueType("tf32"):
            output.number(34)
        else:
            raise UnsupportedError(f"{type_} has no form in a portable artifact")

    def _encode_tensor(self, output: Output, type_: ir.TensorType) -> None:
        sizes = [DYNAMIC if size is None else size for size in type_.sizes]
        if type_.bounds:
            encoding = Output()
            encoding.number(18)
            encoding.signed_numbers(DYNAMIC if bound is None else bound for bound in type_.bounds)
            output.sequence(21, self.attributes.number("vhlo", bytes(encoding.data)))
        elif type_.encoding is not None:
            output.sequence(21, self.attribute(type_.encoding))
        else:
            output.number(20)
        output.signed_numbers(sizes)
        output.number(self._element_type(type_.element))

    def _element_type(self, element: Any) -> int:
        return self.type(ir.ScalarType(element) if isinstance(element, PrimitiveType) else element)

    def _encode_scalar(self, output: Output, element: PrimitiveType) -> None:
        if element is PRED:
            output.number(0)
        elif element in (C64, C128):
            output.sequence(1, self._element_type(F32 if element is C64 else F64))
        elif element.name in _CODES:
            output.number(_CODES[element.name])
        else:
            raise UnsupportedError(f"{element} has no form in a portable artifact")

    def _encode_quantized(self, output: Output, type_: ir.QuantizedType) -> None:
        if type_.block_sizes:
            raise UnsupportedError("quantization in blocks has no form in a portable artifact")
        flags = _SIGNED_FLAG if type_.storage.is_signed else 0
        storage = PrimitiveType.from_name(f"S{type_.storage.bits}")
        output.sequence(30 if type_.axes else 24, flags)
        output.sequence(self._element_type(storage), self._element_type(type_.expressed))
        if not type_.axes:
            output.float_number(type_.scales[0], F64)
            output.signed(type_.zero_points[0])
            output.signed(type_.storage_min)
            output.signed(type_.storage_max)
            return
        output.number(type_.axes[0])
        output.signed(type_.storage_min)
        output.signed(type_.storage_max)
        output.number(len(type_.scales))
        for scale in type_.scales:
            output.float_number(scale, F64)
        output.signed_numbers(type_.zero_points)


def _element(type_: Any) -> PrimitiveType | None:
    return type_.element if isinstance(type_, ir.ScalarType) else None


def blob(value: ir.ElementsAttribute) -> bytes:
    """The bytes of constant elements: one where all are equal, booleans packed into bits."""
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
