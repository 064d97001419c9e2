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
from xlapy.codegen.emitters.attention.indices import BlockIndices
from xlapy.codegen.emitters.attention.problem import AttentionProblem, FactorForm
from xlapy.codegen.emitters.attention.sizes import AttentionParameters, AttentionSizes
from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.finite import all_finite
from xlapy.codegen.emitters.matmul.group_formats import element_in_group
from xlapy.codegen.emitters.matmul.micro_kernel import (
    Tile,
    add_elements,
    clamped_position,
    emit_micro_kernel,
    in_bounds,
)
from xlapy.codegen.emitters.row_reduction import RowReductionEmitter, Sweep
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.epilogue import Epilogue
from xlapy.codegen.region import kernel_builder, operand_source, result_buffer
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import IDEMPOTENT_OPS, monoid
from xlapy.loops import I1, I16, I32, I64, Affine, AxisKind, Buffer, Builder, Kernel, Location, Value
from xlapy.lower import Element, Lowering, Source, storage_type, store_element
from xlapy.lower.contraction import rounded_sum, zero_element
from xlapy.lower.core import Index, delinear, linear
from xlapy.lower.element_types import register_type
from xlapy.lower.elementwise import convert_element
from xlapy.lower.reduction import combine_elements

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


class _AttentionKernel(BlockIndices):
    def __init__(self, problem: AttentionProblem, parameters: AttentionParameters) -> None:
        region, self.parameters = problem.region, parameters
        builder = kernel_builder(region.name, region.target)
        self.sources = {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(region.operands)}
        outputs = [result_buffer(builder, result.shape, f"out{n}") for n, result in enumerate(region.results)]
        super().__init__(problem, Lowering(builder, self.sources))
        self.epilogue = Epilogue(region, problem.mixing, builder, self.sources, outputs)
        self.sizes = sizes = AttentionSizes(problem, parameters)
        self.rows, self.pitch, self.term_pitch = parameters.block_queries, sizes.pitch, sizes.term_pitch
        self.score_tile, self.mixing_tile = sizes.score_tile, sizes.mixing_tile
        score, mixing = problem.score_factors.packed_type, problem.mixing_factors.packed_type
        self.queries = ScratchArray(builder, "queries", score, sizes.rows * self.term_pitch)
        self.loaded_keys = ScratchArray(builder, "loaded_keys", score, self.score_tile.columns * self.term_pitch)
        self.keys = ScratchArray(builder, "keys", score, sizes.key_slots * sizes.key_panel)
        stored = storage_type(problem.scores.shape.element_type)
        self.scores = builder.scratch("scores", stored, sizes.rows * self.pitch)
        self.weights = self.scores
        if sizes.weight_type is not None:
            self.weights = builder.scratch("weights", sizes.weight_type, sizes.rows * self.pitch)
        self.values = ScratchArray(builder, "values", mixing, sizes.value_slots * sizes.value_block)
        self.sums = ScratchArray(builder, "sums", problem.mixing_type, sizes.sums)
        self.packed_keys = self._states("packed_keys", sizes.key_panels) if sizes.key_slots > 1 else None
        self.packed_values = self._states("packed_values", sizes.value_blocks) if sizes.value_slots > 1 else None
        is_checked = problem.mask is not None and parameters.blocks_per_task > 1
        self.finite_values = self._states("finite_values", sizes.value_blocks) if is_checked else None

        self.needed_keys: Buffer | None = None
        """The end of the last panel of keys that the mask does not hide from the block."""
        self.is_row_open = builder.scratch("is_row_open", I32, 1)
        """Whether the weights of the current row are still to be computed."""
        is_uniform = problem.mask is not None and problem.mask.is_uniform
        scores = {problem.scores: Source(self.scores, problem.scores.shape, Affine())}
        self.granularity = RowReductionEmitter(builder, problem.plan, self.sources | scores).granularity
        if is_uniform and problem.length >= 2 * self.granularity:
            self.needed_keys = builder.scratch("needed_keys", I64, 1)

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

    # -- weights

    def compute_weights(self) -> None:
        """Replaces the scores of each row by weights."""
        builder, length = self.builder, self.problem.length
        end = self.end_of_needed_keys()
        with builder.loop(self.count) as row:
            if self.problem.length % self.problem.mixing_factors.terms:
                builder.store(self.weights, row * self.pitch + length, builder.zero(I16))
            if end is None:
                self.compute_row(row)
            else:
                self.compute_needed_row(row, end)

    def end_of_needed_keys(self) -> Value | None:
        """The end of the keys that the mask keeps, rounded up for sweeps; None if they cannot be swept over alone."""
        if self.needed_keys is None:
            return None
        builder, length, sizes = self.builder, self.problem.length, self.sizes
        end = builder.load(self.needed_keys, Affine())
        end.range = (0, sizes.key_panels * self.score_tile.columns)
        step = self.granularity
        rounded = builder.value_of(builder.quotient(Affine.of(end) + (step - 1), step) * step)
        found = builder.binary("smax", rounded, builder.constant(I64, step))
        found = builder.binary("smin", found, builder.constant(I64, length))
        found.range = (step, length)
        return found

    def row_sources(self, row: Affine) -> dict[Instruction, Source]:
        """The operands of the row reductions; the scores of a row of the block are in scratch memory."""
        scores = self.problem.scores
        start = linear(self.score_index(row, Affine()), scores.shape.dimensions) - row * self.pitch
        return self.sources | {scores: Source(self.scores, scores.shape, start)}

    def row_emitter(self, row: Affine, end: Value | None = None) -> RowReductionEmitter:
        return RowReductionEmitter(self.builder, self.problem.plan, self.row_sources(row), end)

    def compute_row(self, row: Affine) -> None:
        """Computes the weights of a row from the scores of all keys."""
        emitter, at = self.row_emitter(row), self.row_of_plan(row)
        for sweep in self.problem.plan.sweeps:
            self.sweep(emitter, at, sweep)
        self.store_weights(emitter, row, at)

    def sweep(self, emitter: RowReductionEmitter, at: Affine, sweep: Sweep) -> None:
        sweep.results.clear()
        if sweep.reductions or sweep.cached:
            emitter.sweep(at, sweep, {})

    def store_weights(self, emitter: RowReductionEmitter, row: Affine, at: Affine) -> None:
        """Stores the weights of a row, given its reductions."""
        weights = self.problem.weights
        with self.builder.loop(emitter.extent, AxisKind.VECTOR, width=emitter.width) as key:
            position = emitter.index(weights, at * self.problem.length + key)
            self.store_weight(row * self.pitch + key, emitter.lowering.element(weights, position))

    def compute_needed_row(self, row: Affine, end: Value) -> None:
        """Computes the weights of a row from the scores of the keys up to `end` if possible, else of all keys."""
        builder = self.builder
        builder.store(self.is_row_open, Affine(), builder.constant(I32, 1))
        with builder.branch(builder.compare("slt", end, builder.constant(I64, self.problem.length))):
            self.compute_row_until(row, end)
        is_open = builder.load(self.is_row_open, Affine())
        with builder.branch(builder.compare("ne", is_open, builder.zero(I32))):
            self.compute_row(row)

    def compute_row_until(self, row: Affine, end: Value) -> None:
        """Computes the weights of a row from the scores of the keys up to `end`, if those of all others are zeros.

        The others have the same weight, which is that of the last key. If a sum has terms other than zero, or that
        weight is not zero, `compute_row` computes the row.
        """
        builder, problem = self.builder, self.problem
        emitter, at = self.row_emitter(row, end), self.row_of_plan(row)
        is_zero = builder.constant(I1, 1)

        def of_last_key(instruction: Instruction) -> Element:
            lowering = Lowering(builder, self.row_sources(row), emitter.values)
            return lowering.element(instruction, emitter.index(instruction, (at + 1) * problem.length - 1))

        def zero_too(element: Element) -> Value:
            assert isinstance(element, Value)
            predicate = "oeq" if element.type.is_float else "eq"
            return builder.binary("and", is_zero, builder.compare(predicate, element, builder.zero(element.type)))

        for sweep in problem.plan.sweeps:
            self.sweep(emitter, at, sweep)
            for reduction in sweep.reductions:
                term = of_last_key(reduction.operands[0])
                if monoid(reduction.to_apply) in IDEMPOTENT_OPS:
                    before = [emitter.values[reduction]]
                    (emitter.values[reduction],) = combine_elements(
                        emitter.lowering, reduction.to_apply, before, [term]
                    )
                else:
                    is_zero = zero_too(term)
        is_zero = zero_too(of_last_key(problem.weights))
        with builder.branch(is_zero):
            self.store_weights(emitter, row, at)
            left = builder.value_of(Affine((), problem.length) - Affine.of(end))
            with builder.loop(left, AxisKind.VECTOR, width=emitter.width) as key:
                offset = row * self.pitch + Affine.of(end) + key
                builder.store(self.weights, offset, builder.zero(self.weights.type))
            builder.store(self.is_row_open, Affine(), builder.zero(I32))

    def store_weight(self, offset: Affine, element: Element) -> None:
        builder, problem = self.builder, self.problem
        t, form = problem.weights.shape.element_type, problem.mixing_factors
        converted = convert_element(builder, element, t, form.group.element if form.group else form.type)
        assert isinstance(converted, Value)
        if form.group:
            converted = builder.convert("trunc", element_in_group(builder, form.terms, converted, 0), I16)
        builder.store(self.weights, offset, converted)

    def weight_factor(self, row: Affine, number: Affine, mask: Value | None = None) -> Value:
        """A factor of the second dot from a row of the block; zero where the mask is false."""
        form = self.problem.mixing_factors
        place = Location(self.weights, row * self.pitch + number * form.terms)
        return self.builder.load_wide(I32 if form.group else self.weights.type, place, mask)

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
