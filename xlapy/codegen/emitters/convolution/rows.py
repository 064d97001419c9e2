"""The rows of a convolution's result: loops over rows, and over the tiles of positions in a row.

A row is the positions along the last spatial dimension, for one batch element and one position along each other
dimension. Rows are numbered in the order of memory; long rows are split into chunks of tiles. Does not depend on what a
tile computes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

from xlapy.codegen.emitters.convolution.geometry import (
    OffsetRange,
    SpatialDimension,
    equals,
    minimum,
    offset_range,
)
from xlapy.codegen.emitters.convolution.row_tiles import RowTiles, Segment, TileRun, row_tiles
from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.loops import I64, Affine, Builder, Value
from xlapy.lower import Lowering
from xlapy.lower.core import delinear
from xlapy.lower.movement import conjunction

MAX_RUNS = 8
"""The largest number of runs of tiles of a row, each of which has code of its own."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its number among those of the task, its batch element, and along each dimension but the last its position
    in the result and the offsets at which it meets the input."""

    number: Affine
    batch: Affine
    positions: tuple[Affine, ...]
    ranges: tuple[OffsetRange, ...]


S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class Tile(Generic[S]):
    """A tile of a row: its phase and first position, its segments, and its number in the row's chunk."""

    row: Row
    phase: int
    start: Affine
    segments: S
    number: Affine


@dataclass(frozen=True, slots=True)
class PositionGroup:
    """Positions of a tile that meet the input at the same offsets.

    is_inside: 1 in a segment in which they do, else 0; None if they do in all segments.
    """

    positions: tuple[int, ...]
    is_inside: Value | None


@dataclass(frozen=True, slots=True)
class OffsetSegment:
    """Offsets, `count` from `first` on, at which the same groups of positions of a tile meet the input."""

    first: Affine
    count: int | Value
    most: int
    """The largest number of offsets."""
    groups: tuple[PositionGroup, ...]


@dataclass(frozen=True, slots=True)
class TileSegments:
    """The segments of a tile of any run, in the order of their offsets.

    by_run: emits the one of several numbers, one per run, that belongs to the run of the tile.
    """

    builder: Builder
    tiles: RowTiles
    by_run: Callable[[Sequence[int]], Value]

    def one_by_one(self) -> list[OffsetSegment]:
        """The segments of all runs. Those of other runs than the tile's have no offsets."""
        found: list[OffsetSegment] = []
        for joined in self.tiles.joined_segments():
            first = self.by_run([begin for begin, _ in joined.spans])
            count = self.by_run([count for _, count in joined.spans])
            groups = (PositionGroup(joined.positions, None),)
            found.append(OffsetSegment(Affine.of(first), _known(count), max(c for _, c in joined.spans), groups))
        return found

    @property
    def most(self) -> int:
        """The largest number of segments of a tile."""
        return max(len(run.segments) for run in self.tiles.runs)

    def count(self) -> int | Value:
        """Emits the number of segments of the tile."""
        return _known(self.by_run([len(run.segments) for run in self.tiles.runs]))

    def segment(self, number: Affine) -> OffsetSegment:
        """Emits the look-up of a segment by its number."""
        groups: list[PositionGroup] = []
        for group in self.tiles.position_groups():
            inside = _known(self._looked_up(number, partial(_has_position, group[0])))
            if inside != 0:
                groups.append(PositionGroup(group, inside if isinstance(inside, Value) else None))
        first = self._looked_up(number, lambda segment: segment.first)
        count = self._looked_up(number, lambda segment: segment.count)
        most = max(segment.count for run in self.tiles.runs for segment in run.segments)
        return OffsetSegment(Affine.of(first), _known(count), most, tuple(groups))

    def _looked_up(self, number: Affine, read: Callable[[Segment], int]) -> Value:
        """Emits the look-up of a number that belongs to a segment."""
        builder, missing = self.builder, Segment(0, 0, ())
        columns = [
            [read(run.segments[n] if n < len(run.segments) else missing) for run in self.tiles.runs]
            for n in range(self.most)
        ]
        values = [self.by_run(column) for column in columns]
        found = values[0]
        for n, value in enumerate(values[1:], 1):
            if value is not found:
                is_later = builder.compare("sge", builder.value_of(number), builder.constant(I64, n))
                found = builder.select(is_later, value, found)
        if found.op != "const":
            found.range = min(map(min, columns)), max(map(max, columns))
        return found


