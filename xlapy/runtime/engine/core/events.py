"""Events and errors: what threads wait for, and why something failed.

An event is pending until it is completed, once, with or without an error. Threads await it (they sleep after a short
time), and callbacks run when it completes. Everyone who refers to an event owns it; the last owner frees it. A failed
event keeps its error, of which every reader gets a copy.

In the child of a fork, the thread that was to complete a pending event may be lost. Such an event has failed
there, unless the child adopts it because it completes it itself (`forks`).

Responsible for errors, events and waiting. Does not depend on what completes events.
"""

from __future__ import annotations

from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.error_codes.execution.calls import DELETED_BUFFER
from xlapy.native.function import Function, Static, external, free, native
from xlapy.native.ir import ACQ_REL, ACQUIRE, RELAXED
from xlapy.native.locks import fork_count
from xlapy.native.records import Atomic, Final, Owned, Record, Trailing
from xlapy.native.values import Address, Bool, Byte, Int32, Nullable, Word

COMPLETE, PENDING, AWAITED = 0, 1, 2
"""States of an event. AWAITED: pending, and threads may sleep."""

SPINS = 400
"""How often a thread looks at an event before it sleeps: some ten microseconds. The threads of the pool may
need its processor."""


class Error(Record):
    """Why something failed. zero: where PJRT keeps a function table. code: as in absl. message: address of its text,
    which follows the record and ends with a zero byte; message_size: its bytes without that."""

    zero: Final[Word]
    code: Final[Word]
    message_size: Final[Word]
    message: Final[Address]
    text: Trailing[Byte]


class EventCallback(Record):
    """A callback that waits for an event: called with a copy of the error, which it owns, and the argument."""

    next: Owned[Nullable[EventCallback]]
    callback: Owned[Address]
    argument: Owned[Nullable[Address]]


class Event(Record):
    """zero: where PJRT keeps a function table. callbacks: a list; `CLOSED_CALLBACKS` after completion. error: written
    by the thread that completes the event, before the state. is_settable: 1 if a framework made the event and has not
    set it. process: `fork_count` of the process that completes the event."""

    zero: Final[Word]
    state: Atomic[Int32]
    owners: Atomic[Word]
    error: Owned[Nullable[Error]]
    callbacks: Atomic[Nullable[EventCallback]]
    is_settable: Atomic[Word]
    process: Atomic[Int32]


READY_EVENT = Static("ready_event", Event)
"""An event that has always been complete. Its owners are not counted."""

CLOSED_CALLBACKS = Static("closed_callbacks", EventCallback)
"""Stands for the list of callbacks of a completed event."""

MEMORY_ERROR = Static("memory_error", Error)
"""The error when there is no memory for an error. It is never freed."""


@external
def memcpy(f: Function, target: Address, source: Address, size: Word) -> Address:  # type: ignore[empty-body]
    """Copies bytes."""


# --- errors


@native
def make_error(f: Function, code: Word, message: Address, size: Word) -> Error:
    """An error with a copy of a message."""
    made = f.allocate(Error, size + 8)
    with f.when(made.is_null()):
        f.ret(f.static(MEMORY_ERROR))
    error = made.value
    text = error.text
    memcpy(f, text, message, size)
    text[size] = 0
    error.zero = 0
    error.code = code
    error.message_size = size
    error.message = text
    return error


@native
def copy_of_error(f: Function, error: Nullable[Error]) -> Nullable[Error]:
    """A copy that the caller owns; null for null."""
    with f.when(error.is_null()):
        f.ret(None)
    source = error.value
    return make_error(f, source.code, source.message, source.message_size).maybe()


@native
def prefixed_error(f: Function, prefix: Nullable[Address], size: Word, error: Nullable[Error]) -> Nullable[Error]:
    """A copy of an error whose message begins with another text; a plain copy if there is no text or the error is a
    cancellation, which is not a failure; null for null."""
    with f.when(error.is_null()):
        f.ret(None)
    source = error.value
    with f.when(source.code == CANCELED):
        f.ret(copy_of_error(f, error))
    with f.when(prefix.is_null()):
        f.ret(copy_of_error(f, error))
    whole = size + source.message_size
    made = f.allocate(Error, whole + 8)
    with f.when(made.is_null()):
        f.ret(f.static(MEMORY_ERROR).maybe())
    copy = made.value
    memcpy(f, copy.text, prefix.value, size)
    memcpy(f, copy.text.offset(size), source.message, source.message_size)
    copy.text[whole] = 0
    copy.zero = 0
    copy.code = source.code
    copy.message_size = whole
    copy.message = copy.text
    return made


