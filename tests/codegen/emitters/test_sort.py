"""Radix sorts, merge sorts and top-k agree with the interpreter."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from tests.lower.test_sort_keys import CANONICAL, sort
from xlapy.cpu.compiler import compile_module


def uses_radix_sort(module: xla.Module) -> bool:
    return "scratch counts" in compile_module(module).loops()


def results(client: str, module: xla.Module, *arguments: np.ndarray) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in xla.Client(client).compile(module)(*arguments)]


def assert_same(module: xla.Module, *arguments: np.ndarray) -> None:
    for ours, theirs in zip(
        results("cpu", module, *arguments), results("interpreter", module, *arguments), strict=True
    ):
        assert ours.tobytes() == theirs.tobytes()


@pytest.mark.parametrize(
    ("body", "size", "expected"),
    [
        (CANONICAL, 1000, True),
        ("ROOT r = pred[] compare(a, b), direction=LT", 1000, True),
        ("ROOT r = pred[] compare(a, b), direction=LT", 20, False),  # too short for histograms
        ("ROOT r = pred[] compare(a, b), direction=LE", 1000, False),
    ],
)
def test_choice_of_algorithm(body: str, size: int, expected: bool):
    assert uses_radix_sort(sort(body, size=size)) == expected


@pytest.mark.parametrize("size", [1, 2, 31, 300, 5000])
def test_zeros_nan_and_their_order(size: int):
    rng = np.random.default_rng(0)
    x = rng.integers(-5, 6, size).astype(np.float32) / rng.integers(1, 4, size).astype(np.float32)
    x[rng.random(size) < 0.2] = -0.0
    x[rng.random(size) < 0.1] = np.nan
    x[rng.random(size) < 0.1] = np.inf
    assert_same(sort(CANONICAL, size=size), x)


@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("t", ["s8", "u16", "s32", "u64", "f16", "bf16", "f32", "f64", "pred", "s4"])
def test_types(t: str, direction: str):
    order = ", type=TOTALORDER" if "f" in t else ""
    module = sort(f"ROOT r = pred[] compare(a, b), direction={direction}{order}", t, 700)
    shape = module.entry_computation.parameters[0].shape
    limit = 1000 if t == "f16" else 2**31
    numbers = np.random.default_rng(2).integers(-limit, limit, shape.dimensions)
    x = (numbers % 2 if t == "pred" else numbers % 16 - 8 if t == "s4" else numbers).astype(shape.dtype)
    assert uses_radix_sort(module)
    assert_same(module, x)


@pytest.mark.parametrize(("shape", "dimension"), [("3,200", 1), ("200,3", 0), ("2,300,5", 1)])
def test_sorts_along_any_dimension(shape: str, dimension: int):
    module = xla.parse_hlo(
        "HloModule m\nf { a = s32[] parameter(0)\n b = s32[] parameter(1)\n c = u8[] parameter(2)\n"
        " d = u8[] parameter(3)\n"
        f" ROOT r = pred[] compare(a, b), direction=LT }}\nENTRY e {{ x = s32[{shape}] parameter(0)\n"
        f" y = u8[{shape}] parameter(1)\n"
        f" ROOT r = (s32[{shape}], u8[{shape}]) sort(x, y), dimensions={{{dimension}}}, is_stable=true, to_apply=f }}"
    )
    dimensions = [int(size) for size in shape.split(",")]
    rng = np.random.default_rng(4)
    assert_same(module, rng.integers(-99, 99, dimensions, np.int32), rng.integers(0, 99, dimensions).astype(np.uint8))


@pytest.mark.parametrize("direction", ["LT", "LE"])
@pytest.mark.parametrize(("shape", "dimension"), [("5,300", 1), ("300,5", 0), ("6,7", 1), ("7,6", 0)])
def test_complex_numbers_and_booleans_follow_keys(shape: str, dimension: int, direction: str):
    """Radix sort and merge sort, with spare slices in scratch memory."""
    module = xla.parse_hlo(
        "HloModule m\nf { a = s16[] parameter(0)\n b = s16[] parameter(1)\n c = c64[] parameter(2)\n"
        " d = c64[] parameter(3)\n g = pred[] parameter(4)\n h = pred[] parameter(5)\n"
        f" ROOT r = pred[] compare(a, b), direction={direction} }}\nENTRY e {{ x = s16[{shape}] parameter(0)\n"
        f" y = c64[{shape}] parameter(1)\n z = pred[{shape}] parameter(2)\n"
        f" ROOT r = (s16[{shape}], c64[{shape}], pred[{shape}]) sort(x, y, z), dimensions={{{dimension}}},"
        " is_stable=true, to_apply=f }"
    )
    dimensions = [int(size) for size in shape.split(",")]
    rng = np.random.default_rng(7)
    keys = rng.permutation(np.arange(np.prod(dimensions))).reshape(dimensions).astype(np.int16)
    parts = rng.standard_normal((2, *dimensions)).astype(np.float32)
    assert_same(module, keys, parts[0] + 1j * parts[1], rng.random(dimensions) < 0.5)


@pytest.mark.parametrize(
    ("shape", "dimension", "temporaries"),
    [
        ("f32[1000,300]", 1, 0),
        ("f32[300,1000]", 0, 0),
        ("f32[4,262144]", 1, 0),
        ("f64[5,4]", 1, 0),
        ("f32[4,262145]", 1, 4 * 262145 * 4),
        ("f64[8,140000]", 1, 8 * 140000 * 8),
    ],
)
def test_temporaries_of_sorts(shape: str, dimension: int, temporaries: int):
    """Slices of at most a MiB move to scratch memory."""
    t, _, _ = shape.partition("[")
    module = xla.parse_hlo(
        f"HloModule m\nf {{ a = {t}[] parameter(0)\n b = {t}[] parameter(1)\n"
        " ROOT r = pred[] compare(a, b), direction=LT, type=TOTALORDER }\n"
        f"ENTRY e {{ x = {shape} parameter(0)\n ROOT r = {shape} sort(x), dimensions={{{dimension}}}, to_apply=f }}"
    )
    found = xla.Client("cpu").compile(module).memory_analysis().temp_size_in_bytes
    assert found == -(-temporaries // 64) * 64


def test_small_numbers_in_wide_integers():
    x = np.random.default_rng(5).integers(0, 7, 999)
    assert_same(sort("ROOT r = pred[] compare(a, b), direction=LT", "s64", 999), x)


def top_k(shape: str, k: int, largest: bool) -> xla.Module:
    t, _, sizes = shape.partition("[")
    outer = ",".join([*sizes[:-1].split(",")[:-1], str(k)])
    return xla.parse_hlo(
        f"HloModule m\nENTRY e {{ x = {shape} parameter(0)\n"
        f" ROOT r = ({t}[{outer}], s32[{outer}]) topk(x), k={k}, largest={str(largest).lower()} }}"
    )


@pytest.mark.parametrize("largest", [True, False])
@pytest.mark.parametrize(
    ("shape", "k", "is_sorted"),
    [
        ("f32[7,1000]", 10, False), ("f32[900]", 1, False), ("bf16[3,2,500]", 20, False), ("u8[4,600]", 3, False),
        ("s64[2,70]", 5, False), ("f32[3,9]", 8, False), ("s8[2,5]", 5, False), ("f64[1,129]", 16, False),
        ("f32[2,400]", 200, True), ("s32[1,1100]", 150, True), ("s32[1,2000]", 150, False),
        ("f32[3,20000]", 300, False),
        ("bf16[9000]", 1000, False), ("f64[2,5003]", 200, False), ("u8[4100]", 300, False), ("f16[70001]", 4096, False),
        ("s16[70001]", 4097, True), ("s64[30011]", 999, False),
    ],
)  # fmt: skip
def test_top_k_with_ties_zeros_and_nan(shape: str, k: int, is_sorted: bool, largest: bool):
    module = top_k(shape, k, largest)
    parameter = module.entry_computation.parameters[0].shape
    rng = np.random.default_rng(6)
    x = rng.integers(0, 60, parameter.dimensions).astype(parameter.dtype)
    if "f" in shape:
        x = x * rng.choice([-1, 1], x.shape).astype(x.dtype)
        x[rng.random(x.shape) < 0.01] = np.nan
    assert ("scratch positions" not in compile_module(module).loops()) == is_sorted
    assert_same(module, x)


@pytest.mark.parametrize("k", [33, 137, 187])
def test_top_k_of_an_ascending_row_inserts_every_element(k: int):
    x = np.arange(3000, dtype=np.float32).reshape(2, 1500)
    assert_same(top_k("f32[2,1500]", k, True), x)
    assert_same(top_k("f32[2,1500]", k, True), x[:, ::-1].copy())
    assert_same(top_k("f32[2,1500]", k, True), np.zeros_like(x))
