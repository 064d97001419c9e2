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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from xlapy.base.shape import Shape
from xlapy.codegen.emitters.convolution.factors import ConvolutionFactors
from xlapy.codegen.emitters.convolution.filter_prefetch import FilterBlock, FilterPrefetch
from xlapy.codegen.emitters.convolution.geometry import (
    ConvolutionGeometry,
    scalar_values,
)
from xlapy.codegen.emitters.convolution.input_prefetch import InputPrefetch
from xlapy.codegen.emitters.convolution.register_tiles import TileShape
from xlapy.codegen.emitters.convolution.rows import (
    ConvolutionRows,
    OffsetSegment,
    Tile,
    TileSegments,
    result_position,
)
from xlapy.codegen.emitters.convolution.transposed_filter import (
    TransposedFilter,
    packed_room,
    transposed_filter,
)
from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.left_offset import PackedCorrections
from xlapy.codegen.emitters.matmul.micro_kernel import Tile as MicroTile
from xlapy.codegen.emitters.matmul.micro_kernel import add_elements, in_bounds
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.epilogue import MAX_UNROLLED_EPILOGUE_COST, Epilogue
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.codegen.target import Target
from xlapy.loops import Affine, AxisKind, Kernel, Value
from xlapy.loops.reduction_order import balanced_size
from xlapy.lower import Element, Lowering
from xlapy.lower.contraction import rounded_sum, zero_element
from xlapy.lower.core import delinear, linear
from xlapy.lower.element_types import register_type
from xlapy.lower.elementwise import convert_element

MIN_PRODUCTS = 1 << 12
"""The smallest number of products of a direct convolution. Below it, the loop emitter is as fast."""

MIN_FEATURES = 4
"""The smallest number of output features of a group that run in lanes."""

POSITIONS_PER_TASK = 512
"""The number of positions, about, that share a packed panel: packing then costs about one percent
(`benchmarks.convolutions`, "resnet 3x3 64 @56")."""

PANEL_BYTES = 1 << 17
"""The largest size of a packed panel, which should stay in the L2 cache beside the rows of the input."""

SUMS_BYTES = 1 << 16
"""The largest size of the sums that wait in scratch memory."""

TRANSPOSED_INPUTS = 16
"""The number of input features of a filter with outputs first that are transposed at a time: with the offsets of a
window, they stay in the L1 cache until they are copied to their places in the packed panel."""

TASKS_PER_PROCESSOR = 8
"""With fewer blocks of rows than this, the features are split into tasks, too."""

MAX_SEGMENTS = 8
"""The largest number of segments of the tiles of a row if each has code of its own."""

MAX_SHARED_SEGMENTS = 64
"""The largest number of segments of the tiles of a row that share their code: each is a case of a table of numbers. 11
x 11 windows of 48 features take 0.6x the time of im2col, 31 positions in bf16 0.4x (two processors with AVX-512)."""

MIN_SHARED_INPUTS = 16
"""The number of input features from which on all segments of a tile share their code, in which positions that do not
meet the input are left out by branches: a third less to compile. With fewer features, loops are so short that the
branches would take 2% to 6% of the time (`benchmarks.convolutions`, "vgg 3x3 3-64 @224")."""


def max_segments(geometry: ConvolutionGeometry) -> int:
    """The largest number of segments of the tiles of a row."""
    return MAX_SHARED_SEGMENTS if geometry.inputs >= 2 * MIN_SHARED_INPUTS else MAX_SEGMENTS


