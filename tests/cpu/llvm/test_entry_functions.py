"""Entry functions that only call kernels are not optimized; those that compute are."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import compile_module

CALLS = "HloModule calls ENTRY e { x = f32[512,512] parameter(0) ROOT s = f32[512,512] exponential(x) }"
UNROLLED = "HloModule unrolled ENTRY e { x = f32[4] parameter(0) ROOT s = f32[4] add(x, x) }"


def _entry(text: str) -> str:
    return next(line for line in text.splitlines() if line.startswith("define i32 @xlapy_run"))


def test_only_calls_are_unoptimized(capfd: pytest.CaptureFixture[str]) -> None:
    calls, unrolled = (compile_module(xla.parse_hlo(text)).llvm for text in (CALLS, UNROLLED))
    assert "#1" in _entry(calls)
    assert "#0" in _entry(unrolled)
    assert capfd.readouterr().err == ""  # LLVM names the passes that it skips


def test_results() -> None:
    x = np.linspace(-1, 1, 512 * 512, dtype=np.float32).reshape(512, 512)
    np.testing.assert_allclose(xla.Client("cpu").compile(CALLS)(x), np.exp(x), rtol=1e-6)


def test_small_dots_are_loops_over_their_terms() -> None:
    """The code of a dot of 8 x 8 has one iteration, not all 64 products."""
    dot = (
        "HloModule dot ENTRY e { a = f32[8,8] parameter(0) b = f32[8,8] parameter(1) "
        "ROOT d = f32[8,8] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"
    )
    assert compile_module(xla.parse_hlo(dot)).llvm.count("call <") <= 32
    a, b = np.arange(64, dtype=np.float32).reshape(8, 8), np.ones((8, 8), np.float32)
    np.testing.assert_array_equal(xla.Client("cpu").compile(dot)(a, b), a @ b)
