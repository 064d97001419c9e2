"""Partial sums that are wanted in tiles are scattered, or sliced before they are added."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest

import xlapy as xla
from tests.spmd.sharded_runs import run_sharded
from xlapy.spmd import time_model
from xlapy.spmd.array_sharding import ArraySharding
from xlapy.spmd.tiling import Tiling
from xlapy.spmd.time_model import cheapest_plan, resharding_seconds

X, Y, BOTH = Tiling(8, ((2, 4),)), Tiling(8, ((1, 2),)), Tiling(8, ((1, 8),))
TURNED = Tiling(8, ((1, 2), (2, 4)))

PLANS = {
    "both axes to two dimensions": ((None, None, BOTH), (X, Y, None), "ReduceScatter ReduceScatter"),
    "one axis to one of two dimensions": ((None, None, BOTH), (X, None, None), "ReduceScatter AllReduce"),
    "another axis": ((None, None, X), (Y, None, None), "LocalSlice AllReduce"),
    "another axis and the own one inside": ((None, None, X), (TURNED, None, None), "LocalSlice ReduceScatter"),
    "the own axis and another one inside": ((None, None, X), (BOTH, None, None), "ReduceScatter LocalSlice"),
    "another axis of another dimension": ((None, None, X), (X, Y, None), "LocalSlice ReduceScatter"),
    "an axis that moves": ((Y, None, X), (X, Y, None), "AllToAll ReduceScatter"),
    "an axis that stays": ((Y, None, X), (Y, X, None), "ReduceScatter"),
    "sums that are kept": ((None, None, BOTH), (X, None, Y), "AllReduce LocalSlice"),
}


@pytest.mark.parametrize("name", PLANS)
def test_plans_of_large_arrays(name: str) -> None:
    (*before, sums), (*after, kept), steps = PLANS[name]
    source, target = ArraySharding(tuple(before), sums), ArraySharding(tuple(after), kept)
    plan, seconds = cheapest_plan(xla.Shape.parse("f32[8192,8192]"), source, target, ())
    assert " ".join(type(step).__name__ for step in plan) == steps
    assert plan[-1].after == target
    assert seconds == resharding_seconds(xla.Shape.parse("f32[8192,8192]"), source, target)


@pytest.fixture
def free_starts(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Lets collectives start in no time, so that small arrays are resharded as large ones."""
    caches = cheapest_plan, time_model._resharding_seconds
    monkeypatch.setattr(time_model, "START_SECONDS", 0.0)
    for cache in caches:
        cache.cache_clear()
    yield
    for cache in caches:
        cache.cache_clear()


def _splits(chance: random.Random, rank: int) -> str:
    axes = ["'x'", "'y'", "'z'"]
    chance.shuffle(axes)
    parts: list[list[str]] = [[] for _ in range(rank)]
    for axis in axes:
        if chance.random() < 0.8:
            chance.choice(parts).append(axis)
    return ", ".join("{" + ",".join(part) + "}" for part in parts)


@pytest.mark.usefixtures("free_starts")
@pytest.mark.parametrize("first", [0, 10, 20])
def test_products_with_random_shardings(first: int) -> None:
    mesh = "mesh['x'=2,'y'=2,'z'=2]"
    for seed in range(first, first + 10):
        chance = random.Random(seed)
        left, right, result, other = (f"{{{mesh}, [{_splits(chance, 2)}]}}" for _ in range(4))
        text = f"""HloModule m
          ENTRY e {{ a = s32[8,16] parameter(0), sharding={left}
            b = s32[16,8] parameter(1), sharding={right}
            c = s32[8,8] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
            d = s32[8,8] custom-call(c), custom_call_target="Sharding", sharding={result}
            ROOT r = s32[8,8] custom-call(d), custom_call_target="Sharding", sharding={other} }}"""
        values = np.random.default_rng(seed)
        run_sharded(text, 8, [values.integers(-9, 9, sizes).astype(np.int32) for sizes in ((8, 16), (16, 8))])
