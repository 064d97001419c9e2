"""Estimates the cycles of a dot by each strategy, from the sizes of the problem and how its operands lie in memory.

An estimate counts what one core executes: multiply-adds of tiles with their unused lanes and rows, loads of both
operands by the cache that they come from, packing, sums across lanes and the start of tiles and tasks. The unit of the
constants is a vector operation, which takes `OPERATION_CYCLES`.

The strategy decides the order of additions, so estimates depend on the width and the number of vector registers, but
not on the caches and the processors of the machine: the sizes of caches are those of the reference machine.

The constants were fitted to the times of 957 products on a Zen 4 processor with AVX-512 (`python -m benchmarks.products
--choices`: its rows of f32, and most of `--random 400` with the seeds 11, 21 and 31). At the fit, 822 choices took at
most 1.1 times as long as the best strategy, and 1.04 times on geometric average; `PREFETCHED_LOAD` and the loads of
joined terms were added after it, by the measurements beside them.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy.analysis.cost.reference_machine import L1_BYTES, L2_BYTES, L3_BYTES, MIN_PARALLEL_CYCLES, OPERATION_CYCLES
from xlapy.codegen.emitters.matmul.micro_kernel import Tile, choose_micro_tile
from xlapy.codegen.emitters.matmul.problem import MatmulProblem
from xlapy.codegen.emitters.matmul.skinny_inner_products import MAX_BLOCK_VECTORS, MAX_PREFETCHING_ROW_TILES, MAX_ROWS
from xlapy.codegen.emitters.matmul.skinny_sizes import STRIP_TERMS, skinny_tile, tile_sums
from xlapy.codegen.emitters.matmul.tile_gemm import tiles_at_once
from xlapy.codegen.emitters.matmul.unpacked import INNER_PRODUCT_TILE_SIDE
from xlapy.loops.dot_instructions import TILE_SIDE, TILE_SPEED
from xlapy.loops.reduction_order import CONTRACTION_BLOCK_TERMS, balanced_size
from xlapy.lower.element_types import register_type

CACHE_LOADS = ((L2_BYTES // 2, 0.0), (L3_BYTES * 3 // 8, 3.5))
"""For a level-2 and a level-3 cache: the bytes of an operand that stay in it while another one is read, and the
operations that a load of a vector from it takes beyond one from the level-1 cache."""

L2_LOAD_OF_TERMS = 1.5
"""Operations that a load of a vector of terms, or of columns whose terms are joined, from the level-2 cache takes
beyond one from the level-1 cache. A tile of inner products loads a vector for each one to two of its sums, a tile along
columns for each eight, which hide it. 24 to 40 rows by 256 x 1024 in bf16 take 1.1x as long without packing."""

MEMORY_LOAD = 10.0
"""Operations that a load of a vector from main memory takes beyond one from the level-1 cache."""

STRIDED_LOAD = 2.6
"""How many times as long loads from beyond the level-1 cache take if a tile reads a few vectors of each term instead of
long runs of memory."""

PREFETCHED_LOAD = 0.5
"""The part of the time of a load from beyond the level-1 cache that remains if skinny inner products prefetch it. 8
rows by the transpose of 4096 x 4096 in f32 are read at 93% of the memory's bandwidth with it, at 73% without."""

GATHERED_LANE = 2.0
"""Operations that load a lane of a vector whose elements are not contiguous."""

JOINED_TERM = 1.1
"""Operations that move an element to its place in a factor of several terms which are not contiguous, for a vector of
factors."""

PACKED_VECTOR = 10.5
"""Operations that pack a vector of an operand, which is loaded, stored and loaded again."""

TRANSPOSED_VECTOR = 9.5
"""Operations that pack a vector of an operand by transposing whole panels."""

LANES_SUM = 1.7
"""Operations that add up the lanes of a vector of a tile of sums."""

TRANSPOSED_LANES_SUM = 3.5
"""Operations that add up the lanes of a vector of a tile of skinny inner products."""

TILED_BLOCK_SIDE = 256
"""The rows and columns of a block of a common tile GEMM."""

TILES_START = 500.0
"""Operations that begin and end the use of tile registers for a block of terms of a task. An estimate, as the speed of
tile instructions and the side of a block: not fitted to measurements."""

TILE_START = 40.0
"""Operations that begin and end the loop over the terms of a tile."""

TASK_TILE_START = 89.0
"""Operations that begin and end the loop over the terms of a tile of columns that is a task."""

TASK_SUMS_START = 19.0
"""Operations that begin and end the loop over the terms of a tile of inner products that is a task."""

STORED_SUM = 7.5
"""Operations that add a vector of sums to others in memory, and store it at the end."""

FAR_SUM = 6.0
"""Operations that this takes beyond `STORED_SUM` in a packed GEMM, if the result is larger than half of a level-2
cache."""

TASK_STORED_SUM = 6.0
"""Operations that store a vector of sums of a tile that is a task."""

BLOCK_SIDE = 512
"""The rows and columns of a block of a common packed GEMM, and the columns of a block of a skinny GEMM."""

