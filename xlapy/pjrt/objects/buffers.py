"""Buffers as Python sees them: arrays on their memory, and the transfers that native code leaves to Python.

Owns: buffers from and to NumPy arrays. Must not know: programs.
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
from xlapy.pjrt.c_api.entries import FailedRunError, entry
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.types import number_of, type_of
from xlapy.pjrt.native.buffers import SEMANTICS
from xlapy.pjrt.objects.layouts import inverse, layout_handle, order_at, physical, row_major
from xlapy.pjrt.objects.platform import PlatformDevice, platform
from xlapy.pjrt.objects.records import SIZES, Record, read_bytes, read_words

Array = np.ndarray[Any, Any]

STORAGE_HEAD = SIZES["storage"]
_TILED = 0
_LAYOUT_TYPE = 72
"""Where PJRT_Buffer_MemoryLayout has its type; a tiled one has its order and rank at the next two."""
_MINOR_TO_MAJOR, _RANK = 32, 40


def element_type_of(buffer: Record) -> PrimitiveType:
    """The type of the elements; a token has none, of PRED, as what JAX passes for one."""
    number = buffer["type"]
    return PRED if number == number_of(TOKEN) else type_of(number)


def dimensions_of(buffer: Record) -> list[int]:
    return read_words(buffer["dims"], buffer["num_dims"])


@contextmanager
def arrays_of(handles: Sequence[int]) -> Iterator[list[Array]]:
    """The elements of buffers, read-only, as long as the context lasts; waits for runs that make them.

    `InvalidArgumentError` if one has ended, `FailedRunError` if its run has failed.
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
    """Waits until the elements of a buffer are there; `FailedRunError` if they will never be."""
    address = native().await_event(Record("buffer", handle)["event"])
    if address is None:
        return
    error = Record("error", address)
    code, message = error["code"], read_bytes(error["message"], error["message_size"]).decode("utf-8", "replace")
    native().free_error(address)
    raise FailedRunError(message, code)


def _array(buffer: Record) -> Array:
    array = _ordered(buffer["data"], element_type_of(buffer), dimensions_of(buffer), order_at(buffer["layout"]))
    array.flags.writeable = False
    return array


def _ordered(address: int, element_type: PrimitiveType, dimensions: Sequence[int], order: Order) -> Array:
    """Elements that lie in an order as an array."""
    return array_at(address, element_type, physical(dimensions, order)).transpose(inverse(order))


def array_at(address: int, element_type: PrimitiveType, dimensions: Sequence[int]) -> Array:
    """Elements at an address as an array, which does not keep them."""
    dtype = element_type.dtype
    assert dtype is not None, "only arrays have elements"
    size = int(np.prod(dimensions, dtype=np.int64)) * dtype.itemsize
    memory: Any = (ctypes.c_char * size).from_address(address) if size else bytearray()
    return np.ndarray(tuple(dimensions), dtype, memory)


def new_record(element_type: PrimitiveType, dimensions: Sequence[int], memory: int, order: Order) -> Record:
    """The record of a buffer, as yet without memory."""
    dims = (ctypes.c_int64 * max(1, len(dimensions)))(*dimensions)
    size = int(np.prod(dimensions, dtype=np.int64)) * element_type.byte_size
    number, layout = number_of(element_type), layout_handle(order)
    return Record("buffer", native().new_record(number, ctypes.addressof(dims), len(dimensions), size, memory, layout))


def new_buffer(
    element_type: PrimitiveType, dimensions: Sequence[int], memory: int, order: Order | None = None
) -> tuple[int, Array]:
    """The handle of a new buffer, and its elements, to be written before anybody has the handle.

    order: that of its dimensions in memory, row-major unless given.
    """
    order = row_major(len(dimensions)) if order is None else order
    size = int(np.prod(dimensions, dtype=np.int64)) * element_type.byte_size
    storage = native().allocate(size)
    if storage is None:
        raise MemoryError(f"out of memory for a buffer of {size} bytes")
    record = new_record(element_type, dimensions, memory, order)
    record["storage"], record["data"] = storage, storage + STORAGE_HEAD
    return record.address, _ordered(storage + STORAGE_HEAD, element_type, dimensions, order)


