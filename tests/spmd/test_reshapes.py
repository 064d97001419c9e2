"""Reshapes whose tiles are consecutive elements are carried out by each device on its own tile."""

from __future__ import annotations

import random

import numpy as np
import pytest

from tests.spmd.sharded_runs import collectives_of, run_sharded

FREE = {
    "eight rows become two by four": ("8,6", "[8,1]<=[8]", "2,4,6", "[2,4,1]<=[8]"),
    "two by four rows become eight": ("2,4,6", "[2,4,1]<=[8]", "8,6", "[8,1]<=[8]"),
    "rows of another split": ("4,4,6", "[4,2,1]<=[8]", "2,8,6", "[2,4,1]<=[8]"),
    "with a dimension of one element": ("8,6", "[8,1]<=[8]", "2,1,4,6", "[2,1,4,1]<=[8]"),
    "axes of a mesh in another order": ("8,6", "[8,1]<=[2,4]T(1,0)", "4,2,6", "[4,2,1]<=[2,4]T(1,0)"),
}


@pytest.mark.parametrize("name", FREE)
def test_tiles_of_consecutive_elements_are_not_sent(name: str) -> None:
    before, given, after, wanted = FREE[name]
    text = f"""HloModule m
      ENTRY e {{ x = f32[{before}] parameter(0), sharding={{devices={given}}}
        ROOT r = f32[{after}] reshape(x), sharding={{devices={wanted}}} }}"""
    sizes = [int(size) for size in before.split(",")]
    module, _ = run_sharded(text, 8, [np.arange(48, dtype=np.float32).repeat(2)[: np.prod(sizes)].reshape(sizes)])
    assert collectives_of(module) == set()


def _run_random(seeds: range) -> None:
    for seed in seeds:
        chance = random.Random(seed)
        factors = [chance.choice([1, 2, 2, 3, 4]) for _ in range(5)]
        shapes = [_merged(chance, factors), _merged(chance, factors)]
        shardings = [_sharding(chance, len(shape)) for shape in shapes]
        text = f"""HloModule m
          ENTRY e {{ x = f32[{",".join(map(str, shapes[0]))}] parameter(0)
            y = f32[{",".join(map(str, shapes[0]))}] negate(x), sharding={shardings[0]}
            z = f32[{",".join(map(str, shapes[1]))}] reshape(y), sharding={shardings[1]}
            ROOT r = f32[{",".join(map(str, shapes[1]))}] negate(z), sharding={{replicated}} }}"""
        run_sharded(text, 8, [np.arange(np.prod(shapes[0]), dtype=np.float32).reshape(shapes[0])])


def _merged(chance: random.Random, factors: list[int]) -> list[int]:
    """Returns the sizes of consecutive factors, some of them multiplied."""
    sizes = [factors[0]]
    for factor in factors[1:]:
        if chance.random() < 0.5:
            sizes[-1] *= factor
        else:
            sizes.append(factor)
    return sizes


def _sharding(chance: random.Random, rank: int) -> str:
    counts, left = [], 8
    for _ in range(rank):
        counts.append(chance.choice([n for n in (1, 2, 4, 8) if n <= left]))
        left //= counts[-1]
    order = chance.choice(["[8]", "[2,4]T(1,0)"])
    return f"{{devices=[{','.join(map(str, [*counts, left]))}]<={order} last_tile_dim_replicate}}"


def test_random_reshapes() -> None:
    _run_random(range(60))


@pytest.mark.slow
def test_many_random_reshapes() -> None:
    _run_random(range(100, 700))
