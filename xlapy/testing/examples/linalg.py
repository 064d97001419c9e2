"""Worked examples and refusals of factorizations, triangular solves and Fourier transforms."""

from __future__ import annotations

from xlapy.testing.examples.example import Example, Refusal

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


def _solve(constraint: int, message: str, operands: str, attributes: str = _SOLVE) -> Refusal:
    return Refusal("triangular-solve", constraint, f"f32[2,1] triangular-solve({operands}), {attributes}", message)


REFUSALS = [
    Refusal("cholesky", 1, "s32[2,2] cholesky(s32[2,2]), lower=true", "takes floating-point or complex elements"),
    Refusal("cholesky", 1, "f32[2,2] cholesky(token[]), lower=true", "cholesky takes arrays"),
    Refusal("cholesky", 2, "f32[2] cholesky(f32[2]), lower=true", "a must have at least rank 2, given f32[2]"),
    Refusal("cholesky", 2, "f32[2,3] cholesky(f32[2,3]), lower=true", "the two minor dimensions of a must be equal"),
    _solve(1, "takes arrays, operand 1 is token[]", "f32[2,2], token[]"),
    _solve(1, "must have the same element type, given f64[2,2] and f32[2,1]", "f64[2,2], f32[2,1]"),
    _solve(1, "takes floating-point or complex elements", "s32[2,2], s32[2,1]"),
    _solve(2, "the two minor dimensions of a must be equal, a is f32[2,3]", "f32[2,3], f32[2,1]"),
    _solve(3, "a and b must have equal ranks", "f32[1,2,2], f32[2,1]"),
    _solve(3, "batch dimensions must be equal", "f32[3,2,2], f32[4,2,1]"),
    _solve(4, "dimension 0 of b f32[3,1] must have the size of a f32[2,2]", "f32[2,2], f32[3,1]"),
    _solve(5, "transpose_a must be NO_TRANSPOSE", "f32[2,2], f32[2,1]", "left_side=true, lower=true"),
    Refusal("fft", 1, "c64[4] fft(token[]), fft_type=FFT, fft_length={4}", "fft takes arrays"),
    Refusal("fft", 2, "c64[4] fft(c64[4]), fft_type=FFT, fft_length={}", "fft_length must have 1 to 3 entries"),
    Refusal("fft", 2, "c64[4] fft(c64[4]), fft_type=FFT, fft_length={-4}", "fft_length must not be negative"),
    Refusal("fft", 3, "c64[3] fft(f16[4]), fft_type=RFFT, fft_length={4}", "fft RFFT takes f32 or f64 elements"),
    Refusal("fft", 3, "f32[4] fft(f32[4]), fft_type=FFT, fft_length={4}", "fft FFT takes complex elements"),
    Refusal(
        "fft", 4, "c64[4] fft(c64[4]), fft_type=FFT, fft_length={2,4}", "fft of rank 2 needs an operand of at least"
    ),
    Refusal("fft", 5, "f32[4] fft(c64[4]), fft_type=IRFFT, fft_length={4}", "dimension 0 of c64[4] must be 3"),
]
