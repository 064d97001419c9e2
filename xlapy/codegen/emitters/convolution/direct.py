"""Emits direct convolutions: the micro-kernel reads the input where it lies, so that no window is copied.

Output features run in the lanes of vectors. A tile holds the sums of a few neighboring positions along the last
spatial dimension, times a few vectors of features:

    for each block of rows, group and block of features, a task
      for each panel of features
        for each block of input features
          pack the panel's part of the kernel: [offsets][input features][features of the panel]
          for each row, for each tile of positions in the row
            for each offset at which the row meets the input, for each input feature
              tile += input[...] * panel[...]

Padding contributes nothing, exactly: rows that meet the padding have fewer offsets, and the few tiles at the ends of a
row leave out the positions that an offset does not reach. With several blocks of input features, the sums wait in
scratch memory. The order of the additions follows from the shapes alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from xlapy.codegen.emitters.convolution.direct_plan import TRANSPOSED_INPUTS, DirectConvolution
from xlapy.codegen.emitters.convolution.direct_products import InputBlock, TileProducts
from xlapy.codegen.emitters.convolution.filter_prefetch import FilterBlock
from xlapy.codegen.emitters.convolution.geometry import ConvolutionGeometry, scalar_values
from xlapy.codegen.emitters.convolution.register_tiles import TileShape
from xlapy.codegen.emitters.convolution.rows import Tile, TileSegments, result_position
from xlapy.codegen.emitters.convolution.transposed_filter import TransposedFilter
from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.micro_kernel import in_bounds
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.region import Region
from xlapy.loops import Affine, AxisKind, Kernel, Value
from xlapy.lower import Element
from xlapy.lower.contraction import rounded_sum, zero_element
from xlapy.lower.core import delinear
from xlapy.lower.elementwise import convert_element


def direct_convolution(region: Region, geometry: ConvolutionGeometry, tile: TileShape) -> Kernel:
    """Returns the kernel of a convolution, with tiles of a shape."""
    plan = DirectConvolution(region, geometry, tile)
    builder, g = plan.builder, geometry
    feature_blocks = -(-plan.panels // plan.panels_per_task)
    sizes = (g.groups, feature_blocks, plan.row_blocks, plan.chunks)
    with builder.loop(math.prod(sizes), AxisKind.PARALLEL) as task:
        group, block, row_block, chunk = delinear(builder, task, sizes)
        first_panel, first_row = block * plan.panels_per_task, row_block * plan.rows_per_task
        rows = block_extent(builder, first_row, plan.rows.count, plan.rows_per_task)
        panels = block_extent(builder, first_panel, plan.panels, plan.panels_per_task)
        with builder.loop(panels) as panel:
            _Panel(plan, group, first_panel + panel, first_row, rows, chunk).compute()
    return builder.kernel


@dataclass(frozen=True, slots=True)
class _Panel:
    """The part of a task for one panel of features."""

    plan: DirectConvolution
    group: Affine
    number: Affine
    first_row: Affine
    row_count: int | Value
    chunk: Affine

    @property
    def feature(self) -> Affine:
        """The first feature of the panel."""
        return self.number * self.plan.tile.features

    def compute(self) -> None:
        plan, builder, inputs = self.plan, self.plan.builder, self.plan.factors.inputs
        if plan.sums is None:
            block_of_inputs = InputBlock(Affine(), inputs, self.block_after(Affine()))
            self.pack(block_of_inputs)
            self.add(block_of_inputs)
            return
        zero = zero_element(builder, plan.type)
        with builder.loop(plan.rows_per_task * plan.sums_of_row, AxisKind.VECTOR, width=plan.tile.lanes) as position:
            plan.sums.store(position, zero)
        with builder.loop(plan.input_blocks) as block:
            first = block * plan.input_block
            count = block_extent(builder, first, inputs, plan.input_block)
            block_of_inputs = InputBlock(first, count, self.block_after(block))
            self.pack(block_of_inputs)
            self.add(block_of_inputs)
        self.store_sums(plan.sums)

    def block_after(self, block: Affine) -> FilterBlock | None:
        """The block of the filter that this thread probably packs after a block of input features of the panel."""
        plan, builder = self.plan, self.plan.builder
        if plan.prefetch is None:
            return None
        panels, following = delinear(builder, block + 1, (2, plan.input_blocks))
        # tasks of one panel are taken in turn by all threads
        return FilterBlock((self.number + panels * plan.processors) * plan.tile.features, following * plan.input_block)

    def pack(self, inputs: InputBlock) -> None:
        """Packs the part of the kernel that a block of input features needs, in the order of the window."""
        plan, builder, tile, g = self.plan, self.plan.builder, self.plan.tile, self.plan.geometry
        if plan.transposed is not None:
            self.pack_by_transposition(plan.transposed, inputs)
            return
        window = math.prod(plan.window)
        with builder.loop(window) as number, builder.loop(inputs.count) as feature:
            offsets = g.offsets_in_order(builder, number)
            at = (number * plan.input_block + feature) * tile.features
            with builder.loop(tile.lanes, AxisKind.VECTOR, width=tile.lanes) as lane:
                for vector in range(tile.vectors):
                    column = lane + vector * tile.lanes
                    mask = in_bounds(plan.lowering, self.feature + column, g.outputs, tile.features)
                    output = self.feature + column
                    factor = plan.factors.from_filter(self.group, inputs.first + feature, output, offsets, mask)
                    plan.panel.store(at + column, factor)
        plan.corrections.compute(window, inputs.count, plan.panel, plan.input_block * tile.features)

    def pack_by_transposition(self, filter: TransposedFilter, inputs: InputBlock) -> None:
        """Packs the same part of a filter with outputs first: some input features at a time."""
        plan, builder, features = self.plan, self.plan.builder, self.plan.tile.features
        rows = block_extent(builder, self.feature, plan.geometry.outputs, features)
        if filter.window == 1:
            source, target = (filter.buffer, filter.offset(self.feature, inputs.first)), (plan.panel.buffer, Affine())
            builder.transpose(source, filter.pitch, target, features, (rows, inputs.count))
            return
        total = Affine((), inputs.count) if isinstance(inputs.count, int) else Affine.of(inputs.count)
        with builder.loop(-(-plan.input_block // TRANSPOSED_INPUTS)) as chunk:
            first = chunk * TRANSPOSED_INPUTS
            left = builder.clamped(builder.value_of(total - first), TRANSPOSED_INPUTS)
            count, columns = builder.value_of(left), builder.value_of(left * filter.window)
            source = filter.buffer, filter.offset(self.feature, inputs.first + first)
            target = plan.transposed_terms.buffer, Affine()
            builder.transpose(source, filter.pitch, target, features, (rows, columns))
            with (
                builder.loop(count) as feature,
                builder.loop(filter.window) as offset,
                builder.loop(features, AxisKind.VECTOR, width=plan.tile.lanes) as lane,
            ):
                term = plan.transposed_terms.load((feature * filter.window + offset) * features + lane)
                place = (offset * plan.input_block + first + feature) * features + lane
                plan.panel.store(place, term)

    def each_tile(self) -> Iterator[Tile[TileSegments]]:
        """Emits loops over the tiles of all rows of the task; yields a tile of each phase."""
        for row in self.plan.rows.each_row(self.first_row, self.row_count):
            yield from self.plan.rows.each_joined_tile(row, self.chunk)

    def sums_offset(self, tile: Tile[TileSegments]) -> Affine:
        """Where the sums of a tile wait in scratch memory."""
        shape = self.plan.tile
        return tile.row.number * self.plan.sums_of_row + tile.number * (shape.positions * shape.features)

    # -- sums

    def add(self, inputs: InputBlock) -> None:
        """Adds the products of a block of input features to all tiles; stores the sums if there is one block."""
        plan, builder, shape = self.plan, self.plan.builder, self.plan.tile
        count = shape.positions * shape.vectors
        for tile in self.each_tile():
            with builder.loop(shape.lanes, AxisKind.VECTOR, width=shape.lanes) as lane:
                products = TileProducts(plan, self.group, tile, inputs, lane)
                places = [self.sums_offset(tile) + number * shape.lanes + lane for number in range(count)]
                if plan.sums is None:
                    (zero,) = scalar_values([zero_element(builder, plan.type)])
                    self.prefetch_epilogue(tile)
                    sums = products.add([zero] * count)
                    for number, total in enumerate(sums):
                        position, vector = divmod(number, shape.vectors)
                        self.store(tile, Affine((), position), lane + vector * shape.lanes, total)
                    continue
                before = scalar_values([plan.sums.load(place) for place in places])
                for place, total in zip(places, products.add(before), strict=True):
                    plan.sums.store(place, total)

    def prefetch_epilogue(self, tile: Tile[TileSegments]) -> None:
        """Prefetches what the epilogue of a tile reads, to load it while the sums are computed."""
        plan, shape = self.plan, self.plan.tile
        for position in range(shape.positions):
            spatial = result_position(tile, plan.last, position)
            for vector in range(shape.vectors):
                feature = self.feature + vector * shape.lanes
                plan.epilogue.prefetch(plan.geometry.result_index(self.group, tile.row.batch, feature, spatial))

    def store_sums(self, sums: ScratchArray) -> None:
        builder, shape = self.plan.builder, self.plan.tile
        for tile in self.each_tile():
            with (
                builder.loop(shape.positions) as position,
                builder.loop(shape.features, AxisKind.VECTOR, width=shape.lanes) as column,
            ):
                total = sums.load(self.sums_offset(tile) + position * shape.features + column)
                self.store(tile, position, column, total)

    def store(self, tile: Tile[TileSegments], position: Affine, column: Affine, total: Element) -> None:
        """Stores the sum of one position and feature of a tile."""
        plan, builder, g = self.plan, self.plan.builder, self.plan.geometry
        assert isinstance(total, Value)
        t = plan.root.shape.element_type
        element = convert_element(builder, rounded_sum(builder, total, plan.type), plan.type, t)
        feature = self.feature + column
        spatial = result_position(tile, plan.last, position)
        index = g.result_index(self.group, tile.row.batch, feature, spatial)
        plan.epilogue.store(index, element, in_bounds(plan.lowering, feature, g.outputs, plan.tile.features))
