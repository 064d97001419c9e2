"""Sort and topk.

Sorts are always stable, whether `is_stable` is set or not.
Source: Sort, TopK of the specification.

If the comparator compares by keys (`kernels/sort_keys.py`), the keys are sorted instead. Any other comparator is
evaluated on whole arrays by a merge sort: all merges of all rows run together, so that n elements per row take about
log2(n)^2 / 2 evaluations, each of half the elements. A comparator that is not a strict weak order (a plain less-than
with NaNs, for example) still gives a permutation of each row, but an unspecified one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from xlapy import opcodes
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.batching.scalar_computations import apply_scalar_computation
from xlapy.interpreter.core import RULES, Array, Context, Value
from xlapy.interpreter.kernels.sort_keys import comparator_keys, integer_key
from xlapy.opcodes.sorting import SortAttributes, TopKAttributes

Precedes = Callable[[Array, Array], Array]
"""(positions, positions) -> pred: whether the comparator orders the first element before the second."""


@RULES.rule(opcodes.SORT)
def sort(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Sorts the operands together along a dimension, so that no element precedes an earlier one by the comparator."""
    results = sort_along(context, instruction.to_apply, values, instruction.attributes_as(SortAttributes).dimension)
    return results[0] if len(results) == 1 else tuple(results)


def sort_along(context: Context, comparator: Computation, values: Sequence[Array], dimension: int) -> list[Array]:
    """Sorts arrays together along a dimension."""
    moved: list[Array] = [np.moveaxis(value, dimension, -1) for value in values]
    shape = moved[0].shape
    rows = [array.reshape(prod(shape[:-1]), shape[-1]) for array in moved]
    order = _stable_order(context, comparator, rows)
    taken = [np.take_along_axis(array, order, axis=1).reshape(shape) for array in rows]
    return [np.moveaxis(array, -1, dimension) for array in taken]


@RULES.rule(opcodes.TOPK)
def topk(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the first k elements of each row in descending (or ascending) order, and their positions in the row.

    Floating-point numbers are in total order: NaN is largest, -0 is less than +0. Equal elements keep their order.
    """
    attributes = instruction.attributes_as(TopKAttributes)
    return top_k_of_rows(values[0], attributes.k, attributes.largest)


def top_k_of_rows(operand: Array, k: int, largest: bool) -> tuple[Array, Array]:
    """Returns the k elements of `topk` and their positions in the rows."""
    key = integer_key(operand)
    order = np.argsort(~key if largest else key, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(operand, order, axis=-1), order.astype(np.int32)


def _stable_order(context: Context, comparator: Computation, rows: Sequence[Array]) -> Array:
    """Returns, for [rows, length] operands, the position in each row of the element that comes first, second, ..."""
    if rows[0].shape[1] < 2 or not rows[0].size:
        return np.broadcast_to(np.arange(rows[0].shape[1]), rows[0].shape)
    keys = comparator_keys(context, comparator, rows)
    if keys is None:
        return _merge_order(context, comparator, rows)
    if not keys:
        return np.broadcast_to(np.arange(rows[0].shape[1]), rows[0].shape)
    order: Array = np.lexsort(keys[::-1], axis=-1)
    return order


def _merge_order(context: Context, comparator: Computation, rows: Sequence[Array]) -> Array:
    """Returns the order by merge sort: runs of 1, 2, 4, ... elements are merged in pairs."""
    count, length = rows[0].shape
    order = np.arange(count * length)
    elements = [array.reshape(-1) if used else None for array, used in zip(rows, _used(comparator), strict=True)]
    width = 1
    while width < length:
        current = [None if array is None else array[order] for array in elements]
        source = _merge_runs(_comparison(context, comparator, current, rows), count, length, width)
        order = order[source]
        width *= 2
    within_row: Array = order.reshape(count, length) % length
    return within_row


def _used(comparator: Computation) -> list[bool]:
    """Returns whether the comparator reads each operand; other operands need not be moved while sorting."""
    read = [parameter.has_users or parameter.is_root for parameter in comparator.parameters]
    return [left or right for left, right in zip(read[::2], read[1::2], strict=True)]


def _comparison(
    context: Context, comparator: Computation, current: Sequence[Array | None], rows: Sequence[Array]
) -> Precedes:
    def precedes(left: Array, right: Array) -> Array:
        arguments: list[Array] = []
        for array, row in zip(current, rows, strict=True):
            unread = np.zeros((), row.dtype)
            arguments += [unread, unread] if array is None else [array[left], array[right]]
        return np.broadcast_to(apply_scalar_computation(context, comparator, arguments), left.shape)

    return precedes


def _merge_runs(precedes: Precedes, count: int, length: int, width: int) -> Array:
    """Merges neighboring runs of `width` elements in every row; returns the position that each element comes from.

    A binary search finds how many elements of the right run precede an element of the left run; the element moves after
    them.
    The elements of the right runs fill the remaining positions in order.
    """
    row, place = np.divmod(np.arange(count * length), length)
    is_left = (place // width) % 2 == 0
    left, right = np.flatnonzero(is_left), np.flatnonzero(~is_left)
    start = left - place[left] % width
    end_of_row = (row[left] + 1) * length
    middle = np.minimum(start + width, end_of_row)
    low, high = middle, np.minimum(start + 2 * width, end_of_row)
    for _ in range(width.bit_length()):
        probe = (low + high) // 2
        is_open = low < high
        before = precedes(np.where(is_open, probe, left), left)
        low, high = np.where(is_open & before, probe + 1, low), np.where(is_open & ~before, probe, high)
    low = np.maximum.accumulate(low)  # already ascending, unless the comparator contradicts itself
    target = left + (low - middle)
    source = np.empty(count * length, np.int64)
    is_free = np.ones(count * length, np.bool_)
    is_free[target] = False
    source[target] = left
    source[is_free] = right
    return source
