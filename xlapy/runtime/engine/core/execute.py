"""Calls of executables, from their arguments to their results.

An executable has a device program per device, and a call has a launch frame for each. A short program whose arguments
are ready runs in the caller's thread, one device after the other. All other launches are queued on the streams of their
devices, including all programs whose devices synchronize. A call that native code cannot run is refused before anything
has changed: arguments that do not match, donated buffers whose memory has other owners, exhausted memory.

Responsible for choosing how a call runs, and for runs in the caller's thread. Must not know how programs are compiled,
or when streams run frames.
"""

from __future__ import annotations

from xlapy.native.function import Function, free, malloc, native
from xlapy.native.ir import RELAXED
from xlapy.native.records import Record, Trailing
from xlapy.native.threads import thread_number
from xlapy.native.values import Bool, Nullable, Word
from xlapy.runtime.engine.core.events import READY_EVENT, new_event, release_event
from xlapy.runtime.engine.core.frames import (
    acquire_arguments,
    acquire_frame,
    allocate_arena,
    allocate_results,
    are_arguments_in_order,
    are_arguments_ready,
    destroy_results,
    fits_device,
    give_arguments_back,
    may_overwrite_donated,
    release_arguments,
    return_frame,
    return_results,
    run_frame,
)
from xlapy.runtime.engine.core.launch_records import (
    QUEUES,
    Buffers,
    DeviceProgram,
    Events,
    Executable,
    Frames,
    GivenBuffers,
    Launch,
    LaunchFrame,
    address_table,
    argument_storages,
    result_storages,
)
from xlapy.runtime.engine.core.launches import close_launch, new_launch, release_launch
from xlapy.runtime.engine.core.memory import STORAGE_BYTES, mark_queued, retain
from xlapy.runtime.engine.core.queues import acquire_slots, device_program, push_all
from xlapy.runtime.engine.core.streams import is_serving_host, may_queue, start_stream

DONE, REFUSED, CANCELED = 0, 1, 2
"""What became of a call: its results were returned (and may be pending); nothing has changed; it was canceled."""


_STACK_FRAMES = 64
"""Calls on more devices allocate the list of their frames: stacks of threads are small."""


class BufferLists(Record):
    """For each device, the buffers of its arguments or results."""

    items: Trailing[Buffers]


class GivenBufferLists(Record):
    """Pointers that a caller gives as such lists."""

    items: Trailing[Nullable[Buffers]]


@native
def execute(
    f: Function,
    executable: Executable,
    given_arguments: GivenBufferLists,
    given_results: GivenBufferLists,
    events: Nullable[Events],
) -> Word:
    """Runs or queues an executable on all of its devices; returns `DONE`, `REFUSED` or `CANCELED`.

    events: where the event of each device is stored, if it is requested.
    """
    count = executable.device_program_count
    with f.count(count) as one:
        program = device_program(executable, one.index)
        buffers = given_arguments.items[one.index].cast(GivenBuffers)
        with f.when(~fits_device(f, program, buffers, given_results.items[one.index])):
            f.ret(REFUSED)
    arguments, results = given_arguments.cast(BufferLists), given_results.cast(BufferLists)
    with f.when(count <= _STACK_FRAMES):
        memory = f.stack(_STACK_FRAMES * 8)
        f.ret(execute_with_frames(f, executable, memory.cast(Frames), arguments, results, events))
    allocated = malloc(f, count * 8)
    with f.when(allocated.is_null()):
        f.ret(REFUSED)
    status = execute_with_frames(f, executable, allocated.value.cast(Frames), arguments, results, events)
    free(f, allocated)
    return status


