"""Forks under all schedules of a stream: whatever its thread is doing, nothing hangs in the child."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.native.fork_model import MODELS as FORK
from tests.native.fork_model import fork
from tests.runtime.engine.core.test_launch_schedules import BOARD, STREAM, add_one, call_once, prepare
from xlapy.native.checker.explore import Exploration, explore
from xlapy.native.checker.machine import Execution
from xlapy.native.checker.memory import ScheduleError
from xlapy.native.function import Function, NativeFunction, native
from xlapy.native.ir import ACQUIRE, RELAXED
from xlapy.native.values import Word
from xlapy.runtime.engine.core.buffers import Buffer, acquire_hold, copy_when_ready, delete_buffer
from xlapy.runtime.engine.core.events import await_event, free_error
from xlapy.runtime.engine.core.forks import after_fork, after_fork_in_child, before_fork, restart_in_child
from xlapy.runtime.engine.core.memory import STORAGE_BYTES, allocate
from xlapy.runtime.engine.core.queues import CAPACITY
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
def prepare_copy(f: Function) -> None:
    """Queues a launch, and a copy of its result."""
    prepare_call(f)
    buffer = result(f)
    storage = acquire_hold(f, buffer).known("it was not deleted")
    target = allocate(f, f.constant(Word, 8)).known("memory suffices")
    f.static(BOARD).copied.store(copy_when_ready(f, buffer, storage, target.offset(STORAGE_BYTES)), RELAXED)


def forking(waits_for_copy: bool = False, knows: bool = True) -> NativeFunction[[], None]:
    """A thread that forks, and whose child waits for what was in flight."""

    def fork_and_wait(f: Function) -> None:
        before_fork(f)
        fork(f)
        f.call_address(f.address_of(after_fork_in_child if knows else after_fork))  # as the C library does
        restart_in_child(f)
        stream = f.static(STREAM)
        with f.when(stream.is_started.load(ACQUIRE) != 0):
            fail_lost_frame(f, stream)
            with f.when(stream.queued.load(ACQUIRE) != 0):
                run_next(f, stream)
        if waits_for_copy:
            done = f.static(BOARD).copied.load(RELAXED).known("memory suffices")
            free_error(f, await_event(f, done))
        free_error(f, await_event(f, result(f).event))
        delete_buffer(f, result(f))

    fork_and_wait.__name__ = f"fork_and_wait{int(waits_for_copy)}{int(knows)}"
    return native(fork_and_wait)


@native
def run_one(f: Function) -> None:
    run_next(f, f.static(STREAM))


@native
def delete_result(f: Function) -> None:
    """Another thread, which may hold the lock of the buffer."""
    delete_buffer(f, result(f))


def no_thread(execution: Execution, arguments: Sequence[Any]) -> int:
    """A thread that starts and never runs: the one that forked does the work of the child's stream."""
    place = arguments[0]
    initial = execution.initial(place, "the thread's number")
    execution.state.memory.write(execution.thread.actor, place, initial, 1, "the thread's number")
    return 0


MODELS = {**FORK, "pthread_create": no_thread, "pthread_detach": lambda execution, arguments: 0}


@native
def the_queue_is_empty(f: Function) -> None:
    """The child has run or failed each launch once, and its queue has room for others."""
    stream = f.static(STREAM)
    f.check(stream.free_slots.load(RELAXED) == CAPACITY, "all slots of the queue are free")
    f.check(stream.queued.load(RELAXED) == 0, "no launch is queued")
    f.check(stream.running.load(RELAXED).is_null(), "no launch runs")


def explored(setup: NativeFunction[[], None], *threads: NativeFunction[[], None]) -> Exploration:
    options = {"also": [add_one], "models": MODELS, "allows_leaks": True, "has_private_locations": False}
    return explore(setup, threads, the_queue_is_empty, **options)


def test_a_child_never_waits_for_a_launch_that_the_fork_has_lost() -> None:
    """Also between the end of a run and the completion of its event, when no queue knows the launch."""
    assert explored(prepare_call, run_one, forking()).ends >= 1


def test_a_child_never_waits_for_a_copy_that_the_fork_has_lost() -> None:
    assert explored(prepare_copy, run_one, forking(waits_for_copy=True)).ends >= 1


def test_a_child_deletes_a_buffer_whose_lock_a_lost_thread_held() -> None:
    assert explored(prepare_call, delete_result, forking()).ends >= 1


def test_a_child_that_waits_for_lost_threads_is_found() -> None:
    with pytest.raises(ScheduleError) as caught:
        explored(prepare_call, run_one, forking(knows=False))
    assert caught.value.kind == "deadlock", caught.value
