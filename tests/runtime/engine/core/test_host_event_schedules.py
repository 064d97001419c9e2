"""Events that the host completes, under all schedules of the threads that set them, await them and copy."""

from __future__ import annotations

import pytest

from xlapy.base.error_codes.execution.running import FOREIGN_ERROR
from xlapy.native.checker.explore import explore
from xlapy.native.checker.memory import ScheduleError
from xlapy.native.function import Function, Static, native
from xlapy.native.ir import ACQ_REL, RELAXED
from xlapy.native.records import Atomic, Owned, Record
from xlapy.native.values import Address, Nullable, Word
from xlapy.runtime.engine.core.events import (
    READY_EVENT,
    Error,
    Event,
    await_event,
    complete_event,
    error_of_text,
    free_error,
    is_event_complete,
    new_event,
    release_event,
    retain_event,
    set_event_error,
    signal_event,
)
from xlapy.runtime.engine.core.host_events import (
    PendingFill,
    failed_event,
    fill_when_ready,
    finish_fill,
    new_host_event,
    prepare_fill,
    set_host_event,
    start_fill,
)
from xlapy.runtime.engine.core.memory import STORAGE_BYTES, Storage, allocate, failure, release, retain


class Board(Record):
    """What the threads share. data: written before an event is set. sets: how many threads set it. fill: a copy from
    `source` to `target`, whose event is `event`; `ready` is that of the source."""

    event: Atomic[Nullable[Event]]
    data: Owned[Word]
    sets: Atomic[Word]
    ready: Atomic[Nullable[Event]]
    source: Atomic[Nullable[Storage]]
    target: Atomic[Nullable[Storage]]
    fill: Atomic[Nullable[PendingFill]]


class Elements(Record):
    """The elements of a storage."""

    first: Owned[Word]


BOARD = Static("board", Board)


def elements(storage: Storage) -> Elements:
    return storage.offset(STORAGE_BYTES).cast(Elements)


def event_of(f: Function) -> Event:
    return f.static(BOARD).event.load(RELAXED).known("prepared")


# -- events of frameworks


@native
def prepare(f: Function) -> None:
    """An event with three owners: two threads that set it, and one that awaits it."""
    made = new_host_event(f).known("memory suffices")
    for _ in range(2):
        retain_event(f, made)
    f.static(BOARD).event.store(made.maybe(), RELAXED)


@native
def set_it(f: Function) -> None:
    event = event_of(f)
    with f.when(set_host_event(f, event, f.null(Error))):
        f.static(BOARD).sets.fetch_add(1, ACQ_REL)
    release_event(f, event)


@native
def set_error(f: Function) -> None:
    event = event_of(f)
    with f.when(set_host_event(f, event, error_of_text(f, 3, FOREIGN_ERROR, "no").maybe())):
        f.static(BOARD).sets.fetch_add(1, ACQ_REL)
    release_event(f, event)


@native
def wait(f: Function) -> None:
    event = event_of(f)
    free_error(f, await_event(f, event))
    release_event(f, event)


@native
def is_set_once(f: Function) -> None:
    f.check(f.static(BOARD).sets.load(RELAXED) == 1, "one of the threads sets the event")


def test_one_of_two_threads_sets_an_event():
    explore(prepare, [set_it, set_error, wait], is_set_once)


def test_a_claim_by_check_then_act_is_found():
    @native
    def set_carelessly(f: Function) -> None:
        event = event_of(f)
        with f.when(event.is_settable.load(RELAXED) != 0):
            event.is_settable.store(0, RELAXED)
            retain_event(f, event)
            set_event_error(f, event, f.null(Error))
            signal_event(f, event)
            f.static(BOARD).sets.fetch_add(1, ACQ_REL)
        release_event(f, event)

    with pytest.raises(ScheduleError) as caught:
        explore(prepare, [set_carelessly, set_carelessly, wait], finish=is_set_once)
    assert caught.value.kind in {"race", "assertion", "use after free"}


def test_an_event_of_the_engine_cannot_be_set():
    @native
    def set_in_vain(f: Function) -> None:
        event = new_event(f, f.constant(Word, 1)).known("memory suffices")
        f.check(
            ~set_host_event(f, event, error_of_text(f, 3, FOREIGN_ERROR, "no").maybe()), "only the engine completes it"
        )
        f.check(~is_event_complete(f, event), "the event is pending")
        release_event(f, event)

    assert explore(None, [set_in_vain]).ends == 1


def test_an_event_that_has_failed_from_the_beginning():
    @native
    def fail(f: Function) -> None:
        made = failed_event(f, error_of_text(f, 3, FOREIGN_ERROR, "no"))
        with f.when(made.is_present()):
            error = await_event(f, made.value)
            f.check(error.is_present(), "the event has failed")
            free_error(f, error)
            release_event(f, made.value)

    assert explore(None, [fail], exhausts_memory=True).ends > 1


