"""Calls of an executable under all schedules: the caller's thread, the thread of the stream, cancellation, deletion."""

from __future__ import annotations

import pytest

from xlapy.native.checker.explore import explore
from xlapy.native.checker.memory import ScheduleError
from xlapy.native.function import Function, Static, native
from xlapy.native.ir import RELAXED
from xlapy.native.records import Array, Atomic, Owned, Record, Trailing
from xlapy.native.values import Address, Int32, Nullable, Word
from xlapy.runtime.engine.core.buffers import Buffer, delete_buffer, destroy_buffer, is_deleted
from xlapy.runtime.engine.core.events import READY_EVENT, Event, await_event, canceled_error, free_error
from xlapy.runtime.engine.core.executables import (
    await_destroyed,
    free_spare_memory,
    release_executable,
    retain_executable,
    take_destroyed,
)
from xlapy.runtime.engine.core.execute import DONE, GivenBufferLists, execute
from xlapy.runtime.engine.core.frames import free_spare_frame
from xlapy.runtime.engine.core.launch_records import (
    CANCELLATION,
    LAUNCHES,
    QUEUES,
    Argument,
    Buffers,
    DeviceProgram,
    DevicePrograms,
    Events,
    Executable,
    Launch,
    Numbers,
    Stream,
)
from xlapy.runtime.engine.core.launches import (
    LaunchPointers,
    active_launches,
    close_launch,
    fail_launch,
    is_launch_canceled,
    new_launch,
    release_launch,
)
from xlapy.runtime.engine.core.memory import STORAGE_BYTES, Storage, allocate, release
from xlapy.runtime.engine.core.queues import CAPACITY
from xlapy.runtime.engine.core.streams import cancel_launch_of_event, run_next


class Board(Record):
    """What the threads share. result: of a call. copied: the event of a copy. calls: number of runs of the program."""

    executable: Atomic[Nullable[Executable]]
    program: Atomic[Nullable[DeviceProgram]]
    buffer: Atomic[Nullable[Buffer]]
    stream: Atomic[Nullable[Stream]]
    launch: Atomic[Nullable[Launch]]
    result: Atomic[Nullable[Buffer]]
    copied: Atomic[Nullable[Event]]
    calls: Atomic[Word]
    done: Atomic[Word]
    is_donated: Atomic[Word]


BOARD = Static("board", Board)
STREAM = Static("test_stream", Stream)


class Element(Record):
    """The element of a buffer."""

    value: Owned[Word]


class Table(Record):
    """The address table of a launch."""

    items: Trailing[Element]


@native
def add_one(f: Function, table: Table) -> Int32:
    """The program: the result, at entry 2, or the donated argument, at entry 1, is the argument plus one."""
    board = f.static(BOARD)
    board.calls.fetch_add(1, RELAXED)
    value = table.items[1].value + 1
    with f.when(board.is_donated.load(RELAXED) != 0) as donated:
        table.items[1].value = value
    with donated.otherwise():
        table.items[2].value = value
    return f.constant(Int32, 0)


@native
def new_buffer(f: Function, storage: Nullable[Storage]) -> Buffer:
    buffer = f.allocate(Buffer).known("memory suffices")
    buffer.zero = 0
    buffer.data = None
    with f.when(storage.is_present()):
        buffer.data = storage.value.offset(STORAGE_BYTES).maybe()
    buffer.storage = storage
    buffer.external_storage = None
    buffer.external_references = 0
    buffer.donation = 0
    buffer.event = f.static(READY_EVENT)
    buffer.on_device_size_in_bytes = 8
    buffer.device = None
    buffer.memory = None
    buffer.type = 1
    buffer.num_dims = 0
    buffer.dims = buffer.offset(Buffer.byte_size())
    buffer.is_on_cpu = 1
    buffer.record_bytes = Buffer.byte_size()
    buffer.layout = None
    return buffer


def array(f: Function, kind: type, count: int) -> Array:
    memory = f.allocate(Address, count * 8).known("memory suffices")
    return Array(f, memory.operand, kind, "an array of the test")


