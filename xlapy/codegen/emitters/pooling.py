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

Maxima and minima do not depend on the order or on repetitions. They are combined in two steps: the elements of each
column, then the columns of each window. A window of 3 x 3 with stride 1 takes 2 + 2 operations instead of 8. Rows of
padding are replaced by the nearest row of the area, which is in the same windows. In the second layout, the columns of
a row of windows are in scratch memory, where columns of padding hold the initial value.

Elementwise operations on the result are an epilogue: they are applied before elements are stored.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from itertools import product

from xlapy import opcodes
from xlapy.codegen.emitters.convolution.geometry import SpatialDimension
from xlapy.codegen.emitters.convolution.row_tiles import Segment
from xlapy.codegen.emitters.convolution.rows import MAX_RUNS, ConvolutionRows, Tile, result_position
from xlapy.codegen.emitters.loop_nest import block_extent, preferred_lanes
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.epilogue import Epilogue, epilogue_paths
from xlapy.codegen.kernel_cost import vector_cycles
from xlapy.codegen.plan import Candidate, NoParameters, Rejection, Strategy
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import IDEMPOTENT_OPS, identity_of, monoid
from xlapy.loops import Affine, AxisKind, Builder, Kernel, Location, Value
from xlapy.loops.reduction_order import balanced_size
from xlapy.lower import Lowering, components, storage_type
from xlapy.lower.core import Element, Index, delinear, flatten_elements
from xlapy.lower.cumulative import cumulative
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
        emitter = region.derived(_emitter)
        if emitter is None:
            return Rejection(
                f"it is not a reduce-window of one real array over 2 to {MAX_WINDOW} elements, with channels or dense"
                " rows last, and elementwise operations on it"
            )
        size = emitter.root.shape.size
        if size < MIN_ELEMENTS:
            return Rejection(f"{size} elements are fewer than {MIN_ELEMENTS}", is_possible=True)
        return Candidate(vector_cycles(region, size * emitter.area, preferred_lanes(region)))

    def parameters(self, region: Region) -> NoParameters:
        return NoParameters()

    def emit(self, region: Region, parameters: NoParameters) -> list[Kernel]:
        emitter = region.derived(_emitter)
        assert emitter is not None
        return [emitter.kernel()]


def is_pooling(instruction: Instruction) -> bool:
    """Whether an instruction is a reduce-window of one real array over small windows, whose elements do not accumulate.

    Its kernel may apply elementwise operations to each element before it stores the result.
    """
    if instruction.op is not opcodes.REDUCE_WINDOW or not instruction.shape.is_array:
        return False
    t, windows = instruction.shape.element_type, instruction.attributes_as(WindowAttributes).window
    if components(t) > 1 or register_type(t).bits == 1 or not instruction.operands[0].shape.size:
        return False
    return 1 < math.prod(windows.sizes) <= MAX_WINDOW and cumulative(instruction) is None


def _emitter(region: Region) -> _ChannelsLast | _Rows | None:
    """The emitter of a reduce-window over small windows with elementwise operations on it; None for others."""
    pooling = _pooling(region)
    if pooling is None:
        return None
    windows = pooling.attributes_as(WindowAttributes).window.dimensions
    if _is_trivial(windows[-1]):
        channels_last = _ChannelsLast(region, pooling, windows)
        return channels_last if channels_last.is_suitable else None
    return _Rows(region, pooling, windows) if all(w.base_dilation == 1 for w in windows) else None


def _pooling(region: Region) -> Instruction | None:
    """The only reduce-window of a region, if each result takes its elements one by one, in their order; else None."""
    found = [i for i in region.instructions if is_pooling(i)]
    if len(found) != 1 or any(components(result.shape.element_type) > 1 for result in region.results):
        return None
    paths = epilogue_paths(found[0], region.instructions)
    return found[0] if paths is not None and all(paths.get(r) == () for r in region.results) else None


