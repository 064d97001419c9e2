"""Expansions of matrix factorization and solution, and of Fourier transforms.

Matrices are computed in f64 or c128, row by row or column by column, in a loop over all batches at once.
Source: Cholesky, TriangularSolve, Fft of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import C128, F64, PRED, S32
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import Precision
from xlapy.opcodes.contraction import DotAttributes
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.linalg import CholeskyAttributes, FftAttributes, FftType, Transpose, TriangularSolveAttributes
from xlapy.opcodes.movement import DimensionsAttributes
from xlapy.passes.expand.blocks import (
    compare,
    concatenate,
    conjugated,
    counted_loop,
    iota,
    slice_at_index,
    slice_dimension,
    update_at_index,
)
from xlapy.passes.expand.core import EXPANSIONS
from xlapy.passes.expand.fourier import transformed
from xlapy.passes.rewrite import Writer


def _require_static(instruction: Instruction) -> None:
    for shape in (instruction.shape, *(operand.shape for operand in instruction.operands)):
        if shape.is_dynamic:
            raise UnsupportedError(
                codes.EXPANSION, f"{instruction.op.name} of dynamic dimensions, given {shape.to_text(layout=False)}"
            )


# -- matrices


def _exact(write: Writer, matrices: Instruction) -> Instruction:
    return write.convert(matrices, C128 if matrices.shape.element_type.is_complex else F64)


def _transposed(write: Writer, matrices: Instruction) -> Instruction:
    rank = matrices.shape.rank
    return write.transpose(matrices, (*range(rank - 2), rank - 1, rank - 2))


def _adjoint(write: Writer, matrices: Instruction) -> Instruction:
    return conjugated(write, _transposed(write, matrices))


def _product(write: Writer, left: Instruction, right: Instruction) -> Instruction:
    """Writes batched products of matrices."""
    rank = left.shape.rank
    batch = tuple(range(rank - 2))
    attributes = DotAttributes.make(
        lhs_batch_dims=batch,
        lhs_contracting_dims=(rank - 1,),
        rhs_batch_dims=batch,
        rhs_contracting_dims=(rank - 2,),
        operand_precision=(Precision.HIGHEST, Precision.HIGHEST),
    )
    return write.add(opcodes.DOT, left, right, attributes=attributes)


def _indices(write: Writer, matrices: Instruction, dimension: int) -> Instruction:
    """Writes the row index (dimension -2) or column index (-1) of each element."""
    shape = matrices.shape
    return iota(write, shape.with_element_type(S32), shape.rank + dimension)


def _broadcast_to(write: Writer, columns: Instruction, like: Instruction) -> Instruction:
    """Broadcasts an array along its dimensions of size 1 to the shape of another array."""
    dimensions = [d for d, size in enumerate(columns.shape.dimensions) if size == like.shape.dimensions[d]]
    kept = columns.shape.with_dimensions([columns.shape.dimensions[d] for d in dimensions])
    target = like.shape.with_element_type(columns.shape.element_type)
    return write.broadcast(write.reshape(columns, kept), target, dimensions)


@EXPANSIONS.rule(opcodes.CHOLESKY)
def cholesky(write: Writer, instruction: Instruction) -> Instruction:
    """Column by column: subtracts the product with the columns so far, and divides by the root of the diagonal."""
    _require_static(instruction)
    (operand,), lower = instruction.operands, instruction.attributes_as(CholeskyAttributes).lower
    if not operand.shape.size:
        return operand
    a = _exact(write, operand)
    if not lower:
        a = _adjoint(write, a)
    size = a.shape.dimensions[-1]
    definite = write.splat(True, Shape.array(PRED, (*a.shape.dimensions[:-2], 1, 1)))
    state = [write.splat(0, a.shape), a, definite]
    factor, _, definite = counted_loop(write, size, state, _next_column, "cholesky")
    nan = write.splat(float("nan"), a.shape)
    factor = write.add(opcodes.SELECT, _broadcast_to(write, definite, factor), factor, nan)
    return write.convert(factor if lower else _adjoint(write, factor), instruction.shape.element_type)


def _next_column(write: Writer, number: Instruction, state: list[Instruction]) -> Sequence[Instruction]:
    """Writes one iteration, of one column. The state is (factor, matrices, whether they are positive definite)."""
    factor, a, definite = state
    row, column = factor.shape.rank - 2, factor.shape.rank - 1
    known = _adjoint(write, slice_at_index(write, factor, number, row))
    rest = write.add(opcodes.SUBTRACT, slice_at_index(write, a, number, column), _product(write, factor, known))
    pivot = slice_at_index(write, rest, number, row)
    if pivot.shape.element_type.is_complex:
        pivot = write.add(opcodes.REAL, pivot)
    is_definite = compare(write, pivot, write.splat(0, pivot.shape), ComparisonDirection.GT)
    root = write.convert(write.add(opcodes.SQRT, pivot), rest.shape.element_type)
    scaled = write.add(opcodes.DIVIDE, rest, _broadcast_to(write, root, rest))
    rows = _indices(write, rest, -2)
    place = write.broadcast(write.convert(number, S32), rows.shape)
    below = write.add(
        opcodes.SELECT, compare(write, rows, place, ComparisonDirection.GT), scaled, write.splat(0, rest.shape)
    )
    on = compare(write, rows, place, ComparisonDirection.EQ)
    written = write.add(opcodes.SELECT, on, _broadcast_to(write, root, rest), below)
    return update_at_index(write, factor, written, number, column), a, write.add(opcodes.AND, definite, is_definite)


@EXPANSIONS.rule(opcodes.TRIANGULAR_SOLVE)
def triangular_solve(write: Writer, instruction: Instruction) -> Instruction:
    """Substitution, row by row, from the row of the triangle with one element to the full one."""
    _require_static(instruction)
    (a, b), attributes = instruction.operands, instruction.attributes_as(TriangularSolveAttributes)
    if not b.shape.size:
        return b
    a, b, lower = _exact(write, a), _exact(write, b), attributes.lower
    if attributes.transpose_a is Transpose.ADJOINT:
        a = conjugated(write, a)
    if (attributes.transpose_a is not Transpose.NO_TRANSPOSE) == attributes.left_side:
        a = _transposed(write, a)  # x a = b is a^T x^T = b^T, so that two transpositions are none
    lower ^= (attributes.transpose_a is not Transpose.NO_TRANSPOSE) == attributes.left_side
    b = b if attributes.left_side else _transposed(write, b)
    x = _substituted(write, a, b, lower, attributes.unit_diagonal)
    return write.convert(x if attributes.left_side else _transposed(write, x), instruction.shape.element_type)


def _substituted(write: Writer, a: Instruction, b: Instruction, lower: bool, unit_diagonal: bool) -> Instruction:
    """Returns x with a x = b. Elements of `a` outside of the triangle, and rows of x not yet solved, count as 0."""
    rows, columns = _indices(write, a, -2), _indices(write, a, -1)
    side = ComparisonDirection.GT if lower else ComparisonDirection.LT
    zeros = write.splat(0, a.shape)
    triangle = write.add(opcodes.SELECT, compare(write, rows, columns, side), a, zeros)
    size = a.shape.dimensions[-1]
    row = a.shape.rank - 2

    def step(into: Writer, number: Instruction, state: list[Instruction]) -> Sequence[Instruction]:
        x, triangle, a, b = state
        place = (
            number if lower else into.add(opcodes.SUBTRACT, into.scalar(size - 1, number.shape.element_type), number)
        )
        product_so_far = _product(into, slice_at_index(into, triangle, place, row), x)
        rest = into.add(opcodes.SUBTRACT, slice_at_index(into, b, place, row), product_so_far)
        if not unit_diagonal:
            pivot = slice_at_index(into, slice_at_index(into, a, place, row), place, row + 1)
            rest = into.add(opcodes.DIVIDE, rest, _broadcast_to(into, pivot, rest))
        return update_at_index(into, x, rest, place, row), triangle, a, b

    return counted_loop(write, size, [write.splat(0, b.shape), triangle, a, b], step, "triangular_solve")[0]


# -- Fourier transforms


@EXPANSIONS.rule(opcodes.FFT)
def fft(write: Writer, instruction: Instruction) -> Instruction:
    """Transforms dimension by dimension. Real input becomes complex; a half spectrum is completed for real output."""
    _require_static(instruction)
    (operand,), shape, attributes = instruction.operands, instruction.shape, instruction.attributes_as(FftAttributes)
    if 0 in attributes.fft_length or not operand.shape.size:
        return write.splat(0, shape)
    kind, count, last = attributes.fft_type, len(attributes.fft_length), shape.rank - 1
    outer = range(shape.rank - count, last)
    if kind is FftType.RFFT:
        whole = _along(write, write.convert(operand, shape.element_type), [last], False)
        half = slice_dimension(write, whole, last, 0, shape.dimensions[last])
        return _along(write, half, outer, False)
    if kind is FftType.IRFFT:
        half = _along(write, operand, outer, True)
        whole = _along(write, mirrored(write, half, attributes.fft_length[-1]), [last], True)
        return write.add(opcodes.REAL, whole)
    return _along(write, operand, [*outer, last], kind is FftType.IFFT)


def _along(write: Writer, operand: Instruction, dimensions: Sequence[int], inverse: bool) -> Instruction:
    """Writes the transforms of some dimensions, one after the other."""
    last = operand.shape.rank - 1
    for dimension in dimensions:
        order = list(range(last + 1))
        order[dimension], order[last] = last, dimension
        if dimension == last:
            operand = transformed(write, operand, inverse)
        else:
            operand = write.transpose(transformed(write, write.transpose(operand, order), inverse), order)
    return operand


def mirrored(write: Writer, half: Instruction, length: int) -> Instruction:
    """Completes the spectrum of real numbers from its first half by its conjugates in reverse order."""
    last = half.shape.rank - 1
    inner = slice_dimension(write, half, last, 1, (length + 1) // 2)
    if not inner.shape.size:
        return half
    backwards = write.add(opcodes.REVERSE, inner, attributes=DimensionsAttributes.make(dimensions=(last,)))
    return concatenate(write, [half, conjugated(write, backwards)], last)
