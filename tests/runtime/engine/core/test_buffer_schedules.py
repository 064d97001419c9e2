"""Buffers under all schedules: holds, donation, deletion, external references, and launches that are queued."""

from __future__ import annotations

import pytest

from xlapy.native.checker.explore import explore
from xlapy.native.checker.memory import ScheduleError
from xlapy.native.function import Function, Static, native
from xlapy.native.ir import ACQ_REL, ACQUIRE, RELAXED
from xlapy.native.records import Atomic, Owned, Record
from xlapy.native.values import Bool, Nullable, Word
from xlapy.runtime.engine.core.buffers import (
    Buffer,
    acquire_hold,
    add_external_reference,
    copy_when_ready,
    delete_buffer,
    destroy_buffer,
    finish_copy,
    give_storage_back,
    is_deleted,
    remove_external_reference,
    take_storage,
)
from xlapy.runtime.engine.core.events import (
    READY_EVENT,
    Error,
    await_event,
    complete_event,
    free_error,
    is_event_complete,
    new_event,
    release_event,
)
from xlapy.runtime.engine.core.memory import (
    CACHE,
    STORAGE_BYTES,
    USAGE,
    Storage,
    allocate,
    borrow_host_memory,
    borrow_storage,
    failure,
    is_unique_owner,
    mark_failed,
    mark_queued,
    release,
    release_queued,
    retain,
    set_cache_limit,
    trim,
)
from xlapy.runtime.engine.size_classes import MIN_CACHED_BYTES, MIN_STEP_BITS


class Board(Record):
    """What the threads share. taken: launches that got the donated storage. overwritten: launches that wrote it."""

    buffer: Atomic[Nullable[Buffer]]
    other: Atomic[Nullable[Buffer]]
    taken: Atomic[Word]
    overwritten: Atomic[Word]


class Elements(Record):
    """The elements of a storage."""

    first: Owned[Word]


BOARD = Static("board", Board)


@native
def make(f: Function, storage: Storage) -> Buffer:
    """A buffer that owns a storage."""
    buffer = f.allocate(Buffer).known("memory suffices")
    buffer.data, buffer.on_device_size_in_bytes = storage.offset(STORAGE_BYTES), 8
    buffer.storage = storage.maybe()
    buffer.external_storage = None
    buffer.external_references = 0
    buffer.donation = 0
    buffer.event = f.static(READY_EVENT)
    return buffer


@native
def prepare(f: Function) -> None:
    """A buffer with the element 5."""
    storage = allocate(f, f.constant(Word, 8)).known("memory suffices")
    elements(storage).first = 5
    f.static(BOARD).buffer.store(make(f, storage).maybe(), RELAXED)


@native
def prepare_two(f: Function) -> None:
    """Two buffers that own one storage with the element 5."""
    storage = allocate(f, f.constant(Word, 8)).known("memory suffices")
    elements(storage).first = 5
    retain(f, storage)
    f.static(BOARD).buffer.store(make(f, storage).maybe(), RELAXED)
    f.static(BOARD).other.store(make(f, storage).maybe(), RELAXED)


def elements(storage: Storage) -> Elements:
    return storage.offset(STORAGE_BYTES).cast(Elements)


def the(f: Function, name: str = "buffer") -> Buffer:
    return getattr(f.static(BOARD), name).load(RELAXED).known("prepared")


@native
def donate(f: Function) -> None:
    """A launch that a buffer is donated to: overwrites the element if nobody else owns it."""
    board = f.static(BOARD)
    taken = take_storage(f, the(f))
    with f.when(taken.is_present()):
        board.taken.fetch_add(1, RELAXED)
        storage = taken.value
        with f.when(is_unique_owner(f, storage, f.constant(Bool, True))):
            f.check(elements(storage).first == 5, "the first launch finds the element")
            elements(storage).first = 6
            board.overwritten.fetch_add(1, RELAXED)
        release(f, storage)


@native
def donate_and_be_refused(f: Function) -> None:
    """A launch that takes a donated buffer and then cannot run."""
    taken = take_storage(f, the(f))
    with f.when(taken.is_present()):
        give_storage_back(f, the(f), taken.value)


@native
def read(f: Function) -> None:
    """A thread that reads a buffer."""
    held = acquire_hold(f, the(f))
    with f.when(held.is_present()):
        f.check(elements(held.value).first == 5, "a held element does not change")
        release(f, held.value)


@native
def share(f: Function) -> None:
    """A host array that shares the elements for a while."""
    buffer = the(f)
    with f.when(add_external_reference(f, buffer)):
        f.check(remove_external_reference(f, buffer), "there is a reference")


@native
def delete(f: Function) -> None:
    delete_buffer(f, the(f))


@native
def ask(f: Function) -> None:
    is_deleted(f, the(f))


@native
def destroy(f: Function) -> None:
    destroy_buffer(f, the(f))