@native
def execute_with_frames(
    f: Function,
    executable: Executable,
    frames: Frames,
    arguments: BufferLists,
    results: BufferLists,
    events: Nullable[Events],
) -> Word:
    """As `execute`, with buffers that fit. frames: memory for a frame of each device."""
    count = executable.device_program_count
    with f.when(~acquire_frames(f, executable, frames, arguments)):
        f.ret(REFUSED)
    status = f.variable(Word, REFUSED)
    is_long = f.variable(Bool, executable.is_asynchronous != 0)
    with f.when(is_long.get()):
        is_long.set(may_queue(f))
    are_ready = are_all_arguments_ready(f, executable, arguments)
    with f.when(is_long.get() | ~are_ready) as waits:
        with f.when(are_ready | are_all_arguments_in_order(f, executable, frames, arguments)):
            with f.when(enqueue(f, executable, frames, results, events)):
                f.ret(DONE)
    with waits.otherwise():
        # One thread cannot run devices that wait for each other.
        with f.when(executable.has_collectives == 0):
            status.set(run_in_caller(f, executable, frames, results, events))
    with f.when(status.get() == REFUSED):
        give_frames_back(f, executable, frames, arguments, count)
        f.ret(REFUSED)
    with f.count(count) as one:
        release_arguments(f, device_program(executable, one.index), frames.items[one.index])
        return_frame(f, device_program(executable, one.index), frames.items[one.index])
    return status.get()


# --- frames of all devices


@native
def acquire_frames(f: Function, executable: Executable, frames: Frames, arguments: BufferLists) -> Bool:
    """Acquires a frame for each device, with its arguments; false, with nothing acquired, if that is not possible."""
    with f.count(executable.device_program_count) as one:
        program = device_program(executable, one.index)
        made = acquire_frame(f, program)
        with f.when(made.is_null()):
            give_frames_back(f, executable, frames, arguments, one.index)
            f.ret(False)
        frame = made.value
        with f.when(~acquire_arguments(f, program, frame, arguments.items[one.index])):
            return_frame(f, program, frame)
            give_frames_back(f, executable, frames, arguments, one.index)
            f.ret(False)
        frames.items[one.index] = frame
    return f.constant(Bool, True)


@native
def give_frames_back(f: Function, executable: Executable, frames: Frames, arguments: BufferLists, count: Word) -> None:
    """Undoes `acquire_frames` on the first devices."""
    with f.count(count) as one:
        program, frame = device_program(executable, one.index), frames.items[one.index]
        give_arguments_back(f, program, frame, arguments.items[one.index], program.argument_count)
        return_frame(f, program, frame)


@native
def are_all_arguments_ready(f: Function, executable: Executable, arguments: BufferLists) -> Bool:
    """Whether the elements of the arguments of all devices are ready."""
    with f.count(executable.device_program_count) as one:
        with f.when(~are_arguments_ready(f, device_program(executable, one.index), arguments.items[one.index])):
            f.ret(False)
    return f.constant(Bool, True)


@native
def are_all_arguments_in_order(f: Function, executable: Executable, frames: Frames, arguments: BufferLists) -> Bool:
    """As `are_arguments_in_order`, for all devices."""
    with f.count(executable.device_program_count) as one:
        program, frame = device_program(executable, one.index), frames.items[one.index]
        with f.when(~are_arguments_in_order(f, program, frame, arguments.items[one.index])):
            f.ret(False)
    return f.constant(Bool, True)


@native
def may_overwrite_all_donated(f: Function, executable: Executable, frames: Frames, counts_queued: Bool) -> Bool:
    """Whether no one else owns the donated storages of all devices."""
    with f.count(executable.device_program_count) as one:
        program = device_program(executable, one.index)
        with f.when(~may_overwrite_donated(f, program, frames.items[one.index], counts_queued)):
            f.ret(False)
    return f.constant(Bool, True)


@native
def destroy_all_results(f: Function, executable: Executable, frames: Frames, count: Word) -> None:
    """Destroys the results of the first devices."""
    with f.count(count) as one:
        program = device_program(executable, one.index)
        destroy_results(f, program, frames.items[one.index], program.result_count)


# --- in the caller's thread


