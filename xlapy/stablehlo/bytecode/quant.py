"""Types of the dialect `quant` in bytecode: numbers that integers stand for. VHLO writes the same parts.

Owns the numbers that tell them apart and the order of their parts. Must not know: what is computed with them.
Source: MLIR's QuantDialectBytecode.td.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from xlapy.base.element_types import F64, PrimitiveType
from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.bytecode.entries import EntryStream

_DOUBLE = ir.ScalarType(F64)


def read_type(stream: EntryStream) -> Any:
    """A type of `quant`."""
    code = stream.number()
    decoder = _TYPES.get(code)
    if decoder is None:
        raise UnsupportedError(
            f"MLIR bytecode, byte {stream.position}: StableHLO has no quantized type but uniform ones, found {code}"
        )
    return decoder(stream)


def double(stream: EntryStream) -> float:
    """A number of f64."""
    return stream.float_number(_DOUBLE)


def _storage(stream: EntryStream, is_signed: bool) -> PrimitiveType:
    """The type of a quantized tensor's stored numbers: its spelling has no sign, a flag tells."""
    storage = stream.element_type()
    if not isinstance(storage, PrimitiveType) or not storage.is_integral:
        raise stream.fail(f"quantized elements are stored as integers, found {storage}")
    return (
        storage if is_signed == storage.is_signed else PrimitiveType.from_name(f"{'SU'[not is_signed]}{storage.bits}")
    )


def _elements(stream: EntryStream) -> tuple[PrimitiveType, PrimitiveType]:
    """The types of the stored numbers and of those that they stand for."""
    is_signed = bool(stream.number() & 1)
    storage, expressed = _storage(stream, is_signed), stream.element_type()
    if not isinstance(expressed, PrimitiveType) or not expressed.is_floating:
        raise stream.fail(f"quantized elements stand for floats, found {expressed}")
    return storage, expressed


def uniform(stream: EntryStream) -> ir.QuantizedType:
    """One scale for the whole tensor."""
    storage, expressed = _elements(stream)
    scale, zero = double(stream), stream.signed()
    return ir.QuantizedType(storage, expressed, (scale,), (zero,), stream.signed(), stream.signed())


def uniform_along_axis(stream: EntryStream) -> ir.QuantizedType:
    """A scale for each place along an axis."""
    storage, expressed = _elements(stream)
    axis, least, most = stream.number(), stream.signed(), stream.signed()
    scales = tuple([double(stream) for _ in range(stream.count())])
    return ir.QuantizedType(storage, expressed, scales, tuple(stream.signed_numbers()), least, most, (axis,))


def _uniform_in_blocks(stream: EntryStream) -> ir.QuantizedType:
    """A scale for each block along some axes."""
    storage, expressed = _elements(stream)
    least, most = stream.signed(), stream.signed()
    axes, blocks = tuple(stream.signed_numbers()), tuple(stream.signed_numbers())
    scales, zeros = stream.attribute_of(ir.ElementsAttribute), stream.attribute_of(ir.ElementsAttribute)
    return ir.QuantizedType(
        storage,
        expressed,
        tuple(scales.values.astype(float).ravel().tolist()),
        tuple(zeros.values.ravel().tolist()),
        least,
        most,
        axes,
        blocks,
        scales.values.shape,
    )


_TYPES: dict[int, Callable[[EntryStream], Any]] = {4: uniform, 5: uniform_along_axis, 6: _uniform_in_blocks}
