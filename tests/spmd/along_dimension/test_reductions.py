"""Cumulative operations, reductions of pairs and top-k along a split dimension, against the whole program."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.spmd.along_dimension.partitioned import check_partitioned, collectives, largest_all_gather
from xlapy.spmd.along_dimension import reducers

HEAD = """HloModule m
sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b) }
most { a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] maximum(a, b) }
product { a = s32[] parameter(0)
  b = s32[] parameter(1)
  ROOT c = s32[] multiply(a, b) }
log_sum { a = f32[] parameter(0)
  b = f32[] parameter(1)
  m = f32[] maximum(a, b)
  d = f32[] subtract(a, b)
  n = pred[] compare(d, d), direction=NE
  s = f32[] add(a, b)
  e = f32[] abs(d)
  f = f32[] negate(e)
  g = f32[] exponential(f)
  h = f32[] log-plus-one(g)
  i = f32[] add(m, h)
  ROOT r = f32[] select(n, s, i) }
first_most { a = f32[] parameter(0)
  i = s32[] parameter(1)
  b = f32[] parameter(2)
  j = s32[] parameter(3)
  more = pred[] compare(a, b), direction=GT
  nan = pred[] compare(a, a), direction=NE
  wins = pred[] or(more, nan)
  equal = pred[] compare(a, b), direction=EQ
  before = pred[] compare(i, j), direction=LT
  tie = pred[] and(equal, before)
  first = pred[] or(wins, tie)
  v = f32[] select(wins, a, b)
  k = s32[] select(first, i, j)
  ROOT r = (f32[], s32[]) tuple(v, k) }
