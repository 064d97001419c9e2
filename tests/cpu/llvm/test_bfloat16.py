"""Rounding to bfloat16 as machine code, by an instruction of the processor and by arithmetic on bits."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from tests.cpu.instruction_sets import limited_to, stages_for
from tests.cpu.kernel_runner import run_kernel
from xlapy.base import flags
from xlapy.cpu.llvm.conversions import bfloat16
from xlapy.loops import F32, AxisKind, Builder, evaluate

RNG = np.random.default_rng(3)
TEXT = """HloModule m
ENTRY e {
  a = bf16[999] parameter(0)
  b = bf16[999] parameter(1)
  c = bf16[999] add(a, b)
  d = bf16[999] maximum(c, a)
  ROOT r = bf16[999] multiply(d, b)
}"""


def samples(count: int) -> np.ndarray:
    """Returns random bits, ties, infinities, NaN and numbers next to an overflow; no denormal numbers."""
    bits = RNG.integers(0, 1 << 32, count).astype(np.uint32)
    bits[::5] = bits[::5] & 0xFFFF0000 | 0x8000
    special = [np.inf, -np.inf, np.nan, 0.0, -0.0, 3.3961776e38, 3.3895314e38, -3.4e38, np.finfo(np.float32).tiny]
    bits[1 : 1 + len(special)] = np.array(special, np.float32).view(np.uint32)
    bits[20] = 0xFF800001  # a signaling NaN
    numbers = bits.view(np.float32)
    numbers[np.abs(numbers) < np.finfo(np.float32).tiny] = 0
    return numbers


def rounding(size: int, width: int) -> Builder:
    builder = Builder("k")
    source, out = builder.buffer("a", F32, size), builder.buffer("out", F32, size, written=True)
    with builder.loop(size, AxisKind.VECTOR, width=width) as lane:
        builder.store(out, lane, builder.unary("round_bf16", builder.load(source, lane)))
    return builder


@pytest.mark.parametrize("isa", ["", "AVX2"])
@pytest.mark.parametrize("width", [1, 2, 4, 8, 16, 32])
def test_results_equal_the_definition(width, isa):
    given = samples(333)
    expected, found = np.zeros_like(given), np.zeros_like(given)
    kernel = rounding(given.size, width).kernel
    evaluate(kernel, {"a": given, "out": expected})
    with limited_to(isa):
        run_kernel(kernel, [given, found])
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_the_definition_rounds_to_nearest_even():
    given = np.array([1.00390625, 1.01171875, 1.004, -1.00390625, 3.4e38], np.float32)
    found = np.zeros_like(given)
    evaluate(rounding(5, 1).kernel, {"a": given, "out": found})
    assert found.tolist() == [1.0, 1.015625, 1.0078125, -1.0, np.inf]


def test_code_for_a_processor_with_the_instruction():
    assert "vcvtneps2bf16" in stages_for("AVX512_BF16", TEXT)["s"]
    assert "vcvtneps2bf16" not in stages_for("AVX512", TEXT)["s"]


def test_kept_denormals_are_rounded_by_bits(monkeypatch):
    values = flags.Flags({"denormals": "keep"})
    monkeypatch.setattr(flags, "current", lambda: values)
    assert not bfloat16._has_instruction()
    given = np.array([1e-39, -1e-40, 9.2e-41], np.float32)
    found = np.zeros_like(given)
    run_kernel(rounding(3, 1).kernel, [given, found])
    np.testing.assert_array_equal(found, given.astype(ml_dtypes.bfloat16).astype(np.float32))


@pytest.mark.parametrize("isa", ["", "AVX2"])
def test_programs_round_after_every_operation(isa):
    a, b = (RNG.standard_normal(999).astype(ml_dtypes.bfloat16) for _ in range(2))
    a[7], b[9], a[11] = np.inf, np.nan, -np.inf
    with limited_to(isa):
        found = np.asarray(xla.Client("cpu").compile(TEXT)(a, b))
    with np.errstate(invalid="ignore"):
        expected = np.maximum(a + b, a) * b
    np.testing.assert_array_equal(found.astype(np.float32), expected.astype(np.float32))


def test_exact_operations_are_not_rounded():
    exact = """HloModule m
ENTRY e {
  a = bf16[64] parameter(0)
  b = bf16[64] negate(a)
  c = bf16[64] abs(b)
  d = bf16[64] floor(c)
  e = bf16[64] ceil(d)
  f = bf16[64] round-nearest-even(e)
  g = bf16[64] sign(f)
  h = bf16[64] minimum(g, a)
  ROOT r = bf16[64] maximum(h, b)
}"""
    assert "round_bf16" not in stages_for("AVX2", exact)["loops.txt"]
