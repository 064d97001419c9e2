"""Arrays on a device: `Buffer`, which programs take and return.

A buffer of the platform `cpu` is a record of the engine: its elements may be written by a launch that has not finished.
The buffers of other platforms hold NumPy arrays.

Responsible for the array protocols of buffers, and for their memory until it is deleted or donated. Does not depend on
programs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Self

import numpy as np

from xlapy.base.arguments.checking import checked_class
from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.element_types import as_dtype
from xlapy.base.error_codes.execution import calls as codes
from xlapy.base.errors import ExecutionError, IndexRangeError, InvalidArgumentError
from xlapy.base.shape import Shape
from xlapy.base.value import Token
from xlapy.runtime.array_types import ArrayType, array_type

_lock = fork_safe_lock()
"""Guards the arrays of buffers."""


_loaded: list[ModuleType] = []
"""What `_native` has loaded: nothing can be imported when the interpreter ends, but finalizers may use buffers then."""


def _native() -> ModuleType:
    """The engine's buffers. Platforms other than cpu do not load the engine."""
    if not _loaded:
        from xlapy.runtime.engine import native_buffers

        _loaded.append(native_buffers)
    return _loaded[0]


_readable: list[Callable[[Any], bool]] = []
"""The native function that says whether the elements of the buffer in a capsule can be read at once."""


def _load_readable() -> list[Callable[[Any], bool]]:
    _readable.append(_native().readable())
    return _readable


@checked_class
class Buffer:
    """An immutable array on a device; `np.asarray(buffer)` and DLPack read it without a copy.

    A call returns before a long program has run: `is_ready` says whether the elements are there,
    `block_until_ready` waits for them, and so does whatever reads them. If the program fails, that raises its error.

    After `delete`, or after a program has taken its memory (`compile(..., donate=...)`), every use except of its shape
    raises `InvalidArgumentError`. Arrays that were made from it before remain valid.

    >>> buffer = xla.Client().device_put(np.float32([1, 2, 3]))
    >>> buffer.shape, buffer.dtype, buffer[1].item()
    ((3,), dtype('float32'), 2.0)
    >>> np.asarray(buffer)
    array([1., 2., 3.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_array", "_deletion_reason", "_handle", "_type")

    _type: ArrayType
    _handle: Any
    """The capsule of the engine's record; None for other buffers."""
    _array: np.ndarray[Any, Any] | None
    """The elements, as far as they were read; for a buffer without a record None after deletion."""
    _deletion_reason: str

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        array.flags.writeable = False
        self._type = array_type(Shape.of(array))
        self._handle = None
        self._array = array

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The elements as a read-only NumPy array. Waits for them."""
        array = self._array
        return self._make_array() if array is None else array

    def _make_array(self) -> np.ndarray[Any, Any]:
        array = self._view()
        array.flags.writeable = False
        with _lock:
            if not hasattr(self, "_deletion_reason"):
                self._array = array
        return array

    def _view(self) -> np.ndarray[Any, Any]:
        """The elements of the engine's buffer as a new array that keeps them alive."""
        array = None if self._handle is None else _native().view(self._type, self._handle)
        if array is None:
            raise InvalidArgumentError(codes.DELETED_BUFFER, self.deletion_reason)
        return array

    @property
    def xla_shape(self) -> Shape:
        """Element type and dimensions."""
        return self._type.shape

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions, as NumPy and JAX arrays give them."""
        return self._type.dimensions

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type as NumPy has it."""
        return self._type.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self._type.dimensions)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self._type.shape.size

    @property
    def nbytes(self) -> int:
        """Size of the elements in bytes."""
        return self.size * self.dtype.itemsize

    def unsafe_buffer_pointer(self) -> int:
        """The address of the first element, which is valid until the buffer is deleted. Waits for the elements."""
        if self._handle is None or self.is_deleted():
            return int(self.array.__array_interface__["data"][0])
        self.block_until_ready()
        return int(_native().address(self._handle))

    # -- readiness

    def is_ready(self) -> bool:
        """Whether the elements are there, or the program that was to write them has failed."""
        if self.is_deleted():
            raise InvalidArgumentError(codes.DELETED_BUFFER, self.deletion_reason)
        return self._handle is None or bool(_native().is_ready(self._handle))

    def block_until_ready(self) -> Self:
        """Waits until the elements are there; returns the buffer. Raises the error of the program that was to write
        them, if it failed: `ExecutionError`.

        Ctrl-C ends the wait, and cancels the program, with those that this thread has called before it.
        """
        if self._handle is not None and (_readable or _load_readable())[0](self._handle):
            return self
        if self.is_deleted():
            raise InvalidArgumentError(codes.DELETED_BUFFER, self.deletion_reason)
        if self._handle is not None:
            _native().await_event(_native().event(self._handle))
        return self

    # -- deletion

    def delete(self) -> None:
        """Releases the memory as soon as no array made from it and no program is using it. Deleting twice has no
        effect."""
        self._note_deletion("was deleted")
        if self._handle is not None:
            _native().delete(self._handle)

    def is_deleted(self) -> bool:
        """Whether it was deleted or donated."""
        if self._handle is None:
            return self._array is None
        return bool(_native().is_deleted(self._handle))

    @property
    def deletion_reason(self) -> str:
        """Why the buffer cannot be used: `the buffer f32[4] was donated ...`."""
        reason = getattr(self, "_deletion_reason", "was deleted or donated")
        return f"the buffer {self._type.shape.to_text(layout=False)} {reason} and cannot be used any more"

    def _note_deletion(self, reason: str) -> None:
        """Remembers the first reason, and forgets the array."""
        with _lock:
            if not hasattr(self, "_deletion_reason"):
                self._deletion_reason = reason
            self._array = None

    def forget_array(self) -> None:
        """Forgets the array of a buffer of the engine, so that it does not count as a user of the memory."""
        if self._handle is not None:
            self._array = None

    def note_donation(self, reason: str) -> None:
        """Remembers why the engine's buffer, which a program has taken, cannot be used."""
        self._note_deletion(reason)

    def take(self, reason: str) -> None:
        """Deletes the buffer. `InvalidArgumentError` if it was deleted before; of several threads that take it at once,
        one succeeds."""
        if self._handle is None:
            with _lock:
                is_taken, self._array = self._array is not None, None
                if is_taken:
                    self._deletion_reason = reason
        else:
            is_taken = _native().take(self._handle)
            if is_taken:
                self._note_deletion(reason)
        if not is_taken:
            raise InvalidArgumentError(codes.DELETED_BUFFER, self.deletion_reason)

    def __copy__(self) -> Buffer:
        """A buffer with the same elements in memory of its own, which donating this one leaves alone."""
        return copy_to_buffer(self.array)

    def __deepcopy__(self, memo: dict[int, object]) -> Buffer:
        return self.__copy__()

    def __reduce__(self) -> tuple[object, ...]:
        return copy_to_buffer, (np.array(self.array),)

    # -- array protocols

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.array, dtype=as_dtype(dtype), copy=copy)

    def __dlpack__(self, **options: Any) -> Any:
        """Exports the elements. A consumer that supports versioned DLPack learns that they are read-only; other
        consumers must not write to them."""
        array = self.array
        version = options.get("max_version")
        if (version is None or version[0] < 1) and self._handle is not None:
            array = self._view()
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
        try:
            return self.array[index]
        except IndexError as error:
            raise IndexRangeError(
                codes.BUFFER_INDEX, f"{self._type.shape.to_text(layout=False)}: {error}, given {index!r:.60}"
            ) from error

    def __repr__(self) -> str:
        shape = self._type.shape.to_text(layout=False)
        if self.is_deleted():
            return f"Buffer({shape}, {getattr(self, '_deletion_reason', 'was deleted or donated')})"
        try:
            contents = np.array2string(self.array, threshold=20)
        except ExecutionError as error:
            contents = f"failed: {error}"
        return f"Buffer({shape}, {contents})"


