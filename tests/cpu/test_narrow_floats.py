"""Narrow floats in machine code: every code there is, and every float16 number and more on the way back."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cpu.kernel_runner import run_kernel
from xlapy.base.element_types import ARRAY_TYPES, BF16, PrimitiveType
from xlapy.loops import F32, F64, I8, AxisKind, Builder
from xlapy.lower import load_element, register_type, storage_type, store_element
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
    x, out = b.buffer("x", I8, count), b.buffer("out", F64, count, written=True)
    with b.loop(count, AxisKind.VECTOR, width=width) as i:
        b.store(out, i, b.convert("fpext", load_element(b, x, i, t), F64))
    codes, result = np.arange(count, dtype=np.uint8), np.zeros(count)
    run_kernel(b.kernel, [codes, result])
    np.testing.assert_array_equal(result, codes.view(t.dtype).astype(np.float64))


@pytest.mark.parametrize("t", [*NARROW, BF16], ids=str)
def test_every_number_is_rounded_as_ml_dtypes_rounds_it(t: PrimitiveType):
    given = float32_numbers()
    b = Builder("encode")
    x = b.buffer("x", F32, given.size)
    out = b.buffer("out", storage_type(t), given.size, written=True)
    with b.loop(given.size, AxisKind.VECTOR, width=16) as i:
        store_element(b, out, i, rounded(b, b.convert("fpext", b.load(x, i), register_type(t)), t), t)
    bits = np.zeros(given.size, f"u{t.byte_size}")
    run_kernel(b.kernel, [given, bits])
    with np.errstate(invalid="ignore"):
        expected = given.astype(t.dtype)
    numbers = ~np.isnan(given)
    np.testing.assert_array_equal(bits[numbers], expected.view(bits.dtype)[numbers])
    np.testing.assert_array_equal(_is_nan(bits.view(t.dtype)[~numbers]), _is_nan(expected[~numbers]))


def _is_nan(array: np.ndarray) -> np.ndarray:
    return np.isnan(array.astype(np.float32))