def build_executable(f: Function, is_donated: bool) -> None:
    """An executable on one device with one argument and one result of a word each, which runs on a stream."""
    board = f.static(BOARD)
    board.is_donated.store(int(is_donated), RELAXED)
    stream = f.exclusive_access(f.static(STREAM), "no thread runs")
    stream.is_started.store(1, RELAXED)
    stream.free_slots.store(CAPACITY, RELAXED)
    stream.host_thread.store(0, RELAXED)
    stream.enqueuing.store(1, RELAXED)
    stream.next = None
    stream.leader = stream
    f.static(QUEUES).streams.store(stream.maybe(), RELAXED)
    program = f.allocate(DeviceProgram).known("memory suffices")
    argument = f.allocate(Argument).known("memory suffices")
    argument.type, argument.size, argument.layout, argument.is_donated = 1, 8, None, int(is_donated)
    argument.is_token, argument.entry = 0, 1
    program.number, program.device, program.stream = 0, None, stream
    program.pending_launches.store(0, RELAXED)
    program.entry = f.address_of(add_one)
    program.spare_frame.store(None, RELAXED)
    table = array(f, Word, 4)
    for index in range(4):
        table[index] = 0
    program.table, program.table_bytes, program.arena_bytes = table, 32, 8
    program.argument_count, program.arguments = 1, argument
    donated = array(f, Word, 1)
    donated[0] = 0
    program.donated_count, program.donated = int(is_donated), donated.cast(Numbers)
    outputs = array(f, Buffer, 1)
    outputs[0] = new_buffer(f, f.null(Storage))
    aliases = array(f, Word, 1)
    aliases[0] = 0 if is_donated else -1
    program.result_count, program.outputs, program.aliases = 1, outputs.cast(Buffers), aliases.cast(Numbers)
    entries = array(f, Word, 1)
    entries[0] = 1 if is_donated else 2
    program.result_entries, program.shared_index = entries.cast(Numbers), 3
    program.trace_id.store(0, RELAXED)
    programs = array(f, DeviceProgram, 1)
    programs[0] = program
    executable = f.allocate(Executable).known("memory suffices")
    executable.owners.store(1, RELAXED)
    executable.is_asynchronous = 1
    executable.device_programs, executable.device_program_count = programs.cast(DevicePrograms), 1
    executable.calls_python, executable.has_collectives, executable.calls_host = 0, 0, 0
    executable.shared_bytes = executable.cleared_bytes = 8
    executable.wait_word_count = 0
    executable.processes, executable.exchange_slot_count = None, 0
    executable.wait_words = array(f, Word, 0).cast(Numbers)
    executable.spare_shared.store(None, RELAXED)
    storage = allocate(f, f.constant(Word, 8)).known("memory suffices")
    storage.offset(STORAGE_BYTES).cast(Element).value = 5
    board.buffer.store(new_buffer(f, storage.maybe()).maybe(), RELAXED)
    board.executable.store(executable.maybe(), RELAXED)
    board.program.store(program.maybe(), RELAXED)


@native
def prepare(f: Function) -> None:
    build_executable(f, is_donated=False)


@native
def prepare_donation(f: Function) -> None:
    build_executable(f, is_donated=True)


@native
def call_once(f: Function) -> Nullable[Buffer]:
    """Calls the executable; returns the result, or null if the call was refused."""
    board = f.static(BOARD)
    executable = board.executable.load(RELAXED).known("prepared")
    arguments, results = array(f, Buffer, 1), array(f, Buffer, 1)
    arguments[0] = board.buffer.load(RELAXED).known("prepared")
    lists, result_lists = array(f, Buffers, 1), array(f, Buffers, 1)
    lists[0], result_lists[0] = arguments.cast(Buffers), results.cast(Buffers)
    given, returned = lists.cast(GivenBufferLists), result_lists.cast(GivenBufferLists)
    status = execute(f, executable, given, returned, f.null(Events))
    with f.when(status != DONE):
        f.ret(None)
    return results[0].maybe()


@native
def call_and_read(f: Function) -> None:
    """Calls the executable, waits for the result and destroys it."""
    made = call_once(f)
    with f.when(made.is_null()):
        f.ret()
    result = made.value
    error = await_event(f, result.event)
    with f.when(error.is_null()):
        f.static(BOARD).done.fetch_add(1, RELAXED)
        f.check(result.data.known("it has a storage").cast(Element).value == 6, "the result is the argument plus one")
    free_error(f, error)
    destroy_buffer(f, result)


@native
def call_and_drop(f: Function) -> None:
    """Calls the executable and destroys the result at once, while it is pending."""
    made = call_once(f)
    with f.when(made.is_present()):
        destroy_buffer(f, made.value)


@native
def run_one(f: Function) -> None:
    run_next(f, f.static(STREAM))


@native
def call_cancel_and_read(f: Function) -> None:
    """Calls the executable, cancels the launch, and waits for the result, which is there or failed. Explored by the
    stress test `schedules`."""
    made = call_once(f)
    with f.when(made.is_null()):
        f.ret()
    result = made.value
    cancel_launch_of_event(f, result.event)
    free_error(f, await_event(f, result.event))
    destroy_buffer(f, result)


