"""Plans of halo exchanges: rounds cover what tiles need, values of tiles are right, and nothing grows with devices."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base.error_codes.operations import collectives as codes
from xlapy.base.errors import ShapeError
from xlapy.hlo import edit
from xlapy.hlo.verify import verify
from xlapy.opcodes.attributes.permutations import Permutation
from xlapy.passes.rewrite import Writer
from xlapy.spmd import partition
from xlapy.spmd.collectives.device_pairs import pairs_of_contents, pairs_of_tiles
from xlapy.spmd.halo.segments import (
    OUTSIDE,
    Range,
    Round,
    Spans,
    TiledDimension,
    TileNumbers,
    elements_of_spans,
    rounds_of_concatenation,
    rounds_of_spans,
)
from xlapy.spmd.halo.tile_values import per_tile_value
from xlapy.spmd.resharding import Resharder
from xlapy.spmd.tiling import Tiling

# -- rounds


def assembled(rounds: Sequence[Round], tiles: Sequence[Sequence[np.ndarray]], size: int) -> np.ndarray:  # type: ignore[type-arg]
    """Carries out rounds on the tiles of arrays; what no segment covers is -1. Each tile takes part once in a round."""
    found = np.full((len(rounds[0].sources) if rounds else 0, size), -1)
    for each in rounds:
        sources = each.sources[each.targets]
        assert len(np.unique(sources)) == len(sources)
        for target in each.targets:
            start, length, position = (
                int(some[target]) for some in (each.starts, each.lengths, each.positions)
            )  # fmt: skip
            found[target, position : position + length] = tiles[each.array][each.sources[target]][
                start : start + length
            ]
    return found


def cut(array: np.ndarray, tile_size: int, tiles: int) -> list[np.ndarray]:  # type: ignore[type-arg]
    padded = np.concatenate([array, np.full(tile_size * tiles - len(array), -1)])
    return np.split(padded, tiles)


def test_rounds_of_spans_bring_the_elements_inside_of_the_array() -> None:
    chance = random.Random(0)
    for _ in range(400):
        tiles, size = chance.randint(1, 9), chance.randint(1, 40)
        tile_size = -(-size // tiles)
        step, divisor = chance.randint(-2 * tile_size, 2 * tile_size), chance.randint(1, 3)
        spans = Spans(TileNumbers(tiles, chance.randint(-9, 9), step, divisor), chance.randint(1, 3 * tile_size + 2))
        dimension = TiledDimension(size, tile_size, tiles)
        rounds, is_concatenation = rounds_of_spans(dimension, spans)
        array = np.arange(size)
        wanted = [[n if 0 <= n < size else -1 for n in range(s, s + spans.length)] for s in spans.starts.tolist()]
        if rounds:
            np.testing.assert_array_equal(assembled(rounds, [cut(array, tile_size, tiles)], spans.length), wanted)
        else:
            assert max(map(max, wanted)) == -1
        assert elements_of_spans(dimension, spans) == sum(each.elements_sent for each in rounds)
        if is_concatenation:
            assert sum(each.length for each in rounds) == spans.length


def test_rounds_of_concatenations_bring_all_elements() -> None:
    chance = random.Random(1)
    for _ in range(300):
        tiles = chance.randint(1, 8)
        sizes = [chance.randint(1, 20) for _ in range(chance.randint(1, 3))]
        are_whole = [chance.random() < 0.3 for _ in sizes]
        arrays = [np.arange(size) + 100 * n for n, size in enumerate(sizes)]
        dimensions = [
            TiledDimension(size, size, 1) if whole else TiledDimension(size, -(-size // tiles), tiles)
            for size, whole in zip(sizes, are_whole, strict=True)
        ]
        ranges = [_range(chance, sizes) for _ in range(chance.randint(1, 4))]
        whole = np.concatenate([arrays[r.array][r.start : r.start + r.length] for r in ranges])
        if not len(whole):
            continue
        tile_size = -(-len(whole) // tiles)
        rounds, _ = rounds_of_concatenation(tuple(ranges), tuple(dimensions), tile_size, tiles)
        held = [
            [array] * tiles if is_whole else cut(array, -(-len(array) // tiles), tiles)
            for array, is_whole in zip(arrays, are_whole, strict=True)
        ]
        np.testing.assert_array_equal(assembled(rounds, held, tile_size), cut(whole, tile_size, tiles))


def _range(chance: random.Random, sizes: Sequence[int]) -> Range:
    array = chance.randrange(len(sizes))
    start = chance.randint(0, sizes[array])
    return Range(array, start, chance.randint(0, sizes[array] - start))


def test_spans_of_another_step_than_tiles_need_no_more_rounds_than_one_tile_has_segments() -> None:
    """4096 tiles of 4 elements become tiles of 5, each of which has segments of two or three tiles."""
    spans = Spans(TileNumbers(4096, -3, 5), 5)
    rounds, is_concatenation = rounds_of_spans(TiledDimension(16384, 4, 4096), spans)
    assert not is_concatenation
    assert len([each for each in rounds if not each.is_local]) == 2


# -- pairs


def test_pairs_of_tiles_are_those_of_each_group() -> None:
    rows, columns = Tiling(8, ((4, 2),)), Tiling(8, ((1, 4),))
    pairs = pairs_of_tiles(columns, [rows, None], np.asarray([OUTSIDE, 0, 1, 2]))
    assert pairs == ((0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7))
    assert hash(pairs) == hash(tuple(pairs))
    assert pairs_of_tiles(columns, [rows], np.asarray([OUTSIDE, 0, 1, 2])) is pairs


def test_pairs_of_contents_bring_each_device_what_it_wants() -> None:
    chance = random.Random(2)
    for _ in range(50):
        numbers = [tuple(chance.sample([0, 0, 1, 1, 2, 2], 6)) for _ in range(2)]
        before, after = (Tiling(6, numbers=each) for each in numbers)
        pairs = pairs_of_contents((before,), (after,))
        assert sorted(source for source, _ in pairs) == sorted(target for _, target in pairs) == list(range(6))
        for source, target in pairs:
            assert before.tile_of(source) == after.tile_of(target)
            assert (source == target) == (before.tile_of(target) == after.tile_of(target))


def test_a_permutation_names_each_id_once() -> None:
    with raises(ShapeError, codes.PERMUTATION_ONCE, "target ids [2, 2] of a permutation name an id twice"):
        Permutation.make([0, 1], [2, 2])


# -- values of tiles

VALUES = {
    "line": [3, 7, 11, 15, 19, 23, 27, 31],
    "falling": [5, 2, -1, -4, -7, -10, -13, -16],
    "limited on both sides": [0, 0, 3, 7, 11, 12, 12, 12],
    "first differs": [3, 0, 0, 0, 0, 0, 0, 0],
    "last differs": [4, 4, 4, 4, 4, 4, 4, 1],
    "three steps": [1, 1, 9, 9, 9, 2, 2, 2],
    "table": [5, 0, 5, 1, 2, 3, 9, 9],
    "equal": [6] * 8,
    "out of range": [2**31 - 1, 0, -(2**31), -(2**31), 0, 0, 0, 0],
    "line out of range": [0, 0, 0, -2_000_000_000, -2_000_000_000, -2_000_000_000, -2_000_000_000, -2_000_000_000],
    "mask from": [False] * 3 + [True] * 5,
    "mask to": [True] * 7 + [False],
    "mask between": [False] + [True] * 6 + [False],
    "mask outside": [True] * 2 + [False] * 5 + [True],
    "mask table": [True, False] * 4,
}


@pytest.mark.parametrize("tiling", [
    Tiling(8, ((1, 8),)), Tiling(8, ((1, 2), (2, 4))), Tiling(8, numbers=(1, 0, 3, 2, 5, 7, 6, 4)),
], ids=["in order", "mesh", "listed"])  # fmt: skip
@pytest.mark.parametrize("name", VALUES)
def test_values_of_tiles(name: str, tiling: Tiling) -> None:
    values = np.asarray(VALUES[name], np.bool_ if "mask" in name else np.int32)
    kind = "pred" if "mask" in name else "s32"
    module = xla.parse_hlo(f"HloModule m\n ENTRY e {{ ROOT x = {kind}[] constant(0) }}")
    entry = module.entry_computation
    found = per_tile_value(Resharder(Writer(entry.root_instruction), 8, itertools.count(1)), tiling, values)
    edit.set_root(entry, found)
    verify(module)
    results = xla.Client("interpreter", devices=8).compile(module, 1, 8).execute_sharded([[] for _ in range(8)])
    assert [int(np.asarray(each)) for each in results] == [int(values[tiling.tile_of(d)]) for d in range(8)]


BODIES = {
    "convolution": ("f32[2,16384,8]", "convolution(x, k), window={size=3 pad=1_1}, dim_labels=b0f_0io->b0f"),
    "strided convolution": (
        "f32[2,8192,8]", "convolution(x, k), window={size=3 stride=2 pad=1_1}, dim_labels=b0f_0io->b0f"
    ),
    "reverse": ("f32[2,16384,8]", "reverse(x), dimensions={1}"),
    "shift": ("f32[2,16384,8]", "pad(x, z), padding=0_0x3_-3x0_0"),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_programs_for_many_devices_are_no_longer_and_hold_no_tables(name: str) -> None:
    shape, body = BODIES[name]
    counts: list[int] = []
    for devices in (8, 4096):
        cut = f"{{devices=[1,{devices},1]<=[{devices}]}}"
        module = xla.parse_hlo(f"""HloModule m
          ENTRY e {{ x = f32[2,16384,8] parameter(0), sharding={cut}
            k = f32[3,8,8] parameter(1)
            z = f32[] constant(0)
            ROOT r = {shape} {body}, sharding={cut} }}""")
        partition(module, devices)
        instructions = list(module.instructions())
        counts.append(len(instructions))
        tables = [i for i in instructions if i.op.name == "constant" and i.shape.rank]
        assert not tables, module.to_text()
    assert counts[1] <= counts[0] + 8