class ConvolutionRows:
    """The rows of `batch` elements of spatial dimensions, in tiles of `width` positions."""

    def __init__(
        self,
        builder: Builder,
        lowering: Lowering,
        batch: int,
        dimensions: Sequence[SpatialDimension],
        width: int,
        chunks: int = 1,
    ) -> None:
        self.builder, self.lowering = builder, lowering
        self.outer, self.last = dimensions[:-1], dimensions[-1]
        self.chunks = chunks
        self.tiles = [row_tiles(self.last, phase, width, chunks) for phase in range(self.last.phases)]
        self._sizes = [batch, *(size for d in self.outer for size in (d.phases, d.positions()))]
        self.count = math.prod(self._sizes)
        self.joined_tiles_per_chunk = sum(-(-tiles.tiles // chunks) for tiles in self.tiles)

    @property
    def runs(self) -> int:
        return sum(len(tiles.runs) for tiles in self.tiles)

    def each_row(self, first: Affine, count: int | Value) -> Iterator[Row]:
        """Emits a loop over `count` rows; yields each."""
        builder = self.builder
        with builder.loop(count) as number:
            batch, *components = delinear(builder, first + number, self._sizes)
            positions: list[Affine] = []
            ranges: list[OffsetRange] = []
            exists: Value | None = None
            for d, phase, position in zip(self.outer, components[::2], components[1::2], strict=True):
                positions.append(position * d.phases + phase)
                ranges.append(offset_range(builder, d, position, phase))
                if d.output % d.phases:
                    exists = conjunction(builder, exists, self.lowering.in_bounds((positions[-1],), [(0, d.output)]))
            with nullcontext() if exists is None else builder.branch(exists):
                yield Row(number, batch, tuple(positions), tuple(ranges))

    def each_tile(self, row: Row, chunk: Affine) -> Iterator[Tile[tuple[Segment, ...]]]:
        """Emits loops over the tiles of a chunk of a row; yields a tile of each run, whose segments are constant."""
        first = 0
        for tiles in self.tiles:
            for run in tiles.runs:
                with self._tiles_of_run(run, chunk) as (number, local):
                    start = minimum(self.builder, number * run.width + run.start, run.last_start)
                    yield Tile(row, tiles.phase, start, run.segments, local + (first + run.number))
            first += tiles.count

    def each_joined_tile(self, row: Row, chunk: Affine) -> Iterator[Tile[TileSegments]]:
        """Emits a loop over the tiles of a chunk of a row for each phase; yields a tile of each, for all runs."""
        builder, first = self.builder, 0
        for tiles in self.tiles:
            per_chunk = -(-tiles.tiles // self.chunks)
            with builder.loop(block_extent(builder, chunk * per_chunk, tiles.tiles, per_chunk)) as local:
                number = chunk * per_chunk + local
                start = minimum(builder, number * tiles.runs[0].width, tiles.runs[0].last_start)
                segments = TileSegments(builder, tiles, partial(self._by_run, tiles, number))
                yield Tile(row, tiles.phase, start, segments, local + first)
            first += per_chunk

    def _by_run(self, tiles: RowTiles, number: Affine, values: Sequence[int]) -> Value:
        """The value that belongs to the run of a tile."""
        builder = self.builder
        found, begin = builder.constant(I64, values[0]), 0
        for run, before, value in zip(tiles.runs, values, values[1:], strict=False):
            begin += run.count
            if value != before:
                is_later = builder.compare("sge", builder.value_of(number), builder.constant(I64, begin))
                found = builder.select(is_later, builder.constant(I64, value), found)
        if found.op != "const":
            found.range = min(values), max(values)
        return found

    @contextmanager
    def _tiles_of_run(self, run: TileRun, chunk: Affine) -> Iterator[tuple[Affine, Affine]]:
        """Opens a loop over the tiles of a run that belong to the chunk; yields their numbers in the run and chunk."""
        builder = self.builder
        if self.chunks > 1 and run.count < self.chunks:
            with builder.branch(equals(builder, chunk, 0)), builder.loop(run.count) as number:
                yield number, number
            return
        first = chunk * run.tiles_per_chunk
        count: int | Value = run.count
        if self.chunks > 1:
            left = builder.clamped(builder.value_of(first * -1 + run.count), run.tiles_per_chunk)
            count = builder.value_of(left)
        with builder.loop(count) as number:
            yield first + number, number


def result_position(tile: Tile[S], last: SpatialDimension, position: Affine | int) -> tuple[Affine, ...]:
    """The spatial index in the result of a position of a tile."""
    return (*tile.row.positions, (tile.start + position) * last.phases + tile.phase)


def _has_position(position: int, segment: Segment) -> int:
    return int(position in segment.positions)


def _known(value: Value) -> int | Value:
    """The number that a constant is, or another value itself."""
    return int(value.attribute) if value.op == "const" else value
