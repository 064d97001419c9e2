"""Entries that copy buffers: from the host, to the host, and between devices and memories.

A copy waits for the launch that writes its source without a thread: it returns a buffer or an event that completes with
it.

Responsible for these entries, as far as native code leaves them to Python. Does not depend on programs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.base.error_codes.execution import calls as calls_codes
from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.pjrt.c_api.entries import entry
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.types import type_of
from xlapy.pjrt.native.buffers import HOST_BUFFER_SEMANTICS_COUNT
from xlapy.pjrt.objects.buffers import (
    Array,
    array_at,
    array_in_order,
    arrays_of,
    byte_count,
    dimensions_of,
    element_type_of,
    memory_of,
    new_buffer,
    pending_buffer,
    record_on_storage,
)
from xlapy.pjrt.objects.layouts import order_at
from xlapy.pjrt.objects.memory_layouts import TILED, read_layout
from xlapy.pjrt.objects.platform import platform
from xlapy.pjrt.objects.records import Record, read_words


def hold(buffer: int) -> int:
    """Becomes an owner of the storage of a buffer, and returns it; `InvalidArgumentError` if it was deleted."""
    storage = native().acquire_hold(buffer)
    if storage is None:
        raise InvalidArgumentError(calls_codes.DELETED_BUFFER, "the buffer has been deleted or donated")
    return int(storage)


# -- from the host


@entry("Client_BufferFromHostBuffer")
def client_buffer_from_host_buffer(args: Any) -> None:
    """Copies a host array in the cases that native code leaves to Python, such as an array with strides."""
    element_type = type_of(args.type)
    if not 0 <= args.host_buffer_semantics < HOST_BUFFER_SEMANTICS_COUNT:
        raise InvalidArgumentError(codes.SEMANTICS, f"unknown host buffer semantics {args.host_buffer_semantics}")
    dimensions = read_words(args.dims, args.num_dims)
    if byte_count(element_type, dimensions) and not args.data:
        raise InvalidArgumentError(codes.NULL_POINTER, "PJRT_Client_BufferFromHostBuffer: data is null")
    order = read_layout(args.device_layout, args.num_dims)
    handle, elements = new_buffer(element_type, dimensions, memory_of(args.device, args.memory), order)
    if elements.size:
        strides = read_words(args.byte_strides, args.num_byte_strides)
        source = (
            _strided_array(args.data, elements, strides) if strides else array_at(args.data, element_type, dimensions)
        )
        elements[...] = source
    args.buffer, args.done_with_host_buffer = handle, native().ready_event_handle()


def _strided_array(address: int, like: Array, strides: Sequence[int]) -> Array:
    """Returns the host's elements, with positive or negative strides, as an array of the type and dimensions of
    `like`."""
    if len(strides) != like.ndim:
        raise InvalidArgumentError(codes.BUFFER_SIZE, f"{len(strides)} strides are given for {like.ndim} dimensions")
    extents = [stride * (size - 1) for stride, size in zip(strides, like.shape, strict=True)]
    first = sum(step for step in extents if step < 0)
    size = sum(map(abs, extents)) + like.itemsize
    memory: Any = (ctypes.c_char * size).from_address(address + first)
    return np.ndarray(like.shape, like.dtype, memory, offset=-first, strides=tuple(strides))


@entry("Client_CreateUninitializedBuffer")
def client_create_uninitialized_buffer(args: Any) -> None:
    """Makes a buffer of zeros, so that its elements are the same in every run."""
    dimensions = read_words(args.shape_dims, args.shape_num_dims)
    memory = memory_of(args.device, args.memory)
    order = read_layout(args.shape_layout, args.shape_num_dims)
    args.buffer, elements = new_buffer(type_of(args.shape_element_type), dimensions, memory, order)
    elements[...] = np.zeros((), elements.dtype)


@entry("Client_CreateViewOfDeviceBuffer")
def client_create_view_of_device_buffer(args: Any) -> None:
    """Makes a buffer on foreign memory, without a copy."""
    element_type, dimensions = type_of(args.element_type), read_words(args.dims, args.num_dims)
    alignment = element_type.byte_size // (2 if element_type.is_complex else 1)
    if args.device_buffer_ptr % alignment:
        raise InvalidArgumentError(
            codes.BUFFER_ALIGNMENT, f"the buffer at {args.device_buffer_ptr:#x} is not aligned to {alignment} bytes"
        )
    if byte_count(element_type, dimensions) and not args.device_buffer_ptr:
        raise InvalidArgumentError(
            codes.NULL_POINTER, "PJRT_Client_CreateViewOfDeviceBuffer: device_buffer_ptr is null"
        )
    order, memory = read_layout(args.layout, args.num_dims), memory_of(args.device, args.memory)
    address = args.device_buffer_ptr
    storage = native().borrow_foreign_memory(address, args.on_delete_callback, args.on_delete_callback_arg)
    if storage is None:
        raise MemoryError("out of memory for the view of a buffer")
    args.buffer = record_on_storage(args.element_type, dimensions, memory, order, storage, address)


# -- to the host


@entry("Buffer_ToHostBuffer")
def buffer_to_host_buffer(args: Any) -> None:
    """Copies a buffer to the host in the requested layout."""
    buffer = Record("buffer", args.src)
    size = buffer["on_device_size_in_bytes"]
    if not args.dst:
        args.dst_size = size
        return
    if args.dst_size < size:
        raise InvalidArgumentError(
            codes.BUFFER_SIZE, f"the buffer has {size} bytes, the host has room for {args.dst_size}"
        )
    order = read_layout(args.host_layout, buffer["num_dims"]) if args.host_layout else order_at(buffer["layout"])
    with arrays_of([args.src]) as (array,):
        array_in_order(args.dst, element_type_of(buffer), array.shape, order)[...] = array
    args.event = native().ready_event_handle()


@entry("Buffer_CopyRawToHost")
def buffer_copy_raw_to_host(args: Any) -> None:
    """Copies bytes of a buffer, in its own layout, when its elements are ready."""
    source, storage = _range_of(args)
    event = _new_event(storage)
    ready = Record("buffer", args.buffer)["event"]
    native().fill_when_ready(ready, source, storage, args.transfer_size, args.dst, None, event)
    args.event = event


@entry("Buffer_CopyRawToHostFuture")
def buffer_copy_raw_to_host_future(args: Any) -> None:
    """Prepares such a copy, which the caller starts once it knows where the bytes go."""
    source, storage = _range_of(args)
    event = _new_event(storage)
    ready = Record("buffer", args.buffer)["event"]
    fill = native().prepare_fill(ready, source, storage, args.transfer_size, None, None, event)
    if fill is None:
        raise MemoryError("out of memory for a copy to the host")
    args.event, args.callback_data = event, fill
    args.future_ready_callback = native().address("start_copy_to_host")


def _range_of(args: Any) -> tuple[int, int]:
    """The address of the first byte that a copy reads, and the storage, which it owns."""
    buffer = Record("buffer", args.buffer)
    size, begin, count = buffer["on_device_size_in_bytes"], *map(signed, (args.offset, args.transfer_size))
    if not 0 <= begin <= begin + count <= size:
        raise InvalidArgumentError(codes.BUFFER_SIZE, f"{count} bytes from {begin} are not in a buffer of {size} bytes")
    return buffer["data"] + begin, hold(args.buffer)


def signed(word: int) -> int:
    """The signed number in a word."""
    return word - (1 << 64) if word >= 1 << 63 else word


def _new_event(storage: int) -> int:
    """A pending event, owned by the caller and by whoever completes it. Releases the storage if memory is exhausted."""
    event = native().new_event(2)
    if event is None:
        native().release(storage)
        raise MemoryError("out of memory for an event")
    return int(event)


@entry("Buffer_GetMemoryLayout")
def buffer_get_memory_layout(args: Any) -> None:
    layout = Record("layout", Record("buffer", args.buffer)["layout"])
    args.layout_type, args.num_tiles = TILED, 0
    args.minor_to_major, args.minor_to_major_size = layout["minor_to_major"], layout["rank"]


# -- between memories


@entry("Buffer_CopyToMemory")
def buffer_copy_to_memory(args: Any) -> None:
    args.dst_buffer = copy_buffer(args.buffer, args.dst_memory)


@entry("Buffer_CopyToDevice")
def buffer_copy_to_device(args: Any) -> None:
    args.dst_buffer = copy_buffer(args.buffer, platform().device_at(args.dst_device).memories["device"])


def copy_buffer(buffer: int, memory: int) -> int:
    """Copies a buffer to a memory when its elements are ready; returns the handle of the copy."""
    record, storage = Record("buffer", buffer), hold(buffer)
    try:
        copy = pending_buffer(record["type"], dimensions_of(record), memory, order_at(record["layout"]))
    except BaseException:
        native().release(storage)
        raise
    size = record["on_device_size_in_bytes"]
    native().fill_when_ready(record["event"], record["data"], storage, size, copy.data, copy.storage, copy.event)
    return copy.handle


# -- the same memory


@entry("Buffer_Bitcast")
def buffer_bitcast(args: Any) -> None:
    """Makes a buffer of another type or other dimensions that shares the memory of a buffer."""
    record = Record("buffer", args.buffer)
    element_type, dimensions = type_of(args.element_type), read_words(args.dims, args.num_dims)
    size, given = byte_count(element_type, dimensions), record["on_device_size_in_bytes"]
    if size != given:
        raise InvalidArgumentError(
            codes.BUFFER_SIZE,
            f"a buffer of {given} bytes cannot become one of {size}: {element_type.name}{list(dimensions)}",
        )
    order = read_layout(args.device_layout, args.num_dims)
    memory, event = record["memory"], record["event"]
    storage = hold(args.buffer)
    native().retain_event(event)
    args.out_buffer = record_on_storage(args.element_type, dimensions, memory, order, storage, record["data"], event)


@entry("Buffer_DonateWithControlDependency")
def buffer_donate_with_control_dependency(args: Any) -> None:
    """Moves the memory of a buffer to another one, which is ready when the old one is and the caller has said so."""
    record = Record("buffer", args.buffer)
    event = native().new_event(2)
    if event is None:
        raise MemoryError("out of memory for the event of a buffer")
    storage = native().take_storage(args.buffer)
    if storage is None:
        for _ in range(2):
            native().release_event(event)
        raise InvalidArgumentError(calls_codes.DELETED_BUFFER, "the buffer has been deleted or donated")
    dimensions, order = dimensions_of(record), order_at(record["layout"])
    handle = record_on_storage(record["type"], dimensions, record["memory"], order, storage, record["data"], event)
    fill = native().prepare_fill(record["event"], None, None, 0, None, native().acquire_hold(handle), event)
    if fill is None:
        raise MemoryError("out of memory for the dependency of a buffer")
    args.out_buffer, args.callback_data = handle, fill
    args.dependency_ready_callback = native().address("complete_dependency")
