"""The queries of a block: reductions of their scores over the keys, and the weights that replace the scores.

    for each vector of queries
      for each sweep: for each key: terms of the reductions, which stay in registers; cached values, to scratch memory
      for each key: the weights

Does not depend on how scores are computed and weights are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from xlapy.codegen.emitters.attention.gradient_problem import GradientProblem
from xlapy.codegen.emitters.attention.gradient_sizes import GradientSizes, extent_until, pieces_until
from xlapy.codegen.emitters.matmul.micro_kernel import clamped_position
from xlapy.codegen.emitters.row_reduction import Sweep
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import IDEMPOTENT_OPS, identity_of, monoid
from xlapy.loops import F32, I1, I32, Affine, AxisKind, Builder, Value
from xlapy.lower import Element, Lowering, Source, register_type
from xlapy.lower.core import Index
from xlapy.lower.reduction import combine_elements

KEYS_PER_SUM = 16
"""The largest number of terms of a sum over keys that are added up one after the other, before sums of as many terms
are: the rounding errors of a sum of 1024 terms are those of about 32 additions."""


class GradientRows:
    """The scores and weights of a block, in scratch memory: those of all queries for one key, then for the next."""

    def __init__(
        self,
        problem: GradientProblem,
        sizes: GradientSizes,
        builder: Builder,
        sources: Mapping[Instruction, Source],
    ) -> None:
        self.problem, self.sizes, self.builder, self.sources = problem, sizes, builder, sources
        self.scores = [
            ScratchArray(builder, f"scores{n}", dot.dot.shape.element_type, sizes.scores)
            for n, dot in enumerate(problem.scores)
        ]
        self.weights = dict(zip(problem.weights, self.scores, strict=False))
        """Where the weights replace scores."""
        self.arrays = {dot.dot: array for dot, array in zip(problem.scores, self.scores, strict=True)}
        """The arrays of the values that are loaded: scores, and cached values, which may replace scores."""
        for cached, replaced in problem.cached.items():
            self.arrays[cached] = (
                ScratchArray(builder, f"cached{len(self.arrays)}", cached.shape.element_type, sizes.cached)
                if replaced is None
                else self.arrays[replaced]
            )

        self.is_zero = builder.scratch("is_zero", I32, sizes.block)
        """For each query, whether the weights of masked keys are zeros."""

    def compute_weights(self, at: Index, first: Affine, count: int | Value) -> None:
        """Replaces the scores of `count` queries from `first` on by weights."""
        with self._queries(at, first, count) as (row, query):
            totals: dict[Instruction, Element] = {}
            for sweep in self.problem.plan.sweeps:
                self._sweep(sweep, row, query, totals, self.problem.length)
            self._store_weights(row, query, totals, self.problem.length)

    def compute_weights_until(self, at: Index, first: Affine, count: int | Value, end: Value, bound: Value) -> Value:
        """Replaces the scores of the keys before `end`, which a mask does not hide from the block, by weights.

        Elements of the dot without the mask are within -bound and bound at masked keys. Returns whether the weights of
        all masked keys, and their terms of sums, are zeros; otherwise the weights are not valid.
        """
        builder, masked = self.builder, self.problem.masked
        assert masked is not None
        with builder.loop(self.sizes.block, AxisKind.VECTOR, width=self._width) as query:
            builder.store(self.is_zero, query, builder.constant(I32, 1))
        with self._queries(at, first, count) as (row, query):
            totals: dict[Instruction, Element] = {}
            is_zero = builder.constant(I1, 1)

            def at_masked_key(value: Instruction) -> list[Value]:
                """The values of a masked key for both bounds."""
                ends = bound, builder.unary("neg", bound)
                lowerings = [
                    Lowering(builder, self.sources, {**totals, **self._unused(), masked.other: end}) for end in ends
                ]
                last = (*row, Affine((), self.problem.length - 1))
                return [lowering.value(value, last) for lowering in lowerings]

            def zero_too(values: Sequence[Value]) -> Value:
                found = is_zero
                for value in values:
                    found = builder.binary("and", found, builder.compare("oeq", value, builder.zero(value.type)))
                return found

            for sweep in self.problem.plan.sweeps:
                self._sweep(sweep, row, query, totals, end)
                for reduction in sweep.reductions:
                    terms = at_masked_key(reduction.operands[0])
                    if monoid(reduction.to_apply) in IDEMPOTENT_OPS:
                        lowering = Lowering(builder, self.sources)
                        (totals[reduction],) = combine_elements(
                            lowering, reduction.to_apply, [totals[reduction]], terms[:1]
                        )
                    else:
                        is_zero = zero_too(terms)
            for weights in self.weights:
                is_zero = zero_too(at_masked_key(weights))
            self._store_weights(row, query, totals, end)
            self._clear_after(query, end)
            builder.store(self.is_zero, query, builder.convert("zext", is_zero, I32))
        return self._all_are_zero()

    def _unused(self) -> dict[Instruction, Element]:
        """Scores of the dot with the mask, which selects something else at masked keys."""
        return {dot.dot: self.builder.zero(F32) for dot in self.problem.scores}

    def _clear_after(self, query: Affine, end: Value) -> None:
        """Clears the weights that a tile of keys may have beyond those that are computed."""
        with self.builder.loop(self.sizes.padded_keys - self.problem.length) as number:
            for array in self.weights.values():
                array.store(self._offset(Affine.of(end) + number, query), self.builder.zero(F32))

    def _all_are_zero(self) -> Value:
        """Whether `is_zero` is true for all queries."""
        builder, yes = self.builder, self.builder.constant(I32, 1)
        (found,) = builder.reduce(
            self.sizes.block,
            [yes],
            lambda query, before: [builder.binary("and", before[0], builder.load(self.is_zero, query))],
            kind=AxisKind.VECTOR,
            width=self._width,
            identities=[yes],
            combine=lambda left, right: [builder.binary("and", left[0], right[0])],
        )
        return builder.compare("ne", found, builder.zero(I32))

    @property
    def _width(self) -> int:
        return min(self.builder.lanes(F32), self.sizes.block)

    @contextmanager
    def _queries(self, at: Index, first: Affine, count: int | Value) -> Iterator[tuple[Index, Affine]]:
        """A loop over vectors of queries; yields their index and their position in the block."""
        builder, width = self.builder, self._width
        with (
            builder.loop(pieces_until(builder, count, width)) as vector,
            builder.loop(width, AxisKind.VECTOR, width=width) as lane,
        ):
            query = vector * width + lane
            yield (*at, clamped_position(self.builder, first + query, self.problem.row_count)), query

    def _store_weights(
        self, row: Index, query: Affine, totals: Mapping[Instruction, Element], end: int | Value
    ) -> None:
        with self.builder.loop(end) as key:
            lowering = self._lowering(key, query, totals)
            found = [lowering.element(weights, (*row, key)) for weights in self.weights]
            for array, element in zip(self.weights.values(), found, strict=True):
                array.store(self._offset(key, query), element)

    def _offset(self, key: Affine, query: Affine) -> Affine:
        return key * self.sizes.block + query

    def _lowering(
        self, key: Affine, query: Affine, totals: Mapping[Instruction, Element], without: Sequence[Instruction] = ()
    ) -> Lowering:
        """A lowering of the values of a key, in which scores, cached values and reductions are bound."""
        bound = {i: array.load(self._offset(key, query)) for i, array in self.arrays.items() if i not in without}
        return Lowering(self.builder, self.sources, {**bound, **totals})

    def _sweep(
        self, sweep: Sweep, row: Index, query: Affine, totals: dict[Instruction, Element], end: int | Value
    ) -> None:
        """Emits the loop of a sweep over the keys before `end`; adds its reductions to `totals`."""
        if not sweep.reductions and not sweep.cached:
            return
        builder, sizes = self.builder, self.sizes
        lowering = Lowering(builder, self.sources)
        reductions = sweep.reductions
        neutral = [_identity(builder, reduction) for reduction in reductions]

        def combined(left: Sequence[Value], right: Sequence[Element]) -> list[Value]:
            found: list[Value] = []
            for reduction, before, term in zip(reductions, left, right, strict=True):
                (value,) = combine_elements(lowering, reduction.to_apply, [before], [term])
                assert isinstance(value, Value)
                found.append(value)
            return found

        def key(at: Affine, carried: Sequence[Value]) -> list[Value]:
            values = self._lowering(at, query, totals, self._unknown(sweep))
            terms = [values.element(reduction.operands[0], (*row, at)) for reduction in reductions]
            found = [(self.arrays[cached], values.element(cached, (*row, at))) for cached in sweep.cached]
            for array, element in found:
                array.store(self._offset(at, query), element)
            return combined(carried, terms)

        def keys(first: Affine, extent: int | Value, pieces: Sequence[int]) -> list[Value]:
            """The reductions over keys from `first` on, piece by piece."""
            if not pieces:
                return builder.reduce(extent, neutral, lambda position, carried: key(first + position, carried))
            piece, *smaller = pieces

            def of_piece(number: Affine, before: Sequence[Value]) -> list[Value]:
                count = extent_until(builder, number * piece, extent, piece)
                return combined(before, keys(first + number * piece, count, smaller))

            return builder.reduce(pieces_until(builder, extent, piece), neutral, of_piece)

        initial = [lowering.value(reduction.operands[1], ()) for reduction in reductions]
        found = combined(initial, keys(Affine(), end, (sizes.key_block, KEYS_PER_SUM)))
        totals.update(zip(reductions, found, strict=True))

    def _unknown(self, sweep: Sweep) -> list[Instruction]:
        """The cached values that are not known before a sweep, and scores that they have replaced."""
        sweeps = self.problem.plan.sweeps
        number = next(n for n, other in enumerate(sweeps) if other is sweep)
        return [cached for other in sweeps[number:] for cached in other.cached]


def _identity(builder: Builder, reduction: Instruction) -> Value:
    return builder.constant(register_type(reduction.shape.element_type), identity_of(reduction.to_apply))
