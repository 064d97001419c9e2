"""Launch frames: the state of a launch on one device, from its arguments to the buffers of its results.

A frame owns the storages of its arguments and results, and its arena, so buffers may be deleted while a launch waits or
runs. Everything that needs memory is allocated before a launch is queued or run: afterwards, nothing can be refused. A
device program keeps one spare frame; concurrent launches allocate their own.

Responsible for frames, and for the storages and buffers of launches. Must not know which thread runs a frame.
"""

from __future__ import annotations

from xlapy.native.function import Function, free, native
from xlapy.native.ir import ACQ_REL, RELAXED
from xlapy.native.values import Bool, Int32, Nullable, Word
from xlapy.runtime.engine.core.buffers import (
    acquire_hold,
    destroy_buffer,
    give_storage_back,
    make_buffer,
    take_storage,
)
from xlapy.runtime.engine.core.events import (
    Event,
    is_event_complete,
    is_event_lost,
    is_event_successful,
    memcpy,
    retain_event,
)
from xlapy.runtime.engine.core.launch_records import (
    Argument,
    Buffers,
    DeviceProgram,
    Events,
    GivenBuffers,
    LaunchFrame,
    address_table,
    argument_storages,
    result_buffers,
    result_storages,
)
from xlapy.runtime.engine.core.launch_times import record_time, ticks
from xlapy.runtime.engine.core.memory import (
    STORAGE_BYTES,
    Storage,
    allocate,
    is_queued,
    is_unique_owner,
    release,
    retain,
)

# --- lifetime


@native
def acquire_frame(f: Function, program: DeviceProgram) -> Nullable[LaunchFrame]:
    """A frame that no launch uses; null if memory is exhausted."""
    spare = program.spare_frame.exchange(None, ACQ_REL)
    with f.when(spare.is_present()):
        spare.value.is_canceled.store(0, RELAXED)
        f.ret(spare)
    rows = program.argument_count + program.result_count * 2
    made = f.allocate(LaunchFrame, rows * 8 + program.table_bytes)
    with f.when(made.is_null()):
        f.ret(None)
    frame = made.value
    memcpy(f, address_table(program, frame), program.table, program.table_bytes)
    frame.program = program
    frame.launch = None
    frame.arena = None
    frame.is_canceled.store(0, RELAXED)
    address_table(program, frame)[program.shared_index] = frame.is_canceled.address
    return made


@native
def return_frame(f: Function, program: DeviceProgram, frame: LaunchFrame) -> None:
    """Keeps a frame that owns no arguments and results as the spare one, or frees it."""
    # Failure acquires nothing, because the spare frame that is there is not looked at.
    _, is_kept = program.spare_frame.compare_exchange(None, frame.maybe(), ACQ_REL, RELAXED)
    with f.when(~is_kept):
        free_frame(f, frame)


@native
def free_frame(f: Function, frame: LaunchFrame) -> None:
    """Frees a frame and its arena."""
    arena = frame.arena
    with f.when(arena.is_present()):
        release(f, arena.value)
    free(f, frame.as_memory())


@native
def free_spare_frame(f: Function, program: DeviceProgram) -> None:
    """Frees the spare frame of a program, if there is one."""
    spare = program.spare_frame.exchange(None, ACQ_REL)
    with f.when(spare.is_present()):
        free_frame(f, spare.value)


# --- arguments


@native
def expected_argument(f: Function, program: DeviceProgram, number: Word) -> Argument:
    """What a program expects of an argument."""
    return program.arguments.offset(number * Argument.byte_size()).cast(Argument)


@native
def fits_device(
    f: Function, program: DeviceProgram, arguments: Nullable[GivenBuffers], results: Nullable[Buffers]
) -> Bool:
    """Whether a call has a list of arguments, which are buffers on the device of a program, and one of results."""
    with f.when((program.result_count != 0) & results.is_null()):
        f.ret(False)
    with f.when(program.argument_count == 0):
        f.ret(True)
    with f.when(arguments.is_null()):
        f.ret(False)
    with f.count(program.argument_count) as one:
        buffer = arguments.value.items[one.index]
        with f.when(buffer.is_null()):
            f.ret(False)
        with f.when(buffer.value.device != program.device):
            f.ret(False)
    return f.constant(Bool, True)


@native
def acquire_arguments(f: Function, program: DeviceProgram, frame: LaunchFrame, buffers: Buffers) -> Bool:
    """Becomes an owner of the storages of the arguments, and takes those of donated ones. False, with nothing acquired,
    if an argument is not what the program expects or was deleted."""
    storages = argument_storages(frame)
    table = address_table(program, frame)
    with f.count(program.argument_count) as one:
        buffer = buffers.items[one.index]
        expected = expected_argument(f, program, one.index)
        matches = (buffer.type == expected.type) & (buffer.on_device_size_in_bytes == expected.size)
        with f.when(~((matches & (buffer.layout == expected.layout)) | (expected.is_token != 0))):
            give_arguments_back(f, program, frame, buffers, one.index)
            f.ret(False)
        found = f.variable(Nullable[Storage], None)
        with f.when(expected.is_donated != 0) as donated:
            found.set(take_storage(f, buffer))
        with donated.otherwise():
            found.set(acquire_hold(f, buffer))
        storage = found.get()
        with f.when(storage.is_null()):
            give_arguments_back(f, program, frame, buffers, one.index)
            f.ret(False)
        storages[one.index] = storage.value
        table[expected.entry] = buffer.data.known("a buffer that has a storage has data")
    return f.constant(Bool, True)


