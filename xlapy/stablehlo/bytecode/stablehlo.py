"""Attributes and types of StableHLO and CHLO themselves in bytecode, as MLIR writes modules that are no artifacts.

Owns the numbers that tell them apart, the order of their parts. Must not know: operations, VHLO's form of them.
Source: StableHLO's StablehloBytecode.cpp, ChloBytecode.cpp.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode.builtin import sizes_of
from xlapy.stablehlo.bytecode.entries import EntryStream
from xlapy.stablehlo.bytecode.quant import double
from xlapy.stablehlo.bytecode.vhlo import ENUMS, enum

_Decoder = Callable[[EntryStream], Any]


def read_attribute(stream: EntryStream) -> Any:
    """An attribute of StableHLO."""
    return _decode(stream, _ATTRIBUTES, "stablehlo attribute")


def read_chlo_attribute(stream: EntryStream) -> Any:
    """An attribute of CHLO."""
    return _decode(stream, _CHLO_ATTRIBUTES, "chlo attribute")


def read_type(stream: EntryStream) -> Any:
    """A type of StableHLO."""
    return _decode(stream, _TYPES, "stablehlo type")


def _decode(stream: EntryStream, table: dict[int, _Decoder], what: str) -> Any:
    code = stream.number()
    decoder = table.get(code)
    if decoder is None:
        raise UnsupportedError(f"MLIR bytecode, byte {stream.position}: {what} {code} is not known here")
    return decoder(stream)


def _numbers(stream: EntryStream) -> tuple[int, ...]:
    return tuple(stream.signed_numbers())


def _bounds(stream: EntryStream) -> tuple[int | None, ...]:
    return sizes_of(stream.signed_numbers())


def _flag(stream: EntryStream) -> bool:
    return bool(stream.byte())


def _optional(stream: EntryStream) -> Any:
    """An attribute behind a byte that says whether it is there."""
    return stream.attribute() if stream.byte() else None


_NUMBER = EntryStream.signed


def _struct(name: str, fields: dict[str, _Decoder], *, keeps_empty: bool = True) -> _Decoder:
    """A struct of fields in their order; what is absent is None, zero and empty ones may be left out."""

    def decode(stream: EntryStream) -> ir.StructAttribute:
        found = {field: decoder(stream) for field, decoder in fields.items()}
        left_out = (None,) if keeps_empty else (None, 0, ())
        return ir.StructAttribute(name, {field: value for field, value in found.items() if value not in left_out})

    return decode


_ATTRIBUTES: dict[int, _Decoder] = {
    1: _struct("stablehlo.channel_handle", {"handle": _NUMBER, "type": _NUMBER}),
    2: enum(ENUMS[3]),
    3: enum(ENUMS[4]),
    4: _struct(
        "stablehlo.conv",
        {
            "input_batch_dimension": _NUMBER,
            "input_feature_dimension": _NUMBER,
            "input_spatial_dimensions": _numbers,
            "kernel_input_feature_dimension": _NUMBER,
            "kernel_output_feature_dimension": _NUMBER,
            "kernel_spatial_dimensions": _numbers,
            "output_batch_dimension": _NUMBER,
            "output_feature_dimension": _NUMBER,
            "output_spatial_dimensions": _numbers,
        },
    ),
    5: _struct(
        "stablehlo.dot",
        {
            "lhs_batching_dimensions": _numbers,
            "rhs_batching_dimensions": _numbers,
            "lhs_contracting_dimensions": _numbers,
            "rhs_contracting_dimensions": _numbers,
        },
        keeps_empty=False,
    ),
    6: enum(ENUMS[7]),
    7: _struct(
        "stablehlo.gather",
        {
            "offset_dims": _numbers,
            "collapsed_slice_dims": _numbers,
            "operand_batching_dims": _numbers,
            "start_indices_batching_dims": _numbers,
            "start_index_map": _numbers,
            "index_vector_dim": _NUMBER,
        },
        keeps_empty=False,
    ),
    8: enum(ENUMS[11]),
    9: enum(ENUMS[12]),
    10: enum(ENUMS[13]),
    11: _struct(
        "stablehlo.scatter",
        {
            "update_window_dims": _numbers,
            "inserted_window_dims": _numbers,
            "input_batching_dims": _numbers,
            "scatter_indices_batching_dims": _numbers,
            "scatter_dims_to_operand_dims": _numbers,
            "index_vector_dim": _NUMBER,
        },
        keeps_empty=False,
    ),
    12: enum(ENUMS[16]),
    13: _struct("stablehlo.bounds", {"bounds": _bounds}),
    14: _struct(
        "stablehlo.output_operand_alias",
        {"output_tuple_indices": _numbers, "operand_index": _NUMBER, "operand_tuple_indices": _numbers},
    ),
    15: _struct(
        "stablehlo.dot_algorithm",
        {
            "lhs_precision_type": EntryStream.type,
            "rhs_precision_type": EntryStream.type,
            "accumulation_type": EntryStream.type,
            "lhs_component_count": _NUMBER,
            "rhs_component_count": _NUMBER,
            "num_primitive_operations": _NUMBER,
            "allow_imprecise_accumulation": _flag,
        },
    ),
    16: enum(ENUMS[19]),
    17: _struct(
        "stablehlo.result_accuracy",
        {"atol": double, "rtol": double, "ulps": _NUMBER, "mode": EntryStream.attribute},
        keeps_empty=False,
    ),
    18: _struct("stablehlo.replica_group_mesh_axes", {"mesh": EntryStream.attribute, "axes": EntryStream.attributes}),
    19: _struct("stablehlo.sub_axis_info", {"pre_size": _NUMBER, "size": _NUMBER}),
    20: _struct("stablehlo.axis_ref", {"name": EntryStream.text, "sub_axis_info": _optional}),
    21: _struct("stablehlo.mesh_axis", {"name": EntryStream.text, "size": _NUMBER}),
    22: _struct("stablehlo.mesh", {"axes": EntryStream.attribute, "device_ids": _optional}),
}

_CHLO_ATTRIBUTES: dict[int, _Decoder] = {0: enum(ENUMS[3]), 1: enum(ENUMS[4])}

_TYPES: dict[int, _Decoder] = {
    0: lambda stream: ir.TokenType(),
    1: lambda stream: ir.FutureType(stream.types()),
}
