"""Storages and the block cache: what is counted, and what is kept."""

from __future__ import annotations

from xlapy.native.checker.explore import explore
from xlapy.native.function import Function, Static, native
from xlapy.native.ir import RELAXED
from xlapy.native.locks import LockWord
from xlapy.native.records import Owned, Record
from xlapy.native.values import Address, Word
from xlapy.runtime.engine.core.buffers import destroy_buffer, new_buffer
from xlapy.runtime.engine.core.events import READY_EVENT
from xlapy.runtime.engine.core.memory import (
    CACHE,
    STORAGE_BYTES,
    Figure,
    allocate,
    memory_usage,
    release,
    reset_peak_memory,
    round_to_size_class,
    set_cache_limit,
    trim,
)
from xlapy.runtime.engine.size_classes import MIN_CACHED_BYTES

LARGE = MIN_CACHED_BYTES - STORAGE_BYTES
"""Bytes of the elements of the smallest block that is cached."""

FIGURES = Static("figures", Figure, 16)


def check_usage(f: Function, used: Word, peak: Word) -> None:
    first = f.static(FIGURES)
    second = first.offset(8).cast(Figure)
    memory_usage(f, first, second)
    f.check(first.value == used, "the bytes in use are counted")
    f.check(second.value == peak, "their maximum is kept")


def test_usage_and_its_maximum() -> None:
    @native
    def use(f: Function) -> None:
        zero, size = f.constant(Word, 0), f.constant(Word, LARGE)
        block = round_to_size_class(f, f.constant(Word, MIN_CACHED_BYTES))
        first = allocate(f, size).known("memory suffices")
        second = allocate(f, size).known("memory suffices")
        check_usage(f, block + block, block + block)
        release(f, first)
        check_usage(f, block, block + block)
        reset_peak_memory(f)
        check_usage(f, block, block)
        release(f, second)
        check_usage(f, zero, block)

    assert explore(None, [use]).ends == 1


def cached(f: Function) -> Word:
    return f.static(CACHE).cached.load(RELAXED)


def test_the_cache_counts_its_blocks_and_keeps_to_its_limit() -> None:
    @native
    def use(f: Function) -> None:
        size, block = f.constant(Word, LARGE), round_to_size_class(f, f.constant(Word, MIN_CACHED_BYTES))
        set_cache_limit(f, block)
        first = allocate(f, size).known("memory suffices")
        second = allocate(f, size).known("memory suffices")
        release(f, first)
        f.check(cached(f) == block, "a block is kept")
        release(f, second)
        f.check(cached(f) == block, "the cache has room for one block")
        third = allocate(f, size).known("memory suffices")
        f.check(cached(f) == 0, "the block that is used again is not counted")
        release(f, third)
        f.check(trim(f) == block, "the block is freed")
        f.check(cached(f) == 0, "no block is left")

    assert explore(None, [use]).ends == 1


class Dimension(Record):
    """A dimension of a shape."""

    size: Owned[Word]


DIMENSIONS = Static("dimensions", Dimension, 16)


def test_a_new_buffer() -> None:
    """It has its dimensions, and its lock is free."""

    @native
    def make_and_destroy(f: Function) -> None:
        none, dims = f.null(Address), f.static(DIMENSIONS)
        dims.size = 3
        dims.offset(8).cast(Dimension).size = 4
        storage = allocate(f, f.constant(Word, 96)).known("memory suffices")
        number, rank, bytes = f.constant(Word, 1), f.constant(Word, 2), f.constant(Word, 96)
        address, event = storage.offset(STORAGE_BYTES), f.static(READY_EVENT)
        made = new_buffer(f, number, dims.offset(0).maybe(), rank, bytes, none, none, none, storage, address, event)
        buffer = made.known("memory suffices")
        first = buffer.dims.cast(Dimension)
        f.check((first.size == 3) & (first.offset(8).cast(Dimension).size == 4), "the buffer has its dimensions")
        f.check(buffer.lock.address.cast(LockWord).state.load(RELAXED) == 0, "the lock is free")
        destroy_buffer(f, buffer)

    assert explore(None, [make_and_destroy]).ends == 1
