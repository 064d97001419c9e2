"""Narrow floats in machine code: every code there is, and every float16 number and more on the way back."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cpu.kernel_runner import run_kernel
from xlapy.base.element_types import ARRAY_TYPES, BF16, F8E8M0FNU, PrimitiveType
from xlapy.loops import F32, I8, AxisKind, Builder
from xlapy.lower import load_element, storage_type, store_element
from xlapy.lower.element_types import rounded
from xlapy.lower.narrow_floats import is_narrow

NARROW = [t for t in ARRAY_TYPES if is_narrow(t)]


def float32_numbers() -> np.ndarray:
    """All float16 numbers as float32, their neighbours, and some beyond them."""
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16).astype(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        near = [np.nextafter(halves, np.float32(np.inf)), np.nextafter(halves, np.float32(-np.inf))]
        return np.concatenate([halves, *near, halves * np.float32(2.0**112), halves * np.float32(2.0**-100)])


@pytest.mark.parametrize("t", NARROW, ids=str)
@pytest.mark.parametrize("width", [1, 16])
def test_every_code_is_read_as_its_number(t: PrimitiveType, width: int):
    count = 1 << t.bits
    b = Builder("decode")
    x, out = b.buffer("x", I8, count), b.buffer("out", F32, count, written=True)
    with b.loop(count, AxisKind.VECTOR, width=width) as i:
        b.store(out, i, load_element(b, x, i, t))
    codes, result = np.arange(count, dtype=np.uint8), np.zeros(count, np.float32)
    run_kernel(b.kernel, [codes, result])
    np.testing.assert_array_equal(result, codes.view(t.dtype).astype(np.float32))


@pytest.mark.parametrize("t", [*NARROW, BF16], ids=str)
def test_every_number_is_rounded_as_ml_dtypes_rounds_it(t: PrimitiveType):
    given = float32_numbers()
    if t is F8E8M0FNU:
        given = given[np.abs(given) >= np.float32(2.0**-120)]
    b = Builder("encode")
    x = b.buffer("x", F32, given.size)
    out = b.buffer("out", storage_type(t), given.size, written=True)
    with b.loop(given.size, AxisKind.VECTOR, width=16) as i:
        store_element(b, out, i, rounded(b, b.load(x, i), t), t)
    result = np.zeros(given.size, t.dtype)
    run_kernel(b.kernel, [given, result.view(f"u{result.itemsize}")])
    expected = given.astype(t.dtype)
    finite = ~np.isnan(given)
    np.testing.assert_array_equal(
        result[finite].view(f"u{result.itemsize}"), expected[finite].view(f"u{result.itemsize}")
    )
    np.testing.assert_array_equal(
        np.isnan(result[~finite].astype(np.float32)), np.isnan(expected[~finite].astype(np.float32))
    )
    assert ml_dtypes.finfo(t.dtype).bits == t.bits
