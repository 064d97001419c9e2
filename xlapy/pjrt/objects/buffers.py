"""Buffers behind PJRT handles, as NumPy arrays on their memory; the transfers that native code leaves to Python.

Responsible for buffers from and to NumPy arrays. Does not depend on programs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xlapy.base.element_types import PRED, TOKEN, PrimitiveType
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.passes.layouts.entry_layouts import Order
from xlapy.pjrt.c_api.entries import entry
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.types import number_of, type_of
from xlapy.pjrt.native.buffers import HOST_BUFFER_SEMANTICS_COUNT
from xlapy.pjrt.objects.layouts import inverse, layout_handle, order_at, physical, row_major
from xlapy.pjrt.objects.platform import PlatformDevice, platform
from xlapy.pjrt.objects.records import Record, read_words
from xlapy.runtime.engine.core.memory import STORAGE_BYTES
from xlapy.runtime.engine.launch_errors import take_error

Array = np.ndarray[Any, Any]

_TILED = 0
"""PJRT_Buffer_MemoryLayout_Type_Tiled."""

_LAYOUT_TYPE = 72
"""Offset of the field `type` in PJRT_Buffer_MemoryLayout."""
_MINOR_TO_MAJOR = 32
"""Offset of the fields `minor_to_major` and, directly after it, `minor_to_major_size`."""


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
                raise InvalidArgumentError("the buffer has been deleted or donated")
            storages.append(storage)
        for handle in handles:
            await_buffer(handle)
        yield [_array(Record("buffer", handle)) for handle in handles]
    finally:
        for storage in storages:
            native().release(storage)


def await_buffer(handle: int) -> None:
    """Waits until the elements of a buffer are ready; `FailedLaunchError` if its launch has failed."""
    address = native().await_event(Record("buffer", handle)["event"])
    if address is None:
        return
    raise take_error(native(), address)


def _array(buffer: Record) -> Array:
    array = _array_in_order(buffer["data"], element_type_of(buffer), dimensions_of(buffer), order_at(buffer["layout"]))
    array.flags.writeable = False
    return array


def _array_in_order(address: int, element_type: PrimitiveType, dimensions: Sequence[int], order: Order) -> Array:
    """Returns the elements at an address, whose dimensions lie in the given order, as an array."""
    return array_at(address, element_type, physical(dimensions, order)).transpose(inverse(order))


def array_at(address: int, element_type: PrimitiveType, dimensions: Sequence[int]) -> Array:
    """Returns the elements at an address as an array, which does not keep them alive."""
    dtype = element_type.dtype
    assert dtype is not None, "only arrays have elements"
    size = int(np.prod(dimensions, dtype=np.int64)) * dtype.itemsize
    memory: Any = (ctypes.c_char * size).from_address(address) if size else bytearray()
    return np.ndarray(tuple(dimensions), dtype, memory)


def new_record(element_type: PrimitiveType, dimensions: Sequence[int], memory: int, order: Order) -> Record:
    """Makes the record of a buffer, without a storage."""
    dims = (ctypes.c_int64 * max(1, len(dimensions)))(*dimensions)
    size = int(np.prod(dimensions, dtype=np.int64)) * element_type.byte_size
    number, layout = number_of(element_type), layout_handle(order)
    return Record("buffer", native().new_record(number, ctypes.addressof(dims), len(dimensions), size, memory, layout))


def new_buffer(
    element_type: PrimitiveType, dimensions: Sequence[int], memory: int, order: Order | None = None
) -> tuple[int, Array]:
    """Allocates a buffer. Returns its handle and its elements, which are to be written before the handle is passed on.

    order: order of the dimensions in memory, by default row-major.
    """
    order = row_major(len(dimensions)) if order is None else order
    size = int(np.prod(dimensions, dtype=np.int64)) * element_type.byte_size
    storage = native().allocate(size)
    if storage is None:
        raise MemoryError(f"out of memory for a buffer of {size} bytes")
    record = new_record(element_type, dimensions, memory, order)
    record["storage"], record["data"] = storage, storage + STORAGE_BYTES
    return record.address, _array_in_order(storage + STORAGE_BYTES, element_type, dimensions, order)


def new_token(memory: int) -> int:
    """Makes the buffer of a token; returns its handle."""
    handle, _ = new_buffer(PRED, (0,), memory)
    Record("buffer", handle)["type"] = number_of(TOKEN)
    return handle


def memory_of(device: int, memory: int) -> int:
    """Returns the memory that the arguments of an entry name, directly or through a device."""
    if memory:
        return memory
    return platform().device_at(device).memories["device"] if device else platform().devices[0].memories["device"]


def device_of(buffer: Record) -> PlatformDevice:
    return platform().device_at(buffer["device"])


# -- entries


@entry("Client_BufferFromHostBuffer")
def client_buffer_from_host_buffer(args: Any) -> None:
    """Copies a host array in the cases that native code leaves to Python, such as an array with strides."""
    element_type = type_of(args.type)
    if not 0 <= args.host_buffer_semantics < HOST_BUFFER_SEMANTICS_COUNT:
        raise InvalidArgumentError(f"unknown host buffer semantics {args.host_buffer_semantics}")
    dimensions = read_words(args.dims, args.num_dims)
    order = _layout_order(args.device_layout, args.num_dims)
    handle, elements = new_buffer(element_type, dimensions, memory_of(args.device, args.memory), order)
    if elements.size:
        strides = read_words(args.byte_strides, args.num_byte_strides)
        source = (
            _strided_array(args.data, elements, strides) if strides else array_at(args.data, element_type, dimensions)
        )
        elements[...] = source
    args.buffer, args.done_with_host_buffer = handle, native().ready_event_handle()


@entry("Client_CreateViewOfDeviceBuffer")
def client_create_view_of_device_buffer(args: Any) -> None:
    """Makes a buffer on foreign memory, without a copy."""
    element_type, dimensions = type_of(args.element_type), read_words(args.dims, args.num_dims)
    alignment = element_type.byte_size // (2 if element_type.is_complex else 1)
    if args.device_buffer_ptr % alignment:
        raise InvalidArgumentError(f"the buffer at {args.device_buffer_ptr:#x} is not aligned to {alignment} bytes")
    record = new_record(
        element_type, dimensions, memory_of(args.device, args.memory), _layout_order(args.layout, args.num_dims)
    )
    on_delete = args.on_delete_callback, args.on_delete_callback_arg
    args.buffer = native().make_view(record.address, args.device_buffer_ptr, *on_delete)


def _strided_array(address: int, like: Array, strides: Sequence[int]) -> Array:
    """Returns the host's elements, with positive or negative strides, as an array of the type and dimensions of
    `like`."""
    extents = [stride * (size - 1) for stride, size in zip(strides, like.shape, strict=True)]
    first = sum(step for step in extents if step < 0)
    size = sum(map(abs, extents)) + like.itemsize
    memory: Any = (ctypes.c_char * size).from_address(address + first)
    return np.ndarray(like.shape, like.dtype, memory, offset=-first, strides=tuple(strides))


def _layout_order(layout: int, rank: int) -> Order:
    """The order of dimensions that a PJRT_Buffer_MemoryLayout describes; row-major for a null pointer."""
    if not layout:
        return row_major(rank)
    if ctypes.c_int32.from_address(layout + _LAYOUT_TYPE).value != _TILED:
        raise UnsupportedError("layouts by strides are not supported: give the order of the dimensions")
    address, size = read_words(layout + _MINOR_TO_MAJOR, 2)
    order = tuple(read_words(address, size)[::-1]) if size else row_major(rank)
    if sorted(order) != list(row_major(rank)):
        raise InvalidArgumentError(f"the order {order} is not one of {rank} dimensions")
    return order


@entry("Buffer_ToHostBuffer")
def buffer_to_host_buffer(args: Any) -> None:
    """Copies a buffer to the host in the requested layout."""
    buffer = Record("buffer", args.src)
    size = buffer["on_device_size_in_bytes"]
    if not args.dst:
        args.dst_size = size
        return
    if args.dst_size < size:
        raise InvalidArgumentError(f"the buffer has {size} bytes, the host has room for {args.dst_size}")
    order = _layout_order(args.host_layout, buffer["num_dims"]) if args.host_layout else order_at(buffer["layout"])
    with arrays_of([args.src]) as (array,):
        _array_in_order(args.dst, element_type_of(buffer), array.shape, order)[...] = array
    args.event = native().ready_event_handle()


@entry("Buffer_GetMemoryLayout")
def buffer_get_memory_layout(args: Any) -> None:
    layout = Record("layout", Record("buffer", args.buffer)["layout"])
    args.layout_type, args.num_tiles = _TILED, 0
    args.minor_to_major, args.minor_to_major_size = layout["minor_to_major"], layout["rank"]


@entry("Buffer_CopyRawToHost")
def buffer_copy_raw_to_host(args: Any) -> None:
    size = Record("buffer", args.buffer)["on_device_size_in_bytes"]
    if not 0 <= args.offset <= args.offset + args.transfer_size <= size:
        raise InvalidArgumentError(f"{args.transfer_size} bytes from {args.offset} are not in a buffer of {size} bytes")
    with arrays_of([args.buffer]):
        ctypes.memmove(args.dst, Record("buffer", args.buffer)["data"] + args.offset, args.transfer_size)
    args.event = native().ready_event_handle()


@entry("Buffer_CopyToMemory")
def buffer_copy_to_memory(args: Any) -> None:
    args.dst_buffer = copy_buffer(args.buffer, args.dst_memory)


@entry("Buffer_CopyToDevice")
def buffer_copy_to_device(args: Any) -> None:
    args.dst_buffer = copy_buffer(args.buffer, platform().device_at(args.dst_device).memories["device"])


def copy_buffer(buffer: int, memory: int) -> int:
    """Copies a buffer to a memory; returns the handle of the copy."""
    record = Record("buffer", buffer)
    with arrays_of([buffer]) as (array,):
        handle, elements = new_buffer(element_type_of(record), array.shape, memory, order_at(record["layout"]))
        elements[...] = array
    Record("buffer", handle)["type"] = record["type"]
    return handle


@entry("Client_CreateUninitializedBuffer")
def client_create_uninitialized_buffer(args: Any) -> None:
    dimensions = read_words(args.shape_dims, args.shape_num_dims)
    memory = memory_of(args.device, args.memory)
    order = _layout_order(args.shape_layout, args.shape_num_dims)
    args.buffer, elements = new_buffer(type_of(args.shape_element_type), dimensions, memory, order)
    elements[...] = np.zeros((), elements.dtype)
