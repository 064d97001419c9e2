"""Emits gradients with respect to the kernel of a depthwise convolution: large windows, one channel per group.

Groups run in the lanes of vectors. A tile holds one sum for each of a few vectors of groups; the operands are read
where they lie, a block of lines at a time (an image, and the window offsets but the last one), which fills half of the
L2 cache:

    for each position but the last component and block of groups, a task
      for each block of lines, for each position along the last dimension
        for each line that meets the input, for each offset at which it does
          sums[groups] += input[line, position + offset, groups] * kernel[line, offset, groups]

The order of the additions follows from the shapes alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial

from xlapy.codegen.emitters.convolution.geometry import (
    ConvolutionGeometry,
    offset_range,
    scalar_values,
)
from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.micro_kernel import in_bounds
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.epilogue import Epilogue
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I64, Affine, AxisKind, Kernel, Value
from xlapy.loops.reduction_order import balanced_size
from xlapy.lower import Element, Lowering
from xlapy.lower.contraction import multiply_add, rounded_sum, sum_type, zero_element
from xlapy.lower.core import Index, delinear
from xlapy.lower.element_types import register_type
from xlapy.lower.elementwise import convert_element
from xlapy.lower.movement import conjunction

TILE_VECTORS = 4
"""The largest number of vectors of groups of a tile: enough to hide the latency of a multiply-add."""


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
    t = sum_type([o.shape.element_type for o in root.operands], root.shape.element_type)
    if any(d != last for d in orders) or any(d.phases > 1 for d in geometry.dimensions):
        return "its batch and output features are not the last dimensions, or its input is dilated"
    return f"it adds up {t.name.lower()} numbers" if t.is_complex or register_type(t).bits < 32 else ""


def depthwise_gradient_kernel(region: Region, geometry: ConvolutionGeometry) -> Kernel:
    """Returns the kernel of the gradient of a depthwise kernel."""
    return _DepthwiseGradient(region, geometry).kernel()


@dataclass(frozen=True, slots=True)
class _Tile:
    """The position in the result, and the first group."""

    outer: tuple[Affine, ...]
    position: Affine
    group: Affine


class _DepthwiseGradient:
    def __init__(self, region: Region, geometry: ConvolutionGeometry) -> None:
        self.geometry, self.root = geometry, geometry.root
        self.builder = builder = kernel_builder(region.name, region.target)
        sources = {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(region.operands)}
        outputs = [result_buffer(builder, result.shape, f"out{n}") for n, result in enumerate(region.results)]
        self.epilogue = Epilogue(region, self.root, builder, sources, outputs)
        self.lowering = Lowering(builder, sources)
        self.type = sum_type([o.shape.element_type for o in self.root.operands], self.root.shape.element_type)
        kind = register_type(self.type)
        *self.outer, self.last = geometry.dimensions
        self.lanes = min(builder.lanes(kind), 1 << (geometry.groups - 1).bit_length())
        self.vectors = balanced_size(-(-geometry.groups // self.lanes), TILE_VECTORS)
        self.width = self.vectors * self.lanes
        self.line_sizes = [geometry.inputs, *(d.window.size for d in self.outer)]
        self.lines = math.prod(self.line_sizes)
        line_bytes = 2 * self.last.window.size * self.width * kind.byte_size
        self.lines_per_block = balanced_size(self.lines, max(1, region.target.l2_bytes // 2 // line_bytes))
        self.sums = ScratchArray(builder, "sums", self.type, self.last.output * self.width)

    def kernel(self) -> Kernel:
        builder, sizes = self.builder, [d.output for d in self.outer]
        counts = math.prod(sizes), -(-self.geometry.groups // self.width)
        with builder.loop(math.prod(counts), AxisKind.PARALLEL) as task:
            number, block = delinear(builder, task, counts)
            outer = tuple(delinear(builder, number, sizes))
            (zero,) = scalar_values([zero_element(builder, self.type)])
            with builder.loop(self.last.output * self.width, AxisKind.VECTOR, width=self.lanes) as place:
                self.sums.store(place, zero)
            with builder.loop(-(-self.lines // self.lines_per_block)) as lines, builder.loop(self.last.output) as at:
                self.add(_Tile(outer, at, block * self.width), lines * self.lines_per_block)
            with builder.loop(self.last.output) as at:
                self.store(_Tile(outer, at, block * self.width))
        return builder.kernel

    def add(self, tile: _Tile, first_line: Affine) -> None:
        """Adds the products of a block of lines to the sums of a tile."""
        builder = self.builder
        count = block_extent(builder, first_line, self.lines, self.lines_per_block)
        with builder.loop(self.lanes, AxisKind.VECTOR, width=self.lanes) as lane:
            places = [tile.position * self.width + v * self.lanes + lane for v in range(self.vectors)]
            before = scalar_values([self.sums.load(place) for place in places])
            after = builder.reduce(count, before, partial(self.line, tile, first_line, lane))
            for place, total in zip(places, after, strict=True):
                self.sums.store(place, total)

    def line(self, tile: _Tile, first_line: Affine, lane: Affine, number: Affine, sums: Sequence[Value]) -> list[Value]:
        """Adds the products of one line."""
        builder, g = self.builder, self.geometry
        image, *window = delinear(builder, first_line + number, self.line_sizes)
        offsets = offset_range(builder, self.last, tile.position, Affine())
        spatial: list[Affine] = []
        exists: Value | None = None
        for d, position, offset in zip(self.outer, tile.outer, window, strict=True):
            spatial.append(position * d.stride + offset * d.step - d.window.padding_low)
            exists = conjunction(builder, exists, self.lowering.in_bounds((spatial[-1],), [(0, d.input)]))
        count = offsets.count
        if exists is not None:
            some = builder.constant(I64, count) if isinstance(count, int) else count
            count = builder.select(exists, some, builder.constant(I64, 0))
            count.range = (0, self.last.window.size)

        def at_offset(k: Affine, carried: Sequence[Value]) -> list[Value]:
            offset = offsets.first + k
            kernel_at = g.in_kernel_order([*window, offset])
            input_at = (*spatial, offsets.start + offset * self.last.step)
            after: list[Element] = []
            for vector, total in enumerate(carried):
                group = tile.group + lane + vector * self.lanes
                left = self.loaded(g.input, g.input_index(group, Affine(), image, input_at), group)
                right = self.loaded(g.filter, g.filter_index(group, image, Affine(), kernel_at), group)
                after.append(multiply_add(builder, self.type, left, right, total))
            return scalar_values(after)

        return builder.reduce(count, sums, at_offset)

    def loaded(self, operand: Instruction, index: Index, group: Affine) -> Element:
        """The element of an operand for a vector of groups, in the type of the sum."""
        mask = in_bounds(self.lowering, group, self.geometry.groups, self.width)
        with nullcontext() if mask is None else self.lowering.where(mask):
            element = self.lowering.element(operand, index)
        return convert_element(self.builder, element, operand.shape.element_type, self.type)

    def store(self, tile: _Tile) -> None:
        """Stores the sums of a tile."""
        builder, g, t = self.builder, self.geometry, self.root.shape.element_type
        with builder.loop(self.width, AxisKind.VECTOR, width=self.lanes) as column:
            (total,) = scalar_values([self.sums.load(tile.position * self.width + column)])
            element = convert_element(builder, rounded_sum(builder, total, self.type), self.type, t)
            group = tile.group + column
            index = g.result_index(group, Affine(), Affine(), (*tile.outer, tile.position))
            mask = in_bounds(self.lowering, group, g.groups, self.width)
            self.epilogue.store(index, element, mask)
