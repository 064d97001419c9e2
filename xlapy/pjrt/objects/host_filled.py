"""Buffers that the host fills after it has passed them on: by pieces, by another buffer, or with an error.

Such a buffer is pending until it is filled. Launches that read it wait.

Responsible for transfer managers, aliases and buffers with an error. Does not depend on programs.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.passes.layouts.entry_layouts import Order
from xlapy.pjrt.c_api.entries import entry
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.structs import structure
from xlapy.pjrt.c_api.types import number_of, type_of
from xlapy.pjrt.objects.buffers import (
    array_in_order,
    byte_count,
    dimensions_of,
    memory_of,
    pending_buffer,
)
from xlapy.pjrt.objects.handles import HandleTable
from xlapy.pjrt.objects.layouts import order_at
from xlapy.pjrt.objects.memory_layouts import read_layout
from xlapy.pjrt.objects.records import Record, read_bytes, read_words
from xlapy.pjrt.objects.transfers import hold, signed


class HostFilledBuffer:
    """A buffer that any threads fill, until one of them completes it. what: its name in errors."""

    def __init__(
        self, what: str, element_type: PrimitiveType, dimensions: Sequence[int], memory: int, order: Order
    ) -> None:
        self._what = what
        self._element_type, self._dimensions, self._order = element_type, tuple(dimensions), order
        self.size = byte_count(element_type, dimensions)
        self._pending = pending_buffer(number_of(element_type), dimensions, memory, order)
        self._lock = fork_safe_lock()
        self._is_retrieved = self._is_complete = False

    def retrieve(self) -> int:
        """The handle, which the caller owns from now on."""
        with self._lock:
            if self._is_retrieved:
                raise InvalidArgumentError(codes.BUFFER_STATE, f"{self._what} was retrieved before")
            self._is_retrieved = True
        return self._pending.handle

    def transfer(self, data: int, offset: int, size: int, is_last: bool) -> None:
        """Copies bytes into the buffer, from an offset on. is_last: whether that completes it."""
        if not 0 <= offset <= offset + size <= self.size:
            raise InvalidArgumentError(
                codes.BUFFER_SIZE, f"{size} bytes from {offset} are not in {self._what}, which has {self.size}"
            )
        if size and not data:
            raise InvalidArgumentError(codes.NULL_POINTER, f"{self._what}: data is null")
        with self._lock:
            self._check_incomplete()
            ctypes.memmove(self._pending.data + offset, data, size)
            self._is_complete = is_last
        if is_last:
            self._pending.complete()

    def transfer_array(self, data: int, element_type: PrimitiveType, dimensions: Sequence[int], order: Order) -> None:
        """Copies an array into the buffer, and completes it. order: of the array's dimensions."""
        if (element_type, tuple(dimensions)) != (self._element_type, self._dimensions):
            raise InvalidArgumentError(
                codes.BUFFER_SIZE,
                f"{self._what} is {self._element_type.name}{list(self._dimensions)}, "
                f"given {element_type.name}{list(dimensions)}",
            )
        if self.size and not data:
            raise InvalidArgumentError(codes.NULL_POINTER, f"{self._what}: data is null")
        target = array_in_order(self._pending.data, element_type, dimensions, self._order)
        with self._lock:
            self._check_incomplete()
            if target.size:
                target[...] = array_in_order(data, element_type, dimensions, order)
            self._is_complete = True
        self._pending.complete()

    def fill_from(self, source: int) -> None:
        """Copies another buffer into this one when it is ready, and completes it then."""
        record = Record("buffer", source)
        given = record["on_device_size_in_bytes"], tuple(dimensions_of(record)), order_at(record["layout"])
        if given != (self.size, self._dimensions, self._order):
            raise InvalidArgumentError(
                codes.BUFFER_SIZE,
                f"{self._what} has {self.size} bytes, dimensions {list(self._dimensions)} in the order {self._order}, "
                f"given {given[0]} bytes, {list(given[1])} in the order {given[2]}",
            )
        storage = hold(source)
        self._claim()
        pending, ready = self._pending, record["event"]
        native().fill_when_ready(
            ready, record["data"], storage, self.size, pending.data, pending.storage, pending.event
        )

    def fail(self, error: int) -> None:
        """Completes the buffer with an error record, which is taken over."""
        try:
            self._claim()
        except InvalidArgumentError:
            native().free_error(error)
            raise
        self._pending.complete(error)

    def abandon(self, reason: str) -> None:
        """Fails the buffer unless it is complete, and destroys it unless it was retrieved."""
        with self._lock:
            was_complete, self._is_complete = self._is_complete, True
        if not was_complete:
            message = f"{reason} [{codes.CLIENT_FAILURE}]".encode()
            self._pending.complete(native().make_error(_CANCELED, message, len(message)))
        if not self._is_retrieved:
            native().destroy_buffer(self._pending.handle)

    def _claim(self) -> None:
        """Makes the caller the one that completes the buffer."""
        with self._lock:
            self._check_incomplete()
            self._is_complete = True

    def _check_incomplete(self) -> None:
        if self._is_complete:
            raise InvalidArgumentError(codes.BUFFER_STATE, f"{self._what} is complete already")


