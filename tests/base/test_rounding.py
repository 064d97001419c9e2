"""Rounding in one step, compared with the table of all numbers of a type."""

from __future__ import annotations

import numpy as np
import pytest

from xlapy.base.element_types import ARRAY_TYPES, F8E8M0FNU, PrimitiveType
from xlapy.base.rounding import round_to

FLOATS = [t for t in ARRAY_TYPES if t.is_floating]


@pytest.mark.parametrize("target", FLOATS, ids=str)
def test_floats_round_to_the_nearest_even_value(target: PrimitiveType) -> None:
    """Rounds numbers around the midpoint of every pair of neighbors of an 8-bit type, or of some of a wider one."""
    if target.name in ("F32", "F64"):
        return
    storage = np.arange(1 << min(target.bits, 16), dtype=np.uint32).astype(f"u{target.byte_size}").view(target.dtype)
    with np.errstate(all="ignore"):
        table = storage.astype(np.float64)
    keep = np.isfinite(table)
    table, order = np.unique(table[keep], return_index=True)
    even = (np.arange(storage.size)[keep][order] & 1) == 0
    middle = (table[1:] + table[:-1]) / 2
    for source in (np.float32, np.float64):
        step = 2.0 ** (-22 if source is np.float32 else -50)
        nearest = [np.where(even[1:] | (target is F8E8M0FNU), table[1:], table[:-1])]  # no mantissa: ties go up
        points = [middle]
        for sign in (-1, 1):
            points.append(middle + sign * np.abs(middle) * step)
            nearest.append(table[1:] if sign > 0 else table[:-1])
        for point, expected in zip(points, nearest, strict=True):
            exact = point.astype(source).astype(np.float64) == point
            exact &= point != 0  # the middle between -min and min
            if target is F8E8M0FNU:
                exact &= point >= float(np.finfo(np.float32).smallest_normal)  # below, ml_dtypes rounds up
            result = round_to(point.astype(source), target.dtype).astype(np.float64)
            np.testing.assert_array_equal(result[exact], expected[exact])
