"""A value on a device: `Buffer`, what programs return and take.

Owns: the array protocols of results, the memory behind them and its end. Must not know: programs.
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
    """What arrays of one element type and size have in common; one object a kind, so that `is` compares them."""

    __slots__ = ("__weakref__", "dimensions", "dtype", "misaligned", "shape")

    def __init__(self, element_type: PrimitiveType, dimensions: tuple[int, ...]) -> None:
        self.shape = Shape.array(element_type, dimensions)
        self.dtype = self.shape.dtype
        self.dimensions = dimensions
        self.misaligned = self.dtype.alignment - 1
        """The bits of an address that are 0 where elements are aligned."""


_types: WeakValueDictionary[tuple[PrimitiveType, tuple[int, ...]], ArrayType] = WeakValueDictionary()
_types_lock = threading.Lock()


def array_type(shape: Shape) -> ArrayType:
    """The one `ArrayType` of an array shape, its layout aside."""
    key = (shape.element_type, shape.dimensions)
    with _types_lock:
        found = _types.get(key)
        if found is None:
            found = _types[key] = ArrayType(*key)
        return found


class Buffer:
    """An immutable array on a device; `np.asarray(buffer)` and DLPack read it without a copy.

    After `delete`, or when a program has taken its memory (`compile(..., donate=...)`), every use but its shape raises
    `InvalidArgumentError`. Arrays that were made of it before stay what they are.
    """

    __slots__ = ("__weakref__", "_address", "_array", "_fate", "_memory", "_type")

    _type: ArrayType
    _memory: Any
    """What keeps the elements: the array itself, or memory of ours, a `ctypes` array; None after the end."""
    _address: int
    """Of the first element in memory of ours; else, and after the end, 0."""
    _array: np.ndarray[Any, Any] | None
    _fate: str

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        array.flags.writeable = False
        self._type = array_type(Shape.of(array))
        self._memory = self._array = array
        self._address = 0

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The elements as a read-only NumPy array."""
        array = self._array
        return self._made_array() if array is None else array

    def _made_array(self) -> np.ndarray[Any, Any]:
        memory, address = self._memory, self._address
        if memory is None:
            raise InvalidArgumentError(self.fate)
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
        """Bytes of the elements."""
        return self.size * self.dtype.itemsize

    # -- the end

    def delete(self) -> None:
        """Gives the memory back, as soon as nothing made of it is in use; a second time does nothing."""
        self.end("was deleted")

    def is_deleted(self) -> bool:
        """Whether it was deleted or donated."""
        return self._memory is None

    @property
    def fate(self) -> str:
        """Why it cannot be used: `the buffer f32[4] was donated ...`."""
        return f"the buffer {self._type.shape.to_text(layout=False)} {self._fate} and cannot be used any more"

    def end(self, fate: str) -> Any:
        """Ends it, for a reason to be told; what kept its elements, or None if it has ended before."""
        memory = self._memory
        if memory is not None:
            self._fate = fate
            self._address, self._memory = 0, None
            self._array = None
        return memory

    def end_by_donation(self, fate: str) -> tuple[Any, bool]:
        """As `end`; also whether the memory is now the caller's alone, to be overwritten.

        `InvalidArgumentError` if it has ended before: of two threads that donate it at once one is too late.
        """
        ours = self._memory is not self._array
        memory = [self.end(fate)]
        if memory[0] is None:
            raise InvalidArgumentError(self.fate)
        alone = ours and sys.getrefcount(memory[0]) == 2  # the list's, and the call's own
        return memory[0], alone

    # -- as an array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.array, dtype=dtype, copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        """A consumer that knows versions of DLPack is told that the elements are read-only; one that does not must not
        write to them."""
        array = self.array
        version = options.get("max_version")
        if (version is None or version[0] < 1) and self._memory is not array:
            array = _view(self._type, self._memory, self._address)
        return array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        device: tuple[int, int] = self.array.__dlpack_device__()
        return device

    def item(self) -> Any:
        """The one element as a Python number; ValueError if there are more."""
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
        brief = self._type.shape.to_text(layout=False)
        shown = self._fate if self.is_deleted() else np.array2string(self.array, threshold=20)
        return f"Buffer({brief}, {shown})"


_new = object.__new__


def buffer_at(type: ArrayType, memory: Any, address: int) -> Buffer:
    """A buffer of elements in memory of ours, a `ctypes` array."""
    made = _new(Buffer)
    made._type = type
    made._memory = memory
    made._address = address
    made._array = None
    return made


def _view(type: ArrayType, memory: Any, address: int) -> np.ndarray[Any, Any]:
    """The elements as an array that keeps the memory: it counts as a reference to it."""
    return np.ndarray(type.dimensions, type.dtype, memory, address - ctypes.addressof(memory))


def put(value: Any) -> Buffer:
    """A copy of an array in memory of ours."""
    array = np.asarray(value)
    type = array_type(Shape.of(array))
    memory = allocator.memory(array.nbytes)
    made = buffer_at(type, memory, ctypes.addressof(memory))
    _view(type, memory, made._address)[...] = array
    return made