_new = object.__new__


def buffer_of_handle(type: ArrayType, handle: Any) -> Buffer:
    """Makes a buffer of the capsule of the engine's record."""
    buffer = _new(Buffer)
    buffer._type = type
    buffer._handle = handle
    buffer._array = None
    return buffer


class LaunchToken(Token):
    """A token that a program returns: it is ready when the program has run. A program that takes it as an argument runs
    afterwards, and fails if the first one failed."""

    __slots__ = ("_handle",)

    def __init__(self, handle: Any) -> None:
        """handle: the capsule of the engine's record."""
        self._handle = handle

    def is_ready(self) -> bool:
        """Whether the program has run, or failed."""
        return bool(_native().is_ready(self._handle))

    def block_until_ready(self) -> Self:
        """Waits until the program has run; returns the token. Raises the error of the program, as `Buffer` does."""
        _native().await_event(_native().event(self._handle))
        return self

    def __repr__(self) -> str:
        return f"TOKEN, {'ready' if self.is_ready() else 'pending'}"


def array_on_memory(type: ArrayType, memory: Any, address: int) -> np.ndarray[Any, Any]:
    """The elements at an address in memory, a `ctypes` array, as an array that keeps the memory alive."""
    return np.ndarray(type.dimensions, type.dtype, memory, address - ctypes.addressof(memory))


def copy_to_buffer(value: Any, client_number: int = 0) -> Buffer:
    """Copies an array to a new buffer of the engine, on the first device of a client. See `Device.client_number`."""
    array = np.asarray(value)
    type = array_type(Shape.of(array))
    native = _native()
    return buffer_of_handle(type, native.copied(type, array, native.device_stream(0, client_number)))


def block_until_ready(results: Any) -> Any:
    """Waits for all buffers and tokens in nested tuples and lists, such as the results of a call; returns the argument.
    Raises the error of a program that was to write one of them, if it failed.

    >>> double = xla.Client().compile("ENTRY e { x = f32[] parameter(0)  ROOT y = f32[] add(x, x) }")
    >>> xla.block_until_ready([double(1), double(2)])
    [Buffer(f32[], 2.), Buffer(f32[], 4.)]
    """
    if results.__class__ is Buffer:
        results.block_until_ready()
        return results
    buffers = list(_buffers(results))
    handles = [buffer._handle for buffer in buffers]
    if handles and (None in handles or _native().count_readable(handles) < len(handles)):
        for buffer in buffers:
            buffer.block_until_ready()
    return results


def _buffers(results: Any) -> Iterator[Buffer | LaunchToken]:
    """The buffers and tokens in nested tuples and lists."""
    if results.__class__ is Buffer or isinstance(results, LaunchToken):
        yield results
    elif isinstance(results, tuple | list):
        for element in results:
            yield from _buffers(element)
