"""Calls on several devices that enter the queues at once, under all schedules; requests of the watchdog."""

from __future__ import annotations

import pytest

from tests.runtime.engine.core import executable_model as model
from xlapy.native.checker.explore import explore
from xlapy.native.function import Function, NativeFunction, Static, native
from xlapy.native.ir import ACQUIRE, RELAXED, RELEASE
from xlapy.native.locks import release_permit
from xlapy.native.records import Atomic, Record
from xlapy.native.threads import ThreadId
from xlapy.native.values import Address, Int32, Nullable, Word
from xlapy.runtime.engine.core.events import Error
from xlapy.runtime.engine.core.launch_records import QUEUES, DevicePrograms, Executable, Frames, LaunchFrame
from xlapy.runtime.engine.core.queues import acquire_slots, push_all, semaphore
from xlapy.runtime.engine.core.streams import initialize_streams, start_stream
from xlapy.runtime.engine.core.watchdog import (
    WATCHDOG,
    answer_request,
    initialize_watchdog,
    request_deadlock_check,
    watchdog_main,
)

REVERSED = Static("reversed_executable", Executable)
"""The model on the same two devices, in the other order."""

FRAMES = [[Static(f"frame{caller}{device}", LaunchFrame) for device in range(2)] for caller in range(2)]


@native
def prepare_one_slot(f: Function) -> None:
    """Two executables on the same two devices, whose queues have a single slot."""
    model.build(2)(f)
    executable = f.exclusive_access(f.static(REVERSED), "no thread runs")
    programs = [f.static(one) for one in reversed(model.PROGRAMS)]
    executable.device_programs = model.words(f, "reversed", *programs).cast(DevicePrograms)
    executable.device_program_count = 2
    for stream in model.STREAMS:
        f.static(stream).free_slots.store(1, RELAXED)


def using_slots(executable: Static[Executable]) -> NativeFunction[[], None]:
    """A call, and its end on each device."""

    def use_slots(f: Function) -> None:
        acquire_slots(f, f.static(executable))
        for stream in model.STREAMS:
            release_permit(f, semaphore(f.static(stream).free_slots))

    use_slots.__name__ = f"use_slots_{executable.name}"
    return native(use_slots)


@native
def all_slots_are_free(f: Function) -> None:
    for stream in model.STREAMS:
        f.check(f.static(stream).free_slots.load(RELAXED) == 1, "the slot is free")


def test_calls_on_the_same_devices_do_not_wait_for_each_others_slots() -> None:
    threads = [using_slots(model.EXECUTABLE), using_slots(REVERSED)]
    assert explore(prepare_one_slot, threads, all_slots_are_free, allows_leaks=True).ends >= 1


@native
def prepare_two_devices(f: Function) -> None:
    model.build(2)(f)


def pushing(caller: int) -> NativeFunction[[], None]:
    def push(f: Function) -> None:
        frames = model.words(f, f"frames{caller}", *(f.static(one) for one in FRAMES[caller]))
        push_all(f, f.static(model.EXECUTABLE), frames.cast(Frames))

    push.__name__ = f"push{caller}"
    return native(push)


@native
def queues_agree(f: Function) -> None:
    first, second = (f.static(stream) for stream in model.STREAMS)
    with f.locked(f.static(QUEUES).lock):
        is_first = [
            stream.first == f.static(FRAMES[0][device]).maybe() for device, stream in enumerate((first, second))
        ]
        agree = (is_first[0] & is_first[1]) | (~is_first[0] & ~is_first[1])
        f.check(agree, "the calls are in the same order in all queues")
        for device, stream in enumerate((first, second)):
            f.check(stream.first.known("two are queued").next == stream.last, "both calls are queued")
            f.check(stream.queued.load(RELAXED) == 2, "each has a permit")
            f.check(stream.last.known("queued") != stream.first.known("queued"), f"device {device} has two frames")


def test_calls_on_several_devices_are_queued_in_one_order() -> None:
    assert explore(prepare_two_devices, [pushing(0), pushing(1)], queues_agree, allows_leaks=True).ends >= 1


# --- starting


class Started(Record):
    """threads: how many were started. refuses: how many requests for a thread are refused first."""

    threads: Atomic[Word]
    refuses: Atomic[Word]


STARTED = Static("started", Started)


@native
def pthread_create(f: Function, thread: Address, options: Address, function: Address, argument: Address) -> Int32:
    """In place of the C library's function."""
    thread.cast(ThreadId).number = f.constant(Word, 1)
    with f.when(f.static(STARTED).refuses.load(RELAXED) != 0):
        f.static(STARTED).refuses.fetch_sub(1, RELAXED)
        f.ret(11)
    f.static(STARTED).threads.fetch_add(1, RELAXED)
    return f.constant(Int32, 0)


