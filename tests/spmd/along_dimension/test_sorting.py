"""Sorts along a split dimension: the results of the whole program, bit by bit, and no gathered array."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.spmd.along_dimension.partitioned import check_partitioned, collectives, largest_all_gather
from xlapy.spmd.along_dimension import sorting
from xlapy.spmd.along_dimension.merge_network import merge_stages
from xlapy.spmd.along_dimension.sort_plan import (
    ExchangeRows,
    Gather,
    MergeTiles,
    SearchBoundaries,
    SortPlan,
    SplitRows,
    choose_sort_plan,
    plan_seconds,
)

COMPARATORS = """HloModule m
by_value { a = f32[] parameter(0)
  b = f32[] parameter(1)
  zero = f32[] constant(0)
  nan = f32[] constant(nan)
  a_zero = pred[] compare(a, zero), direction=EQ
  a0 = f32[] select(a_zero, zero, a)
  a_nan = pred[] compare(a, a), direction=NE
  a1 = f32[] select(a_nan, nan, a0)
  b_zero = pred[] compare(b, zero), direction=EQ
  b0 = f32[] select(b_zero, zero, b)
  b_nan = pred[] compare(b, b), direction=NE
  b1 = f32[] select(b_nan, nan, b0)
  ROOT c = pred[] compare(a1, b1), direction=LT, type=TOTALORDER }
partial { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=LT }
descending { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = pred[] compare(a, b), direction=GT }
two_keys { a = s32[] parameter(0)
  b = s32[] parameter(1)
  c = u8[] parameter(2)
  d = u8[] parameter(3)
  e = bf16[] parameter(4)
  f = bf16[] parameter(5)
  less = pred[] compare(c, d), direction=GT
  equal = pred[] compare(c, d), direction=EQ
  next = pred[] compare(a, b), direction=LT
  both = pred[] and(equal, next)
  ROOT g = pred[] or(less, both) }
no_order { a = s32[] parameter(0)
  b = s32[] parameter(1)
  three = s32[] constant(3)
  c = s32[] subtract(a, b)
  d = s32[] remainder(c, three)
  one = s32[] constant(1)
  ROOT e = pred[] compare(d, one), direction=EQ }
"""


def row_sort(element_type: str, size: int, comparator: str, devices: int) -> str:
    split = f"{{devices=[{devices}]<=[{devices}]}}"
    return f"""{COMPARATORS}
      ENTRY e {{ x = {element_type}[{size}] parameter(0), sharding={split}
        ROOT r = {element_type}[{size}] sort(x), dimensions={{0}}, is_stable=true, to_apply={comparator},
          sharding={split} }}"""


def floats(kind: str, size: int) -> Any:
    generator = np.random.default_rng(size)
    values = generator.standard_normal(size).astype(np.float32)
    if kind == "ties":
        choices = np.array([0.0, -0.0, np.nan, 1.5, -1.5, np.inf], np.float32)
        return choices[generator.integers(0, len(choices), size)]
    return {"random": values, "sorted": np.sort(values), "reversed": np.sort(values)[::-1].copy()}[kind]


@pytest.fixture
def short_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that would be gathered, because they are short, are sorted by search of boundaries."""
    monkeypatch.setattr(
        sorting, "choose_sort_plan", lambda _, is_ordered, *__: SearchBoundaries(7) if is_ordered else Gather()
    )


@pytest.mark.usefixtures("short_rows")
@pytest.mark.parametrize("devices", [2, 4, 8])
@pytest.mark.parametrize("kind", ["random", "sorted", "reversed", "ties"])
def test_one_row_is_sorted_by_all_devices(kind: str, devices: int) -> None:
    module = check_partitioned(row_sort("f32", 2048, "by_value", devices), devices, [floats(kind, 2048)])
    assert collectives(module) == ["all-gather", "all-to-all"]
    assert largest_all_gather(module) <= devices**2 * 7