# -- copies that wait


@native
def prepare_copy(f: Function) -> None:
    """A copy of the element of one storage to another, prepared, with the events of both."""
    board = f.static(BOARD)
    source, target = (allocate(f, f.constant(Word, 8)).known("memory suffices") for _ in range(2))
    elements(source).first = 0
    elements(target).first = 0
    ready = new_event(f, f.constant(Word, 2)).known("memory suffices")
    event = new_event(f, f.constant(Word, 2)).known("memory suffices")
    retain(f, source)
    retain(f, target)
    fill = prepare_fill(
        f,
        ready,
        elements(source),
        source.maybe(),
        f.constant(Word, 8),
        elements(target),
        target.maybe(),
        event,
    )
    board.ready.store(ready.maybe(), RELAXED)
    board.event.store(event.maybe(), RELAXED)
    board.source.store(source.maybe(), RELAXED)
    board.target.store(target.maybe(), RELAXED)
    board.fill.store(fill, RELAXED)


@native
def prepare_storages(f: Function) -> None:
    """What a copy takes over, and an owner of each for the test."""
    board = f.static(BOARD)
    source, target = (allocate(f, f.constant(Word, 8)).known("memory suffices") for _ in range(2))
    elements(source).first = 5
    elements(target).first = 0
    retain(f, target)
    event = new_event(f, f.constant(Word, 2)).known("memory suffices")
    board.event.store(event.maybe(), RELAXED)
    board.source.store(source.maybe(), RELAXED)
    board.target.store(target.maybe(), RELAXED)


@native
def fill_or_fail(f: Function) -> None:
    board, event, size = f.static(BOARD), event_of(f), f.constant(Word, 8)
    source, target = board.source.load(RELAXED).known("prepared"), board.target.load(RELAXED).known("prepared")
    to, ready = elements(target), f.static(READY_EVENT)
    fill_when_ready(f, ready, elements(source), source.maybe(), size, to, target.maybe(), event)
    error = await_event(f, event)
    with f.when(error.is_null()) as succeeds:
        f.check(elements(target).first == 5, "the element is copied")
    with succeeds.otherwise():
        f.check(failure(f, target).is_present(), "launches that read the target will fail")
    free_error(f, error)
    release_event(f, event)
    release(f, target)


def test_a_copy_without_memory_fails():
    assert explore(prepare_storages, [fill_or_fail], also=[finish_fill], exhausts_memory=True).ends > 1


@native
def write_source(f: Function) -> None:
    board = f.static(BOARD)
    source, ready = board.source.load(RELAXED).known("prepared"), board.ready.load(RELAXED).known("prepared")
    elements(source).first = 5
    release(f, source)
    release_event(f, ready)
    complete_event(f, ready, f.null(Error))


@native
def fail_source(f: Function) -> None:
    board = f.static(BOARD)
    source, ready = board.source.load(RELAXED).known("prepared"), board.ready.load(RELAXED).known("prepared")
    release(f, source)
    release_event(f, ready)
    complete_event(f, ready, error_of_text(f, 3, FOREIGN_ERROR, "no").maybe())


@native
def start(f: Function) -> None:
    fill = f.static(BOARD).fill.load(RELAXED).known("prepared")
    start_fill(f, fill, f.null(Address), f.null(Error))


@native
def give_up(f: Function) -> None:
    fill = f.static(BOARD).fill.load(RELAXED).known("prepared")
    start_fill(f, fill, f.null(Address), error_of_text(f, 3, FOREIGN_ERROR, "no").maybe())


@native
def read_target(f: Function) -> None:
    event, target = event_of(f), f.static(BOARD).target.load(RELAXED).known("prepared")
    error = await_event(f, event)
    f.check(error.is_null(), "the copy succeeds")
    f.check(elements(target).first == 5, "the element is copied")
    release_event(f, event)
    release(f, target)


@native
def see_failure(f: Function) -> None:
    event, target = event_of(f), f.static(BOARD).target.load(RELAXED).known("prepared")
    error = await_event(f, event)
    f.check(error.is_present(), "the copy fails")
    free_error(f, error)
    f.check(failure(f, target).is_present(), "launches that read the target will fail")
    release_event(f, event)
    release(f, target)


def test_whoever_sees_that_a_copy_has_failed_sees_it_at_the_target():
    explore(prepare_copy, [give_up, see_failure], write_source, also=[finish_fill])


def test_a_copy_waits_for_its_source_and_its_start():
    explore(prepare_copy, [write_source, start], read_target, also=[finish_fill])


@pytest.mark.parametrize("threads", [(fail_source, start), (write_source, give_up), (fail_source, give_up)])
def test_a_copy_fails_with_its_source_or_its_start(threads):
    explore(prepare_copy, threads, see_failure, also=[finish_fill])