# -- transfer managers


class TransferManager:
    """Buffers in one memory that the host fills by pieces."""

    def __init__(self, memory: int, buffers: Sequence[HostFilledBuffer]) -> None:
        (self.device,) = read_words(Record("memory", memory)["devices"], 1)
        self.buffers = buffers

    def buffer(self, number: int) -> HostFilledBuffer:
        """`InvalidArgumentError` if there is no buffer with the number."""
        if not 0 <= number < len(self.buffers):
            raise InvalidArgumentError(
                codes.BUFFER_SIZE, f"the transfer manager has {len(self.buffers)} buffers, there is no {number}"
            )
        return self.buffers[number]


_managers: HandleTable[TransferManager] = HandleTable("transfer manager")


@entry("Client_CreateBuffersForAsyncHostToDevice")
def client_create_buffers_for_async_host_to_device(args: Any) -> None:
    memory = memory_of(0, args.memory)
    specs = (structure("ShapeSpec") * args.num_shape_specs).from_address(args.shape_specs or 1)
    if args.num_shape_specs and not args.shape_specs:
        raise InvalidArgumentError(
            codes.NULL_POINTER, "PJRT_Client_CreateBuffersForAsyncHostToDevice: shape_specs is null"
        )
    layouts = read_words(args.device_layouts, args.num_device_layouts) if args.device_layouts else []
    layouts = layouts or [0] * len(specs)
    if len(layouts) != len(specs):
        raise InvalidArgumentError(codes.BUFFER_SIZE, f"{len(layouts)} layouts are given for {len(specs)} buffers")
    forms = [
        (type_of(spec.element_type), read_words(spec.dims, spec.num_dims), read_layout(layout, spec.num_dims))
        for spec, layout in zip(specs, layouts, strict=True)
    ]
    buffers: list[HostFilledBuffer] = []
    try:
        for number, (element_type, dimensions, order) in enumerate(forms):
            what = f"buffer {number} of the transfer manager"
            buffers.append(HostFilledBuffer(what, element_type, dimensions, memory, order))
    except BaseException:
        for buffer in buffers:
            buffer.abandon("there is not enough memory for all buffers of a transfer manager")
        raise
    args.transfer_manager = _managers.add(TransferManager(memory, buffers))


@entry("AsyncHostToDeviceTransferManager_Destroy")
def transfer_manager_destroy(args: Any) -> None:
    manager = _managers.remove(args.transfer_manager)
    if manager is not None:
        for buffer in manager.buffers:
            buffer.abandon("the transfer manager was destroyed before it had all data of the buffer")


@entry("AsyncHostToDeviceTransferManager_TransferData")
def transfer_manager_transfer_data(args: Any) -> None:
    buffer = _managers.at(args.transfer_manager).buffer(args.buffer_index)
    buffer.transfer(args.data, signed(args.offset), signed(args.transfer_size), args.is_last_transfer)
    args.done_with_h2d_transfer = native().ready_event_handle()


