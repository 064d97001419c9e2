"""Arguments and results of a program in the form that it has behind some passes.

Owns: what becomes of values where passes change the entry's signature, as making dynamic dimensions static does.
Must not know: passes, how programs run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from xlapy.base.program_shape import ProgramShape
from xlapy.base.shape import Shape
from xlapy.interpreter import TOKEN, DynamicArray
from xlapy.runtime.engine.arguments import leaves
from xlapy.runtime.engine.dynamic_leaves import flatten_dynamic, unflatten_dynamic

Value = Any


def given_now(values: Sequence[Value], first: ProgramShape, now: ProgramShape) -> list[Value]:
    """Values of the parameters of the first form, as a call of the program in its present form takes them."""
    if _alike(first.parameters, now.parameters):
        return [_actual(value) for value in values]
    pairs = zip(values, first.parameters, strict=True)
    parts = iter([leaf for value, shape in pairs for leaf in flatten_dynamic(value, shape)])
    return [_nested(shape, parts) for shape in now.parameters]


def result_then(result: Value, first: ProgramShape, now: ProgramShape) -> Value:
    """A result of the present form as the first form would give it."""
    if _alike([first.result], [now.result]):
        return result
    return _actual(unflatten_dynamic(first.result, iter(leaves(result))))


def _alike(shapes: Sequence[Shape], others: Sequence[Shape]) -> bool:
    return len(shapes) == len(others) and all(a.compatible(b) for a, b in zip(shapes, others, strict=True))


def _actual(value: Value) -> Value:
    """Plain arrays of the actual sizes; None for a token."""
    if isinstance(value, tuple):
        return tuple(map(_actual, value))
    if value is TOKEN:
        return None
    return value.actual if isinstance(value, DynamicArray) else np.asarray(value)


def _nested(shape: Shape, parts: Iterator[Value]) -> Value:
    if shape.is_tuple:
        return tuple(_nested(element, parts) for element in shape.tuple_shapes)
    return next(parts) if shape.is_array else None
