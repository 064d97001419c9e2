"""Memory of buffers: storages, and blocks that are cached after use.

A storage is a header of 64 bytes followed by its elements, aligned to 64 bytes; it is freed with its last owner. Freed
blocks are cached in lists by size class (`runtime.engine.size_classes`). A storage of size 0 is a header only and
stands for borrowed memory: that of the host, whose event completes when it is released, or that of another storage,
which it owns.

Responsible for allocation and cached memory. Must not know buffers or programs.
"""

from __future__ import annotations

from xlapy.native.function import Function, Static, external, free, native, native_holding
from xlapy.native.ir import ACQ_REL, ACQUIRE, RELAXED, RELEASE
from xlapy.native.records import Atomic, Final, Lock, Owned, Record, Trailing
from xlapy.native.values import Address, Bool, Int32, Nullable, Word
from xlapy.runtime.engine.core.events import Error, Event, complete_event, release_event, retain_event
from xlapy.runtime.engine.size_classes import CLASS_BITS, HUGE_PAGE_BYTES, MIN_CACHED_BYTES, MIN_STEP_BITS

STORAGE_BYTES = 64
"""Bytes of the header, which precedes the elements."""

QUEUED = 1 << 32
"""What a launch that has not finished adds to the owners of a storage."""

_MIN_CACHED_BITS = MIN_CACHED_BYTES.bit_length() - 1
_SLOTS_PER_POWER = 16
"""Free lists per power of two: the bits below the leading one of a size class, twice as many as needed."""

_ADVISE_HUGE_PAGES = 14
"""MADV_HUGEPAGE of Linux."""

_FREE_LISTS = (64 - _MIN_CACHED_BITS) * _SLOTS_PER_POWER


class Storage(Record):
    """owners: in its lower half the number of buffers, launches and host arrays that use the storage; in its upper
    half, how many of them are launches that have not finished. Both are one word because donation needs them at one
    moment. event: for borrowed host memory, completed when the last owner releases it. next: link in a free list. size:
    bytes, the header included. failed: the event of the first launch that failed to write it. lender: the storage whose
    elements this one borrows; null for others."""

    owners: Atomic[Word]
    event: Final[Nullable[Event]]
    next: Owned[Nullable[Storage]]
    size: Final[Word]
    failed: Atomic[Nullable[Event]]
    lender: Final[Nullable[Storage]]


class Cache(Record, lock="lock"):
    """Blocks that nobody uses. cached, limit: bytes. The free lists, by size class, follow."""

    lock: Lock
    cached: Atomic[Word]
    limit: Atomic[Word]
    free_lists: Trailing[Nullable[Storage]]


class Usage(Record):
    """Bytes of all storages in use, and their maximum."""

    used: Atomic[Word]
    peak: Atomic[Word]


CACHE = Static("block_cache", Cache, Cache.byte_size() + 8 * _FREE_LISTS)
USAGE = Static("memory_usage_record", Usage)


@external
def aligned_alloc(f: Function, alignment: Word, size: Word) -> Nullable[Address]:  # type: ignore[empty-body]
    """Allocates aligned memory; null if memory is exhausted. The size is a multiple of the alignment, as some C
    libraries demand."""


@external
def madvise(f: Function, start: Address, size: Word, advice: Int32) -> Int32:  # type: ignore[empty-body]
    """Advises the system on the use of pages; returns 0, or -1 if it does not take the advice."""


# --- size classes


@native
def round_to_size_class(f: Function, size: Word) -> Word:
    """The smallest size class of at least that many bytes."""
    power = f.constant(Word, 63) - size.leading_zeros()
    shift = f.select(power > CLASS_BITS + MIN_STEP_BITS, power - CLASS_BITS, f.constant(Word, MIN_STEP_BITS))
    step = f.constant(Word, 1) << shift
    return (size + step - 1) & (f.constant(Word, 0) - step)


@native
def free_list_number(f: Function, rounded: Word) -> Word:
    """The number of the free list of a size class."""
    power = f.constant(Word, 63) - rounded.leading_zeros()
    below = (rounded >> (power - 4)) & (_SLOTS_PER_POWER - 1)
    return (power - _MIN_CACHED_BITS) * _SLOTS_PER_POWER + below


# --- allocation


@native
def pop_cached_block(f: Function, rounded: Word) -> Nullable[Storage]:
    """A cached block of a size class; null if there is none."""
    cache = f.static(CACHE)
    number = free_list_number(f, rounded)
    with f.locked(cache.lock):
        first = cache.free_lists[number]
        with f.when(first.is_null()):
            f.ret(None)
        cache.free_lists[number] = first.value.next
        cache.cached.fetch_sub(rounded, RELAXED)
    return first