TASK_COLUMN_TILES = 8
"""The tiles of columns of a task of skinny inner products: eight tiles of six columns fill vectors of 16 lanes."""

MIN_BLOCK_COLUMNS = 128
"""The columns of the narrowest task of a GEMM with blocks, about."""


def _load(size: float) -> float:
    """The operations of a load of a vector from an operand of `size` bytes that is read again and again."""
    return next((cost for limit, cost in CACHE_LOADS if size <= limit), MEMORY_LOAD)


def _load_of_terms(size: float) -> float:
    """As `_load`, of a vector of terms, or of columns whose terms are joined."""
    is_in_l2 = 2 * L1_BYTES < size <= L2_BYTES // 2
    return L2_LOAD_OF_TERMS if is_in_l2 else _load(size)


@dataclass(frozen=True, slots=True)
class MatmulCost:
    """The costs of a problem by strategy, in cycles."""

    problem: MatmulProblem
    left_strides: tuple[int | None, int | None]
    """The strides of the left operand between rows and between terms, as in `MatmulProblem.left_strides`."""
    right_strides: tuple[int | None, int | None]
    """The strides of the right operand between columns and between terms."""

    # -- operands

    @property
    def _lanes(self) -> int:
        """The lanes of vectors of columns."""
        return min(self.problem.lanes, 1 << (self.problem.columns - 1).bit_length())

    @property
    def _element_bytes(self) -> int:
        return register_type(self.problem.factor_type).byte_size

    @property
    def _left_bytes(self) -> int:
        return self.problem.rows * self.problem.terms * self._element_bytes

    @property
    def _right_bytes(self) -> int:
        return self.problem.terms * self.problem.columns * self._element_bytes

    @property
    def _result_bytes(self) -> int:
        return self.problem.batches * self.problem.rows * self.problem.columns * self._element_bytes

    def _joining(self, stride_of_terms: int | None) -> float:
        """The operations that join the terms of a vector of factors."""
        terms = self.problem.terms_per_factor
        return 0.0 if terms == 1 or stride_of_terms == 1 else JOINED_TERM * terms

    @property
    def _right_vector(self) -> float:
        """The operations that load a vector of columns where it lies."""
        columns, terms = self.right_strides
        if columns in (0, 1):
            return 1.0 + self._joining(terms)
        each = GATHERED_LANE if terms == 1 else 2 * GATHERED_LANE
        return each * self._lanes + self._joining(terms)

    @property
    def _left_scalar(self) -> float:
        """The operations that load a factor of a row for all lanes."""
        _, terms = self.left_strides
        return 0.5 + self._joining(terms)

    def _right_load(self) -> float:
        """The operations that a load of a vector of columns takes beyond one from the level-1 cache. One whose terms
        are joined reads several rows."""
        is_joined = self._joining(self.right_strides[1]) > 0
        return (_load_of_terms if is_joined else _load)(self._right_bytes)

    # -- strategies

    def direct(self, tile: Tile) -> float:
        """The cost of tiles that load both operands where they lie."""
        p = self.problem
        tiles = -(-p.rows // tile.rows) * -(-p.columns // tile.columns)
        far = self._right_load() * (STRIDED_LOAD if tile.columns < p.columns else 1.0)
        loads = tile.vectors * (self._right_vector + far) + tile.rows * self._left_scalar
        sums = tile.rows * tile.vectors
        return self._cycles(tiles * (p.terms * (sums + loads / 2) + TASK_TILE_START + TASK_STORED_SUM * sums), tiles)

    def skinny(self) -> float:
        """The cost of a skinny GEMM."""
        p, tile = self.problem, skinny_tile(self.problem)
        vectors, row_tiles = -(-p.columns // self._lanes), -(-p.rows // tile.rows)
        column_tiles, strips = -(-vectors // tile.vectors), -(-p.terms // STRIP_TERMS)
        load = self._right_vector + _load(self._right_bytes)
        products = p.terms * column_tiles * row_tiles * tile.rows * tile.vectors
        loads = p.terms * vectors * (load + (row_tiles - 1) * self._right_vector) / 2
        sums = p.rows * vectors * STORED_SUM * (strips + 2 * -(-p.terms // CONTRACTION_BLOCK_TERMS) + 1)
        packing = -(-p.columns // BLOCK_SIDE) * p.rows * p.terms / p.lanes * PACKED_VECTOR
        tiles = strips * column_tiles * row_tiles * TILE_START
        return self._cycles(products + loads + sums + packing + tiles, -(-p.columns // MIN_BLOCK_COLUMNS))

    def packed(self) -> float:
        """The cost of a packed GEMM."""
        p = self.problem
        tile = choose_micro_tile(p.region.target, p.builder, p.type, p.rows, p.columns)
        row_tiles, column_tiles = -(-p.rows // tile.rows), -(-p.columns // tile.columns)
        blocks = -(-p.terms // CONTRACTION_BLOCK_TERMS)
        sums = tile.rows * tile.vectors
        stored = STORED_SUM + (FAR_SUM if self._result_bytes > L2_BYTES // 2 else 0.0)
        tiles = row_tiles * column_tiles * (p.terms * sums + blocks * (TILE_START + stored * sums))
        row_tasks, column_tasks = -(-p.rows // BLOCK_SIDE), -(-p.columns // BLOCK_SIDE)
        packing = column_tasks * self._packing_left(tile) + row_tasks * self._packing_right(tile)
        return self._cycles(tiles + packing, row_tiles * -(-p.columns // MIN_BLOCK_COLUMNS))

    def tiled(self) -> float:
        """The cost of a tile GEMM."""
        p = self.problem
        row_side, vectors = tiles_at_once(p.rows, p.columns)
        tile = Tile(row_side * TILE_SIDE, vectors, TILE_SIDE)
        row_tiles, column_tiles = -(-p.rows // tile.rows), -(-p.columns // tile.columns)
        blocks, groups = -(-p.terms // CONTRACTION_BLOCK_TERMS), -(-p.terms // TILE_SIDE) * TILE_SIDE
        sums = tile.rows * tile.vectors
        tiles = row_tiles * column_tiles * (groups * sums / TILE_SPEED + (blocks + 1) * STORED_SUM * sums)
        row_tasks, column_tasks = -(-p.rows // TILED_BLOCK_SIDE), -(-p.columns // TILED_BLOCK_SIDE)
        packing = column_tasks * self._packing_left(tile) + row_tasks * self._packing_right(tile)
        start = blocks * row_tasks * column_tasks * TILES_START
        return self._cycles(tiles + packing + start, row_tiles * -(-p.columns // MIN_BLOCK_COLUMNS))

    def _packing_left(self, tile: Tile) -> float:
        """The operations that pack the left operand once."""
        p = self.problem
        rows, terms = self.left_strides
        load = PACKED_VECTOR + _load(self._left_bytes) + self._joining(terms)
        if terms in (0, 1):
            return p.rows * -(-p.terms // p.lanes) * load
        if rows == 1:
            return -(-p.rows // tile.rows) * p.terms * load
        return p.rows * p.terms * 2 * GATHERED_LANE

    def _packing_right(self, tile: Tile) -> float:
        """The operations that pack the right operand once."""
        p = self.problem
        columns, terms = self.right_strides
        level, padded = _load(self._right_bytes), -(-p.columns // tile.columns) * tile.columns
        if columns in (0, 1):
            return p.terms * padded / self._lanes * (PACKED_VECTOR + level + self._joining(terms))
        if terms == 1:
            return padded * -(-p.terms // p.lanes) * (TRANSPOSED_VECTOR + level)
        return p.terms * padded * 2 * GATHERED_LANE

    def inner_products(self, tile_rows: int, tile_columns: int) -> float:
        """The cost of tiles of sums in vectors along the terms."""
        p = self.problem
        sums = tile_rows * tile_columns
        tiles = -(-p.rows // tile_rows) * -(-p.columns // tile_columns)
        level = _load_of_terms(min(self._left_bytes, self._right_bytes))
        larger = _load_of_terms(max(self._left_bytes, self._right_bytes)) * max(tile_rows, tile_columns)
        vector = sums + (tile_rows + tile_columns) * (1 + level) / 2
        vector += larger / 2 / max(1, -(-min(p.rows, p.columns) // INNER_PRODUCT_TILE_SIDE))
        return self._cycles(tiles * (-(-p.terms // p.lanes) * vector + TASK_SUMS_START + LANES_SUM * sums), tiles)

    def skinny_inner_products(self) -> float:
        """The cost of skinny inner products."""
        p = self.problem
        tile_rows = balanced_size(p.rows, MAX_ROWS)
        tile_columns = max(1, min(p.columns, tile_sums(p.region.target) // tile_rows))
        row_tiles, column_tiles = -(-p.rows // tile_rows), -(-p.columns // tile_columns)
        sums, blocks = tile_rows * tile_columns, -(-p.terms // (MAX_BLOCK_VECTORS * p.lanes))
        vector = row_tiles * (sums + (tile_rows + tile_columns) / 2)
        prefetches = self._right_bytes > L2_BYTES and row_tiles <= MAX_PREFETCHING_ROW_TILES
        load = _load_of_terms(self._right_bytes) * (PREFETCHED_LOAD if prefetches else 1.0)
        vector += tile_columns * load / 2
        tiles = column_tiles * (-(-p.terms // p.lanes) * vector + row_tiles * blocks * (TILE_START + STORED_SUM * sums))
        tasks = -(-column_tiles // TASK_COLUMN_TILES)
        return self._cycles(tiles + p.rows * p.columns * TRANSPOSED_LANES_SUM, tasks)

    def _cycles(self, operations: float, tasks: int) -> float:
        """The cycles of operations for each element of the batch, which are divided in tasks.

        A dot that is long enough for several threads takes twice as long if it has only one task.
        """
        each = operations * (4 if self.problem.type.is_complex else 1) * OPERATION_CYCLES
        cycles = self.problem.batches * each
        return 2 * cycles if self.problem.batches * tasks == 1 and cycles >= MIN_PARALLEL_CYCLES else cycles
