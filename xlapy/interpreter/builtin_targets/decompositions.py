"""XLA's custom calls for linear algebra and selection: Qr, ProductOfElementaryHouseholderReflectors, LuDecomposition,
Eigh and ApproxTopK, which frameworks create for platforms without a library.

Responsible for their signatures and attributes. Does not depend on how LAPACK is called.
Source: QrExpander, EighExpander of XLA; jax.lax.linalg; ApproxTopK of xla_builder.h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from xlapy.base.element_types import C64, C128, F32, F64, S32, PrimitiveType
from xlapy.base.error_codes.execution import custom_calls as codes
from xlapy.base.errors import ParseError, UnsupportedError, message_of
from xlapy.base.shape import Shape
from xlapy.custom_calls.ffi.attributes import read_attributes
from xlapy.custom_calls.lapack import LapackCall
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter.builtin_targets.lapack import run_lapack_routine
from xlapy.interpreter.builtin_targets.signatures import require_signature
from xlapy.interpreter.core import Array, Context, InterpreterRule, Value
from xlapy.interpreter.sorting import sort_along
from xlapy.opcodes.requirements import compatible_ignoring_dynamic

_TYPES = (F32, F64, C64, C128)


def _is_matrix(shape: Shape) -> bool:
    return shape.is_array and shape.rank >= 2 and shape.element_type in _TYPES and not shape.is_dynamic


def _vector(matrix: Shape, size: int, element_type: PrimitiveType | None = None) -> Shape:
    """Returns the shape of one vector per matrix of a batch."""
    shape = matrix.with_dimensions((*matrix.dimensions[:-2], size))
    return shape if element_type is None else shape.with_element_type(element_type)


def _real(element_type: PrimitiveType) -> PrimitiveType:
    return element_type.component_type if element_type.is_complex else element_type


def _results(matrix: Shape, *vectors: Shape) -> Shape:
    return Shape.tuple([matrix, *vectors])


# -- checks


def _check_qr(instruction: Instruction) -> None:
    shapes = instruction.operand_shapes
    fits = len(shapes) == 1 and _is_matrix(shapes[0])
    fits = fits and compatible_ignoring_dynamic(
        _results(shapes[0], _vector(shapes[0], min(shapes[0].dimensions[-2:]))), instruction.shape
    )
    require_signature(instruction, fits, "a[..., m, n] and returns (a[..., m, n], a[..., min(m, n)])")


def _check_product(instruction: Instruction) -> None:
    shapes = instruction.operand_shapes
    fits = len(shapes) == 2 and _is_matrix(shapes[0]) and shapes[1].rank == shapes[0].rank - 1
    if fits:
        rows, columns = shapes[0].dimensions[-2:]
        fits = shapes[1].dimensions[-1] <= columns <= rows and compatible_ignoring_dynamic(shapes[0], instruction.shape)
        fits = fits and compatible_ignoring_dynamic(shapes[1], _vector(shapes[0], shapes[1].dimensions[-1]))
    require_signature(instruction, fits, "a[..., m, n] and a[..., k] with k <= n <= m, and returns a[..., m, n]")


def _check_lu(instruction: Instruction) -> None:
    shapes = instruction.operand_shapes
    fits = len(shapes) == 1 and _is_matrix(shapes[0])
    if fits:
        rows, columns = shapes[0].dimensions[-2:]
        pivots, order = _vector(shapes[0], min(rows, columns), S32), _vector(shapes[0], rows, S32)
        fits = compatible_ignoring_dynamic(_results(shapes[0], pivots, order), instruction.shape)
    require_signature(instruction, fits, "a[..., m, n] and returns (a[..., m, n], s32[..., min(m, n)], s32[..., m])")


def _check_eigh(instruction: Instruction) -> None:
    shapes = instruction.operand_shapes
    fits = len(shapes) == 1 and _is_matrix(shapes[0]) and len(set(shapes[0].dimensions[-2:])) == 1
    if fits:
        values = _vector(shapes[0], shapes[0].dimensions[-1], _real(shapes[0].element_type))
        fits = compatible_ignoring_dynamic(_results(shapes[0], values), instruction.shape)
    require_signature(instruction, fits, "a[..., n, n] and returns (a[..., n, n], r[..., n])")
    reads_lower(instruction)


def reads_lower(instruction: Instruction) -> bool:
    """Returns whether Eigh reads the lower triangle: the first number in `backend_config`, such as "1,1,15,1e-5"."""
    first = instruction.backend_config.split(",")[0].strip()
    if first not in ("0", "1"):
        raise UnsupportedError(
            codes.BUILT_IN_CALL,
            f"{describe_instruction(instruction)}: the backend_config of Eigh begins with 1 (lower triangle) or 0, "
            f"given {first!r}",
        )
    return first == "1"


def _check_approx_top_k(instruction: Instruction) -> None:
    dimension, count = approx_top_k_of(instruction)
    shapes = instruction.operand_shapes
    half = len(shapes) // 2
    fits = len(instruction.computations) == 1 and len(shapes) == 2 * half > 0
    fits = fits and all(s.is_array and not s.is_dynamic for s in shapes)
    fits = fits and all(s.dimensions == shapes[0].dimensions for s in shapes[:half])
    fits = fits and 0 <= dimension < shapes[0].rank and 0 <= count <= shapes[0].dimensions[dimension]
    if fits:
        selected = list(shapes[0].dimensions)
        selected[dimension] = count
        wanted = [shape.with_dimensions(selected) for shape in shapes[:half]]
        fits = compatible_ignoring_dynamic(
            Shape.tuple(wanted) if instruction.shape.is_tuple else wanted[0], instruction.shape
        )
    require_signature(
        instruction, fits, "arrays, an initial value for each, and returns the first k along reduction_dim of each"
    )


def approx_top_k_of(instruction: Instruction) -> tuple[int, int]:
    """Returns the dimension along which ApproxTopK selects, and the size of the result there: k or somewhat more."""
    try:
        attributes = read_attributes(instruction.backend_config)
        dimension = int(attributes["reduction_dim"])
    except (ParseError, KeyError, TypeError, ValueError) as error:
        reason = message_of(error)
        raise UnsupportedError(
            codes.BUILT_IN_CALL,
            f"{describe_instruction(instruction)}: the backend_config of ApproxTopK must have a number reduction_dim: "
            f"{reason}",
        ) from error
    first = instruction.shape.tuple_shapes[0] if instruction.shape.is_tuple else instruction.shape
    in_range = first.is_array and 0 <= dimension < first.rank
    return dimension, first.dimensions[dimension] if in_range else -1


# -- evaluation


def _by_lapack(
    routine: str, instruction: Instruction, values: Sequence[Array], letters: dict[str, str] | None = None
) -> list[list[Any]]:
    """Calls a LAPACK routine for each matrix of a batch and returns the results of each call."""
    a = values[0]
    rows, columns = a.shape[-2:]
    sizes = {"m": rows, "n": columns, "k": min(rows, columns), "h": max(columns - 1, 0)}
    element_type = instruction.operand_shapes[0].element_type
    call = LapackCall(routine, element_type, letters or {}, {}, a.shape[:-2], sizes)
    flat = [a.reshape(-1, rows, columns), *(v.reshape(-1, v.shape[-1]) for v in values[1:])] if a.size else []
    return [list(run_lapack_routine(call, matrices)) for matrices in zip(*flat, strict=True)]


def _stacked(instruction: Instruction, found: list[list[Any]]) -> Value:
    """Stacks the results for each matrix of a batch to one array per result."""
    shapes = list(instruction.shape.tuple_shapes) if instruction.shape.is_tuple else [instruction.shape]
    stacked = [
        np.array([one[number] for one in found], shape.dtype).reshape(shape.dimensions)
        if found
        else np.zeros(shape.dimensions, shape.dtype)
        for number, shape in enumerate(shapes)
    ]
    return tuple(stacked) if instruction.shape.is_tuple else stacked[0]


def _qr(_: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns R in the upper triangle with the Householder vectors below it, and the scalars of the reflectors."""
    return _stacked(instruction, _by_lapack("geqrf", instruction, values))


