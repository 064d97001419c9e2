"""Unrolled kernels: their vectors are as wide as what they compute."""

from __future__ import annotations

import re

import numpy as np
import pytest

from xlapy.hlo.module import Module
from xlapy.runtime import Client
from xlapy.runtime.backends.cpu import CpuBackend
from xlapy.text import parse_hlo

WINDOWS = """HloModule windows
either {{ a = pred[] parameter(0)  b = pred[] parameter(1)  ROOT r = pred[] or(a, b) }}
ENTRY main {{
  x = pred[2,{0}] parameter(0)
  no = pred[] constant(false)
  ROOT r = pred[2,{0}] reduce-window(x, no), window={{size=3x1 pad=0_2x0_0}}, to_apply=either
}}"""


def vector_lanes(module: Module) -> list[int]:
    """The numbers of lanes of all vectors in a program's LLVM text."""
    return [int(lanes) for lanes in re.findall(r"<(\d+) x [if]\d+>", CpuBackend().compile_uncached(module).llvm)]


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_vectors_are_as_wide_as_the_last_elements(count: int):
    """LLVM has not ended on such a program with vectors of 64 lanes, of which all but two repeated others."""
    module = parse_hlo(WINDOWS.format(count))
    assert max(vector_lanes(module), default=0) <= 1 << (count - 1).bit_length()
    x = np.arange(2 * count).reshape(2, count) % 3 == 0
    np.testing.assert_array_equal(Client("cpu").compile(module)(x), [x.any(0), x[1]])


@pytest.mark.parametrize("op", ["divide", "remainder"])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 33])
def test_lanes_without_an_element_divide_by_something(op: str, count: int):
    text = f"""HloModule m
      add {{ a = s8[] parameter(0)  b = s8[] parameter(1)  ROOT r = s8[] add(a, b) }}
      ENTRY e {{
        x = s8[{count}] parameter(0)
        y = s8[{count}] parameter(1)
        zero = s8[] constant(0)
        z = s8[{count}] {op}(x, y)
        ROOT r = s8[] reduce(z, zero), dimensions={{0}}, to_apply=add
      }}"""
    x, y = (np.arange(count) % 11).astype(np.int8), (np.arange(count) % 3 + 1).astype(np.int8)
    expected = (x // y if op == "divide" else x % y).sum(dtype=np.int8)
    assert np.asarray(Client("cpu").compile(text)(x, y)) == expected


@pytest.mark.parametrize("repeats", [16, 32])
def test_quotients_that_are_equal_in_all_lanes(repeats: int):
    size = 4 * repeats
    state = f"(s32[], f32[4], f32[{size}])"
    text = f"""HloModule m
      body {{
        s = {state} parameter(0)
        i = s32[] get-tuple-element(s), index=0
        x = f32[4] get-tuple-element(s), index=1
        y = f32[{size}] get-tuple-element(s), index=2
        b = f32[4,{repeats}] broadcast(x), dimensions={{0}}
        r = f32[{size}] reshape(b)
        z = f32[{size}] add(r, y)
        one = s32[] constant(1)
        n = s32[] add(i, one)
        ROOT t = {state} tuple(n, x, z)
      }}
      less {{
        s = {state} parameter(0)
        i = s32[] get-tuple-element(s), index=0
        three = s32[] constant(3)
        ROOT c = pred[] compare(i, three), direction=LT
      }}
      ENTRY e {{
        x = f32[4] parameter(0)
        y = f32[{size}] parameter(1)
        zero = s32[] constant(0)
        s = {state} tuple(zero, x, y)
        w = {state} while(s), condition=less, body=body
        ROOT r = f32[{size}] get-tuple-element(w), index=2
      }}"""
    x, y = np.arange(4, dtype=np.float32), np.arange(size, dtype=np.float32)
    np.testing.assert_array_equal(np.asarray(Client("cpu").compile(text)(x, y)), 3 * np.repeat(x, repeats) + y)
