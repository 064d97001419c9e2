"""Tilings: which tile of a dimension each device holds, as a symbolic function of the device number.

A tile number is made of digits of the device number: a digit `(stride, size)` of device d is `d // stride % size`.
Digits are what iota tile assignments of HLO text and the sub-axes of Shardy name. All functions compute on digits, so
that their work does not depend on the number of devices. Assignments that are no combination of digits, such as the
device list `devices=[4]0,1,3,2`, keep the tile of each device as a number; functions on them go through all devices.

Responsible for tilings, their comparison and combination, and groups of devices. Does not depend on arrays.

Worked example: on 8 devices, `Tiling(8, ((1, 2), (4, 2)))` has 4 tiles; device 6 has the digits 0 and 1, so that it
holds tile 0 * 2 + 1 = 1.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from xlapy.base.shape import Ints
from xlapy.opcodes.attributes.mesh import Iota
from xlapy.opcodes.attributes.replica_groups import GroupList, IotaGroups, ReplicaGroups

Digit: TypeAlias = tuple[int, int]
"""The digit `d // stride % size` of a device number d, as (stride, size)."""


@dataclass(frozen=True, slots=True)
class Tiling:
    """For one dimension: the index of the tile that each device holds, counted from 0.

    devices: the number of devices. digits: the digits of the device number that the index is made of, major first,
    in the shortest form. numbers: the tile of each device, only for tilings that are no combination of digits.
    """

    devices: int
    digits: tuple[Digit, ...] = ()
    numbers: Ints | None = None

    @property
    def tiles(self) -> int:
        """The number of tiles."""
        return math.prod([size for _, size in self.digits]) if self.numbers is None else max(self.numbers) + 1

    def tile_of(self, device: int) -> int:
        """Returns the tile that a device holds."""
        if self.numbers is not None:
            return self.numbers[device]
        tile = 0
        for stride, size in self.digits:
            tile = tile * size + device // stride % size
        return tile

    def tile_of_each_device(self) -> Ints:
        """Returns the tile of every device. For constants and lists of pairs, which name every device anyway."""
        return tuple(tile_numbers(self).tolist()) if self.numbers is None else self.numbers


@functools.lru_cache(maxsize=1024)
def tile_numbers(tiling: Tiling) -> np.ndarray[Any, np.dtype[np.int64]]:
    """Returns the tile of every device as an array, which must not be changed."""
    if tiling.numbers is not None:
        return np.asarray(tiling.numbers)
    devices, tiles = np.arange(tiling.devices), np.zeros(tiling.devices, np.int64)
    for stride, size in tiling.digits:
        tiles = tiles * size + devices // stride % size
    return tiles


def tiling_of_digits(devices: int, digits: Iterable[Digit]) -> Tiling | None:
    """Returns the tiling of some digits, major first; None if it has one tile."""
    shortest: list[Digit] = []
    for stride, size in digits:
        if size == 1:
            continue
        if shortest and shortest[-1][0] == stride * size:
            size *= shortest.pop()[1]
        shortest.append((stride, size))
    return Tiling(devices, tuple(shortest)) if shortest else None


def tiling_of_numbers(numbers: Sequence[int]) -> Tiling | None:
    """Returns the tiling with these tiles of the devices, of digits if possible; None if it has one tile."""
    numbers = tuple(numbers)
    if not any(numbers):
        return None
    weighted: list[tuple[int, Digit]] = []
    stride, devices = 1, len(numbers)
    while stride < devices and not numbers[0]:
        weight, rest = numbers[stride], devices // stride
        run = next((n for n in range(rest) if numbers[n * stride] != n * weight), rest)
        size = next(size for size in range(run, 0, -1) if rest % size == 0)
        if size == 1:
            break
        if weight:
            weighted.append((weight, (stride, size)))
        stride *= size
    found = tiling_of_digits(devices, [digit for _, digit in sorted(weighted, reverse=True)])
    return found if found and found.tile_of_each_device() == numbers else Tiling(devices, numbers=numbers)


def each_device(devices: int) -> Tiling | None:
    """Returns the tiling with one tile for each device, in their order."""
    return tiling_of_digits(devices, [(1, devices)])


def cut_digits(digits: Iterable[Digit], sizes: Sequence[int]) -> list[list[Digit]] | None:
    """Cuts digits, major first, into one list for each size, the product of the list's sizes.

    None if a digit would have to be cut between sizes that do not divide it.
    """
    found: list[list[Digit]] = [[] for _ in sizes]
    part, left = 0, sizes[0] if sizes else 1
    for stride, size in digits:
        while size > 1:
            while left == 1:
                part += 1
                left = sizes[part]
            taken = math.gcd(size, left)
            if taken not in (size, left):
                return None
            size //= taken
            left //= taken
            found[part].append((stride * size, taken))
    return found


# -- comparison and combination


def tile_count(tiling: Tiling | None) -> int:
    """Returns the number of tiles of a dimension, 1 if it is not split."""
    return 1 if tiling is None else tiling.tiles


def are_independent(tilings: Iterable[Tiling | None]) -> bool:
    """Returns whether each combination of tiles is on the same number of devices, as on different axes of a mesh."""
    given = [tiling for tiling in tilings if tiling is not None]
    return (len(given) < 2 and all(tiling.numbers is None for tiling in given)) or _are_independent(tuple(given))


@functools.lru_cache(maxsize=4096)
def _are_independent(tilings: tuple[Tiling, ...]) -> bool:
    if _bounds(tilings) is not None:
        intervals = sorted((stride, stride * size) for tiling in tilings for stride, size in tiling.digits)
        return all(end <= start for (_, end), (start, _) in itertools.pairwise(intervals))
    counts: dict[Ints, int] = defaultdict(int)
    for combination in _combinations(tilings):
        counts[combination] += 1
    return len(counts) == math.prod(map(tile_count, tilings)) and len(set(counts.values())) == 1


def combined_tiling(tilings: Iterable[Tiling | None]) -> Tiling | None:
    """Returns a number for each device's combination of tiles, counted in the order of devices.

    None if all devices hold the same combination. Example: on four devices, the digits `(2, 2)` and `(1, 2)` give
    `(1, 4)`: the tiles 0, 0, 1, 1 and 0, 1, 0, 1 give 0, 1, 2, 3.
    """
    given = tuple([tiling for tiling in tilings if tiling is not None])
    return _combined_tiling(given) if given else None


@functools.lru_cache(maxsize=4096)
def _combined_tiling(tilings: tuple[Tiling, ...]) -> Tiling | None:
    bounds = _bounds(tilings)
    if bounds is not None:
        return tiling_of_digits(tilings[0].devices, sorted(_smallest_digits(tilings, bounds), reverse=True))
    numbers: dict[Ints, int] = {}
    return tiling_of_numbers([numbers.setdefault(each, len(numbers)) for each in _combinations(tilings)])


def nested_tiling(tilings: Sequence[Tiling | None]) -> Tiling | None:
    """Returns the tile of each device counted over several tilings, the first one major, as over axes of a mesh."""
    given = [tiling for tiling in tilings if tiling is not None]
    if all(tiling.numbers is None for tiling in given):
        return tiling_of_digits(given[0].devices, [digit for each in given for digit in each.digits]) if given else None
    numbers = [0] * given[0].devices
    for tiling in given:
        tiles = tiling.tile_of_each_device()
        numbers = [number * tiling.tiles + tile for number, tile in zip(numbers, tiles, strict=True)]
    return tiling_of_numbers(numbers)


def is_determined_by(coarse: Tiling | None, fine: Tiling | None) -> bool:
    """Returns whether devices on the same tile of `fine` are always on the same tile of `coarse`."""
    return coarse is None or combined_tiling([fine, coarse]) == combined_tiling([fine])


def refines(fine: Tiling | None, coarse: Tiling | None) -> bool:
    """Returns whether `fine` splits each tile of `coarse` into the same number of consecutive tiles."""
    if fine is None or coarse is None:
        return coarse is None
    return fine.tiles % coarse.tiles == 0 and coarsened(fine, coarse.tiles) == coarse


def minor_tiling(fine: Tiling, coarse: Tiling | None) -> Tiling:
    """Returns the index of each device's tile of `fine` within its tile of `coarse`; `fine` must refine `coarse`."""
    minor = fine if coarse is None else _major_and_minor(fine, coarse.tiles)[1]
    return minor or Tiling(fine.devices)


