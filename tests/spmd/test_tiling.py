"""Tilings of digits behave like the lists of tiles that they stand for."""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import xlapy as xla
from xlapy.hlo.sharding import Sharding
from xlapy.opcodes.attributes.replica_groups import GroupList, IotaGroups
from xlapy.spmd import partition
from xlapy.spmd.array_sharding import array_sharding_of, hlo_sharding_of
from xlapy.spmd.tiling import (
    Tiling,
    are_independent,
    coarsened,
    combined_tiling,
    is_determined_by,
    minor_tiling,
    nested_tiling,
    refines,
    replica_groups_along,
    rest_of_tiling,
    tiling_of_digits,
    tiling_of_numbers,
)


def tilings(devices: int) -> Iterator[Tiling]:
    """Yields tilings of up to three digits, and some that are no combination of digits."""
    bounds = [n for n in range(1, devices + 1) if devices % n == 0]
    digits = [(low, high // low) for low in bounds for high in bounds if high > low and high % low == 0]
    for count in (1, 2, 3):
        for chosen in itertools.permutations(digits, count):
            spans = sorted((stride, stride * size) for stride, size in chosen)
            if all(end <= start and start % end == 0 for (_, end), (start, _) in itertools.pairwise(spans)):
                tiling = tiling_of_digits(devices, chosen)
                assert tiling is not None
                yield tiling
    yield Tiling(devices, numbers=tuple(device // 2 % 2 ^ device % 2 for device in range(devices)))
    yield Tiling(devices, numbers=tuple(max(device, 1) - 1 for device in range(devices)))


def different(devices: int) -> list[Tiling]:
    return list(dict.fromkeys(tilings(devices)))


def numbered(combinations: Sequence[Any]) -> tuple[int, ...]:
    found: dict[Any, int] = {}
    return tuple(found.setdefault(each, len(found)) for each in combinations)


@pytest.mark.parametrize("devices", [4, 6, 8, 12])
def test_single_tilings(devices: int) -> None:
    every = different(devices)
    assert len({tiling.tile_of_each_device() for tiling in every}) == len(every)
    for tiling in every:
        numbers = tiling.tile_of_each_device()
        assert tiling.tiles == max(numbers) + 1
        assert tiling_of_numbers(numbers) == tiling
        for tiles in (n for n in range(1, tiling.tiles) if tiling.tiles % n == 0):
            coarse, run = coarsened(tiling, tiles), tiling.tiles // tiles
            assert (coarse or Tiling(devices)).tile_of_each_device() == tuple(n // run for n in numbers)
            assert refines(tiling, coarse)
            assert minor_tiling(tiling, coarse).tile_of_each_device() == tuple(n % run for n in numbers)
            joined = nested_tiling([coarse, minor_tiling(tiling, coarse)])
            assert joined == tiling


@pytest.mark.parametrize("devices", [4, 6, 8, 12])
def test_pairs_of_tilings(devices: int) -> None:
    for one, other in itertools.product(different(devices), repeat=2):
        left, right = one.tile_of_each_device(), other.tile_of_each_device()
        pairs = list(zip(left, right, strict=True))
        counts = Counter(pairs)
        assert are_independent([one, other, None]) == (
            len(counts) == one.tiles * other.tiles and len(set(counts.values())) == 1
        )
        combined = combined_tiling([one, None, other])
        assert combined is not None
        assert combined.tile_of_each_device() == numbered(pairs)
        assert is_determined_by(one, other) == (len(counts) == len(set(right)))
        run = one.tiles // other.tiles
        assert refines(one, other) == (run > 0 and tuple(n // run for n in left) == right)
        held: dict[int, set[int]] = defaultdict(set)
        for tile, place in pairs:
            held[place].add(tile)
        ranks = tuple(sorted(held[place]).index(tile) for tile, place in pairs)
        assert (rest_of_tiling(one, [other]) or Tiling(devices)).tile_of_each_device() == ranks


@pytest.mark.parametrize("devices", [4, 8, 12])
def test_replica_groups(devices: int) -> None:
    """Each group has the devices of one place among the others, in the order of the tiles."""
    for along, other in itertools.product(different(devices), repeat=2):
        if not are_independent([along, other]):
            continue
        found = replica_groups_along(along, [other])
        for group in found.groups:
            assert len({other.tile_of(device) for device in group}) == 1
            assert [along.tile_of(device) for device in group] == list(range(along.tiles))
        assert sorted(device for group in found.groups for device in group) == list(range(devices))
        if devices != 12:  # of 12 devices, the digits of 2 and 3 may be in either order
            is_symbolic = along.numbers is None and other.numbers is None
            assert isinstance(found, IotaGroups if is_symbolic else GroupList)


def test_groups_are_written_as_iota() -> None:
    """Example: 4096 devices as 64 x 64, groups along the first axis."""
    rows, columns = Tiling(4096, ((64, 64),)), Tiling(4096, ((1, 64),))
    assert replica_groups_along(rows, [columns]).to_text() == "[64,64]<=[64,64]T(1,0)"
    assert replica_groups_along(columns, [rows]).to_text() == "[64,64]<=[4096]"


SHARDINGS = [
    "{devices=[2,4]<=[8]}", "{devices=[4,2]<=[2,4]T(1,0)}", "{devices=[2,2,2]<=[8] last_tile_dim_replicate}",
    "{devices=[1,2,4]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}", "{devices=[2,4]0,1,4,5,2,3,6,7}",
    "{devices=[2,4]0,1,3,2,5,4,6,7}", "{replicated}", "{devices=[4,1,2]<=[8] last_tile_dims={unreduced}}",
    "{mesh['a'=2,'b'=4], [{'b':(2)2}, {'a'}]}", "{mesh['a'=2,'b'=4], [{'b':(1)2, 'a'}, {'b':(2)2}]}",
    "{mesh['a'=4,'b'=2], device_ids=([2,2,2]T(2,0,1)), [{'b'}, {'a'}]}",
    "{mesh['a'=2,'b'=4], device_ids=(0,2,4,6,1,3,5,7), [{'b'}, {'a'}]}",
]  # fmt: skip


@pytest.mark.parametrize("text", SHARDINGS)
def test_shardings_are_translated(text: str) -> None:
    """The tile of each device is that of the device list, and the sharding that is written names the same tiles."""
    shape, sharding = xla.Shape.parse("f32[8,8]"), Sharding.parse(text)
    found = array_sharding_of(sharding, shape, 8)
    written = hlo_sharding_of(found, 8)
    assert array_sharding_of(written, shape, 8) == found
    if sharding.tiles is not None:
        sizes = sharding.tiles.dimensions
        for position, device in enumerate(sharding.tiles.device_ids()):
            for dimension, tiling in enumerate(found.tilings):
                expected = position // math.prod(sizes[dimension + 1 :]) % sizes[dimension]
                assert (tiling.tile_of(device) if tiling else 0) == expected


def test_mesh_axes_in_an_order_of_their_own() -> None:
    """Devices 0, 2, 4, 6, 1, 3, 5, 7 over a = 2, b = 4: device 5 has the coordinates a = 1, b = 2."""
    sharding = Sharding.parse("{mesh['a'=2,'b'=4], device_ids=(0,2,4,6,1,3,5,7), [{'b'}, {'a'}]}")
    found = array_sharding_of(sharding, xla.Shape.parse("f32[8,8]"), 8)
    assert found.tilings == (Tiling(8, ((2, 4),)), Tiling(8, ((1, 2),)))


def test_large_meshes_stay_symbolic() -> None:
    """A million devices are partitioned for without going through them: neither text nor time grows."""
    axes = "mesh['x'=1024,'y'=1024]"
    text = f"""HloModule m
      ENTRY e {{ a = f32[4096,4096] parameter(0), sharding={{{axes}, [{{'x'}}, {{'y'}}]}}
        b = f32[4096,4096] parameter(1), sharding={{{axes}, [{{'y'}}, {{}}]}}
        c = f32[4096,4096] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
        ROOT r = f32[4096,4096] exponential(c), sharding={{{axes}, [{{'x'}}, {{}}]}} }}"""
    module = xla.parse_hlo(text)
    partition(module, 1 << 20)
    written = module.to_text()
    assert "replica_groups=[1024,1024]<=[1048576]" in written
    assert len(written) < 4000
