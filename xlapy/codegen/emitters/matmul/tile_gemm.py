"""Tile GEMM: a packed GEMM whose micro-kernel is made of tile instructions (`loops.ir.MatrixProduct`).

    for each block of MC rows and NC columns of the result, a task
      for each block of KC factors
        pack these factors of the left operand row by row, those of the right operand in panels
        for each panel: one matrix product of MC rows, added to sums in scratch memory
      store the sums

A factor holds a group of narrow terms. Factors beyond the last one, up to a whole tile, are zeros.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from xlapy.codegen.emitters.matmul.blocking import PACKING_COST, choose_blocking
from xlapy.codegen.emitters.matmul.micro_kernel import in_bounds
from xlapy.codegen.emitters.matmul.packed_gemm import (
    BlockSizes,
    ColumnBlock,
    Corner,
    PackedGemm,
    PackedGemmParameters,
    ResultBlock,
    TermBlock,
)
from xlapy.codegen.emitters.matmul.problem import MatmulProblem
from xlapy.codegen.emitters.matmul.term_groups import GroupedProblem
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.plan import ImpossibleParameterError, parameter
from xlapy.loops import I1, Affine, AxisKind, Kernel, Location, MatrixProduct, Value
from xlapy.loops.builder import MAX_SCRATCH_BYTES
from xlapy.loops.dot_instructions import TILE_SIDE, TILE_SPEED
from xlapy.loops.reduction_order import contraction_block
from xlapy.lower.contraction import zero_element


@dataclass(frozen=True, slots=True)
class TileGemmParameters:
    """The blocks of a tile GEMM."""

    row_tiles: int = parameter(1, 2)
    """The tiles of 16 rows that are computed at once."""
    column_tiles: int = parameter(1, 2)
    """The tiles of 16 columns of a panel."""
    mc_tiles: int = parameter(1)
    """The rows of a task, in units of `row_tiles`."""
    nc_tiles: int = parameter(1)
    """The panels of a task."""
    kc_outer: int = parameter(1)
    """The positions of the outer loop over factors in a block."""
    kc_inner: int = parameter(1)
    """The positions of the inner loop over factors in a block."""
    transposes_rows: bool = False
    """Whether the left operand is loaded in vectors of rows, and transposed."""
    transposes_columns: bool = False
    """Whether the right operand is loaded in vectors of factors, and transposed."""

    def packed(self) -> PackedGemmParameters:
        """The same blocks as those of a packed GEMM."""
        return PackedGemmParameters(
            self.row_tiles * TILE_SIDE,
            self.column_tiles,
            self.mc_tiles,
            self.nc_tiles,
            1,
            self.kc_outer,
            self.kc_inner,
            False,
            self.transposes_columns,
        )


def tiles_at_once(rows: int, columns: int) -> tuple[int, int]:
    """The tiles along rows and columns of a result that are computed at once."""
    return (1 if rows <= TILE_SIDE else 2), (1 if columns <= TILE_SIDE else 2)


def tile_gemm_parameters(problem: GroupedProblem) -> TileGemmParameters:
    """The preferred blocks of a problem."""
    rows, left_terms = problem.left_strides()
    columns, right_terms = problem.right_strides()
    kc_outer, kc_inner = contraction_block(problem.outer, problem.inner)
    if kc_outer == 1:
        kc_inner = min(problem.inner, -(-kc_inner // TILE_SIDE) * TILE_SIDE)
    plain = TileGemmParameters(
        *tiles_at_once(problem.rows, problem.columns),
        1,
        1,
        kc_outer,
        kc_inner,
        rows == 1 and left_terms != 1,
        right_terms == 1 and columns != 1,
    )
    sizes, shape = _sizes(problem, plain), (problem.batches, problem.rows, problem.columns)
    row_bytes = sizes.row_stride * sizes.element_bytes
    target, cost = problem.region.target, TILE_SPEED * PACKING_COST
    found = choose_blocking(
        target, sizes.tile, sizes.element_bytes, shape, row_bytes, in_scratch=True, packing_cost=cost
    )
    return replace(plain, mc_tiles=found.mc_tiles, nc_tiles=found.nc_tiles)


def check_tile_gemm(problem: GroupedProblem, parameters: TileGemmParameters) -> None:
    """Raises `ImpossibleParameterError` for blocks that the kernel cannot have."""
    for name, limit in (("kc_outer", problem.outer), ("kc_inner", problem.inner)):
        value = getattr(parameters, name)
        if value > limit:
            raise ImpossibleParameterError(name, f"it is {value}, but there are {limit} factors in that loop")
    if parameters.kc_outer > 1 and parameters.kc_inner < problem.inner:
        raise ImpossibleParameterError("kc_outer", "a block of several outer positions has the whole inner loop")
    sizes = _sizes(problem, parameters)
    size = sizes.scratch_bytes + _loaded_rows(sizes, parameters) * sizes.element_bytes
    if size > MAX_SCRATCH_BYTES:
        raise ImpossibleParameterError("mc_tiles", f"packed blocks of {size} bytes exceed {MAX_SCRATCH_BYTES}")


def tile_gemm_kernel(problem: GroupedProblem, parameters: TileGemmParameters) -> Kernel:
    """Returns the kernel."""
    return _TileGemm(problem, parameters).kernel()


def _sizes(problem: MatmulProblem, parameters: TileGemmParameters) -> BlockSizes:
    return BlockSizes(problem, parameters.packed(), keeps_sums=True)


def _loaded_rows(sizes: BlockSizes, parameters: TileGemmParameters) -> int:
    """The factors of the rows of a tile before their transposition."""
    return sizes.column_pitch * sizes.tile.rows if parameters.transposes_rows else 0


class _TileGemm(PackedGemm):
    keeps_sums = True

    def __init__(self, problem: GroupedProblem, parameters: TileGemmParameters) -> None:
        super().__init__(problem, parameters.packed())
        self.instruction = problem.format.instruction
        self.loaded_rows: ScratchArray | None = None
        """The rows of a tile as loaded, factor by factor; a transposition packs them."""
        loaded = _loaded_rows(_sizes(problem, parameters), parameters)
        if loaded:
            self.loaded_rows = ScratchArray(self.builder, "rows", problem.factor_type, loaded)

    def block(
        self, batch: Affine, row: Affine, column: Affine, mc_tiles: int | Value, column_blocks: int | Value
    ) -> ResultBlock:
        return _TileBlock(self, batch, row, column, mc_tiles, column_blocks)


class _TileBlock(ResultBlock):
    """A block whose sums the first block of factors sets, and later ones increase."""

    gemm: _TileGemm

    def clear(self) -> None:
        """The first block of factors sets the sums."""

    @property
    def rows(self) -> int | Value:
        """The rows of whole tiles."""
        if isinstance(self.mc_tiles, int):
            return self.mc_tiles * self.gemm.tile.rows
        return self.gemm.builder.value_of(Affine.of(self.mc_tiles) * self.gemm.tile.rows)

    # -- packing

    def pack_left(self, terms: TermBlock) -> None:
        super().pack_left(terms)
        gemm, builder = self.gemm, self.gemm.builder
        padding = self.padding(terms)
        if padding != 0:
            zero = zero_element(builder, gemm.problem.factor_type)
            with builder.loop(self.rows) as row, builder.loop(padding) as number:
                gemm.left.store(row * gemm.row_stride + self.position(self.term_count(terms)) + number, zero)

    def pack_left_rows(self, tile_row: Affine, terms: TermBlock) -> None:
        gemm, builder, tile, problem = self.gemm, self.gemm.builder, self.gemm.tile, self.gemm.problem
        if gemm.loaded_rows is None:
            super().pack_left_rows(tile_row, terms)
            return
        first = self.row + tile_row * tile.rows
        with builder.loop(terms.outer_count) as outer, builder.loop(terms.inner_count) as inner:
            source = (terms.outer + outer) * problem.inner + terms.inner + inner
            with builder.loop(tile.rows, AxisKind.VECTOR, width=TILE_SIDE) as lane:
                mask = in_bounds(problem.lowering, first + lane, problem.rows, tile.rows)
                element = problem.left_element(self.batch, first + lane, source, mask)
                gemm.loaded_rows.store((outer * gemm.kc_inner + inner) * tile.rows + lane, element)
        extents = self.term_count(terms), tile.rows
        target = tile_row * gemm.tile_size
        gemm.loaded_rows.transpose(Affine(), tile.rows, gemm.left, target, gemm.row_stride, extents)

    def pack_right(self, block: ColumnBlock, terms: TermBlock) -> None:
        super().pack_right(block, terms)
        gemm, builder, tile = self.gemm, self.gemm.builder, self.gemm.tile
        padding = self.padding(terms)
        if padding != 0:
            zero = zero_element(builder, gemm.problem.factor_type)
            with (
                builder.loop(block.panels) as panel,
                builder.loop(padding) as number,
                builder.loop(tile.columns, AxisKind.VECTOR, width=tile.lanes) as column,
            ):
                place = (self.position(self.term_count(terms)) + number) * tile.columns + column
                gemm.right.store(panel * gemm.panel_size + place, zero)

    def padding(self, terms: TermBlock) -> int | Value:
        """The factors that are missing to whole tiles."""
        gemm, count = self.gemm, self.term_count(terms)
        if isinstance(count, int):
            return -count % TILE_SIDE
        if gemm.kc_outer * gemm.kc_inner % TILE_SIDE == 0 and gemm.problem.inner % TILE_SIDE == 0:
            return 0
        return gemm.builder.value_of(self.tiled(count) - Affine.of(count))

    def tiled(self, count: int | Value) -> Affine:
        """The factors of whole tiles."""
        return self.gemm.builder.quotient(self.position(count) + (TILE_SIDE - 1), TILE_SIDE) * TILE_SIDE

    @staticmethod
    def position(count: int | Value) -> Affine:
        return Affine((), count) if isinstance(count, int) else Affine.of(count)

    # -- multiplying

    def compute_panel(
        self, panel: Affine, block: ColumnBlock, terms: TermBlock, number: Value | None, following: Corner | None
    ) -> None:
        gemm, builder, tile = self.gemm, self.gemm.builder, self.gemm.tile
        assert gemm.sums is not None
        if following is not None:
            with builder.loop(self.mc_tiles) as tile_row:
                gemm.prefetch.prefetch(self.batch, following, panel * gemm.blocking.mc_tiles + tile_row)
        count = self.term_count(terms)
        is_later = builder.constant(I1, 0)
        if number is not None:
            is_later = builder.compare("ne", number, builder.zero(number.type))
        builder.matrix_product(
            MatrixProduct(
                gemm.instruction,
                Location(gemm.left.buffer, Affine()),
                gemm.row_stride,
                Location(gemm.right.buffer, panel * gemm.panel_size),
                tile.columns,
                Location(gemm.sums.buffer, panel * tile.columns),
                gemm.width,
                self.rows,
                tile.columns,
                -(-count // TILE_SIDE) * TILE_SIDE if isinstance(count, int) else builder.value_of(self.tiled(count)),
                is_later,
            )
        )
