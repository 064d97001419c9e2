"""Shape rules of cholesky, triangular-solve and fft."""

from __future__ import annotations

from typing import Any

import pytest

from tests.opcodes.rules import inferred, refusal, rewritten, written
from xlapy import opcodes
from xlapy.opcodes.linalg import FftType, Transpose

PLAIN = Transpose.NO_TRANSPOSE


def test_cholesky() -> None:
    assert inferred(opcodes.CHOLESKY, "f32[5,3,3]", lower=True) == "f32[5,3,3]"
    assert inferred(opcodes.CHOLESKY, "c128[2,2]") == "c128[2,2]"
    assert written(opcodes.CHOLESKY, opcodes.CHOLESKY.attributes.make(lower=False)) == []
    assert written(opcodes.CHOLESKY, opcodes.CHOLESKY.attributes.make(lower=True)) == ["lower"]


@pytest.mark.parametrize(
    ("operand", "message"),
    [
        ("s32[2,2]", "cholesky takes floating-point or complex elements, operand a is s32[2,2]"),
        ("f32[2]", "cholesky: a must have at least rank 2, given f32[2]"),
        ("f32[2,3]", "cholesky: the two minor dimensions of a must be equal, a is f32[2,3]"),
        ("token[]", "cholesky takes arrays, operand 0 is token[]"),
    ],
)
def test_cholesky_refuses(operand: str, message: str) -> None:
    assert refusal(opcodes.CHOLESKY, None, operand) == message


def test_triangular_solve() -> None:
    assert inferred(opcodes.TRIANGULAR_SOLVE, "f32[3,3]", "f32[3,5]", left_side=True, transpose_a=PLAIN) == "f32[3,5]"
    assert inferred(opcodes.TRIANGULAR_SOLVE, "f32[7,3,3]", "f32[7,5,3]", transpose_a=Transpose.ADJOINT) == "f32[7,5,3]"
    attributes = opcodes.TRIANGULAR_SOLVE.attributes.make(left_side=True, unit_diagonal=True, transpose_a=PLAIN)
    assert written(opcodes.TRIANGULAR_SOLVE, attributes) == ["left_side", "unit_diagonal", "transpose_a"]
    for member in Transpose:
        assert rewritten(opcodes.TRIANGULAR_SOLVE, "transpose_a", member.value) == member.value


@pytest.mark.parametrize(
    ("operands", "attributes", "message"),
    [
        (
            ["f32[2,2]", "f64[2,2]"],
            {},
            "triangular-solve: a and b must have the same element type, given f32[2,2] and f64[2,2]",
        ),
        (["f32[2]", "f32[2]"], {}, "triangular-solve: a must have at least rank 2, given f32[2]"),
        (["f32[2,3]", "f32[2,3]"], {}, "triangular-solve: the two minor dimensions of a must be equal, a is f32[2,3]"),
        (["f32[2,2]", "f32[1,2,2]"], {}, "triangular-solve: a and b must have equal ranks, given f32[2,2] and"),
        (
            ["f32[2,2]", "f32[3,2]"],
            {"left_side": True},
            "triangular-solve with left_side=true: dimension 0 of b f32[3,2] must have the size of a f32[2,2]",
        ),
        (
            ["f32[2,2]", "f32[2,3]"],
            {},
            "triangular-solve with left_side=false: dimension 1 of b f32[2,3] must have the size of a f32[2,2]",
        ),
        (
            ["f32[1,2,2]", "f32[4,2,2]"],
            {},
            "triangular-solve: batch dimensions must be equal, a is f32[1,2,2], b is f32[4,2,2]",
        ),
        (
            ["f32[2,2]", "f32[2,2]"],
            {"transpose_a": Transpose.UNSET},
            "triangular-solve: transpose_a must be NO_TRANSPOSE, TRANSPOSE or ADJOINT, but it is not given",
        ),
    ],
)
def test_triangular_solve_refuses(operands: list[str], attributes: dict[str, Any], message: str) -> None:
    assert refusal(opcodes.TRIANGULAR_SOLVE, None, *operands, **{"transpose_a": PLAIN, **attributes}).startswith(
        message
    )


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
    ("kind", "length", "operand", "message"),
    [
        ("FFT", (), "c64[8]", "fft_length must have 1 to 3 entries, given []"),
        ("FFT", (1, 1, 1, 1), "c64[1,1,1,1]", "fft_length must have 1 to 3 entries, given [1, 1, 1, 1]"),
        ("FFT", (-1,), "c64[8]", "fft_length must not be negative, given [-1]"),
        ("FFT", (8,), "f32[8]", "fft FFT takes complex elements, operand is f32[8]"),
        ("IRFFT", (8,), "f32[5]", "fft IRFFT takes complex elements, operand is f32[5]"),
        ("RFFT", (8,), "c64[8]", "fft RFFT takes f32 or f64 elements, operand is c64[8]"),
        ("RFFT", (8,), "f16[8]", "fft RFFT takes f32 or f64 elements, operand is f16[8]"),
        ("FFT", (2, 8), "c64[8]", "fft of rank 2 needs an operand of at least that rank, given c64[8]"),
        ("FFT", (4,), "c64[8]", "fft FFT with fft_length [4]: dimension 0 of c64[8] must be 4"),
        ("RFFT", (3, 8), "f32[4,8]", "fft RFFT with fft_length [3, 8]: dimension 0 of f32[4,8] must be 3"),
        ("IRFFT", (8,), "c64[4]", "fft IRFFT with fft_length [8]: dimension 0 of c64[4] must be 5"),
        ("IRFFT", (3, 8), "c64[4,5]", "fft IRFFT with fft_length [3, 8]: dimension 0 of c64[4,5] must be 3"),
    ],
)
def test_fft_refuses(kind: str, length: tuple[int, ...], operand: str, message: str) -> None:
    assert refusal(opcodes.FFT, None, operand, fft_type=FftType(kind), fft_length=length) == message


def test_fft_keeps_dynamic_dimensions() -> None:
    assert inferred(opcodes.FFT, "f32[<=3,8]", fft_type=FftType.RFFT, fft_length=(8,)) == "c64[<=3,5]"
