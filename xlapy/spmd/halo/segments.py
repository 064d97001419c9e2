"""Plans which elements of which tiles travel to assemble an array whose tiles need elements of several other tiles.

Along one dimension, each tile of the result is a sequence of segments: consecutive elements of one tile of an array.
Segments travel in rounds. In one round each tile sends at most one segment and each tile receives at most one, so that
a round is one collective-permute; segments that stay on their device need none.

Responsible for segments, rounds and the number of elements sent. Does not depend on instructions; `exchange.py`
writes those.

Worked example: 12 elements in 3 tiles of 4; each tile of the result needs its own elements and one on either side.
Tile 1 needs elements 3 to 8, the segments [3:4] of tile 0, [0:4] of tile 1 and [0:1] of tile 2. All tiles have segments
of these lengths, so there are three rounds, the second without communication, and the result is their concatenation.
"""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

_RoundKind: TypeAlias = tuple[int, bool]
"""The number of an array, and whether its segments stay on their devices."""

_RoundKey: TypeAlias = tuple[int, _RoundKind]


@dataclass(frozen=True)
class TiledDimension:
    """A dimension of `size` elements in `tiles` tiles of `tile_size` elements; the last tiles may be partly filled."""

    size: int
    tile_size: int
    tiles: int


@dataclass(frozen=True)
class Segment:
    """Consecutive elements that a tile of the result takes from one tile of an array.

    array: the number of the array. tile: the tile of the array; None for elements outside of the array. start: the
    first element within that tile. length: the number of elements. position: where they are in the tile of the result.
    """

    array: int
    tile: int | None
    start: int
    length: int
    position: int


@dataclass(frozen=True)
class Round:
    """Segments that travel together. segments: the one that each tile of the result receives, or None."""

    segments: tuple[Segment | None, ...]

    @property
    def received(self) -> Iterator[tuple[int, Segment, int]]:
        """Yields each tile that receives elements of an array, its segment, and the tile that sends them."""
        for target, segment in enumerate(self.segments):
            if segment is not None and segment.tile is not None:
                yield target, segment, segment.tile

    @property
    def array(self) -> int:
        """The number of the array that the segments are of."""
        return next(segment.array for segment in self.segments if segment is not None)

    @property
    def length(self) -> int:
        """The number of elements of the longest segment."""
        return max(segment.length for segment in self.segments if segment is not None)

    @property
    def is_local(self) -> bool:
        """Whether no segment leaves its device."""
        return all(target == source for target, _, source in self.received)

    @property
    def elements_sent(self) -> int:
        """The number of elements that a device receives from another one, at most."""
        return 0 if self.is_local else self.length


def span_segments(dimension: TiledDimension, start: int, length: int, array: int = 0) -> Iterator[Segment]:
    """Yields the segments of the elements from `start` on, some of which may be outside of the array.

    Elements outside are divided as if tiles went on before the first and after the last one.
    """
    position = 0
    while position < length:
        tile, offset = divmod(start + position, dimension.tile_size)
        count = min(dimension.tile_size - offset, length - position)
        is_inside = 0 <= tile < dimension.tiles and tile * dimension.tile_size < dimension.size
        yield Segment(array, tile if is_inside else None, offset, count, position)
        position += count


@dataclass(frozen=True)
class Range:
    """A part of a concatenation: `length` elements of array number `array`, from `start` on."""

    array: int
    start: int
    length: int


def concatenation_segments(
    ranges: Sequence[Range], arrays: Sequence[TiledDimension], tile_size: int, tiles: int
) -> list[list[Segment]]:
    """Returns the segments of each of `tiles` tiles of a concatenation of ranges.

    arrays: the dimension of each array; one in a single tile is whole on every device.
    """
    found: list[list[Segment]] = [[] for _ in range(tiles)]
    before = 0
    for each in ranges:
        for tile in range(before // tile_size, min(tiles, -(-(before + each.length) // tile_size))):
            low = max(before, tile * tile_size)
            high = min(before + each.length, (tile + 1) * tile_size)
            dimension = arrays[each.array]
            for segment in span_segments(dimension, each.start + low - before, high - low, each.array):
                place = low - tile * tile_size + segment.position
                source = tile if dimension.tiles == 1 else segment.tile
                found[tile].append(replace(segment, tile=source, position=place))
        before += each.length
    return found


@dataclass(frozen=True)
class Spans:
    """The elements that each tile needs along a dimension: `length` elements from `starts[tile]` on.

    Elements before 0, and after the end of the array, are outside of the array.
    """

    starts: tuple[int, ...]
    length: int

    def segments(self, dimension: TiledDimension) -> list[list[Segment]]:
        """Returns the segments of the span of each tile."""
        return [list(span_segments(dimension, start, self.length)) for start in self.starts]

    def reaches_outside(self, size: int) -> bool:
        """Returns whether the span of some tile has elements outside of an array of `size` elements."""
        return min(self.starts) < 0 or max(self.starts) + self.length > size


def concatenated_rounds(segments: Sequence[Sequence[Segment]]) -> list[Round] | None:
    """Returns rounds whose concatenation is the tile of the result; None unless all tiles have segments of equal form.

    segments: those of each tile of the result. The segments of one round are equal except for the tile they are from.
    """
    if len({len(each) for each in segments}) != 1:
        return None
    rounds = [Round(each) for each in zip(*segments, strict=True)]
    for each in rounds:
        first = each.segments[0]
        assert first is not None
        forms = {(s.array, s.start, s.length, s.position) for s in each.segments if s is not None}
        sources = [source for _, _, source in each.received]
        if len(forms) != 1 or len(set(sources)) != len(sources):
            return None
    return rounds


def independent_rounds(segments: Sequence[Sequence[Segment]]) -> list[Round]:
    """Returns rounds of all segments that are inside of their arrays, in which no tile sends or receives twice.

    A segment takes the first round that has neither its source nor its target, as in a greedy edge coloring. Segments
    that stay on their device are in rounds of their own.
    """
    tiles = len(segments)
    rounds: dict[_RoundKey, dict[int, Segment]] = {}
    taken: dict[tuple[_RoundKind, bool, int], set[int]] = defaultdict(set)
    for number in range(max(map(len, segments), default=0)):
        for target, each in enumerate(segments):
            source = each[number].tile if number < len(each) else None
            if source is not None:
                kind = (each[number].array, source == target)
                ends = taken[kind, True, source], taken[kind, False, target]
                chosen = next(one for one in itertools.count() if one not in ends[0] and one not in ends[1])
                for end in ends:
                    end.add(chosen)
                rounds.setdefault((chosen, kind), {})[target] = each[number]
    return [Round(tuple([rounds[key].get(target) for target in range(tiles)])) for key in sorted(rounds)]


@functools.lru_cache(maxsize=256)
def rounds_of_spans(dimension: TiledDimension, spans: Spans) -> tuple[tuple[Round, ...], bool]:
    """Returns the rounds of the spans of all tiles, and whether their concatenation is the span."""
    segments = spans.segments(dimension)
    rounds = concatenated_rounds(segments)
    return tuple(independent_rounds(segments) if rounds is None else rounds), rounds is not None


def elements_sent(segments: Sequence[Sequence[Segment]]) -> int:
    """Returns the number of elements that a device receives from others."""
    rounds: Iterable[Round] | None = concatenated_rounds(segments)
    return sum(each.elements_sent for each in (independent_rounds(segments) if rounds is None else rounds))
