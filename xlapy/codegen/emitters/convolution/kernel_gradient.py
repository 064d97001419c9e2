"""Emits convolutions whose windows are larger than their results, such as gradients with respect to a kernel.

Such a convolution is a product of few rows and columns and very many terms: the gradient of f32[3,3,64,96] for 8 images
of 56 x 56 has 64 rows (the "batch" of the convolution, contiguous in the input), 96 columns (output features, in lanes)
and 8 x 56 x 56 terms, for each of 3 x 3 positions. The operands are read where they lie, a block of lines at a time.
What a tile reads of a block fills half of the L1 cache, so that the tiles of a panel find its columns there. Meanwhile,
the processor prefetches what the tile will read of the next block, if the rows of channels are long. Of narrow types, a
task first packs each block as factors for dot instructions, which hold the same position of several images
(`packed_lines`). If the factors from the input contain a constant (`matmul.left_offset`), a tile has one more row of
sums, of the products of this constant, which is subtracted from the others at the end. The loops are:

    for each position but the last component, block of rows and block of features, a task
      for each block of lines (an image, and the window offsets but the last one)
        pack the block, if factors hold several images
        for each panel of features, position along the last dimension, tile of rows
          for each line that meets the input, for each offset at which it does
            sums += input[line, position + offset, rows] * kernel[line, offset, features]

The order of the additions follows from the shapes alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from xlapy.codegen.emitters.convolution.factors import ConvolutionFactors
from xlapy.codegen.emitters.convolution.geometry import (
    ConvolutionGeometry,
    OffsetRange,
    minimum,
    offset_range,
    scalar_values,
)
from xlapy.codegen.emitters.convolution.packed_lines import PACKED_BYTES, Line, LineShape, PackedLines, line_shape
from xlapy.codegen.emitters.convolution.register_tiles import TileShape, choose_tile, convolution_type
from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.left_offset import subtracted
from xlapy.codegen.emitters.matmul.micro_kernel import in_bounds
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.epilogue import Epilogue
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.loops import I64, Affine, AxisKind, Kernel, Location, Value
from xlapy.loops.reduction_order import balanced_size
from xlapy.lower import Element, Lowering
from xlapy.lower.contraction import rounded_sum, zero_element
from xlapy.lower.core import delinear
from xlapy.lower.element_types import register_type
from xlapy.lower.elementwise import convert_element
from xlapy.lower.movement import conjunction

MIN_PRODUCTS = 1 << 14
"""The smallest number of products for which this form is worth its loops over blocks."""

SUMS_BYTES = 1 << 16
"""The largest size of the sums of a task, which wait in scratch memory."""

TASKS_PER_PROCESSOR = 2
"""With fewer tasks than this, each gets fewer tiles."""

MIN_PREFETCHED_ROW_BYTES = 1 << 10
"""The smallest row of channels that is prefetched. A tile reads a part of each row; the processor follows it by itself
where several rows share a page. The gradient of a 1 x 1 kernel of 256 x 64 takes 0.7x the time, one of 24 x 144, whose
rows are shorter, would take 1.5x (`benchmarks.convolutions`)."""

MAX_POSITIONS = 512
"""The largest number of positions along the last dimension. The sums of a tile at all of them wait in scratch memory,
up to 1920 bytes for a position."""

MAX_PACKED_SPAN = 256
"""The largest distance along the last dimension in the input between the first and the last position for which lines
are packed. The sums of a tile and one packed offset then fit into scratch memory."""

MAX_PIECES = 32
"""The largest number of blocks of tiles, and of panels, that are tried."""


def reason_against(geometry: ConvolutionGeometry) -> str:
    """Why a convolution is not computed in this form; "" if it is."""
    root = geometry.root
    if geometry.groups > 1:
        return "it has several groups"
    if geometry.products < MIN_PRODUCTS:
        return f"{geometry.products} products are fewer than {MIN_PRODUCTS}"
    positions = math.prod(d.output for d in geometry.dimensions)
    if math.prod(d.window.size for d in geometry.dimensions) <= positions:
        return f"its window is not larger than its result of {positions} positions"
    if geometry.dimensions[-1].output > MAX_POSITIONS:
        return f"{geometry.dimensions[-1].output} positions along its last dimension are more than {MAX_POSITIONS}"
    n, last = geometry.numbers, root.shape.rank - 1
    orders = n.input_batch_dimension, n.kernel_output_feature_dimension, n.output_feature_dimension
    t = convolution_type(root)
    if any(d != last for d in orders) or any(d.phases > 1 for d in geometry.dimensions):
        return "its batch and output features are not the last dimensions, or its input is dilated"
    if t.is_complex or register_type(t).bits < 32 or geometry.outputs < 4:
        return f"it adds up {t.name.lower()} numbers of {geometry.outputs} features"
    return ""


def kernel_gradient_kernel(region: Region, geometry: ConvolutionGeometry) -> Kernel:
    """Returns the kernel of a convolution with a large window."""
    return _KernelGradient(region, geometry).kernel()


@dataclass(frozen=True, slots=True)
class _Task:
    """A task: the position in the result along each dimension but the last, its tiles of rows and its panels."""

    outer: tuple[Affine, ...]
    first_tile: Affine
    tiles: int | Value
    first_panel: Affine
    panels: int | Value
    first_row: Affine
    """The first row that is packed."""


@dataclass(frozen=True, slots=True)
class _Tile:
    """A tile: the position along the last dimension, its first row and feature, and where its sums wait."""

    position: Affine
    row: Affine
    feature: Affine
    sums: Affine
    number: Affine


class _KernelGradient:
    def __init__(self, region: Region, geometry: ConvolutionGeometry) -> None:
        self.geometry, self.root = geometry, geometry.root
        self.builder = builder = kernel_builder(region.name, region.target)
        sources = {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(region.operands)}
        outputs = [result_buffer(builder, result.shape, f"out{n}") for n, result in enumerate(region.results)]
        self.epilogue = Epilogue(region, self.root, builder, sources, outputs)
        builder.kernel.stores_repeatedly = True  # the last tile may overlap the one before
        self.lowering = Lowering(builder, sources)
        *self.outer, self.last = geometry.dimensions
        packs = (self.last.output - 1) * self.last.stride < MAX_PACKED_SPAN
        self.factors = factors = ConvolutionFactors(region.target, geometry, self.lowering, packs_input=packs)
        self.type = factors.type
        kind = register_type(self.type)
        self.target, rows = region.target, geometry.batch
        self.excess_rows = 0 if factors.left_offset() is None else 1
        """The rows of sums of a tile that are subtracted from the others."""
        self.tile: TileShape = choose_tile(
            region.target.vector_registers, builder.lanes(kind), rows, geometry.outputs, more_rows=self.excess_rows
        )
        self.tiles = -(-rows // self.tile.positions)
        self.panels = -(-geometry.outputs // self.tile.features)
        self.sums_of_tile = (self.tile.positions + self.excess_rows) * self.tile.features
        self.tiles_per_task, self.panels_per_task = self._task_shape(kind.byte_size)
        self.tiles_of_position = self.tiles_per_task * self.panels_per_task
        self.rows_per_task = min(rows, self.tiles_per_task * self.tile.positions)
        self.shape = self._line_shape()
        # a line: the images of a factor, the offsets along each dimension but the last, and a part of the last one
        parts = -(-self.last.window.size // self.shape.offsets)
        self.line_sizes = [factors.inputs, *(d.window.size for d in self.outer), parts]
        self.lines = math.prod(self.line_sizes)
        row_bytes = region.target.cache_line_bytes + self.tile.features * kind.byte_size
        lines = max(1, region.target.l1_bytes // 2 // (self.shape.offsets * row_bytes))
        self.packed: PackedLines | None = None
        """The packed lines of a block, if factors hold several images."""
        if factors.terms > 1:
            lines = min(lines, max(1, PACKED_BYTES // (self.shape.factors * kind.byte_size)))
        self.lines_per_block = balanced_size(self.lines, lines)
        if factors.terms > 1:
            self.packed = PackedLines(factors, self.shape, self.lines_per_block, self.tile.lanes)
        self.sums_size = self.last.output * self.tiles_of_position * self.sums_of_tile
        self.sums = ScratchArray(builder, "sums", self.type, self.sums_size)

    def _line_shape(self) -> LineShape:
        features = self.panels_per_task * self.tile.features
        if self.factors.terms > 1:
            return line_shape(self.factors, self.rows_per_task, features)
        return LineShape(self.last.window.size, self.last.input, self.rows_per_task, features)

    def _task_shape(self, element_bytes: int) -> tuple[int, int]:
        """The tiles and panels of a task that read the operands least often, with enough tasks and few enough sums."""
        outer = math.prod(d.output for d in self.outer)
        least = TASKS_PER_PROCESSOR * self.target.processors
        most = SUMS_BYTES // (self.last.output * self.sums_of_tile * element_bytes)

        def sizes(count: int) -> list[int]:
            return sorted({-(-count // pieces) for pieces in range(1, min(count, MAX_PIECES) + 1)} | {1})

        def cost(shape: tuple[int, int]) -> tuple[bool, bool, int]:
            tiles, panels = shape
            blocks = -(-self.tiles // tiles), -(-self.panels // panels)
            traffic = blocks[1] * self.tiles * self.tile.positions + blocks[0] * self.panels * self.tile.features
            return tiles * panels > max(1, most), blocks[0] * blocks[1] * outer < least, traffic

        return min(((t, p) for t in sizes(self.tiles) for p in sizes(self.panels)), key=cost)

    def kernel(self) -> Kernel:
        builder = self.builder
        sizes = [d.output for d in self.outer]
        counts = (
            math.prod(sizes),
            -(-self.tiles // self.tiles_per_task),
            -(-self.panels // self.panels_per_task),
        )
        with builder.loop(math.prod(counts), AxisKind.PARALLEL) as number:
            outer, row_block, panel_block = delinear(builder, number, counts)
            first, panel = row_block * self.tiles_per_task, panel_block * self.panels_per_task
            tiles = block_extent(builder, first, self.tiles, self.tiles_per_task)
            panels = block_extent(builder, panel, self.panels, self.panels_per_task)
            row = minimum(builder, first * self.tile.positions, self.geometry.batch - self.rows_per_task)
            task = _Task(tuple(delinear(builder, outer, sizes)), first, tiles, panel, panels, row)
            (zero,) = scalar_values([zero_element(builder, self.type)])
            with builder.loop(self.sums_size, AxisKind.VECTOR, width=self.tile.lanes) as position:
                self.sums.store(position, zero)
            with builder.loop(-(-self.lines // self.lines_per_block)) as line_block:
                self.add(task, line_block * self.lines_per_block)
            self.store(task)
        return builder.kernel

    def each_tile(self, task: _Task) -> Iterator[_Tile]:
        """Emits loops over the panels, positions and tiles of a task; yields a tile."""
        builder, rows = self.builder, self.geometry.batch
        with (
            builder.loop(task.panels) as panel,
            builder.loop(self.last.output) as position,
            builder.loop(task.tiles) as tile,
        ):
            row = minimum(builder, (task.first_tile + tile) * self.tile.positions, rows - self.tile.positions)
            number = position * self.tiles_of_position + tile * self.panels_per_task + panel
            feature = (task.first_panel + panel) * self.tile.features
            yield _Tile(position, row, feature, number * self.sums_of_tile, tile)

    def add(self, task: _Task, first_line: Affine) -> None:
        """Adds the products of a block of lines to the sums of all tiles."""
        builder, shape = self.builder, self.tile
        lines = block_extent(builder, first_line, self.lines, self.lines_per_block)
        if self.packed is not None:
            with builder.loop(lines) as number:
                feature = task.first_panel * shape.features
                self.packed.pack(number, self.line(task, first_line + number), task.first_row, feature)
        for tile in self.each_tile(task):
            with builder.loop(shape.lanes, AxisKind.VECTOR, width=shape.lanes) as lane:
                vectors = (shape.positions + self.excess_rows) * shape.vectors
                places = [tile.sums + n * shape.lanes + lane for n in range(vectors)]
                step = partial(self.add_line, task, tile, first_line, lane)
                sums = builder.reduce(lines, scalar_values([self.sums.load(at) for at in places]), step)
                for at, total in zip(places, sums, strict=True):
                    self.sums.store(at, total)

    def line(self, task: _Task, number: Affine) -> Line:
        """The line with a number, as a task reads it."""
        builder = self.builder
        image, *offsets, part = delinear(builder, number, self.line_sizes)
        spatial: list[Affine] = []
        exists: Value | None = None
        for d, position, offset in zip(self.outer, task.outer, offsets, strict=True):
            at = position * d.stride + offset * d.step - d.window.padding_low
            spatial.append(at)
            exists = conjunction(builder, exists, self.lowering.in_bounds((at,), [(0, d.input)]))
        return Line(image, tuple(offsets), part * self.shape.offsets, tuple(spatial), exists)

    def offsets(self, tile: _Tile, line: Line) -> OffsetRange:
        """The offsets of a line at which the position of a tile meets the input."""
        builder, size = self.builder, self.shape.offsets
        found = offset_range(builder, self.last, tile.position, Affine())
        first, count = found.first, found.count
        if self.line_sizes[-1] > 1:
            end = first + (count if isinstance(count, int) else Affine.of(count))
            limit = builder.value_of(line.first_offset + size)
            first = Affine.of(builder.binary("smax", builder.value_of(first), builder.value_of(line.first_offset)))
            end = Affine.of(builder.binary("smin", builder.value_of(end), limit))
            count = builder.value_of(builder.clamped(builder.value_of(end - first), size))
        if line.exists is not None:
            some = builder.value_of(Affine() + count if isinstance(count, int) else Affine.of(count))
            count = builder.select(line.exists, some, builder.constant(I64, 0))
            count.range = (0, size)
        return OffsetRange(found.start, found.rest, first, count)

    def add_line(
        self, task: _Task, tile: _Tile, first_line: Affine, lane: Affine, number: Affine, sums: Sequence[Value]
    ) -> list[Value]:
        """Adds the products of one line to the sums of a tile."""
        builder, shape, line = self.builder, self.tile, self.line(task, first_line + number)
        offsets = self.offsets(tile, line)
        ahead = minimum(builder, first_line + number + self.lines_per_block, self.lines - 1)

        def at_offset(k: Affine, carried: Sequence[Value]) -> list[Value]:
            offset = offsets.first + k
            if self.packed is None:
                at = offsets.start + offset * self.last.step
                self.prefetch_line(task, tile, ahead, offset, at)
                rows, columns = self.loaded_factors(tile, line, offset, at, lane)
            else:
                first = tile.row - task.first_row, tile.feature - task.first_panel * shape.features + lane
                rows = self.packed.rows(number, line, tile.position, offset, self.rows_of_tile(first[0]))
                columns = self.packed.features(number, line, offset, self.columns_of_tile(first[1]))
            constant = self.factors.left_offset()
            rows += [] if constant is None else [constant]
            after = list(carried)
            for n, (row, column) in enumerate((r, c) for r in rows for c in columns):
                (after[n],) = scalar_values([self.factors.multiply_add(row, column, after[n])])
            return after

        return builder.reduce(offsets.count, sums, at_offset)

    def rows_of_tile(self, first: Affine) -> list[Affine]:
        return [first + row for row in range(self.tile.positions)]

    def columns_of_tile(self, first: Affine) -> list[Affine]:
        return [first + vector * self.tile.lanes for vector in range(self.tile.vectors)]

    def loaded_factors(
        self, tile: _Tile, line: Line, offset: Affine, at: Affine, lane: Affine
    ) -> tuple[list[Element], list[Element]]:
        """The factors of the rows and of the vectors of features of a tile, where they lie."""
        factors, g = self.factors, self.geometry
        columns: list[Element] = []
        for feature in self.columns_of_tile(tile.feature + lane):
            mask = in_bounds(self.lowering, feature, g.outputs, self.tile.features)
            kernel_at = g.in_kernel_order([*line.offsets, offset])
            columns.append(factors.from_filter(Affine(), line.image, feature, kernel_at, mask))
        where = (*line.spatial, at)
        rows = [factors.from_input(Affine(), row, line.image, where) for row in self.rows_of_tile(tile.row)]
        return rows, columns

    def prefetch_line(self, task: _Task, tile: _Tile, number: Affine, offset: Affine, position: Affine) -> None:
        """Prefetches what the tile will read of a line of the next block, at an offset that meets a position.

        The columns of a panel are read by all tiles; each tile prefetches one vector of them.
        """
        builder, g = self.builder, self.geometry
        image, *window, _ = delinear(builder, number, self.line_sizes)
        spatial = [position]
        for d, at, k in reversed(list(zip(self.outer, task.outer, window, strict=True))):
            place = at * d.stride + k * d.step - d.window.padding_low
            spatial.insert(0, builder.clamped(builder.value_of(place), d.input - 1))
        feature = tile.feature + builder.remainder(tile.number, self.tile.vectors) * self.tile.lanes
        feature = minimum(builder, feature, g.outputs - 1)
        for operand, index in (
            (g.input, g.input_index(Affine(), tile.row, image, spatial)),
            (g.filter, g.filter_index(Affine(), image, feature, g.in_kernel_order([*window, offset]))),
        ):
            source = self.lowering.source(operand)
            row_bytes = operand.shape.dimensions[-1] * operand.shape.element_type.byte_size
            if source is not None and row_bytes >= MIN_PREFETCHED_ROW_BYTES:
                builder.prefetch(Location(source.buffer, source.offset(index)))

    def store(self, task: _Task) -> None:
        """Stores the sums of all tiles."""
        builder, shape, g, t = self.builder, self.tile, self.geometry, self.root.shape.element_type
        for tile in self.each_tile(task):
            with (
                builder.loop(shape.positions) as row,
                builder.loop(shape.features, AxisKind.VECTOR, width=shape.lanes) as column,
            ):
                (total,) = scalar_values([self.sums.load(tile.sums + row * shape.features + column)])
                if self.excess_rows:
                    excess = self.sums.load(tile.sums + shape.positions * shape.features + column)
                    total = subtracted(builder, total, excess)
                element = convert_element(builder, rounded_sum(builder, total, self.type), self.type, t)
                feature = tile.feature + column
                index = g.result_index(Affine(), tile.row + row, feature, (*task.outer, tile.position))
                mask = in_bounds(self.lowering, feature, g.outputs, shape.features)
                self.epilogue.store(index, element, mask)
