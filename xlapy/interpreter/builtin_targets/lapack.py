"""The custom calls to LAPACK, which call SciPy's functions of the same names matrix by matrix.

Responsible for conversion between the bytes in the layouts of a call and matrices, and for results that are computed
without LAPACK (for empty matrices, and for infinities or NaN where LAPACK might not terminate). Does not depend on the
names of targets.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.custom_calls.lapack.calls import (
    FINITE_ONLY,
    NOT_FINITE,
    LapackCall,
    lapack_call,
    parse_signature,
    signature_of,
)
from xlapy.custom_calls.native import operand_layout_shapes
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import Array, Context, Value

__all__ = ["check_lapack", "run_lapack_routine", "call_lapack"]


def check_lapack(instruction: Instruction) -> None:
    """Raises `UnsupportedError` unless LAPACK can execute the call."""
    lapack_call(instruction)


def call_lapack(_: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the results of the target; those of a failed computation (`info` is not 0) are unspecified."""
    call = lapack_call(instruction)
    operands, results = parse_signature(signature_of(call.routine, call.element_type))
    layouts = operand_layout_shapes(instruction)
    count = prod(call.batch)
    inputs = [
        _matrices(value, None if layouts is None else layouts.tuple_shapes[number].layout, count, len(dimensions))
        for number, (value, (_, dimensions)) in enumerate(zip(values, operands, strict=True))
    ]
    shapes = list(instruction.shape.tuple_shapes) if instruction.shape.is_tuple else [instruction.shape]
    outputs = [
        _matrices(np.zeros(shape.dimensions, shape.dtype), shape.layout, count, len(dimensions))
        for shape, (_, dimensions) in zip(shapes, results, strict=True)
    ]
    for number in range(count):
        found = _computed(call, [array[number] for array in inputs], [array[number] for array in outputs])
        for target, array in zip(outputs, found, strict=True):
            target[number] = array
    leaves = [_logical(array, shape) for array, shape in zip(outputs, shapes, strict=True)]
    return tuple(leaves) if instruction.shape.is_tuple else leaves[0]


def _computed(call: LapackCall, inputs: list[Array], zeros: list[Array]) -> Sequence[Any]:
    """Returns the results for one matrix of the batch."""
    if call.routine in FINITE_ONLY and not np.isfinite(inputs[0]).all():
        return [*zeros[:-1], NOT_FINITE]
    return run_lapack_routine(call, inputs)


def run_lapack_routine(call: LapackCall, matrices: Sequence[Array]) -> Sequence[Any]:
    """Calls a routine for one matrix and its other operands; the batch dimensions of the call are ignored."""
    from xlapy.custom_calls.lapack.routines import ROUTINES  # scipy.linalg loads slowly

    routine: Callable[..., Sequence[Any]] = ROUTINES[call.routine]
    return routine(call, *matrices)


# -- bytes and matrices


def _order(rank: int, layout: Layout | None) -> tuple[int, ...]:
    """Returns the dimensions from major to minor."""
    return tuple(range(rank)) if layout is None else layout.minor_to_major[::-1]


def _matrices(value: Array, layout: Layout | None, count: int, rank: int) -> Array:
    """Reads the bytes of an array as a batch of column-major matrices (rank 2), of vectors or of numbers."""
    physical = np.ascontiguousarray(value.transpose(_order(value.ndim, layout))).reshape(value.shape)
    sizes = value.shape[value.ndim - rank :]
    if rank == 2:
        return physical.reshape(count, sizes[1], sizes[0]).swapaxes(1, 2)
    return physical.reshape(count, *sizes)


def _logical(matrices: Array, shape: Shape) -> Array:
    """Returns the array of a shape with the bytes of these column-major matrices."""
    order = _order(shape.rank, shape.layout)
    columns_first = matrices.swapaxes(1, 2) if matrices.ndim == 3 else matrices
    physical = np.ascontiguousarray(columns_first).reshape([shape.dimensions[d] for d in order])
    return np.ascontiguousarray(physical.transpose(np.argsort(order)))
