"""Buffers: elements on a device, in a storage that several buffers and launches may own.

A buffer owns its storage until it is deleted or donated. Whoever reads the elements first acquires a hold, that is,
becomes an owner of the storage too. A launch that a buffer is donated to takes the storage away from the buffer before
it starts, so of two launches only one gets it, and gives it back if it is refused.

Responsible for who owns the memory of buffers. Must not know programs.
"""

from __future__ import annotations

from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.native.function import Function, free, native
from xlapy.native.locks import LockWord, initialize_lock
from xlapy.native.records import Final, Guarded, Lock, Owned, Record
from xlapy.native.values import Address, Bool, Nullable, Word
from xlapy.runtime.engine.core.events import (
    FAILED_PRECONDITION,
    Error,
    Event,
    complete_event,
    error_of_text,
    memcpy,
    new_event,
    release_event,
    when_complete,
)
from xlapy.runtime.engine.core.memory import Storage, release, retain

NOT_TAKEN, TAKEN, TAKEN_AND_DELETED = 0, 1, 2
"""Whether a launch has taken the storage of a buffer, and whether the buffer was deleted meanwhile."""


class Buffer(Record, lock="lock"):
    """zero: where PJRT keeps a function table. data: address of the first element. storage: null after deletion, and
    while a launch has taken it. external_storage: the storage again, once host arrays share it; external_references:
    how many do. event: completes when the elements are ready. record_bytes: size of this record with its dimensions,
    which follow it. donation: whether a launch has taken the storage."""

    zero: Final[Word]
    data: Final[Nullable[Address]]
    storage: Guarded[Nullable[Storage]]
    lock: Lock
    external_storage: Guarded[Nullable[Storage]]
    external_references: Guarded[Word]
    event: Final[Event]
    on_device_size_in_bytes: Final[Word]
    device: Final[Nullable[Address]]
    memory: Final[Nullable[Address]]
    type: Final[Word]
    num_dims: Final[Word]
    dims: Final[Address]
    is_on_cpu: Final[Word]
    record_bytes: Final[Word]
    layout: Final[Nullable[Address]]
    donation: Guarded[Word]


class PendingCopy(Record):
    """A copy to the host that waits for its source. event: completes with the copy."""

    storage: Owned[Storage]
    source: Owned[Address]
    target: Owned[Address]
    size: Owned[Word]
    event: Owned[Event]


# --- lifetime


@native
def make_buffer(f: Function, template: Buffer, storage: Storage, data: Address) -> Nullable[Buffer]:
    """A buffer that takes over the ownership of a storage; its record starts as a copy of the template. Null if memory
    is exhausted."""
    bytes = template.record_bytes
    made = f.allocate(Buffer, bytes - Buffer.byte_size())
    with f.when(made.is_null()):
        f.ret(None)
    buffer = made.value
    memcpy(f, buffer, template, bytes)
    buffer.data = data.maybe()
    buffer.storage = storage.maybe()
    buffer.dims = buffer.offset(Buffer.byte_size())
    return made


@native
def new_buffer(
    f: Function,
    type: Word,
    dims: Nullable[Address],
    rank: Word,
    bytes: Word,
    device: Nullable[Address],
    memory: Nullable[Address],
    layout: Nullable[Address],
    storage: Storage,
    data: Address,
    event: Event,
) -> Nullable[Buffer]:
    """A buffer that takes over the ownership of a storage and of the event that completes when its elements are ready.
    Null, with nothing taken over, if memory is exhausted. bytes: of the elements."""
    tail = rank * 8
    made = f.allocate(Buffer, tail)
    with f.when(made.is_null()):
        f.ret(None)
    buffer = made.value
    with f.when(dims.is_present()):
        memcpy(f, buffer.offset(Buffer.byte_size()), dims.value, tail)
    buffer.zero = 0
    buffer.data = data.maybe()
    buffer.storage = storage.maybe()
    initialize_lock(f, buffer.lock.address.cast(LockWord))
    buffer.external_storage = None
    buffer.external_references = 0
    buffer.donation = NOT_TAKEN
    buffer.event = event
    buffer.on_device_size_in_bytes = bytes
    buffer.device = device
    buffer.memory = memory
    buffer.type = type
    buffer.num_dims = rank
    buffer.dims = buffer.offset(Buffer.byte_size())
    buffer.is_on_cpu = 1
    buffer.record_bytes = tail + Buffer.byte_size()
    buffer.layout = layout
    return made


