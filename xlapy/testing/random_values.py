"""Random test inputs of every element type, mixed with special values.

Responsible only for drawing arrays. Does not depend on shapes, instructions or tolerances. The caller passes the random
generator, so that equal seeds give equal arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from xlapy.base.element_types import float_format_of

_ELEMENTS_PER_SPECIAL_VALUE = 8


def random_array(
    dimensions: Sequence[int],
    dtype: Any,
    rng: np.random.Generator,
    special: bool = True,
    denormals: bool = False,
) -> np.ndarray[Any, Any]:
    """Returns an array of `dimensions` and `dtype` (any NumPy or ml_dtypes element type of XLA).

    `special=False`: finite values of moderate size (floats from the normal distribution, integers within +-100 or the
    range of a narrower type). `special=True`: floats over many magnitudes and integers over the whole range; one
    element in eight (at least one) is replaced by NaN, an infinity, a zero of either sign, the largest or smallest
    normal number, or an integer extreme. `denormals=True` adds denormals to these special values; they are separate
    because XLA:CPU flushes them.
    """
    target = np.dtype(dtype)
    shape = tuple(dimensions)
    if target == np.bool_:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if target.kind == "c":
        part = np.dtype(np.float32 if target == np.complex64 else np.float64)
        real, imag = (random_array(shape, part, rng, special, denormals) for _ in range(2))
        return _complex_array(real, imag, target)
    if is_integer(target):
        return _random_integers(shape, target, rng, special)
    return _random_floats(shape, target, rng, special, denormals)


def special_values(dtype: Any, denormals: bool = False) -> np.ndarray[Any, Any]:
    """Returns the special values of an integer or floating element type as a vector without duplicates."""
    target = np.dtype(dtype)
    if is_integer(target):
        low, high = _limits(target)
        return np.array(sorted({low, low + 1, -1 if low < 0 else 0, 0, 1, high - 1, high}), dtype=object).astype(target)
    float_format = float_format_of(target)
    normal, largest = float_format.smallest_normal, float_format.largest
    values = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        normal,
        -normal,
        largest,
        -largest,
        float("inf"),
        float("-inf"),
        float("nan"),
    ]
    if denormals:
        values += [float_format.smallest_subnormal, -float_format.smallest_subnormal, normal / 2]
    with np.errstate(all="ignore"):
        return np.array(values, np.float64).astype(target)


def is_integer(dtype: Any) -> bool:
    """Whether `dtype` is an integer element type, including those of ml_dtypes but not bool."""
    target = np.dtype(dtype)
    return target.kind in "iu" or target.name.startswith(("int", "uint"))


def _limits(target: np.dtype[Any]) -> tuple[int, int]:
    info: Any = ml_dtypes.iinfo(target)
    return int(info.min), int(info.max)


def _random_integers(
    shape: tuple[int, ...], target: np.dtype[Any], rng: np.random.Generator, special: bool
) -> np.ndarray[Any, Any]:
    low, high = _limits(target)
    if not special:
        return rng.integers(max(low, -100), min(high, 100), shape, endpoint=True).astype(target)
    wide = np.uint64 if low == 0 else np.int64
    values = rng.integers(low, high, shape, dtype=wide, endpoint=True).astype(target)
    small = rng.integers(max(low, -4), min(high, 4), shape, endpoint=True).astype(target)
    return _insert_special_values(np.where(rng.random(shape) < 0.5, values, small), special_values(target), rng)


def _random_floats(
    shape: tuple[int, ...], target: np.dtype[Any], rng: np.random.Generator, special: bool, denormals: bool
) -> np.ndarray[Any, Any]:
    values = rng.standard_normal(shape)
    if special:
        exponents = rng.integers(-8, 9, shape)
        values = np.ldexp(values, np.where(rng.random(shape) < 0.5, exponents, 0))
    float_format = float_format_of(target)
    if not float_format.is_signed:  # scales
        values = np.abs(values)
    values = np.clip(values, float_format.lowest, float_format.largest)
    if not denormals:
        values = np.where(np.abs(values) < float_format.smallest_normal, float_format.smallest_normal, values)
    with np.errstate(all="ignore"):
        array = np.asarray(values.astype(target))
    return _insert_special_values(array, special_values(target, denormals), rng) if special else array


def _insert_special_values(
    array: np.ndarray[Any, Any], specials: np.ndarray[Any, Any], rng: np.random.Generator
) -> np.ndarray[Any, Any]:
    """Replaces a share of the elements by randomly drawn special values."""
    flat = np.array(array).reshape(-1)
    count = min(flat.size, max(1, flat.size // _ELEMENTS_PER_SPECIAL_VALUE))
    positions = rng.choice(flat.size, count, replace=False) if flat.size else np.zeros(0, np.int64)
    flat[positions] = specials[rng.integers(0, specials.size, count)]
    return flat.reshape(np.shape(array))


def _complex_array(
    real: np.ndarray[Any, Any], imag: np.ndarray[Any, Any], target: np.dtype[Any]
) -> np.ndarray[Any, Any]:
    """Assigns the parts without arithmetic, which would turn an infinite part into NaN."""
    result = np.empty(real.shape, target)
    result.real = real
    result.imag = imag
    return result
