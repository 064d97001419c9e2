"""Maxima and minima of floats: NaN in either operand, signs of zeros, infinities and denormals, in registers of all
widths."""

from __future__ import annotations

import numpy as np
import pytest

from tests.cpu.kernel_runner import module_text, run_kernel
from xlapy.cpu.llvm.processor import target_processor
from xlapy.loops import F16, F32, F64, AxisKind, Builder, Kernel

SPECIAL = [0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan, -np.nan, 6e-8, -6e-8]


def extrema(type, op: str, size: int, width: int) -> Kernel:
    b = Builder("extrema")
    x, y, out = b.buffer("x", type, size), b.buffer("y", type, size), b.buffer("out", type, size, written=True)
    with b.loop(size, AxisKind.VECTOR, width=width) as i:
        b.store(out, i, b.binary(op, b.load(x, i), b.load(y, i)))
    return b.kernel


def expected(op: str, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The definition: NaN if an operand is NaN; of two equal numbers the one whose sign bit is smaller, or greater."""
    is_greater = (x > y) | ((x == y) & (np.signbit(x) < np.signbit(y)))
    found = np.where(is_greater == (op == "max"), x, y)
    return np.where(np.isnan(x) | np.isnan(y), np.nan, found).astype(x.dtype)


@pytest.mark.parametrize("width", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("op", ["max", "min"])
@pytest.mark.parametrize("type", [F16, F32, F64], ids=str)
def test_all_pairs_of_special_values(type, op, width):
    denormal = np.finfo(type.dtype).smallest_subnormal
    values = np.array([*SPECIAL, denormal, -denormal], type.dtype)
    x, y = (grid.ravel().copy() for grid in np.meshgrid(values, values))
    found = np.zeros_like(x)
    run_kernel(extrema(type, op, x.size, width), [x, y, found])
    wanted = expected(op, x, y)
    np.testing.assert_array_equal(found, wanted)
    numbers = ~np.isnan(wanted)
    np.testing.assert_array_equal(np.signbit(found)[numbers], np.signbit(wanted)[numbers])


RANGE_WIDTHS = [(F32, 1), (F32, 4), (F32, 8), (F32, 16), (F64, 1), (F64, 2), (F64, 4), (F64, 8)]


@pytest.mark.parametrize(("type", "width"), RANGE_WIDTHS, ids=str)
def test_numbers_and_vectors_use_the_range_instruction(type, width):
    has_instruction = target_processor().vector_bytes == 64 and "avx512dq" in target_processor().features
    text = module_text(extrema(type, "max", 64, width))
    assert ("avx512.mask.range" in text) == has_instruction
    assert ("llvm.maximum" in text) != has_instruction
