"""The keys of a block of queries that a mask does not hide, and whether it is safe to leave out the others.

A weight of zero times an infinity is NaN, so that keys are left out only if all factors of products are finite. The
elements of the dot without the mask are not computed at masked keys. The largest magnitudes of its factors bound them.
Does not depend on what the weights are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlapy.base.element_types import F32 as F32_ELEMENT
from xlapy.codegen.emitters.attention.gradient_problem import GradientProblem
from xlapy.codegen.emitters.matmul.micro_kernel import clamped_position
from xlapy.hlo.instruction import Instruction
from xlapy.loops import F32, I1, I32, I64, Affine, AxisKind, Buffer, Value
from xlapy.lower import Lowering
from xlapy.lower.core import Index
from xlapy.lower.elementwise import convert_element

KEYS_PER_STEP = 64
"""The keys before the end are a multiple of this number, or all: a multiple of the keys of a tile."""

_MAGNITUDE = 0x7FFFFFFF
"""The bits of an F32 without its sign. As integers, they are ordered as the numbers are, with NaN after infinity."""

_INFINITY = 0x7F800000


class GradientMask:
    """The state of a task: magnitudes of its operands, and the end of the keys of its block."""

    def __init__(self, problem: GradientProblem, lowering: Lowering) -> None:
        masked = problem.masked
        assert masked is not None
        self.problem, self.masked, self.lowering, self.builder = problem, masked, lowering, lowering.builder
        self.scores = next(dot for dot in problem.scores if dot.dot is masked.other)
        self._end = self.builder.scratch("end", I64, 1)
        self._is_pending = self.builder.scratch("is_pending", I32, 1)
        """Whether the weights of the block are still to be computed."""
        self._keys = self.builder.scratch("magnitudes_of_keys", I32, 2)
        """The largest magnitudes of the keys of the dot without the mask, and of the factors of products over keys."""
        self._rows = self.builder.scratch("magnitudes_of_rows", I32, 2)
        """The same of the queries of the block."""

    # -- the end of the keys

    def find_end(self, at: Index, first: Affine, count: int | Value) -> None:
        """Finds the end of the keys that a block of `count` queries from `first` on needs."""
        builder, length = self.builder, self.problem.length
        others = [product.other for product in self.problem.over_queries]
        self._measure(self._rows, self.scores.rows, others, lambda row: (*at, self._query(first + row)), count)
        builder.store(self._is_pending, Affine(), builder.constant(I32, 1))
        builder.store(self._end, Affine(), builder.constant(I64, 0))
        steps = -(-length // KEYS_PER_STEP)
        with (
            builder.loop(steps) as number,
            builder.branch(builder.compare("eq", self._loaded_end(), builder.zero(I64))),
        ):
            begin = Affine((), (steps - 1) * KEYS_PER_STEP) - number * KEYS_PER_STEP
            end = builder.value_of(begin + KEYS_PER_STEP)
            builder.store(
                self._end, Affine(), builder.select(self._is_any_kept(at, first, count, begin), end, builder.zero(I64))
            )
        end = builder.binary("smax", self._loaded_end(), builder.constant(I64, KEYS_PER_STEP))
        end = builder.binary("smin", end, builder.constant(I64, length))
        builder.store(self._end, Affine(), builder.select(self._is_finite(), end, builder.constant(I64, length)))

    def _is_any_kept(self, at: Index, first: Affine, count: int | Value, begin: Affine) -> Value:
        """Whether the mask keeps any of `KEYS_PER_STEP` keys for any query of the block."""
        builder, no, predicate = self.builder, self.builder.constant(I1, 0), self.masked.predicate

        def of_key(position: Affine, found: Sequence[Value]) -> list[Value]:
            key = clamped_position(builder, begin + position, self.problem.length)

            def of_query(query: Affine, before: Sequence[Value]) -> list[Value]:
                value = self.lowering.value(predicate, (*at, self._query(first + query), key))
                kept = value if self.masked.kept else builder.logical_not(value)
                return [builder.binary("or", before[0], kept)]

            return builder.reduce(count, found, of_query)

        return self._reduced(KEYS_PER_STEP, no, of_key, "or")

    def _query(self, position: Affine) -> Affine:
        return clamped_position(self.builder, position, self.problem.row_count)

    def _loaded_end(self) -> Value:
        return self.builder.load(self._end, Affine())

    def load_end(self) -> Value:
        """The end of the keys that the block needs, as it is now."""
        end = self._loaded_end()
        end.range = (1, self.problem.length)
        return end

    def is_pending(self) -> Value:
        """Whether the weights of the block are still to be computed."""
        return self.builder.compare("ne", self.builder.load(self._is_pending, Affine()), self.builder.zero(I32))

    def finish(self) -> None:
        """Notes that the weights are computed."""
        self.builder.store(self._is_pending, Affine(), self.builder.zero(I32))

    def retry_with_all_keys(self) -> None:
        """Notes that the weights of all keys are still to be computed."""
        self.builder.store(self._is_pending, Affine(), self.builder.constant(I32, 1))
        self.builder.store(self._end, Affine(), self.builder.constant(I64, self.problem.length))

    # -- magnitudes

    def measure_keys(self, at: Index) -> None:
        """Finds the largest magnitudes of the keys of a batch element."""
        others = [product.other for product in self.problem.over_keys]
        self._measure(self._keys, self.scores.keys, others, lambda key: (*at, key), self.problem.length)

    def bound(self) -> Value:
        """A bound of the magnitudes of the elements of the dot without the mask: infinity if its type may overflow."""
        builder, t = self.builder, self.masked.other.shape.element_type
        factors = [builder.bitcast(builder.load(found, Affine()), F32) for found in (self._keys, self._rows)]
        terms = builder.constant(F32, 2 * self.scores.terms)  # twice as many, for what rounding adds
        bound = convert_element(builder, builder.mul(builder.mul(*factors), terms), F32_ELEMENT, t)
        assert isinstance(bound, Value)
        return bound

    def _is_finite(self) -> Value:
        """Whether all factors of products are finite."""
        builder, infinity = self.builder, self.builder.constant(I32, _INFINITY)
        found = [builder.compare("slt", builder.load(m, Affine((), 1)), infinity) for m in (self._keys, self._rows)]
        return builder.binary("and", *found)

    def _measure(
        self,
        found: Buffer,
        factor: Instruction,
        others: Sequence[Instruction],
        index: Callable[[Affine], Index],
        count: int | Value,
    ) -> None:
        """Stores the largest magnitude in the first `count` rows of an array, and the one in those of others."""
        builder = self.builder
        builder.store(found, Affine(), self._magnitude(factor, index, count))
        largest = builder.zero(I32)
        for other in others:
            largest = builder.binary("smax", largest, self._magnitude(other, index, count))
        builder.store(found, Affine((), 1), largest)

    def _magnitude(self, array: Instruction, index: Callable[[Affine], Index], count: int | Value) -> Value:
        """The bits of the largest magnitude in the rows of an array."""
        builder, t = self.builder, array.shape.element_type

        def of_column(column: Affine, before: Sequence[Value]) -> list[Value]:
            def of_row(row: Affine, carried: Sequence[Value]) -> list[Value]:
                element = convert_element(builder, self.lowering.element(array, (*index(row), column)), t, F32_ELEMENT)
                assert isinstance(element, Value)
                bits = builder.binary("and", builder.bitcast(element, I32), builder.constant(I32, _MAGNITUDE))
                return [builder.binary("smax", carried[0], bits)]

            return builder.reduce(count, before, of_row)

        return self._reduced(array.shape.dimensions[-1], builder.zero(I32), of_column, "smax")

    def _reduced(
        self, extent: int, start: Value, body: Callable[[Affine, Sequence[Value]], Sequence[Value]], op: str
    ) -> Value:
        """Emits a reduction in vectors, whose identity is the start."""
        builder = self.builder
        (found,) = builder.reduce(
            extent,
            [start],
            body,
            kind=AxisKind.VECTOR,
            width=min(builder.lanes(F32), 1 << (extent - 1).bit_length()),
            identities=[start],
            combine=lambda left, right: [builder.binary(op, left[0], right[0])],
        )
        return found
