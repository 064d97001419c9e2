"""Memory for results, used again: what a program returned and nobody holds any more serves the next run.

New memory costs a page fault for every 4 KiB that is written, several times the computation itself for large arrays. A
block is free when the cache holds the only reference to it; views of a block (results, and whatever users make of them)
refer to it.

Owns: the cache and its bound. Must not know: what the memory is for.
"""

from __future__ import annotations

import ctypes
import functools
import sys
import threading
from collections import OrderedDict
from typing import Any

import numpy as np

from xlapy.base import flags

ALIGNMENT = 64
_LEAST = 1 << 16
"""Bytes below which the C library's own cache serves as well."""

Block = np.ndarray[Any, np.dtype[np.uint8]]


class Allocator:
    """Blocks by size; at most `limit` bytes are kept, those used longest ago go first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._blocks: OrderedDict[int, list[Block]] = OrderedDict()
        self._kept = 0
        self._lock = threading.Lock()

    def allocate(self, size: int) -> Block:
        """At least `size` bytes, aligned; their contents are arbitrary."""
        if size < _LEAST:
            return _new(size)
        rounded = _rounded(size)
        with self._lock:
            found = self._free(rounded)
            return _aligned(self._more(rounded) if found is None else found, size)

    def take_cached(self, size: int) -> Block | None:
        """As `allocate`, of what is kept and free; None if there is no such block."""
        with self._lock:
            found = self._free(_rounded(size))
            return None if found is None else _aligned(found, size)

    def trim(self) -> int:
        """Gives free blocks back to the system; how many bytes that were."""
        with self._lock:
            return self._drop(0)

    @property
    def cached_bytes(self) -> int:
        """Bytes of all blocks, in use or free."""
        return self._kept

    def _free(self, rounded: int) -> Block | None:
        blocks = self._blocks.get(rounded)
        if not blocks:
            return None
        self._blocks.move_to_end(rounded)
        for place in range(len(blocks)):
            if _is_free(blocks, place):
                return blocks[place]
        return None

    def _more(self, rounded: int) -> Block:
        if self._kept + rounded > self._limit:
            self._drop(max(0, self._limit - rounded))
        block = np.empty(rounded + ALIGNMENT, np.uint8)
        if self._kept + rounded <= self._limit:
            self._blocks.setdefault(rounded, []).append(block)
            self._blocks.move_to_end(rounded)
            self._kept += rounded
        return block

    def _drop(self, limit: int) -> int:
        """Forgets blocks, of the sizes asked for longest ago first, until at most `limit` bytes are kept."""
        before = self._kept
        for size, blocks in self._blocks.items():
            for place in reversed(range(len(blocks))):
                if self._kept > limit and _is_free(blocks, place):
                    del blocks[place]
                    self._kept -= size
        return before - self._kept


def _rounded(size: int) -> int:
    """Eight sizes between powers of two: a block is at most an eighth larger than asked for."""
    step = 1 << max(12, size.bit_length() - 4)
    return -(-size // step) * step


def _new(size: int) -> Block:
    return _aligned(np.empty(size + ALIGNMENT, np.uint8), size)


def _aligned(block: Block, size: int) -> Block:
    start = -ctypes.addressof(ctypes.c_char.from_buffer(block.data)) % ALIGNMENT
    return block[start : start + size]


def allocate_ctypes(size: int) -> Any:
    """Memory for a result, as `as_ctypes` gives it."""
    return as_ctypes(result_allocator().allocate(max(1, size)))


def as_ctypes(block: Block) -> Any:
    """A block as a `ctypes` array, which tells its address quickly; it, and views of it, refer to the block."""
    return (ctypes.c_char * block.nbytes).from_buffer(block.data)


def _is_free(blocks: list[Block], place: int) -> bool:
    """Whether the list holds the only reference: the call has a second one."""
    return sys.getrefcount(blocks[place]) == 2


@functools.cache
def result_allocator() -> Allocator:
    """The memory of all programs' results in this process, bounded by the flag `cache_limit`."""
    return Allocator(int(flags.get("cache_limit")) << 20)
