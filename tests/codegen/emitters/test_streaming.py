"""Large results are stored past the caches where every vector is a whole cache line, except over operands."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import xlapy as xla
from xlapy.codegen.emitters.streaming import store_past_caches
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program import builder
from xlapy.cpu.target import host_target
from xlapy.loops import F32, Buffer

LARGE = 1 << 22
"""The elements of an f32 array of 16 MiB."""


@pytest.fixture(autouse=True)
def avx512(monkeypatch: pytest.MonkeyPatch) -> None:
    target = host_target()
    if target.vector_bytes != 64:
        pytest.skip("vectors of this machine are not cache lines")
    small = dataclasses.replace(target, l3_bytes=1 << 25)
    monkeypatch.setattr(builder, "host_target", lambda: small)


def module(body: str) -> xla.Module:
    return xla.parse_hlo(f"HloModule m\nENTRY e {{ {body} }}")


def add(size: int, t: str = "f32") -> xla.Module:
    return module(f"x = {t}[{size}] parameter(0)\n y = {t}[{size}] parameter(1)\n ROOT r = {t}[{size}] subtract(x, y)")


def stores_past_caches(given: xla.Module, donated: tuple[int, ...] = ()) -> bool:
    return "!nontemporal" in compile_module(given, donated).llvm


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (add(LARGE), True),
        (add(LARGE + 5), True),
        (add(LARGE - 1), False),
        (add(2 * LARGE, "bf16"), True),
        (module(f"x = f32[{2 * LARGE}] parameter(0)\n ROOT r = bf16[{2 * LARGE}] convert(x)"), False),  # half lines
        (add(LARGE, "s32"), True),
        (add(LARGE // 2, "c64"), False),
        (
            module(f"x = f32[1024] parameter(0)\n ROOT r = f32[{LARGE // 1024},1024] broadcast(x), dimensions={{1}}"),
            True,
        ),
        (module("x = f32[1000] parameter(0)\n ROOT r = f32[5000,1000] broadcast(x), dimensions={1}"), False),
        (
            module(
                f"x = f32[{LARGE // 32},16] parameter(0)\n y = f32[{LARGE // 32},16] parameter(1)\n"
                f" ROOT r = f32[{LARGE // 16},16] concatenate(x, y), dimensions={{0}}"
            ),
            True,
        ),
        (
            module(
                f"x = f32[{LARGE - 3}] parameter(0)\n y = f32[{LARGE}] parameter(1)\n"
                f" ROOT r = f32[{2 * LARGE - 3}] concatenate(x, y), dimensions={{0}}"
            ),
            True,  # the first operand only
        ),
    ],
)
def test_which_results(given: xla.Module, expected: bool) -> None:
    assert stores_past_caches(given) == expected


def test_a_result_over_an_operand_is_not() -> None:
    assert not stores_past_caches(add(LARGE), (0,))


def test_vectors_begin_at_lines() -> None:
    target = dataclasses.replace(host_target(), l3_bytes=1 << 25)
    for pitch, lanes, expected in ((32, 16, True), (24, 16, False), (32, 8, False)):
        buffer = Buffer("out", F32, LARGE, written=True)
        shape = xla.Shape.parse(f"f32[{LARGE}]")
        store_past_caches(target, [(buffer, shape)], lanes, [pitch])
        assert buffer.nontemporal == expected


def test_results() -> None:
    """Vectors, and a last one that is not full."""
    x, y = (np.random.default_rng(n).standard_normal(LARGE + 5).astype(np.float32) for n in range(2))
    found = xla.Client("cpu").compile(add(LARGE + 5))(x, y)
    np.testing.assert_array_equal(np.asarray(found), x - y)


def test_at_most_64_mebibytes_stay_in_caches() -> None:
    for l3_bytes, smallest in ((1 << 25, 1 << 24), (300 << 20, 1 << 26)):
        assert dataclasses.replace(host_target(), l3_bytes=l3_bytes).streamed_bytes == smallest
