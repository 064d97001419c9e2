"""How launches begin and end, under all schedules: what others may do as soon as they see that a launch has ended."""

from __future__ import annotations

import pytest

from tests.runtime.engine.core import executable_model as model
from xlapy.native.checker.explore import Exploration, explore
from xlapy.native.function import Function, NativeFunction, Static, native
from xlapy.native.ir import ACQUIRE, RELAXED
from xlapy.native.locks import release_permit
from xlapy.native.records import Owned, Record
from xlapy.native.values import Nullable
from xlapy.runtime.engine.core.buffers import acquire_hold, destroy_buffer
from xlapy.runtime.engine.core.events import Error, await_event, free_error, known_error, release_event
from xlapy.runtime.engine.core.executables import pending_launches
from xlapy.runtime.engine.core.execute import DONE
from xlapy.runtime.engine.core.launch_records import FINISHED, RUNNING, Launch, LaunchFrame
from xlapy.runtime.engine.core.launches import release_launch
from xlapy.runtime.engine.core.memory import failure, release
from xlapy.runtime.engine.core.queues import pop_frame, semaphore
from xlapy.runtime.engine.core.streams import (
    are_streams_idle,
    end_run,
    execute_frame,
    finish_device,
    stop_streams,
    stream_main,
)


class Ran(Record):
    """A frame that has run, and its error. launch: that of all frames, if its devices synchronize."""

    frame: Owned[Nullable[LaunchFrame]]
    error: Owned[Nullable[Error]]
    launch: Owned[Nullable[Launch]]


RAN = [Static(f"ran{number}", Ran) for number in range(2)]


def ran(statuses: tuple[int, int], order: tuple[int, int]) -> NativeFunction[[], None]:
    """Queues a call on two devices that synchronize, and runs their programs, in this order. None has finished."""

    def run(f: Function) -> None:
        model.build(2, collectives=True)(f)
        f.static(model.OUTCOME).statuses.store(statuses[0], RELAXED)
        f.static(model.OUTCOME).second_status.store(statuses[1], RELAXED)
        run_queued(f, order[0], 2)
        run_queued(f, order[1], 0)
        kept = f.static(RAN[0])
        launch = kept.frame.known("it has run").launch
        launch.known("its devices synchronize").owners.fetch_add(1, RELAXED)
        kept.launch = launch

    return native(run)


def run_queued(f: Function, number: int, devices: int) -> None:
    """Runs the program of a device. devices: how many a call is made on before; 0 for no call."""
    if devices:
        f.check(model.call(f, devices) == DONE, "the call is queued")
    stream = f.static(model.STREAMS[number])
    stream.queued.fetch_sub(1, ACQUIRE)
    frame = pop_frame(f, stream).known("it is queued")
    kept = f.static(RAN[number])
    kept.error = execute_frame(f, frame)
    kept.frame = frame.maybe()
    launch = frame.launch
    with f.when(launch.is_present()):
        state = launch.value.states[frame.program.number].load(RELAXED)
        f.check(state == RUNNING, "a device is running until it has finished")


def finishing(number: int) -> NativeFunction[[], None]:
    """What the thread of a stream does after a program has run."""

    def finish(f: Function) -> None:
        kept, stream = f.static(RAN[number]), f.static(model.STREAMS[number])
        end_run(f, stream)
        finish_device(f, kept.frame.known("it has run"), kept.error)
        release_permit(f, semaphore(stream.free_slots))

    finish.__name__ = f"finish{number}"
    return native(finish)


def ended(devices: int, succeeds: bool | None) -> NativeFunction[[], None]:
    def end(f: Function) -> None:
        model.finish_call(f, devices, succeeds=succeeds)
        model.destroy_arguments(f, devices)
        model.nothing_is_left(f, devices)

    return native(end)


