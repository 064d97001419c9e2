"""Events that the host completes: those of buffers that it fills piece by piece, and events that a framework made.

If the host fails an event, it marks the storage of the buffer as failed first, so that launches that read the storage
fail too.

Responsible for completing these events, and for copies into buffers that wait for their source. Must not know
launches.
"""

from __future__ import annotations

from xlapy.native.function import Function, free, native
from xlapy.native.ir import RELAXED
from xlapy.native.records import Owned, Record
from xlapy.native.values import Address, Bool, Nullable, Word
from xlapy.runtime.engine.core.events import (
    Error,
    Event,
    free_error,
    memcpy,
    new_event,
    out_of_memory_error,
    release_event,
    retain_event,
    set_event_error,
    signal_event,
    when_complete,
)
from xlapy.runtime.engine.core.memory import Storage, mark_failed, release

# --- events of frameworks


@native
def new_host_event(f: Function) -> Nullable[Event]:
    """A pending event that its owner sets; null if memory is exhausted."""
    made = new_event(f, f.constant(Word, 1))
    with f.when(made.is_present()):
        made.value.is_settable.store(1, RELAXED)
    return made


@native
def set_host_event(f: Function, event: Event, error: Nullable[Error]) -> Bool:
    """Completes an event of `new_host_event`; false if it is another one, or if it was set before. The caller owns the
    event. Takes ownership of the error."""
    with f.when(event.is_settable.exchange(0, RELAXED) == 0):
        free_error(f, error)
        f.ret(False)
    retain_event(f, event)
    set_event_error(f, event, error)
    signal_event(f, event)
    return f.constant(Bool, True)


@native
def failed_event(f: Function, error: Error) -> Nullable[Event]:
    """A completed event with an error, of which it takes ownership; null if memory is exhausted."""
    made = new_event(f, f.constant(Word, 2))
    with f.when(made.is_null()):
        free_error(f, error.maybe())
        f.ret(None)
    event = made.value
    set_event_error(f, event, error.maybe())
    signal_event(f, event)
    return made


# --- copies that wait


class PendingFill(Record):
    """A copy into a buffer or to the host that waits for its source. ready: completes when the source is ready. event:
    completes with the copy. Everything is owned."""

    ready: Owned[Event]
    storage: Owned[Nullable[Storage]]
    source: Owned[Nullable[Address]]
    size: Owned[Word]
    target: Owned[Nullable[Address]]
    target_storage: Owned[Nullable[Storage]]
    event: Owned[Event]


@native
def complete_host_event(f: Function, event: Event, error: Nullable[Error], storage: Nullable[Storage]) -> None:
    """Completes an event. Takes ownership of the error, and gives up that of the event. If there is an error, launches
    that read the storage fail with it."""
    set_event_error(f, event, error)
    with f.when(error.is_present() & storage.is_present()):
        mark_failed(f, storage.known("tested above"), event)
    signal_event(f, event)


@native
def fill_when_ready(
    f: Function,
    ready: Event,
    source: Nullable[Address],
    storage: Nullable[Storage],
    size: Word,
    target: Nullable[Address],
    target_storage: Nullable[Storage],
    event: Event,
) -> None:
    """Copies bytes when an event completes, then completes another one, or fails it with the error of the first. Takes
    over the ownership of `event` and of both storages."""
    made = prepare_fill(f, ready, source, storage, size, target, target_storage, event)
    with f.when(made.is_null()):
        complete_host_event(f, event, out_of_memory_error(f).maybe(), target_storage)
        release_if_any(f, storage)
        release_if_any(f, target_storage)
        f.ret()
    start_fill(f, made.value, f.null(Address), f.null(Error))


@native
def prepare_fill(
    f: Function,
    ready: Event,
    source: Nullable[Address],
    storage: Nullable[Storage],
    size: Word,
    target: Nullable[Address],
    target_storage: Nullable[Storage],
    event: Event,
) -> Nullable[PendingFill]:
    """Such a copy, which does not begin before it is started. Null, with nothing taken over, if memory is exhausted."""
    made = f.allocate(PendingFill)
    with f.when(made.is_null()):
        f.ret(None)
    retain_event(f, ready)
    fill = made.value
    fill.ready = ready
    fill.storage = storage
    fill.source = source
    fill.size = size
    fill.target = target
    fill.target_storage = target_storage
    fill.event = event
    return made


@native
def start_fill(f: Function, fill: PendingFill, target: Nullable[Address], error: Nullable[Error]) -> None:
    """Starts a copy that was prepared, or fails it. target: where it goes, if that was not known before. Takes
    ownership of the error."""
    ready = fill.ready
    with f.when(target.is_present()):
        fill.target = target
    with f.when(error.is_present()) as has_failed:
        finish_fill(f, error, fill)
    with has_failed.otherwise():
        when_complete(f, ready, f.address_of(finish_fill), fill.as_memory())
    release_event(f, ready)


@native
def finish_fill(f: Function, error: Nullable[Error], argument: Address) -> None:
    """Copies, unless the source failed, and completes the event of the buffer."""
    fill = argument.cast(PendingFill)
    storage, target_storage, event, size = fill.storage, fill.target_storage, fill.event, fill.size
    with f.when(error.is_null() & (size != 0)):
        memcpy(f, fill.target.known("there are bytes"), fill.source.known("there are bytes"), size)
    free(f, fill.as_memory())
    complete_host_event(f, event, error, target_storage)
    release_if_any(f, storage)
    release_if_any(f, target_storage)


@native
def release_if_any(f: Function, storage: Nullable[Storage]) -> None:
    """Gives up the ownership of a storage; nothing for null."""
    with f.when(storage.is_present()):
        release(f, storage.value)
