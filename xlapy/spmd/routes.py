"""The way of an array from one placement to another, as steps, and what they send.

Owns: which steps are taken, who takes part in them. Must not know: instructions.

A route adds up, gives tiles to other devices, cuts what can be cut without sending, exchanges tiles of one dimension
for those of another, gathers, and cuts the rest, so that little is sent. Devices on different tiles of the splits
`apart` do not meet: they are at different places of a region that the program computes by hand.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from xlapy.base.shape import Ints, Shape
from xlapy.opcodes.attributes.replica_groups import GroupList
from xlapy.spmd.splits import (
    Placement,
    Split,
    are_independent,
    coarser,
    follows,
    groups_along,
    labels,
    minor,
    part_of,
    refines,
    tiles_of,
)


@dataclass(frozen=True)
class Step:
    """after: where the array lies then."""

    after: Placement

    def sent(self) -> float:
        """How many times as much as its part a device is sent."""
        return 0.0


@dataclass(frozen=True)
class Grouped(Step):
    """What the members of a group do together."""

    groups: GroupList

    @property
    def members(self) -> int:
        return self.groups.group_size


@dataclass(frozen=True)
class AddUp(Grouped):
    """An all-reduce."""

    def sent(self) -> float:
        return 2 * (self.members - 1) / self.members


@dataclass(frozen=True)
class AddUpTiles(Grouped):
    """A reduce-scatter along a dimension."""

    dimension: int

    def sent(self) -> float:
        return (self.members - 1) / self.members


@dataclass(frozen=True)
class Gather(Grouped):
    """An all-gather along a dimension."""

    dimension: int

    def sent(self) -> float:
        return self.members - 1


@dataclass(frozen=True)
class Exchange(Grouped):
    """An all-to-all: one dimension is cut, another put together."""

    cut: int
    joined: int

    def sent(self) -> float:
        return (self.members - 1) / self.members


@dataclass(frozen=True)
class Permute(Step):
    """Parts go from one device to another."""

    pairs: tuple[Ints, ...]

    def sent(self) -> float:
        return 1.0


@dataclass(frozen=True)
class Cut(Step):
    """Each device takes a tile of what it has: of each dimension, which one."""

    tiles: tuple[Split | None, ...]


@dataclass(frozen=True)
class Spread(Step):
    """Each device puts its part among zeros: of each dimension, at which tile. The whole is the sum of these."""

    tiles: tuple[Split | None, ...]


@dataclass(frozen=True)
class Keep(Step):
    """Some devices keep what they have, the others have zeros."""

    keeps: tuple[bool, ...]


def route(source: Placement, target: Placement, apart: Sequence[Split] = ()) -> list[Step]:
    """The steps from one placement to the other, none if they are the same."""
    return [] if source == target else _Route(source, target, apart).steps()


def bytes_sent(shape: Shape, source: Placement, target: Placement, apart: Sequence[Split] = ()) -> float:
    """How many bytes a device is sent on the way."""
    total, here = 0.0, source
    for step in route(source, target, apart):
        total += step.sent() * part_of(shape, here).byte_size
        here = step.after
    return total


class _Route:
    """One route under way: `here` is where the array lies so far."""

    def __init__(self, source: Placement, target: Placement, apart: Sequence[Split]) -> None:
        self.here = source
        self.target = target
        self.apart = apart

    def steps(self) -> list[Step]:
        taken: list[Step] = []
        moves = (self._added, self._permuted, self._cut, self._exchanged, self._spread, self._gathered)
        for move in (*moves, self._cut_rest, self._kept):
            for step in move():
                taken.append(step)
                self.here = step.after
        return taken

    def _pairs(self) -> Iterator[tuple[int, Split | None, Split | None]]:
        """Of each dimension that is cut otherwise in the end: its number, how it is cut, how it will be."""
        for dimension, (old, new) in enumerate(zip(self.here.splits, self.target.splits, strict=True)):
            if old != new:
                yield dimension, old, new

    def _groups(self, split: Split, after: Placement) -> GroupList:
        """Of devices that differ along a split; it has become another one after that."""
        return groups_along(split, [*after.cuts, *self.apart])

    # -- sums

    def _added(self) -> Iterator[Step]:
        addends, wanted = self.here.addends, self.target.addends
        if addends is None or follows(addends, wanted):
            return  # there will be as many addends, or more
        left = wanted if wanted is not None and follows(wanted, addends) else None
        for dimension, old, new in self._pairs():
            if left is None and new and refines(new, old) and labels([minor(new, old)]) == addends:
                after = self.here.with_addends(None)
                groups = self._groups(minor(new, old), after)
                yield AddUpTiles(after.with_split(dimension, new), groups, dimension)
                return
        after = self.here.with_addends(left)
        yield AddUp(after, self._groups(addends, after))

    def _spread(self) -> Iterator[Step]:
        """What would be gathered becomes addends that are wanted."""
        if self.target.addends is None:
            return
        gathered = {d: minor(old, new) for d, old, new in self._pairs() if old and refines(old, new)}
        addends = labels([self.here.addends, *gathered.values()])
        if gathered and follows(addends, self.target.addends):
            splits = [self.target.splits[d] if d in gathered else s for d, s in enumerate(self.here.splits)]
            tiles = tuple([gathered.get(d) for d in range(len(splits))])
            yield Spread(Placement(tuple(splits), addends), tiles)

    def _kept(self) -> Iterator[Step]:
        wanted = self.target.addends
        if wanted is None or wanted == self.here.addends:
            return
        places = list(zip(*[cut for cut in (*self.here.cuts, *self.apart) if cut is not None], strict=True))
        places = places or [()] * len(wanted)
        least: dict[Ints, int] = {}
        for place, label in zip(places, wanted, strict=True):
            least[place] = min(label, least.get(place, label))
        keeps = tuple([least[place] == label for place, label in zip(places, wanted, strict=True)])
        yield Keep(self.target, keeps)

    # -- tiles

    def _permuted(self) -> Iterator[Step]:
        """The tiles that are there already, to devices that cut them further at most."""
        pairs = zip(self.here.splits, self.target.splits, strict=True)
        if any(tiles_of(new) % tiles_of(old) for old, new in pairs):
            return
        pairs = zip(self.here.splits, self.target.splits, strict=True)
        after = Placement(tuple([coarser(new, tiles_of(old)) for old, new in pairs]), self.here.addends)
        if after != self.here and are_independent([*after.cuts, *self.apart]):
            yield Permute(after, _partners(self._places(self.here), self._places(after)))

    def _places(self, placement: Placement) -> list[Ints]:
        cuts = [cut for cut in (*placement.cuts, *self.apart) if cut is not None]
        return list(zip(*cuts, strict=True))

    def _cut(self) -> Iterator[Step]:
        """What needs no other tiles, as far as devices are not taken by those of other dimensions."""
        splits = list(self.here.splits)
        tiles: list[Split | None] = [None] * len(splits)
        for dimension, old, new in self._pairs():
            others = [*splits[:dimension], *splits[dimension + 1 :], self.here.addends, *self.apart]
            if new and refines(new, old) and are_independent([new, *others]):
                splits[dimension], tiles[dimension] = new, minor(new, old)
        if any(tiles):
            yield Cut(Placement(tuple(splits), self.here.addends), tuple(tiles))

    def _cut_rest(self) -> Iterator[Step]:
        tiles = {dimension: minor(new, old) for dimension, old, new in self._pairs() if new}
        if tiles:
            yield Cut(
                Placement(self.target.splits, self.here.addends),
                tuple([tiles.get(dimension) for dimension in range(len(self.target.splits))]),
            )

    def _exchanged(self) -> Iterator[Step]:
        here = self.here
        for joined, old, new in self._pairs():
            if old is None or not refines(old, new):
                continue
            for cut, split in enumerate(here.splits):
                wanted = self.target.splits[cut]
                if cut != joined and wanted and refines(wanted, split) and minor(wanted, split) == minor(old, new):
                    between = here.with_split(joined, new)
                    groups = self._groups(minor(old, new), between)
                    here = between.with_split(cut, wanted)
                    yield Exchange(here, groups, cut, joined)
                    break

    def _gathered(self) -> Iterator[Step]:
        here = self.here
        for dimension, old, new in self._pairs():
            if old is None or (new and refines(new, old)):
                continue
            left = new if refines(old, new) else None
            here = here.with_split(dimension, left)
            yield Gather(here, self._groups(minor(old, left), here), dimension)


def _partners(before: Iterable[Ints], after: Iterable[Ints]) -> tuple[Ints, ...]:
    """Who sends to whom, so that devices have the tiles of the places after; those that have them keep them."""
    having: dict[Ints, list[int]] = defaultdict(list)
    wanting: dict[Ints, list[int]] = defaultdict(list)
    for device, (old, new) in enumerate(zip(before, after, strict=True)):
        if old == new:
            continue
        having[old].append(device)
        wanting[new].append(device)
    kept = [(device, device) for device, (old, new) in enumerate(zip(before, after, strict=True)) if old == new]
    sent = [pair for place, targets in wanting.items() for pair in zip(having[place], targets, strict=True)]
    return tuple(sorted([*kept, *sent]))
