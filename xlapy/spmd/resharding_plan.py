"""Plans how an array gets from one sharding to another: the steps and the devices that take part.

A plan reduces partial sums, permutes tiles between devices, slices what each device already holds, exchanges tiles of
one dimension for tiles of another, gathers, and slices the rest. The steps come in this order so that little is
communicated. Devices on different tiles of `manual_axes` never communicate: the program computes by hand what they
hold, as in JAX's shard_map.

Responsible for the choice and the order of steps and for their replica groups. Does not depend on instructions;
`resharding.py` writes those.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.permutations import Permutation
from xlapy.opcodes.attributes.replica_groups import ReplicaGroups
from xlapy.spmd.array_sharding import ArraySharding, tile_size, uneven_dimensions
from xlapy.spmd.collectives.device_pairs import pairs_of_contents
from xlapy.spmd.tiling import (
    Tiling,
    are_independent,
    coarsened,
    combined_tiling,
    is_determined_by,
    minor_tiling,
    refines,
    replica_groups_along,
    rest_of_tiling,
    tile_count,
)


@dataclass(frozen=True)
class Step:
    """One step of a resharding plan. after: the sharding of the array after this step."""

    after: ArraySharding


@dataclass(frozen=True)
class GroupStep(Step):
    """A collective within replica groups."""

    groups: ReplicaGroups

    @property
    def group_size(self) -> int:
        return self.groups.group_size


@dataclass(frozen=True)
class AllReduce(GroupStep):
    """An all-reduce that adds partial sums."""


@dataclass(frozen=True)
class ReduceScatter(GroupStep):
    """A reduce-scatter that adds partial sums and splits a dimension."""

    dimension: int


@dataclass(frozen=True)
class AllGather(GroupStep):
    """An all-gather along a dimension."""

    dimension: int


@dataclass(frozen=True)
class AllToAll(GroupStep):
    """An all-to-all that splits one dimension and concatenates the tiles of another."""

    split_dimension: int
    concat_dimension: int


@dataclass(frozen=True)
class CollectivePermute(Step):
    """Each device sends its tile to another one.

    before, wanted: the tilings that identify what each device holds before the step and after it.
    """

    before: tuple[Tiling, ...]
    wanted: tuple[Tiling, ...]

    @property
    def pairs(self) -> Permutation:
        """The source and target devices."""
        return pairs_of_contents(self.before, self.wanted)


@dataclass(frozen=True)
class LocalSlice(Step):
    """Each device keeps one tile of its local array, without communication. tiles: which one in each dimension."""

    tiles: tuple[Tiling | None, ...]


@dataclass(frozen=True)
class PadWithZeros(Step):
    """Each device writes its local array into a larger array of zeros, of which the sum over devices is the whole.

    tiles: for each dimension, the tile of the larger array that a device writes.
    """

    tiles: tuple[Tiling | None, ...]


@dataclass(frozen=True)
class ZeroOnOtherDevices(Step):
    """Devices on tile 0 of a tiling keep their local array, the others replace it by zeros."""

    tiling: Tiling


def plan_resharding(
    source: ArraySharding, target: ArraySharding, manual_axes: Sequence[Tiling] = (), exchanges_first: bool = False
) -> list[Step]:
    """Returns the steps from one sharding to another; none if they are equal.

    exchanges_first: whether tiles are exchanged between dimensions before partial sums are added. The sums are
    sometimes scattered then, where they would have to be added on all devices before.
    """
    return [] if source == target else _ReshardingPlanner(source, target, manual_axes).steps(exchanges_first)


def resharding_stages(shape: Shape, source: ArraySharding, target: ArraySharding) -> list[ArraySharding]:
    """Returns the shardings, the last of them the target, to each of which a plan of its own leads.

    There is a stage before the target if the tiles of a dimension change and filled up tiles of both shardings do not
    have the same size together: such dimensions are whole in between.
    """
    between = source
    for dimension in {*uneven_dimensions(shape, source), *uneven_dimensions(shape, target)}:
        old, new, size = source.tilings[dimension], target.tilings[dimension], shape.dimensions[dimension]
        filled = {tile_size(size, tiling) * tile_count(tiling) for tiling in (old, new)}
        if old and new and old != new and len(filled) > 1:
            between = between.with_tiling(dimension, None)
    return [target] if between == source else [between, target]


class _ReshardingPlanner:
    """A plan under construction. current: the sharding after the steps so far."""

    def __init__(self, source: ArraySharding, target: ArraySharding, manual_axes: Sequence[Tiling]) -> None:
        self.current = source
        self.target = target
        self.manual_axes = manual_axes

    def steps(self, exchanges_first: bool) -> list[Step]:
        planned: list[Step] = []
        reductions = [self._all_to_all, self._reduce] if exchanges_first else [self._reduce]
        for propose in (
            self._slice_before_sum,
            *reductions,
            self._permute,
            self._slice_independent,
            self._all_to_all,
            self._pad_to_partial_sums,
            self._all_gather,
            self._slice_rest,
            self._zero_to_partial_sums,
        ):
            for step in propose():
                planned.append(step)
                self.current = step.after
        return planned

    def _changes(self) -> Iterator[tuple[int, Tiling | None, Tiling | None]]:
        """Yields each dimension whose tiling still differs from the target: its number, current and target tiling."""
        for dimension, (old, new) in enumerate(zip(self.current.tilings, self.target.tilings, strict=True)):
            if old != new:
                yield dimension, old, new

    def _groups(self, tiling: Tiling, after: ArraySharding) -> ReplicaGroups:
        """Returns the groups of devices that differ in a tiling only, given the sharding after the step."""
        return replica_groups_along(tiling, [*after.all_tilings, *self.manual_axes])

    # -- partial sums

    def _slice_before_sum(self) -> Iterator[Step]:
        """Slices what each device will keep of partial sums, so that less is added."""
        if self.current.partial_sums is None or is_determined_by(self.current.partial_sums, self.target.partial_sums):
            return
        tilings = list(self.current.tilings)
        tiles: list[Tiling | None] = [None] * len(tilings)
        for dimension, old, _ in self._changes():
            others = [
                *tilings[:dimension], *tilings[dimension + 1 :], self.current.partial_sums, *self.manual_axes
            ]  # fmt: skip
            parts = [part for part in self._parts(dimension) if are_independent([part, *others])]
            if parts:
                tilings[dimension], tiles[dimension] = parts[0], minor_tiling(parts[0], old)
        if any(tiles):
            yield LocalSlice(ArraySharding(tuple(tilings), self.current.partial_sums), tuple(tiles))

    def _parts(self, dimension: int) -> Iterator[Tiling]:
        """Yields the tilings of a dimension from the wanted one to coarser ones, all finer than the current one."""
        old, new = self.current.tilings[dimension], self.target.tilings[dimension]
        if new is None or not refines(new, old):
            return
        ratio = new.tiles // tile_count(old)
        low = [n for n in range(1, math.isqrt(ratio) + 1) if ratio % n == 0]
        for count in sorted({*low, *[ratio // n for n in low]} - {1}, reverse=True):
            part = coarsened(new, tile_count(old) * count)
            if part is not None and refines(part, old):
                yield part

    def _reduce(self) -> Iterator[Step]:
        """Adds partial sums that the target does not have, by reduce-scatters where dimensions can be split alike."""
        partial_sums, wanted = self.current.partial_sums, self.target.partial_sums
        if partial_sums is None or is_determined_by(partial_sums, wanted):
            return  # the target has the same partial sums, or more
        left = wanted if wanted is not None and is_determined_by(wanted, partial_sums) else None
        current = self.current
        for dimension, old, _ in self._changes() if left is None else ():
            for part in self._parts(dimension):
                scattered = minor_tiling(part, old)
                rest = rest_of_tiling(partial_sums, [scattered])
                if partial_sums is None or not _consists_of(partial_sums, scattered, rest):
                    continue
                partial_sums = combined_tiling([rest])
                current = current.with_partial_sums(partial_sums)
                groups = self._groups(scattered, current)
                current = current.with_tiling(dimension, part)
                yield ReduceScatter(current, groups, dimension)
                break
        if partial_sums is not None:
            after = current.with_partial_sums(left)
            yield AllReduce(after, self._groups(partial_sums, after))

    def _pad_to_partial_sums(self) -> Iterator[Step]:
        """Turns tiles that would have to be gathered into partial sums that the target has, without communication."""
        if self.target.partial_sums is None:
            return
        gathered = {d: minor_tiling(old, new) for d, old, new in self._changes() if old and refines(old, new)}
        partial_sums = combined_tiling([self.current.partial_sums, *gathered.values()])
        if gathered and is_determined_by(partial_sums, self.target.partial_sums):
            tilings = [self.target.tilings[d] if d in gathered else s for d, s in enumerate(self.current.tilings)]
            tiles = tuple([gathered.get(d) for d in range(len(tilings))])
            yield PadWithZeros(ArraySharding(tuple(tilings), partial_sums), tiles)

    def _zero_to_partial_sums(self) -> Iterator[Step]:
        """Makes the target's partial sums: of the devices with equal contents, those with the least number keep it."""
        wanted = self.target.partial_sums
        if wanted is None or wanted == self.current.partial_sums:
            return
        rest = rest_of_tiling(wanted, self._contents(self.current))
        if rest is not None:
            yield ZeroOnOtherDevices(self.target, rest)

    # -- tiles

    def _permute(self) -> Iterator[Step]:
        """Sends existing tiles to the devices that need them, or that need a tile of them."""
        pairs = list(zip(self.current.tilings, self.target.tilings, strict=True))
        if any(tile_count(new) % tile_count(old) for old, new in pairs):
            return
        tilings = tuple([coarsened(new, tile_count(old)) for old, new in pairs])
        after = ArraySharding(tilings, self.current.partial_sums)
        if after != self.current and are_independent([*after.all_tilings, *self.manual_axes]):
            yield CollectivePermute(after, self._contents(self.current), self._contents(after))

    def _contents(self, sharding: ArraySharding) -> tuple[Tiling, ...]:
        """Returns the tilings that identify what each device holds."""
        return tuple([tiling for tiling in (*sharding.all_tilings, *self.manual_axes) if tiling is not None])

    def _slice_independent(self) -> Iterator[Step]:
        """Slices dimensions whose new tiling refines the old one and is independent of the other dimensions'."""
        tilings = list(self.current.tilings)
        tiles: list[Tiling | None] = [None] * len(tilings)
        for dimension, old, new in self._changes():
            others = [
                *tilings[:dimension], *tilings[dimension + 1 :], self.current.partial_sums, *self.manual_axes
            ]  # fmt: skip
            if new and refines(new, old) and are_independent([new, *others]):
                tilings[dimension], tiles[dimension] = new, minor_tiling(new, old)
        if any(tiles):
            yield LocalSlice(ArraySharding(tuple(tilings), self.current.partial_sums), tuple(tiles))

    def _slice_rest(self) -> Iterator[Step]:
        tiles = {dimension: minor_tiling(new, old) for dimension, old, new in self._changes() if new}
        if tiles:
            yield LocalSlice(
                ArraySharding(self.target.tilings, self.current.partial_sums),
                tuple([tiles.get(dimension) for dimension in range(len(self.target.tilings))]),
            )

    def _all_to_all(self) -> Iterator[Step]:
        """Exchanges tiles where one dimension loses the tiling that another one gains, or its next digits."""
        current, is_changed = self.current, True
        while is_changed:
            is_changed = False
            for concat, (old, new) in enumerate(zip(current.tilings, self.target.tilings, strict=True)):
                if old is None or old == new or (new and refines(new, old)):
                    continue
                kept = new if refines(old, new) else None
                moved = minor_tiling(old, kept)
                for split, (tiling, wanted) in enumerate(zip(current.tilings, self.target.tilings, strict=True)):
                    gained = _next_tiling(tiling, wanted, moved)
                    if split == concat or gained is None:
                        continue
                    between = current.with_tiling(concat, kept)
                    groups = self._groups(moved, between)
                    current = between.with_tiling(split, gained)
                    is_changed = True
                    yield AllToAll(current, groups, split, concat)
                    break

    def _all_gather(self) -> Iterator[Step]:
        current = self.current
        for dimension, old, new in self._changes():
            if old is None or (new and refines(new, old)):
                continue
            left = new if refines(old, new) else None
            current = current.with_tiling(dimension, left)
            yield AllGather(current, self._groups(minor_tiling(old, left), current), dimension)


def _next_tiling(tiling: Tiling | None, wanted: Tiling | None, moved: Tiling) -> Tiling | None:
    """Returns the tiling that a dimension has once it is split by another one, too; None if it is not to be split so.

    wanted: the tiling that the dimension is to have in the end.
    """
    count = tile_count(tiling) * moved.tiles
    if not wanted or not refines(wanted, tiling) or tile_count(wanted) % count:
        return None
    gained = coarsened(wanted, count)
    return gained if gained is not None and minor_tiling(gained, tiling) == moved else None


def _consists_of(whole: Tiling, part: Tiling, rest: Tiling | None) -> bool:
    """Returns whether each tile of `whole` is one combination of a tile of `part` and one of `rest`."""
    return whole.tiles == part.tiles * tile_count(rest) and combined_tiling([part, rest]) == combined_tiling([whole])
