"""Decodes the types of the `quant` dialect. VHLO encodes quantized types with the same fields.

Responsible for their codes and the order of their fields.

Source: MLIR's QuantDialectBytecode.td.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlapy.base.element_types import F64, PrimitiveType
from xlapy.base.error_codes.formats import bytecode as bytecode_codes
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode.attribute_type_reader import DialectReader

_DOUBLE = ir.ScalarType(F64)


def read_type(reader: DialectReader) -> Any:
    """Decodes a type of the `quant` dialect."""
    code = reader.varint()
    decoder = _TYPES.get(code)
    if decoder is None:
        raise UnsupportedError(
            bytecode_codes.BYTECODE_ENCODING,
            f"MLIR bytecode, byte {reader.position}: StableHLO has only uniform quantized types, found {code}",
        )
    return decoder(reader)


def double(reader: DialectReader) -> float:
    """Decodes a number of type f64."""
    return reader.float_number(_DOUBLE)


def _storage(reader: DialectReader, is_signed: bool) -> PrimitiveType:
    """Decodes the storage type. The encoded type is signless; `is_signed` is its signedness."""
    storage = reader.element_type()
    if not isinstance(storage, PrimitiveType) or not storage.is_integral:
        raise reader.fail(
            codes.QUANTIZED_TYPE, f"the storage type of a quantized type must be an integer type, found {storage}"
        )
    return (
        storage if is_signed == storage.is_signed else PrimitiveType.from_name(f"{'SU'[not is_signed]}{storage.bits}")
    )


def _elements(reader: DialectReader) -> tuple[PrimitiveType, PrimitiveType]:
    """Decodes the storage type and the expressed type."""
    is_signed = bool(reader.varint() & 1)
    storage, expressed = _storage(reader, is_signed), reader.element_type()
    if not isinstance(expressed, PrimitiveType) or not expressed.is_floating:
        raise reader.fail(
            codes.QUANTIZED_TYPE,
            f"the expressed type of a quantized type must be a floating-point type, found {expressed}",
        )
    return storage, expressed


def uniform(reader: DialectReader) -> ir.QuantizedType:
    """Decodes a type with per-tensor quantization."""
    storage, expressed = _elements(reader)
    scale, zero = double(reader), reader.signed_varint()
    return ir.QuantizedType(storage, expressed, (scale,), (zero,), reader.signed_varint(), reader.signed_varint())


def uniform_along_axis(reader: DialectReader) -> ir.QuantizedType:
    """Decodes a type with per-axis quantization."""
    storage, expressed = _elements(reader)
    axis, least, most = reader.varint(), reader.signed_varint(), reader.signed_varint()
    scales = tuple([double(reader) for _ in range(reader.count())])
    return ir.QuantizedType(storage, expressed, scales, tuple(reader.signed_varint_list()), least, most, (axis,))


def _uniform_in_blocks(reader: DialectReader) -> ir.QuantizedType:
    """Decodes a type with sub-channel quantization, which has a scale per block."""
    storage, expressed = _elements(reader)
    least, most = reader.signed_varint(), reader.signed_varint()
    axes, blocks = tuple(reader.signed_varint_list()), tuple(reader.signed_varint_list())
    scales, zeros = reader.attribute_of(ir.ElementsAttribute), reader.attribute_of(ir.ElementsAttribute)
    return ir.QuantizedType(
        storage,
        expressed,
        tuple(scales.listed().astype(float).ravel().tolist()),
        tuple(zeros.listed().ravel().tolist()),
        least,
        most,
        axes,
        blocks,
        scales.values.shape,
    )


_TYPES: dict[int, Callable[[DialectReader], Any]] = {4: uniform, 5: uniform_along_axis, 6: _uniform_in_blocks}
