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


def round_up(size: int) -> int:
    """The size class of a block, in bytes: the smallest class that is at least `size`."""
    step = 1 << max(MIN_STEP_BITS, size.bit_length() - 1 - CLASS_BITS)
    return -(-size // step) * step
