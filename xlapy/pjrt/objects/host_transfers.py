"""Callbacks of a launch for its sends to the host and its receives from the host, and the streams that receives read.

A send calls its callback with one chunk that holds the whole array. A receive calls its callback with a stream, which
the framework fills with chunks, at once or later, from any thread.

Responsible for these callbacks. Does not depend on how launches run; see `runtime.device` for the queues.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import ExecutionError, InvalidArgumentError
from xlapy.base.shape import Shape
from xlapy.hlo.module import Module
from xlapy.opcodes.transfer import ChannelAttributes
from xlapy.pjrt.c_api.entries import entry
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.c_api.structs import structure
from xlapy.pjrt.objects.handles import HandleTable
from xlapy.pjrt.objects.records import read_words, words
from xlapy.runtime.collectives.host_queues import HostQueue
from xlapy.runtime.device import Device
from xlapy.runtime.engine.launch_errors import take_error

_SEND = ctypes.CFUNCTYPE(
    ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_bool, ctypes.c_void_p
)
_RECEIVE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
_DELETE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)

_INVALID_ARGUMENT = 3


@SingleFlight
def _callback_error() -> int:
    """The address of a pointer to the function with which callbacks make errors."""
    return words([native().address("callback_error")])


class _SendQueue(HostQueue):
    """Calls a callback with each value that a device sends on a channel."""

    def __init__(self, callback: int, argument: int) -> None:
        super().__init__()
        self._callback, self._argument = _SEND(callback), argument

    def put(self, value: Any) -> None:
        array = np.ascontiguousarray(value)
        size = array.nbytes
        data = native().malloc_bytes(max(1, size))
        if data is None:
            raise MemoryError(f"out of memory for {size} bytes that are sent to the host")
        ctypes.memmove(data, array.ctypes.data, size)
        chunk = structure("Chunk")(data=data, size=size, deleter=native().address("free_chunk"))
        error = self._callback(ctypes.addressof(chunk), _callback_error(), size, True, self._argument)
        if error is not None:
            raise take_error(native(), error)


class CopyToDeviceStream:
    """An array on its way to a device: chunks are appended until it is whole."""

    def __init__(self, shape: Shape, queue: HostQueue) -> None:
        self._array: np.ndarray[Any, Any] = np.empty(shape.dimensions, shape.dtype)
        self._queue = queue
        self._lock = fork_safe_lock()
        self.total = self._array.nbytes
        self.current = 0

    def add(self, data: int, size: int) -> str:
        """Appends a chunk; returns why it cannot be, or an empty text."""
        with self._lock:
            if self.current == self.total and size:
                return f"the stream has all of its {self.total} bytes already"
            if self.current + size > self.total:
                return f"a chunk of {size} bytes is too large: the stream has {self.current} of {self.total} bytes"
            ctypes.memmove(self._array.ctypes.data + self.current, data, size)
            self.current += size
            is_whole = self.current == self.total and size > 0
        if is_whole:
            self._queue.put(self._array)
        return ""

    def close(self) -> None:
        """Ends the stream: if it is not whole, the receive fails."""
        with self._lock:
            missing, self.current = self.total - self.current, self.total
        if missing:
            self._queue.put(
                ExecutionError(
                    codes.STREAM_END, f"the stream was destroyed {missing} bytes before the end of its array"
                )
            )


_streams: HandleTable[CopyToDeviceStream] = HandleTable("stream to a device")


class _ReceiveQueue(HostQueue):
    """Calls a callback for each value that a device receives on a channel."""

    def __init__(self, callback: int, argument: int, shape: Shape) -> None:
        super().__init__()
        self._callback, self._argument, self._shape = _RECEIVE(callback), argument, shape

    def take(self, what: str, timeout: float, canceled: threading.Event | None = None) -> Any:
        stream = CopyToDeviceStream(self._shape, self)
        if not stream.total:
            self.put(np.empty(self._shape.dimensions, self._shape.dtype))
        self._callback(_streams.add(stream), self._argument)
        value = super().take(what, timeout, canceled)
        if isinstance(value, ExecutionError):
            raise ExecutionError(value.code, f"{what}: {value.message}")
        return value


class CallbackDevice(Device):
    """A device during one launch: some of its channels call back, and everything else is the device's own."""

    def __init__(self, device: Device, sends: Mapping[int, HostQueue], receives: Mapping[int, HostQueue]) -> None:
        super().__init__(device.id, device.platform)
        self.infeed, self.outfeed = device.infeed, device.outfeed
        self._device, self._sends, self._receives = device, sends, receives

    def to_device(self, channel: int) -> HostQueue:
        return self._receives[channel] if channel in self._receives else self._device.to_device(channel)

    def from_device(self, channel: int) -> HostQueue:
        return self._sends[channel] if channel in self._sends else self._device.from_device(channel)

    def wake(self) -> None:
        self._device.wake()
        for queue in self._receives.values():
            queue.wake()


