"""The rows of a block of queries: reductions of their scores, and the weights that replace them.

    for each query of the block
      if the mask hides the last keys from the whole block: sweep over the keys before them
      if that is not enough: sweep over all keys

Masked keys have the same score, so that one of them stands for all. A maximum takes it once; a sum is that of the other
keys if it is zero. So a causal mask halves the sweeps. No bit of a result depends on the block, because sweeps end at a
multiple of what an iteration computes, and further terms would be zeros.
"""

from __future__ import annotations

from collections.abc import Mapping

from xlapy.codegen.emitters.attention.indices import BlockIndices
from xlapy.codegen.emitters.attention.problem import AttentionProblem
from xlapy.codegen.emitters.attention.sizes import AttentionSizes
from xlapy.codegen.emitters.matmul.group_formats import element_in_group
from xlapy.codegen.emitters.row_reduction import RowReductionEmitter, Sweep
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import IDEMPOTENT_OPS, monoid
from xlapy.loops import I1, I16, I32, I64, Affine, AxisKind, Buffer, Location, Value
from xlapy.lower import Element, Lowering, Source, storage_type
from xlapy.lower.core import linear
from xlapy.lower.elementwise import convert_element
from xlapy.lower.reduction import combine_elements


class BlockRows(BlockIndices):
    """The scores and weights of a block, in scratch memory, with `pitch` elements from row to row."""

    def __init__(
        self,
        problem: AttentionProblem,
        lowering: Lowering,
        sources: Mapping[Instruction, Source],
        sizes: AttentionSizes,
    ) -> None:
        super().__init__(problem, lowering)
        self.sources, self.sizes, self.pitch = dict(sources), sizes, sizes.pitch
        builder = self.builder
        stored = storage_type(problem.scores.shape.element_type)
        self.scores = builder.scratch("scores", stored, sizes.rows * self.pitch)
        self.weights = self.scores
        if sizes.weight_type is not None:
            self.weights = builder.scratch("weights", sizes.weight_type, sizes.rows * self.pitch)
        self.count: int | Value = 0
        """The rows of the block."""
        scores = {problem.scores: Source(self.scores, problem.scores.shape, Affine())}
        self.granularity = RowReductionEmitter(builder, problem.plan, self.sources | scores).granularity
        self.needed_keys: Buffer | None = None
        """The end of the last panel of keys that the mask does not hide from the block."""
        if problem.mask is not None and problem.mask.is_uniform and problem.length >= 2 * self.granularity:
            self.needed_keys = builder.scratch("needed_keys", I64, 1)
            self.is_row_pending = builder.scratch("is_row_pending", I32, 1)
            """Whether the weights of the current row are still to be computed."""

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
        end.range = (0, sizes.key_panels * sizes.score_tile.columns)
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
        builder.store(self.is_row_pending, Affine(), builder.constant(I32, 1))
        with builder.branch(builder.compare("slt", end, builder.constant(I64, self.problem.length))):
            self.compute_row_until(row, end)
        is_pending = builder.load(self.is_row_pending, Affine())
        with builder.branch(builder.compare("ne", is_pending, builder.zero(I32))):
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
            builder.store(self.is_row_pending, Affine(), builder.zero(I32))

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
