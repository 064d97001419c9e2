"""Emits attention: scores, softmax and mixing of a block of queries, with the scores in the cache.

    for each batch element and block of queries, a task
      pack the queries
      for each panel of keys that the mask does not hide: pack it; tiles of scores = queries * keys
      for each query: the row reductions; its weights replace its scores
      for each block of keys that has weights: pack its values; sums += weights * values
      store the sums, by way of the epilogue

A block of keys whose weights are all zero contributes nothing, exactly, if its values are finite. The order of the
additions follows from the shapes alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from xlapy.base.element_types import PrimitiveType
from xlapy.codegen.emitters.attention.problem import AttentionProblem, DotSide
from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.finite import all_finite
from xlapy.codegen.emitters.matmul.micro_kernel import (
    Tile,
    add_elements,
    choose_tile,
    clamped_position,
    emit_micro_kernel,
    in_bounds,
)
from xlapy.codegen.emitters.row_reduction import RowReductionEmitter
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.epilogue import Epilogue, moved_index
from xlapy.codegen.plan import EmittedKernel
from xlapy.codegen.region import kernel_builder, operand_source, result_buffer
from xlapy.loops import I1, Affine, AxisKind, Builder, Value
from xlapy.loops.builder import MAX_SCRATCH_BYTES
from xlapy.loops.ir import tile_shape
from xlapy.loops.reduction_order import balanced_size
from xlapy.lower import Element, Lowering, Source, storage_type, store_element
from xlapy.lower.contraction import multiply_add, rounded_sum, zero_element
from xlapy.lower.core import Index, delinear, linear
from xlapy.lower.element_types import register_type
from xlapy.lower.elementwise import convert_element
from xlapy.opcodes.contraction import DotAttributes

KEYS_PER_BLOCK = 128
"""The number of keys whose products are added up in registers."""

MIN_ROWS = 8
"""The smallest preferred number of queries of a block, even if their scores exceed their part of the cache."""


def attention_kernel(problem: AttentionProblem, block_queries: int) -> EmittedKernel:
    """Returns the kernel of attention, and the work of one task."""
    return _AttentionKernel(problem, block_queries).kernel()


def most_queries(problem: AttentionProblem) -> int:
    """The largest number of queries of a block whose scores fit into scratch memory."""
    return MAX_SCRATCH_BYTES // 4 // (4 * problem.length)


def queries_per_block(problem: AttentionProblem) -> int:
    """The number of queries whose scores fit into a quarter of the level-2 cache, but at least `MIN_ROWS`."""
    rows = max(MIN_ROWS, problem.region.target.l2_bytes // 4 // (4 * problem.length))
    return balanced_size(problem.row_count, min(rows, most_queries(problem)))


class _Factors:
    """The arithmetic of the micro-kernel."""

    def __init__(self, builder: Builder, t: PrimitiveType) -> None:
        self.builder, self.type = builder, t

    def multiply_add(self, left: Element, right: Element, total: Element) -> Element:
        return multiply_add(self.builder, self.type, left, right, total)


class _AttentionKernel:
    def __init__(self, problem: AttentionProblem, block_queries: int) -> None:
        self.problem, self.rows = problem, block_queries
        region, target = problem.region, problem.region.target
        self.builder = builder = kernel_builder(region.name, target)
        self.sources = {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(region.operands)}
        outputs = [result_buffer(builder, result.shape, f"out{n}") for n, result in enumerate(region.results)]
        self.lowering = Lowering(builder, self.sources)
        self.epilogue = Epilogue(region, problem.mixing, builder, self.sources, outputs)
        self.left_free, self.outer = problem.left_free, problem.outer_dimensions
        self.row_dimension, self.row_count = problem.row_dimension, problem.row_count
        length, width = problem.length, problem.width
        self.score_tile = choose_tile(target, builder, problem.score_type, self.rows, length)
        self.mixing_tile = choose_tile(target, builder, problem.mixing_type, self.rows, width)
        rows = max(-(-self.rows // tile.rows) * tile.rows for tile in (self.score_tile, self.mixing_tile))
        self.pitch = -(-length // self.score_tile.columns) * self.score_tile.columns + target.cache_line_bytes // 4
        _, side = tile_shape(builder.vector_bytes, 4)  # a transposition writes whole tiles
        terms = -(-problem.terms // side) * side
        self.term_pitch = terms + target.cache_line_bytes // 4
        self.block = balanced_size(length, KEYS_PER_BLOCK)
        self.panels = -(-width // self.mixing_tile.columns)
        self.queries = ScratchArray(builder, "queries", problem.score_type, rows * self.term_pitch)
        columns = self.score_tile.columns
        self.loaded_keys = ScratchArray(builder, "loaded_keys", problem.score_type, columns * self.term_pitch)
        self.keys = ScratchArray(builder, "keys", problem.score_type, terms * columns)
        stored = storage_type(problem.scores.shape.element_type)
        self.scores = builder.scratch("scores", stored, rows * self.pitch)
        weight_type = register_type(problem.mixing_type)
        self.weights = self.scores
        if stored is not weight_type:
            self.weights = builder.scratch("weights", weight_type, rows * self.pitch)
        values = self.panels * self.block * self.mixing_tile.columns
        self.values = ScratchArray(builder, "values", problem.mixing_type, values)
        self.sums = ScratchArray(builder, "sums", problem.mixing_type, rows * self.panels * self.mixing_tile.columns)
        self.size = rows * self.panels * self.mixing_tile.columns

    def kernel(self) -> EmittedKernel:
        builder, problem = self.builder, self.problem
        sizes = [problem.scores.shape.dimensions[d] for d in self.outer]
        blocks = -(-self.row_count // self.rows)
        with builder.loop(math.prod(sizes) * blocks, AxisKind.PARALLEL) as task:
            *outer, block = delinear(builder, task, (*sizes, blocks))
            self.at_outer, self.first = tuple(outer), block * self.rows
            self.count = block_extent(builder, self.first, self.row_count, self.rows)
            self.pack_queries()
            self.compute_scores()
            self.compute_weights()
            self.mix()
            self.store()
        return builder.kernel, self.rows * problem.length * (problem.terms + problem.width)

    # -- indices

    def row_position(self, row: Affine) -> Affine:
        """The position of a row of the block, or the last one if it is beyond the end."""
        return clamped_position(self.builder, self.first + row, self.row_count)

    def score_index(self, row: Affine, key: Affine) -> Index:
        """The index of a score, given its row in the block."""
        index: list[Affine] = [Affine()] * self.problem.scores.shape.rank
        for dimension, position in zip(self.outer, self.at_outer, strict=True):
            index[dimension] = position
        index[self.row_dimension], index[-1] = self.row_position(row), key
        return tuple(index)

    def row_of_plan(self, row: Affine) -> Affine:
        """The number of a row of the block among all rows of the reductions."""
        builder, problem = self.builder, self.problem
        index = moved_index(builder, problem.score_path, self.score_index(row, Affine()))
        last = problem.score_path[-1] if problem.score_path else problem.scores
        return builder.quotient(linear(index, last.shape.dimensions), problem.length)

    def weight_index(self, row: Affine) -> Index:
        """The index of the first weight of a row in the operand of the second dot."""
        problem = self.problem
        position = self.row_of_plan(row) * problem.length
        index = delinear(self.builder, position, problem.weights.shape.dimensions)
        return moved_index(self.builder, problem.weight_path, index)

    def query_element(self, row: Affine, term: Affine) -> Element:
        problem = self.problem
        index = self.score_index(row, Affine())
        batches = len(problem.queries.batch)
        places = dict(zip(problem.queries.batch, index[:batches], strict=True))
        places |= dict(zip(self.left_free, index[batches : batches + len(self.left_free)], strict=True))
        return self.factor(problem.queries, places | {problem.queries.contracted[0]: term}, problem.score_type)

    def key_element(self, key: Affine, term: Affine) -> Element:
        side, index = self.problem.keys, self.score_index(Affine(), Affine())
        places = dict(zip(side.batch, index[: len(side.batch)], strict=True))
        return self.factor(side, places | {side.free[0]: key, side.contracted[0]: term}, self.problem.score_type)

    def value_element(self, key: Affine, column: Affine) -> Element:
        side, weights = self.problem.values, self.weight_index(Affine())
        batch = [weights[d] for d in self.problem.weight_side.batch]
        places = dict(zip(side.batch, batch, strict=True)) | {side.contracted[0]: key, side.free[0]: column}
        return self.factor(side, places, self.problem.mixing_type)

    def factor(self, side: DotSide, places: dict[int, Affine], t: PrimitiveType) -> Element:
        """An element of an operand of a dot in the type of the sums."""
        operand = side.operand
        index = tuple(places.get(d, Affine()) for d in range(operand.shape.rank))
        return convert_element(self.builder, self.lowering.element(operand, index), operand.shape.element_type, t)

    def result_index(self, row: Affine, column: Affine) -> Index:
        """The index of an element in the second dot."""
        problem, weights = self.problem, self.weight_index(row)
        attrs: DotAttributes = problem.mixing.attributes_as(DotAttributes)
        lhs, rhs = problem.mixing.operands
        batch = [weights[d] for d in problem.weight_side.batch]
        free: list[Affine] = []
        frees = attrs.lhs_free_dims(lhs.shape.rank), attrs.rhs_free_dims(rhs.shape.rank)
        for operand, dimensions in zip((lhs, rhs), frees, strict=True):
            if operand is problem.weight_side.operand:
                free += [weights[d] for d in dimensions]
            else:
                free += [column if d == problem.values.free[0] else Affine() for d in dimensions]
        return (*batch, *free)

    # -- scores

    def pack_queries(self) -> None:
        builder, problem = self.builder, self.problem
        width = self.vector_width(problem.score_type, problem.terms)
        with builder.loop(self.tiles(self.score_tile)) as tile, builder.loop(self.score_tile.rows) as number:
            row = tile * self.score_tile.rows + number
            with builder.loop(problem.terms, AxisKind.VECTOR, width=width) as term:
                self.queries.store(row * self.term_pitch + term, self.query_element(row, term))

    def compute_scores(self) -> None:
        builder, tile = self.builder, self.score_tile
        with builder.loop(-(-self.problem.length // tile.columns)) as panel:
            first = panel * tile.columns
            needed = self.is_panel_needed(first)
            with nullcontext() if needed is None else builder.branch(needed):
                self.compute_panel(first)

    def compute_panel(self, first: Affine) -> None:
        """Computes the scores of a panel of keys for all queries of the block."""
        builder, problem, tile = self.builder, self.problem, self.score_tile
        width = self.vector_width(problem.score_type, problem.terms)
        with builder.loop(tile.columns) as number:
            key = clamped_position(builder, first + number, problem.length)
            with builder.loop(problem.terms, AxisKind.VECTOR, width=width) as term:
                self.loaded_keys.store(number * self.term_pitch + term, self.key_element(key, term))
        extents = tile.columns, problem.terms
        self.loaded_keys.transpose(Affine(), self.term_pitch, self.keys, Affine(), tile.columns, extents)

        def left(row: Affine, term: Index) -> Element:
            return self.queries.load(row * self.term_pitch + term[0])

        def right(lane: Affine, term: Index, vector: int) -> Element:
            return self.keys.load(term[0] * tile.columns + vector * tile.lanes + lane)

        def store(row: Affine, column: Affine, total: Element) -> None:
            t = problem.scores.shape.element_type
            element = self.finished(total, problem.score_type, t)
            store_element(builder, self.scores, row * self.pitch + first + column, element, t)

        self.multiply(tile, problem.score_type, problem.terms, left, right, store)

    def is_panel_needed(self, first: Affine) -> Value | None:
        """Whether the mask keeps any score of a panel of keys; None if there is no mask."""
        mask, problem, builder, tile = self.problem.mask, self.problem, self.builder, self.score_tile
        if mask is None:
            return None
        no = builder.constant(I1, 0)

        def of_row(row: Affine, found: Sequence[Value]) -> list[Value]:
            start = self.row_of_plan(row) * problem.length

            def of_key(number: Affine, kept: Sequence[Value]) -> list[Value]:
                key = clamped_position(builder, first + number, problem.length)
                index = delinear(builder, start + key, mask.predicate.shape.dimensions)
                value = self.lowering.value(mask.predicate, index)
                return [builder.binary("or", kept[0], value if mask.kept else builder.logical_not(value))]

            return self.any_of(tile.columns, tile.lanes, of_key, found[0])

        (result,) = builder.reduce(self.count, [no], of_row)
        return result

    def any_of(
        self, extent: int, width: int, body: Callable[[Affine, Sequence[Value]], list[Value]], start: Value
    ) -> list[Value]:
        builder = self.builder
        return builder.reduce(
            extent,
            [start],
            body,
            kind=AxisKind.VECTOR,
            width=width,
            identities=[builder.constant(I1, 0)],
            combine=lambda a, b: [builder.binary("or", a[0], b[0])],
        )

    # -- weights

    def compute_weights(self) -> None:
        builder, problem = self.builder, self.problem
        with builder.loop(self.count) as row:
            index = self.score_index(row, Affine())
            start = linear(index, problem.scores.shape.dimensions) - row * self.pitch
            sources = self.sources | {problem.scores: Source(self.scores, problem.scores.shape, start)}
            emitter = RowReductionEmitter(builder, problem.plan, sources)
            at = self.row_of_plan(row)
            for sweep in problem.plan.sweeps:
                sweep.results.clear()
                if sweep.reductions or sweep.cached:
                    emitter.sweep(at, sweep, {})
            with builder.loop(problem.length, AxisKind.VECTOR, width=emitter.width) as key:
                position = emitter.index(problem.weights, at * problem.length + key)
                element = emitter.lowering.element(problem.weights, position)
                t = problem.weights.shape.element_type
                converted = convert_element(builder, element, t, problem.mixing_type)
                assert isinstance(converted, Value)
                builder.store(self.weights, row * self.pitch + key, converted)

    # -- mixing

    def mix(self) -> None:
        """Adds up the products of the weights and the values, one block of keys after the other."""
        builder, problem, tile = self.builder, self.problem, self.mixing_tile
        zero = zero_element(builder, problem.mixing_type)
        with builder.loop(self.size, AxisKind.VECTOR, width=tile.lanes) as position:
            self.sums.store(position, zero)
        with builder.loop(-(-problem.length // self.block)) as block:
            first = block * self.block
            count = block_extent(builder, first, problem.length, self.block)
            with builder.branch(self.is_block_needed(first)):
                self.mix_block(first, count)

    def is_block_needed(self, first: Affine) -> Value:
        """Whether any weight of a block of keys is not zero, or any value not finite."""
        builder, problem = self.builder, self.problem
        zero = builder.zero(self.weights.type)
        width = self.vector_width(problem.mixing_type, self.block)

        def of_row(row: Affine, found: Sequence[Value]) -> list[Value]:
            def of_key(key: Affine, nonzero: Sequence[Value]) -> list[Value]:
                mask = in_bounds(self.lowering, first + key, problem.length, self.block)
                weight = builder.load(self.weights, row * self.pitch + first + key, mask)  # zero beyond the end
                return [builder.binary("or", nonzero[0], builder.compare("une", weight, zero))]

            return self.any_of(self.block, width, of_key, found[0])

        (nonzero,) = builder.reduce(self.count, [builder.constant(I1, 0)], of_row)

        def value(number: Affine, column: Affine) -> Element:
            key = clamped_position(builder, first + number, problem.length)
            return self.value_element(key, column)

        finite = all_finite(builder, problem.mixing_type, value, (self.block, problem.width))
        return builder.binary("or", nonzero, builder.logical_not(finite))

    def mix_block(self, first: Affine, count: int | Value) -> None:
        builder, problem, tile = self.builder, self.problem, self.mixing_tile
        panel_size = self.block * tile.columns
        with (
            builder.loop(count) as number,
            builder.loop(self.panels) as panel,
            builder.loop(tile.lanes, AxisKind.VECTOR, width=tile.lanes) as lane,
        ):
            for vector in range(tile.vectors):
                inner = lane + vector * tile.lanes
                column = panel * tile.columns + inner
                mask = in_bounds(self.lowering, column, problem.width, tile.columns)
                if mask is None:
                    element = self.value_element(first + number, column)
                else:
                    with self.lowering.where(mask):
                        element = self.value_element(first + number, column)
                self.values.store(panel * panel_size + number * tile.columns + inner, element)
        with builder.loop(self.panels) as panel:

            def left(row: Affine, term: Index) -> Element:
                return builder.load(self.weights, row * self.pitch + first + term[0])

            def right(lane: Affine, term: Index, vector: int) -> Element:
                return self.values.load(panel * panel_size + term[0] * tile.columns + vector * tile.lanes + lane)

            def store(row: Affine, column: Affine, total: Element) -> None:
                offset = self.sum_offset(row, panel * tile.columns + column)
                self.sums.store(offset, add_elements(builder, self.sums.load(offset), total))

            self.multiply(tile, problem.mixing_type, count, left, right, store)

    def sum_offset(self, row: Affine, column: Affine) -> Affine:
        return row * (self.panels * self.mixing_tile.columns) + column

    def store(self) -> None:
        """Stores the sums of the block."""
        builder, problem = self.builder, self.problem
        with (
            builder.loop(self.count) as row,
            builder.loop(problem.width, AxisKind.VECTOR, width=self.mixing_tile.lanes) as column,
        ):
            total = self.sums.load(self.sum_offset(row, column))
            element = self.finished(total, problem.mixing_type, problem.mixing.shape.element_type)
            self.epilogue.store(self.result_index(row, column), element, None)

    # -- tiles

    def multiply(
        self,
        tile: Tile,
        t: PrimitiveType,
        terms: int | Value,
        left: Callable[[Affine, Index], Element],
        right: Callable[[Affine, Index, int], Element],
        store: Callable[[Affine, Affine, Element], None],
    ) -> None:
        """Computes a panel of columns for all tiles of rows of the block; `store(row, column, sum)` takes the sums."""
        builder, factors = self.builder, _Factors(self.builder, t)
        with (
            builder.loop(self.tiles(tile)) as number,
            builder.loop(tile.lanes, AxisKind.VECTOR, width=tile.lanes) as lane,
        ):
            first = number * tile.rows
            sums = emit_micro_kernel(
                factors,
                tile,
                [terms],
                lambda term, row: left(first + row, term),
                lambda term, vector: right(lane, term, vector),
            )
            for row, totals in enumerate(sums):
                for vector, total in enumerate(totals):
                    store(first + row, lane + vector * tile.lanes, total)

    def tiles(self, tile: Tile) -> int | Value:
        """The number of tiles of the rows of the block."""
        if isinstance(self.count, int):
            return -(-self.count // tile.rows)
        return self.builder.value_of(self.builder.quotient(Affine.of(self.count) + (tile.rows - 1), tile.rows))

    def finished(self, total: Element, t: PrimitiveType, result: PrimitiveType) -> Element:
        """Rounds a finished sum and converts it to the type of the dot's result."""
        assert isinstance(total, Value)
        return convert_element(self.builder, rounded_sum(self.builder, total, t), t, result)

    def vector_width(self, t: PrimitiveType, extent: int) -> int:
        return min(self.builder.lanes(register_type(t)), 1 << (extent - 1).bit_length())
