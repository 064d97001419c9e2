"""Op generators for factorizations, triangular solves and Fourier transforms, with every option.

Matrices are well-conditioned constants, because those that other instructions compute are mostly singular.
"""

from __future__ import annotations

from math import prod

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PrimitiveType
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.linalg import CholeskyAttributes, FftAttributes, FftType, Transpose, TriangularSolveAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.testing.random_modules.generator import MAX_ELEMENTS, ModuleGenerator, OpGenerator, SkipDraw
from xlapy.testing.random_values import random_array


def _takes(t: PrimitiveType) -> bool:
    return (t.is_floating or t.is_complex) and t.bits >= 16


def _batch(generator: ModuleGenerator) -> tuple[int, ...]:
    return tuple(generator.size() for _ in range(generator.choice((0, 0, 0, 1, 2))))


def _dominant(generator: ModuleGenerator, t: PrimitiveType, batch: tuple[int, ...], size: int) -> Instruction:
    """Returns matrices whose diagonals are real and dominate their rows. Half of them are Hermitian; one triangle of
    these is read.
    """
    part = np.complex128 if t.is_complex else np.float64
    a = random_array((*batch, size, size), part, generator.rng, special=False)
    a = np.clip(a.real, -2, 2) + (1j * np.clip(a.imag, -2, 2) if t.is_complex else 0)
    if generator.chance(0.5):
        a = (a + a.conj().swapaxes(-1, -2)) / 2
    identity = np.eye(size)
    return generator.constant((a * (1 - identity) + (a.real + 4 * max(1, size)) * identity).astype(t.dtype))


def _sizes(generator: ModuleGenerator) -> tuple[tuple[int, ...], int]:
    batch, size = _batch(generator), generator.size()
    if prod(batch) * size * size > MAX_ELEMENTS or generator.exact:
        raise SkipDraw
    return batch, size


def cholesky(generator: ModuleGenerator) -> None:
    """Adds a Cholesky factorization, sometimes of a matrix that is not positive definite, which gives NaN."""
    batch, size = _sizes(generator)
    t = generator.type(_takes)
    if generator.chance(0.1):
        a = generator.constant(
            -(4 + random_array((*batch, size, size), np.float64, generator.rng, False) ** 2).astype(t.dtype)
        )
    else:
        a = _dominant(generator, t, batch, size)
    generator.add(opcodes.CHOLESKY, (a,), CholeskyAttributes.make(lower=generator.chance(0.5)))


def triangular_solve(generator: ModuleGenerator) -> None:
    batch, size = _sizes(generator)
    t = generator.type(_takes)
    left, others = generator.chance(0.5), generator.size()
    if prod(batch) * size * others > MAX_ELEMENTS:
        raise SkipDraw
    b = random_array((*batch, size, others) if left else (*batch, others, size), t.dtype, generator.rng, special=False)
    unit = generator.chance(0.3)
    a = _dominant(generator, t, batch, size)
    if unit:
        a = _unit(generator, a, size)
    attributes = TriangularSolveAttributes.make(
        left_side=left,
        lower=generator.chance(0.5),
        unit_diagonal=unit,
        transpose_a=generator.choice((Transpose.NO_TRANSPOSE, Transpose.TRANSPOSE, Transpose.ADJOINT)),
    )
    generator.add(opcodes.TRIANGULAR_SOLVE, (a, generator.constant(b)), attributes)


def _unit(generator: ModuleGenerator, a: Instruction, size: int) -> Instruction:
    """Divides a matrix by the magnitude of its diagonal, so that a unit diagonal dominates the rows too."""
    array = a.literal.array
    wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
    return generator.constant((wide / (4 * max(1, size))).astype(array.dtype))


def fft(generator: ModuleGenerator) -> None:
    """Adds an FFT over one to three dimensions, with even, odd and prime lengths, and 0."""
    if generator.exact:
        raise SkipDraw
    kind = generator.choice(list(FftType))
    real = kind in (FftType.RFFT, FftType.IRFFT)
    length = [generator.integer(0 if generator.chance(0.1) else 1, 9) for _ in range(generator.choice((1, 1, 2, 3)))]
    sizes = [*_batch(generator), *length]
    if prod(sizes) > MAX_ELEMENTS or prod(length) > MAX_ELEMENTS or (real and not length[-1]):
        raise SkipDraw
    if kind is FftType.IRFFT:
        sizes[-1] = length[-1] // 2 + 1
    t = generator.type(lambda t: t.name in ("F32", "F64") if kind is FftType.RFFT else t.is_complex)
    operand = random_array(sizes, t.dtype, generator.rng, special=False)
    generator.add(
        opcodes.FFT, (generator.constant(operand),), FftAttributes.make(fft_type=kind, fft_length=tuple(length))
    )


OP_GENERATORS: tuple[tuple[OpDef, OpGenerator], ...] = (
    (opcodes.CHOLESKY, cholesky),
    (opcodes.TRIANGULAR_SOLVE, triangular_solve),
    (opcodes.FFT, fft),
)
