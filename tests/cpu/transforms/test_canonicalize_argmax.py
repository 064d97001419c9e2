"""Argmax and argmin: where indices ascend, the reducer is replaced by one that is independent of order, with the same
result.
"""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.hlo.test_selections import NAN_ARGMAX
from xlapy.cpu.transforms.canonicalize_argmax import CanonicalizeArgmax
from xlapy.hlo.verify import verify

NAN = float("nan")


def module(t: str, sizes: str, result: str, dimension: int, start: int = 0, counted: int | None = None) -> xla.Module:
    counted = dimension if counted is None else counted
    dims = f"[{sizes}]"
    length = sizes.split(",")[counted]
    text = f"""HloModule m
    f {{ v = T[] parameter(0)
      i = s32[] parameter(1)
      w = T[] parameter(2)
      j = s32[] parameter(3)
      {NAN_ARGMAX.replace("f32", "T")}
      ROOT r = (T[], s32[]) tuple(value, index) }}
    ENTRY e {{ a = T{dims} parameter(0)
      row = s32[{length}] iota(), iota_dimension=0
      b = s32{dims} broadcast(row), dimensions={{{counted}}}
      c = T[] constant({"-inf" if "f" in t else "0"})
      d = s32[] constant({start})
      ROOT r = (T[{result}], s32[{result}]) reduce(a, b, c, d), dimensions={{{dimension}}}, to_apply=f }}"""
    return xla.parse_hlo(text.replace("T[", f"{t}["))


def test_the_computation_compares_the_indices_first():
    given = module("f32", "64,100", "64", 1)
    assert CanonicalizeArgmax().run(given)
    verify(given)
    assert not CanonicalizeArgmax().run(given)


@pytest.mark.parametrize(
    "given",
    [
        module("s32", "64,100", "64", 1),  # already independent of order
        module("f32", "64,100", "64", 1, start=7),  # the initial index is larger than others
        module("f32", "64,100", "64", 1, counted=0),  # the same index for a whole row
    ],
)
def test_other_reductions_are_unchanged(given: xla.Module):
    before = given.to_text()
    assert not CanonicalizeArgmax().run(given)
    assert given.to_text() == before


@pytest.mark.parametrize("t", ["f32", "f64", "bf16", "f16", "s8", "u32"])
@pytest.mark.parametrize(
    ("sizes", "result", "dimension"),
    [
        ("9,1000", "9", 1), ("3,7", "3", 1), ("700,40", "40", 0), ("6,50,33", "6,33", 1), ("140000", "", 0),
        ("4096,40", "40", 0),
    ],
)  # fmt: skip
def test_ties_and_nan_as_on_the_interpreter(t: str, sizes: str, result: str, dimension: int):
    given = module(t, sizes, result, dimension)
    parameter = given.entry_computation.parameters[0].shape
    rng = np.random.default_rng(1)
    x = rng.integers(0, 6, parameter.dimensions).astype(parameter.dtype)
    if t in ("f32", "f64", "bf16", "f16"):
        x[rng.random(x.shape) < 0.001] = NAN
        x[..., -3:] = NAN if x.ndim == 1 else x[..., -3:]
        x[x == 0] = -x[x == 0]
    ours = xla.Client("cpu").compile(given)(x)
    theirs = xla.Client("interpreter").compile(given)(x)
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_array_equal(np.asarray(mine).astype(np.float64), np.asarray(other).astype(np.float64))


def test_values_that_are_all_the_initial_one_have_its_index():
    given = module("f32", "1000", "", 0)
    _, index = xla.Client("cpu").compile(given)(np.full(1000, -np.inf, np.float32))
    assert int(index) == 0
