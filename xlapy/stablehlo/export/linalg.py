"""Export rules of cholesky, triangular-solve and fft."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.linalg import CholeskyAttributes, FftAttributes, Transpose, TriangularSolveAttributes
from xlapy.stablehlo.export.core.attributes import integers
from xlapy.stablehlo.export.core.block_builder import BlockBuilder
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.stablehlo.export.core.value_tree import ValueTree


@RULES.rule(opcodes.CHOLESKY)
def cholesky(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.emit_for(
        "stablehlo.cholesky", instruction, {"lower": instruction.attributes_as(CholeskyAttributes).lower}
    )


@RULES.rule(opcodes.TRIANGULAR_SOLVE)
def triangular_solve(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    given = instruction.attributes_as(TriangularSolveAttributes)
    transpose = given.transpose_a
    attributes = {
        "left_side": given.left_side,
        "lower": given.lower,
        "unit_diagonal": given.unit_diagonal,
        "transpose_a": "NO_TRANSPOSE" if transpose is Transpose.UNSET else transpose.name,
    }
    return builder.emit_for("stablehlo.triangular_solve", instruction, attributes)


@RULES.rule(opcodes.FFT)
def fft(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    given = instruction.attributes_as(FftAttributes)
    attributes = {"fft_type": given.fft_type.name, "fft_length": integers(given.fft_length)}
    return builder.emit_for("stablehlo.fft", instruction, attributes)
