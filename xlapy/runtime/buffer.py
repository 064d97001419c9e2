"""Arrays on a device: `Buffer`, which programs take and return.

Responsible for the array protocols of buffers, and for their memory until it is deleted or donated. Does not depend on
programs.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from xlapy.base.element_types import PrimitiveType
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.shape import Shape
from xlapy.runtime.engine import allocator


class ArrayType:
    """Element type and dimensions of an array. There is one object per combination, so that `is` compares them."""

    __slots__ = ("__weakref__", "alignment_mask", "dimensions", "dtype", "shape")

    def __init__(self, element_type: PrimitiveType, dimensions: tuple[int, ...]) -> None:
        self.shape = Shape.array(element_type, dimensions)
        self.dtype = self.shape.dtype
        self.dimensions = dimensions
        self.alignment_mask = self.dtype.alignment - 1
        """Mask of the address bits that are 0 where elements are aligned."""


_types: WeakValueDictionary[tuple[PrimitiveType, tuple[int, ...]], ArrayType] = WeakValueDictionary()
_types_lock = threading.Lock()


def array_type(shape: Shape) -> ArrayType:
    """Returns the `ArrayType` of an array shape. Its layout is ignored."""
    key = (shape.element_type, shape.dimensions)
    with _types_lock:
        type = _types.get(key)
        if type is None:
            type = _types[key] = ArrayType(*key)
        return type


class Buffer:
    """An immutable array on a device; `np.asarray(buffer)` and DLPack read it without a copy.

    After `delete`, or after a program has taken its memory (`compile(..., donate=...)`), every use except of its shape
    raises `InvalidArgumentError`. Arrays that were made from it before remain valid.
    """

    __slots__ = ("__weakref__", "_address", "_array", "_deletion_reason", "_memory", "_type")

    _type: ArrayType
    _memory: Any
    """The owner of the elements: the NumPy array itself, or a `ctypes` array from the engine's allocator; None after
    deletion."""
    _address: int
    """Address of the first element in allocator memory; 0 for other memory and after deletion."""
    _array: np.ndarray[Any, Any] | None
    _deletion_reason: str

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        array.flags.writeable = False
        self._type = array_type(Shape.of(array))
        self._memory = self._array = array
        self._address = 0

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The elements as a read-only NumPy array."""
        array = self._array
        return self._make_array() if array is None else array

    def _make_array(self) -> np.ndarray[Any, Any]:
        memory, address = self._memory, self._address
        if memory is None:
            raise InvalidArgumentError(self.deletion_reason)
        array = _view(self._type, memory, address)
        array.flags.writeable = False
        self._array = array
        return array

    @property
    def xla_shape(self) -> Shape:
        return self._type.shape

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions, as NumPy and JAX arrays give them."""
        return self._type.dimensions

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._type.dtype

    @property
    def ndim(self) -> int:
        return len(self._type.dimensions)

    @property
    def size(self) -> int:
        return self._type.shape.size

    @property
    def nbytes(self) -> int:
        """Size of the elements in bytes."""
        return self.size * self.dtype.itemsize

    # -- deletion

    def delete(self) -> None:
        """Releases the memory as soon as no array made from it is in use. Deleting twice has no effect."""
        self.invalidate("was deleted")

    def is_deleted(self) -> bool:
        """Whether it was deleted or donated."""
        return self._memory is None

    @property
    def deletion_reason(self) -> str:
        """Why the buffer cannot be used: `the buffer f32[4] was donated ...`."""
        return (
            f"the buffer {self._type.shape.to_text(layout=False)} {self._deletion_reason} and cannot be used any more"
        )

    def invalidate(self, deletion_reason: str) -> Any:
        """Deletes the buffer and records the reason. Returns the owner of its elements, or None if it was deleted
        before."""
        memory = self._memory
        if memory is not None:
            self._deletion_reason = deletion_reason
            self._address, self._memory = 0, None
            self._array = None
        return memory

    def donate(self, deletion_reason: str) -> tuple[Any, bool]:
        """Deletes the buffer and returns the owner of its elements, and whether the caller is now the unique owner and
        may overwrite them.

        `InvalidArgumentError` if it was deleted before; of two threads that donate it at once, one gets this error.
        """
        is_allocated = self._memory is not self._array
        memory = [self.invalidate(deletion_reason)]
        if memory[0] is None:
            raise InvalidArgumentError(self.deletion_reason)
        is_unique = is_allocated and sys.getrefcount(memory[0]) == 2  # one of the list, one of the call
        return memory[0], is_unique

    # -- array protocols

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.array, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        """Exports the elements. A consumer that supports versioned DLPack learns that they are read-only; other
        consumers must not write to them."""
        array = self.array
        version = options.get("max_version")
        if (version is None or version[0] < 1) and self._memory is not array:
            array = _view(self._type, self._memory, self._address)
        return array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self.array.__dlpack_device__()
        return device

    def item(self) -> Any:
        """The single element as a Python number; ValueError if there are several."""
        return self.array.item()

    def __float__(self) -> float:
        return float(self.array)

    def __int__(self) -> int:
        return int(self.array)

    def __bool__(self) -> bool:
        return bool(self.array)

    def __len__(self) -> int:
        return len(self.array)

    def __getitem__(self, index: Any) -> Any:
        return self.array[index]

    def __repr__(self) -> str:
        shape = self._type.shape.to_text(layout=False)
        contents = self._deletion_reason if self.is_deleted() else np.array2string(self.array, threshold=20)
        return f"Buffer({shape}, {contents})"


_new = object.__new__


def buffer_on_memory(type: ArrayType, memory: Any, address: int) -> Buffer:
    """Makes a buffer of elements in allocator memory, a `ctypes` array."""
    buffer = _new(Buffer)
    buffer._type = type
    buffer._memory = memory
    buffer._address = address
    buffer._array = None
    return buffer


def _view(type: ArrayType, memory: Any, address: int) -> np.ndarray[Any, Any]:
    """Returns the elements as an array that references the memory and so keeps it alive."""
    return np.ndarray(type.dimensions, type.dtype, memory, address - ctypes.addressof(memory))


def copy_to_buffer(value: Any) -> Buffer:
    """Copies an array to a new buffer."""
    array = np.asarray(value)
    type = array_type(Shape.of(array))
    memory = allocator.allocate_ctypes(array.nbytes)
    buffer = buffer_on_memory(type, memory, ctypes.addressof(memory))
    _view(type, memory, buffer._address)[...] = array
    return buffer
