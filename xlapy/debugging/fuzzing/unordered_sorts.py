"""Compares sorts whose comparator is not a strict weak order on their elements: the order is unspecified then.

Responsible for finding such rows and for arranging them in one order on both sides, so that they are still compared as
permutations of the operands. Rows that the comparator does order stay as they are. Does not depend on implementations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy.hlo.computation import Computation
from xlapy.hlo.traverse import ancestors
from xlapy.opcodes.elementwise import COMPARE, CompareAttributes, ComparisonType
from xlapy.opcodes.sorting import SORT, SortAttributes
from xlapy.testing.sum_errors import Step

Array = np.ndarray[Any, Any]
Value = Any


def with_unordered_rows_arranged(step: Step, result: Value) -> tuple[Step, Value]:
    """Returns a step and the result of another implementation with the unordered rows of both in the order of the bits
    of their elements; other steps as they are."""
    if step.instruction.op is not SORT:
        return step, result
    dimension = step.instruction.attributes_as(SortAttributes).dimension
    rows = _unordered_rows(step, dimension)
    if rows is None or not rows.any():
        return step, result
    ours, theirs = (_arranged(value, rows, dimension) for value in (step.value, result))
    return Step(step.instruction, step.operands, ours), theirs


def _unordered_rows(step: Step, dimension: int) -> Array | None:
    """Returns which rows have a NaN that IEEE's partial order compares; None if no comparison is partial.

    `a < b` says of a NaN that it neither precedes nor follows any number, as if it were equal to each of them.
    """
    found: Array | None = None
    for number in _partially_ordered(step.instruction.to_apply):
        has_nan = np.isnan(step.operands[number].astype(np.float64)).any(axis=dimension)
        found = has_nan if found is None else found | has_nan
    return found


def _partially_ordered(comparator: Computation) -> set[int]:
    """Returns the numbers of the floating-point operands that comparisons by the partial order depend on."""
    comparisons = [
        i
        for i in comparator
        if i.op is COMPARE and i.attributes_as(CompareAttributes).type != ComparisonType.TOTALORDER
    ]
    read = [p for p in comparator.parameters if p.shape.element_type.is_floating and p in ancestors(comparisons)]
    return {parameter.parameter_number // 2 for parameter in read}


def _arranged(value: Value, rows: Array, dimension: int) -> Value:
    """Returns one array, or a tuple of arrays that belong together, with some rows in the order of their bits."""
    arrays = [np.array(array) for array in (value if isinstance(value, tuple) else (value,))]
    moved = [np.moveaxis(array, dimension, -1) for array in arrays]
    for row in np.argwhere(rows):
        views = [array[tuple(row)] for array in moved]
        elements = [tuple(view[i : i + 1].tobytes() for view in views) for i in range(views[0].size)]
        order = sorted(range(len(elements)), key=elements.__getitem__)
        for view in views:
            view[...] = view[order]
    return tuple(arrays) if isinstance(value, tuple) else arrays[0]
