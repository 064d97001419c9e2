"""Rounds floating-point numbers to narrower types in one step.

ml_dtypes converts float64 to its types by way of float32, which rounds twice. Does not depend on shapes, literals or
instructions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy.base.element_types import Array


def round_to(array: Array, dtype: np.dtype[Any]) -> Array:
    """Rounds float32 or float64 numbers once to any floating-point type: to nearest, ties to even.

    Ties of f8e8m0fnu, which has no mantissa, round up. Numbers out of range become infinity, NaN if the type has no
    infinities, or the largest number if it has neither.
    """
    if array.dtype == np.float64 and dtype not in (np.float16, np.float32, np.float64):
        # Rounding to odd first makes the second rounding correct: the odd last bit records that the number is inexact.
        array = round_to_odd(array, np.dtype(np.float32))
    return np.asarray(array).astype(dtype)


def round_to_odd(array: Array, dtype: np.dtype[Any]) -> Array:
    """Converts numbers to a narrower native type; an inexact one becomes its neighbor with an odd last bit."""
    near = np.asarray(array.astype(dtype))
    back = near.astype(array.dtype)
    too_low, too_high = back < array, back > array
    even = (near.view(f"u{near.itemsize}") & 1) == 0
    toward = np.where(too_low, dtype.type(np.inf), dtype.type(-np.inf))
    return np.where(even & (too_low | too_high), np.nextafter(near, toward), near)
