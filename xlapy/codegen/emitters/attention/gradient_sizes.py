"""The blocks and tiles of a gradient of attention, and the sizes of its scratch memory, in elements.

The number of queries of a block is part of the order of additions, so that it follows from the shapes alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy.base.element_types import F32
from xlapy.codegen.emitters.attention.gradient_problem import GradientProblem, ProductDot, ScoreDot
from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.micro_kernel import Tile, choose_micro_tile
from xlapy.codegen.plan import ImpossibleParameterError, parameter
from xlapy.codegen.region import kernel_builder
from xlapy.loops import I64, Affine, Builder, Value
from xlapy.loops.builder import MAX_SCRATCH_BYTES
from xlapy.loops.ir import tile_shape
from xlapy.loops.reduction_order import balanced_size
from xlapy.lower import register_type

KEYS_PER_BLOCK = 128
"""The largest number of products of weights and keys that are added up in registers."""

BLOCK_QUERIES = (64, 32, 16)
"""The numbers of queries of a block, of which the first is preferred whose scores fit: multiples of the lanes of any
vector."""


@dataclass(frozen=True, slots=True)
class GradientParameters:
    """The blocks of queries."""

    block_queries: int = parameter(1)
    """The queries whose scores a task computes at a time: 64, 32 or 16."""


class GradientSizes:
    """The tiles, and the sizes of the scratch memory."""

    def __init__(self, problem: GradientProblem, parameters: GradientParameters) -> None:
        self._target = problem.region.target
        self._builder = kernel_builder(problem.region.name, self._target)
        self.block, length = parameters.block_queries, problem.length
        self._length = length
        self.score_tile = self._tile_of_keys(
            choose_micro_tile(self._target, self._builder, F32, self.block, self.block)
        )
        self.key_block = balanced_size(length, KEYS_PER_BLOCK)
        self.padded_keys = length + max(self.score_tile.rows, *(self.key_tile(p).rows for p in problem.over_queries), 0)
        """The keys of which scratch memory holds scores: a tile may end beyond the last one."""
        self.scores = self.padded_keys * self.block
        self.cached = length * self.block
        """The size of cached values that do not replace scores."""
        cached = [value.shape.element_type for value, replaced in problem.cached.items() if replaced is None]
        self.scratch_bytes = F32.byte_size * (
            len(problem.scores) * self.scores
            + sum(self.loaded(dot) + self.packed(dot) for dot in problem.scores)
            + sum(self.sums(product) for product in problem.over_keys)
        ) + self.cached * sum(register_type(t).byte_size for t in cached)

    # -- scores

    def factors(self, dot: ScoreDot) -> int:
        """The number of factors of a score."""
        return -(-dot.terms // dot.factors.terms)

    def _padded_factors(self, dot: ScoreDot) -> int:
        _, side = tile_shape(self._builder.vector_bytes, F32.byte_size)  # a transposition writes whole tiles
        return -(-self.factors(dot) // side) * side

    def term_pitch(self, dot: ScoreDot) -> int:
        """The factors from one query to the next one, before they are transposed."""
        return self._padded_factors(dot) + self._target.cache_line_bytes // 4

    def loaded(self, dot: ScoreDot) -> int:
        """The size of the queries before they are transposed."""
        return self.block * self.term_pitch(dot)

    def packed(self, dot: ScoreDot) -> int:
        """The size of the queries after they are transposed."""
        return self.block * self._padded_factors(dot)

    def vector_width(self, builder: Builder, dot: ScoreDot, extent: int) -> int:
        """The width of vectors along the factors of a score."""
        return min(builder.lanes(register_type(dot.factors.packed_type)), 1 << (extent - 1).bit_length())

    # -- products

    def row_tile(self, product: ProductDot) -> Tile:
        """The tile of a product: queries and columns."""
        return choose_micro_tile(self._target, self._builder, product.type, self.block, product.width)

    def key_tile(self, product: ProductDot) -> Tile:
        """The tile of a product: keys and columns."""
        return self._tile_of_keys(self.row_tile(product))

    def _tile_of_keys(self, tile: Tile) -> Tile:
        """A tile of keys with the columns of a tile of queries, which divide the queries of a block, and the pitch."""
        return Tile(balanced_size(self._length, tile.rows), tile.vectors, tile.lanes)

    def pitch(self, product: ProductDot) -> int:
        """The columns of a product, rounded up to whole tiles."""
        columns = self.row_tile(product).columns
        return -(-product.width // columns) * columns

    def sums(self, product: ProductDot) -> int:
        """The size of the sums of a product over keys."""
        tile = self.row_tile(product)
        return -(-self.block // tile.rows) * tile.rows * self.pitch(product)


def preferred_block(problem: GradientProblem) -> int | None:
    """The preferred number of queries of a block; None if the scores of the smallest one are too large."""
    for block in BLOCK_QUERIES:
        if GradientSizes(problem, GradientParameters(block)).scratch_bytes <= MAX_SCRATCH_BYTES:
            return block
    return None


def check_parameters(problem: GradientProblem, parameters: GradientParameters) -> None:
    """Raises `ImpossibleParameterError` for blocks that the kernel cannot have."""
    block = parameters.block_queries
    if block not in BLOCK_QUERIES:
        raise ImpossibleParameterError("block_queries", f"it is {block}, but must be 64, 32 or 16")
    size = GradientSizes(problem, parameters).scratch_bytes
    if size > MAX_SCRATCH_BYTES:
        raise ImpossibleParameterError("block_queries", f"scores of {size} bytes exceed {MAX_SCRATCH_BYTES}")


# -- keys before an end that is known at run time


def pieces_until(builder: Builder, end: int | Value, piece: int) -> int | Value:
    """The number of pieces of keys that begin before `end`."""
    if isinstance(end, int):
        return -(-end // piece)
    return builder.value_of(builder.quotient(Affine.of(end) + (piece - 1), piece))


def extent_until(builder: Builder, first: Affine, end: int | Value, piece: int) -> int | Value:
    """The number of keys before `end` in the piece that begins at `first`."""
    if isinstance(end, int):
        return block_extent(builder, first, end, piece)
    extent = builder.binary("smin", builder.value_of(Affine.of(end) - first), builder.constant(I64, piece))
    extent.range = (1, piece)
    return extent
