"""Definitions of cholesky, triangular-solve and fft.

Numbers are computed in f64 or c128 and rounded once; platforms may compute in the element type.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import Array
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.linalg import CholeskyAttributes, FftAttributes, FftType, Transpose, TriangularSolveAttributes
from xlapy.reference.core import defines
from xlapy.reference.elements import Index, array_of_shape, element, indices, number, type_of


@defines(opcodes.CHOLESKY)
def cholesky(instruction: Instruction, a: Array) -> Array:
    """L with L L^H = a, of the lower triangle of each matrix, or U = L^H of the upper one; the other triangle is 0.

    l[i,j] = (a[i,j] - sum over k < j of l[i,k] conj(l[j,k])) / l[j,j], with l[j,j] the root of that difference for i =
    j. If a difference on the diagonal is not above 0, the whole matrix is NaN. Imaginary parts there are ignored.
    """
    lower, n = instruction.attributes_as(CholeskyAttributes).lower, a.shape[-1]
    result = np.empty(a.shape, a.dtype)
    for batch in indices(a.shape[:-2]):
        factor: dict[Index, Any] = dict.fromkeys(itertools.product(range(n), repeat=2), np.float64(0))
        defined = True
        for j, i in itertools.product(range(n), repeat=2):
            if i >= j:
                given = number(a[(*batch, i, j)]) if lower else number(a[(*batch, j, i)]).conjugate()
                rest = given - sum(factor[i, k] * factor[j, k].conjugate() for k in range(j))
                defined = defined and (i > j or bool(rest.real > 0))
                factor[i, j] = np.sqrt(rest.real) if i == j else rest / factor[j, j]
        for i, j in factor:
            value = factor[i, j] if lower else factor[j, i].conjugate()
            result[(*batch, i, j)] = element(value if defined else np.nan, type_of(a))
    return result


@defines(opcodes.TRIANGULAR_SOLVE)
def triangular_solve(instruction: Instruction, a: Array, b: Array) -> Array:
    """x with op(a) x = b, or x op(a) = b, by substitution.

    x[i] = (b[i] - sum over solved k of op(a)[i,k] x[k]) / op(a)[i,i], from the row of one element to the full one.
    Only one triangle of a is read. The diagonal is 1 if `unit_diagonal`; dividing by 0 gives infinities or NaN.
    """
    t, n = instruction.attributes_as(TriangularSolveAttributes), a.shape[-1]
    is_transposed = t.transpose_a is not Transpose.NO_TRANSPOSE
    from_top = t.lower is not (is_transposed is t.left_side)
    result = np.empty(b.shape, b.dtype)

    def coefficient(batch: Index, i: int, k: int) -> Any:
        """Element [i, k] of op(a), or of its transpose if x is on the left: x m = b is m^T x^T = b^T."""
        place = (k, i) if is_transposed is t.left_side else (i, k)
        value = number(a[(*batch, *place)])
        return value.conjugate() if t.transpose_a is Transpose.ADJOINT else value

    for batch in indices(b.shape[:-2]):
        for column in range(b.shape[-1] if t.left_side else b.shape[-2]):
            solved: dict[int, Any] = {}
            for i in range(n) if from_top else reversed(range(n)):
                place = (*batch, i, column) if t.left_side else (*batch, column, i)
                rest = number(b[place]) - sum(coefficient(batch, i, k) * x for k, x in sorted(solved.items()))
                solved[i] = rest if t.unit_diagonal else rest / coefficient(batch, i, i)
                result[place] = element(solved[i], type_of(b))
    return result


@defines(opcodes.FFT)
def fft(instruction: Instruction, operand: Array) -> Array:
    """result[k] = sum over j of operand[j] e^(-2 pi i (j0 k0 / n0 + j1 k1 / n1 ...)), over 1 to 3 innermost dimensions.

    The inverse has the opposite sign and divides by n0 n1 ... . RFFT takes real numbers and returns the first n / 2 + 1
    results of the last dimension; IRFFT takes these and returns real numbers.
    """
    attributes = instruction.attributes_as(FftAttributes)
    kind, lengths = attributes.fft_type, attributes.fft_length
    is_inverse = kind in (FftType.IFFT, FftType.IRFFT)
    values = spectrum(operand, lengths) if kind is FftType.IRFFT else lambda index: number(operand[index])
    if 0 in lengths or operand.size == 0:
        return array_of_shape(instruction.shape, lambda _: element(0, instruction.shape.element_type))
    # The sums over the dimensions are one after the other, as the exponential is a product.
    outer = operand.shape[: operand.ndim - len(lengths)]
    result = np.empty((*outer, *lengths), np.complex128)
    for index in indices(result.shape):
        result[index] = values(index)
    for axis, n in enumerate(lengths, len(outer)):
        turn = (2j if is_inverse else -2j) * np.pi / n
        roots = [np.exp(turn * k) for k in range(n)]
        before = result.copy()
        for index in indices(result.shape):
            k = index[axis]
            terms = (before[(*index[:axis], j, *index[axis + 1 :])] * roots[j * k % n] for j in range(n))
            result[index] = sum(terms, np.complex128(0)) / (n if is_inverse else 1)
    target = instruction.shape.element_type
    return array_of_shape(
        instruction.shape, lambda index: element(result[index] if target.is_complex else result[index].real, target)
    )


def spectrum(operand: Array, lengths: tuple[int, ...]) -> Callable[[Index], Any]:
    """Returns the function of an index of the whole spectrum of real numbers, of which the operand is half.

    The element at the opposite index of all transformed dimensions is the conjugate.
    """
    first = operand.ndim - len(lengths)

    def value_at(index: Index) -> Any:
        if index[-1] < operand.shape[-1]:
            return number(operand[index])
        opposite = (*index[:first], *(-i % n for i, n in zip(index[first:], lengths, strict=True)))
        return number(operand[opposite]).conjugate()

    return value_at