def calling_back(devices: Sequence[Device], options: Any, module: Module) -> list[Device]:
    """The devices of a launch, with the callbacks in its options. `InvalidArgumentError` for a channel on which the
    program does not exchange values with the host."""
    send_count, receive_count = options.num_send_ops, options.num_recv_ops
    if not send_count and not receive_count:
        return list(devices)
    sends, receives = _host_channels(module)
    made: list[Device] = []
    for number, device in enumerate(devices):
        send_queues = {
            info.channel_id: _SendQueue(info.send_callback, info.user_arg)
            for info in _rows("SendCallbackInfo", options.send_callbacks, number, send_count)
        }
        infos = _rows("RecvCallbackInfo", options.recv_callbacks, number, receive_count)
        for unknown in [*(send_queues.keys() - sends), *({info.channel_id for info in infos} - receives.keys())]:
            raise InvalidArgumentError(
                codes.HOST_CHANNEL, f"{module.name} does not exchange values with the host on channel {unknown}"
            )
        receive_queues = {
            info.channel_id: _ReceiveQueue(info.recv_callback, info.user_arg, receives[info.channel_id])
            for info in infos
        }
        made.append(CallbackDevice(device, send_queues, receive_queues))
    return made


def _rows(kind: str, lists: int, device: int, count: int) -> Sequence[Any]:
    """The structures of one device."""
    if not count:
        return []
    (address,) = read_words(lists, device + 1)[device:]
    return list((structure(kind) * count).from_address(address))


def _host_channels(module: Module) -> tuple[set[int], dict[int, Shape]]:
    """The channels of a module's sends to the host, and those of its receives with the shapes of their arrays."""
    sends: set[int] = set()
    receives: dict[int, Shape] = {}
    for instruction in module.instructions():
        if instruction.op is opcodes.SEND and instruction.attributes_as(ChannelAttributes).is_host_transfer:
            sends.add(instruction.attributes_as(ChannelAttributes).channel_id or 0)
        if instruction.op is opcodes.RECV and instruction.attributes_as(ChannelAttributes).is_host_transfer:
            channel = instruction.attributes_as(ChannelAttributes).channel_id or 0
            receives[channel] = instruction.shape.tuple_shapes[0]
    return sends, receives


# -- entries


@entry("CopyToDeviceStream_Destroy")
def copy_to_device_stream_destroy(args: Any) -> None:
    stream = _streams.remove(args.stream)
    if stream is not None:
        stream.close()


@entry("CopyToDeviceStream_AddChunk")
def copy_to_device_stream_add_chunk(args: Any) -> None:
    """Copies a chunk, and deletes it. The event fails if the stream cannot take the chunk."""
    stream = _streams.at(args.stream)
    chunk = structure("Chunk").from_address(args.chunk)
    reason = stream.add(chunk.data, chunk.size)
    if chunk.deleter:
        _DELETE(chunk.deleter)(chunk.data, chunk.deleter_arg)
    message = f"{reason} [{codes.BUFFER_SIZE}]".encode()
    args.transfer_complete = (
        native().failed_event(native().make_error(_INVALID_ARGUMENT, message, len(message)))
        if reason
        else native().ready_event_handle()
    )


@entry("CopyToDeviceStream_TotalBytes")
def copy_to_device_stream_total_bytes(args: Any) -> None:
    args.total_bytes = _streams.at(args.stream).total


@entry("CopyToDeviceStream_GranuleSize")
def copy_to_device_stream_granule_size(args: Any) -> None:
    """Chunks may have any size."""
    _streams.at(args.stream)
    args.granule_size_in_bytes = 1


@entry("CopyToDeviceStream_CurrentBytes")
def copy_to_device_stream_current_bytes(args: Any) -> None:
    args.current_bytes = _streams.at(args.stream).current