def _product(_: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the first columns of the product of the reflectors."""
    return _stacked(instruction, _by_lapack("orgqr", instruction, values))


def _lu(_: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns L and U in one matrix, the row that each row was exchanged with, and the permutation of the rows."""
    found = _by_lapack("getrf", instruction, values)
    rows = values[0].shape[-2]
    for one in found:
        pivots, order = one[1] - 1, np.arange(rows)
        for row, pivot in enumerate(pivots):
            order[[row, pivot]] = order[[pivot, row]]
        one[1:] = [pivots, order]
    if not found and rows:  # without columns, the permutation of the rows is the identity
        leaves = instruction.shape.tuple_shapes
        zeros = [np.zeros(shape.dimensions, shape.dtype) for shape in leaves[:2]]
        return *zeros, np.broadcast_to(np.arange(rows, dtype=np.int32), leaves[2].dimensions)
    return _stacked(instruction, found)


def _eigh(_: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns eigenvectors as columns, and eigenvalues in ascending order."""
    letters = {"mode": "V", "uplo": "L" if reads_lower(instruction) else "U"}
    return _stacked(instruction, _by_lapack("syevd", instruction, values, letters))


def _approx_top_k(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the first elements by the comparator, exactly, which satisfies every recall target."""
    dimension, count = approx_top_k_of(instruction)
    operands = values[: len(values) // 2]
    arrays = sort_along(context, instruction.computations[0], operands, dimension)
    selected = [np.take(array, range(count), axis=dimension) for array in arrays]
    return tuple(selected) if instruction.shape.is_tuple else selected[0]


DECOMPOSITIONS: dict[str, tuple[Callable[[Instruction], None], InterpreterRule]] = {
    "Qr": (_check_qr, _qr),
    "ProductOfElementaryHouseholderReflectors": (_check_product, _product),
    "LuDecomposition": (_check_lu, _lu),
    "Eigh": (_check_eigh, _eigh),
    "ApproxTopK": (_check_approx_top_k, _approx_top_k),
}
"""For each target name, a check of the instruction and the rule that evaluates it."""
