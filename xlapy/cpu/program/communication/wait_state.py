"""Reads which devices wait in native code, from the records in the memory that they share, and ends their waits.

Responsible for the snapshot of waiting devices and for cancellation. Does not decide whether a wait can ever end.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import (
    HOST_WAIT_OFFSET,
    QUEUE_BYTES,
    RENDEZVOUS_HEADER_BYTES,
    WAIT_RECORD_BYTES,
    QueueField,
)
from xlapy.cpu.program.thunks import CollectiveThunk, FeedThunk, RendezvousParticipant, TransferThunk
from xlapy.native import futex

_RECORD, _COUNTER = struct.Struct("3q"), struct.Struct("I")

SharedMemory = Any
"""The memory that the devices of a run share: an array of bytes, whose NumPy type is not known to be a buffer."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A device that waits in a rendezvous or for a message.

    count: how many times the device has started to wait, which tells successive waits apart.
    """

    thunk: CollectiveThunk | TransferThunk | FeedThunk
    missing: tuple[int, ...]
    """The devices that have not arrived, or those of which one must send; empty if the device waits for the host."""
    count: int


def shared_memory_size(program: NativeProgram) -> int:
    """Returns the size in bytes of the memory that the devices of a run share."""
    return max(program.shared_size, WAIT_RECORD_BYTES)


def shared_memory(program: NativeProgram) -> SharedMemory:
    """Allocates the memory for the devices of a run; no device waits and the run is not canceled."""
    memory = np.zeros(shared_memory_size(program) + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start:]


def cancel_run(program: NativeProgram, shared: SharedMemory) -> None:
    """Makes native code stop at its next safepoint poll, and wakes the devices that wait.

    A device that is about to sleep finds its futex word changed, in a bit that no concurrent update changes back.
    """
    is_canceled = shared[:4].view(np.int32)
    if is_canceled[0]:
        return
    is_canceled[0] = 1
    for offset in futex_offsets(program):
        shared[offset : offset + 4].view(np.uint32)[0] ^= 1 << 30
        futex.wake(shared.ctypes.data + offset)


def futex_offsets(program: NativeProgram) -> set[int]:
    """Returns the offsets in shared memory of the words on which devices wait."""
    collectives = [thunk for thunk in program.host_calling_thunks if isinstance(thunk, CollectiveThunk)]
    offsets = {p.rendezvous_offset for thunk in collectives for p in thunk.participants if p.rendezvous_offset >= 0}
    queues = (*queue_offsets(program), *_feed_queue_offsets(program))
    return offsets | {queue + QueueField.SENT for queue in queues}


def _feed_queue_offsets(program: NativeProgram) -> set[int]:
    devices = range(program.replica_count * program.partition_count)
    offsets = {thunk.queue_offset for thunk in program.host_calling_thunks if isinstance(thunk, FeedThunk)}
    return {offset + QUEUE_BYTES * device for offset in offsets for device in devices}


def queue_offsets(program: NativeProgram) -> set[int]:
    """Returns the offsets in shared memory of the queues between devices."""
    transfers = [thunk for thunk in program.host_calling_thunks if isinstance(thunk, TransferThunk)]
    return {queue for thunk in transfers for queues in thunk.queues for queue in queues}


def waiting_devices(program: NativeProgram, shared: SharedMemory) -> Mapping[int, Wait]:
    """Returns the devices that all wait at the same moment, by number; two equal snapshots in a row prove that."""
    first = _snapshot(program, shared)
    return first if _snapshot(program, shared) == first else {}


def wait_count(shared: SharedMemory, device: int) -> int:
    """Returns how many times a device has started to wait."""
    count: int = _RECORD.unpack_from(shared, WAIT_RECORD_BYTES * (1 + device))[2]
    return count


def _snapshot(program: NativeProgram, shared: SharedMemory) -> dict[int, Wait]:
    devices = range(program.replica_count * program.partition_count)
    found = {device: _read_wait(program, shared, device) for device in devices}
    return {device: wait for device, wait in found.items() if wait is not None}


def _read_wait(program: NativeProgram, shared: SharedMemory, device: int) -> Wait | None:
    """Returns what a device waits for; None if it does not wait, or what it waits for has happened already."""
    number, goal, count = _RECORD.unpack_from(shared, WAIT_RECORD_BYTES * (1 + device))
    if not number:
        return None
    if number > HOST_WAIT_OFFSET:
        thunk = program.host_calling_thunks[number - 1 - HOST_WAIT_OFFSET]
        assert isinstance(thunk, FeedThunk)
        return Wait(thunk, (), count)
    thunk = program.host_calling_thunks[number - 1]
    if isinstance(thunk, TransferThunk):
        (sent,) = _COUNTER.unpack_from(shared, thunk.queues[device][0] + QueueField.SENT)
        has_arrived = (sent - goal) % (1 << 32) < 1 << 31
        return None if has_arrived else Wait(thunk, thunk.partners[device], count)
    assert isinstance(thunk, CollectiveThunk)
    participant = thunk.participants[device]
    (completed,) = _COUNTER.unpack_from(shared, participant.rendezvous_offset)
    if completed != goal:
        return None
    return Wait(thunk, _missing_members(participant, shared, completed), count)


def _missing_members(participant: RendezvousParticipant, shared: SharedMemory, completed: int) -> tuple[int, ...]:
    offset = participant.rendezvous_offset + RENDEZVOUS_HEADER_BYTES
    latest = struct.unpack_from(f"{len(participant.members)}I", shared, offset)
    return tuple(member for member, last in zip(participant.members, latest, strict=True) if last == completed)
