"""Forks under all schedules of a stream: whatever its thread is doing, nothing hangs in the child."""

from __future__ import annotations

import pytest

from tests.native.fork_model import MODELS as FORK
from tests.native.fork_model import fork
from tests.runtime.engine.core import executable_model as model
from tests.runtime.engine.core.test_enqueue_schedules import STARTED, pthread_create, pthread_detach, using_slots
from tests.runtime.engine.core.test_launch_schedules import BOARD, STREAM, add_one, call_once, prepare
from xlapy.native.checker.explore import Exploration, explore
from xlapy.native.checker.memory import ScheduleError
from xlapy.native.function import Function, NativeFunction, native
from xlapy.native.ir import ACQUIRE, RELAXED
from xlapy.native.values import Word
from xlapy.runtime.engine.core.buffers import Buffer, acquire_hold, copy_when_ready, delete_buffer
from xlapy.runtime.engine.core.events import await_event, free_error, is_event_lost, new_event
from xlapy.runtime.engine.core.execute import DONE
from xlapy.runtime.engine.core.forks import after_fork, after_fork_in_child, before_fork, restart_in_child
from xlapy.runtime.engine.core.host_events import fill_when_ready
from xlapy.runtime.engine.core.launch_records import LAUNCHES, QUEUES, Stream
from xlapy.runtime.engine.core.memory import STORAGE_BYTES, allocate
from xlapy.runtime.engine.core.queues import CAPACITY, acquire_slots
from xlapy.runtime.engine.core.streams import fail_lost_frame, run_next


def result(f: Function) -> Buffer:
    """The result of the call that the test makes before the threads start."""
    return f.static(BOARD).result.load(RELAXED).known("the call was accepted")


@native
def prepare_call(f: Function) -> None:
    """Queues a launch."""
    prepare(f)
    f.static(BOARD).result.store(call_once(f), RELAXED)


@native
def queue_copy(f: Function) -> None:
    """Queues a launch, and a copy of its result to the host."""
    prepare_call(f)
    buffer = result(f)
    storage = acquire_hold(f, buffer).known("it was not deleted")
    target = allocate(f, f.constant(Word, 8)).known("memory suffices")
    f.static(BOARD).copied.store(copy_when_ready(f, buffer, storage, target.offset(STORAGE_BYTES)), RELAXED)


@native
def queue_fill(f: Function) -> None:
    """Queues a launch, and a copy of its result into another buffer."""
    prepare_call(f)
    buffer = result(f)
    storage = acquire_hold(f, buffer)
    target = allocate(f, f.constant(Word, 8)).known("memory suffices")
    event = new_event(f, f.constant(Word, 2)).known("memory suffices")
    address = target.offset(STORAGE_BYTES).maybe()
    fill_when_ready(f, buffer.event, buffer.data, storage, f.constant(Word, 8), address, target.maybe(), event)
    f.static(BOARD).copied.store(event.maybe(), RELAXED)


def forking(waits_for_copy: bool = False, knows: bool = True) -> NativeFunction[[], None]:
    """A thread that forks, and whose child waits for what was in flight."""

    def fork_and_wait(f: Function) -> None:
        before_fork(f)
        fork(f)
        f.call_address(f.address_of(after_fork_in_child if knows else after_fork))  # as the C library does
        stream, board = f.static(STREAM), f.static(BOARD)
        is_running = stream.running.load(RELAXED).is_present()
        with f.when(is_running):
            stream.host_thread.store(LOST_THREAD, RELAXED)  # as if the launch ran Python
        with f.locked(f.static(QUEUES).lock):
            is_queued = stream.first.is_present()
        restart_in_child(f)
        events = [result(f).event]
        if waits_for_copy:
            events.append(board.copied.load(RELAXED).known("memory suffices"))
        for event in events:
            f.check(~(is_running | is_queued) | ~is_event_lost(f, event), "the child completes what it finds in queues")
        run_in_child(f, stream)
        for event in events:
            error = await_event(f, event)
            f.check(~is_queued | error.is_null(), "a launch that has not begun succeeds in the child")
            f.check(~is_running | error.is_present(), "a launch that runs fails in the child")
            free_error(f, error)
        delete_buffer(f, result(f))

    fork_and_wait.__name__ = f"fork_and_wait{int(waits_for_copy)}{int(knows)}"
    return native(fork_and_wait)


LOST_THREAD = 77
"""The number of a thread of the parent."""


@native
def run_in_child(f: Function, stream: Stream) -> None:
    """What the thread of a stream does in the child, if it was started."""
    with f.when((f.static(STARTED).threads.load(RELAXED) != 0) & (stream.is_started.load(RELAXED) != 0)):
        fail_lost_frame(f, stream)
        with f.when(stream.queued.load(ACQUIRE) != 0):
            run_next(f, stream)


@native
def run_one(f: Function) -> None:
    run_next(f, f.static(STREAM))


