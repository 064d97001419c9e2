"""Import rules of cholesky, triangular_solve and fft."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.error_codes.formats import stablehlo_import as codes
from xlapy.base.errors import ShapeError
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.linalg import CholeskyAttributes, FftAttributes, FftType, Transpose, TriangularSolveAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import flag, integers, text
from xlapy.stablehlo.importing.core.computation_builder import ComputationBuilder
from xlapy.stablehlo.importing.core.rules import rule


@rule("stablehlo.cholesky")
def cholesky(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    attributes = CholeskyAttributes.make(lower=flag(operation, "lower"))
    return builder.emit(opcodes.CHOLESKY, builder.operands(operation), attributes)


@rule("stablehlo.triangular_solve")
def triangular_solve(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    transpose = text(operation, "transpose_a")
    if transpose not in Transpose.__members__:
        raise ShapeError(codes.ATTRIBUTE_CASE, f"there is no transpose_a {transpose!r}")
    attributes = TriangularSolveAttributes.make(
        left_side=flag(operation, "left_side"),
        lower=flag(operation, "lower"),
        unit_diagonal=flag(operation, "unit_diagonal"),
        transpose_a=Transpose[transpose],
    )
    return builder.emit(opcodes.TRIANGULAR_SOLVE, builder.operands(operation), attributes)


@rule("stablehlo.fft")
def fft(builder: ComputationBuilder, operation: ir.Operation) -> Instruction:
    fft_type = text(operation, "fft_type")
    if fft_type not in FftType.__members__:
        raise ShapeError(codes.ATTRIBUTE_CASE, f"there is no fft_type {fft_type!r}")
    attributes = FftAttributes.make(fft_type=FftType[fft_type], fft_length=integers(operation, "fft_length"))
    return builder.emit(opcodes.FFT, builder.operands(operation), attributes)
