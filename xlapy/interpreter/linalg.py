"""Matrix factorizations, triangular solves and Fourier transforms.

Matrices are computed in float64 or complex128 and rounded once, Fourier transforms in the element type. All matrices of
a batch are computed together; loops are only over rows or columns, each of which depends on the ones before it.
Source: Cholesky, TriangularSolve, Fft of the specification.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import RULES, Array, Context, Value
from xlapy.interpreter.kernels.conversion import convert_array
from xlapy.opcodes.linalg import CholeskyAttributes, FftAttributes, FftType, Transpose, TriangularSolveAttributes


def _wide(array: Array) -> Array:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def _adjoint(matrices: Array) -> Array:
    return matrices.swapaxes(-1, -2).conj()


@RULES.rule(opcodes.CHOLESKY)
def cholesky(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns L with L L^H = a, read from and written to the lower triangle, or U with U^H U = a in the upper one.

    The other triangle is 0; imaginary parts of the diagonal are ignored. A matrix with a pivot that is not greater than
    0 is not positive definite and gives NaN everywhere; other matrices of the batch are not affected.
    """
    a = _wide(values[0])
    lower = instruction.attributes_as(CholeskyAttributes).lower
    factor = _cholesky_lower(a if lower else _adjoint(a))
    return convert_array(factor if lower else _adjoint(factor), instruction.shape.element_type)


def _cholesky_lower(a: Array) -> Array:
    """Computes L column by column: subtracts products of the columns to the left and divides by the pivot's root."""
    factor = np.zeros_like(a)
    definite = np.ones((*a.shape[:-2], 1, 1), np.bool_)
    for j in range(a.shape[-1]):
        left = factor[..., j:, :j]
        column = a[..., j:, j : j + 1] - left @ _adjoint(left[..., :1, :])
        pivot = np.real(column[..., :1, :])
        definite &= pivot > 0
        factor[..., j:, j : j + 1] = column / np.sqrt(pivot)
        factor[..., j : j + 1, j : j + 1] = np.sqrt(pivot)
    return np.where(definite, factor, np.nan)


@RULES.rule(opcodes.TRIANGULAR_SOLVE)
def triangular_solve(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns x with op(a) x = b, or x op(a) = b unless `left_side`; op is the identity, the transpose or the adjoint.

    Only one triangle of `a` is read, without its diagonal if `unit_diagonal` is true. A 0 on the diagonal gives
    infinite or NaN results, by ordinary division.
    """
    attributes = instruction.attributes_as(TriangularSolveAttributes)
    a, b, lower = _wide(values[0]), _wide(values[1]), attributes.lower
    if attributes.transpose_a is Transpose.ADJOINT:
        a = a.conj()
    if attributes.transpose_a is not Transpose.NO_TRANSPOSE:
        a, lower = a.swapaxes(-1, -2), not lower
    if attributes.left_side:
        x = _substitute(a, b, lower, attributes.unit_diagonal)
    else:  # x a = b is a^T x^T = b^T
        x = _substitute(a.swapaxes(-1, -2), b.swapaxes(-1, -2), not lower, attributes.unit_diagonal).swapaxes(-1, -2)
    return convert_array(x, instruction.shape.element_type)


def _substitute(a: Array, b: Array, lower: bool, unit_diagonal: bool) -> Array:
    """Solves a x = b row by row, from the row of `a` with one element to the full one."""
    size = a.shape[-1]
    x = np.zeros_like(b)
    for i in range(size) if lower else reversed(range(size)):
        solved = slice(0, i) if lower else slice(i + 1, size)
        row = b[..., i : i + 1, :] - a[..., i : i + 1, solved] @ x[..., solved, :]
        x[..., i : i + 1, :] = row if unit_diagonal else row / a[..., i : i + 1, i : i + 1]
    return x


_FORWARD: dict[FftType, Callable[..., Array]] = {FftType.FFT: np.fft.fftn, FftType.RFFT: np.fft.rfftn}
_INVERSE: dict[FftType, Callable[..., Array]] = {FftType.IFFT: np.fft.ifftn, FftType.IRFFT: np.fft.irfftn}


@RULES.rule(opcodes.FFT)
def fft(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Computes discrete Fourier transforms over the innermost dimensions, one per entry of `fft_length`.

    Inverse transforms divide by the number of elements. RFFT transforms the innermost dimension first and keeps its
    first n/2 + 1 elements; IRFFT takes these and transforms that dimension last. Lengths of 0 give zeros.
    """
    attributes = instruction.attributes_as(FftAttributes)
    operand, shape, length = values[0], instruction.shape, attributes.fft_length
    if 0 in length or operand.size == 0:
        return np.zeros(shape.dimensions, shape.dtype)
    axes, kind = range(-len(length), 0), attributes.fft_type
    if kind in _INVERSE:
        return convert_array(_INVERSE[kind](operand, length, axes), shape.element_type)
    # NumPy computes in single precision, as XLA does, only if it divides by the length
    scaled = _FORWARD[kind](operand, length, axes, norm="forward")
    parts = np.ascontiguousarray(scaled).view(scaled.real.dtype) * scaled.real.dtype.type(prod(length))
    return convert_array(parts.view(scaled.dtype), shape.element_type)
