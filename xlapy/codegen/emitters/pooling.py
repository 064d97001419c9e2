"""Emits reduce-window for pooling and its gradients: windows that extend over a few elements of an image.

| layout | vectors run along | borders |
|---|---|---|
| channels last: windows have one element along the last dimension | channels | tiles at the ends of a row |
| otherwise | positions of the windows in a row | the positions at the ends of a row, one by one |

Only borders meet padding. In the first layout, a tile of neighboring positions loads each column of elements once for
all windows that contain it, and prefetches what the next row of windows reads. Windows that do not overlap have tiles
of one position, which read memory in order.
Dilated base areas, as in the gradient of average-pooling, are computed phase by phase, without their holes. The
elements of a window are combined in order, as in the loop emitter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlapy import opcodes
from xlapy.codegen.emitters.convolution.geometry import SpatialDimension, minimum
from xlapy.codegen.emitters.convolution.row_tiles import Segment
from xlapy.codegen.emitters.convolution.rows import MAX_RUNS, ConvolutionRows, Tile, result_position
from xlapy.codegen.emitters.loop_nest import block_extent, preferred_lanes
from xlapy.codegen.kernel_cost import vector_cycles
from xlapy.codegen.plan import Candidate, NoParameters, Rejection, Strategy
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.loops import Affine, AxisKind, Kernel, Location, Value
from xlapy.loops.reduction_order import balanced_size
from xlapy.lower import Lowering, components, storage_type, store_element
from xlapy.lower.core import Element, delinear, flatten_elements, linear
from xlapy.lower.element_types import register_type
from xlapy.lower.reduction import combine_elements
from xlapy.opcodes.attributes.dimensions import WindowDimension
from xlapy.opcodes.reduction import WindowAttributes

MAX_UNROLLED = 24
"""The largest size of a window along the last dimension, whose elements are combined in one unrolled step."""

TILE_ELEMENTS = 12
"""The number of elements, about, that the windows of a tile combine in one step, if neighboring windows overlap. A
wider tile loads fewer elements again, but reads memory in longer strides (`benchmarks.convolutions`, "max-pool 3x3 256
@28" and "max-pool 3x3/2 64 @112": best with 12, 1.2x and 1.05x the time with 6)."""

MAX_WINDOW = 64
"""The largest number of elements of a window. Larger windows are sums of many elements, and have other kernels."""

MIN_ELEMENTS = 1 << 10
"""The smallest number of elements of a result whose kernel is worth longer code."""

TASK_ELEMENTS = 1 << 14
"""The number of elements of the result that a task computes, about."""


class PoolingStrategy(Strategy[NoParameters]):
    """Computes a reduce-window over small windows in tiles."""

    name = "pooling"
    required_opcodes = frozenset({opcodes.REDUCE_WINDOW})

    def candidate(self, region: Region) -> Candidate | Rejection:
        if region.root.op is not opcodes.REDUCE_WINDOW:
            return Rejection("its root is not a reduce-window")
        emitter = region.derived(_emitter)
        if emitter is None:
            return Rejection(
                f"it is not a reduce-window of one real array over 2 to {MAX_WINDOW} elements, with channels or dense"
                " rows last"
            )
        if region.root.shape.size < MIN_ELEMENTS:
            return Rejection(f"{region.root.shape.size} elements are fewer than {MIN_ELEMENTS}", is_possible=True)
        return Candidate(vector_cycles(region, region.root.shape.size * emitter.area, preferred_lanes(region)))

    def parameters(self, region: Region) -> NoParameters:
        return NoParameters()

    def emit(self, region: Region, parameters: NoParameters) -> list[Kernel]:
        emitter = region.derived(_emitter)
        assert emitter is not None
        return [emitter.kernel()]


def _emitter(region: Region) -> _ChannelsLast | _Rows | None:
    """The emitter of a reduce-window over small windows; None for others."""
    root = region.root
    if root.op is not opcodes.REDUCE_WINDOW or not root.shape.is_array:
        return None
    windows = root.attributes_as(WindowAttributes).window.dimensions
    operand = root.operands[0]
    if not operand.shape.size or not 1 < math.prod(w.size for w in windows) <= MAX_WINDOW:
        return None
    if components(root.shape.element_type) > 1 or register_type(root.shape.element_type).bits == 1:
        return None
    if _is_trivial(windows[-1]):
        pooling = _ChannelsLast(region, windows)
        return pooling if pooling.is_suitable else None
    return _Rows(region, windows) if all(w.base_dilation == 1 for w in windows) else None


class _Pooling:
    """What both layouts share: the kernel under construction and the combination of elements."""

    def __init__(self, region: Region, windows: Sequence[WindowDimension]) -> None:
        self.root, self.windows = region.root, windows
        self.operand, self.initial = self.root.operands
        self.builder = builder = kernel_builder(region.name, region.target)
        sources = {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(region.operands)}
        self.output = result_buffer(builder, self.root.shape, "out0")
        self.lowering = Lowering(builder, sources)
        arrays = [i.shape for i in (*region.instructions, *region.operands) if i.shape.is_array and i.shape.rank]
        widest = max(storage_type(s.element_type).byte_size for s in arrays)
        self.lanes = max(1, region.target.vector_bytes // widest)
        self.sizes, self.results = self.operand.shape.dimensions, self.root.shape.dimensions
        self.area = math.prod(w.size for w in windows)

    def combined(self, total: Element, element: Element) -> Element:
        (result,) = combine_elements(self.lowering, self.root.to_apply, [total], [element])
        return result

    def store(self, index: Sequence[Affine], element: Element) -> None:
        place = linear(tuple(index), self.results)
        store_element(self.builder, self.output, place, element, self.root.shape.element_type)


class _ChannelsLast(_Pooling):
    def __init__(self, region: Region, windows: Sequence[WindowDimension]) -> None:
        super().__init__(region, windows)
        first = next(d for d, w in enumerate(windows) if not _is_trivial(w))
        self.before = self.sizes[:first]
        spatial = range(first, len(windows) - 1)
        self.dimensions = [SpatialDimension(windows[d], self.sizes[d], self.results[d]) for d in spatial]
        self.channels = self.sizes[-1]

    @property
    def is_suitable(self) -> bool:
        if not all(d.has_phases_only for d in self.dimensions) or 2 * self.channels < self.lanes:
            return False
        last = self.dimensions[-1]
        if last.offsets > MAX_UNROLLED:
            return False
        narrowest = last.positions(last.phases - 1)
        shares_columns = last.stride < last.window.dilated_size
        most = TILE_ELEMENTS // last.offsets if shares_columns else 1
        width = balanced_size(narrowest, min(narrowest, max(1, most)))
        self.prefetches = shares_columns and len(self.dimensions) > 1
        self.rows = ConvolutionRows(self.builder, self.lowering, math.prod(self.before), self.dimensions, width)
        self.width = width
        return self.rows.runs <= MAX_RUNS

    def kernel(self) -> Kernel:
        builder, row_elements = self.builder, self.rows.last.output * self.channels
        rows_per_task = balanced_size(self.rows.count, max(1, TASK_ELEMENTS // row_elements))
        with builder.loop(-(-self.rows.count // rows_per_task), AxisKind.PARALLEL) as task:
            first = task * rows_per_task
            for row in self.rows.each_row(first, block_extent(builder, first, self.rows.count, rows_per_task)):
                for tile in self.rows.each_tile(row, Affine()):
                    with builder.loop(self.channels, AxisKind.VECTOR, width=self.lanes) as channel:
                        self.compute(tile, channel)
        return builder.kernel

    def compute(self, tile: Tile[tuple[Segment, ...]], channel: Affine) -> None:
        builder, ranges = self.builder, tile.row.ranges
        initial = flatten_elements([self.lowering.element(self.initial, ())])

        def at_offsets(offsets: tuple[Affine, ...], carried: Sequence[Value]) -> list[Value]:
            if len(offsets) == len(ranges):
                for segment in tile.segments:
                    carried = self.segment(tile, segment, offsets, channel, carried)
                return list(carried)
            found = ranges[len(offsets)]
            return builder.reduce(
                found.count, carried, lambda k, values: at_offsets((*offsets, found.first + k), values)
            )

        before = delinear(builder, tile.row.batch, self.before)
        for number, total in enumerate(at_offsets((), initial * self.width)):
            self.store((*before, *result_position(tile, self.rows.last, number), channel), total)

    def segment(
        self,
        tile: Tile[tuple[Segment, ...]],
        segment: Segment,
        offsets: Sequence[Affine],
        channel: Affine,
        totals: Sequence[Value],
    ) -> list[Value]:
        """Combines the elements at the offsets of a segment along the last dimension of the windows."""
        last, after = self.rows.last, list(totals)
        pairs = zip(tile.row.ranges, offsets, self.rows.outer, strict=True)
        index = [*delinear(self.builder, tile.row.batch, self.before), *(r.start + k * d.step for r, k, d in pairs)]
        known: dict[int, Element] = {}
        for k in range(segment.first, segment.first + segment.count):
            for position in segment.positions:
                column = position * last.stride + k * last.step + last.start(tile.phase)
                if column not in known:
                    at = (*index, tile.start * last.stride + column, channel)
                    known[column] = self.lowering.element(self.operand, at)
                    if self.prefetches:
                        self.prefetch_below(at)
                (after[position],) = flatten_elements([self.combined(after[position], known[column])])
        return after

    def prefetch_below(self, index: tuple[Affine, ...]) -> None:
        """Prefetches the element that the next row of windows reads instead of the one at an index."""
        source = self.lowering.source(self.operand)
        if source is None:
            return
        *before, row, column, channel = index
        below = minimum(self.builder, row + self.rows.outer[-1].stride, self.rows.outer[-1].input - 1)
        self.builder.prefetch(Location(source.buffer, source.offset((*before, below, column, channel))))


class _Rows(_Pooling):
    def kernel(self) -> Kernel:
        builder, w, size = self.builder, self.windows[-1], self.sizes[-1]
        inside = [p for p in range(self.results[-1]) if _fits(w, p, size)]
        begin, end = (inside[0], inside[-1] + 1) if len(inside) >= self.lanes else (0, 0)
        before = self.results[:-1]
        with builder.loop(math.prod(before), AxisKind.PARALLEL) as row:
            index = delinear(builder, row, before)
            self.positions(index, 0, begin)
            if end > begin:
                with builder.loop(end - begin, AxisKind.VECTOR, width=self.lanes) as position:
                    self.compute((*index, position + begin))
            self.positions(index, end, self.results[-1])
        return builder.kernel

    def positions(self, row: Sequence[Affine], begin: int, end: int) -> None:
        """Computes positions at an end of a row, one by one."""
        with self.builder.loop(end - begin) as position:
            self.compute((*row, position + begin))

    def compute(self, index: tuple[Affine, ...]) -> None:
        self.store(index, self.lowering.element(self.root, index))


def _is_trivial(w: WindowDimension) -> bool:
    return w == WindowDimension(size=1)


def _fits(w: WindowDimension, position: int, size: int) -> bool:
    """Whether the window at a position is entirely in the base area."""
    start = position * w.stride - w.padding_low
    return start >= 0 and start + w.dilated_size <= size
