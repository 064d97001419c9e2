"""Launches of two devices that are queued, to their end, under all schedules of the streams: nothing is left."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from tests.runtime.engine.core import executable_model as model
from xlapy.native.checker.explore import Exploration, explore
from xlapy.native.checker.machine import Execution
from xlapy.native.function import Function, NativeFunction, native
from xlapy.native.ir import RELAXED
from xlapy.native.threads import thread_number
from xlapy.native.values import Word
from xlapy.runtime.engine.core.events import READY_EVENT
from xlapy.runtime.engine.core.execute import DONE
from xlapy.runtime.engine.core.streams import (
    are_streams_idle,
    cancel_launch_of_event,
    initialize_stream,
    is_serving_host,
    set_canceled,
)

KEY = 5


def queued(collectives: bool, statuses: tuple[int, int] = (0, 0)) -> NativeFunction[[], None]:
    """Queues a call on two devices, whose programs return these statuses."""

    def queue(f: Function) -> None:
        model.build(2, collectives)(f)
        f.static(model.OUTCOME).statuses.store(statuses[0], RELAXED)
        f.static(model.OUTCOME).second_status.store(statuses[1], RELAXED)
        f.check(model.call(f, 2) == DONE, "the call is queued")

    return native(queue)


def ended(succeeds: bool | None) -> NativeFunction[[], None]:
    def end(f: Function) -> None:
        model.finish_call(f, 2, succeeds=succeeds)
        model.destroy_arguments(f, 2)
        model.nothing_is_left(f, 2)

    return native(end)


def explored(setup: NativeFunction[[], None], *threads: NativeFunction[[], None], succeeds: bool | None) -> Exploration:
    chosen = threads or (model.stream_thread(0), model.stream_thread(1))
    return explore(setup, chosen, ended(succeeds), also=model.ENTRY_FUNCTIONS)


@pytest.mark.parametrize("collectives", [False, True])
def test_two_devices_finish(collectives: bool):
    assert explored(queued(collectives), succeeds=True).ends >= 1


@pytest.mark.parametrize("statuses", [(1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_nothing_is_left_of_devices_that_fail(statuses: tuple[int, int], order: tuple[int, int]):
    """The devices run one after the other, in one thread. The second one does not run if the first one has failed."""
    succeeds = False if statuses[order[0]] else None
    assert explored(queued(True, statuses), model.stream_thread(*order), succeeds=succeeds).ends >= 1


@native
def cancel(f: Function) -> None:
    cancel_launch_of_event(f, model.event_of(f, 0))


@pytest.mark.parametrize("collectives", [False, True])
def test_a_queued_launch_is_canceled(collectives: bool):
    """The devices run one after the other, in one thread."""
    assert explored(queued(collectives), cancel, model.stream_thread(0, 1), succeeds=None).ends >= 1


# --- streams that are added


@native
def add_stream(f: Function) -> None:
    initialize_stream(f, f.static(model.STREAMS[1]), f.static(model.STREAMS[0]))


@native
def cancel_nothing(f: Function) -> None:
    cancel_launch_of_event(f, f.static(READY_EVENT))


@native
def cancel_all(f: Function) -> None:
    set_canceled(f, f.constant(Word, 1))


@native
def look_for_launches(f: Function) -> None:
    f.check(are_streams_idle(f) == 1, "no stream has a launch")


@native
def look_for_host(f: Function) -> None:
    f.check(~is_serving_host(f), "no stream runs Python")


@pytest.mark.parametrize("reader", [cancel_nothing, cancel_all, look_for_launches, look_for_host])
def test_streams_are_listed_while_one_is_added(reader: NativeFunction[[], None]):
    @native
    def nothing_is_kept(f: Function) -> None:
        model.destroy_arguments(f)
        model.nothing_is_left(f)

    assert explore(model.build(), [add_stream, reader], nothing_is_kept, also=model.ENTRY_FUNCTIONS).ends >= 1


# --- numbers of threads


@native
def ask_for_numbers(f: Function) -> None:
    model.build()(f)
    f.check(thread_number(f) == thread_number(f), "a thread keeps its number")
    model.destroy_arguments(f)


def make_key(execution: Execution, arguments: Sequence[Any]) -> int:
    """A key of the C library, whose words are the numbers of threads."""
    initial = execution.initial(arguments[0])
    execution.state.memory.write(execution.thread.actor, arguments[0], initial, KEY, "the key")
    return 0


def word_of_thread(execution: Execution, arguments: Sequence[Any]) -> int:
    assert arguments[0] == KEY
    return int(execution.thread.actor.number) + 1


def test_threads_have_numbers_once_streams_are_prepared():
    models = {"pthread_key_create": make_key, "pthread_getspecific": word_of_thread}
    assert explore(None, [ask_for_numbers], also=model.ENTRY_FUNCTIONS, models=models).ends >= 1
