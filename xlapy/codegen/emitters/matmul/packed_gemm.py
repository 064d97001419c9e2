"""Packed GEMM: copies blocks of both operands into the order in which the micro-kernel reads them.

    for each block of MC rows and some blocks of NC columns of the result, a task
      for each block of KC terms
        pack these terms of the left operand
        for each block of NC columns
          pack these terms of the right operand: panels as wide as a tile, term by term
          for each panel, for each MR rows: the micro-kernel computes a tile of MR rows and NR columns

`blocking` chooses MC, NC and the blocks of a task; `loops.reduction_order` chooses KC. With several blocks of terms,
the sums are accumulated in the result, or in scratch memory if the result has another type. Terms are counted by two
loops, outer and inner: a block is a part of the inner loop at one outer position, or the whole inner loop at several
outer positions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.blocking import Blocking, choose_blocking
from xlapy.codegen.emitters.matmul.left_offset import PackedCorrections
from xlapy.codegen.emitters.matmul.micro_kernel import (
    Tile,
    add_elements,
    choose_micro_tile,
    clamped_position,
    emit_micro_kernel,
    in_bounds,
)
from xlapy.codegen.emitters.matmul.problem import MIN_TERMS_OF_LONG_TILES, MatmulProblem
from xlapy.codegen.emitters.matmul.right_prefetch import RightPrefetch
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.plan import ImpossibleParameterError, parameter
from xlapy.loops import Affine, AxisKind, Kernel, Value
from xlapy.loops.builder import MAX_SCRATCH_BYTES
from xlapy.loops.ir import tile_shape
from xlapy.loops.reduction_order import contraction_block
from xlapy.lower import Element
from xlapy.lower.contraction import zero_element
from xlapy.lower.core import Index, delinear
from xlapy.lower.element_types import register_type

Corner: TypeAlias = tuple[Affine, Affine]
"""The first term and the first column of a block of the right operand."""

MAX_TILE_SUMS = 64
"""The largest number of vectors of sums of a tile that a plan may demand, because its code is unrolled."""


@dataclass(frozen=True, slots=True)
class PackedGemmParameters:
    """The tiles and blocks of a packed GEMM."""

    tile_rows: int = parameter(1, 32)
    """The rows of a register tile (MR)."""
    tile_vectors: int = parameter(1, 16)
    """The vectors of columns of a register tile."""
    mc_tiles: int = parameter(1)
    """The tiles along the rows of a task (MC / MR)."""
    nc_tiles: int = parameter(1)
    """The tiles along the columns of a block of the right operand (NC / NR)."""
    column_blocks: int = parameter(1)
    """The blocks of the right operand of one task."""
    kc_outer: int = parameter(1)
    """The positions of the outer loop over terms in a block."""
    kc_inner: int = parameter(1)
    """The positions of the inner loop over terms in a block."""
    packs_rows: bool = False
    """Whether packing loads vectors of rows of the left operand, not of terms."""
    transposes_columns: bool = False
    """Whether the right operand is loaded in vectors of terms, and transposed."""


def packed_gemm_parameters(
    problem: MatmulProblem, batches: int | None = None, tasks_per_processor: int = 1
) -> PackedGemmParameters:
    """The preferred tiles and blocks of a problem.

    batches: the elements of the batch that share the processors; None for all. tasks_per_processor: a larger number
    makes smaller blocks.
    """
    rows, left_terms = problem.left_strides()
    columns, right_terms = problem.right_strides()
    packs_rows = rows == 1 and left_terms != 1
    target, t = problem.region.target, problem.factor_type
    tile = choose_micro_tile(target, problem.builder, problem.type, problem.rows, problem.columns)
    kc_outer, kc_inner = contraction_block(problem.outer, problem.inner)
    registers = tile_shape(target.vector_bytes, register_type(t).byte_size)
    transposes = right_terms == 1 and columns != 1 and tile.columns % registers[0] == 0
    plain = PackedGemmParameters(tile.rows, tile.vectors, 1, 1, 1, kc_outer, kc_inner, packs_rows, transposes)
    sizes, shape = BlockSizes(problem, plain), (batches or problem.batches, problem.rows, problem.columns)
    row_bytes = sizes.tile_size // tile.rows * sizes.element_bytes
    target = replace(target, processors=tasks_per_processor * target.processors)
    found = choose_blocking(target, tile, sizes.element_bytes, shape, row_bytes, in_scratch=sizes.sums > 0)
    return replace(plain, mc_tiles=found.mc_tiles, nc_tiles=found.nc_tiles, column_blocks=found.column_blocks)


def check_packed_gemm(problem: MatmulProblem, parameters: PackedGemmParameters) -> None:
    """Raises `ImpossibleParameterError` for tiles and blocks that the kernel cannot have."""
    if parameters.tile_rows * parameters.tile_vectors > MAX_TILE_SUMS:
        product = parameters.tile_rows * parameters.tile_vectors
        raise ImpossibleParameterError("tile_rows", f"a tile of {product} vectors is larger than {MAX_TILE_SUMS}")
    for name, limit in (("kc_outer", problem.outer), ("kc_inner", problem.inner)):
        value = getattr(parameters, name)
        if value > limit:
            raise ImpossibleParameterError(name, f"it is {value}, but there are {limit} terms in that loop")
    if parameters.kc_outer > 1 and parameters.kc_inner < problem.inner:
        raise ImpossibleParameterError("kc_outer", "a block of several outer positions has the whole inner loop")
    sizes = BlockSizes(problem, parameters)
    if parameters.transposes_columns and sizes.tile.columns % sizes.registers[0]:
        raise ImpossibleParameterError("transposes_columns", f"a tile has {sizes.tile.columns} columns")
    if sizes.sums and parameters.column_blocks > 1:
        raise ImpossibleParameterError("column_blocks", "sums in scratch memory are those of one block")
    if sizes.scratch_bytes > MAX_SCRATCH_BYTES:
        raise ImpossibleParameterError(
            "mc_tiles", f"packed blocks of {sizes.scratch_bytes} bytes exceed {MAX_SCRATCH_BYTES}"
        )


def packed_gemm_kernel(problem: MatmulProblem, parameters: PackedGemmParameters) -> Kernel:
    """Returns the kernel."""
    return PackedGemm(problem, parameters).kernel()


class BlockSizes:
    """The sizes of packed blocks and of the scratch memory, in elements.

    keeps_sums: whether sums are in scratch memory also with one block of terms.
    """

    def __init__(self, problem: MatmulProblem, parameters: PackedGemmParameters, *, keeps_sums: bool = False) -> None:
        target, t = problem.region.target, problem.factor_type
        lanes = min(problem.lanes, 1 << (problem.columns - 1).bit_length())
        self.tile = tile = Tile(parameters.tile_rows, parameters.tile_vectors, lanes)
        self.element_bytes = size = register_type(t).byte_size * (2 if t.is_complex else 1)
        self.registers = tile_shape(target.vector_bytes, register_type(t).byte_size)
        terms = parameters.kc_inner * parameters.kc_outer
        padded_terms = -(-terms // self.registers[1]) * self.registers[1]
        # the padding keeps rows of terms from mapping to the same cache set
        self.column_pitch = padded_terms + max(1, target.cache_line_bytes // size)
        self.row_stride = 1 if parameters.packs_rows else self.column_pitch
        self.term_stride = tile.rows if parameters.packs_rows else 1
        self.tile_size = tile.rows * (terms if parameters.packs_rows else self.row_stride)
        self.panel_size = padded_terms * tile.columns
        self.blocks = -(-problem.outer // parameters.kc_outer), -(-problem.inner // parameters.kc_inner)
        self.width = tile.columns * parameters.nc_tiles
        self.left = self.tile_size * parameters.mc_tiles
        self.right = self.panel_size * parameters.nc_tiles
        self.loaded_columns = tile.columns * self.column_pitch if parameters.transposes_columns else 0
        in_scratch = keeps_sums or (self.blocks != (1, 1) and not problem.accumulates_in_result)
        self.sums = parameters.mc_tiles * tile.rows * self.width if in_scratch else 0
        self.scratch_bytes = (self.left + self.right + self.loaded_columns) * size
        self.scratch_bytes += (self.sums + self.width) * max(size, register_type(problem.type).byte_size)


class PackedGemm:
    """The sizes of all blocks, and the scratch memory that they are packed into."""

    keeps_sums = False
    """Whether sums are in scratch memory also with one block of terms."""

    def __init__(self, problem: MatmulProblem, parameters: PackedGemmParameters) -> None:
        self.problem, self.builder = problem, problem.builder
        builder, t = problem.builder, problem.factor_type
        sizes = BlockSizes(problem, parameters, keeps_sums=self.keeps_sums)
        self.rows_are_contiguous = parameters.packs_rows
        self.tile, self.blocks, self.width = sizes.tile, sizes.blocks, sizes.width
        self.kc_outer, self.kc_inner = parameters.kc_outer, parameters.kc_inner
        self.blocking = Blocking(parameters.mc_tiles, parameters.nc_tiles, parameters.column_blocks)
        self.row_stride, self.term_stride, self.tile_size = sizes.row_stride, sizes.term_stride, sizes.tile_size
        self.panel_size, self.column_pitch = sizes.panel_size, sizes.column_pitch
        self.left = ScratchArray(builder, "left", t, sizes.left)
        self.right = ScratchArray(builder, "right", t, sizes.right)
        self.loaded_columns: ScratchArray | None = None
        """The columns of a panel with contiguous terms, as loaded; a transposition packs them."""
        if parameters.transposes_columns:
            self.loaded_columns = ScratchArray(builder, "columns", t, sizes.loaded_columns)
        self.sums: ScratchArray | None = None
        """The sums of a block of the result, if they are accumulated in scratch memory."""
        if sizes.sums:
            self.sums = ScratchArray(builder, "sums", problem.type, sizes.sums)
        self.corrections = PackedCorrections(problem, self.tile, parameters.nc_tiles)
        terms, tiles = parameters.kc_inner * parameters.kc_outer, parameters.mc_tiles * parameters.nc_tiles
        self.prefetch = RightPrefetch(problem, sizes.width, parameters.kc_inner, -(-terms // tiles))

    def kernel(self) -> Kernel:
        problem, builder, tile, blocking = self.problem, self.builder, self.tile, self.blocking
        row_tiles = -(-problem.rows // tile.rows)
        column_blocks = -(-problem.columns // self.width)
        row_tasks, column_tasks = -(-row_tiles // blocking.mc_tiles), -(-column_blocks // blocking.column_blocks)
        with builder.loop(problem.batches * row_tasks * column_tasks, AxisKind.PARALLEL) as task:
            self.compute_task(*delinear(builder, task, (problem.batches, row_tasks, column_tasks)))
        return builder.kernel

    def compute_task(self, batch: Affine, task_row: Affine, task_column: Affine) -> None:
        """Computes the block of a task, given its batch element and its number along rows and columns."""
        problem, builder, blocking = self.problem, self.builder, self.blocking
        row_tiles = -(-problem.rows // self.tile.rows)
        row = task_row * (blocking.mc_tiles * self.tile.rows)
        tiles = block_extent(builder, task_row * blocking.mc_tiles, row_tiles, blocking.mc_tiles)
        column, column_blocks = self.columns_of_task(task_column)
        block = self.block(batch, row, column, tiles, column_blocks)
        rows = block.row, blocking.mc_tiles * self.tile.rows
        condition = problem.fast_path_condition(batch, rows, (block.column, self.width * blocking.column_blocks))
        if condition is None:
            block.compute()
        else:
            with builder.branch(condition):
                block.compute()
            with builder.branch(builder.logical_not(condition), is_cold=True):
                block.compute_by_definition()

    def block(
        self, batch: Affine, row: Affine, column: Affine, mc_tiles: int | Value, column_blocks: int | Value
    ) -> ResultBlock:
        """The block of a task."""
        return ResultBlock(self, batch, row, column, mc_tiles, column_blocks)

    def columns_of_task(self, task_column: Affine) -> tuple[Affine, int | Value]:
        """The first column of a task, and how many blocks of columns it has."""
        first = task_column * self.blocking.column_blocks
        blocks = -(-self.problem.columns // self.width)
        return first * self.width, block_extent(self.builder, first, blocks, self.blocking.column_blocks)


@dataclass(frozen=True, slots=True)
class TermBlock:
    """A block of terms: where it begins in the outer and the inner loop over terms, and its extents in both."""

    outer: Affine
    inner: Affine
    outer_count: int | Value
    inner_count: int | Value


@dataclass(frozen=True, slots=True)
class ColumnBlock:
    """A block of the right operand: its first column, and how many panels it has."""

    column: Affine
    panels: int | Value


@dataclass(frozen=True, slots=True)
class ResultBlock:
    """A block of the result: where it begins, how many tiles it has along rows and blocks along columns."""

    gemm: PackedGemm
    batch: Affine
    row: Affine
    column: Affine
    mc_tiles: int | Value
    column_blocks: int | Value

    def compute(self) -> None:
        """Computes and stores the block, one block of terms after the other."""
        gemm, problem = self.gemm, self.gemm.problem
        if gemm.blocks == (1, 1):
            self.add(TermBlock(Affine(), Affine(), problem.outer, problem.inner), None)
        else:
            self.add_all_terms()
        if gemm.sums is not None:
            self.store_sums()

    def add_all_terms(self) -> None:
        """Adds the products of several blocks of terms."""
        gemm, problem = self.gemm, self.gemm.problem
        if gemm.sums is not None:
            self.clear()
        with gemm.builder.loop(gemm.blocks[0]) as at_outer, gemm.builder.loop(gemm.blocks[1]) as at_inner:
            outer, inner = at_outer * gemm.kc_outer, at_inner * gemm.kc_inner
            counts = (
                block_extent(gemm.builder, outer, problem.outer, gemm.kc_outer),
                block_extent(gemm.builder, inner, problem.inner, gemm.kc_inner),
            )
            number = gemm.builder.value_of(at_outer * gemm.blocks[1] + at_inner)
            self.add(TermBlock(outer, inner, *counts), number)

    def compute_by_definition(self) -> None:
        """Computes the block element by element, as the operation is defined."""
        problem, width = self.gemm.problem, self.gemm.width * self.gemm.blocking.column_blocks
        for row, column in self.elements(width):
            element = problem.lowering.element(problem.root, problem.index(self.batch, row, column))
            problem.store_result(self.batch, row, column, element)

    def elements(self, width: int) -> Iterator[tuple[Affine, Affine]]:
        """Emits loops over the elements of the block, which is `width` wide, columns in vectors; yields the row and the
        column."""
        gemm, builder, problem = self.gemm, self.gemm.builder, self.gemm.problem
        rows = block_extent(builder, self.row, problem.rows, gemm.blocking.mc_tiles * gemm.tile.rows)
        columns = block_extent(builder, self.column, problem.columns, width)
        with builder.loop(rows) as row, builder.loop(columns, AxisKind.VECTOR, width=gemm.tile.lanes) as column:
            yield self.row + row, self.column + column

    def add(self, terms: TermBlock, number: Value | None) -> None:
        """Packs one block of terms and adds their products to the tiles. number: of the block; None of a single one."""
        gemm, builder = self.gemm, self.gemm.builder
        self.pack_left(terms)
        with builder.loop(self.column_blocks) as position:
            column = self.column + position * gemm.width
            tiles = -(-gemm.problem.columns // gemm.tile.columns)
            first_tile = builder.quotient(column, gemm.tile.columns)
            block = ColumnBlock(column, block_extent(builder, first_tile, tiles, gemm.blocking.nc_tiles))
            self.pack_right(block, terms)
            gemm.corrections.compute(block.panels, self.term_count(terms), gemm.right, gemm.panel_size)
            following = gemm.prefetch.block_after(self.batch, position, self.column_blocks, self.column, terms.inner)
            with builder.loop(block.panels) as panel:
                self.compute_panel(panel, block, terms, number, following)

    # -- packing

    def pack_left(self, terms: TermBlock) -> None:
        """Packs a block of terms of all rows."""
        gemm, builder = self.gemm, self.gemm.builder
        if not gemm.rows_are_contiguous:
            with builder.loop(self.mc_tiles) as tile_row:
                self.pack_left_rows(tile_row, terms)
            return
        with builder.loop(terms.outer_count) as outer, builder.loop(terms.inner_count) as inner:
            source = (terms.outer + outer) * gemm.problem.inner + terms.inner + inner
            with builder.loop(self.mc_tiles) as tile_row:
                self.pack_left_term(tile_row, source, outer * gemm.kc_inner + inner)

    def pack_right(self, block: ColumnBlock, terms: TermBlock) -> None:
        """Packs a block of terms of a block of columns."""
        gemm, builder = self.gemm, self.gemm.builder
        if gemm.loaded_columns is not None:
            with builder.loop(block.panels) as panel:
                self.pack_panel_by_transposition(gemm.loaded_columns, panel, block, terms)
            return
        with builder.loop(terms.outer_count) as outer, builder.loop(terms.inner_count) as inner:
            source = (terms.outer + outer) * gemm.problem.inner + terms.inner + inner
            with builder.loop(block.panels) as panel:
                self.pack_right_term(panel, block, source, outer * gemm.kc_inner + inner)

    def pack_right_term(self, panel: Affine, block: ColumnBlock, source: Affine, target: Affine) -> None:
        """Packs one term of a panel of the right operand."""
        gemm, builder, tile = self.gemm, self.gemm.builder, self.gemm.tile
        problem = gemm.problem
        begin = block.column + panel * tile.columns
        with builder.loop(tile.lanes, AxisKind.VECTOR, width=tile.lanes) as lane:
            for vector in range(tile.vectors):
                column = lane + vector * tile.lanes
                mask = in_bounds(problem.lowering, begin + column, problem.columns, tile.columns)
                element = problem.right_element(self.batch, source, begin + column, mask)
                gemm.right.store(panel * gemm.panel_size + target * tile.columns + column, element)

    def pack_panel_by_transposition(
        self, loaded_columns: ScratchArray, panel: Affine, block: ColumnBlock, terms: TermBlock
    ) -> None:
        """Packs all terms of a panel of the right operand, by transposition."""
        gemm, tile, problem = self.gemm, self.gemm.tile, self.gemm.problem
        with gemm.builder.loop(tile.columns) as number:
            column = clamped_position(gemm.builder, block.column + panel * tile.columns + number, problem.columns)
            for source, target in self.term_vectors(terms):
                loaded_columns.store(
                    number * gemm.column_pitch + target, problem.right_element(self.batch, source, column)
                )
        extents = tile.columns, self.term_count(terms)
        loaded_columns.transpose(
            Affine(), gemm.column_pitch, gemm.right, panel * gemm.panel_size, tile.columns, extents
        )

    def term_vectors(self, terms: TermBlock) -> Iterator[tuple[Affine, Affine]]:
        """Emits loops over a block of terms in vectors; yields the term and its position in packed memory."""
        gemm, builder, problem = self.gemm, self.gemm.builder, self.gemm.problem
        width = min(builder.lanes(register_type(problem.factor_type)), 1 << (gemm.kc_inner - 1).bit_length())
        with (
            builder.loop(terms.outer_count) as outer,
            builder.loop(terms.inner_count, AxisKind.VECTOR, width=width) as inner,
        ):
            yield (terms.outer + outer) * problem.inner + terms.inner + inner, outer * gemm.kc_inner + inner

    def pack_left_term(self, tile_row: Affine, source: Affine, target: Affine) -> None:
        """Packs one term of the rows of a tile; the rows are contiguous in the left operand."""
        gemm, builder, tile = self.gemm, self.gemm.builder, self.gemm.tile
        problem = gemm.problem
        width = 1 << (tile.rows - 1).bit_length()
        with builder.loop(tile.rows, AxisKind.VECTOR, width=width) as lane:
            row = self.row + tile_row * tile.rows + lane
            mask = in_bounds(problem.lowering, row, problem.rows, tile.rows)
            element = problem.left_element(self.batch, row, source, mask)
            gemm.left.store(tile_row * gemm.tile_size + target * tile.rows + lane, element)

    def pack_left_rows(self, tile_row: Affine, terms: TermBlock) -> None:
        """Packs all terms of the rows of a tile."""
        gemm, tile, problem = self.gemm, self.gemm.tile, self.gemm.problem
        with gemm.builder.loop(tile.rows) as number:
            row = clamped_position(gemm.builder, self.row + tile_row * tile.rows + number, problem.rows)
            for source, target in self.term_vectors(terms):
                place = tile_row * gemm.tile_size + number * gemm.row_stride + target
                gemm.left.store(place, problem.left_element(self.batch, row, source))

    # -- multiplying

    def compute_panel(
        self, panel: Affine, block: ColumnBlock, terms: TermBlock, number: Value | None, following: Corner | None
    ) -> None:
        """Computes the tiles of a panel, one after the other, and prefetches the block that follows."""
        gemm = self.gemm
        with gemm.builder.loop(self.mc_tiles) as tile_row:
            if following is not None:
                gemm.prefetch.prefetch(self.batch, following, panel * gemm.blocking.mc_tiles + tile_row)
            self.compute_tile(tile_row, panel, block, terms, number)

    def compute_tile(
        self, tile_row: Affine, panel: Affine, block: ColumnBlock, terms: TermBlock, number: Value | None
    ) -> None:
        """Runs the micro-kernel on a block of terms; adds the tile to the sums, or stores it if there is one block."""
        gemm, builder, tile = self.gemm, self.gemm.builder, self.gemm.tile
        problem = gemm.problem
        first = tile_row * gemm.tile_size
        most_terms = gemm.kc_outer * gemm.kc_inner
        in_loops = most_terms >= MIN_TERMS_OF_LONG_TILES
        corner = self.row + tile_row * tile.rows, block.column + panel * tile.columns
        if gemm.sums is None:
            problem.prefetch_tile(tile, self.batch, *corner, most_terms)
        with builder.loop(tile.lanes, AxisKind.VECTOR, width=tile.lanes) as lane:
            columns = [panel * tile.columns + lane + vector * tile.lanes for vector in range(tile.vectors)]

            def right(term: Index, vector: int) -> Element:
                offset = panel * gemm.panel_size + term[0] * tile.columns
                return gemm.right.load(offset + lane + vector * tile.lanes)

            def left(term: Index, number: int) -> Element:
                return gemm.left.load(first + term[0] * gemm.term_stride + number * gemm.row_stride)

            term_count = self.term_count(terms)
            totals = gemm.corrections.first_totals(panel, lane)
            sums = emit_micro_kernel(problem, tile, [term_count], left, right, totals and totals * tile.rows)
            if gemm.sums is not None:
                self.accumulate(tile_row, columns, sums)
                return
            place = (tile, lane, sums, self.batch, corner)
            if number is None:
                problem.store_tile(*place, in_loops=in_loops)
                return
            zero, is_trivial = builder.zero(number.type), problem.epilogue.is_trivial
            is_later = builder.compare("ne", number, zero)
            if is_trivial:
                problem.store_tile(*place, in_loops=in_loops, accumulates=is_later, is_partial=True)
                return
            last = builder.constant(number.type, gemm.blocks[0] * gemm.blocks[1] - 1)
            is_last = builder.compare("eq", number, last)
            with builder.branch(builder.logical_not(is_last)):
                problem.store_tile(*place, in_loops=in_loops, accumulates=is_later, is_partial=True)
            with builder.branch(is_last):
                problem.store_tile(*place, in_loops=in_loops, accumulates=is_later)

    def term_count(self, terms: TermBlock) -> int | Value:
        """The number of terms of a block, which are contiguous in packed memory."""
        if isinstance(terms.outer_count, int):
            if isinstance(terms.inner_count, int):
                return terms.outer_count * terms.inner_count
            assert terms.outer_count == 1
            return terms.inner_count
        builder = self.gemm.builder
        assert isinstance(terms.inner_count, int)
        return builder.value_of(Affine.of(terms.outer_count) * terms.inner_count)

    def accumulate(self, tile_row: Affine, columns: list[Affine], sums: list[list[Element]]) -> None:
        """Adds a tile to the sums of the block."""
        gemm = self.gemm
        assert gemm.sums is not None
        for number, totals in enumerate(sums):
            for column, total in zip(columns, totals, strict=True):
                offset = (tile_row * gemm.tile.rows + number) * gemm.width + column
                gemm.sums.store(offset, add_elements(gemm.builder, gemm.sums.load(offset), total))

    def clear(self) -> None:
        """Sets the sums of the block to zero."""
        gemm, builder = self.gemm, self.gemm.builder
        assert gemm.sums is not None
        zero = zero_element(builder, gemm.problem.type)
        size = gemm.blocking.mc_tiles * gemm.tile.rows * gemm.width
        with builder.loop(size, AxisKind.VECTOR, width=gemm.tile.lanes) as position:
            gemm.sums.store(position, zero)

    def store_sums(self) -> None:
        """Stores the sums of the block to the result."""
        gemm = self.gemm
        assert gemm.sums is not None
        for row, column in self.elements(gemm.width):
            total = gemm.sums.load((row - self.row) * gemm.width + column - self.column)
            gemm.problem.store(self.batch, row, column, total)
