"""The rows of a convolution's result: loops over rows, and over the tiles of positions in a row.

A row is the positions along the last spatial dimension, for one batch element and one position along each other
dimension. Rows are numbered in the order of memory; long rows are split into chunks of tiles. Does not depend on what a
tile computes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Generic, TypeVar

from xlapy.codegen.emitters.convolution.geometry import (
    OffsetRange,
    SpatialDimension,
    equals,
    minimum,
    offset_range,
)
from xlapy.codegen.emitters.convolution.row_tiles import JoinedSegment, RowTiles, Segment, TileRun, row_tiles
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
    segments: tuple[S, ...]
    number: Affine


@dataclass(frozen=True, slots=True)
class OffsetSegment:
    """Offsets, `count` from `first` on, at which some positions of a tile meet the input."""

    first: Affine
    count: int | Value
    most: int
    """The largest number of offsets."""
    positions: tuple[int, ...]


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

    @property
    def joined_segments(self) -> int:
        return sum(len(tiles.joined_segments()) for tiles in self.tiles)

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

    def each_tile(self, row: Row, chunk: Affine) -> Iterator[Tile[Segment]]:
        """Emits loops over the tiles of a chunk of a row; yields a tile of each run, whose segments are constant."""
        first = 0
        for tiles in self.tiles:
            for run in tiles.runs:
                with self._tiles_of_run(run, chunk) as (number, local):
                    start = minimum(self.builder, number * run.width + run.start, run.last_start)
                    yield Tile(row, tiles.phase, start, run.segments, local + (first + run.number))
            first += tiles.count

    def each_joined_tile(self, row: Row, chunk: Affine) -> Iterator[Tile[OffsetSegment]]:
        """Emits a loop over the tiles of a chunk of a row for each phase; yields a tile of each, for all runs."""
        builder, first = self.builder, 0
        for tiles in self.tiles:
            per_chunk = -(-tiles.tiles // self.chunks)
            with builder.loop(block_extent(builder, chunk * per_chunk, tiles.tiles, per_chunk)) as local:
                number = chunk * per_chunk + local
                start = minimum(builder, number * tiles.runs[0].width, tiles.runs[0].last_start)
                segments = tuple(self._segment(tiles, joined, number) for joined in tiles.joined_segments())
                yield Tile(row, tiles.phase, start, segments, local + first)
            first += per_chunk

    def _segment(self, tiles: RowTiles, joined: JoinedSegment, number: Affine) -> OffsetSegment:
        """The offsets of a segment in tile `number` of a row."""
        most = max(count for _, count in joined.spans)
        first = self._by_run(tiles, [begin for begin, _ in joined.spans], number)
        count = self._by_run(tiles, [count for _, count in joined.spans], number)
        constant = count.attribute if count.op == "const" else count
        return OffsetSegment(Affine.of(first), constant, most, joined.positions)

    def _by_run(self, tiles: RowTiles, values: Sequence[int], number: Affine) -> Value:
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
