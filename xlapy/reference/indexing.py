"""Definitions of gather and scatter.

An index vector names the position of a slice, or window, of the operand. Dimensions of the operand are of three kinds:
those of the window, which the result or the updates have too; those that are dropped (collapsed or inserted); and
batching dimensions, in which the position is that of the index vector among all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import Array
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.indexing import GatherAttributes, ScatterAttributes, window_dims_to_operand_dims
from xlapy.reference.core import Function, Value, defines
from xlapy.reference.elements import Index, array_of_shape, indices, number, with_values, zeros
from xlapy.reference.movement import plus
from xlapy.reference.reduction import in_tuple


@defines(opcodes.GATHER)
def gather(instruction: Instruction, operand: Array, start_indices: Array) -> Array:
    """result[batch, offset] = operand[start(batch) + offset]; starts are clamped so that every slice is inside.

    A slice that is empty in a dimension that the result does not have gives zeros.
    """
    a = instruction.attributes_as(GatherAttributes)
    dropped = (*a.collapsed_slice_dims, *a.operand_batching_dims)
    window_dims = [d for d in range(operand.ndim) if d not in dropped]
    batch_dims = [d for d in range(len(instruction.shape.dimensions)) if d not in a.offset_dims]
    batching = (a.operand_batching_dims, a.start_indices_batching_dims)
    if any(a.slice_sizes[d] == 0 for d in dropped):
        return zeros(instruction.shape)

    def element_at(index: Index) -> Any:
        batch = tuple(index[d] for d in batch_dims)
        start = start_of(start_indices, batch, operand.ndim, a.index_vector_dim, a.start_index_map, *batching)
        limits = (whole - size for whole, size in zip(operand.shape, a.slice_sizes, strict=True))
        inside = tuple(min(max(i, 0), limit) for i, limit in zip(start, limits, strict=True))
        offset = with_values((0,) * operand.ndim, window_dims, (index[d] for d in a.offset_dims))
        return operand[plus(inside, offset)]

    return array_of_shape(instruction.shape, element_at)


def start_of(
    vectors: Array,
    batch: Index,
    rank: int,
    vector_dim: int,
    index_map: Sequence[int],
    batching: Sequence[int],
    vectors_batching: Sequence[int],
) -> Index:
    """Returns where a window begins: component k of the index vector is that of dimension index_map[k]."""
    start = [0] * rank
    for component, dimension in enumerate(index_map):
        place = batch if vector_dim == vectors.ndim else (*batch[:vector_dim], component, *batch[vector_dim:])
        start[dimension] = number(vectors[place])
    for dimension, source in zip(batching, vectors_batching, strict=True):
        start[dimension] = batch[source if source < vector_dim else source - 1]
    return tuple(start)


@defines(opcodes.SCATTER)
def scatter(instruction: Instruction, computation: Function, *operands: Array) -> Value:
    """result[start(batch) + offset] = computation(current values, updates[batch, offset]), in row-major order.

    Departure of XLA: a window that is not completely inside is left out as a whole, not only its elements outside.
    Index vectors are taken in row-major order, and the whole window of each before the next one.
    """
    count = len(operands) // 2
    results, vectors = [np.array(array) for array in operands[:count]], operands[count]
    updates, sizes = operands[count + 1 :], operands[0].shape
    a, rank = instruction.attributes_as(ScatterAttributes), operands[0].ndim
    batching = (a.input_batching_dims, a.scatter_indices_batching_dims)
    batch_dims = [d for d in range(updates[0].ndim) if d not in a.update_window_dims]
    window_dims = window_dims_to_operand_dims(rank, a)
    window = [updates[0].shape[d] for d in a.update_window_dims]
    extent = with_values((1,) * rank, window_dims, window)
    for batch in indices([updates[0].shape[d] for d in batch_dims]):
        start = start_of(vectors, batch, rank, a.index_vector_dim, a.scatter_dims_to_operand_dims, *batching)
        if not all(0 <= i <= whole - size for i, size, whole in zip(start, extent, sizes, strict=True)):
            continue
        for offset in indices(window):
            target = plus(start, with_values((0,) * rank, window_dims, offset))
            source = with_values((0,) * updates[0].ndim, (*batch_dims, *a.update_window_dims), (*batch, *offset))
            current = [np.asarray(result[target]) for result in results]
            new = in_tuple(computation(*current, *(np.asarray(update[source]) for update in updates)))
            for result, value in zip(results, new, strict=True):
                result[target] = value
    return tuple(results) if count > 1 else results[0]
