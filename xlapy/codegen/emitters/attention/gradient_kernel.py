"""Emits the gradient of attention: blocks of queries, whose scores and weights stay in the cache.

    for each batch element and segment of the queries, a task
      clear the products over queries
      for each block of queries
        for each key: the scores of all queries of the block, in both dots
        for each query: the reductions over keys; the weights replace the scores
        products over keys: sums = weights * keys, stored by way of the epilogue
        products over queries: result += weights * queries, for each key

Scores have their keys first: scratch memory holds those of all queries of the block for one key, then those for the
next one. So vectors run along queries, and reductions over keys need no sums of lanes. The order of additions follows
from the shapes alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from xlapy.base.element_types import PrimitiveType
from xlapy.codegen.element_locations import element_location
from xlapy.codegen.emitters.attention.gradient_mask import KEYS_PER_STEP, GradientMask
from xlapy.codegen.emitters.attention.gradient_problem import GradientProblem, ProductDot, ScoreDot
from xlapy.codegen.emitters.attention.gradient_rows import GradientRows
from xlapy.codegen.emitters.attention.gradient_sizes import (
    GradientParameters,
    GradientSizes,
    extent_until,
    pieces_until,
)
from xlapy.codegen.emitters.attention.problem import FactorForm
from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.group_loads import GroupLoads
from xlapy.codegen.emitters.matmul.micro_kernel import (
    Tile,
    add_elements,
    clamped_position,
    emit_micro_kernel,
    in_bounds,
)
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.epilogue import Epilogue
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I64, Affine, AxisKind, Builder, Kernel, Value
from xlapy.lower import Element, Lowering
from xlapy.lower.contraction import rounded_sum, zero_element
from xlapy.lower.core import Index, delinear
from xlapy.lower.elementwise import convert_element

# Positions that are in bounds are clamped all the same: with known bounds, the index of a reshaped operand needs no
# divisions.

Left = Callable[[Affine, Affine], Element]
"""The factor of a row and a term."""

Right = Callable[[Affine, Affine], Element]
"""The factor of a term and a column."""


def gradient_kernel(problem: GradientProblem, parameters: GradientParameters) -> Kernel:
    """Returns the kernel of a gradient of attention."""
    return _GradientKernel(problem, parameters).kernel()


class _Factors:
    """The arithmetic of the micro-kernel."""

    def __init__(self, builder: Builder, form: FactorForm) -> None:
        self.builder, self.type, self._form = builder, form.type, form

    def multiply_add(self, left: Element, right: Element, total: Element) -> Element:
        return self._form.multiply_add(self.builder, left, right, total)


class _GradientKernel:
    def __init__(self, problem: GradientProblem, parameters: GradientParameters) -> None:
        region = problem.region
        self.problem, self.sizes = problem, GradientSizes(problem, parameters)
        self.builder = builder = kernel_builder(region.name, region.target)
        sources = {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(region.operands)}
        buffers = {result: result_buffer(builder, result.shape, f"out{n}") for n, result in enumerate(region.results)}
        self.lowering = Lowering(builder, sources)
        self.epilogues = {
            product.dot: Epilogue(
                _region_of_product(region, product), product.dot, builder, sources, [buffers[product.result]]
            )
            for product in (*problem.over_keys, *problem.over_queries)
        }
        self.rows = GradientRows(problem, self.sizes, builder, sources)
        has_end = problem.masked is not None and problem.length > KEYS_PER_STEP
        self.mask = GradientMask(problem, self.lowering) if has_end else None
        self.loaded = [self._scratch(f"loaded{n}", dot, self.sizes.loaded(dot)) for n, dot in enumerate(problem.scores)]
        self.packed = [self._scratch(f"packed{n}", dot, self.sizes.packed(dot)) for n, dot in enumerate(problem.scores)]
        self.sums = {
            product.dot: ScratchArray(builder, f"sums{n}", product.type, self.sizes.sums(product))
            for n, product in enumerate(problem.over_keys)
        }

    def _scratch(self, name: str, dot: ScoreDot, size: int) -> ScratchArray:
        return ScratchArray(self.builder, name, dot.factors.packed_type, size)

    def kernel(self) -> Kernel:
        builder, problem, block = self.builder, self.problem, self.sizes.block
        batch, outer = problem.dimensions[: problem.batches], problem.dimensions[problem.batches : -2]
        size = problem.row_count // problem.segments
        tasks, blocks = (*batch, problem.segments), -(-size // block)
        with builder.loop(math.prod(tasks), AxisKind.PARALLEL) as task:
            *at_batch, segment = delinear(builder, task, tasks)
            self.at_batch = tuple(at_batch)
            self.at_part = tuple(at_batch) if problem.segments == 1 else (*at_batch, segment)
            for product in problem.over_queries:
                self.clear(product)
            if self.mask is not None:
                self.mask.measure_keys(self.at_batch)
            with builder.loop(math.prod((*outer, blocks))) as number:
                *at_outer, at_block = delinear(builder, number, (*outer, blocks))
                self.first = segment * size + at_block * block
                self.count = block_extent(builder, at_block * block, size, block)
                self.at_rows = (*self.at_batch, *at_outer)
                self.compute_block()
        return builder.kernel

    def compute_block(self) -> None:
        """Computes the products of a block of queries."""
        for number in range(len(self.problem.scores)):
            self.pack_rows(number)
        self.compute_weights()
        for product in self.problem.over_keys:
            self.multiply_keys(product)
        for product in self.problem.over_queries:
            self.multiply_rows(product)

    def compute_weights(self) -> None:
        """Computes the weights of the block; sets `end`, after the last key that has any."""
        self.end: int | Value = self.problem.length
        if self.mask is None:
            self.compute_scores()
            self.rows.compute_weights(self.at_rows, self.first, self.count)
            return
        builder, mask = self.builder, self.mask
        mask.find_end(self.at_rows, self.first, self.count)
        with builder.loop(2), builder.branch(mask.is_pending()):
            self.end = mask.load_end()
            self.compute_scores()
            mask.finish()
            is_whole = builder.compare("eq", self.end, builder.constant(I64, self.problem.length))
            with builder.branch(is_whole):
                self.rows.compute_weights(self.at_rows, self.first, self.count)
            with builder.branch(builder.logical_not(is_whole)):
                is_zero = self.rows.compute_weights_until(self.at_rows, self.first, self.count, self.end, mask.bound())
                with builder.branch(builder.logical_not(is_zero)):
                    mask.retry_with_all_keys()
        self.end = mask.load_end()

    # -- scores

    def pack_rows(self, number: int) -> None:
        """Packs the rows of a dot of scores, one term after the other."""
        builder, sizes, dot = self.builder, self.sizes, self.problem.scores[number]
        pitch, factors = sizes.term_pitch(dot), sizes.factors(dot)
        width = sizes.vector_width(builder, dot, factors)
        tiles = pieces_until(builder, self.count, sizes.score_tile.columns)
        with (
            builder.loop(tiles) as panel,
            builder.loop(sizes.score_tile.columns) as inner,
            builder.loop(factors, AxisKind.VECTOR, width=width) as term,
        ):
            row = panel * sizes.score_tile.columns + inner
            at = clamped_position(builder, self.first + row, self.problem.row_count)
            self.loaded[number].store(row * pitch + term, self._factor(dot, dot.rows, (*self.at_rows, at), term))
        extents = (sizes.block, factors)
        self.loaded[number].transpose(Affine(), pitch, self.packed[number], Affine(), sizes.block, extents)

    def compute_scores(self) -> None:
        """Computes the scores of all queries of the block."""
        builder, sizes = self.builder, self.sizes
        tile = sizes.score_tile
        with builder.loop(pieces_until(builder, self.end, tile.rows)) as number:
            for dot, packed, scores in zip(self.problem.scores, self.packed, self.rows.scores, strict=True):
                self._multiply_tile(dot, packed, scores, number * tile.rows)

    def _multiply_tile(self, dot: ScoreDot, packed: ScratchArray, scores: ScratchArray, first: Affine) -> None:
        """Computes the scores of a tile of keys."""
        builder, sizes = self.builder, self.sizes

        def left(row: Affine, term: Affine) -> Element:
            key = clamped_position(builder, first + row, self.problem.length)
            return self._factor(dot, dot.keys, (*self.at_batch, key), term)

        def right(term: Affine, column: Affine) -> Element:
            return packed.load(term * sizes.block + column)

        def store(row: Affine, column: Affine, total: Element) -> None:
            element = self._finished(total, dot.factors.type, dot.dot.shape.element_type)
            scores.store((first + row) * sizes.block + column, element)

        with builder.loop(pieces_until(builder, self.count, sizes.score_tile.columns)) as panel:
            self.multiply(sizes.score_tile, dot.factors, sizes.factors(dot), panel, left, right, store)

    def _factor(self, dot: ScoreDot, operand: Instruction, at: Index, number: Affine) -> Element:
        """A factor of a score: an element of an operand, or a group of them."""
        form, builder = dot.factors, self.builder
        if form.group is None:
            return self._element(operand, (*at, number), form.type)
        group = form.group.element
        return GroupLoads(builder, form.terms, dot.terms).load(
            number,
            lambda term: self._element(operand, (*at, term), group),
            lambda term: element_location(self.lowering, operand, (*at, term)),
        )

    def _element(self, operand: Instruction, index: Index, t: PrimitiveType) -> Element:
        """An element of an operand, converted to a type."""
        return convert_element(self.builder, self.lowering.element(operand, index), operand.shape.element_type, t)

    # -- products

    def multiply_keys(self, product: ProductDot) -> None:
        """Computes the product of the weights and an array over the keys, and stores it."""
        builder, sizes, tile = self.builder, self.sizes, self.sizes.row_tile(product)
        sums, pitch, weights = self.sums[product.dot], sizes.pitch(product), self.rows.weights[product.weights]
        with builder.loop(sizes.block * pitch, AxisKind.VECTOR, width=tile.lanes) as position:
            sums.store(position, zero_element(builder, product.type))
        with (
            builder.loop(pieces_until(builder, self.end, sizes.key_block)) as block,
            builder.loop(pitch // tile.columns) as panel,
            builder.loop(pieces_until(builder, self.count, tile.rows)) as number,
        ):
            first, first_row = block * sizes.key_block, number * tile.rows
            count = extent_until(builder, first, self.end, sizes.key_block)

            def left(row: Affine, term: Affine) -> Element:
                return weights.load((first + term) * sizes.block + first_row + row)

            def right(term: Affine, column: Affine) -> Element:
                key = clamped_position(builder, first + term, self.problem.length)
                return self._column(product, (*self.at_batch, key), column)

            def store(row: Affine, column: Affine, total: Element) -> None:
                offset = (first_row + row) * pitch + column
                sums.store(offset, add_elements(builder, sums.load(offset), total))

            self.multiply(tile, FactorForm(product.type, None), count, panel, left, right, store)
        self._store(product)

    def _store(self, product: ProductDot) -> None:
        """Stores the product over keys of the queries of the block."""
        builder, tile = self.builder, self.sizes.row_tile(product)
        sums, pitch, t = self.sums[product.dot], self.sizes.pitch(product), product.dot.shape.element_type
        with (
            builder.loop(self.count) as row,
            builder.loop(product.width, AxisKind.VECTOR, width=tile.lanes) as column,
        ):
            element = self._finished(sums.load(row * pitch + column), product.type, t)
            query = clamped_position(builder, self.first + row, self.problem.row_count)
            self.epilogues[product.dot].store((*self.at_rows, query, column), element, None)

    def clear(self, product: ProductDot) -> None:
        """Clears the product over queries of a task."""
        builder, epilogue = self.builder, self.epilogues[product.dot]
        zero = zero_element(builder, product.type)
        with (
            builder.loop(self.problem.length) as key,
            builder.loop(product.width, AxisKind.VECTOR, width=self.sizes.key_tile(product).lanes) as column,
        ):
            epilogue.store_sum((*self.at_part, key, column), zero, None)

    def multiply_rows(self, product: ProductDot) -> None:
        """Adds the product of the weights of the block and an array over the queries."""
        builder, problem, sizes, tile = self.builder, self.problem, self.sizes, self.sizes.key_tile(product)
        weights, epilogue = self.rows.weights[product.weights], self.epilogues[product.dot]
        with (
            builder.loop(sizes.pitch(product) // tile.columns) as panel,
            builder.loop(pieces_until(builder, self.end, tile.rows)) as number,
        ):
            first = number * tile.rows

            def left(row: Affine, term: Affine) -> Element:
                return weights.load((first + row) * sizes.block + term)

            def right(term: Affine, column: Affine) -> Element:
                query = clamped_position(builder, self.first + term, problem.row_count)
                return self._column(product, (*self.at_rows, query), column)

            def store(row: Affine, column: Affine, total: Element) -> None:
                key = first + row
                bounds = [
                    in_bounds(self.lowering, key, problem.length, tile.rows),
                    in_bounds(self.lowering, column, product.width, tile.columns),
                ]
                mask = _all(builder, bounds)
                # as in `MatmulProblem.store_tile`: a store without active lanes to a new page takes hundreds of cycles
                index = (*self.at_part, clamped_position(builder, key, problem.length), column)
                before = epilogue.load_sum(index, mask)
                epilogue.store_sum(index, add_elements(builder, before, total), mask)

            self.multiply(tile, FactorForm(product.type, None), self.count, panel, left, right, store)

    def _column(self, product: ProductDot, at: Index, column: Affine) -> Element:
        """An element of the array of a product; unspecified beyond the last column."""
        mask = in_bounds(self.lowering, column, product.width, self.sizes.row_tile(product).columns)
        if mask is None:
            return self._element(product.other, (*at, column), product.type)
        with self.lowering.where(mask):
            return self._element(product.other, (*at, column), product.type)

    # -- tiles

    def multiply(
        self,
        tile: Tile,
        form: FactorForm,
        terms: int | Value,
        panel: Affine,
        left: Left,
        right: Right,
        store: Callable[[Affine, Affine, Element], None],
    ) -> None:
        """Computes a tile of a panel of columns; `store(row, column, sum)` takes the sums."""
        builder = self.builder
        with builder.loop(tile.lanes, AxisKind.VECTOR, width=tile.lanes) as lane:
            columns = [panel * tile.columns + vector * tile.lanes + lane for vector in range(tile.vectors)]
            sums = emit_micro_kernel(
                _Factors(builder, form),
                tile,
                [terms],
                lambda term, row: left(Affine((), row), term[0]),
                lambda term, vector: right(term[0], columns[vector]),
            )
            for row, totals in enumerate(sums):
                for column, total in zip(columns, totals, strict=True):
                    store(Affine((), row), column, total)

    def _finished(self, total: Element, t: PrimitiveType, result: PrimitiveType) -> Element:
        """Rounds a finished sum and converts it to the type of the dot's result."""
        assert isinstance(total, Value)
        return convert_element(self.builder, rounded_sum(self.builder, total, t), t, result)


def _all(builder: Builder, conditions: Sequence[Value | None]) -> Value | None:
    """Whether all conditions are true; None if none is there."""
    found: Value | None = None
    for condition in conditions:
        if condition is not None:
            found = condition if found is None else builder.binary("and", found, condition)
    return found


def _region_of_product(region: Region, product: ProductDot) -> Region:
    """The region of a product, and of what follows it, alone."""
    steps = [product.result]
    while steps[-1] is not product.dot:
        steps.append(steps[-1].operands[0])
    return Region(region.name, product.result, region.operands, tuple(reversed(steps)), region.target)
