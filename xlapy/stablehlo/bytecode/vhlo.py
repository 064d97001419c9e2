"""Decodes the attributes and types of VHLO, the versioned dialect of portable artifacts.

Responsible for their codes, the order of their fields and the cases of enums. Does not depend on operations.

Source: StableHLO's VhloBytecode.cpp (codes), VhloEnums.td (cases), docs/vhlo.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlapy.base.element_types import ALL_TYPES, S32
from xlapy.base.error_codes.formats import bytecode as codes
from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode.attribute_type_reader import DialectReader
from xlapy.stablehlo.bytecode.builtin import (
    DYNAMIC,
    buffer_type,
    complex_type,
    dense_elements,
    encoded_tensor_type,
    float_attribute,
    scalar,
    tensor_type,
)
from xlapy.stablehlo.bytecode.quant import double, uniform, uniform_along_axis

_MAX_VHLO_VERSION = "1.20"


def read_attribute(reader: DialectReader) -> Any:
    """Decodes an attribute of VHLO as an attribute of StableHLO."""
    return _decode(reader, _ATTRIBUTES, "attribute")


def read_type(reader: DialectReader) -> Any:
    """Decodes a type of VHLO as a type of StableHLO."""
    return _decode(reader, _TYPES, "type")


def _decode(reader: DialectReader, table: dict[int, Callable[[DialectReader], Any]], what: str) -> Any:
    code = reader.varint()
    decoder = table.get(code)
    if decoder is None:
        raise UnsupportedError(
            codes.BYTECODE_ENCODING,
            f"MLIR bytecode, byte {reader.position}: unknown VHLO {what} {code}; the newest supported version is "
            f"{_MAX_VHLO_VERSION}",
        )
    return decoder(reader)


def enum(cases: tuple[str, ...]) -> Callable[[DialectReader], str]:
    """Returns the decoder of an enum case."""

    def decode(reader: DialectReader) -> str:
        number = reader.varint()
        if number >= len(cases) or not cases[number]:
            raise reader.fail(
                codes.DAMAGED_BYTECODE,
                f"case {number} is not in the enum with the cases {', '.join(filter(None, cases))}",
            )
        return cases[number]

    return decode


def _boolean(reader: DialectReader) -> bool:
    value = reader.varint()
    if value > 1:
        raise reader.fail(codes.DAMAGED_BYTECODE, f"a boolean must be 0 or 1, found {value}")
    return value == 1


def _api_version(reader: DialectReader) -> ir.IntegerAttribute:
    return ir.IntegerAttribute(reader.varint(), ir.ScalarType(S32))


def _integer(reader: DialectReader) -> ir.IntegerAttribute:
    kind = reader.type()
    return ir.IntegerAttribute(reader.integer(kind), kind)


def _output_operand_alias(reader: DialectReader) -> ir.StructAttribute:
    fields = {
        "output_tuple_indices": tuple(reader.signed_varint_list()),
        "operand_index": reader.signed_varint(),
        "operand_tuple_indices": tuple(reader.signed_varint_list()),
    }
    return ir.StructAttribute("stablehlo.output_operand_alias", fields)


def _bounds(reader: DialectReader) -> ir.StructAttribute:
    bounds = tuple([None if bound == DYNAMIC else bound for bound in reader.signed_varint_list()])
    return ir.StructAttribute("stablehlo.bounds", {"bounds": bounds})


def _result_accuracy(reader: DialectReader) -> ir.StructAttribute:
    fields = {
        "atol": double(reader),
        "rtol": double(reader),
        "ulps": reader.signed_varint(),
        "mode": reader.attribute(),
    }
    return ir.StructAttribute("stablehlo.result_accuracy", {name: value for name, value in fields.items() if value})


def _sub_axis(reader: DialectReader) -> ir.StructAttribute:
    return ir.StructAttribute(
        "stablehlo.sub_axis_info", {"pre_size": reader.signed_varint(), "size": reader.signed_varint()}
    )


def _axis(reader: DialectReader) -> ir.StructAttribute:
    fields = {"name": reader.attribute()}
    if reader.varint():
        fields["sub_axis_info"] = reader.attribute()
    return ir.StructAttribute("stablehlo.axis_ref", fields)


def _group_axes(reader: DialectReader) -> ir.StructAttribute:
    mesh, axes = reader.attribute(), reader.attribute()
    mesh = ir.SymbolReference(mesh) if isinstance(mesh, str) else mesh
    return ir.StructAttribute("stablehlo.replica_group_mesh_axes", {"mesh": mesh, "axes": axes})


def _mesh_axis(reader: DialectReader) -> ir.StructAttribute:
    return ir.StructAttribute("stablehlo.mesh_axis", {"name": reader.attribute(), "size": reader.signed_varint()})


def _mesh(reader: DialectReader) -> ir.StructAttribute:
    fields = {"axes": reader.attribute()}
    devices = reader.optional_attribute()
    if devices is not None:
        fields["device_ids"] = devices
    return ir.StructAttribute("stablehlo.mesh", fields)


ENUMS: dict[int, tuple[str, ...]] = {
    3: ("EQ", "NE", "GE", "GT", "LE", "LT"),
    4: ("NOTYPE", "FLOAT", "TOTALORDER", "SIGNED", "UNSIGNED"),
    7: ("FFT", "IFFT", "RFFT", "IRFFT"),
    11: ("DEFAULT", "HIGH", "HIGHEST"),
    12: ("DEFAULT", "THREE_FRY", "PHILOX"),
    13: ("", "UNIFORM", "NORMAL"),
    16: ("TRANSPOSE_INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
    19: ("DEFAULT", "HIGHEST", "TOLERANCE"),
}
"""The cases of each enum by its attribute code. A number without a case has an empty name."""

_ATTRIBUTES: dict[int, Callable[[DialectReader], Any]] = {
    1: DialectReader.attributes,
    2: _boolean,
    5: _api_version,
    6: DialectReader.dictionary,
    8: float_attribute,
    9: _integer,
    10: _output_operand_alias,
    14: DialectReader.text,
    15: dense_elements,
    17: DialectReader.type,
    18: _bounds,
    20: _result_accuracy,
    21: _sub_axis,
    22: _axis,
    23: _group_axes,
    24: _mesh_axis,
    25: _mesh,
    **{code: enum(cases) for code, cases in ENUMS.items()},
}


def _buffer(reader: DialectReader) -> ir.BufferType:
    return buffer_type(reader.signed_varint_list(), reader.element_type(), reader)


_TYPES: dict[int, Callable[[DialectReader], Any]] = {
    1: complex_type,
    8: lambda reader: ir.FunctionType(reader.types(), reader.types()),
    9: lambda reader: ir.IndexType(),
    20: tensor_type,
    21: encoded_tensor_type,
    22: lambda reader: ir.TokenType(),
    23: lambda reader: ir.TupleType(reader.types()),
    24: uniform,
    25: lambda reader: ir.UnrankedTensorType(reader.element_type()),
    26: lambda reader: ir.OpaqueType("!shape.witness"),
    30: uniform_along_axis,
    33: lambda reader: ir.NoneType(),
    34: lambda reader: ir.OpaqueType("tf32"),
    41: _buffer,
    42: lambda reader: ir.FutureType(reader.types()),
    **{code: scalar(t) for t in ALL_TYPES if (code := t.protocol_numbers.vhlo) is not None},
}