class _Pooling:
    """What both layouts share: the kernel under construction and the combination of elements."""

    def __init__(self, region: Region, root: Instruction, windows: Sequence[WindowDimension]) -> None:
        self.root, self.windows, self.target = root, windows, region.target
        self.operand, self.initial = self.root.operands
        self.builder = builder = kernel_builder(region.name, region.target)
        sources = {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(region.operands)}
        outputs = [result_buffer(builder, r.shape, f"out{n}") for n, r in enumerate(region.results)]
        self.lowering = Lowering(builder, sources)
        self.epilogue = Epilogue(region, root, builder, sources, outputs)
        arrays = [i.shape for i in (*region.instructions, *region.operands) if i.shape.is_array and i.shape.rank]
        widest = max(storage_type(s.element_type).byte_size for s in arrays)
        self.lanes = max(1, region.target.vector_bytes // widest)
        self.sizes, self.results = self.operand.shape.dimensions, self.root.shape.dimensions
        self.area = math.prod(w.size for w in windows)
        extents = zip(windows[:-1], self.sizes, self.results, strict=False)
        self.is_separable = monoid(self.root.to_apply) in IDEMPOTENT_OPS and all(
            _always_meets_area(w, size, positions) for w, size, positions in extents
        )
        """Whether windows may be combined column by column, with elements of the area in place of padding."""

    def combined(self, total: Element, element: Element) -> Element:
        (result,) = combine_elements(self.lowering, self.root.to_apply, [total], [element])
        return result

    def combined_with_initial(self, element: Element) -> Element:
        """The combination of the initial value and an element, for a monoid."""
        initial = self.lowering.element(self.initial, ())
        identity = self.builder.constant(register_type(self.root.shape.element_type), identity_of(self.root.to_apply))
        return element if initial is identity else self.combined(initial, element)


class _ChannelsLast(_Pooling):
    def __init__(self, region: Region, root: Instruction, windows: Sequence[WindowDimension]) -> None:
        super().__init__(region, root, windows)
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
        totals = self.separate_extrema(tile, channel) if self.is_separable else self.totals(tile, channel)
        before = delinear(self.builder, tile.row.batch, self.before)
        for number, total in enumerate(totals):
            self.epilogue.store((*before, *result_position(tile, self.rows.last, number), channel), total, None)

    def separate_extrema(self, tile: Tile[tuple[Segment, ...]], channel: Affine) -> list[Element]:
        """The results of a tile: first each column is combined, then the columns of each window."""
        last = self.rows.last
        ranges = zip(tile.row.ranges, self.rows.outer, strict=True)
        rows = [[nearest(self.builder, r.start + k, d.input) for k in range(d.window.size)] for r, d in ranges]
        columns = self.columns_of(tile)
        combined: dict[int, Element] = {}
        for number, row in enumerate(product(*rows)):
            before = (*delinear(self.builder, tile.row.batch, self.before), *row)
            # the row below another one is in these windows, too
            prefetches = self.prefetches and number % len(rows[-1]) + self.rows.outer[-1].stride >= len(rows[-1])
            for column in sorted({column for found in columns for column in found}):
                index = (*before, tile.start * last.stride + column, channel)
                element = self.lowering.element(self.operand, index)
                combined[column] = self.combined(combined[column], element) if column in combined else element
                if prefetches:
                    self.prefetch_below(index)
        initial = self.lowering.element(self.initial, ())
        return [
            self.combined_with_initial(reduce(self.combined, [combined[c] for c in found])) if found else initial
            for found in columns
        ]

    def columns_of(self, tile: Tile[tuple[Segment, ...]]) -> list[list[int]]:
        """The columns that the window at each position of a tile meets, counted from the tile's start."""
        last, columns = self.rows.last, [list[int]() for _ in range(self.width)]
        for segment in tile.segments:
            for k, position in product(range(segment.first, segment.first + segment.count), segment.positions):
                columns[position].append(position * last.stride + k * last.step + last.start(tile.phase))
        return columns

    def totals(self, tile: Tile[tuple[Segment, ...]], channel: Affine) -> list[Value]:
        """The results of a tile, whose elements are combined in the order of the windows."""
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

        return at_offsets((), initial * self.width)

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

    def prefetch_below(self, index: Index) -> None:
        """Prefetches the element that the next row of windows reads instead of the one at an index."""
        source = self.lowering.source(self.operand)
        if source is None:
            return
        *before, row, column, channel = index
        below = nearest(self.builder, row + self.rows.outer[-1].stride, self.rows.outer[-1].input)
        self.builder.prefetch(Location(source.buffer, source.offset((*before, below, column, channel))))


class _Rows(_Pooling):
    def kernel(self) -> Kernel:
        w, size = self.windows[-1], self.sizes[-1]
        extent = (self.results[-1] - 1) * w.stride + w.dilated_size
        scratch_bytes = extent * register_type(self.root.shape.element_type).byte_size
        shares_columns = 1 < w.size < self.area and w.stride <= w.dilated_size
        # the row is to stay in the cache beside what is loaded
        if self.is_separable and shares_columns and scratch_bytes <= self.target.l1_bytes // 2:
            return self.separate_extrema(extent)
        builder = self.builder
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

    def separate_extrema(self, extent: int) -> Kernel:
        """The kernel that combines the columns of a row of windows in scratch memory, then the columns of each window.

        extent: the number of columns, with those of the padding, which hold the initial value.
        """
        builder, rows = self.builder, math.prod(self.results[:-1])
        rows_per_task = balanced_size(rows, max(1, TASK_ELEMENTS // self.results[-1]))
        columns = ScratchArray(builder, "columns", self.root.shape.element_type, extent)
        with builder.loop(-(-rows // rows_per_task), AxisKind.PARALLEL) as task:
            begin = min(max(0, self.windows[-1].padding_low), extent)
            end = max(begin, min(extent, self.windows[-1].padding_low + self.sizes[-1]))
            self.fill_with_initial(columns, 0, begin)
            self.fill_with_initial(columns, end, extent)
            first = task * rows_per_task
            with builder.loop(block_extent(builder, first, rows, rows_per_task)) as number:
                row = delinear(builder, first + number, self.results[:-1])
                self.combine_columns(columns, row, begin, end)
                with builder.loop(self.results[-1], AxisKind.VECTOR, width=self.lanes) as position:
                    self.combine_positions(columns, row, position)
        return builder.kernel

    def fill_with_initial(self, columns: ScratchArray, begin: int, end: int) -> None:
        with self.builder.loop(end - begin) as column:
            columns.store(column + begin, self.lowering.element(self.initial, ()))

    def combine_columns(self, columns: ScratchArray, row: Index, begin: int, end: int) -> None:
        """Combines the elements of each column that a row of windows meets."""
        outer = zip(row, self.windows[:-1], self.sizes[:-1], strict=True)
        rows = [
            [nearest(self.builder, position * w.stride + (k - w.padding_low), size) for k in range(w.size)]
            for position, w, size in outer
        ]
        with self.builder.loop(end - begin, AxisKind.VECTOR, width=self.lanes) as column:
            at = column + (begin - self.windows[-1].padding_low)
            elements = [self.lowering.element(self.operand, (*index, at)) for index in product(*rows)]
            columns.store(column + begin, reduce(self.combined, elements))

    def combine_positions(self, columns: ScratchArray, row: Index, position: Affine) -> None:
        """Combines the columns of the window at a position, and stores the result."""
        w = self.windows[-1]
        found = [columns.load(position * w.stride + k * w.window_dilation) for k in range(w.size)]
        self.epilogue.store((*row, position), self.combined_with_initial(reduce(self.combined, found)), None)

    def positions(self, row: Sequence[Affine], begin: int, end: int) -> None:
        """Computes positions at an end of a row, one by one."""
        with self.builder.loop(end - begin) as position:
            self.compute((*row, position + begin))

    def compute(self, index: tuple[Affine, ...]) -> None:
        self.epilogue.store(index, self.lowering.element(self.root, index), None)


def nearest(builder: Builder, position: Affine, size: int) -> Affine:
    """The position below `size` that is nearest to a position, which may be outside."""
    bounds = position.bounds()
    if bounds is not None and bounds[0] >= 0 and bounds[1] < size:
        return position
    return builder.clamped(builder.value_of(position), size - 1)


def _always_meets_area(w: WindowDimension, size: int, positions: int) -> bool:
    """Whether each window consists, along a dimension, of elements of the area and padding next to them."""
    if w.window_dilation > 1 or w.base_dilation > 1:
        return False
    return w.padding_low < w.size and (positions - 1) * w.stride - w.padding_low < size


def _is_trivial(w: WindowDimension) -> bool:
    return w == WindowDimension(size=1)


def _fits(w: WindowDimension, position: int, size: int) -> bool:
    """Whether the window at a position is entirely in the base area."""
    start = position * w.stride - w.padding_low
    return start >= 0 and start + w.dilated_size <= size
