"""Buffers behind PJRT handles: making them, and reading their elements as NumPy arrays.

Responsible for buffers from and to NumPy arrays. Does not depend on programs or on entries.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy.base.element_types import PRED, TOKEN, PrimitiveType
from xlapy.base.error_codes.execution import calls as codes
from xlapy.base.error_codes.execution import devices as device_codes
from xlapy.base.error_codes.interfaces import pjrt as pjrt_codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.passes.layouts.entry_layouts import Order
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.types import number_of, type_of
from xlapy.pjrt.objects.layouts import inverse, layout_handle, order_at, physical, row_major
from xlapy.pjrt.objects.platform import PlatformDevice, platform
from xlapy.pjrt.objects.records import Record, read_words
from xlapy.runtime.engine.core.memory import STORAGE_BYTES
from xlapy.runtime.engine.launch_errors import take_error

Array = np.ndarray[Any, Any]


def element_type_of(buffer: Record) -> PrimitiveType:
    """The element type of a buffer. A token has type PRED, which is what JAX passes for one."""
    number = buffer["type"]
    return PRED if number == number_of(TOKEN) else type_of(number)


def dimensions_of(buffer: Record) -> list[int]:
    return read_words(buffer["dims"], buffer["num_dims"])


@contextmanager
def arrays_of(handles: Sequence[int]) -> Iterator[list[Array]]:
    """Yields the elements of buffers as read-only arrays, which are valid within the context. Waits for launches that
    write them.

    `InvalidArgumentError` if a buffer was deleted, `FailedLaunchError` if its launch has failed.
    """
    storages: list[int] = []
    try:
        for handle in handles:
            storage = native().acquire_hold(handle)
            if storage is None:
                raise InvalidArgumentError(codes.DELETED_BUFFER, "the buffer has been deleted or donated")
            storages.append(storage)
        for handle in handles:
            await_buffer(handle)
        yield [_array(Record("buffer", handle)) for handle in handles]
    finally:
        for storage in storages:
            native().release(storage)


@dataclass
class AcquiredArrays:
    """The arguments of a launch. rows: for each device, the elements of its arguments as read-only arrays."""

    rows: list[list[Array]]
    is_running: bool = False

    def keep_donated(self) -> None:
        """Says that the launch is not refused: donated buffers are deleted, whatever becomes of it."""
        self.is_running = True


@contextmanager
def acquired_arrays(rows: Sequence[Sequence[int]], donated: Sequence[int]) -> Iterator[AcquiredArrays]:
    """Yields the elements of the arguments of a launch, which are valid within the context. Waits for launches that
    write them.

    rows: for each device, the handles of its arguments. donated: numbers of the arguments whose storage the launch
    takes, so that no other launch gets it. It is given back unless the launch says that it runs.
    `InvalidArgumentError` if a buffer was deleted or donated, `FailedLaunchError` if the launch that writes it failed.
    """
    held: list[int] = []
    taken: list[tuple[int, int]] = []
    made = AcquiredArrays([])
    try:
        for row in rows:
            for number, handle in enumerate(row):
                is_donated = number in donated
                storage = native().take_storage(handle) if is_donated else native().acquire_hold(handle)
                if storage is None:
                    raise InvalidArgumentError(codes.DELETED_BUFFER, "the buffer has been deleted or donated")
                if is_donated:
                    taken.append((handle, storage))
                else:
                    held.append(storage)
        for row in rows:
            for handle in row:
                await_buffer(handle)
        made.rows = [[_array(Record("buffer", handle)) for handle in row] for row in rows]
        yield made
    finally:
        made.rows = []
        for storage in held:
            native().release(storage)
        for handle, storage in taken:
            if made.is_running:
                native().release(storage)
            else:
                native().give_storage_back(handle, storage)


def await_buffer(handle: int) -> None:
    """Waits until the elements of a buffer are ready; `FailedLaunchError` if its launch has failed."""
    address = native().await_event(Record("buffer", handle)["event"])
    if address is None:
        return
    raise take_error(native(), address)


def _array(buffer: Record) -> Array:
    array = array_in_order(buffer["data"], element_type_of(buffer), dimensions_of(buffer), order_at(buffer["layout"]))
    array.flags.writeable = False
    return array


def array_in_order(address: int, element_type: PrimitiveType, dimensions: Sequence[int], order: Order) -> Array:
    """Returns the elements at an address, whose dimensions lie in the given order, as an array."""
    return array_at(address, element_type, physical(dimensions, order)).transpose(inverse(order))


def array_at(address: int, element_type: PrimitiveType, dimensions: Sequence[int]) -> Array:
    """Returns the elements at an address as an array, which does not keep them alive."""
    dtype = element_type.dtype
    assert dtype is not None, "only arrays have elements"
    size = math.prod(dimensions) * dtype.itemsize
    memory: Any = (ctypes.c_char * size).from_address(address) if size else bytearray()
    return np.ndarray(tuple(dimensions), dtype, memory)


def record_on_storage(
    type: int, dimensions: Sequence[int], memory: int, order: Order, storage: int, data: int, event: int | None = None
) -> int:
    """Makes the record of a buffer, which takes over the ownership of its storage and of its event; returns its handle.

    type: PJRT's number of the element type. event: completes when the elements are ready; by default they are.
    """
    dims = (ctypes.c_int64 * max(1, len(dimensions)))(*dimensions)
    (device,) = read_words(Record("memory", memory)["devices"], 1)
    size = 0 if type == number_of(TOKEN) else byte_count(type_of(type), dimensions)
    ready = native().ready_event_handle() if event is None else event
    layout, address = layout_handle(order), ctypes.addressof(dims)
    made = native().new_buffer(type, address, len(dimensions), size, device, memory, layout, storage, data, ready)
    if made is None:
        native().release(storage)
        native().release_event(ready)
        raise MemoryError("out of memory for the record of a buffer")
    return int(made)


def byte_count(element_type: PrimitiveType, dimensions: Sequence[int]) -> int:
    """The size of an array in bytes; `InvalidArgumentError` unless the dimensions are sizes whose product an address
    can reach."""
    size = math.prod(dimensions) * element_type.byte_size
    if any(dimension < 0 for dimension in dimensions) or size >= 1 << 63:
        raise InvalidArgumentError(pjrt_codes.BUFFER_TYPE, f"an array cannot have the dimensions {list(dimensions)}")
    return size


def allocate(size: int) -> int:
    """Allocates a storage; `MemoryError` if memory is exhausted."""
    storage = native().allocate(size)
    if storage is None:
        raise MemoryError(f"out of memory for a buffer of {size} bytes")
    return int(storage)


def new_buffer(
    element_type: PrimitiveType, dimensions: Sequence[int], memory: int, order: Order | None = None
) -> tuple[int, Array]:
    """Allocates a buffer. Returns its handle and its elements, which are to be written before the handle is passed on.

    order: order of the dimensions in memory, by default row-major.
    """
    order = row_major(len(dimensions)) if order is None else order
    storage = allocate(byte_count(element_type, dimensions))
    data = storage + STORAGE_BYTES
    handle = record_on_storage(number_of(element_type), dimensions, memory, order, storage, data)
    return handle, array_in_order(data, element_type, dimensions, order)


def new_token(memory: int) -> int:
    """Makes the buffer of a token; returns its handle."""
    storage = allocate(0)
    return record_on_storage(number_of(TOKEN), (0,), memory, row_major(1), storage, storage + STORAGE_BYTES)


@dataclass(frozen=True)
class PendingBuffer:
    """A buffer whose elements will be written, and what writes them owns: the storage, and the event that completes
    the buffer. data: address of the first element."""

    handle: int
    storage: int
    event: int
    data: int

    def complete(self, error: int | None = None) -> None:
        """Makes the elements ready, or fails the buffer with an error record, which is taken over. Gives up what the
        writer owns."""
        native().complete_host_event(self.event, error, self.storage)
        native().release(self.storage)


def pending_buffer(type: int, dimensions: Sequence[int], memory: int, order: Order) -> PendingBuffer:
    """Allocates a buffer whose elements are not ready. type: PJRT's number of the element type."""
    storage = allocate(0 if type == number_of(TOKEN) else byte_count(type_of(type), dimensions))
    event = native().new_event(2)
    if event is None:
        native().release(storage)
        raise MemoryError("out of memory for the event of a buffer")
    data = storage + STORAGE_BYTES
    handle = record_on_storage(type, dimensions, memory, order, storage, data, event)
    return PendingBuffer(handle, int(native().acquire_hold(handle)), int(event), data)


def memory_of(device: int, memory: int) -> int:
    """Returns the memory that the arguments of an entry name, directly or through a device."""
    if memory:
        return memory
    chosen = platform().device_at(device) if device else platform().addressable_devices[0]
    if not chosen.memories:
        raise InvalidArgumentError(
            device_codes.ADDRESSABLE_DEVICE,
            f"device {chosen.number} belongs to process {chosen.process_index}: only that process places buffers there",
        )
    return chosen.memories["device"]


def device_of(buffer: Record) -> PlatformDevice:
    return platform().device_at(buffer["device"])
