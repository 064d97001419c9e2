"""Sorts of a few long slices, whose blocks are tasks: the same elements in the same order as a stable sort."""

from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from xlapy.base import flags
from xlapy.codegen.emitters.sort import merging, radix_sort, sort
from xlapy.cpu.compiler import compile_module
from xlapy.cpu.program import instruction_thunks
from xlapy.cpu.program.thunks import walk_thunks
from xlapy.cpu.target import host_target

NAMES: dict[str, Any] = {
    "u8": np.uint8,
    "s16": np.int16,
    "s32": np.int32,
    "u64": np.uint64,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}


def keyed(t: str, dimensions: str, axis: int, direction: str = "LT") -> str:
    """A sort of keys with a second array, which shows whether it is stable."""
    order = ", type=TOTALORDER" if t[0] in "bf" else ""
    return f"""HloModule keyed
before {{ a = {t}[] parameter(0)  b = {t}[] parameter(1)  c = s32[] parameter(2)  d = s32[] parameter(3)
  ROOT r = pred[] compare(a, b), direction={direction}{order} }}
ENTRY main {{ x = {t}[{dimensions}] parameter(0)  i = s32[{dimensions}] iota(), iota_dimension={axis}
  ROOT r = ({t}[{dimensions}], s32[{dimensions}]) sort(x, i), dimensions={{{axis}}}, to_apply=before,
    is_stable=true }}"""


def two_keys(length: int, rows: int = 1) -> str:
    return f"""HloModule two_keys
before {{ a = s32[] parameter(0)  b = s32[] parameter(1)  c = f32[] parameter(2)  d = f32[] parameter(3)
  e = s32[] parameter(4)  f = s32[] parameter(5)
  less = pred[] compare(a, b), direction=LT  same = pred[] compare(a, b), direction=EQ
  more = pred[] compare(c, d), direction=GT  second = pred[] and(same, more)  ROOT r = pred[] or(less, second) }}
ENTRY main {{ x = s32[{rows},{length}] parameter(0)  y = f32[{rows},{length}] parameter(1)
  i = s32[{rows},{length}] iota(), iota_dimension=1
  ROOT r = (s32[{rows},{length}], f32[{rows},{length}], s32[{rows},{length}]) sort(x, y, i), dimensions={{1}},
    to_apply=before, is_stable=true }}"""


def elements(t: str, shape: tuple[int, ...], few: bool) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(7)
    if few:
        return random.integers(0, 3, shape).astype(NAMES[t])
    size = int(np.prod(shape))
    raw = random.integers(0, 256, size * np.dtype(NAMES[t]).itemsize, dtype=np.uint8)
    return raw.view(NAMES[t]).reshape(shape)


def kernel_count(text: str) -> int:
    return sum(t.own_kernel is not None for t in walk_thunks(compile_module(xla.parse_hlo(text)).program.thunks))


