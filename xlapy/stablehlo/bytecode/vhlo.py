"""Attributes and types of VHLO, the versioned form of StableHLO in portable artifacts.

Owns the numbers that tell them apart, the order of their parts and the cases of the enums. Must not know: operations.
Source: StableHLO's VhloBytecode.cpp (codes), VhloEnums.td (cases), docs/vhlo.md.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlapy.base.element_types import PRED, S32
from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo import ir
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
from xlapy.stablehlo.bytecode.entries import EntryStream
from xlapy.stablehlo.bytecode.quant import double, uniform, uniform_along_axis

_NEWEST = "1.20"


def read_attribute(stream: EntryStream) -> Any:
    """An attribute of VHLO, as StableHLO has it."""
    return _decode(stream, _ATTRIBUTES, "attribute")


def read_type(stream: EntryStream) -> Any:
    """A type of VHLO, as StableHLO has it."""
    return _decode(stream, _TYPES, "type")


def _decode(stream: EntryStream, table: dict[int, Callable[[EntryStream], Any]], what: str) -> Any:
    code = stream.number()
    decoder = table.get(code)
    if decoder is None:
        raise UnsupportedError(
            f"MLIR bytecode, byte {stream.position}: VHLO {what} {code} is not known here; versions up to {_NEWEST} are"
        )
    return decoder(stream)


def enum(cases: tuple[str, ...]) -> Callable[[EntryStream], str]:
    """The case of an enum by its number."""

    def decode(stream: EntryStream) -> str:
        number = stream.number()
        if number >= len(cases) or not cases[number]:
            raise stream.fail(f"case {number} of an enum that has {', '.join(filter(None, cases))}")
        return cases[number]

    return decode


def _boolean(stream: EntryStream) -> bool:
    value = stream.number()
    if value > 1:
        raise stream.fail(f"a boolean is 0 or 1, found {value}")
    return value == 1


def _api_version(stream: EntryStream) -> ir.IntegerAttribute:
    return ir.IntegerAttribute(stream.number(), ir.ScalarType(S32))


def _integer(stream: EntryStream) -> ir.IntegerAttribute:
    kind = stream.type()
    return ir.IntegerAttribute(stream.integer(kind), kind)


def _output_operand_alias(stream: EntryStream) -> ir.StructAttribute:
    fields = {
        "output_tuple_indices": tuple(stream.signed_numbers()),
        "operand_index": stream.signed(),
        "operand_tuple_indices": tuple(stream.signed_numbers()),
    }
    return ir.StructAttribute("stablehlo.output_operand_alias", fields)


def _bounds(stream: EntryStream) -> ir.StructAttribute:
    bounds = tuple([None if bound == DYNAMIC else bound for bound in stream.signed_numbers()])
    return ir.StructAttribute("stablehlo.bounds", {"bounds": bounds})


def _result_accuracy(stream: EntryStream) -> ir.StructAttribute:
    fields = {
        "atol": double(stream),
        "rtol": double(stream),
        "ulps": stream.signed(),
        "mode": stream.attribute(),
    }
    return ir.StructAttribute("stablehlo.result_accuracy", {name: value for name, value in fields.items() if value})


def _sub_axis(stream: EntryStream) -> ir.StructAttribute:
    return ir.StructAttribute("stablehlo.sub_axis_info", {"pre_size": stream.signed(), "size": stream.signed()})


def _axis(stream: EntryStream) -> ir.StructAttribute:
    fields = {"name": stream.attribute()}
    if stream.number():
        fields["sub_axis_info"] = stream.attribute()
    return ir.StructAttribute("stablehlo.axis_ref", fields)


def _group_axes(stream: EntryStream) -> ir.StructAttribute:
    mesh, axes = stream.attribute(), stream.attribute()
    mesh = ir.SymbolReference(mesh) if isinstance(mesh, str) else mesh
    return ir.StructAttribute("stablehlo.replica_group_mesh_axes", {"mesh": mesh, "axes": axes})


def _mesh_axis(stream: EntryStream) -> ir.StructAttribute:
    return ir.StructAttribute("stablehlo.mesh_axis", {"name": stream.attribute(), "size": stream.signed()})


def _mesh(stream: EntryStream) -> ir.StructAttribute:
    fields = {"axes": stream.attribute()}
    devices = stream.optional_attribute()
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
"""The cases of the enums, by the number of the attribute that holds them. A case that does not exist is empty."""

_ATTRIBUTES: dict[int, Callable[[EntryStream], Any]] = {
    1: EntryStream.attributes,
    2: _boolean,
    5: _api_version,
    6: EntryStream.dictionary,
    8: float_attribute,
    9: _integer,
    10: _output_operand_alias,
    14: EntryStream.text,
    15: dense_elements,
    17: EntryStream.type,
    18: _bounds,
    20: _result_accuracy,
    21: _sub_axis,
    22: _axis,
    23: _group_axes,
    24: _mesh_axis,
    25: _mesh,
    **{code: enum(cases) for code, cases in ENUMS.items()},
}


def _buffer(stream: EntryStream) -> ir.BufferType:
    return buffer_type(stream.signed_numbers(), stream.element_type(), stream)


SCALARS = {
    2: "BF16",
    3: "F16",
    4: "F32",
    5: "F64",
    6: "F8E4M3FN",
    7: "F8E5M2",
    10: "S4",
    11: "S8",
    12: "S16",
    13: "S32",
    14: "S64",
    15: "U4",
    16: "U8",
    17: "U16",
    18: "U32",
    19: "U64",
    27: "F8E4M3FNUZ",
    28: "F8E5M2FNUZ",
    29: "F8E4M3B11FNUZ",
    31: "S2",
    32: "U2",
    35: "F8E4M3",
    36: "F8E3M4",
    37: "F4E2M1FN",
    38: "F6E2M3FN",
    39: "F6E3M2FN",
    40: "F8E8M0FNU",
}

_TYPES: dict[int, Callable[[EntryStream], Any]] = {
    0: lambda stream: ir.ScalarType(PRED),
    1: complex_type,
    8: lambda stream: ir.FunctionType(stream.types(), stream.types()),
    9: lambda stream: ir.IndexType(),
    20: tensor_type,
    21: encoded_tensor_type,
    22: lambda stream: ir.TokenType(),
    23: lambda stream: ir.TupleType(stream.types()),
    24: uniform,
    25: lambda stream: ir.UnrankedTensorType(stream.element_type()),
    26: lambda stream: ir.OpaqueType("!shape.witness"),
    30: uniform_along_axis,
    33: lambda stream: ir.NoneType(),
    34: lambda stream: ir.OpaqueType("tf32"),
    41: _buffer,
    42: lambda stream: ir.FutureType(stream.types()),
    **{code: scalar(name) for code, name in SCALARS.items()},
}
