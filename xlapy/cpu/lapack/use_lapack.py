"""Rewrites linear algebra as LAPACK calls: operations become custom calls, and custom calls become row-major.

LAPACK reads matrices column by column, so it sees a row-major matrix as its transpose. Two routines handle that
directly: the Cholesky factor of the other triangle of the transpose is the transposed factor, and x a = b is solved
instead of a x = b. All other calls are surrounded by transposes, which fuse with other operations or cancel.

Responsible for these rewrites. Does not depend on how calls are executed.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.base.element_types import C128, F64, PRED, S32, PrimitiveType
from xlapy.base.shape import Shape
from xlapy.cpu.lapack.decompositions import DECOMPOSITIONS
from xlapy.cpu.lapack.row_major import call_by_columns, is_row_major_call, row_major_call
from xlapy.cpu.lapack.targets import calls_lapack
from xlapy.custom_calls.lapack import LapackCall, lapack_call
from xlapy.custom_calls.registry import find_target
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.custom import CustomCallAttributes
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.linalg import CholeskyAttributes, Transpose, TriangularSolveAttributes
from xlapy.passes.expand.blocks import compare, iota, slice_dimension
from xlapy.passes.layouts.layout_copies import minor_to_major, row_major
from xlapy.passes.rewrite import Writer, editable_computations, replace_with_new, update_schedule

EXACT_SIZE = 32
"""The largest matrices, in rows, for which an operation is computed in f64 or c128, which costs little for small sizes.
"""

_TRANSPOSITIONS = {Transpose.NO_TRANSPOSE: "N", Transpose.TRANSPOSE: "T", Transpose.ADJOINT: "C"}


@dataclass(frozen=True)
class UseLapack:
    """Rewrites cholesky, triangular-solve and custom calls of LAPACK."""

    name: ClassVar[str] = "use-lapack"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            for instruction in list(computation):
                if any(s.is_dynamic for s in (instruction.shape, *instruction.operand_shapes)):
                    continue
                write = Writer(instruction)
                replacement = _rewritten(write, instruction)
                if replacement is not None:
                    replace_with_new(instruction, replacement)
                    changed = True
        return update_schedule(module, changed)


def _rewritten(write: Writer, instruction: Instruction) -> Instruction | None:
    """Returns the replacement of an instruction; None if it stays."""
    if instruction.op is opcodes.CHOLESKY and instruction.shape.size:
        return _cholesky(write, instruction)
    if instruction.op is opcodes.TRIANGULAR_SOLVE and instruction.shape.size:
        return _triangular_solve(write, instruction)
    if calls_lapack(instruction) and not is_row_major_call(instruction):
        return _to_row_major_call(write, instruction)
    if _is_decomposition(instruction):
        return DECOMPOSITIONS[instruction.custom_call_target](write, instruction)
    return None


def _is_decomposition(instruction: Instruction) -> bool:
    """Whether the call is a built-in decomposition whose target has not been registered by the user."""
    if instruction.op is not opcodes.CUSTOM_CALL or instruction.custom_call_target not in DECOMPOSITIONS:
        return False
    return find_target(instruction.custom_call_target, "cpu") is None


# -- calls


def _to_row_major_call(write: Writer, instruction: Instruction) -> Instruction:
    """Returns a call with other layouts as a call on row-major arrays."""
    call = lapack_call(instruction)
    if direct := _direct_call(write, instruction, call):
        return direct
    shape, operands = instruction.shape, instruction.operands
    layouts = instruction.attributes_as(CustomCallAttributes).operand_layout_constraints or [
        row_major(o.shape) for o in operands
    ]
    results = list(shape.tuple_shapes) if shape.is_tuple else [shape]
    parts = call_by_columns(write, call.routine, operands, layouts, results, instruction.backend_config)
    return write.add(opcodes.TUPLE, *parts) if shape.is_tuple else parts[0]


def _direct_call(write: Writer, instruction: Instruction, call: LapackCall) -> Instruction | None:
    """Returns a call that takes row-major matrices as they are, if all layouts are column-major; None for other
    routines."""
    if call.routine not in ("potrf", "trsm") or not _is_column_major(instruction):
        return None
    if call.routine == "potrf":
        made = _factor(write, instruction.operands[0], call.letters["uplo"] == "L")
        return write.add(opcodes.TUPLE, *(write.get_tuple_element(made, n) for n in range(2)))
    (a, b), letters = instruction.operands, call.letters
    return _solution(write, a, b, letters["side"] == "L", letters["uplo"] == "L", letters["trans_x"], letters["diag"])


def _is_column_major(instruction: Instruction) -> bool:
    constraints = instruction.attributes_as(CustomCallAttributes).operand_layout_constraints or ()
    leaves = [*constraints, *(leaf for _, leaf in instruction.shape.leaves())]
    rank = instruction.operands[0].shape.rank
    matrices = [minor_to_major(leaf) for leaf in leaves if leaf.rank == rank]
    return all(order == (rank - 2, rank - 1, *reversed(range(rank - 2))) for order in matrices)


def _factor(write: Writer, a: Instruction, lower: bool) -> Instruction:
    """Returns the call that factors row-major matrices; its results are the factors and the status."""
    info = Shape.array(S32, a.shape.dimensions[:-2])
    return row_major_call(write, "potrf", [a], [a.shape, info], f"{{uplo = {ord('U' if lower else 'L')} : ui8}}")


def _solution(
    write: Writer, a: Instruction, b: Instruction, left_side: bool, lower: bool, transposition: str, diagonal: str
) -> Instruction:
    """Solves op(a) x = b, or x op(a) = b, for row-major matrices: LAPACK receives the transposes of all of them."""
    *batch, rows, columns = b.shape.dimensions
    turned = write.reshape(b, row_major(b.shape.with_dimensions((*batch, columns, rows))))
    letters = {
        "diag": diagonal,
        "side": "R" if left_side else "L",
        "trans_x": transposition,
        "uplo": "U" if lower else "L",
    }
    attributes = ", ".join(f"{name} = {ord(letter)} : ui8" for name, letter in letters.items())
    x = row_major_call(write, "trsm", [a, turned], [turned.shape], f"{{{attributes}}}", overwritten=1)
    return write.reshape(x, row_major(b.shape))


# -- operations


def _computed_in(shape: Shape) -> PrimitiveType:
    """Returns the element type in which matrices of a shape are computed."""
    element_type = shape.element_type
    wide = C128 if element_type.is_complex else F64
    return wide if shape.dimensions[-1] <= EXACT_SIZE or element_type.bits < 32 else element_type


def _cholesky(write: Writer, instruction: Instruction) -> Instruction:
    """Returns the Cholesky factor with zeros in the other triangle, or NaN if a matrix is not positive definite."""
    (operand,), lower = instruction.operands, instruction.attributes_as(CholeskyAttributes).lower
    made = _factor(write, write.convert(operand, _computed_in(operand.shape)), lower)
    factor = write.get_tuple_element(made, 0)
    shape, rank = factor.shape, factor.shape.rank
    counts = shape.with_element_type(S32)
    rows, columns = iota(write, counts, rank - 2), iota(write, counts, rank - 1)
    side = ComparisonDirection.GE if lower else ComparisonDirection.LE
    triangle = write.add(opcodes.SELECT, compare(write, rows, columns, side), factor, write.splat(0, shape))
    nan = write.splat(float("nan"), shape)
    definite = write.broadcast(_is_definite(write, made), shape.with_element_type(PRED), range(rank - 2))
    return write.convert(write.add(opcodes.SELECT, definite, triangle, nan), instruction.shape.element_type)


def _is_definite(write: Writer, made: Instruction) -> Instruction:
    """Whether all pivots were positive. A NaN pivot makes the last one NaN."""
    factor, info = (write.get_tuple_element(made, number) for number in range(2))
    rank, size = factor.shape.rank, factor.shape.dimensions[-1]
    last = slice_dimension(write, slice_dimension(write, factor, rank - 2, size - 1, size), rank - 1, size - 1, size)
    last = write.reshape(last, last.shape.with_dimensions(factor.shape.dimensions[:-2]))
    if last.shape.element_type.is_complex:
        last = write.add(opcodes.REAL, last)
    is_number = compare(write, last, last, ComparisonDirection.EQ)
    good = compare(write, info, write.splat(0, info.shape), ComparisonDirection.EQ)
    return write.add(opcodes.AND, good, is_number)


def _triangular_solve(write: Writer, instruction: Instruction) -> Instruction:
    (a, b), attributes = instruction.operands, instruction.attributes_as(TriangularSolveAttributes)
    element_type = _computed_in(a.shape)
    x = _solution(
        write,
        write.convert(a, element_type),
        write.convert(b, element_type),
        attributes.left_side,
        attributes.lower,
        _TRANSPOSITIONS[attributes.transpose_a],
        "U" if attributes.unit_diagonal else "N",
    )
    return write.convert(x, instruction.shape.element_type)