@native
def free_error(f: Function, error: Nullable[Error]) -> None:
    """Frees an error; nothing for null."""
    with f.when(error == f.static(MEMORY_ERROR)):
        f.ret()
    free(f, error.as_memory())


CANCELED, INVALID_ARGUMENT, RESOURCE_EXHAUSTED, FAILED_PRECONDITION = 1, 3, 8, 9
"""Codes of errors, as in absl."""


@native
def out_of_memory_error(f: Function) -> Error:
    """The error for exhausted memory."""
    return error_of_text(f, RESOURCE_EXHAUSTED, codes.OUT_OF_MEMORY, "out of memory for the temporaries of a program")


@native
def event_set_error(f: Function) -> Error:
    """The error of setting an event that cannot be set."""
    text = "the event was set before, or was not made by PJRT_Event_Create"
    return error_of_text(f, FAILED_PRECONDITION, codes.EVENT_STATE, text)


@native
def canceled_error(f: Function) -> Error:
    """The error of a canceled launch."""
    return error_of_text(f, CANCELED, codes.CANCELED, "the program was canceled")


@native
def forked_error(f: Function) -> Error:
    """The error of a launch that ran when the process was forked."""
    return error_of_text(f, CANCELED, codes.FORKED, "the process was forked while the program ran")


@native
def lost_error(f: Function) -> Error:
    """The error of an event that was pending when the process was forked."""
    text = "the process was forked before this was complete: only the parent completes it"
    return error_of_text(f, CANCELED, codes.FORKED, text)


@native
def deleted_error(f: Function) -> Error:
    """The error for a buffer that was deleted."""
    return error_of_text(f, INVALID_ARGUMENT, DELETED_BUFFER, "the buffer has been deleted.")


def error_of_text(f: Function, status: int, code: ErrorCode, text: str) -> Error:
    """An error with a constant message, which ends with its code. status: the code of absl::Status."""
    address, size = f.text(f"{text} [{code}]")
    return make_error(f, f.constant(Word, status), address, f.constant(Word, size))


# --- lifetime


@native
def new_event(f: Function, owners: Word) -> Nullable[Event]:
    """A pending event with a number of owners, of which one is whoever completes it; null if memory is exhausted."""
    made = f.allocate(Event)
    with f.when(made.is_null()):
        f.ret(None)
    event = made.value
    event.zero = 0
    event.state.store(PENDING, RELAXED)
    event.owners.store(owners, RELAXED)
    event.error = None
    event.callbacks.store(None, RELAXED)
    event.is_settable.store(0, RELAXED)
    event.process.store(fork_count(f), RELAXED)
    return made


@native
def ready_event_handle(f: Function) -> Event:
    """The event that has always been complete."""
    return f.static(READY_EVENT)


@native
def retain_event(f: Function, event: Event) -> None:
    """Adds an owner. The caller owns the event already."""
    with f.when(event == f.static(READY_EVENT)):
        f.ret()
    event.owners.fetch_add(1, RELAXED)


@native
def release_event(f: Function, event: Event) -> None:
    """Gives up the ownership of an event."""
    with f.when(event == f.static(READY_EVENT)):
        f.ret()
    with f.when(event.owners.fetch_sub(1, ACQ_REL) == 1):
        free_error(f, event.error)
        free(f, event.as_memory())


# --- completion


@native
def set_event_error(f: Function, event: Event, error: Nullable[Error]) -> None:
    """Sets the error with which the caller will complete an event. The event takes ownership of it."""
    event.error = error


@native
def complete_event(f: Function, event: Event, error: Nullable[Error]) -> None:
    """Completes an event. Takes ownership of the error, and gives up that of the event."""
    set_event_error(f, event, error)
    signal_event(f, event)


