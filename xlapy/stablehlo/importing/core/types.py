"""Converts StableHLO types to HLO shapes.

Responsible for the conversion and for comparing shapes with types that have unknown sizes. Does not depend on
operations.

| StableHLO | HLO |
|---|---|
| `tensor<2x3xf32>` | `f32[2,3]` |
| `tensor<?x3xf32, #stablehlo.bounds<4, ?>>` | `f32[<=4,3]` |
| `tensor<2x!quant.uniform<i8:f32, 0.1>>` | `s8[2]`, the stored integers |
| `tensor<2xindex>` | `s64[2]` |
| `tuple<...>`, `!stablehlo.token` | `(...)`, `token[]` |
| `memref<2xf32>` | `b(f32[2])` |
| `f32`, `index`, `!shape.size` | `f32[]`, `s64[]`, `s64[]` |
| `!shape.shape` | `s64[rank]`; the rank follows from the operation that produces it |
| `!shape.witness` | `pred[]` |
"""

from __future__ import annotations

import functools

from xlapy.base.element_types import BF16, PRED, S64, PrimitiveType
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.error_codes.formats import stablehlo_text as text_codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.stablehlo import ir

_SIZE, _SHAPE, _WITNESS = (ir.OpaqueType(f"!shape.{name}") for name in ("size", "shape", "witness"))


def element_type(element: ir.ElementType | ir.IndexType) -> PrimitiveType:
    """Returns the HLO type of elements: the storage type of a quantized type, s64 for `index`."""
    if isinstance(element, ir.QuantizedType):
        return element.storage
    return S64 if isinstance(element, ir.IndexType) else element


def known_shape(type_: ir.Type) -> Shape | None:
    """Returns the shape of a type, or None if the type has an unknown size without a bound."""
    return _known_shape(type_)


@functools.lru_cache(maxsize=1 << 12)
def _known_shape(type_: ir.Type) -> Shape | None:
    if isinstance(type_, ir.TensorType):
        return _tensor_shape(type_)
    if isinstance(type_, ir.TokenType):
        return Shape.token()
    if isinstance(type_, ir.TupleType):
        elements = [_known_shape(element) for element in type_.elements]
        return None if None in elements else Shape.tuple([element for element in elements if element is not None])
    if isinstance(type_, ir.BufferType):
        return Shape.buffer(Shape.array(element_type(type_.element), type_.sizes))
    if isinstance(type_, ir.ScalarType):
        return Shape.array(type_.element, ())
    if type_ in (ir.IndexType(), _SIZE):
        return Shape.array(S64, ())
    if type_ == _WITNESS:
        return Shape.array(PRED, ())
    if isinstance(type_, ir.UnrankedTensorType) or type_ == _SHAPE:
        return None
    raise UnsupportedError(codes.HLO_TYPE, f"HLO has no shape for the type {type_text(type_)}")


def _tensor_shape(type_: ir.TensorType) -> Shape | None:
    if type_.is_static:
        return Shape.array(element_type(type_.element), [size for size in type_.sizes if size is not None])
    bounds = type_.bounds or (None,) * type_.rank
    sizes = [bound if size is None else size for size, bound in zip(type_.sizes, bounds, strict=True)]
    if None in sizes:
        return None
    dynamic = [size is None for size in type_.sizes]
    return Shape.array(element_type(type_.element), [size for size in sizes if size is not None], dynamic)


def is_quantized(type_: ir.Type) -> bool:
    """Returns whether a type is a tensor with a quantized element type."""
    return isinstance(type_, ir.TensorType) and isinstance(type_.element, ir.QuantizedType)


def quantized_element_type(type_: ir.Type) -> ir.QuantizedType:
    """Returns the element type of a quantized tensor. Raises `UnsupportedError` for any other type."""
    if isinstance(type_, ir.TensorType) and isinstance(type_.element, ir.QuantizedType):
        return type_.element
    raise UnsupportedError(text_codes.QUANTIZED_TYPE, f"type {type_text(type_)} is not quantized")


def is_compatible(shape: Shape, type_: ir.Type) -> bool:
    """Returns whether a value with this shape can have this declared type. Unknown sizes match any size."""
    if isinstance(type_, ir.UnrankedTensorType):
        return shape.is_array and shape.element_type is element_type(type_.element)
    if isinstance(type_, ir.FutureType):
        return shape.is_tuple
    if type_ == _SHAPE:
        return shape.is_array and shape.element_type is S64 and shape.rank == 1
    if not isinstance(type_, ir.TensorType):
        known = _known_shape(type_)
        return known is not None and shape.compatible(known)
    if not shape.is_array or shape.element_type is not element_type(type_.element) or shape.rank != type_.rank:
        return False
    return all(
        declared is None or (declared == size and not dynamic)
        for declared, size, dynamic in zip(type_.sizes, shape.dimensions, shape.dynamic_dimensions, strict=True)
    )


def type_text(type_: ir.Type) -> str:
    """Returns a type in MLIR's syntax, with the detail that error messages need."""
    if isinstance(type_, ir.TensorType):
        sizes = "".join(f"{'?' if size is None else size}x" for size in type_.sizes)
        bounds = ", ".join("?" if bound is None else str(bound) for bound in type_.bounds)
        return f"tensor<{sizes}{_element_text(type_.element)}{f', #stablehlo.bounds<{bounds}>' if bounds else ''}>"
    if isinstance(type_, ir.UnrankedTensorType):
        return f"tensor<*x{_element_text(type_.element)}>"
    if isinstance(type_, ir.TokenType):
        return "!stablehlo.token"
    if isinstance(type_, ir.TupleType):
        return f"tuple<{', '.join(map(type_text, type_.elements))}>"
    if isinstance(type_, ir.ScalarType):
        return _element_text(type_.element)
    if isinstance(type_, ir.IndexType):
        return "index"
    return type_.text if isinstance(type_, ir.OpaqueType) else str(type_)


def _element_text(element: ir.ElementType | ir.IndexType) -> str:
    if isinstance(element, ir.IndexType):
        return "index"
    if isinstance(element, ir.QuantizedType):
        return f"!quant.uniform<{element.storage}:{element.expressed}>"
    if element.is_complex:
        return f"complex<{_element_text(element.component_type)}>"
    if element.is_integral:
        return f"{'i' if element.is_signed else 'ui'}{element.bits}"
    if element is PRED:
        return "i1"
    return element.text if element is BF16 else f"f{element.name[1:]}"
