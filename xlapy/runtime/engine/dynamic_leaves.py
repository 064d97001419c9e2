"""Converts values with dynamic dimensions to the static arrays that a compiled program takes and returns, and back.

An f32[<=5] becomes an array of 5 elements and its size as an s32[]: the form that the pass `resolve-dynamic-dimensions`
gives it. Does not depend on how programs run.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from xlapy.base.element_types import S32
from xlapy.base.shape import Shape
from xlapy.base.value import array_of_bounds, sizes_of
from xlapy.interpreter import TOKEN, DynamicArray
from xlapy.runtime.values import Value


def flatten_dynamic(value: Value, shape: Shape) -> Iterator[np.ndarray[Any, Any]]:
    """Yields the arrays of a value of a declared shape, each followed by the sizes of its dynamic dimensions."""
    if shape.is_tuple:
        for element, part in zip(value, shape.tuple_shapes, strict=True):
            yield from flatten_dynamic(element, part)
    elif shape.is_array:
        yield array_of_bounds(value)
        for size, dynamic in zip(sizes_of(value), shape.dynamic_dimensions, strict=True):
            if dynamic:
                yield np.array(size, np.int32)


def flat_shapes(shape: Shape) -> Iterator[Shape]:
    """Yields the shapes of the arrays that `flatten_dynamic` yields for a declared shape, without layouts."""
    for _, leaf in shape.leaves():
        if leaf.is_array:
            yield Shape.array(leaf.element_type, leaf.dimensions, layout=None)
            yield from [Shape.array(S32, layout=None)] * sum(leaf.dynamic_dimensions)


def unflatten_dynamic(shape: Shape, leaves: Iterator[np.ndarray[Any, Any]]) -> Value:
    """The inverse of `flatten_dynamic`: takes the arrays of a value of a declared shape from `leaves`."""
    if shape.is_tuple:
        return tuple(unflatten_dynamic(part, leaves) for part in shape.tuple_shapes)
    if not shape.is_array:
        return TOKEN
    array = next(leaves)
    if shape.is_static:
        return array
    rows = zip(shape.dimensions, shape.dynamic_dimensions, strict=True)
    return DynamicArray(array, tuple(int(next(leaves)) if dynamic else bound for bound, dynamic in rows))