@native
def signal_event(f: Function, event: Event) -> None:
    """Completes an event whose error is set: wakes the threads that await it, and calls its callbacks. Gives up the
    ownership of the event."""
    with f.when(event.state.exchange(COMPLETE, ACQ_REL) == AWAITED):
        event.state.wake()
    callbacks = f.variable(Nullable[EventCallback], None)
    callbacks.set(event.callbacks.exchange(f.static(CLOSED_CALLBACKS).maybe(), ACQ_REL))
    with f.loop() as loop:
        first = callbacks.get()
        with f.when(first.is_null()):
            loop.leave()
        waiting = first.value
        callbacks.set(waiting.next)
        callback, argument = waiting.callback, waiting.argument
        free(f, waiting.as_memory())
        f.call_address(callback, copy_of_error(f, event.error), argument)
    release_event(f, event)


@native
def known_error(f: Function, event: Event) -> Nullable[Error]:
    """A copy of the error of an event, which may be pending. The caller knows that the error is set."""
    return copy_of_error(f, event.error)


@native
def is_event_lost(f: Function, event: Event) -> Bool:
    """Whether the event was pending when the process was forked, and this process does not complete it."""
    with f.when(event.state.load(RELAXED) == COMPLETE):
        f.ret(False)
    return event.process.load(RELAXED) != fork_count(f)


@native
def is_event_complete(f: Function, event: Event) -> Bool:
    """Whether the event is complete, or lost. If it is, `event_error` is its error."""
    with f.when(event.state.load(ACQUIRE) == COMPLETE):
        f.ret(True)
    return is_event_lost(f, event)


@native
def is_event_successful(f: Function, event: Event) -> Bool:
    """Whether the event is complete and has not failed."""
    with f.when(event.state.load(ACQUIRE) != COMPLETE):
        f.ret(False)
    return event.error.is_null()


@native
def event_error(f: Function, event: Event) -> Nullable[Error]:
    """A copy of the error of an event; null if it is pending or has not failed."""
    with f.when(event.state.load(ACQUIRE) != COMPLETE):
        with f.when(is_event_lost(f, event)):
            f.ret(lost_error(f))
        f.ret(None)
    return copy_of_error(f, event.error)


@native
def when_complete(f: Function, event: Event, callback: Address, argument: Nullable[Address]) -> None:
    """Calls `callback(error, argument)` when the event completes, or now if it is complete. The callback owns the
    error. If there is no memory to remember the callback, waits for the event here."""
    with f.when(event.state.load(ACQUIRE) == COMPLETE):
        call_now(f, event, callback, argument)
        f.ret()
    with f.when(is_event_lost(f, event)):
        f.call_address(callback, lost_error(f).maybe(), argument)
        f.ret()
    made = f.allocate(EventCallback)
    with f.when(made.is_null()):
        free_error(f, await_event(f, event))
        call_now(f, event, callback, argument)
        f.ret()
    waiting = made.value
    waiting.callback = callback
    waiting.argument = argument
    first = f.variable(Nullable[EventCallback], None)
    first.set(event.callbacks.load(ACQUIRE))
    with f.loop():
        seen = first.get()
        with f.when(seen == f.static(CLOSED_CALLBACKS)):
            free(f, waiting.as_memory())
            call_now(f, event, callback, argument)
            f.ret()
        waiting.next = seen
        found, is_added = event.callbacks.compare_exchange(seen, made, ACQ_REL, ACQUIRE)
        with f.when(is_added):
            f.ret()
        first.set(found)


@native
def call_now(f: Function, event: Event, callback: Address, argument: Nullable[Address]) -> None:
    """Calls the callback of a completed event."""
    f.call_address(callback, copy_of_error(f, event.error), argument)


@native
def await_event(f: Function, event: Event) -> Nullable[Error]:
    """Waits for an event; returns a copy of its error, or null."""
    with f.count(f.spins(SPINS)):
        with f.when(event.state.load(ACQUIRE) == COMPLETE):
            f.ret(copy_of_error(f, event.error))
        f.pause()
    with f.when(is_event_lost(f, event)):
        f.ret(lost_error(f))
    with f.loop() as loop:
        before, _ = event.state.compare_exchange(PENDING, AWAITED, RELAXED, ACQUIRE)
        with f.when(before == COMPLETE):
            loop.leave()
        event.state.wait(AWAITED)
    return copy_of_error(f, event.error)