@native
def give_arguments_back(f: Function, program: DeviceProgram, frame: LaunchFrame, buffers: Buffers, count: Word) -> None:
    """Undoes `acquire_arguments` for the first arguments, because the launch is refused."""
    storages = argument_storages(frame)
    with f.count(count) as one:
        storage = storages[one.index]
        with f.when(expected_argument(f, program, one.index).is_donated != 0) as donated:
            give_storage_back(f, buffers.items[one.index], storage)
        with donated.otherwise():
            release(f, storage)


@native
def release_arguments(f: Function, program: DeviceProgram, frame: LaunchFrame) -> None:
    """Gives up the ownership of the storages of the arguments."""
    storages = argument_storages(frame)
    with f.count(program.argument_count) as one:
        release(f, storages[one.index])


@native
def are_arguments_ready(f: Function, program: DeviceProgram, buffers: Buffers) -> Bool:
    """Whether the elements of all arguments are ready."""
    with f.count(program.argument_count) as one, f.when(~is_event_successful(f, buffers.items[one.index].event)):
        f.ret(False)
    return f.constant(Bool, True)


@native
def are_arguments_in_order(f: Function, program: DeviceProgram, frame: LaunchFrame, buffers: Buffers) -> Bool:
    """Whether launches that are queued write all arguments that are not ready. The host fills other buffers, and no
    launch may be queued that would wait for that. What a fork has lost nobody writes."""
    storages = argument_storages(frame)
    with f.count(program.argument_count) as one:
        event = buffers.items[one.index].event
        with f.when(is_event_lost(f, event)):
            f.ret(False)
        with f.when(~(is_event_complete(f, event) | is_queued(f, storages[one.index]))):
            f.ret(False)
    return f.constant(Bool, True)


@native
def may_overwrite_donated(f: Function, program: DeviceProgram, frame: LaunchFrame, counts_queued: Bool) -> Bool:
    """Whether the launch is the only owner of all donated storages. counts_queued: see `is_unique_owner`.

    No one else can become an owner afterwards: the buffers have given their storages away.
    """
    storages = argument_storages(frame)
    with f.count(program.donated_count) as one:
        number = program.donated.items[one.index]
        with f.when(~is_unique_owner(f, storages[number], counts_queued)):
            f.ret(False)
    return f.constant(Bool, True)


# --- results


@native
def allocate_results(f: Function, program: DeviceProgram, frame: LaunchFrame, event: Event) -> Bool:
    """Makes the storages and the buffers of the results, which become ready with the event. False, with nothing
    allocated, if memory is exhausted."""
    buffers, storages = result_buffers(program, frame), result_storages(program, frame)
    with f.count(program.result_count) as one:
        storage = result_storage(f, program, frame, one.index)
        with f.when(storage.is_null()):
            destroy_results(f, program, frame, one.index)
            f.ret(False)
        data = address_table(program, frame)[program.result_entries.items[one.index]]
        buffer = make_buffer(f, program.outputs.items[one.index], storage.value, data)
        with f.when(buffer.is_null()):
            release(f, storage.value)
            destroy_results(f, program, frame, one.index)
            f.ret(False)
        made = f.exclusive_access(buffer.value, "the buffer was just made")
        retain_event(f, event)
        made.event = event
        buffers[one.index] = made
        storages[one.index] = storage.value
    return f.constant(Bool, True)


@native
def result_storage(f: Function, program: DeviceProgram, frame: LaunchFrame, number: Word) -> Nullable[Storage]:
    """The storage of a result, of which the caller becomes an owner: a new one, or that of an argument. Null if memory
    is exhausted."""
    alias = program.aliases.items[number]
    with f.when(~alias.is_negative()):
        shared = argument_storages(frame)[alias]
        retain(f, shared)
        f.ret(shared)
    made = allocate(f, program.outputs.items[number].on_device_size_in_bytes)
    with f.when(made.is_present()):
        address_table(program, frame)[program.result_entries.items[number]] = made.value.offset(STORAGE_BYTES)
    return made


@native
def destroy_results(f: Function, program: DeviceProgram, frame: LaunchFrame, count: Word) -> None:
    """Destroys the buffers of the first results, and with them their storages."""
    buffers = result_buffers(program, frame)
    with f.count(count) as one:
        destroy_buffer(f, buffers[one.index])


@native
def return_results(
    f: Function, program: DeviceProgram, frame: LaunchFrame, event: Event, results: Buffers, done: Nullable[Events]
) -> None:
    """Passes the buffers of the results to the caller, and the event if it is requested."""
    buffers = result_buffers(program, frame)
    with f.count(program.result_count) as one:
        results.items[one.index] = buffers[one.index]
    with f.when(done.is_present()):
        retain_event(f, event)
        done.value.items[program.number] = event


# --- running


@native
def allocate_arena(f: Function, program: DeviceProgram, frame: LaunchFrame) -> Bool:
    """Allocates the arena of a frame, unless it has one; false if memory is exhausted."""
    with f.when(frame.arena.is_present()):
        f.ret(True)
    made = allocate(f, program.arena_bytes)
    with f.when(made.is_null()):
        f.ret(False)
    frame.arena = made
    address_table(program, frame)[0] = made.value.offset(STORAGE_BYTES)
    return f.constant(Bool, True)


@native
def run_frame(f: Function, program: DeviceProgram, frame: LaunchFrame) -> Int32:
    """Runs the program on a frame that has its arena; returns 0 on success."""
    table = address_table(program, frame)
    number = program.trace_id.load(RELAXED)
    with f.when(number == 0):
        f.ret(f.call_address(program.entry, table, result=Int32))
    begin = ticks(f)
    status = f.call_address(program.entry, table, result=Int32)
    record_time(f, number, begin, ticks(f))
    return status
