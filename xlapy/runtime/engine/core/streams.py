"""The stream of a device: a FIFO of launch frames and the thread that runs them.

The launches of a call are queued in the same order on all of its devices. Therefore arguments that earlier launches
write are ready, donated memory that only earlier launches use is free, and devices that synchronize run the same
launch. A launch that fails leaves its error in the event of its results and marks their storages, so that launches that
read them fail too.

Streams run Python only for programs that call the host (`execute_on_host`). They need the interpreter's lock then, so
no thread may wait for a stream while it holds this lock. A call from within such a launch does not queue behind it.

Responsible for the threads, for running and finishing queued frames, and for the end of the process. Does not depend
on what programs do.
"""

from __future__ import annotations

from xlapy.native.function import Function, external, native, native_holding
from xlapy.native.ir import ACQ_REL, ACQUIRE, RELAXED, RELEASE
from xlapy.native.locks import acquire_permit, initialize_semaphore, release_permit
from xlapy.native.threads import initialize_thread_numbers, start_thread, thread_number
from xlapy.native.values import Address, Bool, Int32, Nullable, Word
from xlapy.runtime.engine.core.events import (
    Error,
    Event,
    canceled_error,
    forked_error,
    free_error,
    known_error,
    out_of_memory_error,
    prefixed_error,
    set_event_error,
    signal_event,
)
from xlapy.runtime.engine.core.frames import allocate_arena, return_frame, run_frame
from xlapy.runtime.engine.core.launch_records import (
    CANCELLATION,
    FINISHED,
    LAUNCHES,
    QUEUES,
    RUNNING,
    DeviceProgram,
    Launch,
    LaunchFrame,
    Stream,
    argument_storages,
    result_storages,
)
from xlapy.runtime.engine.core.launches import (
    add_failed_frame,
    begin_in_processes,
    cancel_launches,
    close_launch,
    fail_launch,
    is_launch_canceled,
    launch_error,
    release_launch,
    set_device_state,
)
from xlapy.runtime.engine.core.memory import failure, mark_failed, release_queued
from xlapy.runtime.engine.core.queues import CAPACITY, pop_frame, semaphore
from xlapy.runtime.engine.core.watchdog import initialize_watchdog

HOST_PENDING, HOST_DONE = 0, 1
"""What `LaunchFrame.host_status` says of the host's part: the host sets `HOST_DONE`. It does nothing once the
interpreter is shutting down."""


@external
def run_on_host(f: Function, frame: Address) -> Nullable[Error]:  # type: ignore[empty-body]
    """Runs a frame in Python; returns null or an error. If the frame has an error, only notes that it does not run."""


# --- running


@native
def execute_frame(f: Function, frame: LaunchFrame) -> Nullable[Error]:
    """Runs a frame; returns null or an error."""
    program, launch = frame.program, frame.launch
    with f.when(launch.is_present()):
        with f.when(launch.value.executable.calls_host != 0):
            f.ret(execute_on_host(f, frame, launch.value))
    failed = argument_error(f, program, frame)
    with f.when(failed.is_present()):
        f.ret(failed)
    is_canceled = f.variable(Bool, False)
    is_canceled.set((f.static(CANCELLATION).requested.load(RELAXED) | frame.is_canceled.load(RELAXED)) != 0)
    with f.when(launch.is_present()):
        begin_in_processes(f, launch.value)
        set_device_state(f, launch.value, program.number, f.constant(Word, RUNNING))
        is_canceled.set(is_canceled.get() | is_launch_canceled(f, launch.value))
    with f.when(~is_canceled.get()):
        with f.when(~allocate_arena(f, program, frame)):
            f.ret(out_of_memory_error(f).maybe())
        with f.when(run_frame(f, program, frame) == 0):
            f.ret(None)
    with f.when(launch.is_present()):
        reported = launch_error(f, launch.value)
        with f.when(reported.is_present()):
            f.ret(reported)
    return canceled_error(f).maybe()


