"""Values of sort and topk: the specification's examples, orders, corner cases, speed, and comparison with XLA:CPU."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests import xla_reference
from tests.interpreter.runners.instruction import run_text as evaluate
from xlapy.interpreter import Context, sorting
from xlapy.interpreter.kernels import sort_keys
from xlapy.testing.comparison import assert_close
from xlapy.testing.random_values import random_array
from xlapy.testing.samples import samples_of
from xlapy.text import parse_hlo

LESS = "ROOT r = pred[] compare(p0, p1), direction=LT"
DIFFERENCE = """
    d = s32[] subtract(p0, p1)
    z = s32[] constant(0)
    ROOT r = pred[] compare(d, z), direction=LT"""


def sort(types: Sequence[str], sizes: str, comparator: str, dimension: int) -> str:
    """Runs a stable sort; `comparator` reads p0 and p1, the elements of operand 0, p2 and p3 of operand 1, ..."""
    parameters = "\n".join(f"p{i} = {types[i // 2]}[] parameter({i})" for i in range(2 * len(types)))
    arrays = "\n".join(f"a{i} = {t}[{sizes}] parameter({i})" for i, t in enumerate(types))
    shapes = ", ".join(f"{t}[{sizes}]" for t in types)
    names = ", ".join(f"a{i}" for i in range(len(types)))
    return f"""HloModule m
        c {{
          {parameters}
          {comparator}
        }}
        ENTRY e {{
          {arrays}
          ROOT s = {shapes if len(types) == 1 else f"({shapes})"} sort({names}), dimensions={{{dimension}}},
            is_stable=true, to_apply=c
        }}"""


def topk(t: str, sizes: str, result: str, attributes: str) -> str:
    return f"""HloModule m
        ENTRY e {{
          p = {t}[{sizes}] parameter(0)
          ROOT r = ({t}[{result}], s32[{result}]) topk(p), {attributes}
        }}"""


def keys_of(text: str, *arrays: np.ndarray) -> list[np.ndarray] | None:
    """Returns the keys that are recognized in the comparator of a module's sort."""
    root = parse_hlo(text).entry_computation.root_instruction
    return sort_keys.comparator_keys(Context(), root.to_apply, arrays)


# Sort


def test_the_example_of_the_specification():
    text = sort(["s32", "s32", "f32"], "2", LESS, 0)
    value = evaluate(text, np.int32([3, 1]), np.int32([42, 50]), np.float32([-3.0, 1.1]))
    assert [part.tolist() for part in value] == [[1, 3], [50, 42], [float(np.float32(1.1)), -3]]


def test_each_dimension_is_sorted_by_itself():
    matrix = np.int32([[3, 1, 2], [0, 5, -1]])
    assert evaluate(sort(["s32"], "2,3", LESS, 0), matrix).tolist() == [[0, 1, -1], [3, 5, 2]]
    assert evaluate(sort(["s32"], "2,3", LESS, 1), matrix).tolist() == [[1, 2, 3], [-1, 0, 5]]
    cube = np.random.default_rng(0).integers(0, 9, (3, 4, 5)).astype(np.int32)
    np.testing.assert_array_equal(evaluate(sort(["s32"], "3,4,5", LESS, 1), cube), np.sort(cube, axis=1))


@pytest.mark.parametrize("comparator", [LESS, DIFFERENCE], ids=["by keys", "by merging"])
def test_equal_elements_keep_their_order(comparator: str):
    keys = np.random.default_rng(1).integers(0, 5, (3, 101)).astype(np.int32)
    places = np.tile(np.arange(101, dtype=np.int32), (3, 1))
    sorted_keys, order = evaluate(sort(["s32", "s32"], "3,101", comparator, 1), keys, places)
    np.testing.assert_array_equal(order, np.argsort(keys, axis=1, kind="stable"))
    np.testing.assert_array_equal(sorted_keys, np.sort(keys, axis=1))


@pytest.mark.parametrize("length", [0, 1, 2, 3, 7, 8, 9, 64, 100])
@pytest.mark.parametrize("rows", [0, 1, 3])
def test_merge_sort_handles_rows_of_any_length(rows: int, length: int):
    keys = np.random.default_rng(2).integers(0, 40, (rows, length)).astype(np.int32)
    value = evaluate(sort(["s32"], f"{rows},{length}", DIFFERENCE, 1), keys)
    np.testing.assert_array_equal(value, np.sort(keys, axis=1))


def test_an_inconsistent_comparator_still_gives_a_permutation():
    values = random_array((500,), np.float32, np.random.default_rng(3))
    for comparator in (
        LESS,  # with NaN among the values
        "ROOT r = pred[] constant(true)",
        "ROOT r = pred[] constant(false)",
        "ROOT r = pred[] compare(p0, p1), direction=NE",
        "ROOT r = pred[] compare(p0, p1), direction=GE",
        "z = f32[] constant(0)\nROOT r = pred[] compare(p0, z), direction=LT",
    ):
        result = evaluate(sort(["f32"], "500", comparator, 0), values)
        assert sorted(result.view(np.int32)) == sorted(values.view(np.int32)), comparator


