"""Skinny inner products: few rows times an operand too large for the cache that is contiguous along the terms.

    for each block of columns, a task
      for each few columns (a tile)
        for each block of KC terms
          for each few rows: add the products of vectors of terms to a vector of sums for each row and column
      for each row: transpose the vectors of sums, add their lanes in vectors of columns, and store the row

The columns of a tile are contiguous runs of memory, which are read once from there; KC terms of them stay in the
level-1 cache while they meet all rows. Nothing is packed, and no sum is added across lanes in the loops over terms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.left_offset import subtracted
from xlapy.codegen.emitters.matmul.micro_kernel import (
    Tile,
    add_elements,
    clamped_position,
    emit_micro_kernel,
)
from xlapy.codegen.emitters.matmul.problem import MatmulProblem
from xlapy.codegen.emitters.matmul.skinny_sizes import MAX_SKINNY_TILE_SUMS, tile_sums
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.plan import ImpossibleParameterError, parameter
from xlapy.loops import Affine, AxisKind, Kernel, Value
from xlapy.loops.builder import MAX_SCRATCH_BYTES
from xlapy.loops.ir import tile_shape
from xlapy.loops.reduction_order import CONTRACTION_BLOCK_TERMS, balanced_size
from xlapy.lower import Element
from xlapy.lower.contraction import zero_element
from xlapy.lower.core import Index, delinear
from xlapy.lower.element_types import register_type

MAX_BLOCK_VECTORS = 64
"""The largest number of vectors of terms of a block (KC / lanes). Blocks decide the order of additions, so they do not
depend on caches: 64 vectors of the 6 columns of a tile take 24 KB with vectors of 64 bytes."""

MAX_CACHED_ROWS = 8
"""The largest number of rows of a tile. A tile of eight rows and three columns is 1.2 times as fast as one of four rows
and six columns if the left operand stays in the level-1 cache, otherwise 0.8 times (benchmarks/products.py, 8 x 1024 x
1024 and 8 x 4096 x 4096 with transposed weights)."""

MAX_ROWS = 4
"""The largest number of rows of a tile if the left operand comes from the level-2 cache: the columns of a tile stay in
the level-1 cache, and more of them share each vector of the left operand."""

MAX_PREFETCHING_ROW_TILES = 4
"""The largest number of tiles of rows if the columns of the next tile are prefetched, which each tile of rows repeats.
8 x 4096 times the transpose of 4096 x 4096 takes 0.78 of the time with prefetches, 16 x 4096 0.91 of it
(benchmarks/products.py)."""


@dataclass(frozen=True, slots=True)
class SkinnyInnerProductParameters:
    """The tiles and blocks of skinny inner products."""

    tile_rows: int = parameter(1, 16)
    """The rows of a tile."""
    tile_columns: int = parameter(1, 16)
    """The columns of a tile."""
    block_columns: int = parameter(1, 1 << 16)
    """The columns of one task."""
    block_vectors: int = parameter(1, CONTRACTION_BLOCK_TERMS)
    """The vectors of terms of a block (KC / lanes)."""
    prefetches: bool = False
    """Whether the columns of the next tile are prefetched while those of a tile are multiplied."""


def skinny_inner_product_parameters(problem: MatmulProblem) -> SkinnyInnerProductParameters:
    """The preferred tiles and blocks of a problem."""
    target = problem.region.target
    sums = tile_sums(target)
    left_bytes = problem.rows * problem.terms * register_type(problem.factor_type).byte_size
    is_cached = problem.rows <= MAX_CACHED_ROWS and left_bytes <= target.l1_bytes
    rows = balanced_size(problem.rows, min(MAX_CACHED_ROWS if is_cached else MAX_ROWS, sums))
    columns = max(1, min(problem.columns, sums // rows))
    vectors = balanced_size(max(1, problem.terms // problem.lanes), MAX_BLOCK_VECTORS)
    group, _ = tile_shape(target.vector_bytes, register_type(problem.type).byte_size)
    width = min(math.lcm(columns, group), -(-problem.columns // columns) * columns)
    prefetches = problem.right_bytes > target.l2_bytes and problem.rows <= MAX_PREFETCHING_ROW_TILES * rows
    return SkinnyInnerProductParameters(rows, columns, width, vectors, prefetches)


def check_skinny_inner_products(problem: MatmulProblem, parameters: SkinnyInnerProductParameters) -> None:
    """Raises `ImpossibleParameterError` for tiles and blocks that the kernel cannot have."""
    sums = parameters.tile_rows * parameters.tile_columns
    if sums > MAX_SKINNY_TILE_SUMS:
        raise ImpossibleParameterError("tile_rows", f"a tile of {sums} vectors is larger than {MAX_SKINNY_TILE_SUMS}")
    if parameters.block_columns % parameters.tile_columns:
        raise ImpossibleParameterError(
            "block_columns", f"it is {parameters.block_columns}, but must be a multiple of {parameters.tile_columns}"
        )
    size = _Sizes(problem, parameters).scratch_bytes
    if size > MAX_SCRATCH_BYTES:
        raise ImpossibleParameterError("block_columns", f"sums of {size} bytes exceed {MAX_SCRATCH_BYTES}")


def skinny_inner_product_kernel(problem: MatmulProblem, parameters: SkinnyInnerProductParameters) -> Kernel:
    """Returns the kernel. Both operands must be contiguous along one loop over terms, and the sums real numbers of 4 or
    8 bytes."""
    return _SkinnyInnerProducts(problem, parameters).kernel()


class _Sizes:
    """The sizes of the scratch memory, in vectors."""

    def __init__(self, problem: MatmulProblem, parameters: SkinnyInnerProductParameters) -> None:
        target, size = problem.region.target, register_type(problem.type).byte_size
        group, self.lanes = tile_shape(target.vector_bytes, size)
        self.row_tiles = -(-problem.rows // parameters.tile_rows)
        self.rows = self.row_tiles * parameters.tile_rows
        self.sum_rows = self.rows + (problem.left_offset() is not None)
        """The rows of sums: the last one belongs to the offset of the left operand, if there is one."""
        self.width = -(-parameters.block_columns // group) * group
        """The columns of the sums of a task, which are transposed in groups."""
        self.scratch_bytes = (self.sum_rows + 2) * self.width * self.lanes * size


class _SkinnyInnerProducts:
    def __init__(self, problem: MatmulProblem, parameters: SkinnyInnerProductParameters) -> None:
        self.problem, self.builder, self.parameters = problem, problem.builder, parameters
        self.sizes = sizes = _Sizes(problem, parameters)
        self.lanes = sizes.lanes
        assert self.lanes == problem.lanes, problem.region.name
        self.vectors, self.rest = divmod(problem.terms, self.lanes)
        self.blocks = -(-self.vectors // parameters.block_vectors)
        builder, row = problem.builder, sizes.width * self.lanes
        self.sums = ScratchArray(builder, "sums", problem.type, sizes.sum_rows * row)
        self.transposed = ScratchArray(builder, "transposed", problem.type, row)
        self.excess: ScratchArray | None = None
        """The sums of the products of the offset of the left operand, by column."""
        if problem.left_offset() is not None:
            self.excess = ScratchArray(builder, "excess", problem.type, sizes.width)

    @property
    def is_single_step(self) -> bool:
        """Whether a tile is computed at once, so that no sums are loaded."""
        return self.blocks + bool(self.rest) == 1

    def kernel(self) -> Kernel:
        problem, builder, width = self.problem, self.builder, self.parameters.block_columns
        blocks = -(-problem.columns // width)
        with builder.loop(problem.batches * blocks, AxisKind.PARALLEL) as task:
            batch, block = delinear(builder, task, (problem.batches, blocks))
            first = block * width
            tiles = -(-problem.columns // self.parameters.tile_columns)
            tiles_of_block = width // self.parameters.tile_columns
            with builder.loop(block_extent(builder, block * tiles_of_block, tiles, tiles_of_block)) as tile:
                self.add_tile(batch, first, tile * self.parameters.tile_columns)
            self.store(batch, first, block_extent(builder, first, problem.columns, width))
        return builder.kernel

    # -- sums of lanes

    def add_tile(self, batch: Affine, first: Affine, column: Affine) -> None:
        """Computes the vectors of sums of the columns of a tile. column: of the tile in the block."""
        builder, columns = self.builder, self.parameters.tile_columns
        if not self.is_single_step:
            zero, begin = zero_element(builder, self.problem.type), column * self.lanes
            with (
                builder.loop(self.sizes.sum_rows) as row,
                builder.loop(columns * self.lanes, AxisKind.VECTOR, width=self.lanes) as lane,
            ):
                self.sums.store(row * (self.sizes.width * self.lanes) + begin + lane, zero)
        if self.blocks:
            with builder.loop(self.blocks) as block:
                start = block * self.parameters.block_vectors
                count = block_extent(builder, start, self.vectors, self.parameters.block_vectors)
                self.add_terms(batch, first, column, start * self.lanes, count)
        if self.rest:
            self.add_terms(batch, first, column, Affine((), self.vectors * self.lanes), None)

    def add_terms(self, batch: Affine, first: Affine, column: Affine, start: Affine, count: int | Value | None) -> None:
        """Adds `count` vectors of terms to the sums of a tile for all rows, or the last terms, which fill no vector."""
        rows = self.parameters.tile_rows
        if self.excess is not None:
            self.add_products(batch, first, column, (start, count), None)
        with self.builder.loop(self.sizes.row_tiles) as tile:
            self.add_products(batch, first, column, (start, count), tile * rows)

    def add_products(
        self,
        batch: Affine,
        first: Affine,
        column: Affine,
        terms: tuple[Affine, int | Value | None],
        row: Affine | None,
    ) -> None:
        """Adds products to the sums of the rows from `row` on; to those of the offset of the left operand if None."""
        problem, builder, (start, count) = self.problem, self.builder, terms
        offset = problem.left_offset()
        tile = Tile(1 if row is None else self.parameters.tile_rows, self.parameters.tile_columns, self.lanes)
        columns = [clamped_position(builder, first + column + c, problem.columns) for c in range(tile.vectors)]
        later = [clamped_position(builder, at + tile.vectors, problem.columns) for at in columns]
        rows = [] if row is None else [clamped_position(builder, row + r, problem.rows) for r in range(tile.rows)]
        with builder.loop(self.lanes, AxisKind.VECTOR, width=self.lanes) as lane:
            mask = problem.lowering.in_bounds((start + lane,), [(0, problem.terms)]) if count is None else None

            def kept(element: Element) -> Element:
                if mask is None:
                    return element
                assert isinstance(element, Value)
                return builder.select(mask, element, builder.zero(element.type))

            def left(term: Index, number: int) -> Element:
                if row is None:
                    assert offset is not None
                    return offset
                return kept(problem.left_element(batch, rows[number], start + term[0] * self.lanes + lane, mask))

            def right(term: Index, vector: int) -> Element:
                position = start + term[0] * self.lanes + lane
                if self.parameters.prefetches and row is not None and mask is None:
                    self.prefetch(batch, position, later[vector])
                return kept(problem.right_element(batch, position, columns[vector], mask))

            found = emit_micro_kernel(problem, tile, [1 if count is None else count], left, right)
            first_row = Affine((), self.sizes.rows) if row is None else row
            for number, totals in enumerate(found):
                for vector, total in enumerate(totals):
                    place = (first_row + number) * (self.sizes.width * self.lanes)
                    place = place + (column + vector) * self.lanes + lane
                    if not self.is_single_step:
                        total = add_elements(builder, self.sums.load(place), total)
                    self.sums.store(place, total)

    def prefetch(self, batch: Affine, term: Affine, column: Affine) -> None:
        """Prefetches the line of a vector of terms, unless its elements are computed."""
        for location in self.problem.right_locations(batch, term, column)[:1]:
            self.builder.prefetch(location)

    # -- results

    def store(self, batch: Affine, first: Affine, columns: int | Value) -> None:
        """Stores all rows of a block of columns."""
        builder, problem = self.builder, self.problem
        if self.excess is not None:
            self.transpose(Affine((), self.sizes.rows))
            with builder.loop(columns, AxisKind.VECTOR, width=self.lanes) as column:
                self.excess.store(column, self.total(column))
        with builder.loop(problem.rows) as row:
            self.transpose(row)
            with builder.loop(columns, AxisKind.VECTOR, width=self.lanes) as column:
                total = self.total(column)
                if self.excess is not None:
                    total = subtracted(builder, total, self.excess.load(column))
                problem.store(batch, row, first + column, total)

    def transpose(self, row: Affine) -> None:
        """Transposes the vectors of sums of a row."""
        sizes, begin = self.sizes, row * (self.sizes.width * self.lanes)
        extents = sizes.width, self.lanes
        self.sums.transpose(begin, self.lanes, self.transposed, Affine(), sizes.width, extents)

    def total(self, column: Affine) -> Element:
        """The sum of all lanes of the transposed row, lane by lane."""
        total = self.transposed.load(column)
        for lane in range(1, self.lanes):
            total = add_elements(self.builder, total, self.transposed.load(column + lane * self.sizes.width))
        return total
