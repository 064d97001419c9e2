"""Gather and scatter.

Ignores promises about indices (sorted, unique), which only help compilers: if one is broken, the result is that of the
op without it.
Source: Gather, Scatter of the specification, which leaves the order of updates open. The order here is that of XLA:CPU:
index vectors in row-major order, and for each of them its whole window.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import RULES, Array, Context, Value
from xlapy.interpreter.kernels.accumulate import accumulate
from xlapy.opcodes import indexing as ops
from xlapy.opcodes.indexing import GatherAttributes, ScatterAttributes


@RULES.rule(opcodes.GATHER)
def gather(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the operand's slice at each index vector, which is clamped so that the slice is inside the operand."""
    operand, indices = values
    attrs, result = instruction.attributes_as(GatherAttributes), instruction.shape
    dropped = {*attrs.collapsed_slice_dims, *attrs.operand_batching_dims}
    if any(attrs.slice_sizes[d] == 0 for d in dropped):
        return np.zeros(result.dimensions, operand.dtype)  # empty slices, in a dimension that the result does not have
    batching = (attrs.operand_batching_dims, attrs.start_indices_batching_dims)
    starts = _window_starts(indices, operand.ndim, attrs.index_vector_dim, attrs.start_index_map, *batching)
    limits = [whole - size for whole, size in zip(operand.shape, attrs.slice_sizes, strict=True)]
    clamped = [np.clip(start, 0, limit) for start, limit in zip(starts, limits, strict=True)]
    windows = _windows(operand, attrs.slice_sizes, dropped)
    slices = windows[tuple(clamped)] if clamped else np.broadcast_to(windows, starts.shape[1:])
    return _transpose_to_result(np.asarray(slices), attrs.offset_dims)


def _windows(operand: Array, sizes: Sequence[int], dropped: set[int]) -> Array:
    """Returns a view of all windows: first the dimensions of their starts, then their own except the dropped ones."""
    if not operand.ndim:
        return operand
    # NumPy supports such views only for its own element types: other types are viewed as integers.
    stored = operand if operand.dtype.isbuiltin == 1 else operand.view(f"u{operand.itemsize}")
    inner = [0 if d in dropped else slice(None) for d in range(operand.ndim)]
    return sliding_window_view(stored, sizes)[(*[slice(None)] * operand.ndim, *inner)].view(operand.dtype)


def _transpose_to_result(slices: Array, offset_dims: Sequence[int]) -> Array:
    """Transposes batch dimensions followed by offset dimensions to the order of the result."""
    batch_rank = slices.ndim - len(offset_dims)
    batches, offsets = iter(range(batch_rank)), iter(range(batch_rank, slices.ndim))
    return slices.transpose([next(offsets) if d in offset_dims else next(batches) for d in range(slices.ndim)])


def _window_starts(
    indices: Array,
    rank: int,
    index_vector_dim: int,
    index_map: Sequence[int],
    batching: Sequence[int],
    indices_batching: Sequence[int],
) -> Array:
    """Returns the unclamped window starts: s64[rank, *dimensions of the indices without the index vector dimension].

    Unsigned indices beyond the range of s64 become its largest number, which is out of bounds as well.
    """
    vectors = indices[..., np.newaxis] if index_vector_dim == indices.ndim else indices
    if vectors.dtype == np.uint64:
        vectors = np.minimum(vectors, np.uint64(np.iinfo(np.int64).max))
    components = np.moveaxis(vectors, index_vector_dim, 0).astype(np.int64)
    batch_shape = components.shape[1:]
    starts = np.zeros((rank, *batch_shape), np.int64)
    for component, dimension in zip(components, index_map, strict=True):
        starts[dimension] = component
    for dimension, source in zip(batching, indices_batching, strict=True):
        axis = source if source < index_vector_dim else source - 1
        counted = [-1 if d == axis else 1 for d in range(len(batch_shape))]
        starts[dimension] = np.arange(batch_shape[axis]).reshape(counted)
    return starts


@RULES.rule(opcodes.SCATTER)
def scatter(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Combines windows of updates into the operands; a window that is not completely inside is skipped.

    Dimensions that every window covers completely form a cell, whose elements are updated together; the other
    dimensions select the cell. Example: updates of whole rows of f32[100,64] have 100 cells of 64 elements each.
    """
    count = len(values) // 2
    operands, indices, updates = values[:count], values[count], values[count + 1 :]
    attrs, shape = instruction.attributes_as(ScatterAttributes), operands[0].shape
    window = _window_sizes(shape, updates[0].shape, attrs)
    batching = (attrs.input_batching_dims, attrs.scatter_indices_batching_dims)
    starts = _window_starts(indices, len(shape), attrs.index_vector_dim, attrs.scatter_dims_to_operand_dims, *batching)
    starts = starts.reshape(len(shape), prod(starts.shape[1:]))
    limits = np.array(shape, np.int64) - np.array(window, np.int64)
    inside = ((starts >= 0) & (starts <= limits[:, np.newaxis])).all(axis=0)
    selecting = [d for d in range(len(shape)) if window[d] != shape[d]]
    order = [*selecting, *(d for d in range(len(shape)) if d not in selecting)]
    results = accumulate(
        context,
        instruction.to_apply,
        [_as_cells(operand[np.newaxis], order, len(selecting)) for operand in operands],
        _target_cells(starts[:, inside], window, shape, selecting),
        [
            _as_cells(_as_windows(update, window, attrs.update_window_dims)[inside], order, len(selecting))
            for update in updates
        ],
    )
    back = [order.index(d) for d in range(len(shape))]
    final = [result.reshape([shape[d] for d in order]).transpose(back) for result in results]
    return final[0] if count == 1 else tuple(final)


def _window_sizes(shape: Sequence[int], updates: Sequence[int], attrs: ops.ScatterAttributes) -> list[int]:
    """Returns the size of a window in each operand dimension: 1 where the updates have no dimension for it."""
    sizes = [1] * len(shape)
    targets = ops.window_dims_to_operand_dims(len(shape), attrs)
    for source, dimension in zip(attrs.update_window_dims, targets, strict=True):
        sizes[dimension] = updates[source]
    return sizes


def _as_windows(update: Array, window: Sequence[int], window_dims: Sequence[int]) -> Array:
    """Returns the updates as [index vectors, *window]."""
    rows = [d for d in range(update.ndim) if d not in window_dims]
    count = prod(update.shape[d] for d in rows)
    return update.transpose([*rows, *window_dims]).reshape(count, *window)


def _as_cells(windows: Array, order: Sequence[int], selecting: int) -> Array:
    """Transposes [n, *dimensions] to `order` and merges n and the first `selecting` dimensions into one: the cells."""
    moved = windows.transpose([0, *(1 + d for d in order)])
    return moved.reshape(prod(moved.shape[: 1 + selecting]), *moved.shape[1 + selecting :])


def _target_cells(starts: Array, window: Sequence[int], shape: Sequence[int], selecting: Sequence[int]) -> Array:
    """Returns the row-major numbers, in the selecting dimensions, of all cells of each window, window by window."""
    numbers = np.zeros((starts.shape[1], 1), np.int64)
    for d in selecting:
        positions = starts[d][:, np.newaxis] + np.arange(window[d])
        finer = numbers[:, :, np.newaxis] * shape[d] + positions[:, np.newaxis, :]
        numbers = finer.reshape(len(numbers), numbers.shape[1] * window[d])
    return numbers.reshape(-1)