@pytest.mark.parametrize("statuses", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_two_devices_finish_at_once(statuses: tuple[int, int]) -> None:
    """The last one to finish finds all that has failed."""
    setup = ran(statuses, (0, 1) if statuses[1] else (1, 0))
    succeeds = None if any(statuses) else True

    @native
    def both_ended(f: Function) -> None:
        launch = f.static(RAN[0]).launch.known("it has run")
        for number in range(2):
            f.check(launch.states[number].load(RELAXED) == FINISHED, "both devices have finished")
        release_launch(f, launch)
        ended(2, succeeds)(f)

    assert explore(setup, [finishing(0), finishing(1)], both_ended, also=model.ENTRY_FUNCTIONS).ends >= 1


# --- what others do meanwhile


@native
def run_one_device(f: Function) -> None:
    """Queues a call on one device and runs its program, which fails; it has not finished."""
    model.build()(f)
    f.static(model.OUTCOME).statuses.store(1, RELAXED)
    run_queued(f, 0, 1)


@native
def drop_results(f: Function) -> None:
    for result in model.results_of(f):
        destroy_buffer(f, result)


@native
def read_failure(f: Function) -> None:
    """What a launch of another device does with an argument."""
    storage = acquire_hold(f, model.results_of(f)[0]).known("it has not been deleted")
    failed = failure(f, storage)
    with f.when(failed.is_present()):
        error = known_error(f, failed.value)
        f.check(error.is_present(), "whoever sees a failure sees why")
        free_error(f, error)
    release(f, storage)


@native
def results_say_whether_they_failed(f: Function) -> None:
    for result in model.results_of(f):
        storage = acquire_hold(f, result).known("it has not been deleted")
        has_failed = failure(f, storage).is_present()
        release(f, storage)
        is_expected = f.static(model.OUTCOME).statuses.load(RELAXED) != 0
        f.check((has_failed & is_expected) | (~has_failed & ~is_expected), "results of failed launches say so")
    nothing_is_left_with_results(f)


@pytest.mark.parametrize("status", [0, 1])
def test_results_say_whether_their_launch_failed(status: int) -> None:
    @native
    def setup(f: Function) -> None:
        queue(f)
        f.static(model.OUTCOME).statuses.store(status, RELAXED)

    threads = [model.stream_thread(0)]
    assert explore(setup, threads, results_say_whether_they_failed, also=model.ENTRY_FUNCTIONS).ends >= 1


@native
def nothing_is_left(f: Function) -> None:
    release_event(f, model.event_of(f))
    model.destroy_arguments(f)
    model.nothing_is_left(f)


@native
def nothing_is_left_with_results(f: Function) -> None:
    drop_results(f)
    nothing_is_left(f)


def test_results_of_a_launch_that_fails_are_dropped_meanwhile() -> None:
    """The launch owns its results until it has marked them."""
    threads = [finishing(0), drop_results]
    assert explore(run_one_device, threads, nothing_is_left, also=model.ENTRY_FUNCTIONS).ends >= 1


def test_whoever_sees_a_failure_sees_why() -> None:
    threads = [finishing(0), read_failure]
    assert explore(run_one_device, threads, nothing_is_left_with_results, also=model.ENTRY_FUNCTIONS).ends >= 1


@native
def run_with_another_caller(f: Function) -> None:
    """As `run_one_device`, but the program succeeds, and a second caller has arguments."""
    model.build()(f)
    model.new_arguments(f, 1, 0)
    run_queued(f, 0, 1)


@native
def call_again(f: Function) -> None:
    f.check(model.call(f, caller=1) == DONE, "the call is queued")


@native
def both_calls_end(f: Function) -> None:
    model.stream_thread(0)(f)
    for caller in range(2):
        model.finish_call(f, caller=caller, succeeds=True)
        model.destroy_arguments(f, caller=caller)
    model.nothing_is_left(f)


def test_a_frame_is_given_up_last() -> None:
    """The next call may take it at once, and writes its own arguments and results there."""
    threads = [finishing(0), call_again]
    assert explore(run_with_another_caller, threads, both_calls_end, also=model.ENTRY_FUNCTIONS).ends >= 1


# --- what a caller may do


@native
def queue(f: Function) -> None:
    model.build()(f)
    f.check(model.call(f) == DONE, "the call is queued")


@native
def queue_two(f: Function) -> None:
    queue(f)
    model.new_arguments(f, 1, 0)
    f.check(model.call(f, caller=1) == DONE, "the call is queued")


def explored(caller: NativeFunction[[], None], end: NativeFunction[[], None]) -> Exploration:
    return explore(queue, [model.stream_thread(0), caller], end, also=model.ENTRY_FUNCTIONS)


@native
def free_when_none_is_pending(f: Function) -> None:
    with f.when(pending_launches(f, f.static(model.PROGRAMS[0])) == 0):
        model.free_executable(f)


@native
def all_was_freed(f: Function) -> None:
    model.finish_call(f, succeeds=True)
    model.destroy_arguments(f)
    with f.when(f.static(model.OUTCOME).is_freed.load(RELAXED) == 0):
        model.free_executable(f)
    model.nothing_is_kept(f)


def test_an_executable_without_pending_launches_may_be_freed() -> None:
    """The last launch leaves nothing behind, and does not look at the executable any more."""
    assert explored(free_when_none_is_pending, all_was_freed).ends >= 1


@native
def run_both(f: Function) -> None:
    model.stream_thread(0)(f)
    model.stream_thread(0)(f)


@native
def both_were_freed(f: Function) -> None:
    for caller in range(2):
        model.finish_call(f, caller=caller, succeeds=True)
        model.destroy_arguments(f, caller=caller)
    with f.when(f.static(model.OUTCOME).is_freed.load(RELAXED) == 0):
        model.free_executable(f)
    model.nothing_is_kept(f)


def test_an_executable_may_be_freed_after_the_second_of_two_launches() -> None:
    """The second launch finds a spare frame of the first one, which says nothing about the second one's end."""
    threads = [run_both, free_when_none_is_pending]
    assert explore(queue_two, threads, both_were_freed, also=model.ENTRY_FUNCTIONS).ends >= 1


@native
def await_result(f: Function) -> None:
    error = await_event(f, model.event_of(f))
    free_error(f, error)
    f.check(pending_launches(f, f.static(model.PROGRAMS[0])) == 0, "a launch whose results are ready is not pending")


def test_a_launch_whose_results_are_ready_is_not_pending() -> None:
    assert explored(await_result, ended(1, succeeds=True)).ends >= 1


@native
def look_for_idle_streams(f: Function) -> None:
    with f.when(are_streams_idle(f) == 1):
        f.check(pending_launches(f, f.static(model.PROGRAMS[0])) == 0, "an idle stream has finished its launches")


def test_the_end_of_the_process_waits_for_launches_that_finish() -> None:
    assert explored(look_for_idle_streams, ended(1, succeeds=True)).ends >= 1


@native
def all_is_idle(f: Function) -> None:
    f.check(are_streams_idle(f) == 1, "streams without launches are idle")
    ended(1, succeeds=True)(f)


def test_streams_are_idle_after_their_launches() -> None:
    assert explore(queue, [model.stream_thread(0)], all_is_idle, also=model.ENTRY_FUNCTIONS).ends >= 1


# --- the thread of a stream


@native
def serve(f: Function) -> None:
    stream_main(f, f.static(model.STREAMS[0]))


@native
def await_call(f: Function) -> None:
    free_error(f, await_event(f, model.event_of(f)))


@native
def queue_and_lose(f: Function) -> None:
    """Queues two calls, of which the first one has begun to run in a thread that is lost."""
    queue_two(f)
    stream = f.static(model.STREAMS[0])
    stream.queued.fetch_sub(1, RELAXED)
    pop_frame(f, stream)


@native
def only_the_second_succeeds(f: Function) -> None:
    for caller in range(2):
        model.finish_call(f, caller=caller, succeeds=caller == 1)
        model.destroy_arguments(f, caller=caller)
    model.nothing_is_left(f)


def test_the_thread_of_a_stream_begins_with_what_a_lost_thread_left() -> None:
    also = model.ENTRY_FUNCTIONS
    assert explore(queue_and_lose, [await_call], only_the_second_succeeds, also=also, services=[serve]).ends >= 1


@native
def stop_and_call(f: Function) -> None:
    model.build()(f)
    stop_streams(f)
    f.check(model.call(f) == DONE, "the call has run")


def test_programs_run_in_the_threads_of_their_callers_once_streams_are_stopped() -> None:
    assert explore(None, [stop_and_call], ended(1, succeeds=True), also=model.ENTRY_FUNCTIONS).ends >= 1