def test_the_comparator_may_ignore_an_operand_and_be_a_parameter():
    flags = np.array([False, True, False, True])
    places = np.arange(4, dtype=np.int32)
    only_left = "n = pred[] not(p1)\nROOT r = pred[] and(p0, n)"
    assert evaluate(sort(["pred", "s32"], "4", only_left, 0), flags, places)[1].tolist() == [1, 3, 0, 2]
    order = evaluate(sort(["pred", "s32"], "4", "ROOT r = pred[] copy(p0)", 0), flags, places)[1]
    assert sorted(order) == [0, 1, 2, 3]


# Recognizing keys in comparators


def test_total_order_and_partial_order_of_floats():
    values = np.array([1, np.nan, -0.0, 0.0, -np.inf, np.inf, -np.nan, 3], np.float32)
    places = np.arange(8, dtype=np.int32)
    total = sort(["f32", "s32"], "8", LESS + ", type=TOTALORDER", 0)
    assert evaluate(total, values, places)[1].tolist() == [6, 4, 2, 3, 0, 7, 5, 1]
    finite = np.array([1, 5, 0.0, -0.0, -np.inf, np.inf, -1, -0.0], np.float32)
    partial = sort(["f32", "s32"], "8", LESS, 0)
    assert evaluate(partial, finite, places)[1].tolist() == [4, 6, 2, 3, 7, 0, 1, 5]
    assert keys_of(partial, finite, places) is not None
    assert keys_of(partial, values, places) is None, "NaN stands nowhere in the partial order"


@pytest.mark.parametrize(
    ("comparator", "count"),
    [
        (LESS, 1),
        ("ROOT r = pred[] compare(p1, p0), direction=GT", 1),
        ("n = pred[] compare(p0, p1), direction=LE\nROOT r = pred[] not(n)", 1),
        ("a = s32[] abs(p0)\nb = s32[] abs(p1)\nROOT r = pred[] compare(a, b), direction=LT", 1),
        ("a = s32[] add(p0, p2)\nb = s32[] add(p1, p3)\nROOT r = pred[] compare(a, b), direction=GT", 1),
        (
            "e = pred[] compare(p0, p1), direction=EQ\nl = pred[] compare(p0, p1), direction=LT\n"
            "g = pred[] compare(p2, p3), direction=GT\nb = pred[] and(e, g)\nROOT r = pred[] or(l, b)",
            2,
        ),
        (
            "e = pred[] compare(p2, p3), direction=NE\nl = pred[] compare(p0, p1), direction=LT\n"
            "g = pred[] compare(p3, p2), direction=GT\nROOT r = pred[] select(e, g, l)",
            2,
        ),
        (
            "l = pred[] compare(p0, p1), direction=LT\ng = pred[] compare(p0, p1), direction=GT\n"
            "n = pred[] not(g)\nm = pred[] compare(p2, p3), direction=LT\nb = pred[] and(n, m)\n"
            "ROOT r = pred[] or(l, b)",
            2,
        ),
        ("l = pred[] compare(p0, p1), direction=LT\nt = pred[] constant(true)\nROOT r = pred[] and(t, l)", 1),
    ],
)
def test_comparators_that_compare_by_keys_are_recognized(comparator: str, count: int):
    rng = np.random.default_rng(4)
    arrays = [rng.integers(-3, 3, (2, 50)).astype(np.int32) for _ in range(2)]
    text = sort(["s32", "s32", "s32"], "2,50", comparator, 1)
    places = np.tile(np.arange(50, dtype=np.int32), (2, 1))
    keys = keys_of(text, *arrays, places)
    assert keys is not None
    assert len(keys) == count
    computation = parse_hlo(text).entry_computation.root_instruction.to_apply
    merged = sorting._merge_order(Context(), computation, [*arrays, places])
    np.testing.assert_array_equal(evaluate(text, *arrays, places)[2], merged)


@pytest.mark.parametrize(
    "comparator",
    [
        DIFFERENCE,
        "ROOT r = pred[] compare(p0, p3), direction=LT",
        "a = s32[] negate(p0)\nROOT r = pred[] compare(a, p1), direction=LT",
        "l = pred[] compare(p0, p1), direction=LT\nm = pred[] compare(p2, p3), direction=LT\nROOT r = pred[] or(l, m)",
        "z = s32[] constant(0)\nROOT r = pred[] compare(p0, z), direction=LT",
        "ROOT r = pred[] constant(true)",
    ],
)
def test_other_comparators_are_not_recognized(comparator: str):
    values = np.arange(6, dtype=np.int32)
    assert keys_of(sort(["s32", "s32"], "6", comparator, 0), values, values) is None


