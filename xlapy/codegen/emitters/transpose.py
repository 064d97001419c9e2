"""Emits tiled kernels for regions whose operands are contiguous along another dimension than the result.

With out[i, j] = f(a[j, i], b[i, j]), the elements of `a` that one vector of the result needs are far apart. So a kernel
runs over blocks of the result. The block of `a` is read along its own contiguous dimension and transposed in registers
into scratch memory; the elements of the block are computed from there:

    for block
      transpose a's block into scratch
      for i in the block
        for j in the block, in vectors
          out[i, j] = f(scratch[i, j], b[i, j])

In general, the *rows* of a block run along the last dimension of the result, and its *columns* along the dimension in
which the transposed operands are contiguous. Does not depend on how registers are transposed.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xlapy.analysis.cost.reference_machine import LANE_CYCLES
from xlapy.base.shape import Shape
from xlapy.codegen.access_analysis import (
    PERMUTING_OPCODES,
    SUMMING_OPCODES,
    DimensionGroups,
    coalesced_accesses,
    index_of_positions,
    irregular_accesses,
    transposed_axis,
)
from xlapy.codegen.access_maps import Access
from xlapy.codegen.emitters.loop_nest import limit_range, preferred_lanes
from xlapy.codegen.emitters.streaming import store_past_caches
from xlapy.codegen.iteration_domain import first_array_shape
from xlapy.codegen.kernel_cost import (
    result_size,
    transposition_cycles,
    vector_cycles,
)
from xlapy.codegen.plan import (
    Candidate,
    ImpossibleParameterError,
    Rejection,
    Strategy,
    parameter,
)
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer, result_elements
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I64, Affine, AxisKind, Buffer, Builder, Kernel, Location, Value
from xlapy.loops.builder import MAX_SCRATCH_BYTES
from xlapy.loops.ir import tile_shape
from xlapy.lower import Lowering, Source, components, load_element, storage_type, store_element
from xlapy.lower.core import Element, Index, delinear, linear

MAX_FULL_BLOCKS = 4
"""The number of transposed operands whose blocks may have the largest size; the blocks of more operands are smaller."""

MIN_TILE_COLUMNS = 8
"""The smallest number of elements along which transposed operands are contiguous. Below it, most of each register tile
would be empty."""

MIN_RESULT_ELEMENTS = 1024
"""The smallest number of elements of a result that is transposed in tiles. Below it, compiling takes longer than tiles
save."""


RUN_LINES = 2
"""The cache lines that a block stores at a time of each row of the result. The columns of a block, which it reads, are
the longer for it: f32[4,112,112,96] to f32[4,96,112,112] takes 0.6x the time of square blocks, f32[4096,4096] 0.94x."""


@dataclass(frozen=True, slots=True)
class TransposeParameters:
    """The blocks of a result with transposed operands."""

    columns_dimension: int = parameter(0, 64)
    """The number of the dimension along which the transposed operands are contiguous, after neighboring dimensions that
    are traversed as one are joined."""
    block_columns: int = parameter(1, MAX_SCRATCH_BYTES)
    """The largest number of columns of a block."""
    block_rows: int = parameter(1, MAX_SCRATCH_BYTES)
    """The largest number of rows of a block."""
    flat: bool = False
    """Whether vectors run across rows: the rows are too short for vectors, and a block is contiguous in the result."""


class TransposeStrategy(Strategy[TransposeParameters]):
    """Transposes blocks of operands in registers into scratch memory."""

    name = "transpose"
    required_opcodes = PERMUTING_OPCODES

    def candidate(self, region: Region) -> Candidate | Rejection:
        if not any(i.op in PERMUTING_OPCODES for i in region.instructions):
            return Rejection("it has no transposed operands")
        if any(i.op in SUMMING_OPCODES for i in region.instructions):
            return Rejection("it combines many elements to one")
        size, lanes = result_size(region), preferred_lanes(region)
        if lanes == 1 or not size:
            return Rejection("its loops have no vectors")
        plan = region.derived(_plan)
        if plan is None:
            return Rejection("no operand is contiguous along another dimension than the result")
        if region.derived(_blocks) is None:
            return Rejection(
                f"the blocks of transposed operands take more than {MAX_FULL_BLOCKS} halves of the L1 cache"
            )
        if size < MIN_RESULT_ELEMENTS:
            return Rejection(f"{size} elements are fewer than {MIN_RESULT_ELEMENTS}", is_possible=True)
        if plan.sizes[plan.columns] < MIN_TILE_COLUMNS:
            return Rejection(f"{plan.sizes[plan.columns]} columns are fewer than {MIN_TILE_COLUMNS}", is_possible=True)
        others = max(0, region.derived(irregular_accesses) - len(plan.element_bytes))
        cycles = vector_cycles(region, size, lanes) + LANE_CYCLES * size * others
        return Candidate(cycles + sum(transposition_cycles(each, size) for each in plan.element_bytes))

    def parameters(self, region: Region) -> TransposeParameters:
        blocks = region.derived(_blocks)
        assert blocks is not None
        return blocks

    def check(self, region: Region, parameters: TransposeParameters) -> None:
        plan, lanes = region.derived(_plan), preferred_lanes(region)
        assert plan is not None
        if parameters.columns_dimension != plan.columns:
            raise ImpossibleParameterError(
                "columns_dimension",
                f"it is {parameters.columns_dimension}, but the operands are contiguous along dimension {plan.columns}",
            )
        if parameters.flat and (plan.columns != len(plan.groups) - 2 or plan.sizes[-1] > parameters.block_rows):
            raise ImpossibleParameterError("flat", "a block is not contiguous in the result")
        for name, value in (("block_rows", parameters.block_rows), ("block_columns", parameters.block_columns)):
            limit = plan.sizes[-1] if name == "block_rows" else plan.sizes[plan.columns]
            if value < limit and value % lanes:
                raise ImpossibleParameterError(name, f"it is {value}, but must be a multiple of {lanes}")
        step = max(max(tile_shape(region.target.vector_bytes, size)) for size in plan.element_bytes)
        elements = (parameters.block_rows + step) * (parameters.block_columns + step)
        size = elements * sum(plan.element_bytes)
        if size > MAX_SCRATCH_BYTES:
            raise ImpossibleParameterError("block_rows", f"blocks of {size} bytes exceed {MAX_SCRATCH_BYTES}")

    def emit(self, region: Region, parameters: TransposeParameters) -> list[Kernel]:
        plan = region.derived(_plan)
        assert plan is not None
        shapes = [shape for _, shape in region.root.shape.leaves()]
        return [_TransposeEmitter(region, shapes, plan, preferred_lanes(region), parameters).build()]


# -- the choice of dimensions


@dataclass(frozen=True, slots=True)
class _TransposePlan:
    """Which dimensions form the rows and columns of blocks."""

    groups: DimensionGroups
    """The coalesced dimensions of the result. The last group forms the rows."""
    columns: int
    """The number of the group along which the transposed operands are contiguous."""
    element_bytes: tuple[int, ...]
    """The size in bytes of an element of each transposed operand."""

    @property
    def sizes(self) -> list[int]:
        """The number of elements along each group."""
        return [math.prod(group) for group in self.groups]


def _plan(region: Region) -> _TransposePlan | None:
    """Chooses as columns the dimension along which most of the transposed operands are contiguous."""
    groups, axes, everywhere = coalesced_accesses(region, first_array_shape(region.root.shape).dimensions)
    found: dict[int, list[Access]] = {}
    for read in everywhere:
        columns = transposed_axis(read.offset, axes)
        if columns is not None:
            found.setdefault(columns, []).append(read)
    if not found:
        return None
    columns = max(found, key=lambda group: len(found[group]))
    return _TransposePlan(groups, columns, tuple(read.operand.shape.element_type.byte_size for read in found[columns]))


# -- blocks


def _blocks(region: Region) -> TransposeParameters | None:
    """Blocks of `RUN_LINES`, or more where there are few columns; None if there are too many transposed operands."""
    plan, lanes = region.derived(_plan), preferred_lanes(region)
    assert plan is not None
    columns, rows = plan.sizes[plan.columns], plan.sizes[-1]
    tiles = [tile_shape(region.target.vector_bytes, size) for size in plan.element_bytes]
    flat = rows < lanes and plan.columns == len(plan.groups) - 2 and all(rows <= tile for tile, _ in tiles)
    # The block of an operand stays in the L1 cache together with the block of the result.
    block_bytes = 1 << (region.target.l1_bytes // 2).bit_length() - 1
    elements = min(block_bytes // max(plan.element_bytes), MAX_FULL_BLOCKS * block_bytes // sum(plan.element_bytes))
    step = max(max(tile) for tile in tiles)
    if elements < step * step:
        return None
    side = 1 << (elements.bit_length() - 1) // 2
    run = min(side, RUN_LINES * region.target.cache_line_bytes // max(plan.element_bytes))
    most_rows = min(rows, _round_down(elements // min(columns, elements // run), step))
    most_columns = min(columns, _round_down(elements // most_rows, step))
    return TransposeParameters(plan.columns, most_columns, most_rows, flat)


def _round_down(number: int, step: int) -> int:
    """Returns the largest multiple of `step` up to a number, but never less than `step`."""
    return max(step, number // step * step)


class _TransposeEmitter:
    def __init__(
        self,
        region: Region,
        shapes: Sequence[Shape],
        plan: _TransposePlan,
        lanes: int,
        blocks: TransposeParameters,
    ) -> None:
        self.region, self.shapes, self.plan, self.lanes, self.blocks = region, shapes, plan, lanes, blocks
        self.builder = kernel_builder(region.name, region.target)
        self.sources = {
            operand: operand_source(self.builder, operand, f"in{n}") for n, operand in enumerate(region.operands)
        }
        self.outputs = [result_buffer(self.builder, shape, f"out{n}") for n, shape in enumerate(shapes)]

    def build(self) -> Kernel:
        blocks = self.blocks
        sizes, columns = self.plan.sizes, self.plan.columns
        counts = [*sizes[:columns], *sizes[columns + 1 : -1]]
        counts += [-(-sizes[-1] // blocks.block_rows), -(-sizes[columns] // blocks.block_columns)]
        results = zip(self.outputs, self.shapes, strict=True)
        store_past_caches(self.region.target, results, self.lanes, (self.plan.sizes[-1], blocks.block_rows))
        with self.builder.loop(math.prod(counts), AxisKind.PARALLEL) as task:
            *others, row_block, column_block = delinear(self.builder, task, counts)
            self.block(blocks, others, row_block * blocks.block_rows, column_block * blocks.block_columns)
        return self.builder.kernel

    def block(
        self, blocks: TransposeParameters, others: Sequence[Affine], first_row: Affine, first_column: Affine
    ) -> None:
        """Emits the elements of a block, then inserts before them the transposition of the operands they need."""
        sizes, columns = self.plan.sizes, self.plan.columns
        extents = (
            _extent(self.builder, sizes[-1], blocks.block_rows, first_row),
            _extent(self.builder, sizes[columns], blocks.block_columns, first_column),
        )
        depth = self.builder.block.depth
        with self.block_loops(blocks, extents) as (row, column):
            lowering = _BlockLowering(self.builder, self.sources, blocks, depth, (row, column))
            self.element(lowering, (*others[:columns], first_column + column, *others[columns:], first_row + row))
            if not blocks.flat:
                self.prefetch_next_block(lowering, column)
        with self.builder.before_last_statement():
            lowering.fill(extents)

    def prefetch_next_block(self, lowering: _BlockLowering, column: Affine) -> None:
        """Prefetches one row of the next block of each large operand, while a column of this one is stored.

        Usually, the next block has the same rows, which are far apart, so that the processor does not foresee it.
        """
        builder, target = self.builder, self.region.target
        ((axis, _),) = column.terms
        for tile in lowering.tiles.values():
            buffer, size = tile.source.buffer, tile.source.buffer.type.byte_size
            if buffer.size * size < target.prefetched_bytes:
                continue
            parts = components(tile.source.shape.element_type)
            with builder.hoisted([axis]):
                row = (tile.offset + column * tile.pitch + self.blocks.block_columns) * parts
                for line in range(0, self.blocks.block_columns * parts, max(1, target.cache_line_bytes // size)):
                    offset = builder.clamped(builder.value_of(row + line), buffer.size - 1)
                    builder.prefetch(Location(buffer, offset))

    @contextmanager
    def block_loops(
        self, blocks: TransposeParameters, extents: tuple[int | Value, int | Value]
    ) -> Iterator[tuple[Affine, Affine]]:
        """Opens the loops over a block: vectors run along its rows or, if it is flat, along all of it."""
        rows, columns = extents
        if blocks.flat:
            size = columns * blocks.block_rows if isinstance(columns, int) else self.times(columns, blocks.block_rows)
            with self.builder.loop(size, AxisKind.VECTOR, width=self.lanes) as position:
                limit_range(position, blocks.block_rows * blocks.block_columns)
                yield (
                    self.builder.remainder(position, blocks.block_rows),
                    self.builder.quotient(position, blocks.block_rows),
                )
            return
        with self.builder.loop(columns) as column:
            limit_range(column, blocks.block_columns)
            with self.builder.loop(rows, AxisKind.VECTOR, width=self.lanes) as row:
                limit_range(row, blocks.block_rows)
                yield row, column

    def times(self, value: Value, factor: int) -> Value:
        return self.builder.mul(value, self.builder.constant(I64, factor))

    def element(self, lowering: Lowering, positions: Sequence[Affine]) -> None:
        """Computes and stores the elements at one position in each group of dimensions."""
        index, position = (
            index_of_positions(self.builder, self.plan.groups, positions),
            linear(tuple(positions), self.plan.sizes),
        )
        parts = result_elements(lowering, self.region, index, position)
        for buffer, part, shape in zip(self.outputs, parts, self.shapes, strict=True):
            store_element(self.builder, buffer, position, part, shape.element_type)


def _extent(builder: Builder, size: int, block: int, start: Affine) -> int | Value:
    """How many positions of a block that begins at `start` lie within a dimension."""
    if size % block == 0:
        return block
    return builder.binary("smin", builder.value_of(Affine((), size) - start), builder.constant(I64, block))


@dataclass(frozen=True, slots=True)
class _TransposedBlock:
    """The block of a transposed operand: it begins at `offset`, with its rows `pitch` apart. And its scratch memory."""

    source: Source
    offset: Affine
    pitch: int
    scratch: Buffer
    scratch_pitch: int


class _BlockLowering(Lowering):
    """Computes elements of a block; loads that are contiguous along its columns are redirected to scratch memory."""

    def __init__(
        self,
        builder: Builder,
        sources: Mapping[Instruction, Source],
        blocks: TransposeParameters,
        depth: int,
        position: tuple[Affine, Affine],
    ) -> None:
        super().__init__(builder, sources)
        self.blocks = blocks
        self.depth = depth
        (self.row,), (self.column,) = ([value for value, _ in p.terms] for p in position)
        self.tiles: dict[object, _TransposedBlock] = {}

    def load(self, source: Source, index: Index) -> Element:
        offset = source.offset(index)
        pitch = offset.coefficient(self.row)
        rest = offset.without(self.row).without(self.column)
        if pitch in (0, 1) or offset.coefficient(self.column) != 1 or not self.is_fixed(rest):
            return super().load(source, index)
        key = (source.buffer, rest, pitch)
        tile = self.tiles.get(key)
        if tile is None:
            tile = self.tiles[key] = self.tile(source, rest, pitch)
        scratch_offset = Affine.sum([(Affine.of(self.row), 1), (Affine.of(self.column), tile.scratch_pitch)])
        return load_element(self.builder, tile.scratch, scratch_offset, source.shape.element_type)

    def is_fixed(self, rest: Affine) -> bool:
        """Whether an offset is the same for the whole block, and the load is unconditional."""
        everywhere = self.mask is None and self.builder.innermost_branch is None
        return everywhere and all(value.block.depth <= self.depth for value, _ in rest.terms)

    def tile(self, source: Source, offset: Affine, pitch: int) -> _TransposedBlock:
        t = source.shape.element_type
        rows, columns = tile_shape(self.builder.vector_bytes, t.byte_size)
        scratch_pitch = self.blocks.block_rows if self.blocks.flat else -(-self.blocks.block_rows // rows) * rows
        size = -(-self.blocks.block_columns // columns) * columns * scratch_pitch + rows
        scratch = self.builder.scratch(f"tile{len(self.tiles)}", storage_type(t), size * components(t))
        return _TransposedBlock(source, offset, pitch, scratch, scratch_pitch)

    def fill(self, extents: tuple[int | Value, int | Value]) -> None:
        """Emits the transposition of the blocks that elements of the result need."""
        for tile in self.tiles.values():
            parts = components(tile.source.shape.element_type)
            self.builder.transpose(
                (tile.source.buffer, tile.offset * parts),
                tile.pitch * parts,
                (tile.scratch, Affine()),
                tile.scratch_pitch * parts,
                extents,
                parts,
            )