@native
def execute_on_host(f: Function, frame: LaunchFrame, launch: Launch) -> Nullable[Error]:
    """Lets the host run a frame of a program that calls it; returns null or an error.

    A device that does not run, because an argument has failed or the launch is canceled, passes through the host, too:
    other devices may wait for it there.
    """
    program, stream = frame.program, frame.program.stream
    failed = f.variable(Nullable[Error], argument_error(f, program, frame))
    has_cause = f.variable(Bool, True)
    set_device_state(f, launch, program.number, f.constant(Word, RUNNING))
    with f.when(failed.get().is_null()):
        is_requested = (f.static(CANCELLATION).requested.load(RELAXED) | frame.is_canceled.load(RELAXED)) != 0
        with f.when(is_requested | is_launch_canceled(f, launch)):
            failed.set(launch_error(f, launch))
            with f.when(failed.get().is_null()):
                failed.set(canceled_error(f).maybe())
                has_cause.set(False)
    frame.error = failed.get()
    frame.host_status = HOST_PENDING
    stream.host_thread.store(thread_number(f), RELAXED)  # only this thread looks for its number
    error = run_on_host(f, frame)
    stream.host_thread.store(0, RELAXED)
    with f.when(failed.get().is_present() & (has_cause.get() | error.is_null())):
        free_error(f, error)
        f.ret(failed.get())
    with f.when(failed.get().is_present()):
        free_error(f, failed.get())  # the host knows why the launch was canceled
        f.ret(error)
    with f.when(error.is_null() & (frame.host_status != HOST_DONE)):
        f.ret(canceled_error(f).maybe())
    return error


@native
def argument_error(f: Function, program: DeviceProgram, frame: LaunchFrame) -> Nullable[Error]:
    """A copy of the error of the launch that failed to write an argument; null if none did."""
    storages = argument_storages(frame)
    with f.count(program.argument_count) as one:
        failed = failure(f, storages[one.index])
        with f.when(failed.is_present()):
            f.ret(known_error(f, failed.value))
    return f.null(Error)


@native
def finish_device(f: Function, frame: LaunchFrame, error: Nullable[Error]) -> None:
    """Finishes the frame of one device. The frames of failed devices are released with the last device of their
    launch. Takes ownership of the error."""
    owner = frame.launch
    with f.when(owner.is_null()):
        finish_frame(f, frame, error)
        f.ret()
    launch = owner.value
    set_device_state(f, launch, frame.program.number, f.constant(Word, FINISHED))
    with f.when(error.is_present()):
        program = frame.program
        fail_launch(f, launch, prefixed_error(f, program.failure, program.failure_size, error))
        add_failed_frame(f, launch, frame, error)
    is_last = launch.remaining.fetch_sub(1, ACQ_REL) == 1
    with f.when(is_last):
        close_launch(f, launch)
    with f.when(error.is_null()):
        finish_frame(f, frame, error)
    with f.when(is_last):
        finish_failed_frames(f, launch)
        release_launch(f, launch)


@native
def finish_failed_frames(f: Function, launch: Launch) -> None:
    """Finishes the frames of the devices that failed."""
    with f.locked(f.static(LAUNCHES).lock):
        first = launch.failed_frames
        launch.failed_frames = None
    following = f.variable(Nullable[LaunchFrame], first)
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        frame = found.value
        following.set(frame.next)
        finish_frame(f, frame, frame.error)


@native
def finish_frame(f: Function, frame: LaunchFrame, error: Nullable[Error]) -> None:
    """Finishes a frame: gives up what it owns, then completes its event. Takes ownership of the error."""
    program, event = frame.program, frame.event
    arguments, results = argument_storages(frame), result_storages(program, frame)
    set_event_error(f, event, error)
    with f.count(program.result_count) as one:
        with f.when(error.is_present()):
            mark_failed(f, results[one.index], event)
        release_queued(f, results[one.index])
    with f.count(program.argument_count) as one:
        release_queued(f, arguments[one.index])
    return_frame(f, program, frame)
    program.pending_launches.fetch_sub(1, RELEASE)
    signal_event(f, event)


@native
def stream_main(f: Function, argument: Address) -> Nullable[Address]:
    """The thread of a stream. Does not return."""
    stream = argument.cast(Stream)
    fail_lost_frame(f, stream)
    with f.loop():
        run_next(f, stream)
    return f.null(Address)


