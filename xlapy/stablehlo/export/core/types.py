"""Converts HLO shapes to StableHLO types.

Arrays, tokens and buffers have a type. A tuple shape is converted leaf by leaf.
"""

from __future__ import annotations

from xlapy.base.error_codes.formats import stablehlo_export as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.stablehlo import ir


def type_of(shape: Shape) -> ir.Type:
    """Returns the type of an array, token or buffer. Raises `UnsupportedError` for other shapes.

    Example: `f32[<=4,3]` becomes `tensor<?x3xf32, #stablehlo.bounds<4, ?>>`.
    """
    if shape.is_token:
        return ir.TokenType()
    if shape.is_buffer:
        inner = shape.buffer_shape
        assert inner is not None
        return ir.BufferType(tuple(inner.dimensions), inner.element_type)
    if not shape.is_array:
        raise UnsupportedError(
            codes.EXPORTED_TYPE, f"StableHLO has no type for the shape {shape.to_text(layout=False)}"
        )
    if shape.element_type.bits == 1:
        raise UnsupportedError(codes.EXPORTED_TYPE, f"StableHLO has no tensors of {shape.element_type}")
    dynamic = shape.dynamic_dimensions
    if not any(dynamic):
        return ir.TensorType(tuple(shape.dimensions), shape.element_type)
    sizes = [None if is_dynamic else size for size, is_dynamic in zip(shape.dimensions, dynamic, strict=True)]
    bounds = [size if is_dynamic else None for size, is_dynamic in zip(shape.dimensions, dynamic, strict=True)]
    return ir.TensorType(tuple(sizes), shape.element_type, tuple(bounds))


def leaves(shape: Shape) -> list[Shape]:
    """Returns the shapes in a tuple, at any depth, in order; for any other shape, the shape itself."""
    return [leaf for _, leaf in shape.leaves()]


def types_of(shape: Shape) -> list[ir.Type]:
    """Returns the types of the leaves of a shape."""
    return [type_of(leaf) for leaf in leaves(shape)]