@native
def pthread_detach(f: Function, thread: Word) -> Int32:
    return f.constant(Int32, 0)


@native
def start(f: Function) -> None:
    f.check(start_stream(f, f.static(model.STREAMS[0])), "the thread runs")


@native
def one_thread_was_started(f: Function) -> None:
    f.check(f.static(STARTED).threads.load(RELAXED) == 1, "one thread was started")


def test_a_stream_has_one_thread() -> None:
    assert explore(None, [start, start], one_thread_was_started, also=[pthread_create, pthread_detach]).ends >= 1


# --- the watchdog


class Waits(Record):
    """is_waiting: whether a device waits. seen: whether a check has seen that."""

    is_waiting: Atomic[Word]
    seen: Atomic[Word]


WAITS = Static("waits", Waits)


@native
def prepare_watchdog(f: Function) -> None:
    initialize_watchdog(f)
    f.exclusive_access(f.static(WATCHDOG), "no thread runs").is_started = 1


@native
def prepare_request(f: Function) -> None:
    prepare_watchdog(f)
    request_deadlock_check(f, f.constant(Word, 0))


@native
def check_deadlocks_in_python(f: Function, argument: Address) -> Nullable[Error]:
    """In place of the external function."""
    waits = f.static(WAITS)
    with f.when(waits.is_waiting.load(ACQUIRE) != 0):
        waits.seen.store(1, RELAXED)
    return f.null(Error)


@native
def answer(f: Function) -> None:
    answer_request(f, f.static(WATCHDOG))


@native
def wait_and_request(f: Function) -> None:
    f.static(WAITS).is_waiting.store(1, RELEASE)
    request_deadlock_check(f, f.constant(Word, 0))


@native
def a_check_follows(f: Function) -> None:
    watchdog = f.static(WATCHDOG)
    is_seen = f.static(WAITS).seen.load(RELAXED) != 0
    f.check(is_seen | (watchdog.requests.load(RELAXED) != 0), "a check has seen the wait or will")
    each_request_has_a_permit(f)
    request_deadlock_check(f, f.constant(Word, 0))
    f.check(watchdog.requests.load(RELAXED) != 0, "what is requested from now on leads to a check")


@native
def each_request_has_a_permit(f: Function) -> None:
    requested = (f.static(WATCHDOG).is_requested.load(RELAXED) != 0).to(Int32)
    f.check(f.static(WATCHDOG).requests.load(RELAXED) == requested, "a check follows if one is requested")


@pytest.mark.parametrize("setup", [prepare_watchdog, prepare_request])
def test_no_request_is_lost_while_a_check_runs(setup: NativeFunction[[], None]) -> None:
    """A device that begins to wait after the check has looked at it gets another check."""
    threads = [answer, wait_and_request]
    assert explore(setup, threads, a_check_follows, also=[check_deadlocks_in_python]).ends >= 1


@native
def watch(f: Function) -> None:
    watchdog_main(f, f.static(WATCHDOG))


@native
def all_is_seen(f: Function) -> None:
    f.check(f.static(WAITS).seen.load(RELAXED) != 0, "a check has seen the wait")
    f.check(f.static(WATCHDOG).requests.load(RELAXED) == 0, "no request is left")
    each_request_has_a_permit(f)


def test_the_watchdog_answers_all_requests() -> None:
    also = [check_deadlocks_in_python]
    assert explore(prepare_request, [wait_and_request], all_is_seen, also=also, services=[watch]).ends >= 1


def refusing(count: int) -> NativeFunction[[], None]:
    def refuse_threads(f: Function) -> None:
        initialize_watchdog(f)
        f.static(STARTED).refuses.store(count, RELAXED)

    return native(refuse_threads)


@native
def a_request_starts_the_thread(f: Function) -> None:
    each_request_has_a_permit(f)
    f.static(STARTED).refuses.store(0, RELAXED)
    request_deadlock_check(f, f.constant(Word, 0))
    f.check(f.static(WATCHDOG).requests.load(RELAXED) == 1, "the thread has a request")
    one_thread_was_started(f)


@pytest.mark.parametrize("refusals", [1, 2])
def test_a_request_that_finds_no_thread_leaves_others_their_chance(refusals: int) -> None:
    also = [pthread_create, pthread_detach]
    assert explore(refusing(refusals), [wait_and_request] * 2, a_request_starts_the_thread, also=also).ends >= 1


@native
def request_after_a_fork(f: Function) -> None:
    """What the child of a fork does, whose parent's watchdog had a request."""
    prepare_request(f)
    initialize_streams(f)
    each_request_has_a_permit(f)
    a_request_starts_the_thread(f)


def test_a_child_has_a_watchdog_of_its_own() -> None:
    assert explore(None, [request_after_a_fork], also=[pthread_create, pthread_detach]).ends >= 1
