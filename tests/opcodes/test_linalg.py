"""Shape rules of cholesky, triangular-solve and fft."""

from __future__ import annotations

from typing import Any

import pytest

from tests.opcodes.rules import inferred, refused, rewritten, written
from tests.raising import Wanted
from xlapy import opcodes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import special as codes
from xlapy.opcodes.linalg import FftType, Transpose

PLAIN = Transpose.NO_TRANSPOSE


def test_cholesky() -> None:
    assert inferred(opcodes.CHOLESKY, "f32[5,3,3]", lower=True) == "f32[5,3,3]"
    assert inferred(opcodes.CHOLESKY, "c128[2,2]") == "c128[2,2]"
    assert written(opcodes.CHOLESKY, opcodes.CHOLESKY.attributes.make(lower=False)) == []
    assert written(opcodes.CHOLESKY, opcodes.CHOLESKY.attributes.make(lower=True)) == ["lower"]


@pytest.mark.parametrize(
    ("operand", "wanted"),
    [
        ("s32[2,2]", (shared.ELEMENT_TYPE, "s32[2,2]")),
        ("f32[2]", (shared.MINIMUM_RANK, "rank 2", "f32[2]")),
        ("f32[2,3]", (codes.SQUARE_MATRICES, "f32[2,3]")),
        ("token[]", (shared.ARRAY_OPERAND, "operand 0", "token[]")),
    ],
)
def test_cholesky_refuses(operand: str, wanted: Wanted) -> None:
    refused(wanted, opcodes.CHOLESKY, None, operand)


def test_triangular_solve() -> None:
    assert inferred(opcodes.TRIANGULAR_SOLVE, "f32[3,3]", "f32[3,5]", left_side=True, transpose_a=PLAIN) == "f32[3,5]"
    assert inferred(opcodes.TRIANGULAR_SOLVE, "f32[7,3,3]", "f32[7,5,3]", transpose_a=Transpose.ADJOINT) == "f32[7,5,3]"
    attributes = opcodes.TRIANGULAR_SOLVE.attributes.make(left_side=True, unit_diagonal=True, transpose_a=PLAIN)
    assert written(opcodes.TRIANGULAR_SOLVE, attributes) == ["left_side", "unit_diagonal", "transpose_a"]
    for member in Transpose:
        assert rewritten(opcodes.TRIANGULAR_SOLVE, "transpose_a", member.value) == member.value