@native
def delete_result(f: Function) -> None:
    """Another thread, which may hold the lock of the buffer."""
    delete_buffer(f, result(f))


ALSO = [add_one, pthread_create, pthread_detach]
"""Threads that start never run: the one that forked does the work of the child's stream."""


@native
def the_queue_is_empty(f: Function) -> None:
    """The child has run or failed each launch once, and its queue has room for others."""
    stream = f.static(STREAM)
    f.check(stream.free_slots.load(RELAXED) == CAPACITY, "all slots of the queue are free")
    f.check(stream.queued.load(RELAXED) == 0, "no launch is queued")
    f.check(stream.running.load(RELAXED).is_null(), "no launch runs")
    f.check(stream.host_thread.load(RELAXED) == 0, "no thread serves the host")


def explored(setup: NativeFunction[[], None], *threads: NativeFunction[[], None]) -> Exploration:
    options = {"also": ALSO, "models": FORK, "allows_leaks": True, "has_private_locations": False}
    return explore(setup, threads, the_queue_is_empty, **options)


def test_a_child_never_waits_for_a_launch_that_the_fork_has_lost() -> None:
    """Also between the end of a run and the completion of its event, when no queue knows the launch."""
    assert explored(prepare_call, run_one, forking()).ends >= 1


@pytest.mark.parametrize("setup", [queue_copy, queue_fill])
def test_a_child_never_waits_for_a_copy_that_the_fork_has_lost(setup: NativeFunction[[], None]) -> None:
    assert explored(setup, run_one, forking(waits_for_copy=True)).ends >= 1


def test_a_child_deletes_a_buffer_whose_lock_a_lost_thread_held() -> None:
    assert explored(prepare_call, delete_result, forking()).ends >= 1


def test_a_child_that_waits_for_lost_threads_is_found() -> None:
    with pytest.raises(ScheduleError) as caught:
        explored(prepare_call, run_one, forking(knows=False))
    assert caught.value.kind == "deadlock", caught.value


# --- launches of two devices


@native
def queue_on_two_devices(f: Function) -> None:
    model.build(2, collectives=True)(f)
    f.check(model.call(f, 2) == DONE, "the call is queued")


@native
def fork_and_finish(f: Function) -> None:
    """Forks while the first device runs; the second one has not begun."""
    before_fork(f)
    fork(f)
    f.call_address(f.address_of(after_fork_in_child))
    first, second = (f.static(stream) for stream in model.STREAMS)
    with f.locked(f.static(QUEUES).lock):
        is_found = first.running.load(RELAXED).is_present() | first.first.is_present()
    with f.locked(f.static(LAUNCHES).lock):
        launch = f.static(LAUNCHES).first.known("the second device has not finished")
        is_lost = ~is_found & (launch.remaining.load(RELAXED) == 2)
    runs = f.static(model.OUTCOME).runs.load(RELAXED)
    restart_in_child(f)
    for stream in (first, second):
        run_in_child(f, stream)
    error = await_event(f, model.event_of(f, 1))
    with f.when(is_lost):
        f.check(error.is_present(), "a launch that has lost a device fails")
        f.check(f.static(model.OUTCOME).runs.load(RELAXED) == runs, "its other devices do not run")
    free_error(f, error)
    free_error(f, await_event(f, model.event_of(f, 0)))


@native
def no_launch_is_active(f: Function) -> None:
    with f.locked(f.static(LAUNCHES).lock):
        f.check(f.static(LAUNCHES).first.is_null(), "no launch is active")
    for stream in model.STREAMS:
        f.check(f.static(stream).free_slots.load(RELAXED) == CAPACITY, "all slots of the queue are free")


def test_a_child_ends_launches_that_have_lost_a_device() -> None:
    options = {"also": [*model.ENTRY_FUNCTIONS, *ALSO], "models": FORK, "allows_leaks": True}
    threads = [model.stream_thread(0), fork_and_finish]
    made = explore(queue_on_two_devices, threads, no_launch_is_active, has_private_locations=False, **options)
    assert made.ends >= 1


@native
def fork_and_enter_queues(f: Function) -> None:
    """Forks while another thread enters the queues of both devices, and does so in the child."""
    before_fork(f)
    fork(f)
    f.call_address(f.address_of(after_fork_in_child))
    restart_in_child(f)
    acquire_slots(f, f.static(model.EXECUTABLE))


@native
def each_queue_has_a_slot_less(f: Function) -> None:
    for stream in model.STREAMS:
        f.check(f.static(stream).free_slots.load(RELAXED) == CAPACITY - 1, "the call has a slot of each queue")


def test_a_child_enters_queues_that_a_lost_thread_was_entering() -> None:
    options = {"also": [*model.ENTRY_FUNCTIONS, *ALSO], "models": FORK, "allows_leaks": True}
    threads = [using_slots(model.EXECUTABLE), fork_and_enter_queues]
    end = each_queue_has_a_slot_less
    assert explore(model.build(2), threads, end, has_private_locations=False, **options).ends >= 1
