"""Prefetches the block of the right operand that a packed GEMM packs next, some terms with every tile.

Without it, packing waits for each run of the operand that is not in the level-2 cache: 64 x 1024 times 1024 x 4096 of
f32 takes 1.08 times as long (benchmarks/products.py).
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy.codegen.emitters.matmul.problem import MatmulProblem
from xlapy.loops import Affine, Location, Value

MAX_TERMS_PER_TILE = 16
"""The largest number of terms that are prefetched with a tile; with more, tiles are too few to hide them."""


@dataclass(frozen=True, slots=True)
class RightPrefetch:
    """The blocks of a problem: `width` columns of `terms` terms each.

    terms_per_tile: the terms of a block that are prefetched with each tile of the block before.
    """

    problem: MatmulProblem
    width: int
    terms: int
    terms_per_tile: int

    def block_after(
        self, batch: Affine, position: Affine, blocks: int | Value, first_column: Affine, term: Affine
    ) -> tuple[Affine, Affine] | None:
        """Returns the first term and column of the block that is packed after a block; None if its rows are not
        contiguous in memory, or too many for the tiles of a block.

        position: the number of the block among the `blocks` blocks of columns of a task, the first of which begins at
        `first_column`. term: the first term of the block.
        """
        builder, (columns, _) = self.problem.builder, self.problem.right_strides()
        has_rows = columns == 1 and self.problem.outer == 1 and self.problem.columns >= self.width
        if not has_rows or self.terms_per_tile > MAX_TERMS_PER_TILE:
            return None
        if not self.problem.right_locations(batch, term, first_column):
            return None
        last = builder.value_of((Affine((), blocks) if isinstance(blocks, int) else Affine.of(blocks)) - 1)
        is_last = builder.compare("eq", builder.value_of(position), last)
        following = builder.value_of(first_column + (position + 1) * self.width)
        next_column = builder.select(is_last, builder.value_of(first_column), following)
        next_term = builder.select(is_last, builder.value_of(term + self.terms), builder.value_of(term))
        last_term = max(0, self.problem.inner - self.terms)
        return builder.clamped(next_term, last_term), builder.clamped(next_column, self.problem.columns - self.width)

    def prefetch(self, batch: Affine, block: tuple[Affine, Affine], number: Affine) -> None:
        """Prefetches some terms of a block. number: of the tile in the block before."""
        builder, line_bytes = self.problem.builder, self.problem.region.target.cache_line_bytes
        term, column = block
        with builder.loop(self.terms_per_tile) as offset:
            place = builder.value_of(term + number * self.terms_per_tile + offset)
            for location in self.problem.right_locations(batch, Affine.of(place), column):
                for begin in range(0, self.width, max(1, line_bytes // location.buffer.type.byte_size)):
                    builder.prefetch(Location(location.buffer, location.offset + begin))
