"""Emits convolutions with few features per group, such as depthwise ones: groups run in the lanes of vectors.

A tile holds the sums of a few neighboring positions, times the output features of one vector of groups. The kernel is
packed once per task, so that neighboring groups are neighbors in memory:

    for each block of rows, a task
      pack the kernel: [offsets][input features][output features][groups]
      for each row, for each tile of positions in the row, for each vector of groups
        for each offset, input feature, output feature
          sums[position, output feature] += input[position + offset, groups] * packed[..., groups]

With several features per group, the groups of one feature are strided in the input and in the result; vectors are
(de)interleaved on the way. Padding contributes nothing, as in direct convolutions.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlapy.codegen.emitters.convolution.geometry import ConvolutionGeometry, scalar_values
from xlapy.codegen.emitters.convolution.row_tiles import Segment
from xlapy.codegen.emitters.convolution.rows import ConvolutionRows, Tile, result_position
from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.epilogue import Epilogue
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.loops import Affine, AxisKind, Kernel, Value
from xlapy.loops.reduction_order import balanced_size
from xlapy.lower import Element, Lowering
from xlapy.lower.contraction import multiply_add, rounded_sum, sum_type, zero_element
from xlapy.lower.core import linear
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

POSITIONS_PER_TASK = 1024
"""The number of positions, about, that share the packed kernel."""


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
        self.type = sum_type([o.shape.element_type for o in self.root.operands], self.root.shape.element_type)
        self.lanes = builder.lanes(register_type(self.type))
        self.width = width
        self.rows = ConvolutionRows(builder, self.lowering, geometry.batch, geometry.dimensions, self.width)
        self.window = [d.window.size for d in geometry.dimensions]
        self.features = geometry.inputs * geometry.outputs

    def kernel(self) -> Kernel:
        builder, g = self.builder, self.geometry
        self.packed = ScratchArray(builder, "packed", self.type, packed_size(g))
        width = self.rows.last.output
        rows_per_task = balanced_size(self.rows.count, max(1, POSITIONS_PER_TASK // width))
        with builder.loop(-(-self.rows.count // rows_per_task), AxisKind.PARALLEL) as task:
            first = task * rows_per_task
            self.pack()
            for row in self.rows.each_row(first, block_extent(builder, first, self.rows.count, rows_per_task)):
                for tile in self.rows.each_tile(row, Affine()):
                    with builder.loop(g.groups, AxisKind.VECTOR, width=self.lanes) as group:
                        self.compute(tile, group)
        return builder.kernel

    def pack(self) -> None:
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
                self.packed.store((number * self.features + feature) * g.groups + group, element)

    def compute(self, tile: Tile[tuple[Segment, ...]], group: Affine) -> None:
        """Computes a tile for a vector of groups."""
        builder, g, ranges = self.builder, self.geometry, tile.row.ranges
        zero = zero_element(builder, self.type)

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
        window = linear((*(r.rest + k * d.phases for r, k, d in pairs), Affine()), self.window)
        known: dict[tuple[Affine, int], Element] = {}

        def at_offset(k: Affine, carried: Sequence[Value]) -> list[Value]:
            after = list(carried)
            for inner in range(g.inputs):
                term = (window + k * last.phases + last.rest(tile.phase)) * self.features + inner * g.outputs
                factors = [self.packed.load((term + f) * g.groups + group) for f in range(g.outputs)]
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
