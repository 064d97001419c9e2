"""An executable for explorations: its records are static, so that whatever is allocated is that of the engine.

Each device has two arguments and two results of a word. The first result is the first argument plus one; the second
one is the donated second argument, plus ten. Programs also write to their arena and, if their devices synchronize, to
their own word of the shared memory, all of it as plain accesses.
"""

from __future__ import annotations

from functools import cache

from xlapy.cpu.llvm.communication.waits import CancellationWord
from xlapy.native.function import Function, NativeFunction, Static, native
from xlapy.native.ir import ACQUIRE, RELAXED
from xlapy.native.records import Atomic, Owned, Record, Trailing
from xlapy.native.values import Address, Int32, Nullable, Word
from xlapy.runtime.engine.core.buffers import Buffer, destroy_buffer
from xlapy.runtime.engine.core.events import READY_EVENT, Event, await_event, free_error, release_event
from xlapy.runtime.engine.core.executables import free_spare_memory
from xlapy.runtime.engine.core.execute import GivenBufferLists, execute
from xlapy.runtime.engine.core.launch_records import (
    QUEUES,
    Argument,
    Buffers,
    DeviceProgram,
    DevicePrograms,
    Events,
    Executable,
    Numbers,
    Stream,
)
from xlapy.runtime.engine.core.memory import STORAGE_BYTES, USAGE, Storage, allocate
from xlapy.runtime.engine.core.queues import CAPACITY
from xlapy.runtime.engine.core.streams import initialize_streams, run_next

ARENA, FIRST, SECOND, RESULT, SHARED, CONSTANT, ENTRIES = 0, 1, 2, 3, 4, 5, 6
"""The entries of an address table."""

_CALLERS = 2
"""Threads that may call at once, each with lists of its own."""


class Element(Record):
    """The element of a buffer."""

    value: Owned[Word]


class Pointers(Record):
    """Pointers and numbers."""

    items: Trailing[Address]


class Outcome(Record):
    """statuses, second_status: what the program of each device returns. runs: how often programs have run.
    must_be_canceled: whether programs check that they are canceled. is_freed: whether
    `free_executable` was called."""

    runs: Atomic[Word]
    statuses: Atomic[Int32]
    second_status: Atomic[Int32]
    must_be_canceled: Atomic[Word]
    is_freed: Atomic[Word]


class PolledWord(Record):
    """The word that a program polls if its devices do not synchronize."""

    is_canceled: Atomic[Word]


OUTCOME = Static("model_outcome", Outcome)
CONSTANTS = Static("model_constants", Element)
EXECUTABLE = Static("model_executable", Executable)
PROGRAMS = [Static(f"model_program{number}", DeviceProgram) for number in range(2)]
STREAMS = [Static(f"model_stream{number}", Stream) for number in range(2)]
_TEMPLATES = [Static(f"model_template{number}", Buffer) for number in range(2)]
_ARGUMENTS = [Static(f"model_arguments{number}", Argument, 2 * Argument.byte_size()) for number in range(2)]
_TABLES = [Static(f"model_table{number}", Pointers, 8 * ENTRIES) for number in range(2)]


def words(f: Function, name: str, *values: Address | Word | int) -> Address:
    """Static memory with pointers or numbers."""
    memory = f.static(Static(f"model_{name}", Pointers, 8 * len(values)))
    for index, value in enumerate(values):
        kind = Address if isinstance(value, Address) else Word
        if kind is Address:
            memory.items[index] = value
        else:
            memory.cast(Numbers).items[index] = value
    return memory


class Slots(Record):
    """What the callers of the model give and get: for each, the buffers of the arguments and results of each device,
    and the events."""

    items: Trailing[Nullable[Buffer]]


def slots(f: Function, name: str, caller: int, device: int) -> Slots:
    return f.static(Static(f"model_{name}{caller}{device}", Slots, 16))


def build(devices: int = 1, collectives: bool = False, asynchronous: bool = True) -> NativeFunction[[], None]:
    """A function that prepares the executable, and the arguments of the first caller."""

    def build_executable(f: Function) -> None:
        for number in range(devices):
            _build_program(f, number, devices)
        executable = f.exclusive_access(f.static(EXECUTABLE), "no thread runs")
        executable.owners.store(1, RELAXED)
        executable.is_asynchronous = int(asynchronous)
        programs = [f.static(one) for one in PROGRAMS[:devices]]
        executable.device_programs = words(f, "programs", *programs).cast(DevicePrograms)
        executable.device_program_count = devices
        executable.calls_python, executable.has_collectives = 0, int(collectives)
        executable.shared_bytes = executable.cleared_bytes = 8 * (1 + devices)
        executable.wait_word_count = 0
        executable.wait_words = words(f, "wait_words", 0).cast(Numbers)
        executable.spare_shared.store(None, RELAXED)
        initialize_streams(f)
        for device in range(devices):
            new_arguments(f, 0, device)

    build_executable.__name__ = f"build_{devices}{int(collectives)}{int(asynchronous)}"
    return native(build_executable)


