"""Rounding of floating-point numbers to narrower types, in one step.

Owns: what ml_dtypes leaves undone, which narrows float64 by way of float32 and so rounds twice. Must not know: shapes,
literals, instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy.base.element_types import Array


def round_to(array: Array, dtype: np.dtype[Any]) -> Array:
    """float32 or float64 numbers rounded once to any floating-point type: to nearest, ties to even.

    Ties of f8e8m0fnu, which has no mantissa to be even, go up. Numbers beyond the range become infinite, or the
    largest one where there are neither infinities nor NaN, or NaN.
    """
    if array.dtype == np.float64 and dtype not in (np.float16, np.float32, np.float64):
        # Rounding to odd on the way keeps the direction for the second rounding.
        array = round_to_odd(array, np.dtype(np.float32))
    return np.asarray(array).astype(dtype)


def round_to_odd(array: Array, dtype: np.dtype[Any]) -> Array:
    """Numbers in a narrower native type: exact ones as they are, others as the neighbour with an odd last bit."""
    near = np.asarray(array.astype(dtype))
    back = near.astype(array.dtype)
    too_low, too_high = back < array, back > array
    even = (near.view(f"u{near.itemsize}") & 1) == 0
    towards = np.where(too_low, dtype.type(np.inf), dtype.type(-np.inf))
    return np.where(even & (too_low | too_high), np.nextafter(near, towards), near)