def total_order(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Integers in the order of the elements, floats in the total order."""
    if x.dtype.kind in "iu":
        return x
    bits = x.view(f"i{x.dtype.itemsize}")
    return np.where(bits < 0, bits ^ np.array(np.iinfo(bits.dtype).max, bits.dtype), bits)


@pytest.fixture(autouse=True)
def verifying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flags, "current", lambda: flags.Flags({"verify_buffers": True}))


@pytest.fixture(params=[2, 3, 16])
def short_blocks(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Slices of a few blocks are sorted by blocks, for any number of processors."""
    target = dataclasses.replace(host_target(), processors=request.param)
    monkeypatch.setattr(instruction_thunks, "host_target", lambda: target)
    monkeypatch.setattr(sort, "RADIX_PARALLEL_LENGTH", 1 << 14)
    monkeypatch.setattr(sort, "RADIX_MIN_BLOCK", 3000)
    monkeypatch.setattr(radix_sort, "LONG_BLOCK", 6000)
    monkeypatch.setattr(merging, "MIN_PART", 100)


@pytest.mark.usefixtures("short_blocks")
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize("t", NAMES)
@pytest.mark.parametrize(("shape", "axis"), [((20011,), 0), ((3, 16384), 1), ((17001, 2), 0)])
def test_keys(t: str, shape: tuple[int, ...], axis: int, few: bool) -> None:
    text = keyed(t, ",".join(map(str, shape)), axis)
    x = elements(t, shape, few)
    found, places = map(np.asarray, xla.Client("cpu").compile(text)(x))
    expected = np.argsort(total_order(x), axis=axis, kind="stable")
    np.testing.assert_array_equal(places, expected)
    bits = f"u{x.dtype.itemsize}"
    np.testing.assert_array_equal(found.view(bits), np.take_along_axis(x, expected, axis).view(bits))
    assert kernel_count(text) >= 3


@pytest.mark.usefixtures("short_blocks")
def test_descending_keys() -> None:
    x = elements("s32", (30000,), False)
    found, places = map(np.asarray, xla.Client("cpu").compile(keyed("s32", "30000", 0, "GT"))(x))
    expected = np.argsort(~x, kind="stable")
    np.testing.assert_array_equal(places, expected)
    np.testing.assert_array_equal(found, x[expected])


@pytest.mark.usefixtures("short_blocks")
def test_equal_keys_stay_in_place() -> None:
    found, places = map(np.asarray, xla.Client("cpu").compile(keyed("f64", "16385", 0))(np.full(16385, -0.0)))
    np.testing.assert_array_equal(places, np.arange(16385))
    assert np.signbit(found).all()


@pytest.mark.parametrize(("length", "rows"), [(1024, 1), (1025, 3), (4097, 1), (65536, 2), (33, 1), (70001, 1)])
def test_any_comparator(length: int, rows: int) -> None:
    random = np.random.default_rng(length)
    x = random.integers(0, 9, (rows, length)).astype(np.int32)
    y = random.integers(0, 20, (rows, length)).astype(np.float32)
    found = [np.asarray(one) for one in xla.Client("cpu").compile(two_keys(length, rows))(x, y)]
    order = np.stack([np.lexsort((-y[row], x[row])) for row in range(rows)])
    for one, other in zip(found, (x, y, np.tile(np.arange(length), (rows, 1))), strict=True):
        np.testing.assert_array_equal(one, np.take_along_axis(other, order, 1))
    assert (kernel_count(two_keys(length, rows)) >= 5) == (length >= 1024)


@pytest.mark.parametrize(("processors", "length", "kernels"), [
    (1, 1 << 20, 1), (2, 1 << 20, 2), (3, 1 << 20, 3), (16, 1 << 20, 5), (16, 1 << 16, 2), (16, (1 << 16) - 1, 1),
])  # fmt: skip
def test_blocks_for_processors(processors: int, length: int, kernels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel sorts blocks, and further ones merge pairs of them."""
    target = dataclasses.replace(host_target(), processors=processors)
    monkeypatch.setattr(instruction_thunks, "host_target", lambda: target)
    assert kernel_count(keyed("f32", str(length), 0)) == kernels + 1  # one computes the second array


def test_many_slices_are_tasks_themselves() -> None:
    assert kernel_count(keyed("f32", f"4,{1 << 20}", 1)) <= 2
    assert kernel_count(two_keys(5000, 4)) <= 2


@pytest.mark.parametrize("length", [5000, 20001])
def test_nan_that_a_comparator_does_not_order_loses_no_element(length: int):
    """The order of NaN by a plain comparison is unspecified, but the result is a permutation."""
    random = np.random.default_rng(0)
    first = random.integers(0, 3, (1, length)).astype(np.int32)
    second = random.standard_normal((1, length)).astype(np.float32)
    second[random.random((1, length)) < 0.2] = np.nan
    results = xla.Client("cpu").compile(xla.parse_hlo(two_keys(length)))(first, second)
    numbers = np.asarray(results[2])[0]
    np.testing.assert_array_equal(np.sort(numbers), np.arange(length))
    np.testing.assert_array_equal(np.asarray(results[1])[0], second[0][numbers])
