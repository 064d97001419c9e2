"""Random arguments for a program: values of moderate size for every parameter, tuples included.

Owns: the walk over shapes. The values come from `random_values`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from xlapy.base.shape import Shape
from xlapy.testing.random_values import random_array


def random_arguments(parameters: Iterable[Shape], seed: int, *, special: bool = False) -> list[Any]:
    """One argument a parameter; equal seeds give equal arguments. `special` mixes in NaN, infinities and extremes."""
    rng = np.random.default_rng(seed)
    return [_argument(shape, rng, special) for shape in parameters]


def _argument(shape: Shape, rng: np.random.Generator, special: bool) -> Any:
    if shape.is_tuple:
        return tuple(_argument(element, rng, special) for element in shape.tuple_shapes)
    return random_array(shape.dimensions, shape.dtype, rng, special) if shape.is_array else None
