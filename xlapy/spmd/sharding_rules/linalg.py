"""Sharding rules of linear algebra and Fourier transforms: batch dimensions and right-hand sides are split."""

from __future__ import annotations

from collections.abc import Iterator

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.linalg import FftAttributes, TriangularSolveAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.spmd.sharding_rules.factors import Factor, Rule, same_dimensions


def _batched_matrices(instruction: Instruction) -> Iterator[Factor]:
    return same_dimensions(instruction, range(instruction.shape.rank - 2))


def _fft(instruction: Instruction) -> Iterator[Factor]:
    return same_dimensions(
        instruction, range(instruction.shape.rank - len(instruction.attributes_as(FftAttributes).fft_length))
    )


def _triangular_solve(instruction: Instruction) -> Iterator[Factor]:
    """Yields batch dimensions, and the right-hand sides, each of which is solved by itself."""
    yield from _batched_matrices(instruction)
    rank = instruction.shape.rank
    is_left = instruction.attributes_as(TriangularSolveAttributes).left_side
    sides = rank - 1 if is_left else rank - 2
    yield Factor((None, sides), (sides,), is_uneven=True)


LINALG_RULES: dict[OpDef, Rule] = {
    opcodes.CHOLESKY: _batched_matrices,
    opcodes.TRIANGULAR_SOLVE: _triangular_solve,
    opcodes.FFT: _fft,
}
