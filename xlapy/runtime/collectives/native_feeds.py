"""The host's ends of the infeed and outfeed of a device while a native program runs on it: messages in shared memory.

Owns: messages that are fed in and out. Must not know: who feeds, how native code waits.
"""

from __future__ import annotations

import ctypes
import time
from collections import deque
from collections.abc import Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.cpu.program import host_queues
from xlapy.cpu.program.thunks import QUEUE_BYTES, FeedField, FeedThunk, NativeProgram, QueueField, rounded
from xlapy.cpu.program.wait_state import Memory
from xlapy.interpreter import TOKEN
from xlapy.native import futex
from xlapy.runtime.device import Device
from xlapy.runtime.values import Value


@contextmanager
def attached_feeds(device: Device, program: NativeProgram, shared: Memory, number: int) -> Iterator[None]:
    """While the program runs as device `number`, what goes in and out of a device goes without callbacks."""
    steps = [thunk for thunk in program.callbacks if isinstance(thunk, FeedThunk)]
    infeeds, outfeeds = ([s for s in steps if s.instruction.op is op] for op in (opcodes.INFEED, opcodes.OUTFEED))
    source = NativeInfeed(infeeds, shared, number) if infeeds else None
    sink = NativeOutfeed(outfeeds, shared, number) if outfeeds else None
    try:
        if source is not None:
            device.infeed.join(source)
        if sink is not None:
            device.outfeed.join(sink)
        yield
    finally:
        if source is not None:
            device.infeed.leave(source)
        if sink is not None:
            device.outfeed.leave(sink)


class _Feed:
    """Words of a feed, which native code reads and writes too."""

    def __init__(self, steps: Sequence[FeedThunk], shared: Memory, number: int) -> None:
        self._shared = shared
        self.address: int = shared.ctypes.data + steps[0].place + QUEUE_BYTES * number
        self._joined, self._sent, self._asleep, self._taken, self._busy = (
            ctypes.c_uint32.from_address(self.address + field)
            for field in (FeedField.JOINED, QueueField.SENT, QueueField.ASLEEP, FeedField.TAKEN, FeedField.BUSY)
        )

    def join(self) -> None:
        """From now on native code does not ask the host."""
        self._joined.value = 1

    def wake(self) -> None:
        """Lets who sleeps on the feed look again."""
        futex.wake(self.address + QueueField.SENT)


class NativeInfeed(_Feed):
    """What is fed in while a program runs, as messages that name its arrays."""

    def __init__(self, steps: Sequence[FeedThunk], shared: Memory, number: int) -> None:
        super().__init__(steps, shared, number)
        self._kinds = {_form(thunk.instruction.shape.tuple_shapes[0]): thunk.kind for thunk in steps}
        self._kept: deque[Any] = deque([None])
        """The message that was taken last, from which native code finds the next one, and those behind it."""
        self._last = self.address
        self._noted = 0

    def add(self, value: Any) -> None:
        """One more value; of what is no array of an expected shape native code asks the host."""
        kind = self._kinds.get(_form(value), 0)
        arrays = [np.ascontiguousarray(array) for array in _leaves(value)] if kind else []
        message = (ctypes.c_uint64 * (2 + len(arrays)))(0, kind, *(array.ctypes.data for array in arrays))
        self._kept.append((message, arrays))
        address = ctypes.addressof(message)
        ctypes.c_uint64.from_address(self._last).value = address
        self._last = address
        self._sent.value += 1
        self.wake()

    def newly_taken(self) -> int:
        """How many values native code has taken since this was last asked."""
        taken = int(self._taken.value)
        count, self._noted = (taken - self._noted) % (1 << 32), taken
        for _ in range(count):
            self._kept.popleft()
        return count

    def end(self) -> None:
        """From now on native code asks the host; what it is about to take it has taken."""
        self._joined.value = 0
        self._sent.value ^= 1 << 30
        self.wake()
        while self._busy.value:
            time.sleep(0)


class NativeOutfeed(_Feed):
    """What a program feeds out while it runs."""

    def __init__(self, steps: Sequence[FeedThunk], shared: Memory, number: int) -> None:
        super().__init__(steps, shared, number)
        self._shapes = {thunk.number: thunk.instruction.operand_shapes[0] for thunk in steps}

    def take(self) -> list[Value]:
        """The values that are there."""
        return [_read(self._shapes[message.thunk], message.arrays)[0] for message in host_queues.take(self.address)]

    def count(self) -> int:
        """How many were fed out."""
        return int(self._sent.value)

    def add_sleepers(self, count: int) -> None:
        """Native code wakes those who sleep, if there are any."""
        self._asleep.value += count

    def sleep(self, seen: int, seconds: float) -> None:
        """Until more is fed out than the number that was seen, or the time is over."""
        futex.sleep(self.address + QueueField.SENT, seen, seconds)

    def end(self) -> None:
        """Native code does not run any more."""
        host_queues.clear(self.address)
        self.wake()


def _form(value: Any) -> Hashable:
    """What values and shapes have in common if a message of the value is one of the shape; None if none can be."""
    if isinstance(value, Shape):
        if value.is_tuple:
            return tuple(map(_form, value.tuple_shapes))
        return (value.dtype, value.dimensions) if value.is_array else None
    if isinstance(value, tuple):
        return tuple(map(_form, value))
    return (value.dtype, value.shape) if isinstance(value, np.ndarray) else None


def _leaves(value: Any) -> list[np.ndarray[Any, Any]]:
    return [leaf for each in value for leaf in _leaves(each)] if isinstance(value, tuple) else [value]


def _read(shape: Shape, address: int) -> tuple[Value, int]:
    """A value of a shape whose arrays lie behind an address, and what follows them."""
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
    return array, address + rounded(array.nbytes)
