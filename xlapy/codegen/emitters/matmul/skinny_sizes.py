"""The sizes of a skinny GEMM: its tiles, strips of terms, blocks of terms and columns, and its scratch memory.

Does not depend on the loops (`gemv`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy.codegen.emitters.matmul.micro_kernel import Tile
from xlapy.codegen.emitters.matmul.problem import MatmulProblem
from xlapy.codegen.plan import ImpossibleParameterError, parameter
from xlapy.codegen.target import Target
from xlapy.loops.builder import MAX_SCRATCH_BYTES
from xlapy.loops.reduction_order import CONTRACTION_BLOCK_TERMS, balanced_size
from xlapy.lower.element_types import register_type

BLOCK_MULTIPLE = 8
"""The number of terms of which the terms of a block are a multiple. It is part of the order of additions, and does not
depend on the strips that a machine prefers."""

MIN_COLUMN_RUN_BYTES = 512
"""The smallest number of contiguous bytes that a task reads of each term; shorter runs use memory bandwidth badly."""

TASKS_PER_PROCESSOR = 2
"""The number of blocks of columns for each processor. With more, runs of memory are shorter: four rows by 64 MB of
weights read 0.8 times as much in a second with runs of 2 KB as with runs of 4 KB (benchmarks/products.py)."""

SINGLE_ROW_TASKS_PER_PROCESSOR = 1
"""The same for one row, whose time is that of reading: 1 x 2048 times 2048 x 2048 takes 0.79x the time with runs of
4 KB (benchmarks/products.py)."""

STRIP_TERMS = 32
"""The terms of a strip of several rows if the right operand stays in the level-3 cache: sums are loaded and stored
once for them. Eight rows by 4 MB of weights run at 87% of the limit with 8 terms, at 98% with 32 (in C, on a Zen 4
processor)."""

SHORT_STRIP_TERMS = 8
"""The smallest number of terms of a strip if the right operand comes from memory, where a strip has about as many terms
as rows: it is prefetched while the strip before it is computed. 16 x 4096 times 4096 x 4096 takes 0.91x the time with
strips of 16 terms, 32 rows 0.92x with 32 (benchmarks/products.py)."""

ROW_STRIP_TERMS = 8
"""The terms of a strip of one row, whose time is that of reading; as many terms ahead are prefetched if the right
operand comes from memory. 1 x 4096 times 4096 x 4096 takes 0.66 of the time with 4 terms and a prefetch distance
of 16 (benchmarks/products.py)."""

MIN_ROW_STRIP_FACTORS = 4
"""The smallest number of factors of a strip of one row whose factors are groups of terms: sums are loaded and stored
once for them. 1 x 1024 times 1024 x 1024 in s8 takes 0.91 of the time with strips of 4 instead of 2 groups, and as long
with 8; 1 x 8192 times 8192 x 8192 in s8 takes 0.67 of the time with 4 instead of 8 (benchmarks/products.py)."""

MAX_ROW_VECTORS = 16
"""The largest number of vectors of a tile of one row, as many as a plan may demand."""

MAX_SKINNY_TILE_SUMS = 32
"""The largest number of vectors of sums of a tile of a skinny GEMM or of skinny inner products that a plan may demand,
because its code is unrolled."""

_MAX_TILE_VECTORS = 4


@dataclass(frozen=True, slots=True)
class SkinnyGemmParameters:
    """The tiles and blocks of a skinny GEMM."""

    block_columns: int = parameter(1, MAX_SCRATCH_BYTES)
    """The columns of one task."""
    step_terms: int = parameter(1, CONTRACTION_BLOCK_TERMS)
    """The terms that are added to a tile of sums while it is in registers."""
    tile_rows: int = parameter(1, 16)
    """The rows of a tile."""
    tile_vectors: int = parameter(1, 16)
    """The vectors of columns of a tile."""
    prefetch_terms: int = parameter(0, CONTRACTION_BLOCK_TERMS)
    """How many terms ahead the right operand is prefetched; 0: not at all."""


def skinny_gemm_parameters(problem: MatmulProblem) -> SkinnyGemmParameters:
    """The preferred sizes for a problem."""
    target = problem.region.target
    sum_rows = _sum_rows(problem)
    is_cached = problem.batches * problem.right_bytes <= target.l3_bytes // 2  # other data use the other half
    tile = skinny_tile(problem)
    whole = _vectors_of_whole_row(problem)
    if whole > tile.vectors:
        tile, terms, ahead = Tile(tile.rows, whole, tile.lanes), CONTRACTION_BLOCK_TERMS, 0
    elif problem.rows == 1:
        terms = max(MIN_ROW_STRIP_FACTORS, ROW_STRIP_TERMS // problem.terms_per_factor)
        ahead = 0 if is_cached else ROW_STRIP_TERMS
    else:
        few = max(SHORT_STRIP_TERMS, 1 << (sum_rows - 1).bit_length())
        terms = STRIP_TERMS if is_cached else min(STRIP_TERMS, few)
        ahead = terms // problem.terms_per_factor
    return SkinnyGemmParameters(_block_columns(problem, tile), terms, tile.rows, tile.vectors, ahead)


def _vectors_of_whole_row(problem: MatmulProblem) -> int:
    """The vectors of a tile that has all whole vectors of columns of one row, so that the right operand is read in the
    order of memory while all sums stay in registers; 0 if they do not, or if columns must be divided among processors.

    1 x 65536 times 65536 x 256 takes 0.35 of the time in such tiles, 1 x 4096 times 4096 x 256 0.83 of it
    (benchmarks/products.py).
    """
    target, together = problem.region.target, problem.columns_per_load
    vectors = problem.columns // _lanes(problem) // together * together
    if problem.rows > 1 or problem.batches < SINGLE_ROW_TASKS_PER_PROCESSOR * target.processors:
        return 0
    return vectors if vectors <= MAX_ROW_VECTORS and vectors * _sum_rows(problem) <= tile_sums(target) else 0


def tile_sums(target: Target) -> int:
    """The vector registers that hold the sums of a tile of few rows: three quarters; factors take the others."""
    return target.vector_registers * 3 // 4


def _sum_rows(problem: MatmulProblem) -> int:
    """The rows of sums: the last one belongs to the offset of the left operand, if there is one."""
    return problem.rows + (problem.left_offset() is not None)


def _lanes(problem: MatmulProblem) -> int:
    return min(problem.lanes, 1 << (problem.columns - 1).bit_length())


def skinny_tile(problem: MatmulProblem) -> Tile:
    """The preferred tile: as many vectors of columns as registers and columns allow, a power of two, for few rows."""
    sums, lanes = tile_sums(problem.region.target), _lanes(problem)
    rows = balanced_size(_sum_rows(problem), sums // max(2, problem.columns_per_load))
    vectors = max(1, min(_MAX_TILE_VECTORS, sums // rows, problem.columns // lanes))
    return Tile(rows, 1 << (vectors.bit_length() - 1), lanes)


def _block_columns(problem: MatmulProblem, tile: Tile) -> int:
    """The columns of a task: few enough for all processors, and for the sums to fit into a part of the level-2
    cache."""
    target, size = problem.region.target, register_type(problem.type).byte_size
    per_processor = SINGLE_ROW_TASKS_PER_PROCESSOR if problem.rows == 1 else TASKS_PER_PROCESSOR
    share = problem.batches * problem.columns // (per_processor * target.processors)
    most = target.l2_bytes // 8 // (size * _sum_rows(problem))
    width = max(MIN_COLUMN_RUN_BYTES * problem.terms_per_factor // size, min(share, most))
    return -(-min(width, problem.columns) // tile.columns) * tile.columns


class SkinnySizes:
    """The sizes of blocks and of the scratch memory, in elements. The terms are `blocks` blocks of `block_terms`, the
    last one of which may have fewer, and `rest` more terms."""

    def __init__(self, problem: MatmulProblem, parameters: SkinnyGemmParameters) -> None:
        size = register_type(problem.type).byte_size
        line = max(1, problem.region.target.cache_line_bytes // size)
        self.tile = Tile(parameters.tile_rows, parameters.tile_vectors, _lanes(problem))
        self.sum_rows = _sum_rows(problem)
        wanted = problem.columns_per_load
        self.columns_per_load = wanted if self.tile.vectors % wanted == 0 else 1
        """The number of vectors of sums of a tile whose columns alternate, because their factors are loaded together:
        with two, the first vector has every even column, and the second one every odd column."""
        self.rest = problem.terms % BLOCK_MULTIPLE
        self.whole_terms = problem.terms - self.rest
        units = self.whole_terms // BLOCK_MULTIPLE
        block_units = balanced_size(units, CONTRACTION_BLOCK_TERMS // BLOCK_MULTIPLE) if units else 1
        self.block_terms = block_units * BLOCK_MULTIPLE
        self.blocks = -(-units // block_units)
        # the padding keeps rows from mapping to the same cache set
        self.left_pitch = self.block_terms + line
        self.left = self.sum_rows * self.left_pitch
        self.pitch = parameters.block_columns + line
        self.sums = self.sum_rows * self.pitch
        self.totals = problem.rows * self.pitch if self.blocks + bool(self.rest) > 1 else 0
        ordered = self.pitch if self.columns_per_load > 1 else 0
        self.scratch_bytes = (self.sums + self.totals + self.left + ordered) * size


def check_skinny_gemm(problem: MatmulProblem, parameters: SkinnyGemmParameters) -> None:
    """Raises `ImpossibleParameterError` for sizes that the kernel cannot have."""
    sums = parameters.tile_rows * parameters.tile_vectors
    if sums > MAX_SKINNY_TILE_SUMS:
        raise ImpossibleParameterError("tile_rows", f"a tile of {sums} vectors is larger than {MAX_SKINNY_TILE_SUMS}")
    sizes = SkinnySizes(problem, parameters)
    if parameters.block_columns % sizes.tile.columns:
        raise ImpossibleParameterError(
            "block_columns", f"it is {parameters.block_columns}, but must be a multiple of {sizes.tile.columns}"
        )
    if sizes.scratch_bytes > MAX_SCRATCH_BYTES:
        raise ImpossibleParameterError(
            "block_columns", f"sums of {sizes.scratch_bytes} bytes exceed {MAX_SCRATCH_BYTES}"
        )