@pytest.mark.usefixtures("short_rows")
@pytest.mark.parametrize("seed", range(3))
def test_equal_elements_of_several_operands_keep_their_order(seed: int) -> None:
    generator = np.random.default_rng(seed)
    devices = int(generator.choice([2, 3, 4, 8]))
    size = devices * int(generator.integers(devices**2, 200))
    split = f"{{devices=[{devices}]<=[{devices}]}}"
    text = f"""{COMPARATORS}
      ENTRY e {{ x = s32[{size}] parameter(0), sharding={split}
        y = u8[{size}] parameter(1), sharding={split}
        z = bf16[{size}] parameter(2)
        ROOT r = (s32[{size}], u8[{size}], bf16[{size}]) sort(x, y, z), dimensions={{0}}, is_stable=true,
          to_apply=two_keys, sharding={{{split}, {split}, {split}}} }}"""
    bf16 = xla.Shape.parse("bf16[]").dtype
    given = [
        generator.integers(-2, 2, size).astype(np.int32),
        generator.integers(0, 3, size).astype(np.uint8),
        np.arange(size).astype(bf16),
    ]
    module = check_partitioned(text, devices, given)
    assert largest_all_gather(module) <= devices**2 * 7


@pytest.mark.usefixtures("short_rows")
def test_a_descending_row_on_the_native_platform() -> None:
    values = np.random.default_rng(0).integers(-50, 50, 1000).astype(np.int32)
    module = check_partitioned(row_sort("s32", 1000, "descending", 8), 8, [values], "cpu")
    assert collectives(module) == ["all-gather", "all-to-all"]


@pytest.mark.usefixtures("short_rows")
@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
@pytest.mark.parametrize("kind", ["random", "zeros", "ties"])
def test_a_row_in_partial_order_is_gathered_if_it_has_nan(kind: str, platform: str) -> None:
    """Without NaN, only the branch that exchanges tiles runs; zeros of both signs are equal."""
    given = floats("ties" if kind == "zeros" else kind, 512)
    if kind == "zeros":
        given[np.isnan(given)] = -0.0
    module = check_partitioned(row_sort("f32", 512, "partial", 4), 4, [given], platform)
    assert collectives(module) == ["all-gather", "all-reduce", "all-to-all"]
    (branch,) = [i for i in module.instructions() if i.op.name == "conditional"]
    gathers = [[i.shape.size for i in c if i.op.name == "all-gather"] for c in branch.computations]
    assert gathers[0] == [512]
    assert max(gathers[1], default=0) < 512


@pytest.mark.usefixtures("short_rows")
def test_a_row_without_an_order_is_gathered() -> None:
    given = np.random.default_rng(0).integers(0, 9, 512, np.int32)
    module = check_partitioned(row_sort("s32", 512, "no_order", 4), 4, [given])
    assert collectives(module) == ["all-gather"]
    assert largest_all_gather(module) == 512


def test_short_rows_are_gathered() -> None:
    module = check_partitioned(row_sort("f32", 64, "by_value", 4), 4, [floats("ties", 64)])
    assert collectives(module) == ["all-gather"]


@pytest.mark.parametrize("comparator", ["by_value", "partial"])
@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
@pytest.mark.parametrize(
    ("dimensions", "dimension", "tiles"),
    [
        ((5, 16), 1, (1, 8)),
        ((16, 3), 0, (8, 1)),
        ((2, 16, 5), 1, (2, 4, 1)),
        ((16, 8), 0, (4, 2)),
        ((24, 8), 1, (1, 8)),
    ],
)
def test_rows_are_exchanged(
    dimensions: tuple[int, ...], dimension: int, tiles: tuple[int, ...], platform: str, comparator: str
) -> None:
    """Whole rows go to devices, and tiles back. The number of rows need not be a multiple of that of devices."""
    shape, assignment = ",".join(map(str, dimensions)), ",".join(map(str, tiles))
    text = f"""{COMPARATORS}
      ENTRY e {{ x = f32[{shape}] parameter(0), sharding={{devices=[{assignment}]<=[8]}}
        ROOT r = f32[{shape}] sort(x), dimensions={{{dimension}}}, is_stable=true, to_apply={comparator},
          sharding={{devices=[{assignment}]<=[8]}} }}"""
    module = check_partitioned(text, 8, [floats("ties", int(np.prod(dimensions))).reshape(dimensions)], platform)
    assert collectives(module) == ["all-to-all"]


