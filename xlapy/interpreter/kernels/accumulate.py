"""Combines a sequence of updates into their target elements, in order, by any scalar computation.

Responsible for combining updates with a common target without a loop over elements; used by scatter and
select-and-scatter. Does not depend on how an op finds its targets.

The result is that of `current[target] = computation(current[target], update)` for each update in order. There are three
implementations:

- sums and products of floating-point numbers use NumPy's `ufunc.at`, which does exactly this;
- computations that can be reassociated (integer sums and products, maximum, minimum, and, or, xor, the choice of one
  argument) combine the updates of each target in pairs until one is left: log2(m) steps if a target has m updates;
- other computations take one step per update of the target with the most updates: step k applies the k-th update of
  every target. The steps together process each update once, so that the time is linear.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PrimitiveType
from xlapy.hlo.computation import Computation
from xlapy.hlo.monoids import monoid
from xlapy.interpreter.batching.scalar_computations import apply_reducer
from xlapy.interpreter.core import Array, Context
from xlapy.opcodes.registry import OpDef

_ROUNDED_OPS = (opcodes.ADD, opcodes.MULTIPLY)


def accumulate(
    context: Context, computation: Computation, current: Sequence[Array], targets: Array, updates: Sequence[Array]
) -> list[Array]:
    """Returns the N arrays `current` after all updates.

    `current`: arrays of cells along their first axis; a cell is a scalar, or an array whose elements are updated
    together. `targets`: the cell number of each update, in the order of the updates. `updates`: N arrays with one
    update per index of the first axis. `computation`: maps N current values and N updates to N new values (a tuple
    unless N = 1).
    """
    if not targets.size:
        return [np.array(array) for array in current]
    sequential = _sequential_ufunc(monoid(computation), current[0])
    if sequential is not None:
        result, update = np.array(current[0]), updates[0]
        rows = _as_rows(result) if result.ndim > 2 else result  # ufunc.at crashes the process above 32 dimensions
        with np.errstate(all="ignore"):
            sequential.at(rows, targets, _as_rows(update) if result.ndim > 2 else update)
        return [rows.reshape(result.shape)]
    order = np.argsort(targets, kind="stable")
    segments = _Segments(targets[order])
    arranged = [update[order] for update in updates]
    cells = [array[segments.targets] for array in current]
    if _is_reassociable(computation, current[0]):
        cells = _combine_in_pairs(context, computation, cells, segments.counts, arranged)
    else:
        cells = _apply_in_steps(context, computation, cells, segments, arranged)
    return [_with_cells(array, segments.targets, new) for array, new in zip(current, cells, strict=True)]


def _as_rows(array: Array) -> Array:
    """Reshapes an array to one row per cell."""
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _sequential_ufunc(op: OpDef | None, array: Array) -> np.ufunc | None:
    """Returns NumPy's function for a sum or product that rounds at every step, or None for another op or type."""
    element_type = PrimitiveType.from_dtype(array.dtype)
    if op is opcodes.ADD and (element_type.is_floating or element_type.is_complex):
        return np.add
    return np.multiply if op is opcodes.MULTIPLY and element_type.is_floating else None


def _is_reassociable(computation: Computation, array: Array) -> bool:
    """Returns whether updates can first be combined with each other: exact monoids, and the choice of one argument."""
    op = monoid(computation)
    if op is not None:
        return not (op in _ROUNDED_OPS and PrimitiveType.from_dtype(array.dtype).is_complex)
    root, count = computation.root_instruction, len(computation.parameters) // 2
    results = root.operands if root.op is opcodes.TUPLE else (root,)
    return all(
        result.op is opcodes.PARAMETER and result.parameter_number % count == number
        for number, result in enumerate(results)
    )


class _Segments:
    """The runs of equal numbers in a sorted list of targets: the target, the first index and the length of each run.

    Example: [2, 2, 7] has targets [2, 7], starts [0, 2], counts [2, 1].
    """

    def __init__(self, ordered: Array) -> None:
        self.starts: Array = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        self.targets: Array = ordered[self.starts]
        self.counts: Array = np.diff(np.append(self.starts, len(ordered)))


def _apply_in_steps(
    context: Context, computation: Computation, cells: list[Array], segments: _Segments, updates: list[Array]
) -> list[Array]:
    """Applies the first update of every segment, then the second of those that have one, and so on."""
    busiest_first = np.argsort(-segments.counts, kind="stable")
    starts, counts = segments.starts[busiest_first], segments.counts[busiest_first]
    state = [cell[busiest_first] for cell in cells]
    for number in range(counts[0]):
        active = int(np.searchsorted(-counts, -number))  # segments with more than `number` updates come first
        chosen = starts[:active] + number
        new = apply_reducer(context, computation, [s[:active] for s in state], [update[chosen] for update in updates])
        for target, value in zip(state, new, strict=True):
            target[:active] = value
    return [_with_cells(cell, busiest_first, s) for cell, s in zip(cells, state, strict=True)]


def _combine_in_pairs(
    context: Context, computation: Computation, cells: list[Array], counts: Array, updates: list[Array]
) -> list[Array]:
    """Combines neighbors within each segment until one update is left in each, then applies these updates."""
    while int(counts.max()) > 1:
        first = np.concatenate(([0], np.cumsum(counts)[:-1]))
        index = np.arange(len(updates[0])) - np.repeat(first, counts)
        left = np.flatnonzero(index % 2 == 0)
        paired = index[left] + 1 < np.repeat(counts, -(-counts // 2))
        kept = [update[left] for update in updates]
        partners = left[paired] + 1
        merged = apply_reducer(
            context, computation, [k[paired] for k in kept], [update[partners] for update in updates]
        )
        for target, value in zip(kept, merged, strict=True):
            target[paired] = value
        updates, counts = kept, -(-counts // 2)
    return apply_reducer(context, computation, cells, updates)


def _with_cells(array: Array, cells: Array, values: Array) -> Array:
    """Returns a copy of an array with the values written to the given cells."""
    result = np.array(array)
    result[cells] = values
    return result
