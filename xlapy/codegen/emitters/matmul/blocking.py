"""The blocks of a packed GEMM, from the sizes of the problem and the caches of the target.

A task computes a block of MC rows and of NC * `column_blocks` columns of the result. It packs MC x KC elements of the
left operand for all its columns at once; they stay in the level-2 cache. It packs KC x NC elements of the right operand
at a time; one panel of them, KC x NR, stays in the level-1 cache while it meets all rows.

Example, 1024 x 1024 f32 on two processors with 1 MB of level-2 cache: 4 tasks with 512 rows and 512 columns each, the
columns in blocks of 128.

No choice of this module affects the bits of a result.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xlapy.codegen.emitters.matmul.micro_kernel import Tile
from xlapy.codegen.target import Target
from xlapy.loops.builder import MAX_SCRATCH_BYTES
from xlapy.loops.reduction_order import balanced_size

NC_BYTES = 512
"""The largest width in bytes of a block of the right operand (NC): one row of a packed block."""

MAX_ACCUMULATED_ROWS = 256
"""The largest number of rows of a block (MC) whose sums are accumulated in scratch memory. Such a block has NC
columns."""

MIN_L2_BYTES_OF_WIDE_BLOCKS = 1 << 20
"""The smallest level-2 cache with which a block whose sums are accumulated in scratch memory may have twice `NC_BYTES`:
256 rows and columns then take three quarters of it. Blocks of 128 rows and columns pack both operands twice as often:
1024 x 1024 times 1024 x 1024 of bf16 takes 1.03 times as long (benchmarks/products.py)."""

MAX_LEFT_BYTES = MAX_SCRATCH_BYTES // 2
"""The largest size in bytes of a packed block of the left operand. The other half of the scratch memory is for the
right operand."""

MAX_LEFT_BYTES_BESIDE_SUMS = MAX_SCRATCH_BYTES * 3 // 8
"""The largest size in bytes of a packed block of the left operand if there are sums in scratch memory, too."""

PACKING_COST = 40
"""The cost of packing an element, in multiply-adds of one element. A core with vectors of 64 bytes executes 40 of f32
in 1.3 cycles; 1 to 2 were measured with operands in the level-3 cache and in memory (benchmarks/products.py)."""

EXPECTED_IMBALANCE = 0.1
"""The average part of a task during which other processors wait for the last one."""

_FACTORS = (*range(1, 9), 12, 16, 24, 32, 48, 64)


@dataclass(frozen=True, slots=True)
class Blocking:
    """The sizes of the blocks of the result, in tiles."""

    mc_tiles: int
    """Tiles along the rows of a task (MC / MR)."""
    nc_tiles: int
    """Tiles along the columns of a block of the right operand (NC / NR)."""
    column_blocks: int
    """Blocks of the right operand of one task."""


def choose_blocking(
    target: Target,
    tile: Tile,
    element_bytes: int,
    size: tuple[int, int, int],
    row_bytes: int,
    *,
    in_scratch: bool,
    packing_cost: float = PACKING_COST,
) -> Blocking:
    """Chooses the blocks that take the least time. size: batches, rows and columns of the result; row_bytes: the size
    of a packed row of the left operand, which holds KC terms.

    in_scratch: whether the sums of a task are accumulated in scratch memory. packing_cost: the cost of packing an
    element, in multiply-adds.
    """
    batches, rows, columns = size
    row_tiles, column_tiles = -(-rows // tile.rows), -(-columns // tile.columns)
    widths = [balanced_size(column_tiles, max(1, NC_BYTES // element_bytes // tile.columns))]
    most_rows = min(target.l2_bytes // 2, MAX_LEFT_BYTES_BESIDE_SUMS if in_scratch else MAX_LEFT_BYTES) // row_bytes
    if in_scratch:
        most_rows = min(most_rows, MAX_ACCUMULATED_ROWS)
        if target.l2_bytes >= MIN_L2_BYTES_OF_WIDE_BLOCKS:
            widths.append(balanced_size(column_tiles, max(1, 2 * NC_BYTES // element_bytes // tile.columns)))

    def cost(blocking: Blocking) -> float:
        """The multiply-adds of the busiest processor, where packing an element counts as several."""
        task_rows, task_columns = blocking.mc_tiles * tile.rows, blocking.nc_tiles * blocking.column_blocks
        task_columns *= tile.columns
        tasks = batches * -(-row_tiles // blocking.mc_tiles) * -(-columns // task_columns)
        work = task_rows * task_columns + packing_cost * (task_rows + task_columns)
        return (-(-tasks // target.processors) + EXPECTED_IMBALANCE) * work

    candidates = (
        Blocking(mc_tiles, nc_tiles, column_blocks)
        for nc_tiles in widths
        for mc_tiles in _pieces(row_tiles, max(1, most_rows // tile.rows))
        for column_blocks in ([1] if in_scratch else _pieces(-(-column_tiles // nc_tiles), column_tiles))
    )
    return min(candidates, key=cost)


def _pieces(size: int, most: int) -> Iterator[int]:
    """Yields sizes of about equal pieces of at most `most`: of the fewest pieces, and of small multiples of as many."""
    fewest = -(-size // most)
    yield from sorted({-(-size // (fewest * factor)) for factor in _FACTORS}, reverse=True)