@native
def allocate_block(f: Function, bytes: Word) -> Nullable[Address]:
    """New memory, in huge pages if it fills one; null if memory is exhausted."""
    is_huge = bytes >= HUGE_PAGE_BYTES
    alignment = f.select(is_huge, f.constant(Word, HUGE_PAGE_BYTES), f.constant(Word, STORAGE_BYTES))
    whole = (bytes + alignment - 1) & (f.constant(Word, 0) - alignment)
    made = aligned_alloc(f, alignment, whole)
    with f.when(made.is_null()):
        f.ret(None)
    with f.when(is_huge):
        madvise(f, made.value, bytes, f.constant(Int32, _ADVISE_HUGE_PAGES))
    return made


@native
def allocate(f: Function, size: Word) -> Nullable[Storage]:
    """A storage for a number of bytes, with one owner; null if memory is exhausted."""
    whole = size + STORAGE_BYTES
    with f.when(whole < size):
        f.ret(None)
    found = f.variable(Nullable[Storage], None)
    bytes = f.variable(Word, (whole + (STORAGE_BYTES - 1)) & -STORAGE_BYTES)
    with f.when(whole >= MIN_CACHED_BYTES):
        bytes.set(round_to_size_class(f, whole))
        found.set(pop_cached_block(f, bytes.get()))
    with f.when(found.get().is_null()):
        found.set(allocate_block(f, bytes.get()).cast(Storage))
    made = found.get()
    with f.when(made.is_null()):
        f.ret(None)
    storage = f.exclusive_access(made.value, "a new block, or one that no list holds any more")
    initialize_storage(f, storage, bytes.get(), f.null(Event))
    usage = f.static(USAGE)
    used = usage.used.fetch_add(bytes.get(), RELAXED) + bytes.get()
    usage.peak.fetch_max(used, RELAXED)
    return storage.maybe()


@native
def borrow_host_memory(f: Function, event: Event) -> Nullable[Storage]:
    """The storage of borrowed host memory, with one owner: a header with the event that tells the host of its release;
    null if memory is exhausted."""
    made = f.allocate(Storage)
    with f.when(made.is_null()):
        f.ret(None)
    initialize_storage(f, made.value, f.constant(Word, 0), event.maybe())
    return made


@native
def borrow_storage(f: Function, lender: Storage) -> Nullable[Storage]:
    """A storage, with one owner, that borrows the elements of another one, for a buffer on another device. Takes over
    the ownership of the lender; null, with nothing taken over, if memory is exhausted.

    Launches of the other device are queued on another stream, so they must not count among the lender's queued owners:
    see `is_unique_owner`.
    """
    made = f.allocate(Storage)
    with f.when(made.is_null()):
        f.ret(None)
    initialize_storage(f, made.value, f.constant(Word, 0), f.null(Event))
    made.value.lender = lender.maybe()
    return made


@native
def initialize_storage(f: Function, storage: Storage, size: Word, event: Nullable[Event]) -> None:
    """Sets the fields of a new storage with one owner."""
    storage = f.exclusive_access(storage, "the caller has made it and shares it with nobody")
    storage.owners.store(1, RELAXED)
    storage.failed.store(None, RELAXED)
    storage.size = size
    storage.event = event
    storage.lender = None


# --- owners


@native
def retain(f: Function, storage: Storage) -> None:
    """Adds an owner. The caller owns the storage already, or holds a lock under which an owner cannot leave."""
    storage.owners.fetch_add(1, RELAXED)


@native
def mark_queued(f: Function, storage: Storage) -> None:
    """Notes that an owner is a launch that has not finished."""
    storage.owners.fetch_add(QUEUED, RELAXED)


@native
def release(f: Function, storage: Storage) -> None:
    """Gives up the ownership of a storage. The last owner caches or frees it."""
    with f.when(storage.owners.fetch_sub(1, ACQ_REL) == 1):
        dispose(f, storage)


@native
def release_queued(f: Function, storage: Storage) -> None:
    """Gives up the ownership of a launch that was queued."""
    with f.when(storage.owners.fetch_sub(QUEUED + 1, ACQ_REL) == QUEUED + 1):
        dispose(f, storage)


