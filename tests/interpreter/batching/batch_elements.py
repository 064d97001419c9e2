"""Evaluates a computation on a whole batch and on each batch element alone, and asserts that both agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.interpreter import TOKEN, Context, evaluate_computation
from xlapy.interpreter.batching import evaluate_batch


def stacked(values: Sequence[Any], shape: Shape) -> Any:
    """Stacks values of one shape into one batched value."""
    if shape.is_tuple:
        return tuple(stacked([value[i] for value in values], part) for i, part in enumerate(shape.tuple_shapes))
    return np.stack(values) if shape.is_array else values[0]


def batch_element_of(value: Any, shape: Shape, number: int) -> Any:
    """Returns one batch element of a value, which may be batched or the same for all elements."""
    if isinstance(value, tuple):
        return tuple(batch_element_of(part, s, number) for part, s in zip(value, shape.tuple_shapes, strict=True))
    return value[number] if np.ndim(value) > shape.rank else value


def assert_batched_equals_one_by_one(
    computation: Computation, rows: Sequence[Sequence[Any]], pattern: Sequence[bool]
) -> None:
    """Asserts that batched evaluation equals evaluation one by one.

    `rows` has the arguments of each batch element. `pattern` says which arguments are batched; the others have the
    first row's value in all elements.
    """
    rows = [[own if p else first for own, first, p in zip(row, rows[0], pattern, strict=True)] for row in rows]
    columns = zip(zip(*rows, strict=True), computation.parameters, pattern, strict=True)
    arguments = [stacked(column, p.shape) if batched else column[0] for column, p, batched in columns]
    shape = computation.root_instruction.shape
    with np.errstate(all="ignore"):
        whole = evaluate_batch(Context(), computation, arguments)
    for number, row in enumerate(rows):
        assert_alike(
            batch_element_of(whole, shape, number), evaluate_computation(Context(), computation, list(row)), shape
        )


def assert_alike(ours: Any, theirs: Any, shape: Shape) -> None:
    """Compares values, allowing for the order of additions and multiplications of floating-point numbers."""
    if shape.is_tuple:
        for part, other, part_shape in zip(ours, theirs, shape.tuple_shapes, strict=True):
            assert_alike(part, other, part_shape)
    elif shape.is_array:
        assert (ours.shape, ours.dtype) == (shape.dimensions, shape.dtype) == (theirs.shape, theirs.dtype)
        if np.asarray(ours).tobytes() != np.asarray(theirs).tobytes():
            assert_close(ours, theirs)
    else:
        assert ours is theirs or TOKEN in (ours, theirs)


def assert_close(ours: np.ndarray[Any, Any], theirs: np.ndarray[Any, Any]) -> None:
    """Compares f32 and f64 numbers (and their complex types) within a few roundings of the largest; NaN equals NaN."""
    wide = np.complex128 if ours.dtype.kind == "c" else np.float64
    eps = np.finfo(ours.dtype).eps if ours.dtype.char in "fdFD" else 0.0
    finite = np.abs(theirs.astype(wide))
    largest = finite[np.isfinite(finite)].max(initial=0.0)
    np.testing.assert_allclose(ours.astype(wide), theirs.astype(wide), rtol=64 * eps, atol=64 * eps * largest)