def _build_program(f: Function, number: int, devices: int) -> None:
    stream = f.exclusive_access(f.static(STREAMS[number]), "no thread runs")
    stream.is_started.store(1, RELAXED)
    stream.free_slots.store(CAPACITY, RELAXED)
    stream.enqueuing.store(1, RELAXED)
    stream.next = f.static(STREAMS[number + 1]).maybe() if number + 1 < devices else None
    stream.leader = f.static(STREAMS[0])
    if number == 0:
        f.static(QUEUES).streams.store(stream.maybe(), RELAXED)
    first = f.exclusive_access(f.static(_ARGUMENTS[number]), "no thread runs")
    second = f.exclusive_access(first.offset(Argument.byte_size()).cast(Argument), "no thread runs")
    for argument, is_donated, entry in ((first, 0, FIRST), (second, 1, SECOND)):
        argument.type, argument.size, argument.layout = 1, 8, None
        argument.is_donated, argument.is_token, argument.entry = is_donated, 0, entry
    template = f.static(_TEMPLATES[number])
    fill_buffer(f, template, None)
    program = f.exclusive_access(f.static(PROGRAMS[number]), "no thread runs")
    program.number, program.device, program.stream = number, None, stream
    program.pending_launches.store(0, RELAXED)
    program.entry = f.address_of(entry_of(number))
    program.spare_frame.store(None, RELAXED)
    program.table, program.table_bytes, program.arena_bytes = f.static(_TABLES[number]), 8 * ENTRIES, 8
    f.static(CONSTANTS).value = 3
    f.static(_TABLES[number]).items[CONSTANT] = f.static(CONSTANTS)
    program.argument_count, program.arguments = 2, first
    program.donated_count, program.donated = 1, words(f, f"donated{number}", 1).cast(Numbers)
    program.result_count = 2
    program.outputs = words(f, f"outputs{number}", template, template).cast(Buffers)
    program.aliases = words(f, f"aliases{number}", -1, 1).cast(Numbers)
    program.result_entries = words(f, f"entries{number}", RESULT, SECOND).cast(Numbers)
    program.shared_index = SHARED
    program.trace_id.store(0, RELAXED)
    program.failure, program.failure_size = f.text("device: ")


@cache
def entry_of(number: int) -> NativeFunction[[Address], Int32]:
    """The program of a device."""

    def run_program(f: Function, table: Address) -> Int32:
        entries = table.cast(Pointers).items
        f.static(OUTCOME).runs.fetch_add(1, RELAXED)
        entries[ARENA].cast(Element).value = 1
        f.check(entries[CONSTANT].cast(Element).value == 3, "the table has the program's constants")
        first, second = entries[FIRST].cast(Element), entries[SECOND].cast(Element)
        entries[RESULT].cast(Element).value = first.value + 1
        second.value = second.value + 10
        collectives = f.static(EXECUTABLE).has_collectives
        with f.when(f.static(OUTCOME).must_be_canceled.load(ACQUIRE) != 0):
            with f.when(collectives != 0) as synchronize:
                polled = entries[SHARED].cast(CancellationWord).is_canceled.load(RELAXED)
                f.check(polled != 0, "a launch that runs after a cancellation is canceled")
            with synchronize.otherwise():
                own = entries[SHARED].cast(PolledWord).is_canceled.load(RELAXED)
                f.check(own != 0, "a program that runs after a cancellation is canceled")
        with f.when(collectives != 0):
            entries[SHARED].offset(8 * (1 + number)).cast(Element).value = 1
        statuses = f.static(OUTCOME)
        return (statuses.second_status if number else statuses.statuses).load(RELAXED)

    run_program.__name__ = f"model_entry{number}"
    run_program.__annotations__ = {"f": Function, "table": Address, "return": Int32}
    return native(run_program)


ENTRY_FUNCTIONS = [entry_of(0), entry_of(1)]


# --- buffers


def fill_buffer(f: Function, made: Buffer, storage: Storage | None) -> None:
    """Sets the fields of a buffer that owns a storage."""
    buffer = f.exclusive_access(made, "nobody has it yet")
    buffer.zero = 0
    buffer.data = None if storage is None else storage.offset(STORAGE_BYTES)
    buffer.storage = None if storage is None else storage.maybe()
    buffer.external_storage = None
    buffer.external_references, buffer.donation = 0, 0
    buffer.event = f.static(READY_EVENT)
    buffer.on_device_size_in_bytes = 8
    buffer.device, buffer.memory = None, None
    buffer.type, buffer.num_dims = 1, 0
    buffer.dims = buffer.offset(Buffer.byte_size())
    buffer.is_on_cpu, buffer.record_bytes = 1, Buffer.byte_size()
    buffer.layout = None


