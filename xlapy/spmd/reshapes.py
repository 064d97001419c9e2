"""Reshapes of split dimensions, which exchange only what moves to other devices.

A reshape splits and merges dimensions in groups: the dimensions of a group of the operand have the same elements, in
the same order, as those of a group of the result. The first dimension of a group alone is a factor of the sharding
rule (`sharding_rules`); this module has the others:

- Tiles of consecutive elements are tiles of the result, too, possibly of several of its dimensions.
- If the dimensions and tiles of both sides are products of the same factors, the array of factors is resharded: a
  factor that is no longer split is exchanged for one that will be, by an all-to-all.
- If the tiles of both sides are consecutive elements, of different sizes, each device receives the elements of its tile
  from its neighbors, as by a halo exchange. So do tiles that are not full.

Responsible for the route and for the local reshapes. Does not depend on how arrays are resharded.

Worked example: 8 rows in 4 tiles become (2, 4) rows. The first dimension has 2 tiles, the second one 2 tiles of 2 rows:
a device with tile 3 of the 8 rows has tile 1 of the first dimension and tile 1 of the second one. If (8, 6) elements
whose columns are in 2 tiles become 48 elements in 2 tiles, the array of (2, 4, 6) factors is resharded from tiles of
the last to tiles of the first one.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xlapy.analysis.cost import array_bytes
from xlapy.base.shape import Ints, Shape
from xlapy.hlo.instruction import Instruction
from xlapy.spmd.array_sharding import ArraySharding, local_shape, tile_size, uneven_dimensions
from xlapy.spmd.halo.exchange import HaloExchange
from xlapy.spmd.halo.segments import TiledDimension, elements_of_spans, spans_of_tiles
from xlapy.spmd.resharding import PartitionedArray, Resharder
from xlapy.spmd.strategy import Strategy
from xlapy.spmd.tiling import (
    Tiling,
    are_independent,
    coarsened,
    cut_digits,
    minor_tiling,
    nested_tiling,
    tile_count,
    tiling_of_digits,
)
from xlapy.spmd.time_model import exchange_seconds, resharding_seconds

_Tilings: TypeAlias = Sequence[Tiling | None]

_Group: TypeAlias = tuple[list[int], list[int]]
"""The dimensions of operand and result that have the same elements."""


@dataclass(frozen=True)
class _Factored:
    """A reshape by way of an array whose dimensions are factors of those of the operand and of the result.

    shape: that of the array of factors. source, wanted: its shardings, as the operand and as the result has them.
    result: the sharding of the result.
    """

    shape: Shape
    source: ArraySharding
    wanted: ArraySharding
    result: ArraySharding

    def seconds(self, operand: PartitionedArray) -> float:
        """Returns the time to reshard the array of factors."""
        return resharding_seconds(self.shape, self.source, self.wanted, operand.manual_axes)

    def write(self, resharder: Resharder, operand: PartitionedArray, result: Shape) -> PartitionedArray:
        """Writes the reshape."""
        write, axes = resharder.write, operand.manual_axes
        tile = write.reshape(operand.instruction, local_shape(self.shape, self.source))
        moved = resharder.reshard(PartitionedArray(tile, self.source, axes, self.shape), self.wanted)
        new = write.reshape(moved.instruction, local_shape(result, self.result))
        return PartitionedArray(new, self.result, axes, result)


@dataclass(frozen=True)
class _Ranges:
    """A reshape of which a device's tile is a range of consecutive elements of each group of dimensions.

    operand, result: the shardings before and after. groups: the number of elements of each group, the tiling of the
    range, and its sizes before and after.
    """

    operand: ArraySharding
    result: ArraySharding
    groups: tuple[tuple[int, Tiling | None, int, int], ...]

    def seconds(self, operand: PartitionedArray) -> float:
        """Returns the time to reshard the operand and to exchange elements."""
        shape = operand.whole_shape
        total = resharding_seconds(shape, operand.sharding, self.operand, operand.manual_axes)
        size = array_bytes(local_shape(shape, self.operand))
        for elements, tiling, old, new in self.groups:
            if old != new:
                tiles = tile_count(tiling)
                sent = elements_of_spans(TiledDimension(elements, old, tiles), spans_of_tiles(tiles, new))
                total += exchange_seconds(size / old * sent)
        return total

    def write(self, resharder: Resharder, operand: PartitionedArray, result: Shape) -> PartitionedArray:
        """Writes the reshape."""
        write, axes = resharder.write, operand.manual_axes
        moved = resharder.reshard(operand, self.operand).instruction
        array = write.reshape(moved, moved.shape.with_dimensions([old for _, _, old, _ in self.groups]))
        for dimension, (elements, tiling, old, new) in enumerate(self.groups):
            if old != new:
                assert tiling is not None
                others = [other for number, (_, other, _, _) in enumerate(self.groups) if number != dimension]
                exchange = HaloExchange(resharder, dimension, tiling, [*others, *axes])
                array = exchange.span(array, elements, spans_of_tiles(tile_count(tiling), new), None)
        return PartitionedArray(write.reshape(array, local_shape(result, self.result)), self.result, axes, result)


def reshaped_array(
    resharder: Resharder, instruction: Instruction, operand: PartitionedArray, strategy: Strategy,
    requested: ArraySharding,
) -> PartitionedArray | None:  # fmt: skip
    """Writes a reshape of a split array; None if its strategy takes no more time.

    requested: the sharding of the result, if the instruction has one.
    """
    shape, result, is_requested = operand.whole_shape, instruction.shape, instruction.sharding is not None
    if (is_requested and requested.is_replicated) or operand.sharding.partial_sums or requested.partial_sums:
        return None
    if operand.sharding.is_replicated or shape.is_dynamic or result.is_dynamic or 0 in result.dimensions:
        return None
    image = sharding_of_reshaped(shape, operand.sharding, result)
    target = requested if is_requested else image
    axes, given = operand.manual_axes, strategy.results[0]

    def resharded(sharding: ArraySharding) -> float:
        return 0.0 if target is None else resharding_seconds(result, sharding, target, axes)

    least = resharding_seconds(shape, operand.sharding, strategy.operands[0], axes) + resharded(given)
    chosen: _Factored | _Ranges | None = None
    for route in _routes(operand, result, image, requested if is_requested else None):
        seconds = route.seconds(operand) + resharded(route.result)
        if seconds < least:
            chosen, least = route, seconds
    return None if chosen is None else chosen.write(resharder, operand, result)


def _routes(
    operand: PartitionedArray, result: Shape, image: ArraySharding | None, requested: ArraySharding | None
) -> Iterator[_Factored | _Ranges]:
    """Yields the ways to reshape an array. image: the sharding that its tiles have as tiles of the result, if any."""
    shape, sharding = operand.whole_shape, operand.sharding
    groups = list(_groups(shape.dimensions, result.dimensions))
    for wanted in dict.fromkeys([image, requested]):
        factored = None if wanted is None else _factored(shape, sharding, result, wanted, groups)
        if factored is not None:
            yield factored
    ranges = _ranges(operand, result, requested, groups)
    if ranges is not None:
        yield ranges


# -- factors


def _factored(
    shape: Shape, source: ArraySharding, result: Shape, wanted: ArraySharding, groups: Sequence[_Group]
) -> _Factored | None:
    """Returns the array of factors of an operand and a result; None if their tiles are no products of the same ones."""
    if not _has_all_tilings(source, [d for before, _ in groups for d in before]):
        return None
    if not _has_all_tilings(wanted, [d for _, after in groups for d in after]):
        return None
    sizes: list[int] = []
    tilings: tuple[list[Tiling | None], list[Tiling | None]] = ([], [])
    for group in groups:
        sides = [
            ([array.dimensions[d] for d in dimensions], [sharding.tilings[d] for d in dimensions])
            for array, sharding, dimensions in ((shape, source, group[0]), (result, wanted, group[1]))
        ]
        factors = _common_factors(sides)
        if factors is None:
            return None
        sizes += factors
        for found, side in zip(tilings, sides, strict=True):
            split = _tilings_of_factors(*side, factors)
            if split is None:
                return None
            found += split
    before, after = (ArraySharding(tuple(some)) for some in tilings)
    return _Factored(shape.with_dimensions(sizes), before, after, wanted)


def _has_all_tilings(sharding: ArraySharding, dimensions: Sequence[int]) -> bool:
    """Returns whether no other dimension is split than some, which leave out those of one element."""
    return all(tiling is None or d in dimensions for d, tiling in enumerate(sharding.tilings))


def _common_factors(sides: Sequence[tuple[Sequence[int], _Tilings]]) -> list[int] | None:
    """Returns the sizes of the factors of the dimensions of both sides of a group, and of their tiles, major first."""
    strides: set[int] = set()
    for sizes, tilings in sides:
        stride = 1
        for size, tiling in reversed(list(zip(sizes, tilings, strict=True))):
            if size % tile_count(tiling):
                return None
            strides |= {stride, stride * (size // tile_count(tiling))}
            stride *= size
        strides.add(stride)
    ordered = sorted(strides)
    pairs = list(itertools.pairwise(ordered))
    return None if any(high % low for low, high in pairs) else [high // low for low, high in reversed(pairs)]


def _tilings_of_factors(sizes: Sequence[int], tilings: _Tilings, factors: Sequence[int]) -> list[Tiling | None] | None:
    """Returns the tilings of factors; the major factors of a dimension are as many as it has tiles."""
    found: list[Tiling | None] = []
    for size, tiling in zip(sizes, tilings, strict=True):
        own: list[int] = []
        while math.prod(own) < size:
            own.append(factors[len(found) + len(own)])
        if tiling is None:
            found += [None] * len(own)
            continue
        split = [factor for n, factor in enumerate(own) if math.prod(own[: n + 1]) <= tiling.tiles]
        parts = None if tiling.numbers is not None else cut_digits(tiling.digits, split)
        if parts is None:
            return None
        found += [tiling_of_digits(tiling.devices, part) for part in parts] + [None] * (len(own) - len(split))
    return found


# -- ranges


def _ranges(
    operand: PartitionedArray, result: Shape, requested: ArraySharding | None, groups: Sequence[_Group]
) -> _Ranges | None:
    """Returns the reshape by ranges that are tiles of the first dimension of each group; None if there is none.

    Tilings of other dimensions of a group are moved to its first one before.
    """
    shape, sharding = operand.whole_shape, operand.sharding
    taken: list[Tiling | None] = [None] * shape.rank
    given: list[Tiling | None] = [None] * result.rank
    found: list[tuple[int, Tiling | None, int, int]] = []
    for before, after in groups:
        sizes, new_sizes = [shape.dimensions[d] for d in before], [result.dimensions[d] for d in after]
        wanted = None if requested is None else nested_tiling([requested.tilings[d] for d in after])
        tiling = wanted or nested_tiling([sharding.tilings[d] for d in before])
        if min(sizes[0], new_sizes[0]) < tile_count(tiling):
            return None
        taken[before[0]] = given[after[0]] = tiling
        old, new = (tile_size(some[0], tiling) * math.prod(some[1:]) for some in (sizes, new_sizes))
        found.append((math.prod(sizes), tiling, old, new))
    if not are_independent([*taken, *operand.manual_axes]):
        return None
    return _Ranges(ArraySharding(tuple(taken)), ArraySharding(tuple(given)), tuple(found))


# -- tiles that stay


def sharding_of_reshaped(operand: Shape, sharding: ArraySharding, result: Shape) -> ArraySharding | None:
    """Returns the sharding of a reshaped array whose tiles are those of the operand; None if there is none.

    There is none for tiles that are not full, such as those of a split dimension of one element.
    """
    if operand.is_dynamic or result.is_dynamic or 0 in result.dimensions or uneven_dimensions(operand, sharding):
        return None
    tilings: list[Tiling | None] = [None] * result.rank
    for before, after in _groups(operand.dimensions, result.dimensions):
        split = [dimension for dimension in before if sharding.tilings[dimension] is not None]
        if not split:
            continue
        if not _are_consecutive(operand.dimensions, sharding.tilings, before):
            return None
        rest = nested_tiling([sharding.tilings[dimension] for dimension in split])
        for dimension in after:
            size, tiles = result.dimensions[dimension], tile_count(rest)
            count = math.gcd(size, tiles)
            if rest is None or count not in (size, tiles):
                break
            tilings[dimension] = rest if count == tiles else coarsened(rest, count)
            rest = None if count == tiles else minor_tiling(rest, tilings[dimension])
        if rest is not None:
            return None
    return ArraySharding(tuple(tilings), sharding.partial_sums)


def _groups(before: Ints, after: Ints) -> Iterator[tuple[list[int], list[int]]]:
    """Yields the dimensions of operand and result that belong together. Dimensions of one element belong to none."""
    old = [dimension for dimension, size in enumerate(before) if size != 1]
    new = [dimension for dimension, size in enumerate(after) if size != 1]
    while old and new:
        left, right = [old.pop(0)], [new.pop(0)]
        sizes = [before[left[0]], after[right[0]]]
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1]:
                left.append(old.pop(0))
                sizes[0] *= before[left[-1]]
            else:
                right.append(new.pop(0))
                sizes[1] *= after[right[-1]]
        yield left, right


def _are_consecutive(sizes: Ints, tilings: Sequence[Tiling | None], group: Sequence[int]) -> bool:
    """Returns whether the tiles of a group are equal numbers of consecutive elements.

    They are if each dimension before a split one has tiles of one element.
    """
    is_single = True
    for dimension in group:
        tiling = tilings[dimension]
        if tiling is not None and not is_single:
            return False
        is_single = is_single and tile_count(tiling) == sizes[dimension]
    return True