"""

PLATFORMS = pytest.mark.parametrize("platform", ["interpreter", "cpu"])


def values(*dimensions: int) -> Any:
    """Returns multiples of a half, whose sums are exact."""
    return (np.random.default_rng(0).integers(-9, 9, dimensions) * 0.5).astype(np.float32)


def split(*tiles: int) -> str:
    return f"{{devices=[{','.join(map(str, tiles))}]<=[8]}}"


CUMULATIVE = {
    "sum": ("f32", "sum", "0", (16, 3), "size=16x1 pad=15_0x0_0", (8, 1)),
    "reversed sum": ("f32", "sum", "0", (3, 16), "size=1x16 pad=0_0x0_15", (1, 8)),
    "sum over half of the devices": ("f32", "sum", "0", (4, 16), "size=1x16 pad=0_0x15_0", (2, 4)),
    "maximum with another initial value": ("f32", "most", "1", (64,), "size=64 pad=63_0", (8,)),
    "larger window": ("f32", "most", "-2", (32,), "size=40 pad=0_39", (8,)),
    "product that wraps around": ("s32", "product", "1", (64,), "size=64 pad=63_0", (8,)),
    "logarithm of a sum": ("f32", "log_sum", "-inf", (2, 32), "size=1x32 pad=0_0x31_0", (1, 8)),
}


def cumulative(name: str) -> tuple[str, tuple[int, ...]]:
    t, reducer, initial, dimensions, window, tiles = CUMULATIVE[name]
    shape, sharding = f"{t}[{','.join(map(str, dimensions))}]", split(*tiles)
    text = f"""{HEAD}
      ENTRY e {{ x = {shape} parameter(0), sharding={sharding}
        z = {t}[] constant({initial})
        ROOT r = {shape} reduce-window(x, z), window={{{window}}}, to_apply={reducer}, sharding={sharding} }}"""
    return text, dimensions


@PLATFORMS
@pytest.mark.parametrize("name", CUMULATIVE)
def test_cumulative_operations_exchange_totals(name: str, platform: str) -> None:
    text, dimensions = cumulative(name)
    given = values(*dimensions).astype(np.int32 if CUMULATIVE[name][0] == "s32" else np.float32)
    tolerance = 1e-6 if name == "logarithm of a sum" else None
    module = check_partitioned(text, 8, [given], platform, tolerance)
    assert collectives(module) == ["all-gather"]
    assert largest_all_gather(module) <= 8 * 8  # the totals of at most 8 rows


def test_cumulative_sums_from_another_number_are_gathered() -> None:
    """The initial value would be added once for each tile."""
    text, dimensions = cumulative("sum")
    module = check_partitioned(text.replace("constant(0)", "constant(5)"), 8, [values(*dimensions)])
    assert largest_all_gather(module) == 16 * 3


def test_windows_of_another_size_are_not_cumulative() -> None:
    text, dimensions = cumulative("larger window")
    check_partitioned(text.replace("size=40 pad=0_39", "size=8 pad=0_7"), 8, [values(*dimensions)])


ARGMAX = """
  i = s32[{shape}] iota(), iota_dimension={dimension}
  z = f32[] constant(-inf)
  n = s32[] constant(0)
  ROOT r = (f32[{left}], s32[{left}]) reduce(x, i, z, n), dimensions={dimensions}, to_apply=first_most,
    sharding={wanted}"""


@PLATFORMS
@pytest.mark.parametrize(
    ("shape", "dimension", "left", "tiles", "wanted"),
    [
        ("5,16", 1, "5", (1, 8), "{{replicated}, {replicated}}"),
        ("64", 0, "", (8,), "{{replicated}, {replicated}}"),
        ("16,8", 0, "8", (8, 1), "{{devices=[8]<=[8]}, {replicated}}"),
        ("4,16", 1, "4", (2, 4), "{{replicated}, {devices=[2,4]<=[8] last_tile_dim_replicate}}"),
    ],
)
def test_argmax_combines_a_pair_per_tile(
    shape: str, dimension: int, left: str, tiles: tuple[int, ...], wanted: str, platform: str
) -> None:
    body = ARGMAX.format(shape=shape, dimension=dimension, left=left, dimensions=f"{{{dimension}}}", wanted=wanted)
    text = f"{HEAD}ENTRY e {{ x = f32[{shape}] parameter(0), sharding={split(*tiles)} {body} }}"
    given = values(*map(int, shape.split(",")))
    given.flat[::7] = np.nan
    module = check_partitioned(text, 8, [given], platform)
    assert largest_all_gather(module) <= 8 * given.size // given.shape[dimension]


def test_argmax_of_all_dimensions() -> None:
    body = ARGMAX.format(
        shape="8,16", dimension=1, left="", dimensions="{0,1}", wanted="{{replicated}, {replicated}}"
    )  # fmt: skip
    text = f"{HEAD}ENTRY e {{ x = f32[8,16] parameter(0), sharding={split(2, 4)} {body} }}"
    module = check_partitioned(text, 8, [values(8, 16)])
    assert largest_all_gather(module) == 4


def test_large_results_are_combined_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reducers, "EXCHANGED_REDUCTION_BYTES", 1)
    body = ARGMAX.format(shape="16,32", dimension=0, left="32", dimensions="{0}", wanted="{{replicated}, {replicated}}")
    text = f"{HEAD}ENTRY e {{ x = f32[16,32] parameter(0), sharding={split(8, 1)} {body} }}"
    module = check_partitioned(text, 8, [values(16, 32)])
    assert collectives(module) == ["all-gather", "all-to-all"]


@PLATFORMS
def test_any_reducer_of_one_operand(platform: str) -> None:
    text = f"""{HEAD}
      ENTRY e {{ x = f32[16,8] parameter(0), sharding={split(8, 1)}
        z = f32[] constant(-inf)
        ROOT r = f32[8] reduce(x, z), dimensions={{0}}, to_apply=log_sum, sharding={{replicated}} }}"""
    module = check_partitioned(text, 8, [values(16, 8)], platform, 1e-6)
    assert largest_all_gather(module) == 8 * 8


@PLATFORMS
@pytest.mark.parametrize(
    ("element_type", "shape", "k", "tiles", "largest"),
    [
        ("f32", "256", 5, (8,), "true"),
        ("f32", "3,256", 7, (1, 8), "true"),
        ("s32", "4,256", 3, (2, 4), "false"),
        ("bf16", "2,3,128", 4, (1, 1, 8), "true"),
        ("f32", "2,64", 12, (1, 8), "true"),
    ],
)
def test_top_k_selects_in_each_tile(
    element_type: str, shape: str, k: int, tiles: tuple[int, ...], largest: str, platform: str
) -> None:
    """Values repeat, so that indices of equal elements count. k may be larger than a tile."""
    *rows, _ = dimensions = list(map(int, shape.split(",")))
    result = ",".join(map(str, [*rows, k]))
    text = f"""HloModule m
      ENTRY e {{ x = {element_type}[{shape}] parameter(0), sharding={split(*tiles)}
        ROOT r = ({element_type}[{result}], s32[{result}]) topk(x), k={k}, largest={largest} }}"""
    given = values(*dimensions).astype(xla.Shape.parse(f"{element_type}[]").dtype)
    if element_type == "f32":
        given.flat[::31] = np.nan
    module = check_partitioned(text, 8, [given], platform)
    rows_of_device = given.size // dimensions[-1] // (tiles[0] if len(tiles) > 1 else 1)
    is_gathered = k * 2 > dimensions[-1] // tiles[-1]
    assert largest_all_gather(module) == rows_of_device * (dimensions[-1] if is_gathered else k * tiles[-1])


@pytest.mark.parametrize(
    "operation",
    [
        "z = f32[] constant(-inf)\n"
        "ROOT r = f32[3,10] reduce-window(y, z), window={size=1x10 pad=0_0x0_9}, to_apply=most",
        "z = f32[] constant(-inf)\ni = s32[3,10] iota(), iota_dimension=1\nn = s32[] constant(0)\n"
        "ROOT r = (f32[3], s32[3]) reduce(y, i, z, n), dimensions={1}, to_apply=first_most",
    ],
    ids=["cumulative", "argmax"],
)
def test_tiles_that_are_not_full_are_filled_with_the_initial_value(operation: str) -> None:
    """Ten elements over eight devices: three devices have none. All elements are negative, what fills up is zero."""
    text = f"""{HEAD}ENTRY e {{ x = f32[3,10] parameter(0)
      y = f32[3,10] copy(x), sharding={split(1, 8)}
      {operation} }}"""
    module = check_partitioned(text, 8, [-1 - abs(values(3, 10))])
    assert largest_all_gather(module) <= 3 * 8 * 2