@native
def the_storages_are_released(f: Function) -> None:
    """Frees what the test knows; whatever else is left is a leak of the engine, found by its storages."""
    board = f.static(BOARD)
    free_spare_frame(f, board.program.load(RELAXED).known("prepared"))
    destroy_buffer(f, board.buffer.load(RELAXED).known("prepared"))
    f.check(f.static(STREAM).free_slots.load(RELAXED) == CAPACITY, "all slots of the queue are free")
    f.check(board.program.load(RELAXED).known("prepared").pending_launches.load(RELAXED) == 0, "no launch is pending")


def test_a_caller_reads_what_the_stream_wrote():
    explore(prepare, [call_and_read, run_one], the_storages_are_released, also=[add_one], allows_leaks=True)


def test_a_pending_result_may_be_destroyed():
    explore(prepare, [call_and_drop, run_one], the_storages_are_released, also=[add_one], allows_leaks=True)


@native
def call_and_drop_and_delete(f: Function) -> None:
    """Deletes the argument and the result while the launch waits. Explored by the stress test `schedules`."""
    made = call_once(f)
    delete_buffer(f, f.static(BOARD).buffer.load(RELAXED).known("prepared"))
    with f.when(made.is_present()):
        destroy_buffer(f, made.value)


def test_a_donated_argument_is_overwritten_in_place():
    @native
    def the_argument_is_gone(f: Function) -> None:
        buffer = f.static(BOARD).buffer.load(RELAXED).known("prepared")
        f.check(is_deleted(f, buffer), "a donated buffer is deleted")
        the_storages_are_released(f)

    explore(prepare_donation, [call_and_read, run_one], the_argument_is_gone, also=[add_one], allows_leaks=True)


# --- launches whose devices synchronize


@native
def prepare_launch(f: Function) -> None:
    build_executable(f, is_donated=False)
    board = f.static(BOARD)
    made = new_launch(f, board.executable.load(RELAXED).known("prepared"))
    made.known("memory suffices").owners.store(2, RELAXED)
    board.launch.store(made, RELAXED)


def the_launch(f: Function) -> Launch:
    return f.static(BOARD).launch.load(RELAXED).known("prepared")


@native
def fail_from_outside(f: Function) -> None:
    fail_launch(f, the_launch(f), canceled_error(f).maybe())
    release_launch(f, the_launch(f))


@native
def finish_launch(f: Function) -> None:
    close_launch(f, the_launch(f))
    release_launch(f, the_launch(f))


@native
def inspect(f: Function) -> None:
    """What the watchdog does with active launches."""
    row = array(f, Launch, 1)
    with f.when(active_launches(f, row.cast(LaunchPointers), f.constant(Word, 1)) == 1):
        launch = row[0]
        is_launch_canceled(f, launch)
        release(f, launch.shared)
        release_launch(f, launch)


@native
def no_launch_is_active(f: Function) -> None:
    launches = f.static(LAUNCHES)
    with f.locked(launches.lock):
        f.check(launches.first.is_null(), "no launch is active")


def test_a_launch_fails_from_outside_while_it_finishes():
    threads = [fail_from_outside, finish_launch]
    explore(prepare_launch, threads, no_launch_is_active, also=[add_one], allows_leaks=True)
    explore(prepare_launch, [*threads, inspect], no_launch_is_active, also=[add_one], allows_leaks=True)


# --- handles of executables


@native
def two_handles(f: Function) -> None:
    build_executable(f, is_donated=False)
    retain_executable(f, f.static(BOARD).executable.load(RELAXED).known("prepared"))


@native
def drop_handle(f: Function) -> None:
    release_executable(f, f.static(BOARD).executable.load(RELAXED).known("prepared"))


@native
def free_one(f: Function) -> None:
    found = await_destroyed(f)
    with f.when(found.is_present()):
        free_spare_memory(f, found.value)
        f.static(BOARD).done.fetch_add(1, RELAXED)


@native
def freed_once(f: Function) -> None:
    f.check(f.static(BOARD).done.load(RELAXED) == 1, "the executable is freed once")
    f.check(take_destroyed(f).is_null(), "no executable is left")


def test_the_last_handle_wakes_the_thread_that_frees_the_executable():
    explore(two_handles, [drop_handle, drop_handle, free_one], freed_once, also=[add_one], allows_leaks=True)


def test_a_stream_that_forgets_to_complete_is_found():
    @native
    def run_none(f: Function) -> None:
        with f.when(f.static(CANCELLATION).requested.load(RELAXED) != 0):
            run_next(f, f.static(STREAM))

    with pytest.raises(ScheduleError) as caught:
        explore(prepare, [call_and_read, run_none], also=[add_one], allows_leaks=True)
    assert caught.value.kind == "deadlock"
