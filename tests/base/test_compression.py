"""Compressed data expands to its original, and to at most a fixed multiple of its size."""

from __future__ import annotations

import random
import zlib

import pytest

from tests.raising import raises
from xlapy.base.container import MAX_RATIO, compress, expand
from xlapy.base.error_codes.interfaces import files as codes
from xlapy.base.errors import InvalidArgumentError


@pytest.mark.parametrize("data", [b"", b"abc", bytes(10_000_000), random.Random(0).randbytes(300_000)], ids=len)
def test_round_trip(data: bytes):
    assert expand(compress(data), "data") == data
    assert expand(memoryview(compress(data)), "data") == data


def test_text_is_compressed():
    text = "".join(f"  n{i} = f32[{i}] negate(p{i * i})\n" for i in range(10_000)).encode()
    assert len(compress(text)) < len(text) / 3


def test_data_that_compresses_too_well_is_stored():
    assert len(compress(bytes(10_000_000))) > 10_000_000


def test_bombs_are_refused():
    bomb = zlib.compress(bytes(50_000_000))
    with raises(InvalidArgumentError, codes.STORED_RATIO, "the module", f"{len(bomb)} bytes", f"{MAX_RATIO} times"):
        expand(bomb, "the module")


@pytest.mark.parametrize("change", [lambda d: d[:-1], lambda d: d + b"x", lambda d: b"x" + d, lambda d: b""])
def test_damage(change):
    with raises(InvalidArgumentError, codes.STORED_DAMAGE, "the module"):
        expand(change(compress(b"abc" * 1000)), "the module")
