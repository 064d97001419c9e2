"""Events that the host completes: those of buffers that it fills piece by piece, and events that a framework made.

If the host fails an event, it marks the storage of the buffer as failed first, so that launches that read the storage
fail too.

Responsible for completing these events, and for copies into buffers that wait for their source. Must not know
launches.
"""

from __future__ import annotations

from xlapy.native.function import Function, free, native
from xlapy.native.records import Owned, Record
from xlapy.native.values import Address, Nullable, Word
from xlapy.runtime.engine.core.events import (
    Error,
    Event,
    memcpy,
    out_of_memory_error,
    set_event_error,
    signal_event,
    when_complete,
)
from xlapy.runtime.engine.core.memory import Storage, mark_failed, release


class PendingFill(Record):
    """A copy into a buffer that waits for its source. event: that of the buffer."""

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
    made = f.allocate(PendingFill)
    with f.when(made.is_null()):
        complete_host_event(f, event, out_of_memory_error(f).maybe(), target_storage)
        release_if_any(f, storage)
        release_if_any(f, target_storage)
        f.ret()
    fill = made.value
    fill.storage = storage
    fill.source = source
    fill.size = size
    fill.target = target
    fill.target_storage = target_storage
    fill.event = event
    when_complete(f, ready, f.address_of(finish_fill), made.as_memory())


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
