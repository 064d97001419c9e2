"""Dots of slices in loops: which become one dot before the loop, and that results are the same."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.transforms.hoist_sliced_dots import HoistSlicedDots
from xlapy.hlo.verify import verify

INTERPRETER = xla.Client("interpreter")
CPU = xla.Client("cpu")


def program(
    *,
    rows: int = 3,
    steps: int = 6,
    count: int = 6,
    kind: str = "f32",
    index: str = "i",
    weights: str = "w",
    number: int = 0,
    following: str = "xs",
    size: int = 1,
) -> str:
    """A loop that adds up the products of the slices `index` of xs."""
    state = f"(s32[], {kind}[{steps},{rows},5], {kind}[5,5], {kind}[{rows},5])"
    return f"""HloModule m
less {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant({count})
  ROOT c = pred[] compare(i, n), direction=LT }}
step {{ s = {state} parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1) j = s32[] add(i, one)
  xs = {kind}[{steps},{rows},5] get-tuple-element(s), index=1 w = {kind}[5,5] get-tuple-element(s), index=2
  last = s32[] constant({steps + 1}) back = s32[] subtract(last, i) zero = s32[] constant(0)
  ys = {kind}[{steps},{rows},5] negate(xs) t = {kind}[5,5] transpose(w), dimensions={{1,0}}
  x = {kind}[{size},{rows},5] dynamic-slice(xs, {index}, zero, zero), dynamic_slice_sizes={{{size},{rows},5}}
  y = {kind}[{size * rows},5] reshape(x)
  d = {kind}[{size * rows},5] dot(y, {weights}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{number}}}
  p = {kind}[{rows},5] slice(d), slice={{[0:{rows}],[0:5]}}
  h = {kind}[{rows},5] get-tuple-element(s), index=3 k = {kind}[{rows},5] add(h, p)
  ROOT r = {state} tuple(j, {following}, w, k) }}
ENTRY e {{ xs = {kind}[{steps},{rows},5] parameter(0) w = {kind}[5,5] parameter(1) h = {kind}[{rows},5] parameter(2)
  i = s32[] constant(0) s = {state} tuple(i, xs, w, h)
  l = {state} while(s), condition=less, body=step ROOT r = {kind}[{rows},5] get-tuple-element(l), index=3 }}
"""


def arguments(kind: str, rows: int) -> list[np.ndarray]:
    random, dtype = np.random.default_rng(0), xla.Shape.parse(f"{kind}[]").dtype
    return [random.integers(-3, 4, shape).astype(dtype) for shape in ((6, rows, 5), (5, 5), (rows, 5))]


@pytest.mark.parametrize("kind", ["f32", "bf16", "f64", "s32", "c64"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"rows": 1},
        {"rows": 16},
        {"index": "back"},  # in reverse order, and out of bounds, where indices are clamped
        {"weights": "t", "number": 1},
        {"number": 1},
        {"count": 9},  # the last iterations take the last slice again
    ],
    ids=str,
)
def test_dots_of_slices_are_one_dot_before_the_loop(kind: str, options: dict[str, object]) -> None:
    text = program(kind=kind, **options)  # type: ignore[arg-type]
    module = xla.parse_hlo(text)
    given = arguments(kind, int(str(options.get("rows", 3))))
    before = np.asarray(INTERPRETER.compile(text)(*given))
    assert HoistSlicedDots().run(module)
    verify(module)
    (loop,) = (i for i in module.entry_computation if i.op is xla.opcodes.WHILE)
    assert xla.opcodes.DOT in {i.op for i in module.entry_computation}
    assert xla.opcodes.DOT not in {i.op for i in loop.computations[1]}
    np.testing.assert_array_equal(np.asarray(INTERPRETER.compile(module)(*given)), before)
    np.testing.assert_array_equal(np.asarray(CPU.compile(text)(*given)), before)


@pytest.mark.parametrize(
    "text",
    [
        program(rows=17),  # products of many rows stay in the loop
        program(count=5),  # there are fewer iterations than slices
        program().replace("constant(6)", "get-tuple-element(s), index=0"),  # nothing bounds the iterations
        program(following="ys"),  # the array changes
        program(size=2),  # two slices at once
        program(rows=1, steps=(1 << 24) // 20 + 1, count=(1 << 24) // 20 + 1),  # the products are too large
    ],
)
def test_others_stay(text: str) -> None:
    assert not HoistSlicedDots().run(xla.parse_hlo(text))


def test_special_numbers_reach_only_their_step() -> None:
    given = arguments("f32", 3)
    given[0][2, 1, 3] = np.nan
    result = np.asarray(CPU.compile(program())(*given))
    assert np.isnan(result[1]).all() and np.isfinite(result[[0, 2]]).all()


def test_the_compiler_moves_dots() -> None:
    text = compile_module(xla.parse_hlo(program(count=6))).module.to_text()
    assert "[6,3,5]{2,1,0} dot(" in text
