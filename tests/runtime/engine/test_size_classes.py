"""Size classes of cached blocks, and that native code rounds as Python does."""

from __future__ import annotations

import pytest

from xlapy.runtime.engine.size_classes import MIN_CACHED_BYTES, round_up


@pytest.mark.parametrize(
    ("size", "rounded"),
    [(MIN_CACHED_BYTES, MIN_CACHED_BYTES), (65_537, 73_728), (1_000_000, 1_048_576), (1 << 20, 1 << 20)],
)
def test_sizes_are_rounded_up(size: int, rounded: int):
    assert round_up(size) == rounded
    assert rounded - size <= size // 8
