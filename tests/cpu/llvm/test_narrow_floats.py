"""Narrow floats in machine code: from every code, and to a code from every float16 number and others."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.cpu.instruction_sets import stages_for
from tests.cpu.kernel_runner import run_kernel
from xlapy.base.element_types import ARRAY_TYPES, BF16, F8E8M0FNU, PrimitiveType
from xlapy.loops import F32, F64, I8, AxisKind, Builder
from xlapy.lower import load_element, register_type, storage_type, store_element
from xlapy.lower.element_types import rounded
from xlapy.lower.narrow_floats import is_narrow
from xlapy.runtime import Client

NARROW = [t for t in ARRAY_TYPES if is_narrow(t)]


def float32_numbers() -> np.ndarray:
    """Returns all float16 numbers as float32, their neighbors, and some numbers outside their range."""
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


@pytest.mark.parametrize("t", NARROW, ids=str)
def test_float64_is_rounded_once(t: PrimitiveType):
    """The numbers are so close to the midpoint between two narrow numbers that float32 cannot represent the
    difference."""
    numbers = np.arange(1 << t.bits, dtype=np.uint8).view(t.dtype).astype(np.float64)
    numbers = np.unique(numbers[np.isfinite(numbers) & (numbers != 0) & (np.abs(numbers) > 1e-30)])
    middles = (numbers[1:] + numbers[:-1]) / 2
    x = np.concatenate(
        [middles, np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf), [1e300, -1e-300, np.inf]]
    )
    if t is F8E8M0FNU:
        x = np.abs(x)
    text = f"HloModule m\nENTRY e {{\n  x = f64[{x.size}] parameter(0)\n  ROOT r = {t}[{x.size}] convert(x)\n}}\n"
    with np.errstate(all="ignore"):
        expected = np.asarray(Client("interpreter").compile(text)(x)).view(np.uint8)
    np.testing.assert_array_equal(np.asarray(Client("cpu").compile(text)(x)).view(np.uint8), expected)


@pytest.mark.parametrize("t", ["u1", "u2", "u4", "s1", "s2", "s4"])
def test_numbers_beyond_a_narrow_integer_saturate(t: str):
    x = np.array([np.inf, -np.inf, np.nan, 5e9, -5e9, -1, 0.5, 1, 3e9, 100], np.float32)
    text = f"HloModule m\nENTRY e {{\n  x = f32[10] parameter(0)\n  ROOT r = {t}[10] convert(x)\n}}\n"
    low, high = (0, 2 ** int(t[1]) - 1) if t[0] == "u" else (-(2 ** (int(t[1]) - 1)), 2 ** (int(t[1]) - 1) - 1)
    least, one = max(low, -1), min(high, 1)
    result = np.asarray(Client("cpu").compile(text)(x)).astype(int)
    assert result.tolist() == [high, low, 0, high, low, least, 0, one, high, high]


def test_f64_converts_to_f16_without_a_library_call():
    text = "HloModule m\nENTRY e { x = f16[] parameter(0) y = f16[] parameter(1) ROOT r = f16[] remainder(x, y) }"
    x, y = np.float16(7.25), np.float16(-2.5)
    assert np.asarray(Client("cpu").compile(text)(x, y)) == 2.25


def _is_nan(array: np.ndarray) -> np.ndarray:
    return np.isnan(array.astype(np.float32))


@pytest.mark.parametrize("columns", [1025, 33])
def test_stores_under_masks_that_llvm_knows_write_whole_elements_only(columns: int):
    """LLVM 22 stores four bytes of a truncated number under a constant mask of one lane, so no mask may become one."""
    text = f"""ENTRY e {{
      a = bf16[7,7,1000] parameter(0)
      b = bf16[1000,7,{columns}] parameter(1)
      d = bf16[7,7,{columns}] dot(a, b), lhs_batch_dims={{0}}, rhs_batch_dims={{1}}, lhs_contracting_dims={{2}},
        rhs_contracting_dims={{0}}
      z = bf16[] constant(0)
      zeros = bf16[7,7,{columns}] broadcast(z), dimensions={{}}
      ROOT m = bf16[7,7,{columns}] maximum(d, zeros)
    }}"""
    optimized = stages_for("AVX512", text)["optimized.ll"]
    stores = re.findall(r"@llvm\.masked\.store\.v\d+i16\.p0\(.*", optimized)
    masks = [re.findall(r"i1 true", store) for store in stores if "i1 true" in store]
    assert stores
    assert all(len(mask) != 1 for mask in masks)