def coarsened(tiling: Tiling | None, tiles: int) -> Tiling | None:
    """Returns the tiling of `tiles` tiles that a tiling refines; `tiles` must divide its number of tiles."""
    return None if tiling is None or tiles == 1 else _major_and_minor(tiling, tiles)[0]


@functools.lru_cache(maxsize=4096)
def _major_and_minor(tiling: Tiling, tiles: int) -> tuple[Tiling | None, Tiling | None]:
    """Returns the tiling of `tiles` runs of consecutive tiles, and the index within the run."""
    count = tiling.tiles // tiles
    parts = None if tiling.numbers is not None else cut_digits(tiling.digits, (tiles, count))
    if parts is not None:
        return tiling_of_digits(tiling.devices, parts[0]), tiling_of_digits(tiling.devices, parts[1])
    numbers = tiling.tile_of_each_device()
    return tiling_of_numbers([n // count for n in numbers]), tiling_of_numbers([n % count for n in numbers])


def rest_of_tiling(tiling: Tiling | None, others: Iterable[Tiling | None]) -> Tiling | None:
    """Returns the index of each device's tile among the tiles of the devices that hold the same tiles of `others`.

    None if such devices all hold the same tile. Example: on four devices, of the digit `(1, 4)` the digit `(2, 2)`
    leaves `(1, 2)`.
    """
    fixed = tuple([other for other in others if other is not None])
    return None if tiling is None else _rest_of_tiling(tiling, fixed)


@functools.lru_cache(maxsize=4096)
def _rest_of_tiling(tiling: Tiling, others: tuple[Tiling, ...]) -> Tiling | None:
    bounds = _bounds((tiling, *others))
    if bounds is not None:
        taken = set(_smallest_digits(others, bounds))
        own = [digit for digit in _smallest_digits((tiling,), bounds) if digit not in taken]
        return tiling_of_digits(tiling.devices, own)
    numbers = tiling.tile_of_each_device()
    tiles: dict[Ints, set[int]] = defaultdict(set)
    places = _combinations(others) if others else [()] * tiling.devices
    for place, number in zip(places, numbers, strict=True):
        tiles[place].add(number)
    ranks = {place: {n: rank for rank, n in enumerate(sorted(some))} for place, some in tiles.items()}
    return tiling_of_numbers([ranks[place][n] for place, n in zip(places, numbers, strict=True)])


def _bounds(tilings: Sequence[Tiling]) -> list[int] | None:
    """Returns the strides at which the digits of all tilings begin and end, each of which divides the next.

    None if they do not divide each other, or if a tiling has no digits: then only the tile numbers tell.
    """
    if any(tiling.numbers is not None for tiling in tilings):
        return None
    ends = {bound for tiling in tilings for stride, size in tiling.digits for bound in (stride, stride * size)}
    bounds = sorted(ends)
    return None if any(high % low for low, high in itertools.pairwise(bounds)) else bounds


def _smallest_digits(tilings: Iterable[Tiling], bounds: Sequence[int]) -> list[Digit]:
    """Returns the digits of tilings, cut at all bounds, major first in each tiling and each once."""
    found: dict[Digit, None] = {}
    for tiling in tilings:
        for stride, size in tiling.digits:
            inner = [bound for bound in bounds if stride <= bound <= stride * size]
            pairs = itertools.pairwise(inner)
            found.update(dict.fromkeys(reversed([(low, high // low) for low, high in pairs])))
    return list(found)


def _combinations(tilings: Iterable[Tiling]) -> list[Ints]:
    """Returns the tiles of each device."""
    return list(zip(*[tiling.tile_of_each_device() for tiling in tilings], strict=True))


# -- groups of devices


def replica_groups_along(tiling: Tiling, others: Iterable[Tiling | None]) -> ReplicaGroups:
    """Returns the replica groups of a collective that combines the tiles of one tiling.

    Each group has one device for each tile, in the order of tiles; its members hold the same tile of all `others`.
    """
    return _replica_groups_along(tiling, tuple([other for other in others if other is not None]))


@functools.lru_cache(maxsize=4096)
def _replica_groups_along(tiling: Tiling, others: tuple[Tiling, ...]) -> ReplicaGroups:
    along, devices = _rest_of_tiling(tiling, others), tiling.devices
    parts = None if along is None or _bounds((tiling, *others)) is None else _parts_of_iota([along], devices)
    if along is not None and parts is not None:
        sizes, inside, between = parts
        return IotaGroups.make(devices // along.tiles, along.tiles, sizes, [*between, *inside])
    by_place: dict[Ints, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    places = _combinations(others) if others else [()] * devices
    for device, (place, tile) in enumerate(zip(places, tiling.tile_of_each_device(), strict=True)):
        by_place[place][tile].append(device)
    groups = [
        group for tiles in by_place.values() for group in zip(*(tiles[tile] for tile in sorted(tiles)), strict=True)
    ]
    return GroupList(tuple(groups))


def devices_by_tile(tilings: Iterable[Tiling | None], devices: int) -> Iota | Ints:
    """Returns the devices in the order of their tiles, the first tiling major, and then of their numbers."""
    given = [tiling for tiling in tilings if tiling is not None]
    parts = _parts_of_iota(given, devices)
    if parts is not None:
        sizes, first, rest = parts
        return Iota.make(sizes, [*first, *rest])
    return tuple(sorted(range(devices), key=lambda device: [tiling.tile_of(device) for tiling in given]))


def _parts_of_iota(tilings: Sequence[Tiling], devices: int) -> tuple[list[int], list[int], list[int]] | None:
    """Returns the sizes of an iota of all devices, the dimensions that are the digits of tilings, and the others.

    None if no iota has the digits as dimensions.
    """
    bounds = _bounds([*tilings, Tiling(devices, ((1, devices),))])
    if bounds is None:
        return None
    every = [(low, high // low) for low, high in itertools.pairwise(bounds)][::-1] or [(1, 1)]
    position = {digit: number for number, digit in enumerate(every)}
    first = [position[digit] for digit in _smallest_digits(tilings, bounds)]
    return [size for _, size in every], first, [number for number in range(len(every)) if number not in first]