def test_rows_of_a_manual_region_are_exchanged_inside_of_it() -> None:
    """Devices with different coordinates along the manual axis sort rows of their own."""
    mesh = "mesh['x'=2,'y'=4]"
    text = f"""{COMPARATORS}
      ENTRY e {{ x = f32[8,16] parameter(0), sharding={{{mesh}, [{{'x'}}, {{'y'}}]}}
        p = f32[4,16] custom-call(x), custom_call_target="SPMDFullToShardShape",
          sharding={{{mesh}, [{{}}, {{'y'}}], manual={{'x'}}}}
        s = f32[4,16] sort(p), dimensions={{1}}, is_stable=true, to_apply=by_value
        b = f32[4,16] custom-call(s), custom_call_target="Sharding",
          sharding={{{mesh}, [{{}}, {{'y'}}], manual={{'x'}}}}
        ROOT r = f32[8,16] custom-call(b), custom_call_target="SPMDShardToFullShape",
          sharding={{{mesh}, [{{'x'}}, {{'y'}}]}} }}"""
    whole = f"""{COMPARATORS}
      ENTRY e {{ x = f32[8,16] parameter(0)
        ROOT s = f32[8,16] sort(x), dimensions={{1}}, is_stable=true, to_apply=by_value }}"""
    given = floats("random", 128).reshape(8, 16)
    module = check_partitioned(text, 8, [given], whole=whole)
    assert collectives(module) == ["all-to-all"]


@pytest.mark.parametrize("dimension", [0, 1])
def test_argsort_sends_neither_counting_operands_nor_unused_results(dimension: int) -> None:
    tiles = "8,1" if dimension == 0 else "1,8"
    text = f"""{COMPARATORS}
      by_first {{ a = f32[] parameter(0)
        b = f32[] parameter(1)
        c = s32[] parameter(2)
        d = s32[] parameter(3)
        ROOT e = pred[] compare(a, b), direction=LT, type=TOTALORDER }}
      ENTRY e {{ x = f32[16,24] parameter(0), sharding={{devices=[{tiles}]<=[8]}}
        i = s32[16,24] iota(), iota_dimension={dimension}
        s = (f32[16,24], s32[16,24]) sort(x, i), dimensions={{{dimension}}}, is_stable=true, to_apply=by_first
        ROOT r = s32[16,24] get-tuple-element(s), index=1, sharding={{devices=[{tiles}]<=[8]}} }}"""
    module = check_partitioned(text, 8, [floats("ties", 384).reshape(16, 24)], "cpu")
    assert [i.shape.element_type.name for i in module.instructions() if i.op.name == "all-to-all"] == ["F32", "S32"]


# -- rows that do not divide evenly, many devices, few rows


def uneven_sort(dimensions: str, dimension: int, devices: int, comparator: str) -> str:
    """Returns the sort of an array whose tiles need not be full; the result is whole on every device."""
    split = f"{{devices=[{'1,' * dimension}{devices}]<=[{devices}]}}"
    types = ["s32", "u8", "bf16"] if comparator == "two_keys" else ["s32" if comparator == "descending" else "f32"]
    names = [f"p{number}" for number in range(len(types))]
    lines = [f"{n} = {t}[{dimensions}] parameter({i})" for i, (n, t) in enumerate(zip(names, types, strict=True))]
    lines.append(f"s0 = {types[0]}[{dimensions}] copy(p0), sharding={split}")
    shapes = [f"{t}[{dimensions}]" for t in types]
    shape = shapes[0] if len(shapes) == 1 else f"({', '.join(shapes)})"
    sharding = split if len(shapes) == 1 else "{" + ", ".join([split] * len(shapes)) + "}"
    lines.append(
        f"r = {shape} sort({', '.join(['s0', *names[1:]])}), dimensions={{{dimension}}}, is_stable=true, "
        f"to_apply={comparator}, sharding={sharding}"
    )
    if len(shapes) == 1:
        lines.append(f"ROOT w = {shape} copy(r)")
    else:
        parts = [f"g{n} = {one} get-tuple-element(r), index={n}" for n, one in enumerate(shapes)]
        lines += [*parts, f"ROOT w = {shape} tuple({', '.join(f'g{n}' for n in range(len(shapes)))})"]
    return f"{COMPARATORS}\nENTRY e {{ " + "\n".join(lines) + " }"


