"""Forks: what the child of a fork keeps of launches and of what waits for them.

The child has only the thread that forked; the other threads of the parent are lost. The child runs the launches that it
finds in queues. Launches that were running have failed, and so has everything else that a lost thread was to complete:
its events are those of another process (`events`). Locks that lost threads held are free in the child (`native.locks`).
A fork waits only for locks that guard more than single words. Relaxed loads suffice in the child: its only thread sees
the memory as it was at the fork.

A launch that a lost thread was just finishing is in no queue and does not run. Nothing tells which of its storages are
given up already, so the child does not free the others: it keeps the memory of at most one launch frame per stream and
fork. The events of such a launch are lost ones, which nothing waits for.

Responsible for the state of the engine in a child. Does not depend on what programs do.
"""

from __future__ import annotations

from xlapy.native.function import Function, native, native_holding
from xlapy.native.ir import RELAXED
from xlapy.native.locks import fork_count, initialize_semaphore, note_fork
from xlapy.native.values import Address, Int32, Nullable, Word
from xlapy.runtime.engine.core.buffers import PendingCopy, finish_copy
from xlapy.runtime.engine.core.events import CLOSED_CALLBACKS, Event, EventCallback, forked_error
from xlapy.runtime.engine.core.executables import DESTROYED
from xlapy.runtime.engine.core.host_events import PendingFill, finish_fill
from xlapy.runtime.engine.core.launch_records import LAUNCHES, QUEUES, Launch, LaunchFrame, Stream
from xlapy.runtime.engine.core.launches import cancel_launch
from xlapy.runtime.engine.core.memory import CACHE
from xlapy.runtime.engine.core.queues import CAPACITY, semaphore
from xlapy.runtime.engine.core.streams import first_frame, initialize_streams, next_frame, start_stream_locked

# --- locks


@native
def before_fork(f: Function) -> None:
    """Acquires the locks of what is changed in several steps, so that the child finds it in order."""
    for lock in (f.static(QUEUES).lock, f.static(LAUNCHES).lock, f.static(CACHE).lock, f.static(DESTROYED).lock):
        f.acquire(lock)


@native_holding(QUEUES.guard("lock"))
def after_fork(f: Function) -> None:
    """Releases the locks in the parent."""
    f.release(f.static(DESTROYED).lock)
    f.release(f.static(CACHE).lock)
    f.release(f.static(LAUNCHES).lock)
    f.release(f.static(QUEUES).lock)


@native_holding(QUEUES.guard("lock"))
def after_fork_in_child(f: Function) -> None:
    """Releases the locks in the child, and all those that lost threads hold."""
    note_fork(f)
    after_fork(f)


# --- launches


@native
def restart_in_child(f: Function) -> None:
    """Starts threads for the launches that the child runs or fails."""
    with f.locked(f.static(QUEUES).lock):
        initialize_streams(f)
        with f.locked(f.static(LAUNCHES).lock):
            count_devices(f)
        following = f.variable(Nullable[Stream], f.static(QUEUES).streams.load(RELAXED))
        with f.loop() as loop:
            found = following.get()
            with f.when(found.is_null()):
                loop.leave()
            restart_stream(f, found.value)
            following.set(found.value.next)


@native_holding(QUEUES.guard("lock"))
def restart_stream(f: Function, stream: Stream) -> None:
    """Counts the permits of a stream anew, and starts its thread if there is something to do."""
    used = f.variable(Int32, 0)
    following = f.variable(Nullable[LaunchFrame], first_frame(f, stream))
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        adopt_event(f, found.value.event)
        used.set(used.get() + 1)
        following.set(next_frame(f, stream, found.value))
    running = stream.running.load(RELAXED).is_present().to(Int32)
    initialize_semaphore(f, semaphore(stream.free_slots), f.constant(Int32, CAPACITY) - used.get())
    initialize_semaphore(f, semaphore(stream.queued), used.get() - running)
    initialize_semaphore(f, semaphore(stream.enqueuing), f.constant(Int32, 1))
    stream.is_started.store(0, RELAXED)
    with f.when(used.get() != 0):
        start_stream_locked(f, stream)


@native
def adopt_event(f: Function, event: Event) -> None:
    """Notes that this process completes an event, and with it the copies that wait for it."""
    event.process.store(fork_count(f), RELAXED)
    following = f.variable(Nullable[EventCallback], event.callbacks.load(RELAXED))
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        with f.when(found == f.static(CLOSED_CALLBACKS)):
            loop.leave()
        callback, argument = found.value.callback, found.value.argument
        with f.when(callback == f.address_of(finish_copy)):
            adopt_event(f, copy_of(argument).event)
        with f.when(callback == f.address_of(finish_fill)):
            adopt_event(f, fill_of(argument).event)
        following.set(found.value.next)


def copy_of(argument: Nullable[Address]) -> PendingCopy:
    """The argument of `finish_copy`."""
    return argument.known("a copy has a record").cast(PendingCopy)


def fill_of(argument: Nullable[Address]) -> PendingFill:
    """The argument of `finish_fill`."""
    return argument.known("a copy has a record").cast(PendingFill)


@native_holding(QUEUES.guard("lock"), LAUNCHES.guard("lock"))
def count_devices(f: Function) -> None:
    """Counts the devices of active launches that the child finishes. A launch that has lost a device fails."""
    following = f.variable(Nullable[Launch], f.static(LAUNCHES).first)
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        launch = found.value
        left = devices_of_launch(f, launch)
        with f.when(launch.remaining.exchange(left, RELAXED) != left):
            with f.when(launch.error.is_null()):
                launch.error = forked_error(f).maybe()
            cancel_launch(f, launch)
        following.set(launch.next)


@native_holding(QUEUES.guard("lock"))
def devices_of_launch(f: Function, launch: Launch) -> Word:
    """The number of frames of a launch that are queued or ran."""
    count = f.variable(Word, 0)
    streams = f.variable(Nullable[Stream], f.static(QUEUES).streams.load(RELAXED))
    with f.loop() as loop:
        stream = streams.get()
        with f.when(stream.is_null()):
            loop.leave()
        frames = f.variable(Nullable[LaunchFrame], first_frame(f, stream.value))
        with f.loop() as frame_loop:
            frame = frames.get()
            with f.when(frame.is_null()):
                frame_loop.leave()
            with f.when(frame.value.launch == launch):
                count.set(count.get() + 1)
            frames.set(next_frame(f, stream.value, frame.value))
        streams.set(stream.value.next)
    return count.get()
