"""Dynamic dimensions: every family of operations on arrays that are smaller than their bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.interpreter.runners.dynamic import dynamic_result, module, run, xla_result
from tests.raising import raises
from xlapy import ops
from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import special as special_codes
from xlapy.base.errors import ExecutionError, UnsupportedError

V8 = np.arange(1, 9, dtype=np.float32)
M34 = np.arange(12, dtype=np.float32).reshape(3, 4)
VECTORS = """x = f32[8] parameter(0)
n = s32[] parameter(1)
m = s32[] parameter(2)
d = f32[<=8] set-dimension-size(x, n), dimensions={0}
e = f32[<=8] set-dimension-size(x, m), dimensions={0}
zero = f32[] constant(0)
"""
MATRIX = """x = f32[3,4] parameter(0)
n = s32[] parameter(1)
m = s32[] parameter(2)
rows = f32[<=3,4] set-dimension-size(x, n), dimensions={0}
columns = f32[3,<=4] set-dimension-size(x, m), dimensions={1}
both = f32[<=3,<=4] set-dimension-size(rows, m), dimensions={1}
zero = f32[] constant(0)
"""


@dataclass(frozen=True)
class Case:
    """A program that computes `r` from the array `x` and two sizes, and the expected value of `r`."""

    name: str
    setup: str
    body: str
    sizes: tuple[int, int]
    expected: Any
    on_xla: bool = True
    """Whether XLA:CPU runs the program and returns sizes within the bounds."""
    computations: str = ""

    @property
    def arguments(self) -> list[Any]:
        x = V8 if self.setup is VECTORS else M34
        return [x, *map(np.int32, self.sizes)]


def v(name: str, body: str, sizes: tuple[int, int], expected: Any, on_xla: bool = True, computations: str = "") -> Case:
    return Case(name, VECTORS, body, sizes, expected, on_xla, computations)


def m(name: str, body: str, sizes: tuple[int, int], expected: Any, on_xla: bool = True, computations: str = "") -> Case:
    return Case(name, MATRIX, body, sizes, expected, on_xla, computations)


TRUE = "yes = pred[] constant(true)\nall = pred[8] broadcast(yes), dimensions={}\n"
BRANCHES = """
whole { p = (f32[<=8], s32[]) parameter(0) ROOT r = f32[<=8] get-tuple-element(p), index=0 }
cut {
  p = (f32[<=8], s32[]) parameter(0)
  a = f32[<=8] get-tuple-element(p), index=0
  k = s32[] get-tuple-element(p), index=1
  ROOT r = f32[<=8] set-dimension-size(a, k), dimensions={0}
}
"""
LOOP = """
below {
  p = (s32[], f32[<=8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  last = s32[] constant(3)
  ROOT r = pred[] compare(i, last), direction=LT
}
grow {
  p = (s32[], f32[<=8]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  a = f32[<=8] get-tuple-element(p), index=1
  size = s32[] get-dimension-size(a), dimensions={0}
  larger = s32[] add(size, one)
  b = f32[<=8] set-dimension-size(a, larger), dimensions={0}
  c = f32[<=8] negate(b)
  ROOT r = (s32[], f32[<=8]) tuple(next, c)
}
"""
DOUBLE = "double { p = f32[<=8] parameter(0) ROOT r = f32[<=8] add(p, p) }\n"

CASES = [
    # sizes
    v("set", "r = f32[<=8] copy(d)", (3, 0), [1, 2, 3]),
    v("set to nothing", "r = f32[<=8] copy(d)", (0, 0), []),
    v("set again", "r = f32[<=8] set-dimension-size(d, m), dimensions={0}", (2, 5), [1, 2, 3, 4, 5]),
    m("two dimensions", "r = f32[<=3,<=4] copy(both)", (2, 3), [[0, 1, 2], [4, 5, 6]]),
    # elementwise
    v("unary", "r = f32[<=8] negate(d)", (3, 0), [-1, -2, -3]),
    v("set after unary", "a = f32[<=8] negate(d)\nr = f32[<=8] set-dimension-size(a, m), dimensions={0}", (2, 4),
      [-1, -2, -3, -4]),
    v("binary", "r = f32[<=8] add(d, e)", (3, 3), [2, 4, 6]),
    v("the smaller size", "r = f32[<=8] multiply(d, e)", (5, 2), [1, 4]),
    v("a single element is repeated", "r = f32[<=8] add(d, e)", (1, 4), [2, 3, 4, 5]),
    v("empty and single element", "r = f32[<=8] add(d, e)", (0, 1), []),
    v("single element and static dimension", "r = f32[<=8] add(d, x)", (1, 0), [2]),
    v("compare and select", "c = pred[<=8] compare(d, e), direction=EQ\nr = f32[<=8] select(c, d, e)", (3, 3),
      [1, 2, 3]),
    v("clamp by scalars", "one = f32[] constant(2)\nr = f32[<=8] clamp(one, d, one)", (3, 0), [2, 2, 2]),
    v("convert", "c = s32[<=8] convert(d)\nr = s32[<=8] add(c, c)", (3, 0), [2, 4, 6]),
    v("bitcast-convert", "c = s32[<=8] bitcast-convert(d)\nr = f32[<=8] bitcast-convert(c)", (3, 0), [1, 2, 3]),
    v("bitcast-convert to parts", "c = s16[<=8,2] bitcast-convert(d)\nr = f32[<=8] bitcast-convert(c)", (3, 0),
      [1, 2, 3], on_xla=False),
    m("rows and columns", "a = f32[3,<=4] set-dimension-size(x, m), dimensions={1}\n"
      "r = f32[<=3,<=4] add(rows, a)", (2, 3), [[0, 2, 4], [8, 10, 12]]),
    # movement
    v("broadcast", "r = f32[2,<=8] broadcast(d), dimensions={1}", (3, 0), [[1, 2, 3], [1, 2, 3]]),
    m("transpose", "r = f32[<=4,<=3] transpose(both), dimensions={1,0}", (2, 3), [[0, 4], [1, 5], [2, 6]]),
    v("reverse", "r = f32[<=8] reverse(d), dimensions={0}", (3, 0), [3, 2, 1]),
    v("concatenate", "r = f32[<=24] concatenate(d, x, e), dimensions={0}", (2, 1),
      [1, 2, 1, 2, 3, 4, 5, 6, 7, 8, 1]),
    m("concatenate the other dimension", "r = f32[<=3,8] concatenate(rows, rows), dimensions={1}", (2, 0),
      [[0, 1, 2, 3, 0, 1, 2, 3], [4, 5, 6, 7, 4, 5, 6, 7]]),
    v("slice", "r = f32[<=3] slice(d), slice={[1:7:2]}", (4, 0), [2, 4]),
    v("slice that the elements do not fill", "r = f32[<=5] slice(d), slice={[0:5]}", (3, 0), [1, 2, 3]),
    v("slice that cuts elements off", "r = f32[<=5] slice(d), slice={[0:5]}", (7, 0), [1, 2, 3, 4, 5], on_xla=False),
    v("slice after the elements", "r = f32[<=4] slice(d), slice={[4:8]}", (2, 0), [], on_xla=False),
    v("pad", "r = f32[<=11] pad(d, zero), padding=1_2", (3, 0), [0, 1, 2, 3, 0, 0]),
    v("pad inside", "r = f32[<=15] pad(d, zero), padding=0_0_1", (3, 0), [1, 0, 2, 0, 3]),
    v("pad less", "r = f32[<=6] pad(d, zero), padding=-1_-1", (4, 0), [2, 3]),
    v("pad less than nothing", "r = f32[<=4] pad(d, zero), padding=-2_-2", (3, 0), [], on_xla=False),
    m("dynamic-slice takes rows whole", "r = f32[<=3,2] dynamic-slice(rows, n, n), dynamic_slice_sizes={3,2}", (2, 0),
      [[2, 3], [6, 7]]),
    v("dynamic-update-slice of part", "s = f32[2] slice(x), slice={[5:7]}\n"
      "r = f32[<=8] dynamic-update-slice(d, s, m)", (4, 1), [1, 6, 7, 4]),
    v("dynamic-update-slice of padded part", "s = f32[3] slice(x), slice={[0:3]}\n"
      "f = f32[<=3] set-dimension-size(s, n), dimensions={0}\n"
      "one = s32[] constant(8)\nw = f32[<=8] set-dimension-size(x, one), dimensions={0}\n"
      "r = f32[<=8] dynamic-update-slice(w, f, m)", (2, 7), [1, 2, 3, 4, 5, 1, 2, 8], on_xla=False),
    v("dynamic-update-slice of all", "r = f32[<=8] dynamic-update-slice(x, d, m)", (3, 1), [1, 2, 3]),
    m("reshape merges", "r = f32[<=12] reshape(columns)", (0, 3), [0, 1, 2, 4, 5, 6, 8, 9, 10]),
    m("reshape merges two dynamic", "r = f32[<=12] reshape(both)", (2, 3), [0, 1, 2, 4, 5, 6]),
    v("reshape splits", "r = f32[<=4,2] reshape(d)", (4, 0), [[1, 2], [3, 4]], on_xla=False),
    v("reshape splits off the outer", "r = f32[4,<=2] reshape(d)", (4, 0), [[1], [2], [3], [4]], on_xla=False),
    v("reshape rounds down", "r = f32[<=4,2] reshape(d)", (5, 0), [[1, 2], [3, 4]], on_xla=False),
    m("reshape merges and splits", "r = f32[<=6,2] reshape(rows), inferred_dimension=0", (2, 0),
      [[0, 1], [2, 3], [4, 5], [6, 7]], on_xla=False),
    m("reshape keeps several", "a = f32[<=3,<=4,1] reshape(both)\nr = f32[<=3,<=4] reshape(a)", (2, 3),
      [[0, 1, 2], [4, 5, 6]], on_xla=False),
    v("dynamic-reshape", "two = s32[] constant(2)\nr = f32[<=4,2] dynamic-reshape(d, m, two)", (6, 3),
      [[1, 2], [3, 4], [5, 6]], on_xla=False),
    # contraction, convolution
    v("dot", "a = f32[] dot(d, e), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
      "r = f32[<=8] broadcast(a), dimensions={}", (3, 5), [14] * 8, on_xla=False),
    m("dot of rows", "v = f32[4] constant({1, 0, 0, 1})\nr = f32[<=3] dot(rows, v), lhs_contracting_dims={1}, "
      "rhs_contracting_dims={0}", (2, 0), [3, 11]),
    m("dot of all", "r = f32[<=3,<=3] dot(both, both), lhs_contracting_dims={1}, rhs_contracting_dims={1}", (2, 3),
      [[5, 17], [17, 77]]),
    m("dot of batches", "r = f32[<=3] dot(rows, both), lhs_batch_dims={0}, rhs_batch_dims={0}, "
      "lhs_contracting_dims={1}, rhs_contracting_dims={1}", (2, 2), [1, 41]),
    m("convolution of batches", "a = f32[<=3,1,4] reshape(rows)\nk = f32[1,1,2] constant({{{1, 10}}})\n"
      "c = f32[<=3,1,3] convolution(a, k), window={size=2}, dim_labels=bf0_oi0->bf0\n"
      "r = f32[<=3,3] reshape(c)", (2, 0), [[10, 21, 32], [54, 65, 76]]),
    m("convolution of features", "a = f32[1,<=3,4] reshape(rows)\nk = f32[1,3,2] constant({{{1, 0}, {1, 0}, {1, 0}}})\n"
      "c = f32[1,1,3] convolution(a, k), window={size=2}, dim_labels=bf0_oi0->bf0\n"
      "f = f32[3] reshape(c)\ns = s32[] constant(3)\nr = f32[<=3] set-dimension-size(f, s), dimensions={0}", (2, 0),
      [4, 6, 8], on_xla=False),
    v("convolution of space", "a = f32[1,1,<=8] reshape(d)\nk = f32[1,1,2] constant({{{1, 10}}})\n"
      "r = f32[1,1,<=9] convolution(a, k), window={size=2 pad=1_1}, dim_labels=bf0_oi0->bf0", (3, 0),
      [[[10, 21, 32, 3]]], on_xla=False),
    # reduction
    m("reduce the dynamic dimension", "a = f32[4] reduce(rows, zero), dimensions={0}, to_apply=add\n"
      "r = f32[<=4] set-dimension-size(a, m), dimensions={0}", (2, 4), [4, 6, 8, 10]),
    m("reduce the other dimension", "r = f32[<=3] reduce(both, zero), dimensions={1}, to_apply=max", (2, 3), [2, 6]),
    m("reduce nothing", "r = f32[<=4] reduce(both, zero), dimensions={0}, to_apply=add", (0, 3), [0, 0, 0]),
    v("reduce-window", "r = f32[<=3] reduce-window(d, zero), window={size=3 stride=2}, to_apply=add", (6, 0), [6, 12]),
    v("reduce-window without windows", "r = f32[<=6] reduce-window(d, zero), window={size=3}, to_apply=add", (2, 0),
      []),
    v("reduce-window with padding", "r = f32[<=8] reduce-window(d, zero), window={size=3 pad=1_1}, to_apply=add",
      (3, 0), [3, 6, 5], on_xla=False),
    m("reduce-window of rows", "r = f32[<=3,3] reduce-window(rows, zero), window={size=1x2}, to_apply=max", (2, 0),
      [[1, 2, 3], [5, 6, 7]]),
    v("select-and-scatter", "s = f32[3] slice(x), slice={[0:3]}\ntwo = s32[] constant(2)\n"
      "f = f32[<=3] set-dimension-size(s, two), dimensions={0}\n"
      "r = f32[<=8] select-and-scatter(d, f, zero), window={size=3 stride=2}, select=ge, scatter=add", (6, 0),
      [0, 0, 1, 0, 2, 0]),
    v("map", "r = f32[<=8] map(d, e), dimensions={0}, to_apply=mul", (3, 3), [1, 4, 9]),
    v("map repeats a single element", "r = f32[<=8] map(d, e), dimensions={0}, to_apply=add", (1, 3), [2, 3, 4]),
    # indexing
    m("gather by fewer indices", "i = s32[3] constant({2, 0, 1})\n"
      "j = s32[<=3] set-dimension-size(i, n), dimensions={0}\n"
      "r = f32[<=3,4] gather(x, j), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, "
      "index_vector_dim=1, slice_sizes={1,4}", (2, 0), [[8, 9, 10, 11], [0, 1, 2, 3]]),
    m("gather whole columns", "i = s32[2] constant({1, 2})\n"
      "r = f32[<=3,2] gather(rows, i), offset_dims={0}, collapsed_slice_dims={1}, start_index_map={1}, "
      "index_vector_dim=1, slice_sizes={3,1}", (2, 0), [[1, 2], [5, 6]]),
    v("scatter fewer updates", "i = s32[4] constant({7, 0, 1, 2})\n"
      "j = s32[<=4] set-dimension-size(i, n), dimensions={0}\n"
      "u = f32[4] constant({10, 20, 30, 40})\nw = f32[<=4] set-dimension-size(u, n), dimensions={0}\n"
      "r = f32[<=8] scatter(e, j, w), update_window_dims={}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add", (2, 3), [21, 2, 3]),
    m("scatter rows", "i = s32[2] constant({2, 0})\nu = f32[4] constant({1, 1, 1, 1})\n"
      "w = f32[2,4] broadcast(u), dimensions={1}\nc = f32[2,<=4] set-dimension-size(w, m), dimensions={1}\n"
      "r = f32[3,<=4] scatter(columns, i, c), update_window_dims={1}, inserted_window_dims={0}, "
      "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add", (0, 2), [[1, 2], [4, 5], [9, 10]]),
    # sorting
    v("sort", "r = f32[<=8] sort(d), dimensions={0}, to_apply=gt", (3, 0), [3, 2, 1]),
    m("sort columns", "r = f32[<=3,4] sort(rows), dimensions={0}, to_apply=gt", (2, 0), [[4, 5, 6, 7], [0, 1, 2, 3]]),
    m("topk of rows", "t = (f32[<=3,2], s32[<=3,2]) topk(rows), k=2\nr = s32[<=3,2] get-tuple-element(t), index=1",
      (2, 0), [[3, 2], [3, 2]], on_xla=False),
    # control
    v("conditional", "p = pred[] compare(n, m), direction=LT\nt = (f32[<=8], s32[]) tuple(d, m)\n"
      "r = f32[<=8] conditional(p, t, t), true_computation=whole, false_computation=cut", (5, 2), [1, 2],
      computations=BRANCHES),
    v("the other branch", "p = pred[] compare(n, m), direction=LT\nt = (f32[<=8], s32[]) tuple(d, m)\n"
      "r = f32[<=8] conditional(p, t, t), true_computation=whole, false_computation=cut", (3, 4), [1, 2, 3],
      computations=BRANCHES),
    v("while", "i = s32[] constant(0)\nt = (s32[], f32[<=8]) tuple(i, d)\n"
      "w = (s32[], f32[<=8]) while(t), condition=below, body=grow\nr = f32[<=8] get-tuple-element(w), index=1", (2, 0),
      [-1, -2, -3, -4, -5], computations=LOOP),
    v("call", "r = f32[<=8] call(d), to_apply=double", (3, 0), [2, 4, 6], computations=DOUBLE),
    v("fusion", "r = f32[<=8] fusion(d), kind=kLoop, calls=double", (3, 0), [2, 4, 6], on_xla=False,
      computations=DOUBLE),
    v("async", "s = ((f32[<=8]), f32[<=8]) call-start(d), to_apply=double\nr = f32[<=8] call-done(s)", (3, 0),
      [2, 4, 6], on_xla=False, computations=DOUBLE),
    v("barrier", "t = (f32[<=8]) tuple(d)\nb = (f32[<=8]) opt-barrier(t)\nr = f32[<=8] get-tuple-element(b), index=0",
      (3, 0), [1, 2, 3], on_xla=False),
    v("copy-start", "s = (f32[<=8], f32[<=8], u32[]) copy-start(d)\nr = f32[<=8] copy-done(s)", (3, 0), [1, 2, 3],
      on_xla=False),
    # sources that are declared dynamic
    v("iota", "r = s32[<=4] iota(), iota_dimension=0", (0, 0), [0, 1, 2, 3], on_xla=False),
    v("iota cut", "i = s32[4] iota(), iota_dimension=0\nr = s32[<=4] set-dimension-size(i, n), dimensions={0}", (2, 0),
      [0, 1]),
    v("constant", "r = s32[<=4] constant({1, 2, 3, 4})", (0, 0), [1, 2, 3, 4], on_xla=False),
    # linear algebra, normalization, transforms
    m("batch-norm-inference", "one = f32[4] constant({1, 1, 1, 1})\nnone = f32[4] constant({0, 0, 0, 0})\n"
      "r = f32[<=3,4] batch-norm-inference(rows, one, one, none, one), epsilon=0, feature_index=1", (2, 0),
      [[1, 2, 3, 4], [5, 6, 7, 8]]),
    m("fft of rows", "c = c64[<=3,4] convert(rows)\nf = c64[<=3,4] fft(c), fft_type=FFT, fft_length={4}\n"
      "r = f32[<=3,4] real(f)", (2, 0), [[6, -2, -2, -2], [22, -2, -2, -2]], on_xla=False),
]  # fmt: skip

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@every_case
def test_values(case: Case):
    result = dynamic_result(case.setup + case.body, case.arguments, case.computations)
    expected = np.array(case.expected, result.dtype)
    assert result.shape == expected.shape
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize("case", [case for case in CASES if case.on_xla], ids=lambda case: case.name)
def test_values_are_those_of_xla_cpu(case: Case):
    ours = dynamic_result(case.setup + case.body, case.arguments, case.computations)
    theirs = xla_result(case.setup + case.body, case.arguments, case.computations)
    assert ours.shape == theirs.shape
    np.testing.assert_array_equal(ours, theirs)


# -- the specification's example


def test_sums_and_products_of_five_and_six_of_ten():
    b = xla.XlaBuilder("sizes")
    v = ops.parameter(b, 0, xla.Shape.parse("f32[10]"), "v")
    five, six = ops.constant(b, np.int32(5)), ops.constant(b, np.int32(6))
    padded_v_five = ops.set_dimension_size(v, five, 0)
    padded_v_six = ops.set_dimension_size(v, six, 0)
    add, multiply = (_scalar(function) for function in (ops.add, ops.mul))
    sums = [ops.reduce(padded, 0.0, add, [0]) for padded in (padded_v_five, padded_v_six)]
    product = ops.reduce(padded_v_five, 1.0, multiply, [0])
    ops.tuple(b, [*sums, product, ops.get_dimension_size(padded_v_six, 0)])
    results = xla.Client("interpreter").compile(b.build())(np.arange(1, 11, dtype=np.float32))
    assert [result.item() for result in results] == [15.0, 21.0, 120.0, 6]


def _scalar(function: Any) -> xla.XlaComputation:
    b = xla.XlaBuilder("scalar")
    x, y = (ops.parameter(b, i, xla.Shape.parse("f32[]"), name) for i, name in enumerate("xy"))
    function(x, y)
    return b.build()


# -- errors


def test_sizes_outside_of_the_bounds_are_refused():
    """The interpreter rejects such sizes. XLA computes with them: reductions stop at the bound, get-dimension-size
    returns the size.
    """
    text = module(VECTORS + "ROOT r = f32[] reduce(d, zero), dimensions={0}, to_apply=add")
    for size in (-2, 9):
        values = "d (set-dimension-size)", f"size {size}", "dimension 0", "bound 8"
        with raises(ExecutionError, codes.DYNAMIC_SIZE, *values):
            run(text, [V8, np.int32(size), np.int32(0)])


def test_a_dynamic_reshape_needs_sizes_that_hold_the_elements():
    body = VECTORS + "two = s32[] constant(2)\nr = f32[<=4,2] dynamic-reshape(d, m, two)"
    with raises(ExecutionError, codes.RESHAPED_COUNT, "(dynamic-reshape)", "has 5", "[3, 2]", "hold 6"):
        dynamic_result(body, [V8, np.int32(5), np.int32(3)])


def test_an_ambiguous_dynamic_reshape_is_refused():
    body = VECTORS + "r = f32[<=2,<=4] reshape(d)"
    with raises(UnsupportedError, codes.RESHAPED_SIZES, "f32[<=8]", "f32[<=2,<=4]", "[0, 1]"):
        dynamic_result(body, [V8, np.int32(5), np.int32(3)])


def test_a_transformed_dimension_must_have_its_full_size():
    body = VECTORS + "c = c64[<=8] convert(d)\nr = c64[<=8] fft(c), fft_type=FFT, fft_length={8}"
    with raises(ExecutionError, special_codes.TRANSFORM_SIZES, "dimension 0", "c64[3]", "be 8"):
        dynamic_result(body, [V8, np.int32(3), np.int32(0)])
    assert dynamic_result(body, [V8, np.int32(8), np.int32(0)])[0] == 36


def test_a_kernel_of_dynamic_space_is_refused():
    body = (
        VECTORS
        + """a = f32[1,1,<=8] reshape(d)
b = f32[1,1,<=8] reshape(e)
r = f32[1,1,<=1] convolution(a, b), window={size=8}, dim_labels=bf0_oi0->bf0"""
    )
    with raises(UnsupportedError, codes.DYNAMIC_KERNEL, "dimension 2", "f32[1,1,<=8]"):
        dynamic_result(body, [V8, np.int32(5), np.int32(2)])


def test_collectives_are_refused_when_the_program_is_compiled():
    text = module(VECTORS + "ROOT r = f32[<=8] all-reduce(d), replica_groups={}, to_apply=add")
    with raises(UnsupportedError, shared.SUPPORTED_OPERATION, "all-reduce", "devices may have different sizes"):
        xla.Client("interpreter").compile(text)


# -- conforming values to declared shapes


@pytest.mark.parametrize(
    ("instruction", "expected"),
    [
        ("f32[8] negate(d)", -V8),
        ("f32[2,8] broadcast(d), dimensions={1}", np.stack([V8, V8])),
        ("f32[8] set-dimension-size(d, eight), dimensions={0}", V8),
    ],
)
def test_a_dimension_declared_static_has_its_bound_as_size(instruction: str, expected: np.ndarray[Any, Any]):
    text = module(VECTORS + "eight = s32[] constant(8)\nROOT r = " + instruction)
    np.testing.assert_array_equal(run(text, [V8, np.int32(3), np.int32(0)]), expected)


def test_a_dimension_that_becomes_dynamic_has_its_bound_as_size():
    text = module(
        "x = f32[8] parameter(0)\nr = f32[<=8] negate(x)\nROOT n = s32[] get-dimension-size(r), dimensions={0}"
    )
    assert run(text, [V8]) == 8


def test_arguments_take_the_dimensions_of_parameters():
    computations = "still { p = f32[8] parameter(0) ROOT r = f32[8] negate(p) }\n"
    text = module(VECTORS + "ROOT r = f32[8] call(d), to_apply=still", computations)
    np.testing.assert_array_equal(run(text, [V8, np.int32(3), np.int32(0)]), -V8)


# -- inside scalar computations


def test_a_body_with_dynamic_sizes_per_element():
    """Sums as many ones as the value of each element, so that sizes differ between elements."""
    computations = """
count {
  p = s32[] parameter(0)
  one = f32[] constant(1)
  ones = f32[9] broadcast(one), dimensions={}
  some = f32[<=9] set-dimension-size(ones, p), dimensions={0}
  zero = f32[] constant(0)
  ROOT r = f32[] reduce(some, zero), dimensions={0}, to_apply=add
}
"""
    text = module("x = s32[4] parameter(0)\nROOT r = f32[4] map(x), dimensions={0}, to_apply=count", computations)
    np.testing.assert_array_equal(run(text, [np.array([3, 0, 9, 1], np.int32)]), [3, 0, 9, 1])
