"""The sizes of tiles, blocks and tasks of a direct convolution (`direct`), and the scratch memory of its kernel."""

from __future__ import annotations

import math

from xlapy.base.shape import Shape
from xlapy.codegen.emitters.convolution.factors import ConvolutionFactors
from xlapy.codegen.emitters.convolution.filter_prefetch import FilterPrefetch
from xlapy.codegen.emitters.convolution.geometry import ConvolutionGeometry
from xlapy.codegen.emitters.convolution.input_prefetch import InputPrefetch
from xlapy.codegen.emitters.convolution.register_tiles import TileShape
from xlapy.codegen.emitters.convolution.rows import ConvolutionRows
from xlapy.codegen.emitters.convolution.transposed_filter import packed_room, transposed_filter
from xlapy.codegen.emitters.matmul.left_offset import PackedCorrections
from xlapy.codegen.emitters.matmul.micro_kernel import Tile as MicroTile
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.epilogue import MAX_UNROLLED_EPILOGUE_COST, Epilogue
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.codegen.target import Target
from xlapy.loops.reduction_order import balanced_size
from xlapy.lower import Lowering
from xlapy.lower.element_types import register_type

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
    """A kernel under construction: its buffers, the sizes of its blocks and tasks, and its scratch memory."""

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
        self.factors = ConvolutionFactors(region.target, geometry, self.lowering)
        self.type = self.factors.type
        *self.outer, self.last = geometry.dimensions
        self.window = [d.window.size for d in geometry.dimensions]
        self.panels = -(-geometry.outputs // tile.features)
        self.processors = region.target.processors
        self._choose_blocks()
        self._choose_prefetches(region.target)
        self._add_scratch_memory()

    def _choose_blocks(self) -> None:
        """Chooses the input features of a packed panel, and the rows and panels of a task."""
        geometry, tile, element_bytes = self.geometry, self.tile, register_type(self.type).byte_size
        bytes_per_input = math.prod(self.window) * tile.features * element_bytes
        self.input_block = balanced_size(self.factors.inputs, max(1, PANEL_BYTES // bytes_per_input))
        self.input_blocks = -(-self.factors.inputs // self.input_block)
        self.chunks = chunks_of_row(geometry)
        self.rows = ConvolutionRows(
            self.builder, self.lowering, geometry.batch, geometry.dimensions, tile.positions, self.chunks
        )
        self.sums_of_row = self.rows.joined_tiles_per_chunk * tile.positions * tile.features
        rows = POSITIONS_PER_TASK * self.chunks // self.last.output
        is_long = self.epilogue.cost * tile.positions * tile.vectors > MAX_UNROLLED_EPILOGUE_COST
        self.keeps_sums = self.input_blocks > 1 or is_long
        """Whether the sums of a panel wait in scratch memory: for other input features, or a loop over the epilogue."""
        if self.keeps_sums:
            rows = min(rows, SUMS_BYTES // (self.sums_of_row * element_bytes))
        self.rows_per_task = balanced_size(self.rows.count, max(1, rows))
        self.row_blocks = -(-self.rows.count // self.rows_per_task)
        tasks = self.row_blocks * self.chunks * geometry.groups * self.panels
        self.panels_per_task = balanced_size(self.panels, max(1, tasks // (TASKS_PER_PROCESSOR * self.processors)))

    def _choose_prefetches(self, target: Target) -> None:
        factors, tile = self.factors, self.tile
        self.transposed = transposed_filter(factors, tile.features)
        """The filter, if it is packed by transposition."""
        prefetch = FilterPrefetch(target, factors, self.transposed, tile.features, self.input_block)
        is_packed_once = self.row_blocks == self.chunks == self.geometry.groups == 1
        self.prefetch: FilterPrefetch | None = None
        """Prefetches the blocks of the filter, if each is packed once; then a task has one panel."""
        if is_packed_once and prefetch.is_worthwhile:
            self.prefetch, self.panels_per_task = prefetch, 1
        input_prefetch = InputPrefetch(target, factors, tile.positions)
        self.input_prefetch = input_prefetch if self.input_blocks == 1 and input_prefetch.is_worthwhile else None
        """Prefetches the input behind a tile, if it is worthwhile."""

    def _add_scratch_memory(self) -> None:
        builder, factors, tile, offsets = self.builder, self.factors, self.tile, math.prod(self.window)
        size = offsets * self.input_block * tile.features
        if self.transposed is not None:
            window, room = self.transposed.window, packed_room(factors, tile.features)
            size += room
            transposed_size = TRANSPOSED_INPUTS * window * tile.features + room
            self.transposed_terms = ScratchArray(builder, "terms", factors.factor_type, transposed_size)
        self.panel = ScratchArray(builder, "panel", factors.factor_type, size)
        micro_tile = MicroTile(tile.positions, tile.vectors, tile.lanes)
        self.corrections = PackedCorrections(factors, micro_tile, offsets)
        """What to add to sums for each offset in the window, if the factors from the input contain a constant."""
        self.sums: ScratchArray | None = None
        """The sums of a panel, if `keeps_sums`."""
        if self.keeps_sums:
            self.sums = ScratchArray(builder, "sums", self.type, self.rows_per_task * self.sums_of_row)

    def _is_nontemporal(self, shape: Shape, target: Target) -> bool:
        """Whether a result is too large for the caches, and every vector stored to it is a whole cache line."""
        size, features = shape.element_type.byte_size, self.geometry.outputs
        is_line = size * self.tile.lanes == target.vector_bytes == target.cache_line_bytes
        is_whole = features % self.tile.features == 0 and shape.dimensions[-1] % self.tile.lanes == 0
        return is_line and is_whole and shape.size * size >= target.streamed_bytes

    @property
    def is_one_run(self) -> bool:
        """Whether the input of neighboring offsets along the last dimension is contiguous through all features."""
        g = self.geometry
        n, rank = g.numbers, g.input.shape.rank
        is_last = n.input_feature_dimension == rank - 1 and n.input_spatial_dimensions[-1] == rank - 2
        plain = self.last.phases == self.last.step == 1
        return is_last and plain and self.input_blocks == 1 and g.attrs.feature_group_count == 1
