"""Events under all schedules of the threads that complete, await and watch them."""

from __future__ import annotations

import pytest

from xlapy.base.error_codes.execution.running import FOREIGN_ERROR
from xlapy.native.checker.explore import explore
from xlapy.native.checker.memory import ScheduleError
from xlapy.native.function import Function, Static, native
from xlapy.native.ir import ACQ_REL, ACQUIRE, RELAXED, RELEASE
from xlapy.native.locks import note_fork
from xlapy.native.records import Atomic, Owned, Record
from xlapy.native.values import Address, Nullable, Word
from xlapy.runtime.engine.core import events
from xlapy.runtime.engine.core.events import (
    COMPLETE,
    PENDING,
    Error,
    Event,
    await_event,
    complete_event,
    error_of_text,
    event_error,
    free_error,
    is_event_complete,
    is_event_successful,
    make_error,
    new_event,
    prefixed_error,
    release_event,
    retain_event,
    when_complete,
)


class Board(Record):
    """What the threads share. data: written before the event completes. calls: number of callbacks called."""

    event: Atomic[Nullable[Event]]
    data: Owned[Word]
    calls: Atomic[Word]
    errors: Atomic[Word]


BOARD = Static("board", Board)


def pending_event_with(owners: int):
    @native
    def prepare(f: Function) -> None:
        f.static(BOARD).event.store(new_event(f, f.constant(Word, owners)), RELAXED)

    return prepare


def event_of(f: Function) -> Event:
    return f.static(BOARD).event.load(RELAXED).known("prepared")


@native
def complete(f: Function) -> None:
    f.static(BOARD).data = 7
    complete_event(f, event_of(f), f.null(Error))


@native
def fail(f: Function) -> None:
    complete_event(f, event_of(f), error_of_text(f, 3, FOREIGN_ERROR, "no").maybe())


@native
def wait(f: Function) -> None:
    event = event_of(f)
    error = await_event(f, event)
    f.check(error.is_null(), "the event does not fail")
    f.check(f.static(BOARD).data == 7, "what was written before completion is seen after it")
    release_event(f, event)


@native
def wait_for_error(f: Function) -> None:
    event = event_of(f)
    error = await_event(f, event)
    f.check(error.is_present(), "the event fails")
    free_error(f, error)
    release_event(f, event)


@native
def called(f: Function, error: Nullable[Error], argument: Nullable[Address]) -> None:
    f.static(BOARD).calls.fetch_add(1, ACQ_REL)
    with f.when(error.is_present()):
        f.static(BOARD).errors.fetch_add(1, ACQ_REL)
    free_error(f, error)


@native
def watch(f: Function) -> None:
    event = event_of(f)
    when_complete(f, event, f.address_of(called), f.null(Address))
    release_event(f, event)


@native
def look(f: Function) -> None:
    event = event_of(f)
    with f.when(is_event_complete(f, event)):
        f.check(f.static(BOARD).data == 7, "a complete event has its data")
    free_error(f, event_error(f, event))
    release_event(f, event)


def calls_are(calls: int, errors: int = 0):
    @native
    def finish(f: Function) -> None:
        board = f.static(BOARD)
        f.check(board.calls.load(RELAXED) == calls, f"{calls} callbacks are called, each once")
        f.check(board.errors.load(RELAXED) == errors, f"{errors} callbacks get an error")

    return finish


def test_threads_that_await_an_event_see_what_was_written_before():
    explore(pending_event_with(3), [complete, wait, wait])


def test_callbacks_are_called_once_whenever_they_are_added():
    explore(pending_event_with(2), [complete, watch], calls_are(1), also=[called])
    explore(pending_event_with(3), [complete, watch, watch], calls_are(2), also=[called])


def test_a_failed_event_gives_each_reader_a_copy_of_its_error():
    explore(pending_event_with(3), [fail, wait_for_error, watch], calls_are(1, 1), also=[called])


def test_a_reader_that_does_not_wait_sees_all_or_nothing():
    explore(pending_event_with(3), [complete, look, wait])


@native
def look_for_success(f: Function) -> None:
    event = event_of(f)
    with f.when(is_event_successful(f, event)):
        f.check(f.static(BOARD).data == 7, "a complete event has its data")
    release_event(f, event)


def test_a_reader_of_success_sees_what_was_written_before():
    explore(pending_event_with(2), [complete, look_for_success])


class Text(Record):
    """Eight bytes of a text."""

    value: Owned[Word]


TEXTS = Static("texts", Text, 16)


def text(f: Function, number: int) -> Address:
    place = f.static(TEXTS).offset(8 * number)
    place.cast(Text).value = 5 + number
    return place


