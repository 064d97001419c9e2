"""JAX's custom call `cpu_csr_sparse_dense_ffi`: products of a sparse matrix and a dense matrix or vector on CPU.

The operands are the elements of a matrix in CSR format: the elements row by row, the index of the first element of each
row (and the end of the last row), and the column of each element; then a dense matrix or vector. Elements beyond the
end of the last row are ignored.

Responsible for its signature and evaluation. Does not depend on layouts.
Source: jax.experimental.sparse.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy.base.element_types import C64, C128, F32, F64, S32, S64
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter.core import Context, Value

CSR_TARGET = "cpu_csr_sparse_dense_ffi"

_TYPES = (S32, S64, F32, F64, C64, C128)


def check_csr_product(instruction: Instruction) -> None:
    """Checks for (a[e], i[m+1], i[e], a[k, ...]) -> a[m, ...] with static dimensions and a dense matrix or vector."""
    if _fits(instruction):
        return
    given = ", ".join(shape.to_text(layout=False) for shape in instruction.operand_shapes)
    raise UnsupportedError(
        codes.BUILT_IN_CALL,
        f"{describe_instruction(instruction)}: {CSR_TARGET} takes a[e], i[m+1], i[e] and a[k] or a[k,n] with i of s32 "
        f"or s64, and "
        f"returns a[m] or a[m,n]; given ({given}) and {instruction.shape.to_text(layout=False)}",
    )


def _fits(instruction: Instruction) -> bool:
    shapes, result = instruction.operand_shapes, instruction.shape
    if len(shapes) != 4 or not all(s.is_array and not s.is_dynamic for s in (*shapes, result)):
        return False
    elements, starts, columns, dense = shapes
    types = {elements.element_type, dense.element_type, result.element_type}
    if len(types) > 1 or elements.element_type not in _TYPES or starts.element_type is not columns.element_type:
        return False
    ranks = (elements.rank, starts.rank, columns.rank) == (1, 1, 1) and dense.rank in (1, 2)
    if not ranks or starts.element_type not in (S32, S64) or not starts.dimensions[0]:
        return False
    wanted = (starts.dimensions[0] - 1, *dense.dimensions[1:])
    return elements.dimensions == columns.dimensions and result.dimensions == wanted


def call_csr_product(_: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Adds the products of each row in order; raises `ExecutionError` for rows or columns out of bounds."""
    elements, starts, columns, dense = values
    starts = starts.astype(np.int64)
    counts = np.diff(starts)
    if (counts < 0).any() or starts[0] < 0 or starts[-1] > len(elements):
        raise ExecutionError(
            codes.SPARSE_INDICES,
            f"{describe_instruction(instruction)}: the row offsets {starts} are not ascending or exceed "
            f"{len(elements)} elements",
        )
    used = slice(int(starts[0]), int(starts[-1]))
    outside = (columns[used] < 0) | (columns[used] >= len(dense))
    if outside.any():
        column = columns[used][outside][0]
        raise ExecutionError(
            codes.SPARSE_INDICES,
            f"{describe_instruction(instruction)}: an element is in column {column} of {len(dense)} columns",
        )
    terms = elements[used].reshape(-1, *[1] * (dense.ndim - 1)) * dense[columns[used]]
    result = np.zeros(instruction.shape.dimensions, elements.dtype)
    np.add.at(result, np.repeat(np.arange(len(counts)), counts), terms)
    return result
