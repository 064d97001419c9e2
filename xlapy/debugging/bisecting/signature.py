"""Converts arguments and results between the original signature of a program and its signature after some passes.

Responsible for passes that change the signature of the entry, such as the one that makes dynamic dimensions static.
Does not depend on passes or on how programs run.
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


def to_current_arguments(values: Sequence[Value], original: ProgramShape, current: ProgramShape) -> list[Value]:
    """Converts arguments of the original signature to those of the current signature."""
    if _are_compatible(original.parameters, current.parameters):
        return [_without_padding(value) for value in values]
    pairs = zip(values, original.parameters, strict=True)
    leaf_values = iter([leaf for value, shape in pairs for leaf in flatten_dynamic(value, shape)])
    return [_assemble(shape, leaf_values) for shape in current.parameters]


def to_original_result(result: Value, original: ProgramShape, current: ProgramShape) -> Value:
    """Converts a result of the current signature to one of the original signature."""
    if _are_compatible([original.result], [current.result]):
        return result
    return _without_padding(unflatten_dynamic(original.result, iter(leaves(result))))


def _are_compatible(shapes: Sequence[Shape], others: Sequence[Shape]) -> bool:
    return len(shapes) == len(others) and all(a.compatible(b) for a, b in zip(shapes, others, strict=True))


def _without_padding(value: Value) -> Value:
    """Returns plain arrays of the actual sizes; None for a token."""
    if isinstance(value, tuple):
        return tuple(map(_without_padding, value))
    if value is TOKEN:
        return None
    return value.actual if isinstance(value, DynamicArray) else np.asarray(value)


def _assemble(shape: Shape, leaf_values: Iterator[Value]) -> Value:
    if shape.is_tuple:
        return tuple(_assemble(element, leaf_values) for element in shape.tuple_shapes)
    return next(leaf_values) if shape.is_array else None
