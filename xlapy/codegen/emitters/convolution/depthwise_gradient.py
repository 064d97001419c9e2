"""Emits gradients with respect to the kernel of a depthwise convolution: large windows, one channel per group.

Groups run in the lanes of vectors. The operands are read where they lie, a block of lines at a time (an image, and the
window offsets but the last one). A tile holds the sums of all positions along the last dimension for a few vectors of
groups, so that the kernel's elements are loaded once for all of them:

    for each block of groups, and some positions but their last component, a task
      for each block of lines, for each position but the last component
        for each line that meets the input, for each offset
          sums[position, groups] += input[line, position + offset, groups] * kernel[line, offset, groups]

The offsets at which some positions only meet the input, at the ends of a line, are added apart. The order of the
additions follows from the shapes alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from xlapy.codegen.emitters.convolution.geometry import (
    ConvolutionGeometry,
    offset_range,
    scalar_values,
)
from xlapy.codegen.emitters.convolution.kernel_gradient import SUMS_BYTES
from xlapy.codegen.emitters.convolution.register_tiles import convolution_type
from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.micro_kernel import in_bounds
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.epilogue import Epilogue
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I64, Affine, AxisKind, Kernel, Value
from xlapy.loops.reduction_order import balanced_size
from xlapy.lower import Element, Lowering
from xlapy.lower.contraction import multiply_add, rounded_sum, zero_element
from xlapy.lower.core import Index, delinear
from xlapy.lower.element_types import register_type
from xlapy.lower.elementwise import convert_element
from xlapy.lower.movement import conjunction

MAX_TILE_VECTORS = 4
"""The largest number of vectors of groups of a tile."""

MAX_UNROLLED_POSITIONS = 64
"""The largest number of positions along the last dimension that have code of their own. Tiles of longer dimensions have
one position."""

MIN_PRODUCTS = 1 << 14
"""The smallest number of products for which this form is worth its loops over blocks."""


def reason_against(geometry: ConvolutionGeometry) -> str:
    """Why a convolution is not computed in this form; "" if it is."""
    root, n = geometry.root, geometry.numbers
    if geometry.attrs.batch_group_count == 1 or geometry.batch > 1 or geometry.outputs > 1:
        return "it does not have a group of the batch for each output feature"
    if geometry.products < MIN_PRODUCTS:
        return f"{geometry.products} products are fewer than {MIN_PRODUCTS}"
    positions = math.prod(d.output for d in geometry.dimensions)
    if math.prod(d.window.size for d in geometry.dimensions) <= positions:
        return f"its window is not larger than its result of {positions} positions"
    last = root.shape.rank - 1
    orders = n.input_batch_dimension, n.kernel_output_feature_dimension, n.output_feature_dimension
    t = convolution_type(root)
    if any(d != last for d in orders) or any(d.phases > 1 for d in geometry.dimensions):
        return "its batch and output features are not the last dimensions, or its input is dilated"
    return f"it adds up {t.name.lower()} numbers" if t.is_complex or register_type(t).bits < 32 else ""


def depthwise_gradient_kernel(region: Region, geometry: ConvolutionGeometry) -> Kernel:
    """Returns the kernel of the gradient of a depthwise kernel."""
    return _DepthwiseGradient(region, geometry).kernel()


@dataclass(frozen=True, slots=True)
class _Tile:
    """Some positions along the last dimension, for one position along the others and a block of groups.

    sums: where the sums of the first position are.
    """

    outer: tuple[Affine, ...]
    positions: tuple[Affine, ...]
    group: Affine
    sums: Affine


class _DepthwiseGradient:
    def __init__(self, region: Region, geometry: ConvolutionGeometry) -> None:
        self.geometry, self.root = geometry, geometry.root
        self.builder = builder = kernel_builder(region.name, region.target)
        sources = {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(region.operands)}
        outputs = [result_buffer(builder, result.shape, f"out{n}") for n, result in enumerate(region.results)]
        self.epilogue = Epilogue(region, self.root, builder, sources, outputs)
        self.lowering = Lowering(builder, sources)
        self.type = convolution_type(self.root)
        kind = register_type(self.type)
        *self.outer, self.last = geometry.dimensions
        self.lanes = min(builder.lanes(kind), 1 << (geometry.groups - 1).bit_length())
        vectors = -(-geometry.groups // self.lanes)
        # a quarter of the registers holds factors; each processor gets a block of groups if there are enough
        sums, share = region.target.vector_registers * 3 // 4, max(1, vectors // region.target.processors)
        self.vectors = balanced_size(vectors, max(1, min(MAX_TILE_VECTORS, sums // self.last.output, share)))
        self.positions_per_tile = balanced_size(self.last.output, max(1, sums // self.vectors))
        self.width = self.vectors * self.lanes
        self.blocks = -(-geometry.groups // self.width)
        self.outer_sizes = [d.output for d in self.outer]
        tasks_of_block = -(-region.target.processors // self.blocks)
        row_bytes = self.last.output * self.width * kind.byte_size
        most = min(-(-math.prod(self.outer_sizes) // tasks_of_block), SUMS_BYTES // row_bytes)
        self.outer_per_task = balanced_size(math.prod(self.outer_sizes), max(1, most))
        self.line_sizes = [geometry.inputs, *(d.window.size for d in self.outer)]
        self.lines = math.prod(self.line_sizes)
        line_bytes = 2 * self.last.window.size * self.width * kind.byte_size
        self.lines_per_block = balanced_size(self.lines, max(1, region.target.l1_bytes // line_bytes))
        self.sums = ScratchArray(builder, "sums", self.type, self.outer_per_task * self.last.output * self.width)

    def kernel(self) -> Kernel:
        builder, outer_count = self.builder, math.prod(self.outer_sizes)
        counts = -(-outer_count // self.outer_per_task), self.blocks
        with builder.loop(math.prod(counts), AxisKind.PARALLEL) as task:
            number, block = delinear(builder, task, counts)
            first = number * self.outer_per_task
            count = block_extent(builder, first, outer_count, self.outer_per_task)
            (zero,) = scalar_values([zero_element(builder, self.type)])
            size = self.outer_per_task * self.last.output * self.width
            with builder.loop(size, AxisKind.VECTOR, width=self.lanes) as place:
                self.sums.store(place, zero)
            with builder.loop(-(-self.lines // self.lines_per_block)) as lines:
                for tile in self.each_tile(first, count, block):
                    self.add(tile, lines * self.lines_per_block)
            for tile in self.each_tile(first, count, block):
                self.store(tile)
        return builder.kernel

    def each_tile(self, first: Affine, count: int | Value, block: Affine) -> Iterator[_Tile]:
        """Emits a loop over the positions of a task but their last components; yields the tiles of each."""
        with self.builder.loop(count) as number:
            outer = tuple(delinear(self.builder, first + number, self.outer_sizes))
            sums = number * (self.last.output * self.width)
            if self.last.output > MAX_UNROLLED_POSITIONS:
                with self.builder.loop(self.last.output) as position:
                    yield _Tile(outer, (position,), block * self.width, sums + position * self.width)
                return
            for start in range(0, self.last.output, self.positions_per_tile):
                end = min(start + self.positions_per_tile, self.last.output)
                positions = tuple(Affine((), position) for position in range(start, end))
                yield _Tile(outer, positions, block * self.width, sums + start * self.width)

    def add(self, tile: _Tile, first_line: Affine) -> None:
        """Adds the products of a block of lines to the sums of a tile."""
        builder = self.builder
        count = block_extent(builder, first_line, self.lines, self.lines_per_block)
        with builder.loop(self.lanes, AxisKind.VECTOR, width=self.lanes) as lane:
            places = [tile.sums + n * self.lanes + lane for n in range(len(tile.positions) * self.vectors)]
            before = scalar_values([self.sums.load(place) for place in places])
            after = builder.reduce(count, before, partial(self.line, tile, first_line, lane))
            for place, total in zip(places, after, strict=True):
                self.sums.store(place, total)

    def line(self, tile: _Tile, first_line: Affine, lane: Affine, number: Affine, sums: Sequence[Value]) -> list[Value]:
        """Adds the products of one line."""
        builder, g = self.builder, self.geometry
        image, *window = delinear(builder, first_line + number, self.line_sizes)
        spatial: list[Affine] = []
        exists: Value | None = None
        for d, position, offset in zip(self.outer, tile.outer, window, strict=True):
            spatial.append(position * d.stride + offset * d.step - d.window.padding_low)
            exists = conjunction(builder, exists, self.lowering.in_bounds((spatial[-1],), [(0, d.input)]))

        def at_offsets(
            count: int | Value, first: int | Affine, positions: Sequence[int], carried: Sequence[Value]
        ) -> list[Value]:
            """Adds the products of offsets at which all of some positions of the tile meet the input."""
            if exists is not None and count != 0:
                some = builder.constant(I64, count) if isinstance(count, int) else count
                count = builder.select(exists, some, builder.constant(I64, 0))
                count.range = (0, self.last.window.size)
            return builder.reduce(count, carried, lambda k, values: at_offset(k + first, positions, values))

        def at_offset(offset: Affine, positions: Sequence[int], carried: Sequence[Value]) -> list[Value]:
            kernel_at = g.in_kernel_order([*window, offset])
            after = list(carried)
            for vector in range(self.vectors):
                group = tile.group + lane + vector * self.lanes
                right = self.loaded(g.filter, g.filter_index(group, image, Affine(), kernel_at), group)
                for n in positions:
                    at = offset * self.last.step + tile.positions[n] * self.last.stride + self.last.start(0)
                    left = self.loaded(g.input, g.input_index(group, Affine(), image, (*spatial, at)), group)
                    place = n * self.vectors + vector
                    (after[place],) = scalar_values([multiply_add(builder, self.type, left, right, after[place])])
            return after

        if not tile.positions[0].is_constant:
            found = offset_range(builder, self.last, tile.positions[0], Affine())
            return at_offsets(found.count, found.first, [0], sums)
        reached = [self.offsets(position.constant) for position in tile.positions]
        begin, end = max(r.start for r in reached), min(r.stop for r in reached)
        if begin >= end:
            begin = end = 0
        sums = at_offsets(end - begin, begin, range(len(reached)), sums)
        for n, offsets in enumerate(reached):
            for first, last in ((offsets.start, min(begin, offsets.stop)), (max(end, offsets.start), offsets.stop)):
                sums = at_offsets(max(0, last - first), first, [n], sums)
        return list(sums)

    def offsets(self, position: int) -> range:
        """The offsets along the last dimension at which the window at a position meets the input."""
        start, step, size = position * self.last.stride + self.last.start(0), self.last.step, self.last.window.size
        first = min(size, max(0, -(start // step)))
        return range(first, max(first, min(size, -((start - self.last.input) // step))))

    def loaded(self, operand: Instruction, index: Index, group: Affine) -> Element:
        """The element of an operand for a vector of groups, in the type of the sum."""
        mask = in_bounds(self.lowering, group, self.geometry.groups, self.width)
        with nullcontext() if mask is None else self.lowering.where(mask):
            element = self.lowering.element(operand, index)
        return convert_element(self.builder, element, operand.shape.element_type, self.type)

    def store(self, tile: _Tile) -> None:
        """Stores the sums of a tile."""
        builder, g, t = self.builder, self.geometry, self.root.shape.element_type
        with (
            builder.loop(len(tile.positions)) as position,
            builder.loop(self.width, AxisKind.VECTOR, width=self.lanes) as column,
        ):
            (total,) = scalar_values([self.sums.load(tile.sums + position * self.width + column)])
            element = convert_element(builder, rounded_sum(builder, total, self.type), self.type, t)
            group = tile.group + column
            spatial = (*tile.outer, position + tile.positions[0])
            index = g.result_index(group, Affine(), Affine(), spatial)
            mask = in_bounds(self.lowering, group, g.groups, self.width)
            self.epilogue.store(index, element, mask)