@native
def fail_lost_frame(f: Function, stream: Stream) -> None:
    """Fails the frame that ran when the process was forked, if there is one."""
    lost = stream.running.load(RELAXED)
    stream.host_thread.store(0, RELAXED)
    with f.when(lost.is_present()):
        end_run(f, stream)
        finish_device(f, lost.value, forked_error(f).maybe())
        release_permit(f, semaphore(stream.free_slots))


@native
def run_next(f: Function, stream: Stream) -> None:
    """Waits for a queued frame, runs it and finishes it."""
    acquire_permit(f, semaphore(stream.queued))
    found = pop_frame(f, stream)
    with f.when(found.is_present()):
        error = execute_frame(f, found.value)
        end_run(f, stream)
        finish_device(f, found.value, error)
        release_permit(f, semaphore(stream.free_slots))


@native
def end_run(f: Function, stream: Stream) -> None:
    """Notes that no frame runs. Takes the lock, under which others look at the frame that runs."""
    with f.locked(f.static(QUEUES).lock):
        stream.running.store(None, RELAXED)


# --- cancellation


@native
def cancel_launch_of_event(f: Function, event: Event) -> None:
    """Cancels the launch that completes an event, with those that the same thread queued before it on the same device;
    they fail. Nothing if it has finished."""
    with f.locked(f.static(QUEUES).lock):
        following = f.variable(Nullable[Stream], f.static(QUEUES).streams.load(ACQUIRE))
        with f.loop() as loop:
            found = following.get()
            with f.when(found.is_null()):
                loop.leave()
            last = frame_of_event(f, found.value, event)
            with f.when(last.is_present()):
                cancel_frames(f, found.value, last.value)
            following.set(found.value.next)


@native_holding(QUEUES.guard("lock"))
def frame_of_event(f: Function, stream: Stream, event: Event) -> Nullable[LaunchFrame]:
    """The frame of a stream that completes an event; null if there is none."""
    following = f.variable(Nullable[LaunchFrame], first_frame(f, stream))
    with f.loop():
        found = following.get()
        with f.when(found.is_null()):
            f.ret(None)
        with f.when(found.value.event == event):
            f.ret(found)
        following.set(next_frame(f, stream, found.value))
    return f.null(LaunchFrame)


@native_holding(QUEUES.guard("lock"))
def cancel_frames(f: Function, stream: Stream, last: LaunchFrame) -> None:
    """Cancels the frames of a stream that the thread of the last one queued, up to that."""
    following = f.variable(Nullable[LaunchFrame], first_frame(f, stream))
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        with f.when(found.value.thread == last.thread):
            cancel_frame(f, found.value)
        with f.when(found == last):
            loop.leave()
        following.set(next_frame(f, stream, found.value))


@native_holding(QUEUES.guard("lock"))
def first_frame(f: Function, stream: Stream) -> Nullable[LaunchFrame]:
    """The frame that runs, or else the first one that is queued."""
    running = stream.running.load(RELAXED)
    with f.when(running.is_present()):
        f.ret(running)
    return stream.first


@native_holding(QUEUES.guard("lock"))
def next_frame(f: Function, stream: Stream, frame: LaunchFrame) -> Nullable[LaunchFrame]:
    """The frame after another one, which runs or is queued."""
    with f.when(stream.running.load(RELAXED) == frame):
        f.ret(stream.first)
    return frame.next


@native
def cancel_frame(f: Function, frame: LaunchFrame) -> None:
    """Cancels a launch that is queued or runs, on all of its devices if they synchronize."""
    frame.is_canceled.store(1, RELAXED)
    launch = frame.launch
    with f.when(launch.is_present()):
        fail_launch(f, launch.value, canceled_error(f).maybe())


@native
def is_stream_running(f: Function, stream: Stream) -> Bool:
    """Whether a stream runs a launch at this moment."""
    return stream.running.load(RELAXED).is_present()