def new_token(memory: int) -> int:
    """The handle of a buffer for a token."""
    handle, _ = new_buffer(PRED, (0,), memory)
    Record("buffer", handle)["type"] = number_of(TOKEN)
    return handle


def memory_of(device: int, memory: int) -> int:
    """The memory that arguments name, by itself or by its device."""
    if memory:
        return memory
    return platform().device_at(device).memories["device"] if device else platform().devices[0].memories["device"]


def device_of(buffer: Record) -> PlatformDevice:
    return platform().device_at(buffer["device"])


# -- entries


@entry("Client_BufferFromHostBuffer")
def client_buffer_from_host_buffer(args: Any) -> None:
    """Arrays with strides, and what else native code leaves."""
    element_type = type_of(args.type)
    if not 0 <= args.host_buffer_semantics < SEMANTICS:
        raise InvalidArgumentError(f"there are no semantics {args.host_buffer_semantics} of host buffers")
    dimensions = read_words(args.dims, args.num_dims)
    order = _order(args.device_layout, args.num_dims)
    handle, elements = new_buffer(element_type, dimensions, memory_of(args.device, args.memory), order)
    if elements.size:
        strides = read_words(args.byte_strides, args.num_byte_strides)
        given = _strided(args.data, elements, strides) if strides else array_at(args.data, element_type, dimensions)
        elements[...] = given
    args.buffer, args.done_with_host_buffer = handle, native().ready_event_handle()


@entry("Client_CreateViewOfDeviceBuffer")
def client_create_view_of_device_buffer(args: Any) -> None:
    """Memory of others, as it is."""
    element_type, dimensions = type_of(args.element_type), read_words(args.dims, args.num_dims)
    alignment = element_type.byte_size // (2 if element_type.is_complex else 1)
    if args.device_buffer_ptr % alignment:
        raise InvalidArgumentError(f"the buffer at {args.device_buffer_ptr:#x} is not aligned to {alignment} bytes")
    record = new_record(
        element_type, dimensions, memory_of(args.device, args.memory), _order(args.layout, args.num_dims)
    )
    told = args.on_delete_callback, args.on_delete_callback_arg
    args.buffer = native().make_view(record.address, args.device_buffer_ptr, *told)


def _strided(address: int, like: Array, strides: Sequence[int]) -> Array:
    """Elements of the host, with strides of either sign, as an array of the same type and dimensions."""
    reach = [stride * (size - 1) for stride, size in zip(strides, like.shape, strict=True)]
    first = sum(step for step in reach if step < 0)
    size = sum(map(abs, reach)) + like.itemsize
    memory: Any = (ctypes.c_char * size).from_address(address + first)
    return np.ndarray(like.shape, like.dtype, memory, offset=-first, strides=tuple(strides))


def _order(layout: int, rank: int) -> Order:
    """What a PJRT_Buffer_MemoryLayout says; row-major if there is none."""
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
    """In the layout that the host asks for."""
    buffer = Record("buffer", args.src)
    size = buffer["on_device_size_in_bytes"]
    if not args.dst:
        args.dst_size = size
        return
    if args.dst_size < size:
        raise InvalidArgumentError(f"the buffer has {size} bytes, the host has room for {args.dst_size}")
    order = _order(args.host_layout, buffer["num_dims"]) if args.host_layout else order_at(buffer["layout"])
    with arrays_of([args.src]) as (array,):
        _ordered(args.dst, element_type_of(buffer), array.shape, order)[...] = array
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
    args.dst_buffer = copied(args.buffer, args.dst_memory)


@entry("Buffer_CopyToDevice")
def buffer_copy_to_device(args: Any) -> None:
    args.dst_buffer = copied(args.buffer, platform().device_at(args.dst_device).memories["device"])


def copied(buffer: int, memory: int) -> int:
    """The handle of a copy in a memory."""
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
    order = _order(args.shape_layout, args.shape_num_dims)
    args.buffer, elements = new_buffer(type_of(args.shape_element_type), dimensions, memory, order)
    elements[...] = np.zeros((), elements.dtype)
