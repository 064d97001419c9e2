"""Emits convolutions with few features per group, such as depthwise ones: groups run in the lanes of vectors.

A tile holds the sums of a few neighboring positions, times the output features of one vector of groups. The kernel is
packed once per task, so that neighboring groups are neighbors in memory, unless it lies so already:

    for each block of rows, a task
      pack the kernel: [offsets][input features][output features][groups]
      for each row, for each tile of positions in the row, for each vector of groups
        for each offset, input feature, output feature
          sums[position, output feature] += input[position + offset, groups] * packed[..., groups]

With several features per group, the groups of one feature are strided in the input and in the result; vectors are
(de)interleaved on the way. Padding contributes nothing, as in direct convolutions. Large inputs of depthwise
convolutions are prefetched a row ahead.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlapy.codegen.emitters.convolution.geometry import ConvolutionGeometry, minimum, scalar_values
from xlapy.codegen.emitters.convolution.register_tiles import convolution_type
from xlapy.codegen.emitters.convolution.row_tiles import Segment
from xlapy.codegen.emitters.convolution.rows import ConvolutionRows, Tile, result_position
from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.epilogue import Epilogue
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.codegen.target import Target
from xlapy.loops import Affine, AxisKind, Kernel, Location, Value
from xlapy.loops.reduction_order import balanced_size
from xlapy.lower import Element, Lowering
from xlapy.lower.contraction import multiply_add, rounded_sum, zero_element
from xlapy.lower.core import Source, linear
from xlapy.lower.element_types import register_type
from xlapy.lower.elementwise import convert_element

MAX_FEATURES = 8
"""The largest number of input and of output features per group that are unrolled."""

MAX_UNROLLED_PRODUCTS = 64
"""The largest number of products of one unrolled body; with more, compilation takes longer than it saves."""

MAX_PACKED_BYTES = 1 << 17
"""The largest size of the packed kernel, which should stay in the L2 cache."""

TILE_SUMS = 12
"""The number of sums of a tile, about: enough to hide the latency of a multiply-add."""

POSITIONS_PER_TASK = 256
"""The number of positions of a task, about. If they share a packed kernel, packing costs about a percent."""

MIN_TASKS = 16
"""The number of tasks, at least, if a task packs nothing: as many as a parallel loop has chunks. Images of 7 x 7 have
few rows (`benchmarks.networks`, "mobilenet v2, 8 images": 1.6x the time with one or two tasks)."""


def packed_size(geometry: ConvolutionGeometry) -> int:
    """The number of elements of the packed kernel."""
    window = math.prod(d.window.size for d in geometry.dimensions)
    return window * geometry.inputs * geometry.outputs * geometry.groups


def preferred_positions(geometry: ConvolutionGeometry) -> int:
    """The positions of a tile."""
    last = geometry.dimensions[-1]
    narrowest = last.positions(last.phases - 1)
    return balanced_size(narrowest, min(narrowest, max(1, TILE_SUMS // geometry.outputs)))


class GroupedConvolution:
    """The kernel of a convolution; a tile has `width` positions."""

    def __init__(self, region: Region, geometry: ConvolutionGeometry, width: int) -> None:
        self.geometry, self.root = geometry, geometry.root
        self.builder = builder = kernel_builder(region.name, region.target)
        sources = {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(region.operands)}
        outputs = [result_buffer(builder, result.shape, f"out{n}") for n, result in enumerate(region.results)]
        self.epilogue = Epilogue(region, self.root, builder, sources, outputs)
        builder.kernel.stores_repeatedly = True  # the last tile of a run may overlap the one before
        self.lowering = Lowering(builder, sources)
        self.type = convolution_type(self.root)
        self.lanes = builder.lanes(register_type(self.type))
        self.width = width
        self.rows = ConvolutionRows(builder, self.lowering, geometry.batch, geometry.dimensions, self.width)
        self.window = [d.window.size for d in geometry.dimensions]
        self.features = geometry.inputs * geometry.outputs
        self.prefetched_input = self._prefetched_input(region.target)
        self.packed: ScratchArray | None = None
        if not self._is_packed_in_memory():
            self.packed = ScratchArray(builder, "packed", self.type, packed_size(geometry))

    def _prefetched_input(self, target: Target) -> Source | None:
        """The input, if its rows are prefetched: images in memory that come from beyond the caches.

        A row of many channels is read in long strides, which processors do not foresee.
        """
        source = self.lowering.source(self.geometry.input)
        if source is None or self.features > 1 or len(self.rows.outer) != 1:
            return None
        row, last = self.geometry.dimensions
        is_large = source.shape.size * source.buffer.type.byte_size >= target.prefetched_bytes
        is_below = row.window.padding_low <= row.window.dilated_size
        return source if is_large and is_below and row.phases == last.phases == 1 else None

    def _is_packed_in_memory(self) -> bool:
        """Whether the kernel is in memory in the type of the sums, with neighboring groups as neighbors."""
        g = self.geometry
        source, features = self.lowering.source(g.filter), g.numbers.kernel_output_feature_dimension
        is_in_order = self.features == 1 and features == g.filter.shape.rank - 1
        return is_in_order and source is not None and source.buffer.type is register_type(self.type)

    def kernel(self) -> Kernel:
        builder, g = self.builder, self.geometry
        rows = POSITIONS_PER_TASK // self.rows.last.output
        if self.packed is None:
            rows = min(rows, self.rows.count // MIN_TASKS)
        rows_per_task = balanced_size(self.rows.count, max(1, rows))
        with builder.loop(-(-self.rows.count // rows_per_task), AxisKind.PARALLEL) as task:
            first = task * rows_per_task
            if self.packed is not None:
                self.pack(self.packed)
            for row in self.rows.each_row(first, block_extent(builder, first, self.rows.count, rows_per_task)):
                for tile in self.rows.each_tile(row, Affine()):
                    with builder.loop(g.groups, AxisKind.VECTOR, width=self.lanes) as group:
                        self.compute(tile, group)
        return builder.kernel

    def pack(self, packed: ScratchArray) -> None:
        """Packs the kernel, in the order of the window."""
        builder, g = self.builder, self.geometry
        with (
            builder.loop(math.prod(self.window)) as number,
            builder.loop(g.groups, AxisKind.VECTOR, width=self.lanes) as group,
        ):
            offsets = g.offsets_in_order(builder, number)
            for feature in range(self.features):
                inner, outer = divmod(feature, g.outputs)
                index = g.filter_index(group, Affine((), inner), Affine((), outer), offsets)
                element = self.lowering.element(g.filter, index)
                element = convert_element(builder, element, g.filter.shape.element_type, self.type)
                packed.store((number * self.features + feature) * g.groups + group, element)

    def compute(self, tile: Tile[tuple[Segment, ...]], group: Affine) -> None:
        """Computes a tile for a vector of groups."""
        builder, g, ranges = self.builder, self.geometry, tile.row.ranges
        zero = zero_element(builder, self.type)
        if self.prefetched_input is not None:
            self.prefetch_next_row(self.prefetched_input, tile, group)

        def at_offsets(offsets: tuple[Affine, ...], carried: Sequence[Value]) -> list[Value]:
            if len(offsets) == len(ranges):
                for segment in tile.segments:
                    carried = self.segment(tile, segment, offsets, group, carried)
                return list(carried)
            found = ranges[len(offsets)]
            return builder.reduce(
                found.count, carried, lambda k, values: at_offsets((*offsets, found.first + k), values)
            )

        sums = at_offsets((), scalar_values([zero] * (self.width * g.outputs)))
        t = self.root.shape.element_type
        for number, total in enumerate(sums):
            position, feature = divmod(number, g.outputs)
            spatial = result_position(tile, self.rows.last, position)
            index = g.result_index(group, tile.row.batch, Affine((), feature), spatial)
            element = convert_element(builder, rounded_sum(builder, total, self.type), self.type, t)
            self.epilogue.store(index, element, None)

    def prefetch_next_row(self, input: Source, tile: Tile[tuple[Segment, ...]], group: Affine) -> None:
        """Prefetches the elements of the input that the next row of tiles reads first, those below the tile's."""
        builder, (row,), last = self.builder, self.rows.outer, self.rows.last
        (position,) = tile.row.positions
        end = position * row.stride + (row.window.dilated_size - row.window.padding_low)
        for below in range(min(row.stride, row.window.dilated_size)):
            at = minimum(builder, end + below, row.input - 1)
            for column in range(self.width * last.stride):
                beside = minimum(builder, tile.start * last.stride + column, last.input - 1)
                index = self.geometry.input_index(group, tile.row.batch, Affine(), (at, beside))
                builder.prefetch(Location(input.buffer, input.offset(index)))

    def factors(self, offsets: Sequence[Affine], inner: int, group: Affine) -> list[Element]:
        """The factors of an input feature of each group, for all output features, at an offset of the window."""
        g = self.geometry
        if self.packed is None:
            index = g.filter_index(group, Affine(), Affine(), g.in_kernel_order(offsets))
            return [self.lowering.element(g.filter, index)]
        term = linear(tuple(offsets), self.window) * self.features + inner * g.outputs
        return [self.packed.load((term + f) * g.groups + group) for f in range(g.outputs)]

    def segment(
        self,
        tile: Tile[tuple[Segment, ...]],
        segment: Segment,
        offsets: Sequence[Affine],
        group: Affine,
        sums: Sequence[Value],
    ) -> list[Value]:
        """Adds the products of the offsets of a segment along the last dimension."""
        builder, g, last = self.builder, self.geometry, self.rows.last
        pairs = list(zip(tile.row.ranges, offsets, self.rows.outer, strict=True))
        spatial = [r.start + k * d.step for r, k, d in pairs]
        window = [r.rest + k * d.phases for r, k, d in pairs]
        known: dict[tuple[Affine, int], Element] = {}

        def at_offset(k: Affine, carried: Sequence[Value]) -> list[Value]:
            after = list(carried)
            for inner in range(g.inputs):
                factors = self.factors((*window, k * last.phases + last.rest(tile.phase)), inner, group)
                for position in segment.positions:
                    at = (tile.start + position) * last.stride + k * last.step + last.start(tile.phase)
                    element = known.get((at, inner))
                    if element is None:
                        index = g.input_index(group, tile.row.batch, Affine((), inner), (*spatial, at))
                        element = self.lowering.element(g.input, index)
                        element = convert_element(builder, element, g.input.shape.element_type, self.type)
                        known[at, inner] = element
                    for feature, factor in enumerate(factors):
                        n = position * g.outputs + feature
                        (after[n],) = scalar_values([multiply_add(builder, self.type, element, factor, after[n])])
            return after

        products = segment.count * len(segment.positions) * self.features
        if products <= MAX_UNROLLED_PRODUCTS:
            carried = list(sums)
            for k in range(segment.first, segment.first + segment.count):
                carried = at_offset(Affine((), k), carried)
            return carried
        return builder.reduce(segment.count, sums, lambda k, values: at_offset(k + segment.first, values))
