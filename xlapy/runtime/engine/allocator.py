"""Cached memory for results: blocks that no result uses any more serve later runs.

A block is free when the cache holds the only reference to it. Views of a block (results, and arrays that users derive
from them) reference the block.

Responsible for the cache and its size limit. Does not depend on what the memory is used for. See `size_classes` for why
blocks are cached.
"""

from __future__ import annotations

import ctypes
import sys
from collections import OrderedDict
from typing import Any

import numpy as np

from xlapy.base import flags
from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.runtime.engine.size_classes import MIN_CACHED_BYTES, round_up

ALIGNMENT = 64

Block = np.ndarray[Any, np.dtype[np.uint8]]


class Allocator:
    """Blocks by size class. At most `limit` bytes are cached; the size classes used least recently are dropped
    first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._blocks: OrderedDict[int, list[Block]] = OrderedDict()
        self._cached = 0
        self._lock = fork_safe_lock()

    def allocate(self, size: int) -> Block:
        """Returns at least `size` aligned bytes with arbitrary contents."""
        if size < MIN_CACHED_BYTES:
            return _new(size)
        rounded = round_up(size)
        with self._lock:
            block = self._find_free(rounded)
            return _aligned(self._allocate_block(rounded) if block is None else block, size)

    def take_cached(self, size: int) -> Block | None:
        """Like `allocate`, but returns a cached free block only; None if there is none."""
        with self._lock:
            block = self._find_free(round_up(size))
            return None if block is None else _aligned(block, size)

    def trim(self) -> int:
        """Returns free blocks to the system; returns their size in bytes."""
        with self._lock:
            return self._drop(0)

    @property
    def cached_bytes(self) -> int:
        """Bytes of all cached blocks, in use or free."""
        return self._cached

    def _find_free(self, rounded: int) -> Block | None:
        blocks = self._blocks.get(rounded)
        if not blocks:
            return None
        self._blocks.move_to_end(rounded)
        for index in range(len(blocks)):
            if _is_free(blocks, index):
                return blocks[index]
        return None

    def _allocate_block(self, rounded: int) -> Block:
        if self._cached + rounded > self._limit:
            self._drop(max(0, self._limit - rounded))
        block = np.empty(rounded + ALIGNMENT, np.uint8)
        if self._cached + rounded <= self._limit:
            self._blocks.setdefault(rounded, []).append(block)
            self._blocks.move_to_end(rounded)
            self._cached += rounded
        return block

    def _drop(self, limit: int) -> int:
        """Drops free blocks, least recently used size classes first, until at most `limit` bytes are cached; returns
        the bytes dropped."""
        before = self._cached
        for size, blocks in self._blocks.items():
            for index in reversed(range(len(blocks))):
                if self._cached > limit and _is_free(blocks, index):
                    del blocks[index]
                    self._cached -= size
        return before - self._cached


def _new(size: int) -> Block:
    return _aligned(np.empty(size + ALIGNMENT, np.uint8), size)


def _aligned(block: Block, size: int) -> Block:
    start = -ctypes.addressof(ctypes.c_char.from_buffer(block.data)) % ALIGNMENT
    return block[start : start + size]


def allocate_ctypes(size: int) -> Any:
    """Allocates memory for a result, as a `ctypes` array."""
    return as_ctypes(result_allocator().allocate(max(1, size)))


def as_ctypes(block: Block) -> Any:
    """Returns a block as a `ctypes` array, whose address is cheap to read. The array, and views of it, reference the
    block."""
    return (ctypes.c_char * block.nbytes).from_buffer(block.data)


def _is_free(blocks: list[Block], index: int) -> bool:
    """Whether the list holds the only reference to a block. The call to `getrefcount` holds a second one."""
    return sys.getrefcount(blocks[index]) == 2


@SingleFlight
def result_allocator() -> Allocator:
    """The allocator for the results of all programs in this process, limited by the flag `cache_limit`."""
    return Allocator(int(flags.get("cache_limit")) << 20)
