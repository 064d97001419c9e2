"""Size classes of cached memory blocks, shared by the allocator of results and by the native allocator of PJRT.

New memory costs a page fault for every 4 KiB that is written, several times the computation itself for large arrays,
so freed blocks are cached by size class. There are eight classes per power of two: a block is at most an eighth larger
than requested. Example: 1,000,000 bytes are rounded up to 1,048,576, in steps of 65,536.
"""

from __future__ import annotations

from typing import Final

MIN_CACHED_BYTES: Final = 1 << 16
"""Smaller blocks are not cached, because the C library's own cache serves them as well."""

CLASS_BITS: Final = 3
"""Base-2 logarithm of the number of size classes per power of two."""

MIN_STEP_BITS: Final = 12
"""Base-2 logarithm of the smallest distance between size classes: 4 KiB, a page."""

HUGE_PAGE_BYTES: Final = 1 << 21
"""The size of a huge page of Linux on x86-64, and on AArch64 with pages of 4 KiB. Blocks of at least that size are
aligned to it and ask for huge pages: each miss of the translation cache walks page tables of the guest and of the host
in a virtual machine. Two threads read 64 MB at 60 GB/s with huge pages, at 34 GB/s without (a loop over
`roofline_kernels` on a Zen 4 guest)."""


def round_up(size: int) -> int:
    """The size class of a block, in bytes: the smallest class that is at least `size`."""
    step = 1 << max(MIN_STEP_BITS, size.bit_length() - 1 - CLASS_BITS)
    return -(-size // step) * step
