"""Combines a sequence of updates into the elements they are aimed at, in order, by any computation of scalars.

Owns: how updates that share a target are combined without a loop over elements. Scatter and select-and-scatter use it.
Must not know: how an op finds its targets.

The meaning is: for each update in order, `current[target] = computation(current[target], update)`. Three ways give it:

- sums and products of floating-point numbers go through NumPy's `ufunc.at`, which does just this;
- computations whose grouping does not matter (integer sums and products, maximum, minimum, and, or, xor, "the last
  one") halve the updates of each target again and again: log2(m) steps for m updates on the busiest target;
- any other computation runs in rounds, the k-th update of every target at once: m steps, whose total size is the number
  of updates. So many updates on one target cost a small step each, and never more than linear time.
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

_SUMS = (opcodes.ADD, opcodes.MULTIPLY)


def accumulate(
    context: Context, computation: Computation, current: Sequence[Array], targets: Array, updates: Sequence[Array]
) -> list[Array]:
    """The N arrays `current` after all updates.

    `current`: arrays of cells along their first axis (a cell is a scalar, or an array of them that are updated side
    by side). `targets`: one cell number an update, in the order of updating. `updates`: N arrays, an update along the
    first axis. `computation`: N current values and N updates to N new values (a tuple, or a bare value for N = 1).
    """
    if not targets.size:
        return [np.array(array) for array in current]
    sequential = _sequential(monoid(computation), current[0])
    if sequential is not None:
        result, update = np.array(current[0]), updates[0]
        rows = _as_rows(result) if result.ndim > 2 else result  # ufunc.at ends the process above 32 dimensions
        with np.errstate(all="ignore"):
            sequential.at(rows, targets, _as_rows(update) if result.ndim > 2 else update)
        return [rows.reshape(result.shape)]
    order = np.argsort(targets, kind="stable")
    segments = _Segments(targets[order])
    arranged = [update[order] for update in updates]
    cells = [array[segments.targets] for array in current]
    if _is_grouping_free(computation, current[0]):
        cells = _halve(context, computation, cells, segments.counts, arranged)
    else:
        cells = _in_rounds(context, computation, cells, segments, arranged)
    return [_with_cells(array, segments.targets, new) for array, new in zip(current, cells, strict=True)]


def _as_rows(array: Array) -> Array:
    """One row a cell."""
    return array.reshape(len(array), math.prod(array.shape[1:]))


def _sequential(op: OpDef | None, array: Array) -> np.ufunc | None:
    """NumPy's function for a sum or product that rounds at every step."""
    element_type = PrimitiveType.from_dtype(array.dtype)
    if op is opcodes.ADD and (element_type.is_floating or element_type.is_complex):
        return np.add
    return np.multiply if op is opcodes.MULTIPLY and element_type.is_floating else None


def _is_grouping_free(computation: Computation, array: Array) -> bool:
    """Whether updates may first be combined with each other: exact monoids, and the choice of one argument."""
    op = monoid(computation)
    if op is not None:
        return not (op in _SUMS and PrimitiveType.from_dtype(array.dtype).is_complex)
    root, count = computation.root_instruction, len(computation.parameters) // 2
    results = root.operands if root.op is opcodes.TUPLE else (root,)
    return all(
        result.op is opcodes.PARAMETER and result.parameter_number % count == number
        for number, result in enumerate(results)
    )


class _Segments:
    """The runs of equal targets in a sorted list of them: the target, the first place and the length of each.

    Example: [2, 2, 7] has targets [2, 7], starts [0, 2], counts [2, 1].
    """

    def __init__(self, ordered: Array) -> None:
        self.starts: Array = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
        self.targets: Array = ordered[self.starts]
        self.counts: Array = np.diff(np.append(self.starts, len(ordered)))


def _in_rounds(
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


def _halve(
    context: Context, computation: Computation, cells: list[Array], counts: Array, updates: list[Array]
) -> list[Array]:
    """Combines neighbours within each segment until one update is left in each, then applies these."""
    while int(counts.max()) > 1:
        first = np.concatenate(([0], np.cumsum(counts)[:-1]))
        place = np.arange(len(updates[0])) - np.repeat(first, counts)
        left = np.flatnonzero(place % 2 == 0)
        paired = place[left] + 1 < np.repeat(counts, -(-counts // 2))
        kept = [update[left] for update in updates]
        partners = left[paired] + 1
        merged = apply_reducer(
            context, computation, [k[paired] for k in kept], [update[partners] for update in updates]
        )
        for target, value in zip(kept, merged, strict=True):
            target[paired] = value
        updates, counts = kept, -(-counts // 2)
    return apply_reducer(context, computation, cells, updates)


def _with_cells(array: Array, places: Array, values: Array) -> Array:
    result = np.array(array)
    result[places] = values
    return result
