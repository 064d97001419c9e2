"""A value on a device: `Buffer`, what programs return and take.

Owns: the array protocol of results. Must not know: programs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy.base.shape import Shape


class Buffer:
    """An immutable array on a device; `np.asarray(buffer)` and DLPack read it without a copy."""

    __slots__ = ("_array", "_shape")

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array
        array.flags.writeable = False
        self._shape = Shape.of(array)

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The elements as a read-only NumPy array."""
        return self._array

    @property
    def xla_shape(self) -> Shape:
        return self._shape

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions, as NumPy and JAX arrays give them."""
        return self._array.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._array.dtype

    @property
    def ndim(self) -> int:
        return self._array.ndim

    @property
    def size(self) -> int:
        return self._array.size

    def item(self) -> Any:
        """The one element as a Python number; ValueError if there are more."""
        return self._array.item()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self._array, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self._array.__dlpack_device__()
        return device

    def __float__(self) -> float:
        return float(self._array)

    def __int__(self) -> int:
        return int(self._array)

    def __bool__(self) -> bool:
        return bool(self._array)

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, index: Any) -> Any:
        return self._array[index]

    def __repr__(self) -> str:
        return f"Buffer({self._shape.brief}, {np.array2string(self._array, threshold=20)})"
