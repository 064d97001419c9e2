"""How the value of an instruction is represented while a program runs: `Value`, `Token`, `DynamicArray`.

Responsible for these types, for conversions of a `DynamicArray` to and from arrays of the actual sizes, and for
conforming a value to a declared shape. Does not depend on instructions, on the engine that computes the values, or on
what any op does to sizes (see `interpreter/dynamic` and `reference/dynamic`).

Example: 3 elements of shape f32[<=5] are an array of 5 elements, the last two of them padding, and the sizes (3,).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from xlapy.base.element_types import Array
from xlapy.base.shape import Shape


class Token:
    """The value of a token: it orders side effects and holds no data."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "TOKEN"


TOKEN: Final = Token()

Value = Any
"""A NumPy array, a `DynamicArray`, a tuple of values, or `TOKEN`."""


@dataclass(frozen=True, slots=True, eq=False)
class DynamicArray:
    """An array of the bounds, and the actual size of every dimension. Elements beyond the sizes are unspecified."""

    array: Array
    sizes: tuple[int, ...]

    @property
    def actual(self) -> Array:
        """The elements within the actual sizes, as a view."""
        return crop(self.array, self.sizes)


def crop(array: Array, sizes: Sequence[int]) -> Array:
    """Returns a view of the first `sizes[d]` elements in each dimension, and of all elements in dimensions beyond."""
    places: tuple[Any, ...] = (*map(slice, sizes), ...)
    view: Array = array[places]
    return view


def array_of_bounds(value: Array | DynamicArray) -> Array:
    """Returns the array of the bounds, including padding."""
    return value.array if isinstance(value, DynamicArray) else value


def actual_array(value: Array | DynamicArray) -> Array:
    """Returns the array of the actual sizes, without padding."""
    return value.actual if isinstance(value, DynamicArray) else value


def sizes_of(value: Array | DynamicArray) -> tuple[int, ...]:
    """Returns the actual size of every dimension."""
    return value.sizes if isinstance(value, DynamicArray) else value.shape


def pad_to_bounds(array: Array, bounds: Sequence[int], onto: Array | None = None) -> Array | DynamicArray:
    """Pads an array of actual sizes to the bounds, with zeros or with the elements of the padded array `onto`."""
    if array.shape == tuple(bounds):
        return array
    whole = np.zeros(bounds, array.dtype) if onto is None else onto.copy()
    whole[tuple(map(slice, array.shape))] = array
    return DynamicArray(whole, array.shape)


def pad_value_to_bounds(value: Any, shape: Shape) -> Any:
    """Applies `pad_to_bounds` to each array of a value, with the bounds of the shape."""
    if isinstance(value, tuple):
        return tuple(
            pad_value_to_bounds(element, part) for element, part in zip(value, shape.tuple_shapes, strict=True)
        )
    return pad_to_bounds(value, shape.dimensions) if isinstance(value, np.ndarray) else value


def conform_to_shape(value: Any, shape: Shape) -> Any:
    """Converts a value so that exactly the dimensions that the declared shape calls dynamic are dynamic.

    XLA accepts f32[<=4] where f32[4] is expected, and the reverse: a dimension that becomes static gets its bound as
    its size, padding included; an array that becomes dynamic has its bounds as sizes.
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