@native
def run_in_caller(
    f: Function, executable: Executable, frames: Frames, results: BufferLists, events: Nullable[Events]
) -> Word:
    """Runs the frames in this thread. `REFUSED` if nothing has run."""
    count = executable.device_program_count
    ready = f.static(READY_EVENT)
    with f.when(~may_overwrite_all_donated(f, executable, frames, f.constant(Bool, True))):
        f.ret(REFUSED)
    with f.count(count) as one:
        program, frame = device_program(executable, one.index), frames.items[one.index]
        with f.when(~allocate_arena(f, program, frame)):
            destroy_all_results(f, executable, frames, one.index)
            f.ret(REFUSED)
        with f.when(~allocate_results(f, program, frame, ready)):
            destroy_all_results(f, executable, frames, one.index)
            f.ret(REFUSED)
    with f.count(count) as one:
        with f.when(run_frame(f, device_program(executable, one.index), frames.items[one.index]) != 0):
            destroy_all_results(f, executable, frames, count)
            f.ret(CANCELED)
    with f.count(count) as one:
        program, frame = device_program(executable, one.index), frames.items[one.index]
        return_results(f, program, frame, ready, results.items[program.number], events)
    return f.constant(Word, DONE)


# --- on streams


@native
def enqueue(
    f: Function, executable: Executable, frames: Frames, results: BufferLists, events: Nullable[Events]
) -> Bool:
    """Queues the frames on the streams of their devices; false, without effect, if that is not possible."""
    count = executable.device_program_count
    with f.when((f.static(QUEUES).is_stopped.load(RELAXED) != 0) | (executable.calls_python != 0)):
        f.ret(False)
    with f.when(executable.calls_host != 0):
        with f.when(is_serving_host(f)):
            f.ret(False)
    with f.when(~may_overwrite_all_donated(f, executable, frames, f.constant(Bool, False))):
        f.ret(False)
    with f.count(count) as one, f.when(~start_stream(f, device_program(executable, one.index).stream)):
        f.ret(False)
    launch = f.variable(Nullable[Launch], None)
    with f.when(executable.has_collectives != 0):
        launch.set(new_launch(f, executable))
        with f.when(launch.get().is_null()):
            f.ret(False)
    with f.count(count) as one:
        program, frame = device_program(executable, one.index), frames.items[one.index]
        with f.when(~prepare_frame(f, program, frame, launch.get())):
            discard_frames(f, executable, frames, one.index)
            unused = launch.get()
            with f.when(unused.is_present()):
                close_launch(f, unused.value)
                release_launch(f, unused.value)
            f.ret(False)
    acquire_slots(f, executable)
    with f.count(count) as one:
        program, frame = device_program(executable, one.index), frames.items[one.index]
        hold_for_queue(f, program, frame)
        return_results(f, program, frame, frame.event, results.items[program.number], events)
    push_all(f, executable, frames)
    return f.constant(Bool, True)


@native
def prepare_frame(f: Function, program: DeviceProgram, frame: LaunchFrame, launch: Nullable[Launch]) -> Bool:
    """Allocates the event and the results of a frame; false, with nothing allocated, if memory is exhausted."""
    made = new_event(f, f.constant(Word, 1))
    with f.when(made.is_null()):
        f.ret(False)
    event = made.value
    with f.when(~allocate_results(f, program, frame, event)):
        release_event(f, event)
        f.ret(False)
    frame.event = event
    frame.launch = launch
    frame.thread = thread_number(f)
    with f.when(launch.is_present()):
        shared = launch.value.shared.offset(STORAGE_BYTES)
        address_table(program, frame)[program.shared_index] = shared
    return f.constant(Bool, True)


@native
def discard_frames(f: Function, executable: Executable, frames: Frames, count: Word) -> None:
    """Undoes `prepare_frame` on the first devices."""
    with f.count(count) as one:
        program, frame = device_program(executable, one.index), frames.items[one.index]
        destroy_results(f, program, frame, program.result_count)
        release_event(f, frame.event)


@native
def hold_for_queue(f: Function, program: DeviceProgram, frame: LaunchFrame) -> None:
    """The queued launch owns the storages of its arguments, which it has already, and those of its results."""
    arguments, results = argument_storages(frame), result_storages(program, frame)
    with f.count(program.argument_count) as one:
        mark_queued(f, arguments[one.index])
    with f.count(program.result_count) as one:
        retain(f, results[one.index])
        mark_queued(f, results[one.index])
    program.pending_launches.fetch_add(1, RELAXED)
