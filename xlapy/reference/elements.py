"""Elements of arrays as numbers, and arrays as functions of an index.

Responsible for the exact number that an element stands for, for the element of a type that a number becomes, and for
building arrays element by element. Does not depend on operations.

An element is a NumPy scalar. Its number is a Python `bool` (pred) or `int`, or a `float64` or `complex128` of NumPy,
whose arithmetic has infinities and NaN.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from xlapy.base.element_types import PRED, Array, PrimitiveType
from xlapy.base.rounding import round_to
from xlapy.base.shape import Shape

Index = tuple[int, ...]
"""The position of an element: one integer per dimension."""

_FLOAT64_BITS = 53


# -- indices and arrays


def indices(sizes: Sequence[int]) -> Iterable[Index]:
    """Returns all indices of an array of these sizes in row-major order: the last dimension varies fastest."""
    return () if 0 in sizes else itertools.product(*map(range, sizes))


def tabulate(element_type: PrimitiveType, sizes: Sequence[int], element_at: Callable[[Index], Any]) -> Array:
    """Returns the array whose element at each index is `element_at(index)`."""
    result = np.empty(tuple(sizes), element_type.dtype)
    for index in indices(sizes):
        result[index] = element_at(index)
    return result


def array_of_shape(shape: Shape, element_at: Callable[[Index], Any]) -> Array:
    """Returns the array of a shape whose element at each index is `element_at(index)`."""
    return tabulate(shape.element_type, shape.dimensions, element_at)


def zeros(shape: Shape) -> Array:
    """Returns the array of a shape in which all bits of every element are 0."""
    return np.zeros(shape.dimensions, shape.dtype)


def type_of(array: Array) -> PrimitiveType:
    """Returns the element type of an array."""
    return PrimitiveType.from_dtype(array.dtype)


def sizes_at(array: Array, dimensions: Iterable[int]) -> Index:
    """Returns the sizes of the given dimensions."""
    return tuple(array.shape[d] for d in dimensions)


def with_values(index: Index, dimensions: Iterable[int], values: Iterable[int]) -> Index:
    """Returns an index with the components in `dimensions` replaced by `values`."""
    changed = list(index)
    for dimension, value in zip(dimensions, values, strict=True):
        changed[dimension] = value
    return tuple(changed)


# -- elements and numbers


def number(x: Any) -> Any:
    """Returns the number that an element, or an array of rank 0, stands for."""
    element_type = PrimitiveType.from_dtype(x.dtype)
    if element_type is PRED:
        return bool(x)
    if element_type.is_integral:
        return int(x)
    return np.complex128(x) if element_type.is_complex else np.float64(x)


def element(value: Any, element_type: PrimitiveType) -> Any:
    """Returns the element that a number becomes: integers wrap, floats are rounded once, to nearest, ties to even.

    Of a complex number, a real type takes the real part.
    """
    assert element_type.dtype is not None
    if isinstance(value, complex | np.complexfloating) and not element_type.is_complex:
        value = value.real
    if element_type.is_integral:
        return element_type.dtype.type(wrapped(value, element_type))
    if element_type.is_floating:
        exact = _rounded_to_odd(value) if isinstance(value, int) and value.bit_length() > _FLOAT64_BITS else value
        if element_type.bits == 64:
            return np.float64(value)
        return round_to(np.asarray(exact, np.float64), element_type.dtype)[()]
    return element_type.dtype.type(value)


def wrapped(value: int, element_type: PrimitiveType) -> int:
    """Returns the integer of the type that equals `value` modulo 2^bits."""
    size = 1 << element_type.bits
    residue = int(value) % size
    return residue - size if element_type.is_signed and residue >= size // 2 else residue


def _rounded_to_odd(value: int) -> float:
    """Returns a long integer as a float64 that rounds to a narrower type as the integer does: inexact ones are odd."""
    spare = value.bit_length() - _FLOAT64_BITS
    kept, lost = abs(value) >> spare, abs(value) & ((1 << spare) - 1)
    return float((kept | (lost > 0)) << spare) * (-1 if value < 0 else 1)


def least(element_type: PrimitiveType) -> int:
    """Returns the least number of an integer type."""
    return -(1 << (element_type.bits - 1)) if element_type.is_signed else 0


def greatest(element_type: PrimitiveType) -> int:
    """Returns the greatest number of an integer type."""
    return (1 << (element_type.bits - element_type.is_signed)) - 1


# -- bits


def bits_of(x: Any) -> int:
    """Returns the bits of an element as an unsigned integer."""
    element_type = PrimitiveType.from_dtype(x.dtype)
    return int.from_bytes(x.tobytes(), "little") & ((1 << element_type.bits) - 1)


def element_of_bits(bits: int, element_type: PrimitiveType) -> Any:
    """Returns the element with the given bits; higher bits are dropped."""
    assert element_type.dtype is not None
    if element_type is PRED:
        return np.bool_(bits & 0xFF)
    if element_type.is_integral:
        return element(bits, element_type)
    kept = bits & ((1 << element_type.bits) - 1)
    return np.frombuffer(kept.to_bytes(element_type.byte_size, "little"), element_type.dtype)[0]
