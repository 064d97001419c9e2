"""Small arrays of which loops update single elements and read the whole: they stay in a vector register."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.cpu.results import leaves
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program.thunks import OutlinedThunk, walk_thunks
from xlapy.testing.random_arguments import random_arguments


def ring(t: str, size: int, combine: str = "maximum") -> str:
    """Puts x[i] at (5 i - 7) clamped to the buffer, and combines the whole buffer with the state in each iteration."""
    state = f"(s32[], {t}[{size}], {t}[{size}], {t}[1])"
    return f"""HloModule m
below {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(7)
  ROOT r = pred[] compare(i, n), direction=LT }}
step {{ s = {state} parameter(0)  i = s32[] get-tuple-element(s), index=0  b = {t}[{size}] get-tuple-element(s), index=1
  a = {t}[{size}] get-tuple-element(s), index=2  l = {t}[1] get-tuple-element(s), index=3
  one = s32[] constant(1)  j = s32[] add(i, one)  five = s32[] constant(5)
  f = s32[] multiply(i, five)  seven = s32[] constant(7)  k = s32[] subtract(f, seven)  size = s32[] constant({size})
  q = s32[] remainder(k, size)  m = {t}[1] dynamic-slice(b, q), dynamic_slice_sizes={{1}}
  h = {t}[1] dynamic-slice(a, i), dynamic_slice_sizes={{1}}  u = {t}[1] {combine}(h, l)
  c = {t}[{size}] dynamic-update-slice(b, u, q)  d = {t}[{size}] {combine}(c, a)
  ROOT r = {state} tuple(j, c, d, m) }}
ENTRY main {{ x = {t}[{size}] parameter(0)  y = {t}[{size}] parameter(1)  z = {t}[1] parameter(2)
  zero = s32[] constant(0)  t = {state} tuple(zero, x, y, z)
  ROOT w = {state} while(t), condition=below, body=step }}"""


def vectors_of(text: str) -> int:
    thunks = compile_module(xla.parse_hlo(text, verify=True)).program.thunks
    return sum(len(thunk.vectors) for thunk in walk_thunks(thunks) if isinstance(thunk, OutlinedThunk))


def check(text: str) -> None:
    module = xla.parse_hlo(text, verify=True)
    arguments = random_arguments(module.entry_computation.program_shape.parameters, 5)
    expected = leaves(xla.Client("interpreter").compile(module)(*arguments))
    for left, right in zip(leaves(xla.Client("cpu").compile(module)(*arguments)), expected, strict=True):
        np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("size", [2, 3, 7, 8, 16])
def test_an_updated_array_is_one_vector(size: int):
    assert vectors_of(ring("f32", size)) == 1
    check(ring("f32", size))


@pytest.mark.parametrize(
    ("t", "size"), [("f64", 8), ("s8", 13), ("s8", 64), ("pred", 9), ("bf16", 5), ("f16", 32), ("s64", 3), ("u32", 6)]
)
def test_every_element_type(t: str, size: int):
    text = ring(t, size, "or" if t == "pred" else "maximum")
    assert vectors_of(text) == 1
    check(text)


def test_a_larger_array_stays_in_memory():
    assert vectors_of(ring("f64", 9)) == 0
    check(ring("f64", 9))


def test_an_array_that_is_read_by_elements_only_stays_in_memory():
    text = ring("f32", 16).replace("d = f32[16] maximum(c, a)", "d = f32[16] negate(a)")
    assert vectors_of(text) == 0
    check(text)


def test_accesses_may_be_checked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("XLAPY_FLAGS", "--check_bounds")
    check(ring("f32", 7))
