"""Reshapes of split dimensions send nothing, or only what moves to other devices."""

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


EXCHANGED = {
    "columns become part of a row": ("16,48", "[1,8]<=[8]", "768", "[8]<=[8]", {"all-to-all": 96}),
    "part of a row becomes columns": ("768", "[8]<=[8]", "16,48", "[1,8]<=[8]", {"all-to-all": 96}),
    "factors inside of dimensions": ("8,6", "[1,2,4]<=[8] last_tile_dim_replicate", "2,24",
                                     "[1,2,4]<=[8] last_tile_dim_replicate", {"all-to-all": 24}),
    "two axes of a mesh": ("4,16,6000", "[1,4,2]<=[8]", "64,6000", "[8,1]<=[8]", {"all-to-all": 3 * 48000}),
    "another axis stays": ("8,6,4", "[1,2,4]<=[8]", "48,4", "[2,4]<=[8]", {"all-to-all": 24}),
    "uneven rows become elements": ("10,60", "[8,1]<=[8]", "600", "[8]<=[8]", {"collective-permute": 225}),
    "elements become uneven rows": ("600", "[8]<=[8]", "10,60", "[8,1]<=[8]", {"collective-permute": 225}),
    "tiles of a row and a half": ("48,5", "[4,1,2]<=[8] last_tile_dim_replicate", "6,8,5",
                                  "[4,1,1,2]<=[8] last_tile_dim_replicate", {"collective-permute": 60}),
}  # fmt: skip
"""Shapes and shardings of an operand and a result, and the number of elements of the operands of collectives."""


@pytest.mark.parametrize("name", EXCHANGED)
def test_only_what_moves_is_sent(name: str) -> None:
    before, given, after, wanted, limits = EXCHANGED[name]
    sizes = [int(size) for size in before.split(",")]
    held, result = (f"{{devices={each}}}" for each in (given, wanted))
    if "uneven" in name or "half" in name:  # parameters and results are split evenly
        held, result = "{replicated}", "{replicated}"
    text = f"""HloModule m
      ENTRY e {{ x = f32[{before}] parameter(0), sharding={held}
        y = f32[{before}] negate(x), sharding={{devices={given}}}
        z = f32[{after}] reshape(y), sharding={{devices={wanted}}}
        ROOT r = f32[{after}] negate(z), sharding={result} }}"""
    module, _ = run_sharded(text, 8, [np.arange(np.prod(sizes), dtype=np.float32).reshape(sizes)])
    sent: dict[str, int] = {}
    for instruction in module.instructions():
        if instruction.op.name in ("all-to-all", "collective-permute"):
            count = int(np.prod(instruction.operands[0].shape.dimensions))
            sent[instruction.op.name] = sent.get(instruction.op.name, 0) + count
    gathered = [i.operands[0].shape.dimensions for i in module.instructions() if i.op.name == "all-gather"]
    assert sent == limits
    assert all(len(each) == len(after.split(",")) for each in gathered)  # the result, which is wanted whole


def _run_random(seeds: range, uneven: bool = False) -> None:
    for seed in seeds:
        chance = random.Random(seed)
        factors = [chance.choice([2, 3, 5, 7] if uneven else [1, 2, 2, 3, 4]) for _ in range(3 if uneven else 5)]
        shapes = [_merged(chance, factors), _merged(chance, factors)]
        devices = chance.choice([2, 3, 4, 6, 8]) if uneven else 8
        shardings = [_sharding(chance, len(shape), devices) for shape in shapes]
        text = f"""HloModule m
          ENTRY e {{ x = f32[{",".join(map(str, shapes[0]))}] parameter(0)
            y = f32[{",".join(map(str, shapes[0]))}] negate(x), sharding={shardings[0]}
            z = f32[{",".join(map(str, shapes[1]))}] reshape(y), sharding={shardings[1]}
            ROOT r = f32[{",".join(map(str, shapes[1]))}] negate(z), sharding={{replicated}} }}"""
        run_sharded(text, devices, [np.arange(np.prod(shapes[0]), dtype=np.float32).reshape(shapes[0])])


def _merged(chance: random.Random, factors: list[int]) -> list[int]:
    """Returns the sizes of consecutive factors, some of them multiplied."""
    sizes = [factors[0]]
    for factor in factors[1:]:
        if chance.random() < 0.5:
            sizes[-1] *= factor
        else:
            sizes.append(factor)
    return sizes


def _sharding(chance: random.Random, rank: int, devices: int) -> str:
    counts, left = [], devices
    for _ in range(rank):
        counts.append(chance.choice([n for n in range(1, left + 1) if left % n == 0]))
        left //= counts[-1]
    order = f"[{devices}]"
    if devices % 2 == 0 and devices > 2 and chance.random() < 0.5:
        order = f"[2,{devices // 2}]T(1,0)"
    return f"{{devices=[{','.join(map(str, [*counts, left]))}]<={order} last_tile_dim_replicate}}"


@pytest.mark.parametrize("uneven", [False, True])
def test_random_reshapes(uneven: bool) -> None:
    _run_random(range(50), uneven)


@pytest.mark.slow
@pytest.mark.parametrize("uneven", [False, True])
def test_many_random_reshapes(uneven: bool) -> None:
    _run_random(range(100, 700), uneven)
