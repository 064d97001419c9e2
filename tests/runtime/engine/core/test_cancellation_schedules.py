"""Cancellation under all schedules: which launches it ends, and on which devices."""

from __future__ import annotations

import pytest

from tests.runtime.engine.core import executable_model as model
from tests.runtime.engine.core.test_finish_schedules import (
    ended,
    only_the_second_succeeds,
    queue,
    queue_two,
    run_both,
)
from xlapy.native.checker.explore import explore
from xlapy.native.function import Function, NativeFunction, native
from xlapy.native.ir import RELAXED, RELEASE
from xlapy.native.threads import THREAD_NUMBERS
from xlapy.native.values import Word
from xlapy.runtime.engine.core.execute import DONE
from xlapy.runtime.engine.core.streams import cancel_launch_of_event, set_canceled


@native
def cancel_and_run(f: Function) -> None:
    cancel_launch_of_event(f, model.event_of(f))
    model.stream_thread(0)(f)


def test_a_launch_that_is_canceled_before_it_runs_fails() -> None:
    assert explore(queue, [cancel_and_run], ended(1, succeeds=False), also=model.ENTRY_FUNCTIONS).ends >= 1


@native
def cancel_the_first_and_run_both(f: Function) -> None:
    cancel_launch_of_event(f, model.event_of(f))
    run_both(f)


def test_launches_that_are_queued_later_are_not_canceled() -> None:
    threads = [cancel_the_first_and_run_both]
    models = {"pthread_getspecific": lambda execution, arguments: 1}
    setup = with_thread_numbers(queue_two)
    assert explore(setup, threads, only_the_second_succeeds, also=model.ENTRY_FUNCTIONS, models=models).ends >= 1


def with_thread_numbers(setup: NativeFunction[[], None]) -> NativeFunction[[], None]:
    """Threads have numbers, as on machines with keys left."""

    def prepare(f: Function) -> None:
        f.static(THREAD_NUMBERS).key.store(1, RELAXED)
        setup(f)

    return native(prepare)


@native
def cancel_all(f: Function) -> None:
    set_canceled(f, f.constant(Word, 1))
    f.static(model.OUTCOME).must_be_canceled.store(1, RELEASE)


@pytest.mark.parametrize("collectives", [False, True])
def test_whatever_runs_after_a_cancellation_is_canceled(collectives: bool) -> None:
    """A launch begins before the cancellation, which sees it, or sees the cancellation."""

    @native
    def setup(f: Function) -> None:
        model.build(1, collectives)(f)
        f.check(model.call(f) == DONE, "the call is queued")

    threads = [model.stream_thread(0), cancel_all]
    assert explore(setup, threads, ended(1, succeeds=None), also=model.ENTRY_FUNCTIONS).ends >= 1


@native
def queue_on_two_devices(f: Function) -> None:
    model.build(2, collectives=True)(f)
    f.check(model.call(f, 2) == DONE, "the call is queued")


@native
def cancel_one_device_and_run_both(f: Function) -> None:
    cancel_launch_of_event(f, model.event_of(f))
    model.stream_thread(1, 0)(f)


def test_a_launch_is_canceled_on_all_of_its_devices() -> None:
    end = ended(2, succeeds=False)
    assert explore(queue_on_two_devices, [cancel_one_device_and_run_both], end, also=model.ENTRY_FUNCTIONS).ends >= 1
