"""Launches that the host runs, under all schedules: which error they end with, and who counts as serving the host."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.runtime.engine.core import executable_model as model
from xlapy.base.error_codes.execution.running import FOREIGN_ERROR
from xlapy.native.checker.explore import Exploration, explore
from xlapy.native.function import Function, NativeFunction, native
from xlapy.native.ir import RELAXED
from xlapy.native.threads import THREAD_NUMBERS
from xlapy.native.values import Address, Nullable, Word
from xlapy.runtime.engine.core.events import (
    CANCELED,
    Error,
    await_event,
    error_of_text,
    free_error,
    new_event,
    set_event_error,
    signal_event,
)
from xlapy.runtime.engine.core.execute import DONE
from xlapy.runtime.engine.core.frames import allocate_arena, run_frame
from xlapy.runtime.engine.core.launch_records import CANCELLATION, QUEUES, RUNNING, LaunchFrame, argument_storages
from xlapy.runtime.engine.core.launches import fail_launch
from xlapy.runtime.engine.core.memory import mark_failed
from xlapy.runtime.engine.core.streams import (
    HOST_DONE,
    HOST_PENDING,
    cancel_launch_of_event,
    is_serving_host,
    run_next,
)

RUNS, FAILS, IS_GONE = 0, 1, 2
"""What the host does. A host that is gone, because the interpreter ends, does not even answer."""

OF_HOST, OF_ARGUMENT, OF_LAUNCH = 101, 102, 103
"""Codes of errors."""

MODELS = {"pthread_getspecific": lambda execution, arguments: execution.thread.actor.number + 1}


@native
def run_on_host(f: Function, frame: Address) -> Nullable[Error]:
    """In place of Python. Like Python, it says why it does not run a frame that has an error."""
    launch_frame = frame.cast(LaunchFrame)
    f.check(is_serving_host(f), "the stream's thread is known to serve the host")
    f.check(launch_frame.host_status == HOST_PENDING, "the host has not run it")
    launch = launch_frame.launch.known("its devices synchronize")
    f.check(launch.states[0].load(RELAXED) == RUNNING, "the device is running")
    behavior = f.static(model.OUTCOME).second_status.load(RELAXED)
    with f.when(behavior == IS_GONE):
        f.ret(None)
    launch_frame.host_status = HOST_DONE
    with f.when(behavior == FAILS):
        f.ret(error_of_text(f, OF_HOST, FOREIGN_ERROR, "the host fails").maybe())
    with f.when(launch_frame.error.is_null()):
        program = launch_frame.program
        f.check(allocate_arena(f, program, launch_frame), "memory suffices")
        f.check(run_frame(f, program, launch_frame) == 0, "the program succeeds")
    return f.null(Error)


@native
def serve(f: Function) -> None:
    """The thread of the stream."""
    run_next(f, f.static(model.STREAMS[0]))
    f.check(~is_serving_host(f), "the stream's thread does not serve the host any more")


def queued(behavior: int, then: Callable[[Function], None] = lambda f: None) -> NativeFunction[[], None]:
    """Queues a launch, which the host runs or not."""

    def queue(f: Function) -> None:
        f.static(THREAD_NUMBERS).key.store(1, RELAXED)
        model.build(1, collectives=True)(f)
        f.exclusive_access(f.static(model.EXECUTABLE), "no thread runs").calls_host = 1
        f.static(model.OUTCOME).second_status.store(behavior, RELAXED)
        f.check(model.call(f) == DONE, "the call is queued")
        then(f)

    return native(queue)


def queued_frame(f: Function) -> LaunchFrame:
    with f.locked(f.static(QUEUES).lock):
        return f.static(model.STREAMS[0]).first.known("it is queued")


def ended(code: int | None, runs: int | None = None) -> NativeFunction[[], None]:
    """The launch has failed with this code, or succeeded; 0 allows both."""

    def end(f: Function) -> None:
        error = await_event(f, model.event_of(f))
        if code is None:
            f.check(error.is_null(), "the launch succeeds")
        else:
            with f.when(error.is_present()):
                f.check(error.value.code == code, f"the code is {code}")
            f.check(error.is_present(), "the launch fails")
        free_error(f, error)
        if runs is not None:
            f.check(f.static(model.OUTCOME).runs.load(RELAXED) == runs, "the program has run or not")
        model.finish_call(f, succeeds=code is None)
        model.destroy_arguments(f)
        model.nothing_is_left(f)

    return native(end)


def explored(
    setup: NativeFunction[[], None], end: NativeFunction[[], None], *others: NativeFunction[[], None]
) -> Exploration:
    also = [*model.ENTRY_FUNCTIONS, run_on_host]
    return explore(setup, [serve, *others], end, also=also, models=MODELS)


@pytest.mark.parametrize(("behavior", "code", "runs"), [(RUNS, None, 1), (FAILS, OF_HOST, 0), (IS_GONE, CANCELED, 0)])
def test_a_launch_ends_as_the_host_says(behavior: int, code: int | None, runs: int) -> None:
    assert explored(queued(behavior), ended(code, runs)).ends >= 1


def fail_argument(f: Function) -> None:
    event = new_event(f, f.constant(Word, 1)).known("memory suffices")
    set_event_error(f, event, error_of_text(f, OF_ARGUMENT, FOREIGN_ERROR, "an earlier launch failed").maybe())
    frame = queued_frame(f)
    mark_failed(f, argument_storages(frame)[0], event)
    signal_event(f, event)


def fail_with_cause(f: Function) -> None:
    launch = queued_frame(f).launch.known("its devices synchronize")
    fail_launch(f, launch, error_of_text(f, OF_LAUNCH, FOREIGN_ERROR, "another device failed").maybe())


def cancel_without_cause(f: Function) -> None:
    f.static(CANCELLATION).requested.store(1, RELAXED)


@pytest.mark.parametrize(
    ("fail", "behavior", "code"),
    [
        (fail_argument, RUNS, OF_ARGUMENT),
        (fail_argument, FAILS, OF_ARGUMENT),
        (fail_with_cause, RUNS, OF_LAUNCH),
        (fail_with_cause, FAILS, OF_LAUNCH),
        (cancel_without_cause, RUNS, CANCELED),
        (cancel_without_cause, FAILS, OF_HOST),
        (cancel_without_cause, IS_GONE, CANCELED),
    ],
)
def test_a_launch_that_may_not_run_passes_through_the_host(fail: Callable[..., None], behavior: int, code: int) -> None:
    """The engine's cause counts. Where it has none, because native code canceled the launch, the host's does."""
    assert explored(queued(behavior, fail), ended(code, runs=0)).ends >= 1


@native
def cancel(f: Function) -> None:
    cancel_launch_of_event(f, model.event_of(f))


@native
def ended_either_way(f: Function) -> None:
    model.finish_call(f)
    model.destroy_arguments(f)
    model.nothing_is_left(f)


@pytest.mark.parametrize("behavior", [RUNS, FAILS])
def test_a_launch_is_canceled_while_the_host_runs_it(behavior: int) -> None:
    assert explored(queued(behavior), ended_either_way, cancel).ends >= 1