@native
def is_unique_owner(f: Function, storage: Storage, counts_queued: Bool) -> Bool:
    """Whether the caller is the only owner of device memory, and may overwrite the elements.

    counts_queued: false if launches that were queued before do not count, because they will have finished by then:
    those that own the storage itself are queued on the stream of its device.
    """
    owners = storage.owners.load(ACQUIRE)
    queued = f.select(counts_queued, f.constant(Word, 0), owners >> 32)
    is_own = storage.event.is_null() & storage.lender.is_null()
    return ((owners & (QUEUED - 1)) == queued + 1) & is_own


@native
def is_queued(f: Function, storage: Storage) -> Bool:
    """Whether a launch that has not finished owns the storage."""
    return (storage.owners.load(RELAXED) >> 32) != 0


@native
def dispose(f: Function, storage: Storage) -> None:
    """Caches or frees a storage that nobody owns."""
    failed = storage.failed.load(RELAXED)
    with f.when(failed.is_present()):
        release_event(f, failed.value)
    event = storage.event
    with f.when(event.is_present()):
        complete_event(f, event.value, f.null(Error))
        free(f, storage.as_memory())
        f.ret()
    lender = storage.lender
    with f.when(lender.is_present()):
        release(f, lender.value)
        free(f, storage.as_memory())
        f.ret()
    size = storage.size
    f.static(USAGE).used.fetch_sub(size, RELAXED)
    with f.when(~keep_block(f, storage, size)):
        free(f, storage.as_memory())


@native
def mark_failed(f: Function, storage: Storage, event: Event) -> None:
    """Remembers that a launch failed to write a storage. event: that of the launch, with its error. Only the first is
    kept."""
    retain_event(f, event)
    _, is_first = storage.failed.compare_exchange(None, event.maybe(), RELEASE, RELAXED)
    with f.when(~is_first):
        release_event(f, event)


@native
def failure(f: Function, storage: Storage) -> Nullable[Event]:
    """The event of the launch that failed to write a storage; null if none did. The caller owns the storage."""
    return storage.failed.load(ACQUIRE)


# --- the cache


@native
def keep_block(f: Function, storage: Storage, size: Word) -> Bool:
    """Adds a block that nobody owns to the cache; false if it is too small or too large for that."""
    cache = f.static(CACHE)
    limit = cache.limit.load(RELAXED)
    with f.when((size < MIN_CACHED_BYTES) | (size > limit)):
        f.ret(False)
    with f.when(cache.cached.load(RELAXED) + size > limit):
        trim(f)
    number = free_list_number(f, size)
    with f.locked(cache.lock):
        storage.next = cache.free_lists[number]
        cache.free_lists[number] = storage.maybe()
        cache.cached.fetch_add(size, RELAXED)
    return f.constant(Bool, True)


@native
def trim(f: Function) -> Word:
    """Frees cached blocks; returns their size in bytes."""
    cache = f.static(CACHE)
    blocks = f.variable(Nullable[Storage], None)
    with f.locked(cache.lock):
        bytes = cache.cached.exchange(0, RELAXED)
        with f.count(_FREE_LISTS) as one:
            first = cache.free_lists[one.index]
            cache.free_lists[one.index] = None
            blocks.set(append_blocks(f, first, blocks.get()))
    with f.loop() as loop:
        block = blocks.get()
        with f.when(block.is_null()):
            loop.leave()
        blocks.set(block.value.next)
        free(f, block.as_memory())
    return bytes


@native_holding(CACHE.guard("lock"))
def append_blocks(f: Function, first: Nullable[Storage], rest: Nullable[Storage]) -> Nullable[Storage]:
    """A list of blocks with another list at its end."""
    with f.when(first.is_null()):
        f.ret(rest)
    last = f.variable(Storage, first.value)
    with f.loop() as loop:
        following = last.get().next
        with f.when(following.is_null()):
            loop.leave()
        last.set(following.value)
    last.get().next = rest
    return first


@native
def set_cache_limit(f: Function, bytes: Word) -> None:
    """Sets how many bytes the cache keeps, at most."""
    f.static(CACHE).limit.store(bytes, RELAXED)


# --- figures


class Figure(Record):
    """A number that the caller reads."""

    value: Owned[Word]


@native
def memory_usage(f: Function, used: Figure, peak: Figure) -> None:
    """Stores the bytes in use and their maximum."""
    usage = f.static(USAGE)
    used.value = usage.used.load(RELAXED)
    peak.value = usage.peak.load(RELAXED)


@native
def reset_peak_memory(f: Function) -> None:
    """The maximum counts from now on."""
    usage = f.static(USAGE)
    usage.peak.store(usage.used.load(RELAXED), RELAXED)
