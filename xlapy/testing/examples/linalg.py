"""Worked examples and refusals of factorizations, triangular solves and Fourier transforms."""

from __future__ import annotations

from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import special as codes
from xlapy.testing.examples.example import Example, Refusal, Violation

EXAMPLES = [
    Example(
        "cholesky",
        """
        a = f32[2,2] {{4, 2}, {2, 5}}
        l = f32[2,2] cholesky(a), lower=true
        => f32[2,2] {{2, 0}, {1, 2}}
        """,
    ),
    Example(
        "triangular-solve",
        """
        a = f32[2,2] {{2, 0}, {1, 4}}
        b = f32[2,1] {{4}, {10}}
        x = f32[2,1] triangular-solve(a, b), left_side=true, lower=true, transpose_a=NO_TRANSPOSE
        => f32[2,1] {{2}, {2}}
        """,
    ),
    Example(
        "fft",
        """
        x = f32[4] {1, 2, 3, 4}
        y = c64[3] fft(x), fft_type=RFFT, fft_length={4}
        => c64[3] {(10, 0), (-2, 2), (-2, 0)}
        """,
    ),
]

_SOLVE = "left_side=true, lower=true, transpose_a=NO_TRANSPOSE"


def _solve(constraint: int, violation: Violation, operands: str, attributes: str = _SOLVE) -> Refusal:
    return Refusal("triangular-solve", constraint, f"f32[2,1] triangular-solve({operands}), {attributes}", violation)


REFUSALS = [
    Refusal("cholesky", 1, "s32[2,2] cholesky(s32[2,2]), lower=true", (shared.ELEMENT_TYPE, "s32[2,2]")),
    Refusal("cholesky", 1, "f32[2,2] cholesky(token[]), lower=true", (shared.ARRAY_OPERAND, "operand 0", "token[]")),
    Refusal("cholesky", 2, "f32[2] cholesky(f32[2]), lower=true", (shared.MINIMUM_RANK, "rank 2", "f32[2]")),
    Refusal("cholesky", 2, "f32[2,3] cholesky(f32[2,3]), lower=true", (codes.SQUARE_MATRICES, "f32[2,3]")),
    _solve(1, (shared.ARRAY_OPERAND, "operand 1", "token[]"), "f32[2,2], token[]"),
    _solve(1, (shared.SAME_ELEMENT_TYPE, "f64[2,2]", "f32[2,1]"), "f64[2,2], f32[2,1]"),
    _solve(1, (shared.ELEMENT_TYPE, "s32[2,2]"), "s32[2,2], s32[2,1]"),
    _solve(2, (codes.SQUARE_MATRICES, "f32[2,3]"), "f32[2,3], f32[2,1]"),
    _solve(3, (codes.SOLVE_DIMENSIONS, "f32[1,2,2]", "f32[2,1]"), "f32[1,2,2], f32[2,1]"),
    _solve(3, (codes.SOLVE_DIMENSIONS, "f32[3,2,2]", "f32[4,2,1]"), "f32[3,2,2], f32[4,2,1]"),
    _solve(4, (codes.SOLVE_SIZE, "dimension 0", "f32[3,1]", "f32[2,2]"), "f32[2,2], f32[3,1]"),
    _solve(
        5, (codes.TRANSPOSE_GIVEN, "transpose_a", "NO_TRANSPOSE"), "f32[2,2], f32[2,1]", "left_side=true, lower=true"
    ),
    Refusal(
        "fft", 1, "c64[4] fft(token[]), fft_type=FFT, fft_length={4}", (shared.ARRAY_OPERAND, "operand 0", "token[]")
    ),
    Refusal("fft", 2, "c64[4] fft(c64[4]), fft_type=FFT, fft_length={}", (codes.TRANSFORM_LENGTH, "fft_length")),
    Refusal("fft", 2, "c64[4] fft(c64[4]), fft_type=FFT, fft_length={-4}", (codes.TRANSFORM_LENGTH, "fft_length")),
    Refusal("fft", 3, "c64[3] fft(f16[4]), fft_type=RFFT, fft_length={4}", (shared.ELEMENT_TYPE, "RFFT", "f32", "f64")),
    Refusal("fft", 3, "f32[4] fft(f32[4]), fft_type=FFT, fft_length={4}", (shared.ELEMENT_TYPE, "FFT")),
    Refusal("fft", 4, "c64[4] fft(c64[4]), fft_type=FFT, fft_length={2,4}", (shared.MINIMUM_RANK, "rank 2")),
    Refusal(
        "fft", 5, "f32[4] fft(c64[4]), fft_type=IRFFT, fft_length={4}", (codes.TRANSFORM_SIZES, "dimension 0", "c64[4]")
    ),
]