@native
def one_was_donated(f: Function) -> None:
    board = f.static(BOARD)
    f.check(board.taken.load(RELAXED) == 1, "exactly one launch gets a donated buffer")
    destroy_buffer(f, the(f))


def test_of_two_launches_with_one_donated_buffer_one_gets_it():
    explore(prepare, [donate, donate], one_was_donated)


def test_of_three_launches_with_one_donated_buffer_one_gets_it():
    explore(prepare, [donate, donate, donate], one_was_donated)


def test_nothing_that_is_held_is_overwritten():
    explore(prepare, [donate, read], destroy)
    explore(prepare, [donate, read, read], destroy)


def test_nothing_that_host_arrays_share_is_overwritten():
    explore(prepare, [donate, share, read], destroy)


def test_a_refused_launch_gives_the_buffer_back():
    @native
    def still_there(f: Function) -> None:
        f.check(~is_deleted(f, the(f)), "the buffer has its storage again")
        destroy_buffer(f, the(f))

    explore(prepare, [donate_and_be_refused, ask, read], still_there)


def test_a_buffer_that_is_deleted_during_a_refused_launch_stays_deleted():
    @native
    def gone(f: Function) -> None:
        f.check(is_deleted(f, the(f)), "a deleted buffer stays deleted")
        destroy_buffer(f, the(f))

    explore(prepare, [donate_and_be_refused, delete], gone)
    explore(prepare, [donate_and_be_refused, delete, donate], gone)


def test_deletion_while_others_read():
    explore(prepare, [delete, read, delete], destroy)


# --- queued launches


@native
def queue_a_reader(f: Function) -> None:
    """A launch that reads the other buffer of the storage, which is queued and finishes."""
    held = acquire_hold(f, the(f, "other"))
    with f.when(held.is_present()):
        mark_queued(f, held.value)
        f.check(elements(held.value).first == 5, "a queued launch reads the element")
        release_queued(f, held.value)


@native
def donate_behind_queued(f: Function) -> None:
    """A launch that will run behind the queued ones: those do not count as owners, others do."""
    taken = take_storage(f, the(f))
    with f.when(taken.is_present()):
        with f.when(is_unique_owner(f, taken.value, f.constant(Bool, False))):
            f.static(BOARD).overwritten.fetch_add(1, RELAXED)
        release(f, taken.value)


@native
def nothing_was_overwritten(f: Function) -> None:
    f.check(f.static(BOARD).overwritten.load(RELAXED) == 0, "a storage with another buffer is not overwritten")
    destroy_buffer(f, the(f))
    destroy_buffer(f, the(f, "other"))


def test_a_storage_of_two_buffers_is_never_overwritten():
    explore(prepare_two, [donate_behind_queued, queue_a_reader], nothing_was_overwritten)
    explore(prepare_two, [donate_behind_queued, queue_a_reader, queue_a_reader], nothing_was_overwritten)


# --- other devices


@native
def queue_a_reader_on_another_device(f: Function) -> None:
    """A launch that reads the elements through a storage that borrows them. Its stream does not wait for that of the
    donation."""
    held = acquire_hold(f, the(f))
    with f.when(held.is_present()):
        made = borrow_storage(f, held.value)
        with f.when(made.is_null()):
            release(f, held.value)
            f.ret()
        mark_queued(f, made.value)
        f.check(elements(held.value).first == 5, "borrowed elements do not change")
        release_queued(f, made.value)


@native
def donate_and_overwrite_behind_queued(f: Function) -> None:
    """A launch that will run behind the queued ones of its stream."""
    taken = take_storage(f, the(f))
    with f.when(taken.is_present()):
        with f.when(is_unique_owner(f, taken.value, f.constant(Bool, False))):
            elements(taken.value).first = 6
        release(f, taken.value)


def test_nothing_that_another_device_reads_is_overwritten():
    explore(prepare, [donate_and_overwrite_behind_queued, queue_a_reader_on_another_device], destroy)
    explore(prepare, [queue_a_reader_on_another_device, delete], destroy, exhausts_memory=True)


# --- copies


def test_nothing_is_lost_of_a_copy_when_any_allocation_fails():
    @native
    def copy(f: Function) -> None:
        target = f.stack(8).cast(Elements)
        held = acquire_hold(f, the(f)).known("it was not deleted")
        done = copy_when_ready(f, the(f), held, target)
        with f.when(done.is_present()):
            free_error(f, await_event(f, done.value))
            release_event(f, done.value)
            f.check(target.first == 5, "the element is copied")

    explore(prepare, [copy], destroy, also=[finish_copy], exhausts_memory=True)


# --- memory

LARGE = MIN_CACHED_BYTES - STORAGE_BYTES
"""Bytes of the elements of the smallest block that is cached."""


@native
def limit_cache(f: Function) -> None:
    """The cache has room for one block."""
    set_cache_limit(f, f.constant(Word, MIN_CACHED_BYTES + (1 << MIN_STEP_BITS)))


