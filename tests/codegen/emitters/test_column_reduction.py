"""Column reductions: which of them get a kernel of their own, and their results."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import compile_module

CPU = xla.Client("cpu")
RNG = np.random.default_rng(5)


def columns(t: str, sizes: str, result: str, dimensions: str, body: str = "add(a, b)", init: str = "3") -> str:
    return f"""HloModule m
f {{ a = {t}[] parameter(0)  b = {t}[] parameter(1)  ROOT r = {t}[] {body} }}
ENTRY e {{ x = {t}[{sizes}] parameter(0)  init = {t}[] constant({init})
  ROOT r = {t}[{result}] reduce(x, init), dimensions={{{dimensions}}}, to_apply=f }}"""


def has_column_kernel(text: str) -> bool:
    return "scratch partial0" in compile_module(xla.parse_hlo(text)).loops()


@pytest.mark.parametrize(
    ("sizes", "result", "dimensions"),
    [
        ((40, 70), "70", "0"),
        ((37, 1000), "1000", "0"),
        ((3, 50, 600), "3,600", "1"),
        ((5, 7, 2, 40, 3), "40,3", "0,1,2"),
        ((2, 33, 8, 16), "2,8,16", "1"),
    ],
    ids=str,
)
@pytest.mark.parametrize(("t", "dtype"), [("f32", np.float32), ("f64", np.float64), ("s32", np.int32)])
def test_sums(t, dtype, sizes, result, dimensions):
    """Sums integers, whose sums are the same in any order."""
    text = columns(t, ",".join(map(str, sizes)), result, dimensions)
    assert has_column_kernel(text)
    x = RNG.integers(-9, 9, sizes).astype(dtype)
    axes = tuple(map(int, dimensions.split(",")))
    np.testing.assert_array_equal(np.asarray(CPU.compile(text)(x)), 3 + x.sum(axes).astype(dtype))


@pytest.mark.parametrize(
    ("body", "init", "expected"),
    [
        ("maximum(a, b)", "-inf", lambda x: x.max(0)),
        ("minimum(b, a)", "2", lambda x: np.minimum(2, x.min(0))),
        ("multiply(a, b)", "1", lambda x: x.prod(0)),
    ],
)
def test_other_reducers(body, init, expected):
    text = columns("f32", "41,130", "130", "0", body, init)
    assert has_column_kernel(text)
    x = RNG.uniform(0.5, 1.5, (41, 130)).astype(np.float32)
    x[3, 7] = np.nan
    np.testing.assert_allclose(np.asarray(CPU.compile(text)(x)), expected(x), rtol=1e-5)


@pytest.mark.parametrize(
    "text",
    [
        columns("f32", "40,8", "8", "0"),  # few columns
        columns("f32", "16,500", "500", "0"),  # few rows
        columns("f32", "500,40", "500", "1"),  # rows
        columns("f32", "40,500", "500", "0", "subtract(a, b)"),  # the order matters
        columns("f32", "8,9,8,70", "9,70", "0,2"),  # the reduced dimensions are not adjacent
    ],
)
def test_other_reductions_use_the_loop_emitter(text):
    assert not has_column_kernel(text)


def test_several_reductions_with_their_producers_and_consumers():
    """The mean and the variance of features are one kernel, which loads each element once."""
    text = """HloModule m
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
ENTRY e { x = f32[10,20,80] parameter(0)  zero = f32[] constant(0)  n = f32[] constant(200)
  s = f32[80] reduce(x, zero), dimensions={0,1}, to_apply=add
  y = f32[10,20,80] multiply(x, x)
  q = f32[80] reduce(y, zero), dimensions={0,1}, to_apply=add
  c = f32[80] broadcast(n), dimensions={}
  m = f32[80] divide(s, c)  w = f32[80] divide(q, c)  mm = f32[80] multiply(m, m)  v = f32[80] subtract(w, mm)
  ROOT r = (f32[80], f32[80]) tuple(m, v) }"""
    assert compile_module(xla.parse_hlo(text)).loops().count("kernel ") == 1
    assert has_column_kernel(text)
    x = RNG.normal(size=(10, 20, 80)).astype(np.float32)
    mean, variance = map(np.asarray, CPU.compile(text)(x))
    np.testing.assert_allclose(mean, x.mean((0, 1)), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(variance, x.var((0, 1)), rtol=1e-4)
