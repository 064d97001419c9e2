"""Splits a row of positions into tiles, and says which positions of a tile meet the input at which offsets.

Example, 10 positions, a window of 3, padding 1, tiles of 4: the tiles start at 0, 4 and 6 (the last one ends with the
row). At offset 0, the first tile leaves out its first position; at offset 2, the last tile its last one; the tile at 4
meets the input everywhere. Consecutive tiles that leave out the same positions form a run, which is one loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy.codegen.emitters.convolution.geometry import SpatialDimension


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive offsets, `count` from `first` on, at which the same positions of a tile meet the input."""

    first: int
    count: int
    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TileRun:
    """Consecutive tiles with the same segments.

    Tile n starts at `start` + n * `width`, but ends with the row at the latest. tiles_per_chunk: the row is split into
    chunks of so many tiles; all tiles if it is not split.
    """

    start: int
    count: int
    width: int
    last_start: int
    segments: tuple[Segment, ...]
    tiles_per_chunk: int
    number: int
    """The number of tiles of a chunk that earlier runs have."""


@dataclass(frozen=True, slots=True)
class JoinedSegment:
    """A segment of several runs: the same positions, at offsets that differ between the runs.

    spans: the first offset and the number of offsets of each run, in order; no offsets where a run lacks the segment.
    """

    positions: tuple[int, ...]
    spans: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class RowTiles:
    """The tiles of one phase of a row."""

    phase: int
    runs: tuple[TileRun, ...]

    @property
    def count(self) -> int:
        """The largest number of tiles of a chunk."""
        return sum(run.tiles_per_chunk for run in self.runs)

    @property
    def tiles(self) -> int:
        """The number of tiles of the whole row."""
        return sum(run.count for run in self.runs)

    def joined_segments(self) -> tuple[JoinedSegment, ...]:
        """The segments of all runs in an order in which each run has its own; that of whole tiles is shared.

        The offsets that all positions of a tile reach are consecutive: what a tile leaves out comes before or after.
        """
        before: list[JoinedSegment] = []
        whole: list[tuple[int, int]] = []
        after: list[JoinedSegment] = []
        for number, run in enumerate(self.runs):
            target = before
            span = 0, 0
            for segment in run.segments:
                if len(segment.positions) == run.width:
                    span, target = (segment.first, segment.count), after
                    continue
                spans = [(0, 0)] * len(self.runs)
                spans[number] = segment.first, segment.count
                target.append(JoinedSegment(segment.positions, tuple(spans)))
            whole.append(span)
        middle = JoinedSegment(tuple(range(self.runs[0].width)), tuple(whole))
        return (*before, *([middle] if any(count for _, count in whole) else []), *after)

    def position_groups(self) -> tuple[tuple[int, ...], ...]:
        """The positions of a tile in groups. The positions of a group are in the same segments of all runs.

        Example, tiles of 14 at the left end, in the middle and at the right end of a row, and a window of 3 with
        padding 1: the first position, the last one, and the other 12.
        """
        groups: dict[tuple[bool, ...], list[int]] = {}
        for position in range(self.runs[0].width):
            key = tuple(position in segment.positions for run in self.runs for segment in run.segments)
            groups.setdefault(key, []).append(position)
        return tuple(map(tuple, groups.values()))


def row_tiles(d: SpatialDimension, phase: int, width: int, chunks: int = 1) -> RowTiles:
    """Splits the positions of a phase into tiles of `width`, which is at most their number."""
    positions = d.positions(phase)
    last_start = positions - width
    tiles = -(-positions // width)
    found: list[tuple[int, int, tuple[Segment, ...]]] = []
    for number in range(tiles):
        start = min(number * width, last_start)
        segments = _segments(d, phase, start, width)
        if found and found[-1][2] == segments:
            first, count, _ = found[-1]
            found[-1] = first, count + 1, segments
        else:
            found.append((start, 1, segments))
    runs: list[TileRun] = []
    number = 0
    for start, count, segments in found:
        per_chunk = -(-count // chunks) if count >= chunks else count
        runs.append(TileRun(start, count, width, last_start, segments, per_chunk, number))
        number += per_chunk
    return RowTiles(phase, tuple(runs))


def _segments(d: SpatialDimension, phase: int, start: int, width: int) -> tuple[Segment, ...]:
    found: list[Segment] = []
    for offset in range(d.offsets_of(phase)):
        inside = tuple(n for n in range(width) if d.is_inside(phase, start + n, offset))
        if found and found[-1].positions == inside:
            found[-1] = Segment(found[-1].first, found[-1].count + 1, inside)
        else:
            found.append(Segment(offset, 1, inside))
    return tuple(segment for segment in found if segment.positions)
