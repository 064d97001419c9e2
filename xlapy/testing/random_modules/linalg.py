"""Makers of factorizations, solutions and Fourier transforms: well-conditioned matrices, any batch, every option.

The matrices are constants: those that other instructions happen to make are mostly singular, and say nothing.
"""

from __future__ import annotations

from math import prod

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PrimitiveType
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.linalg import CholeskyAttributes, FftAttributes, FftType, Transpose, TriangularSolveAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.testing.random_modules.draft import MOST_ELEMENTS, Draft, Maker, Unsuitable
from xlapy.testing.random_values import random_array


def _takes(t: PrimitiveType) -> bool:
    return (t.is_floating or t.is_complex) and t.bits >= 16


def _batch(draft: Draft) -> tuple[int, ...]:
    return tuple(draft.size() for _ in range(draft.choice((0, 0, 0, 1, 2))))


def _dominant(draft: Draft, t: PrimitiveType, batch: tuple[int, ...], size: int) -> Instruction:
    """Matrices whose real diagonals outweigh their rows; half of them are Hermitian, of which one triangle is read."""
    part = np.complex128 if t.is_complex else np.float64
    a = random_array((*batch, size, size), part, draft.rng, special=False)
    a = np.clip(a.real, -2, 2) + (1j * np.clip(a.imag, -2, 2) if t.is_complex else 0)
    if draft.chance(0.5):
        a = (a + a.conj().swapaxes(-1, -2)) / 2
    identity = np.eye(size)
    return draft.constant((a * (1 - identity) + (a.real + 4 * max(1, size)) * identity).astype(t.dtype))


def _sizes(draft: Draft) -> tuple[tuple[int, ...], int]:
    batch, size = _batch(draft), draft.size()
    if prod(batch) * size * size > MOST_ELEMENTS or draft.exact:
        raise Unsuitable
    return batch, size


def cholesky(draft: Draft) -> None:
    """Now and then of a matrix that is not positive definite, which gives NaN."""
    batch, size = _sizes(draft)
    t = draft.type(_takes)
    if draft.chance(0.1):
        a = draft.constant(-(4 + random_array((*batch, size, size), np.float64, draft.rng, False) ** 2).astype(t.dtype))
    else:
        a = _dominant(draft, t, batch, size)
    draft.add(opcodes.CHOLESKY, (a,), CholeskyAttributes.make(lower=draft.chance(0.5)))


def triangular_solve(draft: Draft) -> None:
    batch, size = _sizes(draft)
    t = draft.type(_takes)
    left, others = draft.chance(0.5), draft.size()
    if prod(batch) * size * others > MOST_ELEMENTS:
        raise Unsuitable
    b = random_array((*batch, size, others) if left else (*batch, others, size), t.dtype, draft.rng, special=False)
    unit = draft.chance(0.3)
    a = _dominant(draft, t, batch, size)
    if unit:
        a = _unit(draft, a, size)
    attributes = TriangularSolveAttributes.make(
        left_side=left,
        lower=draft.chance(0.5),
        unit_diagonal=unit,
        transpose_a=draft.choice((Transpose.NO_TRANSPOSE, Transpose.TRANSPOSE, Transpose.ADJOINT)),
    )
    draft.add(opcodes.TRIANGULAR_SOLVE, (a, draft.constant(b)), attributes)


def _unit(draft: Draft, a: Instruction, size: int) -> Instruction:
    """The matrix over the weight of its diagonal, so that 1 in its place outweighs the rows too."""
    array = a.literal.array
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return draft.constant((wide / (4 * max(1, size))).astype(array.dtype))


def fft(draft: Draft) -> None:
    """Over one to three dimensions; lengths of every parity, primes and 0 among them."""
    if draft.exact:
        raise Unsuitable
    kind = draft.choice(list(FftType))
    real = kind in (FftType.RFFT, FftType.IRFFT)
    length = [draft.integer(0 if draft.chance(0.1) else 1, 9) for _ in range(draft.choice((1, 1, 2, 3)))]
    sizes = [*_batch(draft), *length]
    if kind is FftType.IRFFT:
        sizes[-1] = length[-1] // 2 + 1 if length[-1] else 0
    if prod(sizes) > MOST_ELEMENTS or prod(length) > MOST_ELEMENTS or (real and not length[-1]):
        raise Unsuitable
    t = draft.type(lambda t: t.name in ("F32", "F64") if kind is FftType.RFFT else t.is_complex)
    operand = random_array(sizes, t.dtype, draft.rng, special=False)
    draft.add(opcodes.FFT, (draft.constant(operand),), FftAttributes.make(fft_type=kind, fft_length=tuple(length)))


MAKERS: tuple[tuple[OpDef, Maker], ...] = (
    (opcodes.CHOLESKY, cholesky),
    (opcodes.TRIANGULAR_SOLVE, triangular_solve),
    (opcodes.FFT, fft),
)
