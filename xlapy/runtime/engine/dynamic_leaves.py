"""Values of dynamic dimensions as the arrays that a program on static shapes takes and returns, and back.

An f32[<=5] goes as the array of the bounds and its size, an s32[]: what `resolve-dynamic-dimensions` made of it.
Must not know: how programs run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from xlapy.base.shape import Shape
from xlapy.interpreter import TOKEN, DynamicArray
from xlapy.interpreter.dynamic_array import array_of_bounds, sizes_of
from xlapy.runtime.values import Value


def flatten_dynamic(value: Value, shape: Shape) -> Iterator[np.ndarray[Any, Any]]:
    """The arrays of a value of a declared shape, each with the sizes of its dynamic dimensions behind it."""
    if shape.is_tuple:
        for element, part in zip(value, shape.tuple_shapes, strict=True):
            yield from flatten_dynamic(element, part)
    elif shape.is_array:
        yield array_of_bounds(value)
        for size, dynamic in zip(sizes_of(value), shape.dynamic_dimensions, strict=True):
            if dynamic:
                yield np.array(size, np.int32)


def unflatten_dynamic(shape: Shape, leaves: Iterator[np.ndarray[Any, Any]]) -> Value:
    """The value of a declared shape, of the arrays that `flatten_dynamic` would give."""
    if shape.is_tuple:
        return tuple(unflatten_dynamic(part, leaves) for part in shape.tuple_shapes)
    if not shape.is_array:
        return TOKEN
    array = next(leaves)
    if shape.is_static:
        return array
    rows = zip(shape.dimensions, shape.dynamic_dimensions, strict=True)
    return DynamicArray(array, tuple(int(next(leaves)) if dynamic else bound for bound, dynamic in rows))