def chunks_of_row(geometry: ConvolutionGeometry) -> int:
    """The tasks that share a long row."""
    return max(1, geometry.dimensions[-1].output // POSITIONS_PER_TASK)


class DirectConvolution:
    """The sizes of tiles, blocks and tasks, and the scratch memory of the kernel."""

    def __init__(self, region: Region, geometry: ConvolutionGeometry, tile: TileShape) -> None:
        self.tile, self.geometry, self.root = tile, geometry, geometry.root
        self.builder = builder = kernel_builder(region.name, region.target)
        sources = {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(region.operands)}
        outputs = [result_buffer(builder, result.shape, f"out{n}") for n, result in enumerate(region.results)]
        self.epilogue = Epilogue(region, self.root, builder, sources, outputs)
        builder.kernel.stores_repeatedly = True  # the last tile of a run may overlap the one before
        for result, buffer in zip(region.results, outputs, strict=True):
            buffer.nontemporal = self._is_nontemporal(result.shape, region.target)
        self.lowering = Lowering(builder, sources)
        self.factors = factors = ConvolutionFactors(region.target, geometry, self.lowering)
        self.type = factors.type
        kind = register_type(self.type)
        *self.outer, self.last = geometry.dimensions
        self.panels = -(-geometry.outputs // tile.features)
        self.window = [d.window.size for d in geometry.dimensions]
        bytes_per_input = math.prod(self.window) * tile.features * kind.byte_size
        self.input_block = balanced_size(factors.inputs, max(1, PANEL_BYTES // bytes_per_input))
        self.input_blocks = -(-factors.inputs // self.input_block)
        self.chunks = chunks_of_row(geometry)
        self.rows = ConvolutionRows(
            builder, self.lowering, geometry.batch, geometry.dimensions, tile.positions, self.chunks
        )
        self.sums_of_row = self.rows.joined_tiles_per_chunk * tile.positions * tile.features
        rows = POSITIONS_PER_TASK * self.chunks // self.last.output
        is_long = self.epilogue.cost * tile.positions * tile.vectors > MAX_UNROLLED_EPILOGUE_COST
        keeps_sums = self.input_blocks > 1 or is_long
        if keeps_sums:
            rows = min(rows, SUMS_BYTES // (self.sums_of_row * kind.byte_size))
        self.rows_per_task = balanced_size(self.rows.count, max(1, rows))
        self.row_blocks = -(-self.rows.count // self.rows_per_task)
        tasks = self.row_blocks * self.chunks * geometry.groups * self.panels
        self.panels_per_task = balanced_size(
            self.panels, max(1, tasks // (TASKS_PER_PROCESSOR * region.target.processors))
        )
        self.processors = region.target.processors
        self.transposed = transposed_filter(factors, tile.features)
        """The filter, if it is packed by transposition."""
        prefetch = FilterPrefetch(region.target, factors, self.transposed, tile.features, self.input_block)
        is_packed_once = self.row_blocks == self.chunks == geometry.groups == 1
        self.prefetch: FilterPrefetch | None = None
        """Prefetches the blocks of the filter, if each is packed once; then a task has one panel."""
        if is_packed_once and prefetch.is_worthwhile:
            self.prefetch, self.panels_per_task = prefetch, 1
        input_prefetch = InputPrefetch(region.target, factors, tile.positions)
        self.input_prefetch = input_prefetch if self.input_blocks == 1 and input_prefetch.is_worthwhile else None
        """Prefetches the input behind a tile, if it is worthwhile."""
        size = math.prod(self.window) * self.input_block * tile.features
        if self.transposed is not None:
            window, room = self.transposed.window, packed_room(factors, tile.features)
            size += room
            transposed_size = TRANSPOSED_INPUTS * window * tile.features + room
            self.transposed_terms = ScratchArray(builder, "terms", factors.factor_type, transposed_size)
        self.panel = ScratchArray(builder, "panel", factors.factor_type, size)
        micro_tile = MicroTile(tile.positions, tile.vectors, tile.lanes)
        self.corrections = PackedCorrections(factors, micro_tile, math.prod(self.window))
        """What to add to sums for each offset in the window, if the factors from the input contain a constant."""
        self.sums: ScratchArray | None = None
        """The sums of a panel, if there are several blocks of input features, or a long epilogue."""
        if keeps_sums:
            self.sums = ScratchArray(builder, "sums", self.type, self.rows_per_task * self.sums_of_row)

    def _is_nontemporal(self, shape: Shape, target: Target) -> bool:
        """Whether a result is too large for the caches, and every vector stored to it is a whole cache line."""
        size, features = shape.element_type.byte_size, self.geometry.outputs
        is_line = size * self.tile.lanes == target.vector_bytes == target.cache_line_bytes
        is_whole = features % self.tile.features == 0 and shape.dimensions[-1] % self.tile.lanes == 0
        return is_line and is_whole and shape.size * size >= target.l3_bytes // 2

    @property
    def is_one_run(self) -> bool:
        """Whether the input of neighboring offsets along the last dimension is contiguous through all features."""
        g = self.geometry
        n, rank = g.numbers, g.input.shape.rank
        is_last = n.input_feature_dimension == rank - 1 and n.input_spatial_dimensions[-1] == rank - 2
        plain = self.last.phases == self.last.step == 1
        return is_last and plain and self.input_blocks == 1 and g.attrs.feature_group_count == 1

    def kernel(self) -> Kernel:
        builder, g = self.builder, self.geometry
        feature_blocks = -(-self.panels // self.panels_per_task)
        sizes = (g.groups, feature_blocks, self.row_blocks, self.chunks)
        with builder.loop(math.prod(sizes), AxisKind.PARALLEL) as task:
            group, block, row_block, chunk = delinear(builder, task, sizes)
            first_panel, first_row = block * self.panels_per_task, row_block * self.rows_per_task
            rows = block_extent(builder, first_row, self.rows.count, self.rows_per_task)
            panels = block_extent(builder, first_panel, self.panels, self.panels_per_task)
            with builder.loop(panels) as panel:
                _Panel(self, group, first_panel + panel, first_row, rows, chunk).compute()
        return builder.kernel


@dataclass(frozen=True, slots=True)
class _Inputs:
    """A block of input features. next: the block of the filter that is packed next, if it is prefetched."""

    first: Affine
    count: int | Value
    next: FilterBlock | None


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
            block_of_inputs = _Inputs(Affine(), inputs, self.block_after(Affine()))
            self.pack(block_of_inputs)
            self.add(block_of_inputs)
            return
        zero = zero_element(builder, plan.type)
        with builder.loop(plan.rows_per_task * plan.sums_of_row, AxisKind.VECTOR, width=plan.tile.lanes) as position:
            plan.sums.store(position, zero)
        with builder.loop(plan.input_blocks) as block:
            first = block * plan.input_block
            count = block_extent(builder, first, inputs, plan.input_block)
            block_of_inputs = _Inputs(first, count, self.block_after(block))
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

    def pack(self, inputs: _Inputs) -> None:
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

    def pack_by_transposition(self, filter: TransposedFilter, inputs: _Inputs) -> None:
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

    def add(self, inputs: _Inputs) -> None:
        """Adds the products of a block of input features to all tiles; stores the sums if there is one block."""
        plan, builder, shape = self.plan, self.plan.builder, self.plan.tile
        count = shape.positions * shape.vectors
        for tile in self.each_tile():
            with builder.loop(shape.lanes, AxisKind.VECTOR, width=shape.lanes) as lane:
                places = [self.sums_offset(tile) + number * shape.lanes + lane for number in range(count)]
                if plan.sums is None:
                    (zero,) = scalar_values([zero_element(builder, plan.type)])
                    self.prefetch_epilogue(tile)
                    sums = self.products(tile, inputs, lane, [zero] * count)
                    for number, total in enumerate(sums):
                        position, vector = divmod(number, shape.vectors)
                        self.store(tile, Affine((), position), lane + vector * shape.lanes, total)
                    continue
                before = scalar_values([plan.sums.load(place) for place in places])
                for place, total in zip(places, self.products(tile, inputs, lane, before), strict=True):
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

    def products(self, tile: Tile[TileSegments], inputs: _Inputs, lane: Affine, sums: Sequence[Value]) -> list[Value]:
        """Adds the products of all offsets and a block of input features to the sums of a tile."""
        builder, ranges = self.plan.builder, tile.row.ranges

        def at_offsets(offsets: tuple[Affine, ...], carried: Sequence[Value]) -> list[Value]:
            if len(offsets) == len(ranges):
                return self.segments(tile, offsets, inputs, lane, carried)
            found = ranges[len(offsets)]
            return builder.reduce(
                found.count, carried, lambda k, values: at_offsets((*offsets, found.first + k), values)
            )

        return at_offsets((), sums)

    def segments(
        self,
        tile: Tile[TileSegments],
        offsets: tuple[Affine, ...],
        inputs: _Inputs,
        lane: Affine,
        sums: Sequence[Value],
    ) -> list[Value]:
        """Adds the products of all offsets along the last dimension, one segment after the other."""
        segments = tile.segments

        def add(segment: OffsetSegment, carried: Sequence[Value]) -> list[Value]:
            return self.segment(tile, segment, offsets, inputs, lane, carried)

        if self.plan.factors.inputs < MIN_SHARED_INPUTS:
            separate = segments.one_by_one()
            if len(separate) <= MAX_SEGMENTS:
                for segment in separate:
                    sums = add(segment, sums)
                return list(sums)
        if segments.most == 1:
            return add(segments.segment(Affine()), sums)
        return self.plan.builder.reduce(
            segments.count(), sums, lambda number, carried: add(segments.segment(number), carried)
        )

    def segment(
        self,
        tile: Tile[TileSegments],
        segment: OffsetSegment,
        offsets: tuple[Affine, ...],
        inputs: _Inputs,
        lane: Affine,
        sums: Sequence[Value],
    ) -> list[Value]:
        """Adds the products of the offsets of a segment along the last dimension."""
        plan, builder, factors = self.plan, self.plan.builder, self.plan.factors
        spatial = [r.start + k * d.step for r, k, d in zip(tile.row.ranges, offsets, plan.outer, strict=True)]
        outer = [r.rest + k * d.phases for r, k, d in zip(tile.row.ranges, offsets, plan.outer, strict=True)]

        def step(last: Affine, offset: Affine, window: Affine, number: Affine, carried: Sequence[Value]) -> list[Value]:
            """The products of one term. window: its number in the packed panel, but for the outer offsets."""
            if plan.input_prefetch is not None:
                plan.input_prefetch.prefetch(tile.row.batch, (*spatial, tile.start), number)
            if plan.prefetch is not None and inputs.next is not None:
                tiles = tile.row.number * plan.rows.joined_tiles_per_chunk + tile.number
                plan.prefetch.prefetch(inputs.next, plan.geometry.in_kernel_order([*outer, offset]), number, tiles)
            term = linear((*outer, Affine()), plan.window) * plan.input_block + window
            columns = [
                plan.panel.load(term * plan.tile.features + lane + vector * plan.tile.lanes)
                for vector in range(plan.tile.vectors)
            ]
            vectors = plan.tile.vectors

            def add(positions: Sequence[int], totals: Sequence[Value]) -> list[Value]:
                found: list[Element] = []
                for n, position in enumerate(positions):
                    at = (tile.start + position) * plan.last.stride + last + plan.last.start(tile.phase)
                    factor = factors.from_input(self.group, tile.row.batch, inputs.first + number, (*spatial, at))
                    pairs = zip(columns, totals[n * vectors : (n + 1) * vectors], strict=True)
                    found += [factors.multiply_add(factor, column, total) for column, total in pairs]
                return scalar_values(found)

            return self.in_groups(segment, carried, add)

        rest = plan.last.rest(tile.phase)
        sums = self.corrected(segment, (*outer, Affine() + rest), lane, sums)
        if plan.is_one_run:
            count = segment.count

            def in_run(term: Affine, carried: Sequence[Value]) -> list[Value]:
                offset, number = delinear(builder, term, (segment.most, factors.inputs))
                offset += segment.first
                return step(offset, offset, term + segment.first * factors.inputs, number, carried)

            if not isinstance(count, int):
                count = builder.value_of(Affine.of(count) * factors.inputs)
                count.range = (0, segment.most * factors.inputs)
                return builder.reduce(count, sums, in_run)
            return builder.reduce(count * factors.inputs, sums, in_run)

        def at_offset(k: Affine, carried: Sequence[Value]) -> list[Value]:
            last = (k + segment.first) * plan.last.step
            offset = (k + segment.first) * plan.last.phases + rest
            return builder.reduce(
                inputs.count,
                carried,
                lambda number, values: step(last, offset, offset * plan.input_block + number, number, values),
            )

        return builder.reduce(segment.count, sums, at_offset)

    def corrected(
        self, segment: OffsetSegment, first: Sequence[Affine], lane: Affine, sums: Sequence[Value]
    ) -> list[Value]:
        """Adds what the constant in the factors from the input makes necessary for the offsets of a segment.

        first: the position in the window of the first offset of a tile.
        """
        plan, builder = self.plan, self.plan.builder
        if plan.factors.left_offset() is None:
            return list(sums)

        def at_offset(k: Affine, carried: Sequence[Value]) -> list[Value]:
            number = linear((*first[:-1], first[-1] + (k + segment.first) * plan.last.phases), plan.window)
            totals = plan.corrections.first_totals(number, lane) or []
            return scalar_values([add_elements(builder, a, b) for a, b in zip(carried, totals, strict=True)])

        zeros = scalar_values([zero_element(builder, plan.type)] * plan.tile.vectors)
        excess = builder.reduce(segment.count, zeros, at_offset)

        def add(positions: Sequence[int], totals: Sequence[Value]) -> list[Value]:
            return [builder.add(a, b) for a, b in zip(totals, excess * len(positions), strict=True)]

        return self.in_groups(segment, sums, add)

    def in_groups(
        self,
        segment: OffsetSegment,
        sums: Sequence[Value],
        add: Callable[[Sequence[int], Sequence[Value]], list[Value]],
    ) -> list[Value]:
        """Returns the sums of a tile after `add`, for groups of positions that meet the input in a segment."""
        builder, vectors, after = self.plan.builder, self.plan.tile.vectors, list(sums)

        def add_to(positions: Sequence[int], _: Affine, totals: Sequence[Value]) -> list[Value]:
            return add(positions, totals)

        for group in segment.groups:
            places = [p * vectors + vector for p in group.positions for vector in range(vectors)]
            totals = [sums[place] for place in places]
            if group.is_inside is None:
                totals = add(group.positions, totals)
            else:  # at most one iteration, which is a branch
                totals = builder.reduce(group.is_inside, totals, partial(add_to, group.positions))
            for place, total in zip(places, totals, strict=True):
                after[place] = total
        return after
