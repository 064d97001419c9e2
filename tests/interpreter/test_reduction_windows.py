"""Reduce-window and select-and-scatter: the specification's examples, corner cases, and comparison with XLA:CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.interpreter.runners.instruction import Case, typed
from tests.interpreter.runners.reduction import evaluate, on_both_sides
from xlapy import Client, parse_hlo
from xlapy.base.element_types import PrimitiveType
from xlapy.opcodes.attributes.dimensions import Window, WindowDimension
from xlapy.opcodes.reduction import REDUCE_WINDOW
from xlapy.testing.comparison import assert_close
from xlapy.testing.random_values import random_array

MATRIX = np.array([[7, 2, 5, 3, 10, 2], [3, 8, 9, 3, 4, 2], [1, 5, 7, 5, 6, 1], [0, 6, 2, 7, 2, 8]], np.float32)
LARGEST = np.finfo(np.float32).max
WINDOW_CODEC = REDUCE_WINDOW.attributes.by_key["window"].codec


def reduce_window(operand: Any, init: Any, shape: str, window: str, computation: str) -> Any:
    return evaluate("reduce-window", [operand, init], shape, f"window={{{window}}}, to_apply={computation}")


def select_and_scatter(
    operand: Any, source: Any, init: Any, shape: str, window: str, select: str = "GE.f32", scatter: str = "add.f32"
) -> Any:
    attributes = f"window={{{window}}}, select={select}, scatter={scatter}"
    return evaluate("select-and-scatter", [operand, source, init], shape, attributes)


class TestExamplesOfTheSpecification:
    def test_maximum_of_windows_side_by_side(self):
        """The first example: a 4x6 matrix, windows of 2x3 with the same strides."""
        result = reduce_window(MATRIX, -LARGEST, "f32[2,2]", "size=2x3 stride=2x3", "maximum.f32")
        assert result.tolist() == [[9, 10], [7, 8]]

    def test_stride_of_one(self):
        result = reduce_window(MATRIX, -LARGEST, "f32[3,4]", "size=2x3", "maximum.f32")
        assert result.tolist() == [[9, 9, 10, 10], [9, 9, 9, 6], [7, 7, 7, 8]]

    def test_minimum_with_stride_and_padding(self):
        values = [10000.0, 1000, 100, 10, 1]
        valid = reduce_window(values, LARGEST, "f32[2]", "size=3 stride=2", "minimum.f32")
        same = reduce_window(values, LARGEST, "f32[3]", "size=3 stride=2 pad=1_1", "minimum.f32")
        assert valid.tolist() == [100, 1]
        assert same.tolist() == [1000, 10, 1]

    def test_dilations_padding_and_stride_together(self):
        """The second example: base dilation 2x1, padding of 2 rows above and 1 below, window 2x1 dilated 3x1, stride
        4x1.
        """
        window = "size=2x1 stride=4x1 pad=2_1x0_0 lhs_dilate=2x1 rhs_dilate=3x1"
        assert reduce_window([[1, 2], [3, 4], [5, 6]], 0, "s32[2,2]", window, "add.s32").tolist() == [[0, 0], [3, 4]]

    def test_select_and_scatter_of_windows_side_by_side(self):
        source = [[2.0, 6], [3, 1]]
        result = select_and_scatter(MATRIX, source, 0.0, "f32[4,6]", "size=2x3 stride=2x3")
        assert result.tolist() == [[0, 0, 0, 0, 6, 0], [0, 0, 2, 0, 0, 0], [0, 0, 3, 0, 0, 0], [0, 0, 0, 0, 0, 1]]

    def test_select_and_scatter_sums_what_overlaps(self):
        """The element 9 is the largest of two windows, which add 2 and 6 to it."""
        operand = np.array([[7, 2, 5, 3, 8], [3, 8, 9, 3, 4], [1, 5, 7, 5, 6], [0, 6, 2, 10, 2]], np.float32)
        source = [[2.0, 6], [3, 1]]
        result = select_and_scatter(operand, source, 0.0, "f32[4,5]", "size=2x3 stride=2x2")
        assert result.tolist() == [[0, 0, 0, 0, 0], [0, 0, 8, 0, 0], [0, 0, 3, 0, 0], [0, 0, 0, 1, 0]]


class TestReduceWindow:
    def test_a_windows_initial_value_is_used_once(self):
        assert reduce_window([1, 2, 3], 100, "s32[2]", "size=2", "add.s32").tolist() == [103, 105]
        assert reduce_window([1, 2, 3], 100, "s32[3]", "size=1", "add.s32").tolist() == [101, 102, 103]

    def test_padding_contributes_nothing(self):
        assert reduce_window([1, 2], 100, "s32[5]", "size=2 pad=2_2", "add.s32").tolist() == [100, 101, 103, 102, 100]
        assert reduce_window([5, 6], 1, "s32[3]", "size=2 pad=1_1", "multiply.s32").tolist() == [5, 30, 6]

    def test_holes_of_the_base_contribute_nothing(self):
        assert reduce_window([10, 20, 30], 1, "s32[4]", "size=2 lhs_dilate=2", "add.s32").tolist() == [11, 21, 21, 31]

    def test_a_dilated_window_skips(self):
        values = [1, 10, 100, 1000, 10000]
        assert reduce_window(values, 0, "s32[1]", "size=3 rhs_dilate=2", "add.s32").tolist() == [10101]

    def test_negative_padding_removes(self):
        assert reduce_window([1, 2, 4, 8], 0, "s32[1]", "size=2 pad=-1_-1", "add.s32").tolist() == [6]
        assert reduce_window([1, 2, 4, 8], 0, "s32[3]", "size=2 pad=-2_2", "add.s32").tolist() == [12, 8, 0]

    def test_negative_padding_removes_holes_too(self):
        assert reduce_window([1, 2, 4], 0, "s32[3]", "size=1 pad=-1_-1 lhs_dilate=2", "add.s32").tolist() == [0, 2, 0]

    def test_empty_results_and_operands(self):
        assert reduce_window([1, 2], 0, "s32[0]", "size=3", "add.s32").tolist() == []
        assert reduce_window(np.zeros(0, np.int32), 7, "s32[3]", "size=1 pad=1_2", "add.s32").tolist() == [7, 7, 7]
        assert reduce_window(np.zeros((2, 0), np.int32), 7, "s32[2,0]", "size=1x1", "add.s32").shape == (2, 0)

    def test_rank_zero_gives_the_operand(self):
        assert reduce_window(3, 5, "s32[]", "", "add.s32") == 3

    def test_elements_come_in_row_major_order(self):
        digits = np.arange(1, 10, dtype=np.int32).reshape(3, 3)
        assert reduce_window(digits, 0, "s32[2,2]", "size=2x2", "later").tolist() == [[5, 6], [8, 9]]
        assert reduce_window(digits, 0, "s32[2,2]", "size=2x2", "earlier").tolist() == [[0, 0], [0, 0]]

    @pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 16, 23])
    def test_windows_of_any_length_combine_in_order(self, size: int):
        """Affine maps x -> p x + q, composed from left to right; long windows combine shorter runs."""
        rng = np.random.default_rng(size)
        scales, offsets = (rng.integers(-2, 3, 40).astype(np.int32) for _ in range(2))
        count = 41 - size
        shape, attributes = f"(s32[{count}], s32[{count}])", f"window={{size={size}}}, to_apply=affine"
        scale, offset = evaluate("reduce-window", [scales, offsets, 1, 0], shape, attributes)
        for start in range(count):
            p, q = 1, 0
            for k in range(start, start + size):
                p, q = p * int(scales[k]), q * int(scales[k]) + int(offsets[k])
            assert (int(scale[start]), int(offset[start])) == (p, q)

    def test_several_arrays(self):
        operands = [[1.0, 2.0, 4.0], [1, 1, 1], 0.5, 0]
        shape, attributes = "(f32[3], s32[3])", "window={size=2 pad=1_0}, to_apply=sum_and_count"
        total, count = evaluate("reduce-window", operands, shape, attributes)
        assert (total.tolist(), count.tolist()) == ([1.5, 3.5, 6.5], [1, 2, 2])

    def test_nan_and_signed_zeros(self):
        result = reduce_window([1.0, np.nan, 3.0, 4.0], -np.float32(np.inf), "f32[3]", "size=2", "maximum.f32")
        assert np.isnan(result).tolist() == [True, True, False]
        zeros = reduce_window([-0.0, 0.0, -0.0, -0.0], -np.float32(np.inf), "f32[3]", "size=2", "maximum.f32")
        assert np.signbit(zeros).tolist() == [False, False, True]

    def test_sums_of_small_windows_are_rounded_at_every_step(self):
        values = typed("bf16", [0, 256, 1, 1])
        result = reduce_window(values, typed("bf16", 0), "bf16[2]", "size=3", "add.bf16")
        assert result.tolist() == [256, 256]

    def test_elements_come_one_by_one_in_row_major_order(self):
        """Padding is skipped, and the initial value is the first argument."""
        values = np.arange(1, 5, dtype=np.float32).reshape(2, 2)
        differences = reduce_window(values, 10.0, "f32[2,1]", "size=2x2 pad=1_0x0_0", "subtract.f32")
        assert differences.tolist() == [[7], [0]]
        folded = reduce_window([[2.0, 3.0], [5.0, 7.0]], 1.0, "f32[1,1]", "size=2x2", "divide.f32")
        assert folded[0, 0] == np.float32(np.float32(np.float32(0.5) / np.float32(3)) / np.float32(5)) / np.float32(7)

    def test_long_sums_are_rounded_once(self):
        small = typed("bf16", np.full(600, 1))
        result = reduce_window(small, typed("bf16", 0), "bf16[1]", "size=600", "add.bf16")
        assert float(result[0]) == 600

    def test_integers_wrap(self):
        assert reduce_window(typed("s8", [100, 100, 1]), typed("s8", 0), "s8[2]", "size=2", "add.s8").tolist() == [
            -56,
            101,
        ]


class TestSelectAndScatter:
    def test_the_lower_index_is_the_first_parameter(self):
        assert select_and_scatter([5.0, 5], [1.0], 0.0, "f32[2]", "size=2", "GE.f32").tolist() == [1, 0]
        assert select_and_scatter([5.0, 5], [1.0], 0.0, "f32[2]", "size=2", "GT.f32").tolist() == [0, 1]
        assert select_and_scatter([5.0, 6], [1.0], 0.0, "f32[2]", "size=2", "LE.f32").tolist() == [1, 0]

    def test_padding_is_never_selected(self):
        result = select_and_scatter([-5.0, -6], [1.0, 2, 4], 0.0, "f32[2]", "size=2 pad=1_1")
        assert result.tolist() == [3, 4]

    def test_a_window_of_padding_scatters_nothing(self):
        result = select_and_scatter([1.0], [1.0, 2, 4], 0.5, "f32[1]", "size=1 pad=1_1")
        assert result.tolist() == [2.5]

    def test_unselected_elements_are_the_initial_value(self):
        result = select_and_scatter([1.0, 9, 1], [3.0], 10.0, "f32[3]", "size=3")
        assert result.tolist() == [10, 13, 10]

    def test_nan_neither_replaces_nor_protects_an_element(self):
        """No comparison with NaN is true, so that the next element always replaces the selected one."""
        result = select_and_scatter([9.0, np.nan, 1, 0], [1.0], 0.0, "f32[4]", "size=4")
        assert result.tolist() == [0, 0, 1, 0]

    def test_scatter_takes_the_current_value_first(self):
        result = select_and_scatter([9.0, 1], [1.0], 10.0, "f32[2]", "size=2", scatter="subtract.f32")
        assert result.tolist() == [9, 10]

    def test_scatter_runs_in_row_major_order(self):
        assert select_and_scatter([1, 9, 1], [3, 4], 0, "s32[3]", "size=2", "GE.s32", "later").tolist() == [0, 4, 0]
        assert select_and_scatter([1, 9, 1], [3, 4], 7, "s32[3]", "size=2", "GE.s32", "earlier").tolist() == [7, 7, 7]

    def test_any_select(self):
        result = select_and_scatter([-3.0, 2, 1], [5.0], 0.0, "f32[3]", "size=3", "larger_magnitude")
        assert result.tolist() == [5, 0, 0]

    def test_nothing_to_scatter(self):
        assert select_and_scatter([1.0, 2], np.zeros(0, np.float32), 3.0, "f32[2]", "size=3").tolist() == [3, 3]
        empty = np.zeros((0, 2), np.float32)
        assert select_and_scatter(empty, empty, 3.0, "f32[0,2]", "size=1x1").shape == (0, 2)


# Against XLA:CPU

WINDOWS = (
    "size=2x3",
    "size=1x2 stride=1x2",
    "size=3x2 stride=2x1 pad=1_1x0_1",
    "size=2x2 pad=2_0x0_3",
    "size=3x1 pad=-1_1x0_-2",
    "size=2x2 rhs_dilate=2x3",
    "size=2x2 lhs_dilate=2x1",
    "size=3x2 pad=2_1x1_2 stride=2x3 lhs_dilate=2x3 rhs_dilate=1x2",
    "size=5x6",
    "size=5x6 pad=4_0x5_0",
    "size=1x1 stride=3x4",
    "size=7x2",
)


def _window_cases(t: str, op: str, special: bool, sizes: tuple[int, ...] = (5, 7)) -> list[Case]:
    rng = np.random.default_rng(len(t) + len(op))
    dtype = PrimitiveType.from_text(t).dtype
    cases = []
    for text in WINDOWS:
        operand = random_array(sizes, dtype, rng, special)
        init = random_array((), dtype, rng, special=False)
        shape = f"{t}[{','.join(map(str, _window(text).output_sizes(sizes)))}]"
        cases.append(Case("reduce-window", (operand, init), shape, f"window={{{text}}}, to_apply={op}.{t}"))
    return cases


def _window(text: str) -> Window:
    columns = dict(part.split("=") for part in text.split())

    def integers(key: str, default: int) -> list[int]:
        return [int(entry) for entry in columns[key].split("x")] if key in columns else [default, default]

    pads = [entry.split("_") for entry in columns.get("pad", "0_0x0_0").split("x")]
    rows = zip(
        integers("size", 1),
        integers("stride", 1),
        pads,
        integers("lhs_dilate", 1),
        integers("rhs_dilate", 1),
        strict=True,
    )
    return Window(
        tuple(
            WindowDimension(size, stride, int(low), int(high), base, window)
            for size, stride, (low, high), base, window in rows
        )
    )


@pytest.mark.parametrize("t", ["s4", "u8", "s32", "u64"])
def test_windows_of_integers_are_those_of_xla(t: str):
    cases = [case for op in ("add", "multiply", "minimum", "xor") for case in _window_cases(t, op, special=True)]
    for case, ours, theirs in on_both_sides(cases):
        assert_close(ours, theirs, rule="bits", where=case.title)


def test_windows_of_predicates_are_those_of_xla():
    cases = [case for op in ("and", "or", "xor") for case in _window_cases("pred", op, special=True)]
    for case, ours, theirs in on_both_sides(cases):
        assert_close(ours, theirs, rule="bits", where=case.title)


@pytest.mark.parametrize("t", ["f8e4m3fn", "f16", "bf16", "f32", "f64"])
def test_choices_in_windows_are_those_of_xla(t: str):
    cases = [case for op in ("maximum", "minimum") for case in _window_cases(t, op, special=True)]
    for case, ours, theirs in on_both_sides(cases):
        assert_close(ours, theirs, rule="bits", flush_denormals=True, where=case.title)


@pytest.mark.parametrize("t", ["f8e5m2", "f16", "bf16", "f32", "f64", "c64"])
def test_sums_in_windows_are_those_of_xla(t: str):
    cases = _window_cases(t, "add", special=False)
    for case, ours, theirs in on_both_sides(cases):
        wide = [np.abs(operand.astype(np.complex128 if t == "c64" else np.float64)) for operand in case.operands]
        shape = case.shape.replace(t, "f64")
        magnitude = evaluate("reduce-window", wide, shape, case.attributes.replace(f"add.{t}", "add.f64"))
        assert_close(
            ours, theirs, rule="accumulation", terms=36, magnitude=magnitude, flush_denormals=True, where=case.title
        )


def test_variadic_windows_are_those_of_xla():
    rng = np.random.default_rng(9)
    cases = []
    for text in WINDOWS:
        values = random_array((5, 7), np.float32, rng)
        indices = np.arange(35, dtype=np.int32).reshape(5, 7)
        sizes = ",".join(map(str, _window(text).output_sizes((5, 7))))
        operands = (values, indices, np.array(-np.inf, np.float32), np.array(-1, np.int32))
        shape = f"(f32[{sizes}], s32[{sizes}])"
        cases.append(Case("reduce-window", operands, shape, f"window={{{text}}}, to_apply=argmax"))
    for case, ours, theirs in on_both_sides(cases):
        assert_close(ours, theirs, rule="bits", flush_denormals=True, where=case.title)


SELECTIONS = (
    "size=2x3 stride=2x3",
    "size=2x3",
    "size=3x3 stride=2x2 pad=1_1x1_1",
    "size=2x2 stride=1x3 pad=0_1x2_0",
    "size=1x1",
    "size=5x7",
    "size=2x1 pad=-1_-1x0_0",
    "size=6x1",
)


@pytest.mark.parametrize("t", ["s8", "s32", "u64", "bf16", "f32", "f64"])
def test_select_and_scatter_is_that_of_xla(t: str):
    rng = np.random.default_rng(len(t))
    dtype = PrimitiveType.from_text(t).dtype
    is_float = PrimitiveType.from_text(t).is_floating
    cases = []
    for text in SELECTIONS:
        for select in ("GE", "LT"):
            operand = random_array((5, 7), dtype, rng, special=True)
            source = random_array(_window(text).output_sizes((5, 7)), dtype, rng, special=not is_float)
            init = random_array((), dtype, rng, special=False)
            attributes = f"window={{{text}}}, select={select}.{t}, scatter=add.{t}"
            cases.append(Case("select-and-scatter", (operand, source, init), f"{t}[5,7]", attributes))
    for case, ours, theirs in on_both_sides(cases):
        _, source, init = (np.abs(o.astype(np.float64)) for o in case.operands)
        magnitude = source.sum() + init
        assert_close(
            ours,
            theirs,
            rule="accumulation",
            terms=max(source.size, 1),
            magnitude=magnitude,
            flush_denormals=True,
            where=case.title,
        )


def test_large_windows():
    """Folds a quarter of a million windows of a quarter of a million elements each."""
    operand = np.arange(1 << 20, dtype=np.float32).reshape(1024, 1024)
    largest = reduce_window(operand, -np.float32(np.inf), "f32[513,513]", "size=512x512", "maximum.f32")
    running = reduce_window(operand, 0.0, "f32[1024,1024]", "size=1024x1 pad=1023_0x0_0", "add.f32")
    assert np.array_equal(largest, operand[511:, 511:])
    assert np.array_equal(running, np.cumsum(operand, axis=0, dtype=np.float64).astype(np.float32))


# --- windows much larger than the array


def elements_of_windows(window: WindowDimension, base: int) -> list[list[int]]:
    """The elements of the base area in each window, in order."""
    windows = list[list[int]]()
    for number in range(window.output_size(base)):
        start = number * window.stride - window.padding_low
        places = [divmod(start + k * window.window_dilation, window.base_dilation) for k in range(window.size)]
        windows.append([element for element, hole in places if hole == 0 and 0 <= element < base])
    return windows


def test_leaving_out_padding_keeps_the_elements_of_all_windows():
    random = np.random.default_rng(5)
    smaller = 0
    for _ in range(2000):
        low, high = map(int, random.integers(-2, 12, 2))
        size, stride, base_dilation, dilation = map(int, random.integers(1, (16, 5, 4, 4)))
        window, base = WindowDimension(size, stride, low, high, base_dilation, dilation), int(random.integers(0, 7))
        left = window.without_padding_elements(base)
        assert elements_of_windows(left, base) == elements_of_windows(window, base), (window, base)
        smaller += left.size < window.size
    assert smaller > 200


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
def test_a_window_of_billions_of_elements_costs_what_its_array_does(platform: str):
    text = """
    HloModule m
    add { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = s32[] add(a, b) }
    most { a = s32[] parameter(0) b = s32[] parameter(1) ROOT c = pred[] compare(a, b), direction=GE }
    ENTRY e {
      p = s32[4,4] parameter(0)
      z = s32[] constant(7)
      s = s32[1,2] constant({{5, 6}})
      r = s32[1,2] reduce-window(p, z),
        window={size=2000000000x2000000000 pad=1_1999999995x1999999997_0}, to_apply=add
      q = s32[4,4] select-and-scatter(p, s, z),
        window={size=2000000000x2000000000 pad=1_1999999995x1999999997_0}, select=most, scatter=add
      ROOT t = (s32[1,2], s32[4,4]) tuple(r, q)
    }"""
    values = np.arange(16, dtype=np.int32).reshape(4, 4)
    sums, selected = map(np.asarray, Client(platform).compile(parse_hlo(text))(values))
    assert sums.tolist() == [[7 + values[:, :3].sum(), 7 + values.sum()]]
    expected = np.full((4, 4), 7)
    expected[3, 2:] += [5, 6]
    assert selected.tolist() == expected.tolist()
