"""Decodes the attributes and types of the dialects StableHLO and CHLO, which occur in modules that are not artifacts.

Responsible for their codes and the order of their fields. Does not depend on operations or VHLO.

Source: StableHLO's StablehloBytecode.cpp, ChloBytecode.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlapy.base.error_codes.formats import bytecode as codes
from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode.attribute_type_reader import DialectReader
from xlapy.stablehlo.bytecode.builtin import sizes_of
from xlapy.stablehlo.bytecode.quant import double
from xlapy.stablehlo.bytecode.vhlo import ENUMS, enum

_Decoder = Callable[[DialectReader], Any]


def read_attribute(reader: DialectReader) -> Any:
    """Decodes an attribute of StableHLO."""
    return _decode(reader, _ATTRIBUTES, "stablehlo attribute")


def read_chlo_attribute(reader: DialectReader) -> Any:
    """Decodes an attribute of CHLO."""
    return _decode(reader, _CHLO_ATTRIBUTES, "chlo attribute")


def read_type(reader: DialectReader) -> Any:
    """Decodes a type of StableHLO."""
    return _decode(reader, _TYPES, "stablehlo type")


def _decode(reader: DialectReader, table: dict[int, _Decoder], what: str) -> Any:
    code = reader.varint()
    decoder = table.get(code)
    if decoder is None:
        raise UnsupportedError(codes.BYTECODE_ENCODING, f"MLIR bytecode, byte {reader.position}: unknown {what} {code}")
    return decoder(reader)


def _integers(reader: DialectReader) -> tuple[int, ...]:
    return tuple(reader.signed_varint_list())


def _bounds(reader: DialectReader) -> tuple[int | None, ...]:
    return sizes_of(reader.signed_varint_list())


def _flag(reader: DialectReader) -> bool:
    return bool(reader.byte())


def _optional(reader: DialectReader) -> Any:
    """Decodes an optional attribute, which follows a byte that is non-zero if it is present."""
    return reader.attribute() if reader.byte() else None


_INTEGER = DialectReader.signed_varint


def _struct(name: str, fields: dict[str, _Decoder], *, keeps_empty: bool = True) -> _Decoder:
    """Returns the decoder of a struct with these fields in order. Drops absent fields.

    Unless `keeps_empty` is set, zero and empty fields are dropped too.
    """

    def decode(reader: DialectReader) -> ir.StructAttribute:
        found = {field: decoder(reader) for field, decoder in fields.items()}
        left_out = (None,) if keeps_empty else (None, 0, ())
        return ir.StructAttribute(name, {field: value for field, value in found.items() if value not in left_out})

    return decode


_ATTRIBUTES: dict[int, _Decoder] = {
    1: _struct("stablehlo.channel_handle", {"handle": _INTEGER, "type": _INTEGER}),
    2: enum(ENUMS[3]),
    3: enum(ENUMS[4]),
    4: _struct(
        "stablehlo.conv",
        {
            "input_batch_dimension": _INTEGER,
            "input_feature_dimension": _INTEGER,
            "input_spatial_dimensions": _integers,
            "kernel_input_feature_dimension": _INTEGER,
            "kernel_output_feature_dimension": _INTEGER,
            "kernel_spatial_dimensions": _integers,
            "output_batch_dimension": _INTEGER,
            "output_feature_dimension": _INTEGER,
            "output_spatial_dimensions": _integers,
        },
    ),
    5: _struct(
        "stablehlo.dot",
        {
            "lhs_batching_dimensions": _integers,
            "rhs_batching_dimensions": _integers,
            "lhs_contracting_dimensions": _integers,
            "rhs_contracting_dimensions": _integers,
        },
        keeps_empty=False,
    ),
    6: enum(ENUMS[7]),
    7: _struct(
        "stablehlo.gather",
        {
            "offset_dims": _integers,
            "collapsed_slice_dims": _integers,
            "operand_batching_dims": _integers,
            "start_indices_batching_dims": _integers,
            "start_index_map": _integers,
            "index_vector_dim": _INTEGER,
        },
        keeps_empty=False,
    ),
    8: enum(ENUMS[11]),
    9: enum(ENUMS[12]),
    10: enum(ENUMS[13]),
    11: _struct(
        "stablehlo.scatter",
        {
            "update_window_dims": _integers,
            "inserted_window_dims": _integers,
            "input_batching_dims": _integers,
            "scatter_indices_batching_dims": _integers,
            "scatter_dims_to_operand_dims": _integers,
            "index_vector_dim": _INTEGER,
        },
        keeps_empty=False,
    ),
    12: enum(ENUMS[16]),
    13: _struct("stablehlo.bounds", {"bounds": _bounds}),
    14: _struct(
        "stablehlo.output_operand_alias",
        {"output_tuple_indices": _integers, "operand_index": _INTEGER, "operand_tuple_indices": _integers},
    ),
    15: _struct(
        "stablehlo.dot_algorithm",
        {
            "lhs_precision_type": DialectReader.type,
            "rhs_precision_type": DialectReader.type,
            "accumulation_type": DialectReader.type,
            "lhs_component_count": _INTEGER,
            "rhs_component_count": _INTEGER,
            "num_primitive_operations": _INTEGER,
            "allow_imprecise_accumulation": _flag,
        },
    ),
    16: enum(ENUMS[19]),
    17: _struct(
        "stablehlo.result_accuracy",
        {"atol": double, "rtol": double, "ulps": _INTEGER, "mode": DialectReader.attribute},
        keeps_empty=False,
    ),
    18: _struct(
        "stablehlo.replica_group_mesh_axes", {"mesh": DialectReader.attribute, "axes": DialectReader.attributes}
    ),
    19: _struct("stablehlo.sub_axis_info", {"pre_size": _INTEGER, "size": _INTEGER}),
    20: _struct("stablehlo.axis_ref", {"name": DialectReader.text, "sub_axis_info": _optional}),
    21: _struct("stablehlo.mesh_axis", {"name": DialectReader.text, "size": _INTEGER}),
    22: _struct("stablehlo.mesh", {"axes": DialectReader.attribute, "device_ids": _optional}),
}

_CHLO_ATTRIBUTES: dict[int, _Decoder] = {0: enum(ENUMS[3]), 1: enum(ENUMS[4])}

_TYPES: dict[int, _Decoder] = {
    0: lambda reader: ir.TokenType(),
    1: lambda reader: ir.FutureType(reader.types()),
}
