"""The records of launches: executables, their programs for each device, frames, streams.

Responsible for what these records contain. Must not know what is done with them.
"""

from __future__ import annotations

from xlapy.cpu.llvm.communication.process_rendezvous import ProcessTable
from xlapy.native.function import Static
from xlapy.native.records import Array, Atomic, AtomicTrailing, Final, Guarded, Lock, Owned, Record, Trailing
from xlapy.native.values import Address, Int32, Nullable, Word
from xlapy.runtime.engine.core.buffers import Buffer
from xlapy.runtime.engine.core.events import Error, Event
from xlapy.runtime.engine.core.memory import Storage


class Queues(Record, lock="lock"):
    """The lock of all queues: a call queues its frames on all of its devices at once, so that launches have the same
    order on every device. is_stopped: whether launches run in the threads of their callers. streams: all streams,
    linked."""

    lock: Lock
    is_stopped: Atomic[Word]
    streams: Atomic[Nullable[Stream]]


QUEUES = Static("queues", Queues)


class Cancellation(Record):
    """requested: not 0 while all launches are to end."""

    requested: Atomic[Word]


CANCELLATION = Static("cancellation", Cancellation)


class Launches(Record, lock="lock"):
    """All launches whose devices synchronize and that have not finished, linked. next_number: of the next launch."""

    lock: Lock
    first: Guarded[Nullable[Launch]]
    next_number: Atomic[Word]


LAUNCHES = Static("launches", Launches)


class Argument(Record):
    """What a program expects of an argument. type: number of the element type. is_donated: 1 if the launch takes its
    storage over. is_token: 1 for a token, as which a buffer of any type is passed: only its event counts. entry: index
    of its address in the address table."""

    type: Final[Word]
    size: Final[Word]
    layout: Final[Nullable[Address]]
    is_donated: Final[Word]
    is_token: Final[Word]
    entry: Final[Word]


class Buffers(Record):
    """Pointers to buffers."""

    items: Trailing[Buffer]


class GivenBuffers(Record):
    """Pointers that a caller gives as those to buffers."""

    items: Trailing[Nullable[Buffer]]


class Events(Record):
    """Pointers to events."""

    items: Trailing[Event]


class Numbers(Record):
    """Numbers."""

    items: Trailing[Word]


class DeviceProgram(Record):
    """An executable on one of its devices. number: index of the device within the executable. device: its handle.
    pending_launches: launches that have not finished. spare_frame: a launch frame that no launch uses. table: initial
    contents of a frame's address table. arguments: an `Argument` for each. donated: numbers of the donated arguments.
    outputs: a template of each result buffer. aliases: the argument whose memory a result reuses, or -1.
    result_entries: the index in the address table of the address of each result. shared_index: that of the memory that
    the devices share. trace_id: the number under which launch times are
    recorded, or 0. failure: the text with which the errors of the other devices begin if this one fails."""

    number: Final[Word]
    device: Final[Nullable[Address]]
    stream: Final[Stream]
    pending_launches: Atomic[Word]
    entry: Final[Address]
    spare_frame: Atomic[Nullable[LaunchFrame]]
    table: Final[Address]
    table_bytes: Final[Word]
    arena_bytes: Final[Word]
    argument_count: Final[Word]
    arguments: Final[Argument]
    donated_count: Final[Word]
    donated: Final[Numbers]
    result_count: Final[Word]
    outputs: Final[Buffers]
    aliases: Final[Numbers]
    result_entries: Final[Numbers]
    shared_index: Final[Word]
    trace_id: Atomic[Word]
    failure: Final[Nullable[Address]]
    failure_size: Final[Word]


class DevicePrograms(Record):
    """Pointers to the programs of an executable's devices."""

    items: Trailing[DeviceProgram]


