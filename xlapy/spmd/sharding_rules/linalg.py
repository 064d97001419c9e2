"""Sharding rules of linear algebra and Fourier transforms: only batch dimensions are split."""

from __future__ import annotations

from collections.abc import Iterator

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.linalg import FftAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.spmd.sharding_rules.factors import Factor, Rule, same_dimensions


def _batched_matrices(instruction: Instruction) -> Iterator[Factor]:
    return same_dimensions(instruction, range(instruction.shape.rank - 2))


def _fft(instruction: Instruction) -> Iterator[Factor]:
    return same_dimensions(
        instruction, range(instruction.shape.rank - len(instruction.attributes_as(FftAttributes).fft_length))
    )


LINALG_RULES: dict[OpDef, Rule] = {
    opcodes.CHOLESKY: _batched_matrices,
    opcodes.TRIANGULAR_SOLVE: _batched_matrices,
    opcodes.FFT: _fft,
}