@native
def use_large_block(f: Function) -> None:
    storage = allocate(f, f.constant(Word, LARGE)).known("memory suffices")
    elements(storage).first = 1
    release(f, storage)


@native
def no_block_is_left(f: Function) -> None:
    f.check(f.static(CACHE).cached.load(RELAXED) != 0, "a block is cached")
    trim(f)
    f.check(f.static(CACHE).cached.load(RELAXED) == 0, "no block is cached")
    f.check(f.static(USAGE).used.load(RELAXED) == 0, "no memory is in use")


def test_cached_blocks_are_used_by_one_thread_after_the_other():
    explore(limit_cache, [use_large_block, use_large_block], no_block_is_left)


def test_borrowed_host_memory_is_given_back():
    @native
    def borrow(f: Function) -> None:
        event = new_event(f, f.constant(Word, 2)).known("memory suffices")
        made = borrow_host_memory(f, event)
        with f.when(made.is_present()) as is_present:
            release(f, made.value)
            f.check(is_event_complete(f, event), "the host knows of the release")
        with is_present.otherwise():
            release_event(f, event)
        release_event(f, event)

    explore(None, [borrow])


def test_a_storage_frees_the_event_of_its_failure():
    @native
    def fail(f: Function) -> None:
        storage = allocate(f, f.constant(Word, 8)).known("memory suffices")
        event = new_event(f, f.constant(Word, 1)).known("memory suffices")
        mark_failed(f, storage, event)
        mark_failed(f, storage, event)
        complete_event(f, event, f.null(Error))
        f.check(failure(f, storage).is_present(), "the storage has failed")
        release(f, storage)

    explore(None, [fail])


# --- broken protocols


def broken(kinds: set[str], setup, threads, finish) -> ScheduleError:
    with pytest.raises(ScheduleError) as caught:
        explore(setup, threads, finish)
    assert caught.value.kind in kinds, str(caught.value)
    return caught.value


def test_donation_that_checks_before_and_deletes_after_the_run_is_found():
    @native
    def donate_carelessly(f: Function) -> None:
        held = acquire_hold(f, the(f))
        with f.when(held.is_null()):
            f.ret()
        storage = held.value
        f.static(BOARD).taken.fetch_add(1, RELAXED)
        with f.when((storage.owners.load(ACQUIRE) & 0xFFFF) == 2):
            elements(storage).first = 6
        delete_buffer(f, the(f))
        release(f, storage)

    broken({"assertion", "race"}, prepare, [donate_carelessly] * 2, one_was_donated)


class Counts(Record):
    """The counts of a storage as two words. data: overwritten by a launch that believes to be the only owner."""

    owners: Atomic[Word]
    queued: Atomic[Word]
    overwritten: Atomic[Word]


COUNTS = Static("counts", Counts)


def test_a_queued_launch_of_another_stream_that_owns_the_storage_itself_is_found():
    @native
    def queue_without_borrowing(f: Function) -> None:
        held = acquire_hold(f, the(f))
        with f.when(held.is_present()):
            mark_queued(f, held.value)
            f.check(elements(held.value).first == 5, "shared elements do not change")
            release_queued(f, held.value)

    broken({"assertion", "race"}, prepare, [donate_and_overwrite_behind_queued, queue_without_borrowing], destroy)


def test_owners_and_queued_launches_in_two_words_are_found():
    """Two owners: the launch and another buffer. A launch that reads the buffer is queued in between."""

    @native
    def two_owners(f: Function) -> None:
        f.static(COUNTS).owners.store(2, RELAXED)

    @native
    def queue_and_finish(f: Function) -> None:
        counts = f.static(COUNTS)
        counts.owners.fetch_add(1, ACQ_REL)
        counts.queued.fetch_add(1, ACQ_REL)
        counts.queued.fetch_sub(1, ACQ_REL)
        counts.owners.fetch_sub(1, ACQ_REL)

    @native
    def check_two_words(f: Function) -> None:
        counts = f.static(COUNTS)
        owners = counts.owners.load(ACQUIRE)
        with f.when(owners == counts.queued.load(ACQUIRE) + 1):
            counts.overwritten.store(1, RELAXED)

    @native
    def never(f: Function) -> None:
        f.check(f.static(COUNTS).overwritten.load(RELAXED) == 0, "another buffer owns the storage")

    broken({"assertion"}, two_owners, [check_two_words, queue_and_finish], never)


def test_a_deletion_without_the_lock_is_found():
    @native
    def delete_without_lock(f: Function) -> None:
        buffer = f.exclusive_access(the(f), "which is wrong")
        storage = buffer.storage
        buffer.storage = None
        with f.when(storage.is_present()):
            release(f, storage.value)

    broken({"race"}, prepare, [delete_without_lock, read], destroy)