def given_for(comparator: str, dimensions: tuple[int, ...], seed: int) -> list[Any]:
    generator, size = np.random.default_rng(seed), int(np.prod(dimensions))
    if comparator == "two_keys":
        last = generator.standard_normal(dimensions).astype(xla.Shape.parse("bf16[]").dtype)
        return [generator.integers(-2, 2, dimensions, np.int32), generator.integers(0, 3, dimensions, np.uint8), last]
    if comparator == "descending":
        extremes = np.array([np.iinfo(np.int32).min, np.iinfo(np.int32).max, 0, -1], np.int32)
        return [extremes[generator.integers(0, 4, dimensions)]]
    return [floats(["ties", "random", "reversed"][seed % 3], size).reshape(dimensions)]


@pytest.mark.parametrize("platform", ["interpreter", "cpu"])
@pytest.mark.parametrize(
    ("plan", "dimensions", "devices", "comparator"),
    [
        (SearchBoundaries(1), (41,), 8, "by_value"),
        (SearchBoundaries(3), (9,), 8, "two_keys"),  # three devices have no element of the row
        (SearchBoundaries(7), (203,), 6, "partial"),
        (SearchBoundaries(7), (1, 301), 3, "descending"),
        (MergeTiles(), (41,), 8, "two_keys"),
        (MergeTiles(), (3, 50), 6, "partial"),
        (MergeTiles(), (2, 37), 3, "by_value"),
        (MergeTiles(), (10,), 8, "descending"),
    ],
    ids=str,
)
def test_tiles_that_are_not_full_are_sorted_to_the_end(
    plan: SortPlan,
    dimensions: tuple[int, ...],
    devices: int,
    comparator: str,
    platform: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sorting, "choose_sort_plan", lambda *_: plan)
    text = uneven_sort(",".join(map(str, dimensions)), len(dimensions) - 1, devices, comparator)
    for seed in range(2):
        module = check_partitioned(text, devices, given_for(comparator, dimensions, seed), platform)
    used = set(collectives(module))
    assert ("collective-permute" if plan == MergeTiles() else "all-to-all") in used


def test_a_row_shorter_than_the_square_of_the_devices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sorting, "choose_sort_plan", lambda *_: MergeTiles())
    module = check_partitioned(row_sort("f32", 64, "by_value", 16), 16, [floats("ties", 64)])
    assert collectives(module) == ["collective-permute"]
    permutes = sum(i.op.name == "collective-permute" for i in module.instructions())
    assert permutes <= 2 * len(merge_stages(16))


@pytest.mark.parametrize("members", [1, 2, 3, 5, 6, 8, 13, 16])
def test_the_merge_network_sorts_all_zeros_and_ones(members: int) -> None:
    """A network of comparisons that sorts all sequences of zeros and ones sorts everything (the zero-one principle)."""
    given = (np.arange(1 << members)[:, None] >> np.arange(members)) & 1
    for stage in merge_stages(members):
        ends = [tile for pair in stage for tile in pair]
        assert len(set(ends)) == len(ends)
        for first, second in stage:
            pair = given[:, [first, second]]
            given[:, first], given[:, second] = pair.min(1), pair.max(1)
    assert (np.diff(given, axis=1) >= 0).all()


def test_plans_take_the_least_time() -> None:
    short, long = SplitRows(1, 64, 8, 1, 4, 4), SplitRows(1, 1 << 20, 8, 1, 4, 4)
    assert choose_sort_plan(short, True) == Gather()
    assert isinstance(choose_sort_plan(long, True), SearchBoundaries)
    assert choose_sort_plan(long, False) == Gather()
    assert choose_sort_plan(SplitRows(1, 1 << 20, 256, 1, 4, 4), True) == MergeTiles()
    assert choose_sort_plan(SplitRows(64, 1 << 12, 8, 1, 4, 4), True) == ExchangeRows()
    by_merging = plan_seconds(MergeTiles(), SplitRows(1, 1 << 20, 256, 1, 4, 4))
    assert by_merging < plan_seconds(SearchBoundaries(1), SplitRows(1, 1 << 20, 256, 1, 4, 4))
    assert choose_sort_plan(long, True, needs_whole=True) != Gather()  # sorting in parallel saves more than it sends
