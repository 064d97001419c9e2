"""How launches begin and end, under all schedules: what others may do as soon as they see that a launch has ended."""

from __future__ import annotations

import pytest

from tests.runtime.engine.core import executable_model as model
from xlapy.native.checker.explore import Exploration, explore
from xlapy.native.function import Function, NativeFunction, Static, native
from xlapy.native.ir import ACQUIRE, RELAXED, RELEASE
from xlapy.native.locks import release_permit
from xlapy.native.records import Owned, Record
from xlapy.native.values import Nullable, Word
from xlapy.runtime.engine.core.events import Error, await_event, free_error
from xlapy.runtime.engine.core.executables import pending_launches
from xlapy.runtime.engine.core.execute import DONE
from xlapy.runtime.engine.core.launch_records import LaunchFrame
from xlapy.runtime.engine.core.queues import pop_frame, semaphore
from xlapy.runtime.engine.core.streams import end_run, execute_frame, finish_device, set_canceled


class Ran(Record):
    """A frame that has run, and its error."""

    frame: Owned[Nullable[LaunchFrame]]
    error: Owned[Nullable[Error]]


RAN = [Static(f"ran{number}", Ran) for number in range(2)]


def ran(statuses: tuple[int, int], order: tuple[int, int]) -> NativeFunction[[], None]:
    """Queues a call on two devices that synchronize, and runs their programs, in this order. None has finished."""

    def run(f: Function) -> None:
        model.build(2, collectives=True)(f)
        f.static(model.OUTCOME).statuses.store(statuses[0], RELAXED)
        f.static(model.OUTCOME).second_status.store(statuses[1], RELAXED)
        f.check(model.call(f, 2) == DONE, "the call is queued")
        for number in order:
            stream = f.static(model.STREAMS[number])
            stream.queued.fetch_sub(1, ACQUIRE)
            frame = pop_frame(f, stream).known("it is queued")
            kept = f.static(RAN[number])
            kept.error = execute_frame(f, frame)
            kept.frame = frame.maybe()

    return native(run)


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
    threads = [finishing(0), finishing(1)]
    assert explore(setup, threads, ended(2, succeeds), also=model.ENTRY_FUNCTIONS).ends >= 1


# --- what a caller may do


@native
def queue(f: Function) -> None:
    model.build()(f)
    f.check(model.call(f) == DONE, "the call is queued")


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
def await_result(f: Function) -> None:
    error = await_event(f, model.event_of(f))
    free_error(f, error)
    f.check(pending_launches(f, f.static(model.PROGRAMS[0])) == 0, "a launch whose results are ready is not pending")


def test_a_launch_whose_results_are_ready_is_not_pending() -> None:
    assert explored(await_result, ended(1, succeeds=True)).ends >= 1


# --- cancellation


@native
def cancel_all(f: Function) -> None:
    set_canceled(f, f.constant(Word, 1))
    f.static(model.OUTCOME).must_be_canceled.store(1, RELEASE)


def test_whatever_runs_after_a_cancellation_is_canceled() -> None:
    """A launch begins before the cancellation, which sees it, or sees the cancellation."""
    assert explored(cancel_all, ended(1, succeeds=None)).ends >= 1
