"""Memory of results: reused as soon as it is unreferenced, never sooner, and limited in size."""

from __future__ import annotations

import gc
import time

import numpy as np
import pytest

from tests.threads import run_in_threads
from xlapy.runtime.engine.allocator import ALIGNMENT, Allocator

MB = 1 << 20


def address(block: np.ndarray) -> int:
    return block.__array_interface__["data"][0]


@pytest.mark.parametrize("size", [0, 1, 100, 1 << 16, 3 * MB + 5])
def test_blocks_have_the_requested_size_and_alignment(size):
    block = Allocator(16 * MB).allocate(size)
    assert block.nbytes == size
    assert not size or address(block) % ALIGNMENT == 0


def test_unreferenced_memory_is_reused():
    allocator = Allocator(16 * MB)
    block = allocator.allocate(MB)
    place = address(block)
    del block
    assert address(allocator.allocate(MB - 7)) == place
    assert allocator.cached_bytes == MB


def test_memory_with_a_view_is_not_reused():
    allocator = Allocator(16 * MB)
    view = allocator.allocate(MB).view(np.float32)[5:].reshape(-1, 1)[::2]
    gc.collect()
    assert address(allocator.allocate(MB)) != address(view) - 20
    view[...] = 1
    other = allocator.allocate(MB)
    other[:] = 255
    assert (view == 1).all()


def test_the_cache_is_limited():
    allocator = Allocator(4 * MB)
    held = [allocator.allocate(MB) for _ in range(8)]
    assert len({address(block) for block in held}) == 8
    assert allocator.cached_bytes <= 4 * MB


def test_least_recently_used_sizes_are_dropped_first():
    allocator = Allocator(4 * MB)
    for size in (MB, 2 * MB, 3 * MB):
        allocator.allocate(size)
    assert allocator.cached_bytes <= 4 * MB
    block = allocator.allocate(3 * MB)
    assert block.nbytes == 3 * MB


def test_trim_frees_unused_blocks():
    allocator = Allocator(16 * MB)
    held = allocator.allocate(2 * MB)
    allocator.allocate(MB)
    assert allocator.trim() == MB
    assert allocator.cached_bytes == 2 * MB
    held[:] = 7
    assert (held == 7).all()


def test_threads_never_share_a_block():
    """Catches a block that two threads hold at once: each fills its blocks, lets the others run, and reads them."""
    allocator = Allocator(64 * MB)

    def work(number: int) -> int:
        kept = 0
        for _ in range(100):
            blocks = [allocator.allocate(1 << 17) for _ in range(3)]
            for block in blocks:
                block[:] = number
            time.sleep(0)
            kept += all((block == number).all() for block in blocks)
        return kept

    assert run_in_threads(6, work) == [100] * 6
