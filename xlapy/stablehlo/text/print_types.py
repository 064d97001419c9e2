"""Prints the types of `xlapy.stablehlo.ir` in MLIR's syntax."""

from __future__ import annotations

import functools
from collections.abc import Iterable

from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.formats import stablehlo_text as codes
from xlapy.base.errors import UnsupportedError
from xlapy.stablehlo import ir
from xlapy.stablehlo.text.types import ELEMENTS

_SPELLINGS = {element: spelling for spelling, element in ELEMENTS.items() if not spelling.startswith("si")}
_SPELLINGS[PrimitiveType.C64], _SPELLINGS[PrimitiveType.C128] = "complex<f32>", "complex<f64>"


@functools.lru_cache(maxsize=1 << 12)
def type_text(type_: ir.Type) -> str:
    """Returns the text of a type. Raises `UnsupportedError` for element types that MLIR lacks."""
    if isinstance(type_, ir.TensorType):
        return f"tensor<{_sizes(type_.sizes)}{element_text(type_.element)}{_encoding(type_)}>"
    if isinstance(type_, ir.UnrankedTensorType):
        return f"tensor<*x{element_text(type_.element)}>"
    if isinstance(type_, ir.BufferType):
        return f"memref<{_sizes(type_.sizes)}{element_text(type_.element)}>"
    if isinstance(type_, ir.ScalarType):
        return element_text(type_.element)
    if isinstance(type_, ir.FunctionType):
        return function_text(type_.inputs, type_.results)
    if isinstance(type_, ir.TupleType):
        return f"tuple<{types_text(type_.elements)}>"
    if isinstance(type_, ir.FutureType):
        return f"!stablehlo.future<{types_text(type_.elements)}>"
    if isinstance(type_, ir.TokenType):
        return "!stablehlo.token"
    if isinstance(type_, ir.NoneType):
        return "none"
    return type_.text if isinstance(type_, ir.OpaqueType) else element_text(type_)


def types_text(types: Iterable[ir.Type]) -> str:
    """Returns the texts of types, separated by commas."""
    return ", ".join(map(type_text, types))


def function_text(inputs: Iterable[ir.Type], results: Iterable[ir.Type]) -> str:
    """Returns `(...) -> ...`. A single result has no parentheses unless it is a function type."""
    results = list(results)
    listed = types_text(results)
    is_bare = len(results) == 1 and not isinstance(results[0], ir.FunctionType)
    return f"({types_text(inputs)}) -> {listed if is_bare else f'({listed})'}"


def element_text(element: ir.ElementType | ir.IndexType) -> str:
    """Returns the text of an element type: `f32`, `ui8`, `complex<f32>`, `index`, `!quant.uniform<...>`."""
    if isinstance(element, ir.IndexType):
        return "index"
    if isinstance(element, ir.QuantizedType):
        return _quantized(element)
    if element not in _SPELLINGS:
        raise UnsupportedError(codes.PRINTABLE, f"MLIR has no element type {element}")
    return _SPELLINGS[element]


def _sizes(sizes: Iterable[int | None]) -> str:
    return "".join(f"{'?' if size is None else size}x" for size in sizes)


def _encoding(type_: ir.TensorType) -> str:
    if type_.bounds:
        return f", #stablehlo.bounds<{', '.join('?' if bound is None else str(bound) for bound in type_.bounds)}>"
    encoding = type_.encoding
    if encoding is None:
        return ""
    if not isinstance(encoding, ir.OpaqueAttribute):
        raise UnsupportedError(codes.PRINTABLE, f"the tensor encoding {encoding} cannot be printed")
    return f", #{encoding.name}" + ("" if encoding.text is None else f"<{encoding.text}>")


def _quantized(element: ir.QuantizedType) -> str:
    storage = element.storage
    sign = "u" if storage.is_unsigned else "i"
    whole = (
        (0, 2**storage.bits - 1) if storage.is_unsigned else (-(2 ** (storage.bits - 1)), 2 ** (storage.bits - 1) - 1)
    )
    limits = (element.storage_min, element.storage_max)
    range_ = "" if limits == whole else f"<{limits[0]}:{limits[1]}>"
    axes = ""
    if element.block_sizes:
        pairs = zip(element.axes, element.block_sizes, strict=True)
        axes = f":{{{', '.join(f'{axis}:{block}' for axis, block in pairs)}}}"
    elif element.axes:
        axes = f":{element.axes[0]}"
    scales = [
        f"{scale!r}{f':{zero}' if zero else ''}"
        for scale, zero in zip(element.scales, element.zero_points, strict=True)
    ]
    shape = element.scales_shape or ((len(scales),) if element.axes else ())
    expressed = element_text(element.expressed)
    return f"!quant.uniform<{sign}{storage.bits}{range_}:{expressed}{axes}, {_nested(scales, shape)}>"


def _nested(scales: list[str], shape: tuple[int, ...]) -> str:
    if not shape:
        return scales[0]
    step = len(scales) // shape[0]
    parts = [_nested(scales[start : start + step], shape[1:]) for start in range(0, len(scales), step)]
    return f"{{{', '.join(parts)}}}"