@native
def make_errors(f: Function) -> None:
    size = f.constant(Word, 8)
    plain = make_error(f, f.constant(Word, 3), text(f, 0), size)
    f.check(plain.message.cast(Text).value == 5, "an error has a copy of its message")
    whole = prefixed_error(f, text(f, 1).maybe(), size, plain.maybe()).known("memory suffices")
    f.check(whole.message_size == 16, "the message consists of both texts")
    f.check(whole.message.cast(Text).value == 6, "the prefix comes first")
    f.check(whole.message.offset(8).cast(Text).value == 5, "the message follows")
    f.check((whole.text[16] == 0) & (plain.text[8] == 0), "texts end with a zero byte")
    free_error(f, plain.maybe())
    free_error(f, whole.maybe())


def test_errors_have_copies_of_texts():
    assert explore(None, [make_errors]).ends == 1


def test_a_lost_event_calls_back_with_an_error():
    """In the child of a fork, whose parent has threads that would have completed it."""

    @native
    def watch_a_lost_event(f: Function) -> None:
        note_fork(f)
        watch(f)
        release_event(f, event_of(f))

    assert explore(pending_event_with(2), [watch_a_lost_event], calls_are(1, 1), also=[called]).ends == 1


def test_the_error_of_an_event_before_it_completes():
    """There is none, unless nobody will complete it."""

    @native
    def ask_before_and_after_a_fork(f: Function) -> None:
        event = event_of(f)
        f.check(event_error(f, event).is_null(), "the event is pending")
        note_fork(f)
        error = event_error(f, event)
        f.check(error.is_present(), "the event is lost")
        free_error(f, error)
        release_event(f, event)

    assert explore(pending_event_with(1), [ask_before_and_after_a_fork]).ends == 1


def test_events_work_when_memory_is_exhausted():
    explore(pending_event_with(2), [complete, watch], calls_are(1), also=[called], exhausts_memory=True)


def test_an_owner_may_be_added_while_others_leave():
    @native
    def pass_on(f: Function) -> None:
        event = event_of(f)
        retain_event(f, event)
        release_event(f, event)
        release_event(f, event)

    explore(pending_event_with(2), [complete, pass_on])


def broken(kinds: set[str], setup, *threads, **options) -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        explore(setup, threads, **options)
    assert caught.value.kind in kinds, str(caught.value)
    return caught.value


def test_completion_without_a_wake_is_found():
    @native
    def complete_quietly(f: Function) -> None:
        event = event_of(f)
        f.static(BOARD).data = 7
        event.error = None
        event.state.exchange(COMPLETE, ACQ_REL)
        release_event(f, event)

    broken({"deadlock"}, pending_event_with(2), complete_quietly, wait)


def test_completion_with_a_relaxed_store_is_found():
    @native
    def complete_relaxed(f: Function) -> None:
        event = event_of(f)
        f.static(BOARD).data = 7
        event.error = None
        event.state.exchange(COMPLETE, RELAXED)
        event.state.wake()
        release_event(f, event)

    assert "Event.error" in broken({"race"}, pending_event_with(2), complete_relaxed, wait).message


def test_a_callback_added_by_check_then_act_is_found():
    @native
    def watch_carelessly(f: Function) -> None:
        event = event_of(f)
        with f.when(event.state.load(ACQUIRE) == PENDING) as pending:
            made = f.allocate(events.EventCallback)
            waiting = made.known("memory suffices")
            waiting.callback = f.address_of(called)
            waiting.argument = None
            waiting.next = event.callbacks.load(ACQUIRE)
            event.callbacks.store(made, RELEASE)
        with pending.otherwise():
            events.call_now(f, event, f.address_of(called), f.null(Address))
        release_event(f, event)

    broken({"assertion", "leak"}, pending_event_with(2), complete, watch_carelessly, finish=calls_are(1), also=[called])


def test_an_event_used_after_giving_it_up_is_found():
    @native
    def wait_late(f: Function) -> None:
        event = event_of(f)
        free_error(f, await_event(f, event))
        release_event(f, event)
        f.check(is_event_complete(f, event), "the event is complete")

    broken({"use after free", "race"}, pending_event_with(2), complete, wait_late)


def test_a_wait_that_is_woken_by_a_time_limit_alone_is_not_accepted():
    @native
    def complete_and_forget(f: Function) -> None:
        event = event_of(f)
        event.error = None
        event.state.store(COMPLETE, RELAXED)
        release_event(f, event)

    assert broken({"race", "deadlock", "endless"}, pending_event_with(2), complete_and_forget, wait)