def test_large_sorts():
    rng = np.random.default_rng(5)
    values, places = rng.integers(0, 1000, 1_000_000).astype(np.int32), np.arange(1_000_000, dtype=np.int32)
    order = evaluate(sort(["s32", "s32"], "1000000", LESS, 0), values, places)[1]
    np.testing.assert_array_equal(order, np.argsort(values, kind="stable"))
    order = evaluate(sort(["s32", "s32"], "100000", DIFFERENCE, 0), values[:100_000], places[:100_000])[1]
    np.testing.assert_array_equal(order, np.argsort(values[:100_000], kind="stable"))


# TopK


def test_topk_examples_of_the_builder():
    values, indices = evaluate(topk("f32", "3", "2", "k=2, largest=true"), np.float32([0.1, 0.3, 0.2]))
    assert (values.tolist(), indices.tolist()) == (np.float32([0.3, 0.2]).tolist(), [1, 2])
    rows = np.float32([[0.1, 0.3, 0.2], [0.5, 0.4, 0.6]])
    assert evaluate(topk("f32", "2,3", "2,1", "k=1, largest=true"), rows)[1].tolist() == [[1], [2]]
    assert evaluate(topk("f32", "2,3", "2,2", "k=2, largest=false"), rows)[1].tolist() == [[0, 2], [1, 0]]


def test_topk_orders_nan_and_zeros_and_keeps_ties_in_order():
    values = np.array([1, np.nan, -0.0, 0.0, -np.inf, np.inf, -np.nan, 3, 3, -0.0], np.float32)
    largest = evaluate(topk("f32", "10", "10", "k=10, largest=true"), values)[1]
    assert largest.tolist() == [1, 5, 7, 8, 0, 3, 2, 9, 4, 6]
    smallest = evaluate(topk("f32", "10", "10", "k=10, largest=false"), values)[1]
    assert smallest.tolist() == [6, 4, 2, 9, 3, 0, 7, 8, 5, 1]
    integers = np.int8([3, 1, 3, -128])
    assert evaluate(topk("s8", "4", "4", "k=4, largest=true"), integers)[1].tolist() == [0, 2, 1, 3]
    assert evaluate(topk("u64", "3", "2", "k=2, largest=false"), np.uint64([2**64 - 1, 5, 0]))[1].tolist() == [2, 1]
    nibbles = np.array([-8, 7, 0]).astype(ml_dtypes.int4)
    assert evaluate(topk("s4", "3", "3", "k=3, largest=true"), nibbles)[1].tolist() == [1, 2, 0]


def test_topk_of_none():
    values, indices = evaluate(topk("f32", "2,0", "2,0", "k=0, largest=true"), np.zeros((2, 0), np.float32))
    assert (values.shape, indices.shape, indices.dtype) == ((2, 0), (2, 0), np.int32)


# XLA:CPU

NOT_ON_XLA = {
    "topk_s4": "sub-byte types",
    "topk_u4": "sub-byte types",
    "topk_f4e2m1fn": "sub-byte types",
    **dict.fromkeys(("sort_s2", "sort_u2", "topk_s2", "topk_u2"), "sub-byte types"),
    "topk_unstable": "newer than jaxlib",
    "sort_dynamic": "dynamic results",
    "topk_dynamic": "dynamic results",
}
PLAIN_LESS_THAN = ("sort_descending", "sort_middle")
"""Samples that compare floats by IEEE's order, in which NaN is unordered."""


@pytest.mark.parametrize(
    "sample", [s for s in samples_of("sorting") if s.name not in NOT_ON_XLA], ids=lambda sample: sample.name
)
def test_samples_agree_with_xla(sample: Any):
    rng = np.random.default_rng(6)
    parameters = parse_hlo(sample.text).entry_computation.parameters
    special = sample.name not in PLAIN_LESS_THAN
    arguments = [random_array(p.shape.dimensions, p.shape.dtype, rng, special) for p in parameters]
    if sample.name == "sort_difference":  # differences must not overflow
        arguments[0] = arguments[0] % 100
    expected = xla_reference.run_hlo(sample.text, arguments, fast=True)
    assert_close(evaluate(sample.text, *arguments), expected, rule="bits", flush_denormals=True)


@pytest.mark.parametrize("largest", ["true", "false"])
def test_topk_of_every_type_is_that_of_xla(largest: str):
    rng = np.random.default_rng(7)
    for t, dtype in {
        "f32": np.float32,
        "f64": np.float64,
        "f16": np.float16,
        "bf16": ml_dtypes.bfloat16,
        "f8e5m2": ml_dtypes.float8_e5m2,
        "f8e4m3fnuz": ml_dtypes.float8_e4m3fnuz,
        "u64": np.uint64,
        "s8": np.int8,
        "pred": np.bool_,
    }.items():
        text = topk(t, "3,50", "3,20", f"k=20, largest={largest}")
        operand = random_array((3, 50), dtype, rng)
        assert_close(evaluate(text, operand), xla_reference.run_hlo(text, [operand], fast=True), rule="bits")
