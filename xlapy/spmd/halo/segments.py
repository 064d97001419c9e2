"""Plans which elements of which tiles travel to assemble an array whose tiles need elements of several other tiles.

Along one dimension, each tile of the result is a sequence of segments: consecutive elements of one tile of an array.
Segments travel in rounds. In one round each tile sends at most one segment and each tile receives at most one, so that
a round is one collective-permute; segments that stay on their device need none.

The segments of all tiles are columns of NumPy arrays, so that a plan for thousands of tiles takes hardly longer than
one for eight. Plans depend on a few numbers only, and are kept.

Responsible for segments, rounds and the number of elements sent. Does not depend on instructions; `exchange.py`
writes those.

Worked example: 12 elements in 3 tiles of 4; each tile of the result needs its own elements and one on either side.
Tile 1 needs elements 3 to 8, the segments [3:4] of tile 0, [0:4] of tile 1 and [0:1] of tile 2. All tiles have segments
of these lengths, so there are three rounds, the second without communication, and the result is their concatenation.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, TypeAlias

import numpy as np

IntArray: TypeAlias = "np.ndarray[Any, np.dtype[np.int64]]"

OUTSIDE: Final = -1
"""The source of a segment outside of its array, and of a tile that receives nothing in a round."""


@dataclass(frozen=True)
class TiledDimension:
    """A dimension of `size` elements in `tiles` tiles of `tile_size` elements; the last tiles may be partly filled."""

    size: int
    tile_size: int
    tiles: int

    def sources(self, numbers: IntArray) -> IntArray:
        """Returns tile numbers, and `OUTSIDE` for tiles that have no element of the array."""
        is_inside = (numbers >= 0) & (numbers < self.tiles) & (numbers * self.tile_size < self.size)
        return np.where(is_inside, numbers, OUTSIDE)


@dataclass(frozen=True)
class TileNumbers:
    """A number for each of `tiles` tiles: `scale * ceil((first + step * tile) / divisor) + offset`."""

    tiles: int
    first: int
    step: int
    divisor: int = 1
    scale: int = 1
    offset: int = 0

    @property
    def values(self) -> IntArray:
        """The numbers of all tiles."""
        return self.scale * -(-(self.first + self.step * np.arange(self.tiles)) // self.divisor) + self.offset

    def plus(self, number: int) -> TileNumbers:
        """Returns the numbers plus another one."""
        return replace(self, offset=self.offset + number)


@dataclass(frozen=True)
class Spans:
    """The elements that each tile needs along a dimension: `length` elements from the tile's number in `first` on.

    Elements before 0, and after the end of the array, are outside of the array.
    """

    first: TileNumbers
    length: int

    @property
    def starts(self) -> IntArray:
        """The first element of each tile."""
        return self.first.values

    def reaches_outside(self, size: int) -> bool:
        """Returns whether the span of some tile has elements outside of an array of `size` elements."""
        starts = self.starts
        return bool(starts.min() < 0 or starts.max() + self.length > size)


def spans_of_tiles(tiles: int, size: int) -> Spans:
    """Returns the spans that are tiles of `size` elements each, one after another."""
    return Spans(TileNumbers(tiles, 0, size), size)


@dataclass(frozen=True)
class Range:
    """A part of a concatenation: `length` elements of array number `array`, from `start` on."""

    array: int
    start: int
    length: int


@dataclass(frozen=True, eq=False)
class Round:
    """Segments that travel together: for each tile of the result one, or none.

    array: the number of the array that they are of. sources: the tile that sends; `OUTSIDE` for elements outside of the
    array, or for none. starts: the first element within that tile. lengths: the number of elements; 0 for none.
    positions: where they are in the tile of the result.
    """

    array: int
    sources: IntArray
    starts: IntArray
    lengths: IntArray
    positions: IntArray

    @property
    def targets(self) -> IntArray:
        """The tiles that receive elements of the array."""
        return np.flatnonzero(self.sources != OUTSIDE)

    @property
    def length(self) -> int:
        """The number of elements of the longest segment."""
        return int(self.lengths.max())

    @property
    def is_local(self) -> bool:
        """Whether no segment leaves its device."""
        return bool(((self.sources == OUTSIDE) | (self.sources == np.arange(len(self.sources)))).all())

    @property
    def elements_sent(self) -> int:
        """The number of elements that a device receives from another one, at most."""
        return 0 if self.is_local else self.length


@dataclass(frozen=True, eq=False)
class Segments:
    """The segments of all tiles of a result, in the order of tiles and of positions: arrays of one length.

    tiles: the number of tiles of the result. targets: the tile that needs the segment. runs: the number of the part of
    the result that the segment is from. In one part the sources of a tile follow each other, as do the targets of a
    source. arrays, sources, starts, lengths, positions: as in `Round`.
    """

    tiles: int
    targets: IntArray
    runs: IntArray
    arrays: IntArray
    sources: IntArray
    starts: IntArray
    lengths: IntArray
    positions: IntArray

    def chosen(self, which: Any) -> Segments:
        """Returns some of the segments."""
        return Segments(self.tiles, *[getattr(self, field.name)[which] for field in fields(self)[1:]])

    @staticmethod
    def joined(several: Sequence[Segments]) -> Segments:
        """Returns the segments of several parts of a result; those of one tile stay in their order."""
        names = [field.name for field in fields(Segments)[1:]]
        columns = [np.concatenate([getattr(each, name) for each in several]) for name in names]
        order = np.argsort(columns[0], kind="stable")
        return Segments(several[0].tiles, *[column[order] for column in columns])


def segments_of_spans(dimension: TiledDimension, spans: Spans) -> Segments:
    """Returns the segments of spans, some of which may be outside of the array.

    Elements outside are divided as if tiles went on before the first and after the last one.
    """
    starts, size = spans.starts, dimension.tile_size
    counts = -(-(starts % size + spans.length) // size)
    targets = np.repeat(np.arange(len(starts)), counts)
    number = np.arange(len(targets)) - np.repeat(np.cumsum(counts) - counts, counts)
    tiles = starts[targets] // size + number
    low = np.maximum(starts[targets], tiles * size)
    high = np.minimum(starts[targets] + spans.length, (tiles + 1) * size)
    zeros = np.zeros_like(targets)
    return Segments(
        len(starts), targets, zeros, zeros, dimension.sources(tiles), low - tiles * size, high - low,
        low - starts[targets],
    )  # fmt: skip


def segments_of_concatenation(
    ranges: Sequence[Range], arrays: Sequence[TiledDimension], tile_size: int, tiles: int
) -> Segments:
    """Returns the segments of each of `tiles` tiles of a concatenation of ranges.

    arrays: the dimension of each array; one in a single tile is whole on every device.
    """
    found: list[Segments] = []
    before = 0
    for number, each in enumerate(ranges):
        if each.length:  # an array without elements has no tiles
            found.append(_segments_of_range(number, each, arrays[each.array], before, tile_size, tiles))
        before += each.length
    return Segments.joined(found)


def _segments_of_range(
    number: int, taken: Range, dimension: TiledDimension, before: int, tile_size: int, tiles: int
) -> Segments:
    """Returns the segments of a range that is at element `before` of a concatenation."""
    shift, end = taken.start - before, before + taken.length
    bounds = [
        np.arange(-(-before // tile_size) * tile_size, end, tile_size),
        np.arange(-(-taken.start // dimension.tile_size) * dimension.tile_size - shift, end, dimension.tile_size),
    ]
    low = np.unique(np.concatenate([[before] if taken.length else [], *bounds]).astype(np.int64))
    lengths = np.diff(low, append=end)
    targets, places = low // tile_size, (low + shift) // dimension.tile_size
    sources = targets if dimension.tiles == 1 else dimension.sources(places)
    return Segments(
        tiles, targets, np.full_like(low, number), np.full_like(low, taken.array), sources,
        low + shift - places * dimension.tile_size, lengths, low - targets * tile_size,
    )  # fmt: skip


# -- rounds


def concatenated_rounds(segments: Segments) -> list[Round] | None:
    """Returns rounds whose concatenation is the tile of the result; None unless all tiles have segments of equal form.

    The segments of one round are equal except for the tile they are from.
    """
    count = len(segments.targets) // segments.tiles
    if not (np.bincount(segments.targets, minlength=segments.tiles) == count).all():
        return None
    rounds: list[Round] = []
    for number in range(count):
        column = segments.chosen(slice(number, None, count))
        form = column.arrays, column.starts, column.lengths, column.positions
        if not all((each == each[0]).all() for each in form) or not _are_distinct(column.sources):
            return None
        rounds.append(Round(int(column.arrays[0]), column.sources, column.starts, column.lengths, column.positions))
    return rounds


def _are_distinct(sources: IntArray) -> bool:
    inside = sources[sources != OUTSIDE]
    return len(np.unique(inside)) == len(inside)


def independent_rounds(segments: Segments) -> list[Round]:
    """Returns rounds of all segments that are inside of their arrays, in which no tile sends or receives twice.

    Segments that stay on their device are in rounds of their own. The others of one part go to the round of their
    number `(source - target) mod n`, where n is the largest number of segments that one tile sends or receives: the
    sources of a tile follow each other, as do the targets of a source, so that these numbers differ. Rounds of
    different parts are merged where they have no tile in common.
    """
    rounds: list[Round] = []
    for run in np.unique(segments.runs):
        part = segments.chosen((segments.runs == run) & (segments.sources != OUTSIDE))
        if not len(part.targets):
            continue
        degree = max(np.bincount(part.targets).max(), np.bincount(part.sources).max())
        color = np.where(part.sources == part.targets, OUTSIDE, (part.sources - part.targets) % degree)
        for each in np.unique(color):
            _merge(rounds, _scattered(part.chosen(color == each)))
    return sorted(rounds, key=lambda each: (each.array, not each.is_local))


def _scattered(segments: Segments) -> Round:
    """Returns the round of segments of one array."""
    columns = [np.full(segments.tiles, empty) for empty in (OUTSIDE, 0, 0, 0)]
    given = segments.sources, segments.starts, segments.lengths, segments.positions
    for column, values in zip(columns, given, strict=True):
        column[segments.targets] = values
    return Round(int(segments.arrays[0]), *columns)


def _merge(rounds: list[Round], new: Round) -> None:
    """Adds a round to one of the same kind that has no tile in common with it, else to the list."""
    is_new = new.sources != OUTSIDE
    for number, old in enumerate(rounds):
        is_old = old.sources != OUTSIDE
        if (old.array, old.is_local) == (new.array, new.is_local) and not (is_old & is_new).any():
            if np.isin(new.sources[is_new], old.sources[is_old]).any():
                continue
            names = ("sources", "starts", "lengths", "positions")
            columns = [np.where(is_new, getattr(new, name), getattr(old, name)) for name in names]
            rounds[number] = Round(old.array, *columns)
            return
    rounds.append(new)


def _aligned_rounds(dimension: TiledDimension, spans: Spans) -> Iterator[Round] | None:
    """Returns the rounds of spans that all begin at the same place of a tile, and at different tiles; else None."""
    tiles, offsets = np.divmod(spans.starts, dimension.tile_size)
    if not (offsets == offsets[0]).all() or len(np.unique(tiles)) != len(tiles):
        return None
    size, first, end = dimension.tile_size, int(offsets[0]), int(offsets[0]) + spans.length

    def rounds() -> Iterator[Round]:
        for number in range(-(-end // size)):
            low, high = max(first, number * size), min(end, (number + 1) * size)
            form = [
                np.broadcast_to(np.int64(each), tiles.shape) for each in (low - number * size, high - low, low - first)
            ]
            yield Round(0, dimension.sources(tiles + number), *form)

    return rounds()


@functools.lru_cache(maxsize=256)
def rounds_of_spans(dimension: TiledDimension, spans: Spans) -> tuple[tuple[Round, ...], bool]:
    """Returns the rounds of the spans of all tiles, and whether their concatenation is the span."""
    aligned = _aligned_rounds(dimension, spans)
    rounds = independent_rounds(segments_of_spans(dimension, spans)) if aligned is None else aligned
    return tuple(rounds), aligned is not None


@functools.lru_cache(maxsize=256)
def rounds_of_concatenation(
    ranges: tuple[Range, ...], arrays: tuple[TiledDimension, ...], tile_size: int, tiles: int
) -> tuple[tuple[Round, ...], bool]:
    """Returns the rounds of the tiles of a concatenation, and whether the concatenation of the rounds is the tile.

    See `segments_of_concatenation`.
    """
    segments = segments_of_concatenation(ranges, arrays, tile_size, tiles)
    rounds = concatenated_rounds(segments)
    return tuple(independent_rounds(segments) if rounds is None else rounds), rounds is not None


@functools.lru_cache(maxsize=4096)
def elements_of_spans(dimension: TiledDimension, spans: Spans) -> int:
    """Returns the number of elements that a device receives from others."""
    aligned = _aligned_rounds(dimension, spans)
    rounds = rounds_of_spans(dimension, spans)[0] if aligned is None else aligned
    return sum(each.elements_sent for each in rounds)
