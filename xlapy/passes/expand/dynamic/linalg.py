"""Linear algebra and Fourier transforms on dynamic dimensions, applied to the matrices within the actual sizes.

A matrix is padded with the identity, which does not affect the result within the actual sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.linalg import FftAttributes
from xlapy.passes.expand.blocks import compare
from xlapy.passes.expand.dynamic.core import (
    DYNAMIC_EXPANSIONS,
    Size,
    Sized,
    SizeWriter,
    Value,
    array_of,
    sizes_of,
    unsupported,
)


@DYNAMIC_EXPANSIONS.rule(opcodes.CHOLESKY)
def cholesky(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    return Sized(write.like(instruction, [_pad_with_identity(write, values[0])]), sizes_of(values[0]))


@DYNAMIC_EXPANSIONS.rule(opcodes.TRIANGULAR_SOLVE)
def triangular_solve(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The right-hand sides are padded with zeros."""
    sides = write.zeroed(array_of(values[1]), sizes_of(values[1]))
    return Sized(write.like(instruction, [_pad_with_identity(write, values[0]), sides]), sizes_of(values[1]))


def _pad_with_identity(write: SizeWriter, matrix: Value) -> Instruction:
    array, sizes = array_of(matrix), sizes_of(matrix)
    bounds = array.shape.dimensions
    size: Size = write.smaller(sizes[-2], sizes[-1])
    mask = write.mask_within(bounds, [*bounds[:-2], size, size])
    if mask is None:
        return array
    rows, columns = (write.positions(bounds, len(bounds) - back) for back in (2, 1))
    diagonal = compare(write, rows, columns, ComparisonDirection.EQ)
    identity = write.where(diagonal, write.splat(1, array.shape), write.splat(0, array.shape))
    return write.where(mask, array, identity)


@DYNAMIC_EXPANSIONS.rule(opcodes.FFT)
def fft(write: SizeWriter, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Transformed dimensions must be static."""
    count = len(instruction.attributes_as(FftAttributes).fft_length)
    if any(instruction.operands[0].shape.dynamic_dimensions[-count:]) and count:
        raise unsupported(instruction, "a transform takes its length from the instruction")
    result = write.like(instruction, [array_of(values[0])])
    whole = result.shape.dimensions
    return Sized(result, (*sizes_of(values[0])[: len(whole) - count], *whole[len(whole) - count :]))
