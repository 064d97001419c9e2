"""Memory for results, used again: what a program returned and nobody holds any more serves the next run.

New memory costs a page fault for every 4 KiB that is written, several times the computation itself for large arrays. A
block is free when the cache holds the only reference to it; views of a block (results, and whatever users make of them)
refer to it.

Owns: the cache and its bound. Must not know: what the memory is for.
"""

from __future__ import annotations

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
            blocks = self._blocks.setdefault(rounded, [])
            self._blocks.move_to_end(rounded)
            for place in range(len(blocks)):
                if _is_free(blocks, place):
                    return _aligned(blocks[place], size)
            return self._more(rounded, blocks, size)

    def trim(self) -> int:
        """Gives free blocks back to the system; how many bytes that were."""
        with self._lock:
            return self._drop(0)

    @property
    def kept_bytes(self) -> int:
        """Bytes of all blocks, in use or free."""
        return self._kept

    def _more(self, rounded: int, blocks: list[Block], size: int) -> Block:
        if self._kept + rounded > self._limit:
            self._drop(max(0, self._limit - rounded))
        block = np.empty(rounded + ALIGNMENT, np.uint8)
        if self._kept + rounded <= self._limit:
            blocks.append(block)
            self._kept += rounded
        return _aligned(block, size)

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
    start = -block.__array_interface__["data"][0] % ALIGNMENT
    return block[start : start + size]


def _is_free(blocks: list[Block], place: int) -> bool:
    """Whether the list holds the only reference: the call has a second one."""
    return sys.getrefcount(blocks[place]) == 2


@functools.cache
def results() -> Allocator:
    """The memory of all programs' results in this process, bounded by the flag `cache_limit`."""
    return Allocator(int(flags.get("cache_limit")) << 20)
