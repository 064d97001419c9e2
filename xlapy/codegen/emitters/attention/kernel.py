"""Emits attention: scores, softmax and mixing of a block of queries, with the scores in the cache.

    for each batch element and some blocks of queries, a task
      for each block of queries
        pack the queries
        for each panel of keys that the mask does not hide: pack it; tiles of scores = queries * keys
        for each query: the row reductions; its weights replace its scores
        for each block of keys that has weights: pack its values; sums += weights * values
        store the sums, by way of the epilogue

A task with several blocks of queries packs each panel of keys, and each block of values if they fit into scratch
memory, when the first of its blocks needs it. A block of keys whose weights are all zero contributes nothing, exactly,
if its values are finite. The order of the additions follows from the shapes and types alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext

from xlapy.base.element_types import PrimitiveType
from xlapy.codegen.emitters.attention.problem import AttentionProblem, FactorForm
from xlapy.codegen.emitters.attention.rows import BlockRows
from xlapy.codegen.emitters.attention.sizes import AttentionParameters, AttentionSizes
from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.finite import all_finite
from xlapy.codegen.emitters.matmul.micro_kernel import (
    Tile,
    add_elements,
    clamped_position,
    emit_micro_kernel,
    in_bounds,
)
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.epilogue import Epilogue
from xlapy.codegen.region import kernel_builder, operand_source, result_buffer
from xlapy.loops import I1, I32, I64, Affine, AxisKind, Buffer, Builder, Kernel, Value
from xlapy.lower import Element, Lowering, store_element
from xlapy.lower.contraction import rounded_sum, zero_element
from xlapy.lower.core import Index, delinear
from xlapy.lower.element_types import register_type
from xlapy.lower.elementwise import convert_element

_MAGNITUDES = 0x7FFF7FFF
"""The bits of two bf16 without their signs."""


def attention_kernel(problem: AttentionProblem, parameters: AttentionParameters) -> Kernel:
    """Returns the kernel of attention."""
    return _AttentionKernel(problem, parameters).kernel()


class _Factors:
    """The arithmetic of the micro-kernel."""

    def __init__(self, builder: Builder, form: FactorForm) -> None:
        self.builder, self.type, self._form = builder, form.type, form

    def multiply_add(self, left: Element, right: Element, total: Element) -> Element:
        return self._form.multiply_add(self.builder, left, right, total)


class _AttentionKernel(BlockRows):
    def __init__(self, problem: AttentionProblem, parameters: AttentionParameters) -> None:
        region, self.parameters = problem.region, parameters
        builder = kernel_builder(region.name, region.target)
        sources = {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(region.operands)}
        outputs = [result_buffer(builder, result.shape, f"out{n}") for n, result in enumerate(region.results)]
        sizes = AttentionSizes(problem, parameters)
        super().__init__(problem, Lowering(builder, sources), sources, sizes)
        self.epilogue = Epilogue(region, problem.mixing, builder, sources, outputs)
        self.rows, self.term_pitch = parameters.block_queries, sizes.term_pitch
        self.score_tile, self.mixing_tile = sizes.score_tile, sizes.mixing_tile
        score, mixing = problem.score_factors.packed_type, problem.mixing_factors.packed_type
        self.queries = ScratchArray(builder, "queries", score, sizes.rows * self.term_pitch)
        self.loaded_keys = ScratchArray(builder, "loaded_keys", score, self.score_tile.columns * self.term_pitch)
        self.keys = ScratchArray(builder, "keys", score, sizes.key_slots * sizes.key_panel)
        self.values = ScratchArray(builder, "values", mixing, sizes.value_slots * sizes.value_block)
        self.sums = ScratchArray(builder, "sums", problem.mixing_type, sizes.sums)
        self.packed_keys = self._states("packed_keys", sizes.key_panels) if sizes.key_slots > 1 else None
        self.packed_values = self._states("packed_values", sizes.value_blocks) if sizes.value_slots > 1 else None
        is_checked = problem.mask is not None and parameters.blocks_per_task > 1
        self.finite_values = self._states("finite_values", sizes.value_blocks) if is_checked else None

    def _states(self, name: str, size: int) -> Buffer:
        """Scratch memory for what a task has found out or done; zero for what it has not."""
        return self.builder.scratch(name, I32, size)

    def kernel(self) -> Kernel:
        builder, problem, per_task = self.builder, self.problem, self.parameters.blocks_per_task
        outer = [problem.scores.shape.dimensions[d] for d in self.outer]
        blocks = -(-self.row_count // self.rows)
        tasks = (*outer, -(-blocks // per_task))
        with builder.loop(math.prod(tasks), AxisKind.PARALLEL) as task:
            *at_outer, group = delinear(builder, task, tasks)
            self.at_outer = tuple(at_outer)
            if per_task == 1:
                self.compute_block(group)
            else:
                self.clear_states()
                with builder.loop(block_extent(builder, group * per_task, blocks, per_task)) as block:
                    self.compute_block(group * per_task + block)
        return builder.kernel

    def clear_states(self) -> None:
        builder = self.builder
        for states in (self.packed_keys, self.packed_values, self.finite_values):
            if states is not None:
                with builder.loop(states.size) as number:
                    builder.store(states, number, builder.zero(I32))

    @contextmanager
    def once(self, states: Buffer | None, number: Affine) -> Iterator[None]:
        """Executes the statements of the context only if this task has not done so for `number`."""
        if states is None:
            yield
            return
        builder = self.builder
        with builder.branch(builder.compare("eq", builder.load(states, number), builder.zero(I32))):
            yield
            builder.store(states, number, builder.constant(I32, 1))

    def compute_block(self, block: Affine) -> None:
        """Computes the results of a block of queries."""
        self.first = block * self.rows
        self.count = block_extent(self.builder, self.first, self.row_count, self.rows)
        self.pack_queries()
        self.compute_scores()
        self.compute_weights()
        self.mix()
        self.store()

    # -- scores

    def pack_queries(self) -> None:
        builder, sizes = self.builder, self.sizes
        width = self.vector_width(self.problem.score_factors.packed_type, sizes.terms)
        with builder.loop(self.tiles(self.score_tile)) as tile, builder.loop(self.score_tile.rows) as number:
            row = tile * self.score_tile.rows + number
            with builder.loop(sizes.terms, AxisKind.VECTOR, width=width) as term:
                self.queries.store(row * self.term_pitch + term, self.query_factor(row, term))

    def compute_scores(self) -> None:
        builder = self.builder
        if self.needed_keys is not None:
            builder.store(self.needed_keys, Affine(), builder.zero(I64))
        with builder.loop(self.sizes.key_panels) as panel:
            needed = self.is_panel_needed(panel * self.score_tile.columns)
            with nullcontext() if needed is None else builder.branch(needed):
                if self.needed_keys is not None:
                    end = builder.value_of((panel + 1) * self.score_tile.columns)
                    builder.store(self.needed_keys, Affine(), end)
                with self.once(self.packed_keys, panel):
                    self.pack_keys(panel)
                self.multiply_panel(panel)

    def keys_offset(self, panel: Affine) -> Affine:
        """Where the packed keys of a panel begin."""
        return panel * self.sizes.key_panel if self.sizes.key_slots > 1 else Affine()

    def pack_keys(self, panel: Affine) -> None:
        """Packs a panel of keys, one term after the other."""
        builder, sizes, tile = self.builder, self.sizes, self.score_tile
        width = self.vector_width(self.problem.score_factors.packed_type, sizes.terms)
        with builder.loop(tile.columns) as number:
            key = clamped_position(builder, panel * tile.columns + number, self.problem.length)
            with builder.loop(sizes.terms, AxisKind.VECTOR, width=width) as term:
                self.loaded_keys.store(number * self.term_pitch + term, self.key_factor(key, term))
        extents, target = (tile.columns, sizes.terms), self.keys_offset(panel)
        self.loaded_keys.transpose(Affine(), self.term_pitch, self.keys, target, tile.columns, extents)

    def multiply_panel(self, panel: Affine) -> None:
        """Computes the scores of a panel of keys for all queries of the block."""
        builder, problem, tile = self.builder, self.problem, self.score_tile
        packed = self.keys_offset(panel)

        def left(row: Affine, term: Index) -> Element:
            return self.queries.load(row * self.term_pitch + term[0])

        def right(lane: Affine, term: Index, vector: int) -> Element:
            return self.keys.load(packed + term[0] * tile.columns + vector * tile.lanes + lane)

        def store(row: Affine, column: Affine, total: Element) -> None:
            t = problem.scores.shape.element_type
            element = self.finished(total, problem.score_type, t)
            store_element(builder, self.scores, row * self.pitch + panel * tile.columns + column, element, t)

        self.multiply(tile, problem.score_factors, self.sizes.terms, left, right, store)

    def is_panel_needed(self, first: Affine) -> Value | None:
        """Whether the mask keeps any score of a panel of keys; None if there is no mask."""
        mask, problem, builder, tile = self.problem.mask, self.problem, self.builder, self.score_tile
        if mask is None:
            return None

        def is_kept(row: Affine, number: Affine) -> Value:
            key = clamped_position(builder, first + number, problem.length)
            position = self.row_of_plan(row) * problem.length + key
            value = self.lowering.value(mask.predicate, delinear(builder, position, mask.predicate.shape.dimensions))
            return value if mask.kept else builder.logical_not(value)

        return self.any_in_block(tile.columns, tile.lanes, is_kept)

    def any_in_block(self, extent: int, width: int, holds: Callable[[Affine, Affine], Value]) -> Value:
        """Whether `holds(row, position)` is true for any row of the block and any position below `extent`."""
        builder, no = self.builder, self.builder.constant(I1, 0)

        def of_position(position: Affine, found: Sequence[Value]) -> list[Value]:
            def of_row(row: Affine, before: Sequence[Value]) -> list[Value]:
                return [builder.binary("or", before[0], holds(row, position))]

            return builder.reduce(self.count, found, of_row)

        (result,) = builder.reduce(
            extent,
            [no],
            of_position,
            kind=AxisKind.VECTOR,
            width=width,
            identities=[no],
            combine=lambda a, b: [builder.binary("or", a[0], b[0])],
        )
        return result

    # -- mixing

    def mix(self) -> None:
        """Adds up the products of the weights and the values, one block of keys after the other."""
        builder, problem, sizes = self.builder, self.problem, self.sizes
        zero = zero_element(builder, problem.mixing_type)
        with builder.loop(sizes.sums, AxisKind.VECTOR, width=self.mixing_tile.lanes) as position:
            self.sums.store(position, zero)
        with builder.loop(sizes.value_blocks) as block:
            needed = None if problem.mask is None else self.is_block_needed(block)
            with nullcontext() if needed is None else builder.branch(needed):
                count = block_extent(builder, block * sizes.block, sizes.key_groups, sizes.block)
                with self.once(self.packed_values, block):
                    self.pack_values(block, count)
                self.multiply_block(block, count)

    def is_block_needed(self, block: Affine) -> Value:
        """Whether any weight of a block of keys is not zero, or any value not finite."""
        builder, sizes, form = self.builder, self.sizes, self.problem.mixing_factors
        first, width = block * sizes.block, self.vector_width(form.packed_type, sizes.block)

        def is_nonzero(row: Affine, number: Affine) -> Value:
            mask = in_bounds(self.lowering, first + number, sizes.key_groups, sizes.block)
            weight = self.weight_factor(row, first + number, mask)
            if form.group is None:
                return builder.compare("une", weight, builder.zero(weight.type))
            magnitudes = builder.binary("and", weight, builder.constant(I32, _MAGNITUDES))
            return builder.compare("ne", magnitudes, builder.zero(I32))

        nonzero = self.any_in_block(sizes.block, width, is_nonzero)
        return builder.binary("or", nonzero, builder.logical_not(self.is_block_finite(block)))

    def is_block_finite(self, block: Affine) -> Value:
        """Whether all values of a block of keys are finite."""
        builder, states = self.builder, self.finite_values
        if states is None:
            return self.compute_finite(block)
        yes, no = builder.constant(I32, 1), builder.constant(I32, 2)
        with builder.branch(builder.compare("eq", builder.load(states, block), builder.zero(I32))):
            builder.store(states, block, builder.select(self.compute_finite(block), yes, no))
        return builder.compare("eq", builder.load(states, block), yes)

    def compute_finite(self, block: Affine) -> Value:
        problem, keys = self.problem, self.sizes.block * self.problem.mixing_factors.terms

        def value(number: Affine, column: Affine) -> Element:
            key = clamped_position(self.builder, block * keys + number, problem.length)
            return self.value_element(key, column)

        return all_finite(self.builder, problem.mixing_type, value, (keys, problem.width))

    def values_offset(self, block: Affine) -> Affine:
        """Where the packed values of a block of keys begin."""
        return block * self.sizes.value_block if self.sizes.value_slots > 1 else Affine()

    def pack_values(self, block: Affine, count: int | Value) -> None:
        """Packs the values of a block of keys: panels as wide as a tile, factor by factor."""
        builder, sizes, tile, width = self.builder, self.sizes, self.mixing_tile, self.problem.width
        first, target = block * sizes.block, self.values_offset(block)
        with (
            builder.loop(count) as number,
            builder.loop(sizes.value_panels) as panel,
            builder.loop(tile.lanes, AxisKind.VECTOR, width=tile.lanes) as lane,
        ):
            for vector in range(tile.vectors):
                inner = lane + vector * tile.lanes
                column = panel * tile.columns + inner
                mask = in_bounds(self.lowering, column, width, tile.columns)
                element = self.value_factor(first + number, column, mask)
                self.values.store(target + panel * sizes.value_panel + number * tile.columns + inner, element)

    def multiply_block(self, block: Affine, count: int | Value) -> None:
        """Adds the products of the weights and values of a block of keys to the sums."""
        builder, sizes, tile = self.builder, self.sizes, self.mixing_tile
        first, packed = block * sizes.block, self.values_offset(block)
        with builder.loop(sizes.value_panels) as panel:

            def left(row: Affine, term: Index) -> Element:
                return self.weight_factor(row, first + term[0])

            def right(lane: Affine, term: Index, vector: int) -> Element:
                offset = packed + panel * sizes.value_panel + term[0] * tile.columns
                return self.values.load(offset + vector * tile.lanes + lane)

            def store(row: Affine, column: Affine, total: Element) -> None:
                offset = self.sum_offset(row, panel * tile.columns + column)
                self.sums.store(offset, add_elements(builder, self.sums.load(offset), total))

            self.multiply(tile, self.problem.mixing_factors, count, left, right, store)

    def sum_offset(self, row: Affine, column: Affine) -> Affine:
        return row * (self.sizes.value_panels * self.mixing_tile.columns) + column

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
        form: FactorForm,
        terms: int | Value,
        left: Callable[[Affine, Index], Element],
        right: Callable[[Affine, Index, int], Element],
        store: Callable[[Affine, Affine, Element], None],
    ) -> None:
        """Computes a panel of columns for all tiles of rows of the block; `store(row, column, sum)` takes the sums."""
        builder, factors = self.builder, _Factors(self.builder, form)
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
