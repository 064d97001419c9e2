"""Export rules: linear algebra and Fourier transforms.

Owns: cholesky, triangular-solve, fft. Must not know: how they are computed.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.linalg import Transpose
from xlapy.stablehlo.export.core.attributes import integers
from xlapy.stablehlo.export.core.rules import RULES, Structure
from xlapy.stablehlo.export.core.scope import Scope


@RULES.rule(opcodes.CHOLESKY)
def cholesky(scope: Scope, instruction: Instruction) -> Structure:
    return scope.all("stablehlo.cholesky", instruction, {"lower": instruction.lower})


@RULES.rule(opcodes.TRIANGULAR_SOLVE)
def triangular_solve(scope: Scope, instruction: Instruction) -> Structure:
    transpose = instruction.transpose_a
    attributes = {
        "left_side": instruction.left_side,
        "lower": instruction.lower,
        "unit_diagonal": instruction.unit_diagonal,
        "transpose_a": "NO_TRANSPOSE" if transpose is Transpose.UNSET else transpose.name,
    }
    return scope.all("stablehlo.triangular_solve", instruction, attributes)


@RULES.rule(opcodes.FFT)
def fft(scope: Scope, instruction: Instruction) -> Structure:
    attributes = {"fft_type": instruction.fft_type.name, "fft_length": integers(instruction.fft_length)}
    return scope.all("stablehlo.fft", instruction, attributes)
