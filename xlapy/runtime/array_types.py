"""Types of arrays, one object per element type and dimensions.

Responsible for these objects. Does not depend on buffers or platforms.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.base.element_types import PrimitiveType
from xlapy.base.shape import Shape


class ArrayType:
    """Element type and dimensions of an array. There is one object per combination, so that `is` compares them."""

    __slots__ = ("__weakref__", "alignment_mask", "dimensions", "dtype", "shape", "templates")

    def __init__(self, element_type: PrimitiveType, dimensions: tuple[int, ...]) -> None:
        self.shape = Shape.array(element_type, dimensions)
        self.dtype = self.shape.dtype
        self.dimensions = dimensions
        self.alignment_mask = self.dtype.alignment - 1
        """Mask of the address bits that are 0 where elements are aligned."""
        self.templates: dict[int, tuple[int, Any]] = {}
        """The records of which the engine's buffers of this type start as copies, by the stream of their device:
        addresses, and what keeps them alive."""


_types: WeakValueDictionary[tuple[PrimitiveType, tuple[int, ...]], ArrayType] = WeakValueDictionary()
_lock = fork_safe_lock()


def array_type(shape: Shape) -> ArrayType:
    """Returns the `ArrayType` of an array shape. Its layout is ignored."""
    key = (shape.element_type, shape.dimensions)
    with _lock:
        type = _types.get(key)
        if type is None:
            type = _types.setdefault(key, ArrayType(*key))  # a finalizer may have added it meanwhile
        return type


@SingleFlight
def token_type() -> ArrayType:
    """What stands for the type of a token: the engine describes tokens as arrays without elements."""
    made = ArrayType.__new__(ArrayType)
    made.shape, made.dtype = Shape.token(), np.dtype(np.void)
    made.dimensions, made.alignment_mask, made.templates = (0,), 0, {}
    return made
