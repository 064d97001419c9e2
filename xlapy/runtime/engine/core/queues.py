"""Queues of launches: enqueuing a call's frames on all of its devices at once, in the same order everywhere.

Responsible for the queues and their capacity. Must not know how streams run frames.
"""

from __future__ import annotations

from xlapy.native.function import Function, native, native_holding
from xlapy.native.ir import RELAXED
from xlapy.native.locks import Semaphore, acquire_permit, release_permit
from xlapy.native.records import AtomicPlace
from xlapy.native.values import Int32, Nullable, Word
from xlapy.runtime.engine.core.launch_records import (
    QUEUES,
    DeviceProgram,
    Executable,
    Frames,
    LaunchFrame,
    Stream,
)

CAPACITY = 32
"""Launches that a stream queues. A further call waits for a free slot."""


def semaphore(place: AtomicPlace[Int32]) -> Semaphore:
    """The semaphore whose permits a record's field counts; the next field counts its sleepers."""
    return place.address.cast(Semaphore)


def device_program(executable: Executable, number: Word) -> DeviceProgram:
    """The program of a device."""
    return executable.device_programs.items[number]


@native
def acquire_slots(f: Function, executable: Executable) -> None:
    """Waits for a free slot in the queue of each device. Calls on several devices do so one at a time, because two that
    each hold a slot that the other one needs would deadlock. Calls of other clients do not wait for them."""
    count = executable.device_program_count
    enqueuing = semaphore(device_program(executable, f.constant(Word, 0)).stream.leader.enqueuing)
    with f.when(count > 1):
        acquire_permit(f, enqueuing)
    with f.count(count) as one:
        acquire_permit(f, semaphore(device_program(executable, one.index).stream.free_slots))
    with f.when(count > 1):
        release_permit(f, enqueuing)


@native
def push_all(f: Function, executable: Executable, frames: Frames) -> None:
    """Appends the frames of a call to the queues of its devices, and wakes their streams."""
    count = executable.device_program_count
    with f.locked(f.static(QUEUES).lock), f.count(count) as one:
        push_frame(f, device_program(executable, one.index).stream, frames.items[one.index])
    with f.count(count) as one:
        release_permit(f, semaphore(device_program(executable, one.index).stream.queued))


@native_holding(QUEUES.guard("lock"))
def push_frame(f: Function, stream: Stream, frame: LaunchFrame) -> None:
    """Appends a frame to a queue."""
    frame.next = None
    last = stream.last
    stream.last = frame.maybe()
    with f.when(last.is_null()) as is_empty:
        stream.first = frame.maybe()
    with is_empty.otherwise():
        last.value.next = frame.maybe()


@native
def pop_frame(f: Function, stream: Stream) -> Nullable[LaunchFrame]:
    """Removes the first frame of a queue and marks it as running; null if the queue is empty."""
    with f.locked(f.static(QUEUES).lock):
        first = stream.first
        with f.when(first.is_null()):
            f.ret(None)
        following = first.value.next
        stream.first = following
        stream.running.store(first, RELAXED)
        with f.when(following.is_null()):
            stream.last = None
    return first
