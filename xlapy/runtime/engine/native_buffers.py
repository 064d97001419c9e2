"""Buffers of the engine, as capsules that Python objects own.

Responsible for making buffers from arrays and arrays from buffers, and for waiting. Does not depend on programs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from xlapy.runtime.array_types import ArrayType, token_type
from xlapy.runtime.engine.device_programs import ArrayForm, buffer_template
from xlapy.runtime.engine.launch_errors import take_error
from xlapy.runtime.engine.native_engine import callbacks, device_stream, engine
from xlapy.runtime.engine.records import KeptObjects, Record

_WAIT_NANOSECONDS = 50_000_000
"""How long a thread waits before signal handlers may run."""

pointer: Any = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)
"""The address of the record in a capsule, given None as the second argument. A prototype of its own: anyone may change
the types of `ctypes.pythonapi.PyCapsule_GetPointer`."""


def template(type: ArrayType, stream: int = 0) -> int:
    """The record of which buffers of a type start as copies. stream: that of their device, by default of the first
    device of clients of this process alone."""
    stream = stream or device_stream(0, 0)
    made = type.templates.get(stream)
    if made is None:
        kept = KeptObjects()
        address = buffer_template(kept, type.shape, ArrayForm(type.dimensions, 0), stream, 0)
        made = type.templates.setdefault(stream, (address, kept))
    return made[0]


def copied(type: ArrayType, array: np.ndarray[Any, Any], stream: int = 0) -> Any:
    """The capsule of a new buffer with the elements of an array."""
    dense = np.ascontiguousarray(array)
    return engine().filled_buffer(template(type, stream), dense.__array_interface__["data"][0])


def new_token(stream: int) -> Any:
    """The capsule of a token that is ready, on the device of a stream."""
    return engine().filled_buffer(template(token_type(), stream), None)


def shared(type: ArrayType, handle: Any, stream: int) -> Any | None:
    """The capsule of a buffer on the device of a stream that shares the memory of another one, whose elements must be
    ready; None if that was deleted."""
    made = engine().buffer_of_storage(template(type, stream), pointer(handle, None))
    return None if made == 0 else made


def view(type: ArrayType, handle: Any) -> np.ndarray[Any, Any] | None:
    """The elements as a writable array that keeps their memory alive; None if the buffer was deleted. Waits for them
    and raises the error of the program that was to write them."""
    record = Record("buffer", pointer(handle, None))
    owner = engine().storage_capsule(record.address)
    if owner == 0:
        return None
    await_event(record["event"])
    memory: Any = (ctypes.c_char * record["on_device_size_in_bytes"]).from_address(record["data"])
    memory.owner = owner  # arrays refer to the memory, and so keep the storage alive
    return np.ndarray(type.dimensions, type.dtype, memory)


def address(handle: Any) -> int:
    """The address of the first element."""
    return Record("buffer", pointer(handle, None))["data"]


def device(handle: Any) -> int:
    """The handle of the device, which is its stream for buffers that are not PJRT's."""
    return Record("buffer", pointer(handle, None))["device"]


def event(handle: Any) -> int:
    """The event that completes when the elements are ready."""
    return Record("buffer", pointer(handle, None))["event"]


def is_ready(handle: Any) -> bool:
    """Whether the elements are there, or the program that was to write them has failed."""
    return bool(engine().is_event_complete(event(handle)))


def readable() -> Callable[[Any], bool]:
    """A native function: whether the elements of the buffer in a capsule can be read at once, because it is not
    deleted, and no program is still to write it or has failed to."""
    function: Callable[[Any], bool] = engine().python_function("is_readable")
    return function


def is_deleted(handle: Any) -> bool:
    """Whether a buffer was deleted or is donated."""
    return bool(engine().is_deleted(pointer(handle, None)))


def delete(handle: Any) -> None:
    """Deletes a buffer."""
    engine().delete_buffer(pointer(handle, None))


def take(handle: Any) -> bool:
    """Deletes a buffer; returns whether it was not deleted before. Of several threads, one succeeds."""
    storage = engine().take_storage(pointer(handle, None))
    if storage is None:
        return False
    engine().release(storage)
    return True


def count_readable(handles: list[Any]) -> int:
    """How many buffers from the first one on can be read at once: until one is deleted, not ready, or failed."""
    return int(engine().count_readable(handles, len(handles)))


def await_event(event: int) -> None:
    """Waits for an event of the engine; raises its error. Signal handlers run meanwhile: if one raises, the launch that
    completes the event is canceled, with those that the same thread queued before."""
    native = engine()
    try:
        while not native.await_briefly(event, _WAIT_NANOSECONDS):
            pass
    except BaseException:
        native.cancel_launch_of_event(event)
        callbacks.note_canceled()
        raise
    error = native.event_error(event)
    if error is not None:
        raise take_error(native, error)
