"""What is known of devices that wait in native code: read from the memory that they share.

Owns: the snapshot of who waits for whom, the end of all waits. Must not know: what becomes of it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy.cpu.program.thunks import (
    HOST_WAIT_OFFSET,
    QUEUE_BYTES,
    RENDEZVOUS_HEADER_BYTES,
    WAIT_RECORD_BYTES,
    CollectiveThunk,
    FeedThunk,
    NativeProgram,
    QueueField,
    RendezvousParticipant,
    TransferThunk,
)
from xlapy.native import futex

_RECORD, _NUMBER = struct.Struct("3q"), struct.Struct("I")

Memory = Any
"""Bytes, as an array of NumPy, which types do not show to be a buffer."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A device that waits in a meeting or for a message. times: how often it has before, so that waits differ."""

    thunk: CollectiveThunk | TransferThunk | FeedThunk
    missing: tuple[int, ...]
    """The devices that have not come, or those of which one must send; none where it waits for the host."""
    times: int


def shared_size(program: NativeProgram) -> int:
    """Bytes that the devices of a run share."""
    return max(program.shared_size, WAIT_RECORD_BYTES)


def shared_memory(program: NativeProgram) -> Memory:
    """Memory for the devices of a run: nobody waits, nothing is cancelled."""
    memory = np.zeros(shared_size(program) + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start:]


def cancel(program: NativeProgram, shared: Memory) -> None:
    """Makes native code end where it looks whether it should go on, and where it waits.

    Who was about to sleep finds the word changed, and far enough that nobody else changes it back by the way.
    """
    is_cancelled = shared[:4].view(np.int32)
    if is_cancelled[0]:
        return
    is_cancelled[0] = 1
    for place in futex_offsets(program):
        shared[place : place + 4].view(np.uint32)[0] ^= 1 << 30
        futex.wake(shared.ctypes.data + place)


def futex_offsets(program: NativeProgram) -> set[int]:
    """Where the words lie, in what devices share, on which they wait."""
    meetings = [thunk for thunk in program.callbacks if isinstance(thunk, CollectiveThunk)]
    doors = {row.door for thunk in meetings for row in thunk.rows if row.door >= 0}
    return doors | {queue + QueueField.SENT for queue in (*queues_of(program), *_feeds(program))}


def _feeds(program: NativeProgram) -> set[int]:
    devices = range(program.replica_count * program.partition_count)
    places = {thunk.place for thunk in program.callbacks if isinstance(thunk, FeedThunk)}
    return {place + QUEUE_BYTES * device for place in places for device in devices}


def queues_of(program: NativeProgram) -> set[int]:
    """Where the queues between devices lie."""
    transfers = [thunk for thunk in program.callbacks if isinstance(thunk, TransferThunk)]
    return {queue for thunk in transfers for row in thunk.queues for queue in row}


def waiting(program: NativeProgram, shared: Memory) -> Mapping[int, Wait]:
    """The devices that wait, by number: all of them at one moment, for two looks in a row found the same."""
    first = _look(program, shared)
    return first if _look(program, shared) == first else {}


def wait_count(shared: Memory, device: int) -> int:
    """How often a device has begun to wait."""
    times: int = _RECORD.unpack_from(shared, WAIT_RECORD_BYTES * (1 + device))[2]
    return times


def _look(program: NativeProgram, shared: Memory) -> dict[int, Wait]:
    devices = range(program.replica_count * program.partition_count)
    found = {device: _wait(program, shared, device) for device in devices}
    return {device: wait for device, wait in found.items() if wait is not None}


def _wait(program: NativeProgram, shared: Memory, device: int) -> Wait | None:
    begin = WAIT_RECORD_BYTES * (1 + device)
    number, passed, times = _RECORD.unpack_from(shared, begin)
    if not number:
        return None
    if number > HOST_WAIT_OFFSET:
        thunk = program.callbacks[number - 1 - HOST_WAIT_OFFSET]
        assert isinstance(thunk, FeedThunk)
        return Wait(thunk, (), times)
    thunk = program.callbacks[number - 1]
    if isinstance(thunk, TransferThunk):
        (sent,) = _NUMBER.unpack_from(shared, thunk.queues[device][0] + QueueField.SENT)
        is_there = (sent - passed) % (1 << 32) < 1 << 31
        return None if is_there else Wait(thunk, thunk.partners[device], times)
    assert isinstance(thunk, CollectiveThunk)
    row = thunk.rows[device]
    (meetings,) = _NUMBER.unpack_from(shared, row.door)
    if meetings != passed:
        return None
    return Wait(thunk, _missing(row, shared, meetings), times)


def _missing(row: RendezvousParticipant, shared: Memory, meetings: int) -> tuple[int, ...]:
    last = struct.unpack_from(f"{len(row.members)}I", shared, row.door + RENDEZVOUS_HEADER_BYTES)
    return tuple(member for member, met in zip(row.members, last, strict=True) if met == meetings)