@entry("AsyncHostToDeviceTransferManager_TransferLiteral")
def transfer_manager_transfer_literal(args: Any) -> None:
    buffer = _managers.at(args.transfer_manager).buffer(args.buffer_index)
    dimensions = read_words(args.shape_dims, args.shape_num_dims)
    order = read_layout(args.shape_layout, args.shape_num_dims)
    buffer.transfer_array(args.data, type_of(args.shape_element_type), dimensions, order)
    args.done_with_h2d_transfer = native().ready_event_handle()


@entry("AsyncHostToDeviceTransferManager_RetrieveBuffer")
def transfer_manager_retrieve_buffer(args: Any) -> None:
    args.buffer_out = _managers.at(args.transfer_manager).buffer(args.buffer_index).retrieve()


@entry("AsyncHostToDeviceTransferManager_Device")
def transfer_manager_device(args: Any) -> None:
    args.device_out = _managers.at(args.transfer_manager).device


@entry("AsyncHostToDeviceTransferManager_BufferCount")
def transfer_manager_buffer_count(args: Any) -> None:
    args.buffer_count = len(_managers.at(args.transfer_manager).buffers)


@entry("AsyncHostToDeviceTransferManager_BufferSize")
def transfer_manager_buffer_size(args: Any) -> None:
    args.buffer_size = _managers.at(args.transfer_manager).buffer(args.buffer_index).size


@entry("AsyncHostToDeviceTransferManager_SetBufferError")
def transfer_manager_set_buffer_error(args: Any) -> None:
    buffer = _managers.at(args.transfer_manager).buffer(args.buffer_index)
    buffer.fail(_given_error(args.error_code, args.error_message, args.error_message_size))


@entry("AsyncHostToDeviceTransferManager_AddMetadata")
def transfer_manager_add_metadata(args: Any) -> None:
    """Accepts metadata, which is for the caller's own tools."""
    _managers.at(args.transfer_manager)


# -- aliases and errors

_aliases: HandleTable[HostFilledBuffer] = HandleTable("alias of a buffer, still to be fulfilled")


@entry("Client_CreateAliasBuffer")
def client_create_alias_buffer(args: Any) -> None:
    """Makes a buffer that gets its elements from another buffer, which is not known yet."""
    dimensions = read_words(args.shape_dims, args.shape_num_dims)
    order, memory = read_layout(args.shape_layout, args.shape_num_dims), memory_of(0, args.memory)
    element_type = type_of(args.shape_element_type)
    alias = HostFilledBuffer("the alias of a buffer", element_type, dimensions, memory, order)
    args.alias_buffer, args.fulfill_alias_buffer_cb = alias.retrieve(), _aliases.add(alias)


@entry("Client_FulfillAliasBuffer")
def client_fulfill_alias_buffer(args: Any) -> None:
    """Says of which buffer another one is the alias, or that there is none because of an error."""
    alias = _aliases.at(args.fulfill_alias_buffer_cb)
    if args.status_code:
        alias.fail(_given_error(args.status_code, args.error_message, args.error_message_size))
    elif args.buffer:
        alias.fill_from(args.buffer)
    else:
        raise InvalidArgumentError(codes.NULL_POINTER, "PJRT_Client_FulfillAliasBuffer: buffer is null")
    _aliases.remove(args.fulfill_alias_buffer_cb)


@entry("Client_CreateErrorBuffer")
def client_create_error_buffer(args: Any) -> None:
    """Makes a buffer without elements that fails the launches that read it."""
    element_type, dimensions = type_of(args.shape_element_type), read_words(args.shape_dims, args.shape_num_dims)
    order, memory = read_layout(args.shape_layout, args.shape_num_dims), memory_of(0, args.memory)
    error = _given_error(args.error_code, args.error_message, args.error_message_size)
    buffer = pending_buffer(number_of(element_type), dimensions, memory, order)
    buffer.complete(error)
    args.buffer = buffer.handle


def _given_error(code: int, address: int, size: int) -> int:
    """Makes an error record from what a caller passes; `InvalidArgumentError` for the code of success."""
    if not 1 <= code <= _MAX_CODE:
        raise InvalidArgumentError(codes.ERROR_CODE, f"{code} is not the code of an error")
    message = read_bytes(address, size)
    return int(native().make_error(code, message, len(message)))


_CANCELED, _MAX_CODE = 1, 16
"""Codes of errors, as in absl."""
