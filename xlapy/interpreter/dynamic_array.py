"""Values of dynamic dimensions: `DynamicArray`, an array of the bounds with the sizes that it has at run time.

Owns: the class, the way between it and arrays of the actual sizes, what a declared shape makes of a value.
Must not know: what any op does to sizes (that is `interpreter/dynamic`).

Example: 3 elements under f32[<=5] are an array of 5 elements, of which the last two are padding, and the sizes (3,).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy.base.element_types import Array
from xlapy.base.shape import Shape


@dataclass(frozen=True, slots=True, eq=False)
class DynamicArray:
    """An array of the bounds, and the actual size of every dimension; what lies beyond is unspecified."""

    array: Array
    sizes: tuple[int, ...]

    @property
    def actual(self) -> Array:
        """The elements that are there: a view of the actual sizes."""
        return crop(self.array, self.sizes)


def crop(array: Array, sizes: Sequence[int]) -> Array:
    """A view of the first elements, so many a dimension; of all in dimensions that `sizes` does not reach."""
    places: tuple[Any, ...] = (*map(slice, sizes), ...)
    view: Array = array[places]
    return view


def array_of_bounds(value: Array | DynamicArray) -> Array:
    """The array of the bounds, padding included."""
    return value.array if isinstance(value, DynamicArray) else value


def actual_array(value: Array | DynamicArray) -> Array:
    """The array of the actual sizes."""
    return value.actual if isinstance(value, DynamicArray) else value


def sizes_of(value: Array | DynamicArray) -> tuple[int, ...]:
    """The actual size of every dimension."""
    return value.sizes if isinstance(value, DynamicArray) else value.shape


def pad_to_bounds(array: Array, bounds: Sequence[int], onto: Array | None = None) -> Array | DynamicArray:
    """An array of actual sizes under the bounds: padded by zeros, or by what `onto`, of the bounds, holds there."""
    if array.shape == tuple(bounds):
        return array
    whole = np.zeros(bounds, array.dtype) if onto is None else onto.copy()
    whole[tuple(map(slice, array.shape))] = array
    return DynamicArray(whole, array.shape)


def pad_value_to_bounds(value: Any, shape: Shape) -> Any:
    """`pad_to_bounds` of each array of a value, by the bounds of the shape."""
    if isinstance(value, tuple):
        return tuple(
            pad_value_to_bounds(element, part) for element, part in zip(value, shape.tuple_shapes, strict=True)
        )
    return pad_to_bounds(value, shape.dimensions) if isinstance(value, np.ndarray) else value


def conform_to_shape(value: Any, shape: Shape) -> Any:
    """The value as a declared shape says which of its dimensions are dynamic.

    XLA lets f32[<=4] and f32[4] stand for each other: a dimension declared static takes its bound, with what lies
    there; an array declared dynamic has the bounds for sizes.
    """
    if isinstance(value, tuple):
        parts = shape.tuple_shapes
        return (*map(conform_to_shape, value, parts), *value[len(parts) :])
    if isinstance(value, DynamicArray):
        if shape.is_static:
            return value.array
        rows = zip(value.sizes, shape.dimensions, shape.dynamic_dimensions, strict=True)
        return DynamicArray(value.array, tuple(size if dynamic else bound for size, bound, dynamic in rows))
    if shape.is_array and shape.is_dynamic and isinstance(value, np.ndarray):
        return DynamicArray(value, value.shape)
    return value
