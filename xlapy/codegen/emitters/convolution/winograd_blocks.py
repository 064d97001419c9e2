"""Chooses the tiles and blocks of a convolution by Winograd's algorithm, and estimates its time.

No size affects the order of additions, so that the blocks may depend on the caches and the number of processors. The
estimate, which decides between strategies with different orders, does not. Does not depend on how loops are emitted.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy.analysis.cost.reference_machine import L2_BYTES, L3_BYTES, OPERATION_CYCLES
from xlapy.base.element_types import F32
from xlapy.codegen.emitters.convolution.geometry import ConvolutionGeometry
from xlapy.codegen.target import Target
from xlapy.loops import Affine, Builder, Value
from xlapy.loops.builder import MAX_SCRATCH_BYTES
from xlapy.loops.reduction_order import balanced_size
from xlapy.opcodes.attributes.dimensions import Precision

TILE = 2
"""The results of a tile in each dimension."""

PRODUCTS = (TILE + 2) ** 2
"""The products of a tile for each input and output feature."""

_TRANSFORM_CYCLES = 45
"""The cycles to transform a vector of the input of a tile, or of its sums (`benchmarks.convolutions`, "resnet 3x3 64
@56")."""

_FILTER_CYCLES = 180
"""The cycles to transform a vector of the filter ("resnet 3x3 256 @14", one image and eight)."""

_LARGE_FILTER_CYCLES = 400
"""The same for a filter that does not stay in the L3 cache ("resnet 3x3 512 @7", 512 features at 14 positions)."""

_KERNEL_CYCLES = 30_000
"""The cycles that the kernel for the filter takes besides, while all threads wait for its end (64 features at 14 to 28
positions)."""

_STREAM_CYCLES = 2.5
"""The cycles to load a vector of the transformed filter from the L3 cache, for each block of tiles."""

_CACHED_FILTER_BYTES = L3_BYTES * 3 // 8
"""The largest transformed filter that stays in the L3 cache of the reference machine."""

_REFERENCE_BLOCK_BYTES = L2_BYTES // 2
"""The size of a block's transformed input and sums on the reference machine."""

_IDLE_TASKS = 0.5
"""The part of a task for which a thread waits for others, on average, because they began later or were interrupted."""

_MAX_TILE_VECTORS = 2
"""The largest number of vectors of features in a register tile. Four take 5% to 8% longer than two
(`benchmarks.convolutions`, "resnet 3x3"). The exception is three vectors in all, which are one panel: a second panel
would be half empty (40 and 48 features at 30 x 30 and 56 x 56 positions: 0.80 to 0.84 of the time)."""

MIN_INPUTS = 32
"""The smallest number of input features. The largest errors of sums over sparse inputs reach the tolerance of sums of
products (`testing.comparison`) with 16 features, and a quarter of it with 32."""

MAX_FILTER_BYTES = 1 << 25
"""The largest transformed filter, which is a temporary. That of 512 features has half of it: with one image of 28 x 28
positions, a call takes 20 MB beside its operands, one of XLA:CPU 15 to 30 MB."""

MAX_SHARE = 0.85
"""The largest share of the time of a direct convolution that the estimate may be."""


def transformed_filter_bytes(geometry: ConvolutionGeometry) -> int:
    """The size of the transformed filter without the padding of its panels."""
    return PRODUCTS * geometry.inputs * geometry.outputs * F32.byte_size


def reason_against(geometry: ConvolutionGeometry, lanes: int) -> str:
    """Why a convolution cannot be computed by Winograd's algorithm; "" if it can.

    The results differ from those of a direct sum by rounding errors of the transforms, so that the operands must have
    the default precision.
    """
    g = geometry
    types = {s.element_type for s in (g.root.shape, g.input.shape, g.filter.shape)}
    if types != {F32}:
        return "it is not f32 throughout"
    if any(precision is not Precision.DEFAULT for precision in g.attrs.operand_precision):
        return "an operand has a higher precision than the default"
    if g.groups > 1:
        return "it has several groups"
    windows = [(d.window.size, d.window.stride, d.window.window_dilation, d.phases) for d in g.dimensions]
    if windows != [(3, 1, 1, 1)] * 2:
        return "its window is not 3 x 3 with stride 1 and without dilation"
    n, last = g.numbers, g.root.shape.rank - 1
    if not n.input_feature_dimension == n.output_feature_dimension == last:
        return "its features are not the last dimension of the input and of the result"
    if scratch_bytes(1, g.inputs, lanes, lanes) > MAX_SCRATCH_BYTES:
        return f"a tile of {g.inputs} input features exceeds the scratch memory"
    return ""


@dataclass(frozen=True, slots=True)
class WinogradBlocks:
    """The sizes of tiles, blocks and tasks, and the places of elements in temporary memory.

    A group is `tile_rows` tiles of 2 x 2 results, whose sums for a panel of `tile_vectors` vectors of features are
    added up in registers. A task has `block_tiles` tiles and `panels_per_task` panels.
    """

    batch: int
    grid: tuple[int, int]
    """The number of tiles of an image in each dimension."""
    inputs: int
    outputs: int
    lanes: int
    tile_rows: int
    tile_vectors: int
    block_tiles: int
    panels_per_task: int

    @property
    def tiles(self) -> int:
        return self.batch * self.grid[0] * self.grid[1]

    @property
    def features(self) -> int:
        """The features of a panel."""
        return self.tile_vectors * self.lanes

    @property
    def panels(self) -> int:
        return -(-self.outputs // self.features)

    @property
    def tile_blocks(self) -> int:
        return -(-self.tiles // self.block_tiles)

    @property
    def panel_parts(self) -> int:
        return -(-self.panels // self.panels_per_task)

    @property
    def tasks(self) -> int:
        return self.tile_blocks * self.panel_parts

    def groups(self, builder: Builder, tiles: int | Value) -> int | Value:
        """The number of groups that `tiles` tiles make."""
        if isinstance(tiles, int):
            return -(-tiles // self.tile_rows)
        return builder.value_of(builder.quotient(Affine.of(tiles) + (self.tile_rows - 1), self.tile_rows))

    # -- temporary memory. The distance between products is not a multiple of a large power of two, so that equal
    # elements of several products stay in the L1 cache together.

    @property
    def rows(self) -> int:
        """The number of tiles of a block, rounded up to whole groups."""
        return -(-self.block_tiles // self.tile_rows) * self.tile_rows

    @property
    def filter_pitch(self) -> int:
        return self.inputs * self.features + self.lanes

    @property
    def input_pitch(self) -> int:
        return self.rows * self.inputs + self.lanes

    @property
    def sum_pitch(self) -> int:
        return self.rows * self.features + self.lanes

    @property
    def filter_size(self) -> int:
        return self.panels * PRODUCTS * self.filter_pitch

    @property
    def scratch_bytes(self) -> int:
        return scratch_bytes(self.rows, self.inputs, self.features, self.lanes)

    def filter_offset(self, panel: Affine, product: Affine, input: Affine) -> Affine:
        """Where the first feature of a panel lies in the transformed filter."""
        return (panel * PRODUCTS + product) * self.filter_pitch + input * self.features

    def input_offset(self, product: Affine | int, tile: Affine, input: Affine) -> Affine:
        """Where an element of the transformed input lies."""
        return tile * self.inputs + input + product * self.input_pitch

    def sum_offset(self, product: Affine | int, tile: Affine, column: Affine) -> Affine:
        """Where a sum for a feature of a panel lies."""
        return tile * self.features + column + product * self.sum_pitch


def scratch_bytes(rows: int, inputs: int, features: int, lanes: int) -> int:
    """The scratch memory of a task in bytes."""
    products = PRODUCTS * (rows * (inputs + features) + 2 * lanes)
    return F32.byte_size * (products + TILE * TILE * features)


def tiles_across(geometry: ConvolutionGeometry) -> tuple[int, int]:
    """The number of tiles of an image in each of two dimensions."""
    down, across = (-(-d.output // TILE) for d in geometry.dimensions)
    return down, across


def preferred_blocks(target: Target, geometry: ConvolutionGeometry) -> WinogradBlocks:
    """The blocks with the least estimated time on a machine."""
    grid, inputs, outputs = tiles_across(geometry), geometry.inputs, geometry.outputs
    tiles = geometry.batch * grid[0] * grid[1]
    lanes = target.lanes(F32.byte_size)
    vectors = _panel_vectors(-(-outputs // lanes))
    # registers hold the sums, the vectors of the filter for an input feature, and an element of the input
    most_rows = max(1, (target.vector_registers - 1 - vectors) // vectors)
    room = min(target.l2_bytes // 2, MAX_SCRATCH_BYTES)
    most_rows = min(most_rows, max(1, _tiles_in(room, inputs, vectors * lanes)))
    rows = balanced_size(tiles, most_rows)
    groups = max(1, min(-(-tiles // rows), _tiles_in(room, inputs, vectors * lanes) // rows))

    def blocks(groups: int, panels: int) -> WinogradBlocks:
        return WinogradBlocks(
            geometry.batch, grid, inputs, outputs, lanes, rows, vectors, min(tiles, groups * rows), panels
        )

    panels = -(-outputs // (vectors * lanes))
    choices = {(count, balanced_size(panels, most)) for count in range(1, groups + 1) for most in range(1, panels + 1)}
    found = [blocks(*choice) for choice in sorted(choices, reverse=True)]
    return min(found, key=lambda b: (-(-b.tasks // target.processors) + _IDLE_TASKS) * _task_cycles(b))


def _panel_vectors(vectors: int) -> int:
    """The vectors of a panel, if there are so many vectors of output features."""
    return vectors if vectors == _MAX_TILE_VECTORS + 1 else min(_MAX_TILE_VECTORS, vectors)


def _tiles_in(room: int, inputs: int, features: int) -> int:
    """The number of tiles whose transformed input and sums for a panel of `features` features fit in `room` bytes."""
    return room // (PRODUCTS * F32.byte_size * (inputs + features))


def _task_cycles(blocks: WinogradBlocks) -> float:
    """The estimated cycles of a task."""
    b, panels = blocks, blocks.panels_per_task
    products = PRODUCTS * b.rows * panels * b.tile_vectors * b.inputs * OPERATION_CYCLES
    vectors = b.block_tiles * (b.inputs / b.lanes + panels * b.tile_vectors)
    return products + _TRANSFORM_CYCLES * vectors + _STREAM_CYCLES * PRODUCTS * panels * b.tile_vectors * b.inputs


def estimated_cycles(geometry: ConvolutionGeometry, lanes: int) -> float:
    """The estimated cycles of one core of the reference machine, with vectors of `lanes` lanes."""
    down, across = tiles_across(geometry)
    tiles, inputs, outputs = geometry.batch * down * across, geometry.inputs, -(-geometry.outputs // lanes)
    filter = inputs * outputs
    block = max(1, _tiles_in(_REFERENCE_BLOCK_BYTES, inputs, _MAX_TILE_VECTORS * lanes))
    streams = -(-tiles // block) * PRODUCTS * filter
    transformed = tiles * (-(-inputs // lanes) + outputs)
    stays = PRODUCTS * filter * lanes * F32.byte_size <= _CACHED_FILTER_BYTES
    of_filter = (_FILTER_CYCLES if stays else _LARGE_FILTER_CYCLES) * filter
    products = PRODUCTS * tiles * filter * OPERATION_CYCLES
    return products + _TRANSFORM_CYCLES * transformed + of_filter + _STREAM_CYCLES * streams + _KERNEL_CYCLES