class Executable(Record):
    """What the engine knows about an executable; what PJRT returns of it follows. zero: where PJRT keeps a function
    table. owners: number of handles. next: link in the list of destroyed executables. runs_natively: whether a call
    runs without Python. is_asynchronous: whether calls return before the program has run. checks_memory: whether a call
    first checks the available memory. calls_python: whether the program calls Python, so that it runs in the threads of
    its callers only. has_collectives: whether the devices synchronize with each other; calls_host: whether
    launches are run by `host_launches`, because the program calls the host; wait_words: offsets of the futex
    words on which they wait, in their shared memory. spare_shared: shared memory that no launch uses. instrumented: the
    executable that runs instead while a trace is taken. cleared_bytes: how much of new shared memory is set to zeros.
    processes: what connects the program to the other processes that run some of its devices; exchange_slots: offsets of
    its exchange slots in shared memory."""

    zero: Final[Word]
    owners: Atomic[Word]
    next: Owned[Nullable[Executable]]
    runs_natively: Atomic[Word]
    is_asynchronous: Final[Word]
    checks_memory: Final[Word]
    argument_count: Final[Word]
    donated_count: Final[Word]
    device_programs: Final[DevicePrograms]
    device_program_count: Final[Word]
    calls_python: Final[Word]
    has_collectives: Final[Word]
    calls_host: Final[Word]
    wait_words: Final[Numbers]
    wait_word_count: Final[Word]
    spare_shared: Atomic[Nullable[Storage]]
    shared_bytes: Final[Word]
    cleared_bytes: Final[Word]
    processes: Final[Nullable[ProcessTable]]
    exchange_slots: Final[Numbers]
    exchange_slot_count: Final[Word]
    instrumented: Atomic[Nullable[Executable]]


class LaunchFrame(Record):
    """The state of a launch on one device, owned by one thread at a time. next: link in a stream's queue, or among the
    failed frames of a launch. event: completes with the results. error: why this frame failed. thread: the number of
    the caller's. is_canceled: whether the launch is to end; programs whose devices do not synchronize poll it.
    host_status: see `streams`. Rows of pointers follow: the storages of the arguments, the storages of the results, the
    buffers of the results, and the address table."""

    next: Owned[Nullable[LaunchFrame]]
    program: Owned[DeviceProgram]
    event: Owned[Event]
    arena: Owned[Nullable[Storage]]
    launch: Owned[Nullable[Launch]]
    error: Owned[Nullable[Error]]
    thread: Owned[Word]
    is_canceled: Atomic[Word]
    host_status: Owned[Word]
    storages: Trailing[Storage]


class Launch(Record, lock=LAUNCHES.guard("lock")):
    """A launch whose devices synchronize. remaining: number of devices that have not finished. is_open: 1 until the
    last device finishes. shared: the memory that the devices share. failed_frames: frames of the devices that failed.
    error: the first error. is_begun: whether the processes know of the launch, if the program runs in several."""

    next: Guarded[Nullable[Launch]]
    number: Final[Word]
    owners: Atomic[Word]
    remaining: Atomic[Word]
    is_open: Guarded[Word]
    executable: Final[Executable]
    shared: Final[Storage]
    failed_frames: Guarded[Nullable[LaunchFrame]]
    error: Guarded[Nullable[Error]]
    is_begun: Guarded[Word]
    states: AtomicTrailing[Word]


class Stream(Record, lock=QUEUES.guard("lock")):
    """The stream of a device: a FIFO of launch frames and the thread that runs them. next: the next device's stream.
    first, last: the queued frames. running: the frame that runs. queued: a permit for each queued frame. free_slots:
    permits that bound the queue. host_thread: the number of the stream's thread while it runs Python for a launch, or
    0. leader: the first stream of the same client. enqueuing: one permit, of a leader, for the calls on several devices
    of the client that wait for free slots."""

    next: Final[Nullable[Stream]]
    is_started: Atomic[Word]
    first: Guarded[Nullable[LaunchFrame]]
    last: Guarded[Nullable[LaunchFrame]]
    running: Atomic[Nullable[LaunchFrame]]
    queued: Atomic[Int32]
    queued_sleepers: Atomic[Int32]
    free_slots: Atomic[Int32]
    free_slots_sleepers: Atomic[Int32]
    host_thread: Atomic[Word]
    leader: Final[Stream]
    enqueuing: Atomic[Int32]
    enqueuing_sleepers: Atomic[Int32]


NOT_STARTED, RUNNING, FINISHED = 0, 1, 2
"""States of a device in `Launch.states`."""


class Frames(Record):
    """The frames of a call, one for each device."""

    items: Trailing[LaunchFrame]


# --- the rows of a frame


def argument_storages(frame: LaunchFrame) -> Array[Storage]:
    """The storages that hold the arguments."""
    return frame.storages


def result_storages(program: DeviceProgram, frame: LaunchFrame) -> Array[Storage]:
    """The storages of the results."""
    return frame.storages.after(program.argument_count, Storage)


def result_buffers(program: DeviceProgram, frame: LaunchFrame) -> Array[Buffer]:
    """The buffers of the results."""
    return frame.storages.after(program.argument_count + program.result_count, Buffer)


def address_table(program: DeviceProgram, frame: LaunchFrame) -> Array[Address]:
    """The address table: of the arena, of the arguments, of the results, and of what is the same in each launch."""
    return frame.storages.after(program.argument_count + program.result_count * 2, Address)
