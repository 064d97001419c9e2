"""Expansion of matrix factorizations and solvers into loops, and of Fourier transforms into dots."""

from __future__ import annotations

import numpy as np
import pytest

from tests.passes.runner import assert_unchanged, execute, program, run_passes
from xlapy.hlo.edit import clone_module
from xlapy.passes.expand.expand import Expand
from xlapy.testing.program_tolerance import program_tolerance
from xlapy.text import parse_hlo

RNG = np.random.default_rng(3)


def complex_normal(*sizes: int) -> np.ndarray:
    return RNG.standard_normal(sizes) + 1j * RNG.standard_normal(sizes)


def assert_expanded(op: str, text: str, *arguments: np.ndarray) -> np.ndarray:
    before = parse_hlo(text)
    after = clone_module(before)
    assert run_passes(after, [Expand(ops=(op,))])
    assert all(i.op.name != op for i in after.instructions())
    result = execute(after, arguments)
    program_tolerance(before, arguments).assert_close(result)
    return result


@pytest.mark.parametrize("element_type", ["f32", "c64"])
@pytest.mark.parametrize("lower", ["true", "false"])
def test_only_the_matrices_that_are_not_definite_have_no_factor(element_type, lower):
    shape = f"{element_type}[3,9,9]"
    text = program(f"a = {shape} parameter(0)", f"ROOT r = {shape} cholesky(a), lower={lower}")
    root = complex_normal(3, 9, 9) if element_type == "c64" else RNG.standard_normal((3, 9, 9))
    a = root @ root.conj().swapaxes(-1, -2)
    a[1, 4, 4] = -1
    a[:, *(np.triu_indices(9, 1) if lower == "true" else np.tril_indices(9, -1))] = np.nan  # this triangle is not read
    factor = assert_expanded("cholesky", text, a.astype(np.complex64 if element_type == "c64" else np.float32))
    assert np.isnan(factor).all(axis=(1, 2)).tolist() == [False, True, False]


@pytest.mark.parametrize("transpose", ["NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"])
@pytest.mark.parametrize("side", ["left_side=true, ", ""])
@pytest.mark.parametrize("form", ["lower=true, ", "unit_diagonal=true, "])
def test_elements_outside_the_triangle_are_not_read(transpose, side, form):
    b = "c128[2,5,3]" if side else "c128[2,3,5]"
    text = program(
        "a = c128[2,5,5] parameter(0)",
        f"b = {b} parameter(1)",
        f"ROOT r = {b} triangular-solve(a, b), {side}{form}transpose_a={transpose}",
    )
    a = complex_normal(2, 5, 5) + 4 * np.eye(5)
    a[:, *(np.triu_indices(5, 1) if "lower" in form else np.tril_indices(5, 0))] = np.nan
    x = assert_expanded("triangular-solve", text, a, complex_normal(2, *((5, 3) if side else (3, 5))))
    assert np.isfinite(x).all()


@pytest.mark.parametrize("length", [1, 2, 31, 33, 37, 64, 74, 96, 131, 262, 1517])
def test_transforms_of_every_kind_of_length(length):
    half = length // 2 + 1
    for kind, source, result in (
        ("FFT", f"c64[2,{length}]", f"c64[2,{length}]"),
        ("IFFT", f"c64[2,{length}]", f"c64[2,{length}]"),
        ("RFFT", f"f32[2,{length}]", f"c64[2,{half}]"),
        ("IRFFT", f"c64[2,{half}]", f"f32[2,{length}]"),
    ):
        text = program(
            f"x = {source} parameter(0)", f"ROOT r = {result} fft(x), fft_type={kind}, fft_length={{{length}}}"
        )
        values = complex_normal(2, half if kind == "IRFFT" else length)
        given = values.real.astype(np.float32) if kind == "RFFT" else values.astype(np.complex64)
        assert_expanded("fft", text, given)


def test_dynamic_dimensions_stay():
    text = program("a = f32[<=2,3,3] parameter(0)", "ROOT r = f32[<=2,3,3] cholesky(a)")
    assert_unchanged(text, "expand{ops=cholesky}")
