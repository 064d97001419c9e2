"""The builder functions of matrix factorizations and transforms: appended instructions, inferred shapes, errors."""

from __future__ import annotations

import pytest

from tests.builder.programs import instruction_texts, parameters
from tests.raising import raises
from xlapy import ops
from xlapy.base import ShapeError
from xlapy.base.error_codes.building import builder as builder_codes
from xlapy.base.error_codes.operations import special as codes
from xlapy.opcodes.linalg import FftType, Transpose


@pytest.mark.parametrize(("lower", "attribute"), [(True, ", lower=true"), (False, "")])
def test_cholesky(lower: bool, attribute: str) -> None:
    (a,) = parameters("c64[2,3,3]")
    assert instruction_texts(ops.cholesky(a, lower)) == [f"cholesky = c64[2,3,3] cholesky(p0){attribute}"]


def test_cholesky_refused() -> None:
    (a,) = parameters("f32[2,3]")
    with raises(ShapeError, codes.SQUARE_MATRICES, "f32[2,3]"):
        ops.cholesky(a, True)


def test_triangular_solve() -> None:
    a, b, c = parameters("f32[5,3,3]", "f32[5,3,2]", "f32[5,2,3]")
    left = ops.triangular_solve(a, b, left_side=True, lower=True, unit_diagonal=True, transpose_a=Transpose.ADJOINT)
    right = ops.triangular_solve(a, c, False, False, False, Transpose.NO_TRANSPOSE)
    assert instruction_texts(ops.tuple(a.builder, [left, right]))[:2] == [
        "triangular-solve = f32[5,3,2] triangular-solve(p0, p1), left_side=true, lower=true, unit_diagonal=true, "
        "transpose_a=ADJOINT",
        "triangular-solve.1 = f32[5,2,3] triangular-solve(p0, p2), transpose_a=NO_TRANSPOSE",
    ]


def test_triangular_solve_refused() -> None:
    a, b = parameters("f32[3,3]", "f32[2,3]")
    with raises(ShapeError, codes.SOLVE_SIZE, "dimension 0", "f32[2,3]", "f32[3,3]"):
        ops.triangular_solve(a, b, True, True, False, Transpose.TRANSPOSE)
    with raises(ShapeError, codes.TRANSPOSE_GIVEN, "transpose_a", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"):
        ops.triangular_solve(a, b, False, True, False, Transpose.UNSET)


@pytest.mark.parametrize(
    ("operand", "kind", "length", "result"),
    [
        ("c64[2,8]", FftType.FFT, [8], "c64[2,8]"),
        ("c128[4,6]", FftType.IFFT, (4, 6), "c128[4,6]"),
        ("f32[3,9]", FftType.RFFT, [9], "c64[3,5]"),
        ("c128[3,5]", FftType.IRFFT, [8], "f64[3,8]"),
    ],
)
def test_fft(operand: str, kind: FftType, length: list[int], result: str) -> None:
    (x,) = parameters(operand)
    sizes = ",".join(map(str, length))
    assert instruction_texts(ops.fft(x, kind, length)) == [
        f"fft = {result} fft(p0), fft_type={kind.value}, fft_length={{{sizes}}}"
    ]


def test_fft_refused() -> None:
    (x,) = parameters("c64[2,8]")
    with raises(ShapeError, codes.TRANSFORM_SIZES, "FFT", "fft_length", "[9]", "dimension 1", "c64[2,8]"):
        ops.fft(x, FftType.FFT, [9])
    with raises(ShapeError, builder_codes.LIST_OF_INTEGERS, "fft_length"):
        ops.fft(x, FftType.FFT, 8)  # type: ignore[arg-type]
