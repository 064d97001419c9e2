"""Arrays that a loop only reads: what follows the loop updates them in place, as if the loop were not there."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.results import leaves
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program.thunks import CopyThunk, WhileThunk, walk_thunks

PROGRAM = """HloModule m
below { s = (s32[], f32[], f32[777]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(3)
  ROOT r = pred[] compare(i, n), direction=LT }
inner { s = (s32[], f32[], f32[777]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  f = f32[] get-tuple-element(s), index=1  a = f32[777] get-tuple-element(s), index=2  one = s32[] constant(1)
  j = s32[] add(i, one)  d = f32[1] dynamic-slice(a, i), dynamic_slice_sizes={1}  e = f32[] reshape(d)
  g = f32[] subtract(e, f)  ROOT r = (s32[], f32[], f32[777]) tuple(j, g, a) }
outer_below { s = (s32[], f32[777], f32[777]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(20)  ROOT r = pred[] compare(i, n), direction=LT }
outer { s = (s32[], f32[777], f32[777]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  a = f32[777] get-tuple-element(s), index=1  b = f32[777] get-tuple-element(s), index=2  one = s32[] constant(1)
  j = s32[] add(i, one)  zero = s32[] constant(0)  f = f32[] convert(i)  t = (s32[], f32[], f32[777]) tuple(zero, f, a)
  w = (s32[], f32[], f32[777]) while(t), condition=below, body=inner  g = f32[] get-tuple-element(w), index=1
  x = f32[777] get-tuple-element(w), index=2  u = f32[1] reshape(g)  c = f32[777] dynamic-update-slice(SOURCE, u, i)
  ROOT r = (s32[], f32[777], f32[777]) tuple(j, c, OTHER) }
ENTRY main { x = f32[777] parameter(0)  y = f32[777] parameter(1)  zero = s32[] constant(0)
  t = (s32[], f32[777], f32[777]) tuple(zero, x, y)
  ROOT w = (s32[], f32[777], f32[777]) while(t), condition=outer_below, body=outer }"""


def copied_in_loops(text: str) -> int:
    thunks = compile_module(xla.parse_hlo(text)).program.thunks
    loops = [thunk for thunk in walk_thunks(thunks) if isinstance(thunk, WhileThunk)]
    inner = {thunk for loop in loops for thunk in walk_thunks(loop.body)}
    return sum(thunk.source.size for thunk in inner if isinstance(thunk, CopyThunk) and thunk.source.size == 4 * 777)


@pytest.mark.parametrize(
    ("source", "other", "copies"),
    [("a", "b", 0), ("x", "b", 0), ("a", "x", 2), ("x", "a", 2)],
    ids=["the array", "what the loop returns", "the loop returns the old one", "the old one is returned"],
)
def test_an_array_that_an_inner_loop_reads_is_updated_in_place(source: str, other: str, copies: int):
    text = PROGRAM.replace("SOURCE", source).replace("OTHER", other)
    generator = np.random.default_rng(0)
    arguments = [generator.standard_normal(777).astype(np.float32) for _ in range(2)]
    expected = xla.Client("interpreter").compile(text)(*arguments)
    found = xla.Client("cpu").compile(text)(*arguments)
    for left, right in zip(leaves(found), leaves(expected), strict=True):
        np.testing.assert_array_equal(left, right)
    assert (copied_in_loops(text) > 0) == (copies > 0)