def new_arguments(f: Function, caller: int, device: int) -> None:
    """Makes the arguments 5 and 6 of a caller for a device."""
    for index in range(2):
        storage = allocate(f, f.constant(Word, 8)).known("memory suffices")
        storage.offset(STORAGE_BYTES).cast(Element).value = 5 + index
        made = f.allocate(Buffer).known("memory suffices")
        fill_buffer(f, made, storage)
        slots(f, "arguments", caller, device).items[index] = made.maybe()


def argument(f: Function, index: int, caller: int = 0, device: int = 0) -> Buffer:
    return slots(f, "arguments", caller, device).items[index].known("prepared")


def results_of(f: Function, caller: int = 0, device: int = 0) -> tuple[Buffer, Buffer]:
    first, second = (slots(f, "results", caller, device).items[index].known("returned") for index in range(2))
    return first, second


def value_of(f: Function, buffer: Buffer) -> Word:
    return buffer.data.known("it has a storage").cast(Element).value


# --- calls


def call(f: Function, devices: int = 1, caller: int = 0) -> Word:
    """Calls the executable with the arguments of a caller; returns what `execute` does."""
    lists = [
        words(f, f"{name}_lists{caller}", *(slots(f, name, caller, device) for device in range(devices)))
        for name in ("arguments", "results")
    ]
    events = words(f, f"events{caller}", *[0] * devices).cast(Events)
    given, returned = (one.cast(GivenBufferLists) for one in lists)
    return execute(f, f.static(EXECUTABLE), given, returned, events.maybe())


def event_of(f: Function, device: int = 0, caller: int = 0) -> Event:
    """The event of a device that the last call has returned."""
    return f.static(Static(f"model_events{caller}", Pointers, 8)).cast(Events).items[device]


@cache
def stream_thread(*numbers: int) -> NativeFunction[[], None]:
    """The thread of a stream, which runs one frame, or that of several, one after the other."""

    def run_one(f: Function) -> None:
        for number in numbers:
            run_next(f, f.static(STREAMS[number]))

    run_one.__name__ = f"run_stream{''.join(map(str, numbers))}"
    return native(run_one)


def finish_call(f: Function, devices: int = 1, caller: int = 0, succeeds: bool | None = None) -> None:
    """Awaits the results of a call, checks them and destroys them. succeeds: what is expected; None for both."""
    for device in range(devices):
        first, second = results_of(f, caller, device)
        error = await_event(f, first.event)
        if succeeds is not None:
            f.check(error.is_null() if succeeds else error.is_present(), "the call ends as expected")
        with f.when(error.is_null()):
            f.check(value_of(f, first) == 6, "the first result is the first argument plus one")
            f.check(value_of(f, second) == 16, "the second result is the donated argument plus ten")
        free_error(f, error)
        release_event(f, event_of(f, device, caller))
        destroy_buffer(f, first)
        destroy_buffer(f, second)


def destroy_arguments(f: Function, devices: int = 1, caller: int = 0) -> None:
    for device in range(devices):
        for index in range(2):
            destroy_buffer(f, argument(f, index, caller, device))


def free_executable(f: Function, devices: int = 1) -> None:
    """Frees what an executable owns, and writes to its records as one that reuses their memory does."""
    executable = f.static(EXECUTABLE)
    free_spare_memory(f, executable)
    f.exclusive_access(executable, "it is not used any more").shared_bytes = 0
    for number in range(devices):
        f.exclusive_access(f.static(PROGRAMS[number]), "it is not used any more").arena_bytes = 0
    f.static(OUTCOME).is_freed.store(1, RELAXED)


def nothing_is_left(f: Function, devices: int = 1) -> None:
    """Frees what the executable keeps. Afterwards, all memory is freed, as the checker verifies."""
    free_spare_memory(f, f.static(EXECUTABLE))
    nothing_is_kept(f, devices)


def nothing_is_kept(f: Function, devices: int = 1) -> None:
    """Checks the queues and counts after all launches have ended."""
    for number in range(devices):
        f.check(f.static(STREAMS[number]).free_slots.load(RELAXED) == CAPACITY, "all slots of the queue are free")
        f.check(f.static(PROGRAMS[number]).pending_launches.load(RELAXED) == 0, "no launch is pending")
    f.check(f.static(USAGE).used.load(RELAXED) == 0, "no memory is in use")
