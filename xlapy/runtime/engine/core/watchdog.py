"""The thread that checks for deadlocks between devices.

A device that has waited long requests a check, which this thread performs in Python. Streams therefore never wait for
the interpreter's lock.

Responsible for the thread and its requests. Must not know how deadlocks are found.
"""

from __future__ import annotations

from xlapy.native.function import Function, Static, external, native
from xlapy.native.ir import ACQ_REL, RELAXED, RELEASE
from xlapy.native.locks import Semaphore, acquire_permit, initialize_semaphore, release_permit
from xlapy.native.records import Atomic, Owned, Record
from xlapy.native.threads import start_thread
from xlapy.native.values import Address, Int32, Nullable, Word
from xlapy.runtime.engine.core.events import Error, free_error


class Watchdog(Record):
    """is_requested: whether a check was requested and has not begun. is_started: whether the thread runs; whoever sets
    `is_requested` owns it until the check begins. requests: permits of the thread, one for each request."""

    is_requested: Atomic[Word]
    is_started: Owned[Word]
    requests: Atomic[Int32]
    requests_sleepers: Atomic[Int32]


WATCHDOG = Static("watchdog", Watchdog)


@external
def check_deadlocks_in_python(f: Function, argument: Address) -> Nullable[Error]:  # type: ignore[empty-body]
    """Checks all active launches."""


@native
def request_deadlock_check(f: Function, thunk: Word) -> Int32:
    """Programs call this when a device has waited long. Wakes the thread, and returns 0."""
    watchdog = f.static(WATCHDOG)
    with f.when(watchdog.is_requested.exchange(1, ACQ_REL) != 0):
        f.ret(0)
    with f.when(watchdog.is_started == 0):
        with f.when(~start_thread(f, f.address_of(watchdog_main), watchdog)):
            watchdog.is_requested.store(0, RELEASE)
            f.ret(0)
        watchdog.is_started = 1
    release_permit(f, watchdog.requests.address.cast(Semaphore))
    return f.constant(Int32, 0)


@native
def watchdog_main(f: Function, argument: Address) -> Nullable[Address]:
    """The thread. Does not return."""
    with f.loop():
        answer_request(f, argument.cast(Watchdog))
    return f.null(Address)


@native
def answer_request(f: Function, watchdog: Watchdog) -> None:
    """Waits for a request and checks once. What is requested while the check runs is another request, because the check
    may have looked already."""
    acquire_permit(f, watchdog.requests.address.cast(Semaphore))
    watchdog.is_requested.exchange(0, ACQ_REL)  # the check sees what those that found a request wrote before
    free_error(f, check_deadlocks_in_python(f, watchdog))


@native
def initialize_watchdog(f: Function) -> None:
    """Prepares the thread, which starts with the first request. No other thread uses it."""
    watchdog = f.static(WATCHDOG)
    initialize_semaphore(f, watchdog.requests.address.cast(Semaphore), f.constant(Int32, 0))
    watchdog.is_requested.store(0, RELAXED)
    watchdog.is_started = 0
