"""Builder functions of gather and scatter, which read and update slices at positions computed at run time.

Responsible for the builder functions of `opcodes/indexing.py`. Does not depend on how they are evaluated.
Source: Gather, Scatter of the specification, and its section "Informal Description and Examples". Dimension numbers
count from 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlapy.base.arguments.checking import checked_class
from xlapy.base.error_codes.operations import indexing as indexing_codes
from xlapy.builder.core.broadcasting import as_ints
from xlapy.builder.core.builder import append, builder_of, fail
from xlapy.builder.core.computation import XlaComputation
from xlapy.builder.core.op import XlaOp
from xlapy.opcodes.indexing import GATHER, SCATTER, GatherAttributes, ScatterAttributes


@checked_class
@dataclass(frozen=True, slots=True, kw_only=True)
class GatherDimensionNumbers:
    """How the dimensions of index vectors, slices and the result of a gather correspond.

    `offset_dims`: the result's dimensions that lie inside a slice, ascending; the others are those of the indices.
    `collapsed_slice_dims`: operand dimensions of slice size 1 that the result does not have.
    `start_index_map`: the operand dimension that each component of an index vector refers to.
    `index_vector_dim`: the indices' dimension that holds the vectors; their rank if each vector has one element.
    `operand_batching_dims`, `start_indices_batching_dims`: pairs of batch dimensions of equal size.
    """

    offset_dims: Sequence[int] = ()
    collapsed_slice_dims: Sequence[int] = ()
    start_index_map: Sequence[int] = ()
    index_vector_dim: int = 0
    operand_batching_dims: Sequence[int] = ()
    start_indices_batching_dims: Sequence[int] = ()


@checked_class
@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterDimensionNumbers:
    """How the dimensions of index vectors, updates and the operands of a scatter correspond.

    `update_window_dims`: the updates' dimensions that lie inside a window, ascending; the others are the indices'.
    `inserted_window_dims`: operand dimensions that the updates do not have; a window has size 1 there.
    `scatter_dims_to_operand_dims`: the operand dimension that each component of an index vector refers to.
    `index_vector_dim`: the indices' dimension that holds the vectors; their rank if each vector has one element.
    `input_batching_dims`, `scatter_indices_batching_dims`: pairs of batch dimensions of equal size.
    """

    update_window_dims: Sequence[int] = ()
    inserted_window_dims: Sequence[int] = ()
    scatter_dims_to_operand_dims: Sequence[int] = ()
    index_vector_dim: int = 0
    input_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


def gather(
    operand: XlaOp,
    start_indices: XlaOp,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    indices_are_sorted: bool = False,
) -> XlaOp:
    """Reads one slice of `operand` at each index vector of the integers `start_indices`.

    A slice has `slice_sizes`, one size per dimension of the operand. An index out of bounds is clamped so that the
    slice lies inside the operand. Example, rows 2, 0 and 2 of f32[3,5] with s32[3] indices: `offset_dims=[1]`,
    `collapsed_slice_dims=[0]`, `start_index_map=[0]`, `index_vector_dim=1`, `slice_sizes=[1, 5]` give f32[3,5].
    `indices_are_sorted` promises the compiler that index vectors are ascending. Raises BuilderError at the caller's
    line if the dimension numbers do not fit.
    """
    given = dimension_numbers
    with builder_of("gather", (operand, start_indices)).building("gather"):
        attributes = GatherAttributes.make(
            offset_dims=as_ints("offset_dims", given.offset_dims),
            collapsed_slice_dims=as_ints("collapsed_slice_dims", given.collapsed_slice_dims),
            start_index_map=as_ints("start_index_map", given.start_index_map),
            operand_batching_dims=as_ints("operand_batching_dims", given.operand_batching_dims),
            start_indices_batching_dims=as_ints("start_indices_batching_dims", given.start_indices_batching_dims),
            index_vector_dim=given.index_vector_dim,
            slice_sizes=as_ints("slice_sizes", slice_sizes),
            indices_are_sorted=indices_are_sorted,
        )
        return append(GATHER, (operand, start_indices), attributes)


def scatter(
    operands: XlaOp | Sequence[XlaOp],
    scatter_indices: XlaOp,
    updates: XlaOp | Sequence[XlaOp],
    update_computation: XlaComputation,
    dimension_numbers: ScatterDimensionNumbers,
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
) -> XlaOp:
    """Combines one window of `updates` into `operands` at each index vector of `scatter_indices`.

    N operands of equal dimensions (or a single one) and N updates of the same element types give the operand's shape or
    a tuple of N shapes. `update_computation` takes N current values and N updates, all scalars, and returns N new
    values. A window that is partly out of bounds is skipped. The order in which several updates of one element apply is
    unspecified: the computation should be associative and commutative, or the indices unique. `indices_are_sorted` and
    `unique_indices` are promises to the compiler. Raises BuilderError at the caller's line if the dimension numbers do
    not fit.
    """
    inputs = [operands] if isinstance(operands, XlaOp) else list(operands)
    sources = [updates] if isinstance(updates, XlaOp) else list(updates)
    if len(inputs) != len(sources) or not inputs:
        fail(
            "scatter",
            indexing_codes.SCATTER_OPERANDS,
            f"takes as many updates as operands, at least one: given {len(inputs)} and {len(sources)}",
        )
    given = dimension_numbers
    with builder_of("scatter", inputs).building("scatter"):
        attributes = ScatterAttributes.make(
            update_window_dims=as_ints("update_window_dims", given.update_window_dims),
            inserted_window_dims=as_ints("inserted_window_dims", given.inserted_window_dims),
            scatter_dims_to_operand_dims=as_ints("scatter_dims_to_operand_dims", given.scatter_dims_to_operand_dims),
            input_batching_dims=as_ints("input_batching_dims", given.input_batching_dims),
            scatter_indices_batching_dims=as_ints("scatter_indices_batching_dims", given.scatter_indices_batching_dims),
            index_vector_dim=given.index_vector_dim,
            indices_are_sorted=indices_are_sorted,
            unique_indices=unique_indices,
        )
        return append(SCATTER, [*inputs, scatter_indices, *sources], attributes, (update_computation,))
