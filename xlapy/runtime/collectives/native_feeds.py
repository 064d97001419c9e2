"""The host's ends of a device's infeed and outfeed while a native program runs on it: message queues in shared memory.

Responsible for the messages that are fed in and out. Does not depend on the feeding threads, or on how native code
waits.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.cpu.llvm.communication.host_functions import host_functions
from xlapy.cpu.program.communication import queue_messages
from xlapy.cpu.program.communication.wait_state import SharedMemory
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import QUEUE_BYTES, round_to_cache_lines
from xlapy.cpu.program.thunks import FeedThunk
from xlapy.interpreter import TOKEN
from xlapy.runtime.device import Device
from xlapy.runtime.values import Value


@contextmanager
def attached_feeds(device: Device, program: NativeProgram, shared: SharedMemory, number: int) -> Iterator[None]:
    """Attaches the device's infeed and outfeed to a program that runs as device `number`, so that values pass without
    callbacks."""
    thunks = [feed for thunk in program.host_calling_thunks if (feed := thunk.feed) is not None]
    infeeds, outfeeds = (
        [thunk for thunk in thunks if thunk.instruction.op is op] for op in (opcodes.INFEED, opcodes.OUTFEED)
    )
    source = NativeInfeed(infeeds, shared, number) if infeeds else None
    sink = NativeOutfeed(outfeeds, shared, number) if outfeeds else None
    try:
        if source is not None:
            device.infeed.attach(source)
        if sink is not None:
            device.outfeed.attach(sink)
        yield
    finally:
        if source is not None:
            device.infeed.detach(source)
        if sink is not None:
            device.outfeed.detach(sink)


class _Feed:
    """The queue of a feed, which the host and native code share."""

    def __init__(self, thunks: Sequence[FeedThunk], shared: SharedMemory, number: int) -> None:
        self._shared = shared
        self._native = host_functions()
        self.address: int = shared.ctypes.data + thunks[0].queue_offset + QUEUE_BYTES * number

    def attach(self) -> None:
        """Attaches the feed: from now on native code does not call the host."""
        self._native.join_feed(self.address)


class NativeInfeed(_Feed):
    """Feeds values into a running program, as messages with the addresses of their arrays."""

    def __init__(self, thunks: Sequence[FeedThunk], shared: SharedMemory, number: int) -> None:
        super().__init__(thunks, shared, number)
        self._kinds = {_structure_key(thunk.instruction.shape.tuple_shapes[0]): thunk.shape_number for thunk in thunks}
        self._messages: deque[Any] = deque([None])
        """The message that was taken last, which links to the next one, and the messages after it."""
        self._last = self.address
        self._taken_before = 0

    def add(self, value: Any) -> None:
        """Appends a value. For values that do not match an expected shape, native code calls the host."""
        kind = self._kinds.get(_structure_key(value), 0)
        arrays = [np.ascontiguousarray(array) for array in _leaves(value)] if kind else []
        message = (ctypes.c_uint64 * (2 + len(arrays)))(0, kind, *(array.ctypes.data for array in arrays))
        self._messages.append((message, arrays))
        address = ctypes.addressof(message)
        self._native.add_infeed(self.address, self._last, address)
        self._last = address

    def newly_taken(self) -> int:
        """Returns how many values native code has taken since the last call, and frees them."""
        taken: int = self._native.taken_count(self.address)
        count, self._taken_before = (taken - self._taken_before) % (1 << 32), taken
        for _ in range(count):
            self._messages.popleft()
        return count

    def detach(self) -> None:
        """Detaches the feed: from now on native code calls the host. Returns after native code has taken what it was
        about to take."""
        self._native.leave_infeed(self.address)


class NativeOutfeed(_Feed):
    """Receives the values that a running program feeds out."""

    def __init__(self, thunks: Sequence[FeedThunk], shared: SharedMemory, number: int) -> None:
        super().__init__(thunks, shared, number)
        self._shapes = {thunk.number: thunk.instruction.operand_shapes[0] for thunk in thunks}

    def take(self) -> list[Value]:
        """Returns and removes the values that are available."""
        return [
            _read(self._shapes[message.thunk], message.arrays)[0]
            for message in queue_messages.receive_messages(self.address)
        ]

    def count(self) -> int:
        """A number that differs after each value that was fed out, and after each `wake`."""
        count: int = self._native.sent_count(self.address)
        return count

    def sleep(self, seen: int, seconds: float) -> None:
        """Waits until `count` differs from `seen`, or for the given time, which is less than a second."""
        self._native.await_message(self.address, seen, max(0, int(seconds * 1e9)))

    def wake(self) -> None:
        """Ends the waits of host threads."""
        self._native.notify(self.address)

    def detach(self) -> None:
        """Frees the queue after native code has finished, and ends the waits of host threads."""
        queue_messages.clear_queue(self.address)


def _structure_key(value: Any) -> Hashable:
    """The key on which a value and the shape of a message agree; None if no message can carry the value."""
    if isinstance(value, Shape):
        if value.is_tuple:
            return tuple(map(_structure_key, value.tuple_shapes))
        return (value.dtype, value.dimensions) if value.is_array else None
    if isinstance(value, tuple):
        return tuple(map(_structure_key, value))
    return (value.dtype, value.shape) if isinstance(value, np.ndarray) else None


def _leaves(value: Any) -> list[np.ndarray[Any, Any]]:
    return [leaf for each in value for leaf in _leaves(each)] if isinstance(value, tuple) else [value]


def _read(shape: Shape, address: int) -> tuple[Value, int]:
    """Reads a value of a shape from the arrays at an address; returns it with the address after the last array."""
    if shape.is_tuple:
        parts: list[Value] = []
        for part in shape.tuple_shapes:
            value, address = _read(part, address)
            parts.append(value)
        return tuple(parts), address
    if not shape.is_array:
        return TOKEN, address
    array = np.empty(shape.dimensions, shape.dtype)
    ctypes.memmove(array.ctypes.data, address, array.nbytes)
    return array, address + round_to_cache_lines(array.nbytes)