@native
def has_free_slot(f: Function, stream: Stream) -> Bool:
    """Whether the queue of a stream has room at this moment."""
    return stream.free_slots.load(RELAXED) > 0


@native
def set_canceled(f: Function, value: Word) -> None:
    """Cancels running launches and fails queued ones while the value is not 0.

    Frames that begin to run later see the value, because they are taken from a queue under its lock.
    """
    f.static(CANCELLATION).requested.store(value, RELAXED)
    with f.when(value != 0):
        cancel_launches(f)
        with f.locked(f.static(QUEUES).lock):
            cancel_running_frames(f)


@native_holding(QUEUES.guard("lock"))
def cancel_running_frames(f: Function) -> None:
    """Cancels the frames that run."""
    following = f.variable(Nullable[Stream], f.static(QUEUES).streams.load(ACQUIRE))
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        running = found.value.running.load(RELAXED)
        with f.when(running.is_present()):
            running.value.is_canceled.store(1, RELAXED)
        following.set(found.value.next)


# --- lifetime


@native
def initialize_streams(f: Function) -> None:
    """Prepares the watchdog and the numbers of threads. No other thread uses them."""
    initialize_thread_numbers(f)
    initialize_watchdog(f)


@native
def initialize_stream(f: Function, stream: Stream, leader: Stream) -> None:
    """Adds the stream of a device. Its record is zeros. leader: the first stream of the client, perhaps the same."""
    initialize_semaphore(f, semaphore(stream.free_slots), f.constant(Int32, CAPACITY))
    initialize_semaphore(f, semaphore(stream.enqueuing), f.constant(Int32, 1))
    streams = f.static(QUEUES).streams
    first = f.variable(Nullable[Stream], streams.load(RELAXED))
    added = f.exclusive_access(stream, "the stream is not in the list yet")
    added.leader = leader
    with f.loop() as loop:
        added.next = first.get()
        found, is_added = streams.compare_exchange(first.get(), stream.maybe(), RELEASE, RELAXED)
        with f.when(is_added):
            loop.leave()
        first.set(found)


@native
def start_stream(f: Function, stream: Stream) -> Bool:
    """Starts the thread of a stream if it does not run; returns whether it runs."""
    with f.when(stream.is_started.load(RELAXED) != 0):
        f.ret(True)
    with f.locked(f.static(QUEUES).lock):
        return start_stream_locked(f, stream)


@native_holding(QUEUES.guard("lock"))
def start_stream_locked(f: Function, stream: Stream) -> Bool:
    """As `start_stream`."""
    with f.when(stream.is_started.load(RELAXED) != 0):
        f.ret(True)
    with f.when(~start_thread(f, f.address_of(stream_main), stream)):
        f.ret(False)
    stream.is_started.store(1, RELAXED)
    return f.constant(Bool, True)


@native
def stop_streams(f: Function) -> None:
    """Stops asynchronous launches: from now on, programs run in the threads of their callers."""
    f.static(QUEUES).is_stopped.store(1, RELAXED)


@native
def are_streams_idle(f: Function) -> Word:
    """Whether no stream has a launch that is queued or runs: 1 or 0."""
    following = f.variable(Nullable[Stream], f.static(QUEUES).streams.load(ACQUIRE))
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        with f.when(found.value.free_slots.load(ACQUIRE) < CAPACITY):
            f.ret(0)
        following.set(found.value.next)
    return f.constant(Word, 1)


@native
def is_serving_host(f: Function) -> Bool:
    """Whether this thread is a stream's that runs Python for a launch. What such a thread queued on its own device
    would wait for the launch."""
    number = thread_number(f)
    following = f.variable(Nullable[Stream], f.static(QUEUES).streams.load(ACQUIRE))
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        with f.when(found.value.host_thread.load(RELAXED) == number):
            f.ret(True)
        following.set(found.value.next)
    return f.constant(Bool, False)


@native
def may_queue(f: Function) -> Bool:
    """Whether this thread may queue launches: not at the end of the process, nor while it runs Python for a launch."""
    with f.when(f.static(QUEUES).is_stopped.load(RELAXED) != 0):
        f.ret(False)
    return ~is_serving_host(f)
