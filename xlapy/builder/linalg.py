"""Builder functions of matrix factorization, triangular systems and Fourier transforms.

Responsible for the builder functions of `opcodes/linalg.py`. Does not depend on how they are evaluated.
Source: Cholesky, TriangularSolve, Fft of the specification.

Matrices are the last two dimensions of arrays of floating-point or complex elements; all other dimensions are batch
dimensions. Every function raises `BuilderError` at the caller's line if the arguments do not fit.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.builder.core.broadcasting import as_ints
from xlapy.builder.core.builder import append, builder_of
from xlapy.builder.core.op import XlaOp
from xlapy.opcodes.linalg import (
    CHOLESKY,
    FFT,
    TRIANGULAR_SOLVE,
    CholeskyAttributes,
    FftAttributes,
    FftType,
    Transpose,
    TriangularSolveAttributes,
)


def cholesky(a: XlaOp, lower: bool) -> XlaOp:
    """The Cholesky factor of Hermitian positive definite matrices: lower l with a = l l^H, or upper u with a = u^H u.

    Only the selected triangle of `a`, of shape [..., n, n], is read. The other triangle of the result is unspecified,
    as is the result for matrices that are not positive definite.
    """
    return append(CHOLESKY, (a,), CholeskyAttributes.make(lower=lower))


def triangular_solve(
    a: XlaOp, b: XlaOp, left_side: bool, lower: bool, unit_diagonal: bool, transpose_a: Transpose
) -> XlaOp:
    """Solves op(a) x = b (`left_side`) or x op(a) = b for x, which has the shape of `b`.

    `a` is [..., m, m]; `b` is [..., m, k] on the left side and otherwise [..., k, m], with the same type and batch
    dimensions. Only the `lower` (or upper) triangle of `a` is read. With `unit_diagonal`, the diagonal is not read and
    taken as ones. `transpose_a`: op(a) is a, its transpose, or its conjugate transpose.
    """
    attributes = TriangularSolveAttributes.make(
        left_side=left_side, lower=lower, unit_diagonal=unit_diagonal, transpose_a=transpose_a
    )
    return append(TRIANGULAR_SOLVE, (a, b), attributes)


def fft(operand: XlaOp, fft_type: FftType, fft_length: Sequence[int]) -> XlaOp:
    """The Fourier transform over the last 1 to 3 dimensions, whose sizes are `fft_length`.

    FFT and IFFT: complex to complex. RFFT: real [..., n] to complex [..., n/2+1]. IRFFT is the inverse of RFFT; the
    last size of its operand is fft_length[-1]/2+1. The inverse transforms divide by the number of elements.
    """
    with builder_of("fft", (operand,)).building("fft"):
        attributes = FftAttributes.make(fft_type=fft_type, fft_length=as_ints("fft_length", fft_length))
        return append(FFT, (operand,), attributes)
