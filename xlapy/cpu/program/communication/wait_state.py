"""Reads which devices wait in native code, from the records in the memory that they share, and ends their waits.

Responsible for the snapshot of waiting devices and for cancellation. Does not decide whether a wait can ever end.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy.cpu.llvm.communication.host_functions import host_functions
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import HOST_WAIT_OFFSET, WAIT_RECORD_BYTES
from xlapy.cpu.program.thunks import HostThunk

SharedMemory = Any
"""The memory that the devices of a run share: an array of bytes, whose NumPy type is not known to be a buffer."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A device that waits in a rendezvous or for a message.

    count: how many times the device has started to wait, which tells successive waits apart.
    """

    thunk: HostThunk
    missing: tuple[int, ...]
    """The devices that have not arrived, or those of which one must send; empty if the device waits for the host."""
    count: int


def shared_memory_size(program: NativeProgram) -> int:
    """Returns the size in bytes of the memory that the devices of a run share."""
    size = program.shared_size if program.placement is None else program.placement.memory_size
    return max(size, WAIT_RECORD_BYTES)


def cleared_memory_size(program: NativeProgram) -> int:
    """Returns how much of this memory is zeros before the first run."""
    size = program.shared_size if program.placement is None else program.placement.shared_size
    return max(size, WAIT_RECORD_BYTES)


def shared_memory(program: NativeProgram) -> SharedMemory:
    """Allocates the memory for the devices of a run; no device waits and the run is not canceled."""
    memory = np.zeros(shared_memory_size(program) + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start:]


def cancel_run(program: NativeProgram, shared: SharedMemory) -> None:
    """Makes native code stop at its next safepoint poll, and wakes the devices that wait."""
    offsets = sorted(futex_offsets(program))
    words = (ctypes.c_int64 * len(offsets))(*offsets)
    host_functions().cancel_waits(shared.ctypes.data, ctypes.addressof(words), len(offsets))


def exchanges_are_pending(program: NativeProgram, shared: SharedMemory) -> bool:
    """Whether the transport may still access the memory of a run, whose devices have ended."""
    if program.placement is None:
        return False
    functions, address = host_functions(), shared.ctypes.data
    return any(functions.is_exchange_pending(address, offset) for offset in program.placement.slot_offsets)


def futex_offsets(program: NativeProgram) -> set[int]:
    """Returns the offsets in shared memory of the words on which devices wait."""
    devices = program.replica_count * program.partition_count
    return {offset for thunk in program.host_calling_thunks for offset in thunk.futex_offsets(devices)}


def queue_offsets(program: NativeProgram) -> set[int]:
    """Returns the offsets in shared memory of the queues between devices."""
    return {queue for thunk in program.host_calling_thunks for queue in thunk.queues_between_devices()}


def waiting_devices(program: NativeProgram, shared: SharedMemory) -> Mapping[int, Wait]:
    """Returns the devices that all wait at the same moment, by number; two equal snapshots in a row prove that."""
    first = _snapshot(program, shared)
    return first if _snapshot(program, shared) == first else {}


def wait_count(shared: SharedMemory, device: int) -> int:
    """Returns how many times a device has started to wait."""
    return _read_record(shared, device)[2]


def _snapshot(program: NativeProgram, shared: SharedMemory) -> dict[int, Wait]:
    devices = range(program.replica_count * program.partition_count)
    found = {device: _read_wait(program, shared, device) for device in devices}
    return {device: wait for device, wait in found.items() if wait is not None}


def _read_wait(program: NativeProgram, shared: SharedMemory, device: int) -> Wait | None:
    """Returns what a device waits for, or has waited for when its exchange failed; None if it does not wait, or what it
    waits for has happened already."""
    number, goal, count = _read_record(shared, device)
    if not number:
        return None
    if number > HOST_WAIT_OFFSET:
        return Wait(program.host_calling_thunks[number - 1 - HOST_WAIT_OFFSET], (), count)
    thunk = program.host_calling_thunks[number - 1]
    missing = thunk.missing_devices(functools.partial(_read_word, shared), device, goal)
    if program.placement is not None:
        missing = program.placement.missing_devices(thunk, device, missing, shared.ctypes.data)
    return None if missing is None else Wait(thunk, missing, count)


def _read_record(shared: SharedMemory, device: int) -> tuple[int, int, int]:
    """Reads what a device waits for: the number of the thunk plus one, the aim, and how often it has waited."""
    snapshot = (ctypes.c_int64 * 3)()
    host_functions().read_wait(shared.ctypes.data, device, ctypes.addressof(snapshot))
    number, goal, count = snapshot
    return number, goal, count


def _read_word(shared: SharedMemory, offset: int) -> int:
    value: int = host_functions().read_word(shared.ctypes.data + offset)
    return value
