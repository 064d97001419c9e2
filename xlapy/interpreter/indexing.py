"""Meaning of gather and scatter.

Must not know: promises about indices (sorted, unique), which only help compilers. Where such a promise is broken the
result is that of an op without it.
Source: Gather, Scatter of the specification, which leaves the order of updates open. Ours is that of XLA:CPU: index
vectors in row-major order, for each of them its whole window.
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
    """A slice of the operand at each index vector, moved where needed to lie inside the operand."""
    operand, indices = values
    attrs, result = instruction.attributes_as(GatherAttributes), instruction.shape
    dropped = {*attrs.collapsed_slice_dims, *attrs.operand_batching_dims}
    if any(attrs.slice_sizes[d] == 0 for d in dropped):
        return np.zeros(result.dimensions, operand.dtype)  # slices of nothing, in a dimension that the result lacks
    batching = (attrs.operand_batching_dims, attrs.start_indices_batching_dims)
    starts = _window_starts(indices, operand.ndim, attrs.index_vector_dim, attrs.start_index_map, *batching)
    limits = [whole - size for whole, size in zip(operand.shape, attrs.slice_sizes, strict=True)]
    places = [np.clip(start, 0, limit) for start, limit in zip(starts, limits, strict=True)]
    windows = _windows(operand, attrs.slice_sizes, dropped)
    slices = windows[tuple(places)] if places else np.broadcast_to(windows, starts.shape[1:])
    return _place_dimensions(np.asarray(slices), attrs.offset_dims)


def _windows(operand: Array, sizes: Sequence[int], dropped: set[int]) -> Array:
    """A view of all windows: first the dimensions of where they start, then their own but the dropped ones."""
    if not operand.ndim:
        return operand
    # NumPy makes such views of its own element types only: others are looked at as integers.
    stored = operand if operand.dtype.isbuiltin == 1 else operand.view(f"u{operand.itemsize}")
    inner = [0 if d in dropped else slice(None) for d in range(operand.ndim)]
    return sliding_window_view(stored, sizes)[(*[slice(None)] * operand.ndim, *inner)].view(operand.dtype)


def _place_dimensions(slices: Array, offset_dims: Sequence[int]) -> Array:
    """Batch dimensions followed by offset dimensions, put in the order of the result."""
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
    """Where windows start in each operand dimension, as given: s64[rank, the indices' dimensions but that of vectors].

    Unsigned indices beyond the range of s64 become its largest number, which no dimension holds either.
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
    """The operands with windows of updates combined into them; a window that is not wholly inside is left out.

    Dimensions that windows take whole are updated side by side, as cells; the others are where windows are aimed.
    Example: rows into f32[100,64] have 100 targets, cells of 64 elements each.
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
    aimed = [d for d in range(len(shape)) if window[d] != shape[d]]
    order = [*aimed, *(d for d in range(len(shape)) if d not in aimed)]
    results = accumulate(
        context,
        instruction.to_apply,
        [_as_cells(operand[np.newaxis], order, len(aimed)) for operand in operands],
        _targets(starts[:, inside], window, shape, aimed),
        [_as_cells(_rows(update, window, attrs.update_window_dims)[inside], order, len(aimed)) for update in updates],
    )
    back = [order.index(d) for d in range(len(shape))]
    final = [result.reshape([shape[d] for d in order]).transpose(back) for result in results]
    return final[0] if count == 1 else tuple(final)


def _window_sizes(shape: Sequence[int], updates: Sequence[int], attrs: ops.ScatterAttributes) -> list[int]:
    """The size of a window in each operand dimension: 1 where the updates have no dimension for it."""
    sizes = [1] * len(shape)
    targets = ops.window_dims_to_operand_dims(len(shape), attrs)
    for source, dimension in zip(attrs.update_window_dims, targets, strict=True):
        sizes[dimension] = updates[source]
    return sizes


def _rows(update: Array, window: Sequence[int], window_dims: Sequence[int]) -> Array:
    """The updates as [index vectors, *window]."""
    rows = [d for d in range(update.ndim) if d not in window_dims]
    count = prod(update.shape[d] for d in rows)
    return update.transpose([*rows, *window_dims]).reshape(count, *window)


def _as_cells(rows: Array, order: Sequence[int], aimed: int) -> Array:
    """[n, *dimensions] with the dimensions in another order, and n and the first `aimed` of them made one."""
    moved = rows.transpose([0, *(1 + d for d in order)])
    return moved.reshape(prod(moved.shape[: 1 + aimed]), *moved.shape[1 + aimed :])


def _targets(starts: Array, window: Sequence[int], shape: Sequence[int], aimed: Sequence[int]) -> Array:
    """The row-major numbers, among the aimed dimensions, of all places in each window, one window after the other."""
    numbers = np.zeros((starts.shape[1], 1), np.int64)
    for d in aimed:
        places = starts[d][:, np.newaxis] + np.arange(window[d])
        finer = numbers[:, :, np.newaxis] * shape[d] + places[:, np.newaxis, :]
        numbers = finer.reshape(len(numbers), numbers.shape[1] * window[d])
    return numbers.reshape(-1)