@native
def delete_buffer(f: Function, buffer: Buffer) -> None:
    """Deletes a buffer: gives up its storage. If a launch has taken the storage, it is not given back."""
    with f.locked(buffer.lock):
        storage = buffer.storage
        buffer.storage = None
        with f.when(buffer.donation == TAKEN):
            buffer.donation = TAKEN_AND_DELETED
    with f.when(storage.is_present()):
        release(f, storage.value)


@native
def destroy_buffer(f: Function, buffer: Buffer) -> None:
    """Deletes a buffer and frees its record. Nobody uses the record any more."""
    delete_buffer(f, buffer)
    release_event(f, buffer.event)
    free(f, buffer.as_memory())


@native
def is_deleted(f: Function, buffer: Buffer) -> Bool:
    """Whether a buffer was deleted, or is donated."""
    with f.locked(buffer.lock):
        storage = buffer.storage
    return storage.is_null()


# --- holds and donation


@native
def acquire_hold(f: Function, buffer: Buffer) -> Nullable[Storage]:
    """Becomes an owner of the storage of a buffer, and returns it; null if the buffer was deleted or is donated."""
    with f.locked(buffer.lock):
        storage = buffer.storage
        with f.when(storage.is_present()):
            retain(f, storage.value)
    return storage


@native
def take_storage(f: Function, buffer: Buffer) -> Nullable[Storage]:
    """Takes the storage of a buffer over for a launch; null if the buffer was deleted or is donated. Only one of
    several threads gets it."""
    with f.locked(buffer.lock):
        storage = buffer.storage
        with f.when(storage.is_present()):
            buffer.storage = None
            buffer.donation = TAKEN
    return storage


@native
def give_storage_back(f: Function, buffer: Buffer, storage: Storage) -> None:
    """Returns the storage of a buffer after the launch that took it was refused."""
    with f.locked(buffer.lock):
        was_deleted = buffer.donation == TAKEN_AND_DELETED
        buffer.donation = NOT_TAKEN
        with f.when(~was_deleted):
            buffer.storage = storage.maybe()
    with f.when(was_deleted):
        release(f, storage)


@native
def add_external_reference(f: Function, buffer: Buffer) -> Bool:
    """Keeps the elements alive beyond deletion, for host arrays that share them, and prevents that donation reuses
    their memory. False if the buffer was deleted."""
    with f.locked(buffer.lock):
        storage = buffer.storage
        with f.when(storage.is_null()):
            f.ret(False)
        retain(f, storage.value)
        buffer.external_storage = storage
        buffer.external_references = buffer.external_references + 1
    return f.constant(Bool, True)


@native
def remove_external_reference(f: Function, buffer: Buffer) -> Bool:
    """Ends what `add_external_reference` began; false if there is no reference."""
    with f.locked(buffer.lock):
        references, storage = buffer.external_references, buffer.external_storage
        with f.when(references == 0):
            f.ret(False)
        buffer.external_references = references - 1
    release(f, storage.known("there is a reference"))
    return f.constant(Bool, True)


@native
def no_reference_error(f: Function) -> Error:
    """The error for a reference that was never added."""
    return error_of_text(f, FAILED_PRECONDITION, codes.BUFFER_REFERENCES, "the buffer has no external references")


# --- copies to the host


@native
def copy_when_ready(f: Function, buffer: Buffer, storage: Storage, target: Address) -> Nullable[Event]:
    """Copies a buffer to the host when its elements are ready. Takes over the ownership of the storage; returns the
    event of the copy, or null, with the storage released, if memory is exhausted."""
    done = new_event(f, f.constant(Word, 2))
    with f.when(done.is_null()):
        release(f, storage)
        f.ret(None)
    made = f.allocate(PendingCopy)
    with f.when(made.is_null()):
        free(f, done.as_memory())
        release(f, storage)
        f.ret(None)
    copy = made.value
    copy.storage = storage
    copy.source = buffer.data.known("a buffer that has a storage has data")
    copy.target = target
    copy.size = buffer.on_device_size_in_bytes
    copy.event = done.value
    when_complete(f, buffer.event, f.address_of(finish_copy), made.as_memory())
    return done


@native
def finish_copy(f: Function, error: Nullable[Error], argument: Address) -> None:
    """Copies, unless the source failed, and completes the event of the copy."""
    copy = argument.cast(PendingCopy)
    with f.when(error.is_null()):
        memcpy(f, copy.target, copy.source, copy.size)
    release(f, copy.storage)
    done = copy.event
    free(f, copy.as_memory())
    complete_event(f, done, error)