@pytest.mark.parametrize(
    ("operands", "attributes", "wanted"),
    [
        (
            ["f32[2,2]", "f64[2,2]"],
            {},
            (shared.SAME_ELEMENT_TYPE, "f32[2,2]", "f64[2,2]"),
        ),
        (["f32[2]", "f32[2]"], {}, (shared.MINIMUM_RANK, "rank 2", "f32[2]")),
        (["f32[2,3]", "f32[2,3]"], {}, (codes.SQUARE_MATRICES, "f32[2,3]")),
        (["f32[2,2]", "f32[1,2,2]"], {}, (codes.SOLVE_DIMENSIONS, "f32[2,2]")),
        (
            ["f32[2,2]", "f32[3,2]"],
            {"left_side": True},
            (codes.SOLVE_SIZE, "left_side=true", "dimension 0", "f32[3,2]", "f32[2,2]"),
        ),
        (
            ["f32[2,2]", "f32[2,3]"],
            {},
            (codes.SOLVE_SIZE, "left_side=false", "dimension 1", "f32[2,3]", "f32[2,2]"),
        ),
        (
            ["f32[1,2,2]", "f32[4,2,2]"],
            {},
            (codes.SOLVE_DIMENSIONS, "f32[1,2,2]", "f32[4,2,2]"),
        ),
        (
            ["f32[2,2]", "f32[2,2]"],
            {"transpose_a": Transpose.UNSET},
            (codes.TRANSPOSE_GIVEN, "transpose_a", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT"),
        ),
    ],
)
def test_triangular_solve_refuses(operands: list[str], attributes: dict[str, Any], wanted: Wanted) -> None:
    refused(wanted, opcodes.TRIANGULAR_SOLVE, None, *operands, **{"transpose_a": PLAIN, **attributes})


@pytest.mark.parametrize(
    ("kind", "length", "operand", "result"),
    [
        ("FFT", (8,), "c64[3,8]", "c64[3,8]"),
        ("IFFT", (3, 8), "c128[3,8]", "c128[3,8]"),
        ("RFFT", (8,), "f32[3,8]", "c64[3,5]"),
        ("RFFT", (9,), "f64[9]", "c128[5]"),
        ("RFFT", (4, 6, 8), "f32[2,4,6,8]", "c64[2,4,6,5]"),
        ("RFFT", (0,), "f32[3,0]", "c64[3,0]"),
        ("IRFFT", (8,), "c64[3,5]", "f32[3,8]"),
        ("IRFFT", (9,), "c64[3,5]", "f32[3,9]"),
        ("IRFFT", (4, 6), "c128[4,4]", "f64[4,6]"),
        ("IRFFT", (0,), "c64[0]", "f32[0]"),
        ("FFT", (1, 0), "c64[1,1]", "c64[1,1]"),
        ("IFFT", (1, 1), "c64[1,0]", "c64[1,0]"),
    ],
)
def test_fft(kind: str, length: tuple[int, ...], operand: str, result: str) -> None:
    assert inferred(opcodes.FFT, operand, fft_type=FftType(kind), fft_length=length) == result


@pytest.mark.parametrize(
    ("kind", "length", "operand", "wanted"),
    [
        ("FFT", (), "c64[8]", (codes.TRANSFORM_LENGTH, "fft_length", "[]")),
        ("FFT", (1, 1, 1, 1), "c64[1,1,1,1]", (codes.TRANSFORM_LENGTH, "fft_length", "[1, 1, 1, 1]")),
        ("FFT", (-1,), "c64[8]", (codes.TRANSFORM_LENGTH, "fft_length", "[-1]")),
        ("FFT", (8,), "f32[8]", (shared.ELEMENT_TYPE, "FFT", "f32[8]")),
        ("IRFFT", (8,), "f32[5]", (shared.ELEMENT_TYPE, "IRFFT", "f32[5]")),
        ("RFFT", (8,), "c64[8]", (shared.ELEMENT_TYPE, "RFFT", "f32", "f64", "c64[8]")),
        ("RFFT", (8,), "f16[8]", (shared.ELEMENT_TYPE, "RFFT", "f32", "f64", "f16[8]")),
        ("FFT", (2, 8), "c64[8]", (shared.MINIMUM_RANK, "rank 2", "c64[8]")),
        ("FFT", (4,), "c64[8]", (codes.TRANSFORM_SIZES, "FFT", "fft_length", "[4]", "dimension 0", "c64[8]")),
        (
            "RFFT",
            (3, 8),
            "f32[4,8]",
            (codes.TRANSFORM_SIZES, "RFFT", "fft_length", "[3, 8]", "dimension 0", "f32[4,8]"),
        ),
        ("IRFFT", (8,), "c64[4]", (codes.TRANSFORM_SIZES, "IRFFT", "fft_length", "[8]", "dimension 0", "c64[4]")),
        (
            "IRFFT",
            (3, 8),
            "c64[4,5]",
            (codes.TRANSFORM_SIZES, "IRFFT", "fft_length", "[3, 8]", "dimension 0", "c64[4,5]"),
        ),
    ],
)
def test_fft_refuses(kind: str, length: tuple[int, ...], operand: str, wanted: Wanted) -> None:
    refused(wanted, opcodes.FFT, None, operand, fft_type=FftType(kind), fft_length=length)


def test_fft_keeps_dynamic_dimensions() -> None:
    assert inferred(opcodes.FFT, "f32[<=3,8]", fft_type=FftType.RFFT, fft_length=(8,)) == "c64[<=3,5]"
