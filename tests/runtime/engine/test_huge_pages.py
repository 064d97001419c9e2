"""Large blocks of device memory ask the system for huge pages."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import xlapy as xla
from xlapy.runtime.engine.size_classes import HUGE_PAGE_BYTES

SMAPS = Path("/proc/self/smaps")


def flags_of_mapping(address: int) -> list[str]:
    """The flags of the mapping that contains an address."""
    is_inside = False
    for line in SMAPS.read_text().splitlines():
        if mapping := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            is_inside = int(mapping[1], 16) <= address < int(mapping[2], 16)
        elif is_inside and line.startswith("VmFlags:"):
            return line.split()[1:]
    raise AssertionError(hex(address))


@pytest.mark.skipif(not Path("/sys/kernel/mm/transparent_hugepage").exists(), reason="the system has no huge pages")
@pytest.mark.parametrize("size", [HUGE_PAGE_BYTES // 4, HUGE_PAGE_BYTES, HUGE_PAGE_BYTES * 5 // 2])
def test_blocks_of_at_least_a_huge_page_are_aligned_and_advised(size: int):
    client = xla.Client("cpu")
    value = np.arange(size, dtype=np.uint8)
    buffer = client.device_put(value)
    address = buffer.unsafe_buffer_pointer()
    np.testing.assert_array_equal(np.asarray(buffer), value)
    if size < HUGE_PAGE_BYTES:
        return
    assert address % HUGE_PAGE_BYTES < 4096
    assert "hg" in flags_of_mapping(address)
