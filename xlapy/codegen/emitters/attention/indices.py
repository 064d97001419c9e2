"""The indices of scores, weights and results of a block of queries, and the factors of the two dots.

Does not depend on how a kernel packs or multiplies them.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

from xlapy.base.element_types import PrimitiveType
from xlapy.codegen.element_locations import element_location
from xlapy.codegen.emitters.attention.problem import AttentionProblem, DotSide, FactorForm
from xlapy.codegen.emitters.matmul.group_loads import GroupLoads
from xlapy.codegen.emitters.matmul.micro_kernel import clamped_position
from xlapy.codegen.epilogue import moved_index
from xlapy.loops import Affine, Value
from xlapy.lower import Element, Lowering
from xlapy.lower.core import Index, delinear, linear
from xlapy.lower.elementwise import convert_element
from xlapy.opcodes.contraction import DotAttributes


class BlockIndices:
    """The indices of a block of queries, which begins at query `first` of batch element `at_outer`."""

    def __init__(self, problem: AttentionProblem, lowering: Lowering) -> None:
        self.problem, self.lowering, self.builder = problem, lowering, lowering.builder
        self.left_free, self.outer = problem.left_free, problem.outer_dimensions
        self.row_dimension, self.row_count = problem.row_dimension, problem.row_count
        self.at_outer: tuple[Affine, ...] = ()
        self.first = Affine()

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

    def query_factor(self, row: Affine, number: Affine) -> Element:
        """A factor of the first dot from a row of the block."""
        problem = self.problem
        index = self.score_index(row, Affine())
        batches = len(problem.queries.batch)
        places = dict(zip(problem.queries.batch, index[:batches], strict=True))
        places |= dict(zip(self.left_free, index[batches : batches + len(self.left_free)], strict=True))
        along = problem.queries.contracted[0]
        return self._factor(problem.score_factors, problem.queries, lambda term: places | {along: term}, number)

    def key_factor(self, key: Affine, number: Affine) -> Element:
        """A factor of the first dot from a key."""
        side, index = self.problem.keys, self.score_index(Affine(), Affine())
        places = dict(zip(side.batch, index[: len(side.batch)], strict=True)) | {side.free[0]: key}
        along = side.contracted[0]
        return self._factor(self.problem.score_factors, side, lambda term: places | {along: term}, number)

    def value_factor(self, number: Affine, column: Affine, mask: Value | None) -> Element:
        """A factor of the second dot from one or more values, where the mask is true."""
        places = self._value_places(column)
        along = self.problem.values.contracted[0]
        return self._factor(
            self.problem.mixing_factors, self.problem.values, lambda key: places | {along: key}, number, mask
        )

    def value_element(self, key: Affine, column: Affine) -> Element:
        """An element of the values in the type of the sums."""
        side = self.problem.values
        return self._element(side, self._value_places(column) | {side.contracted[0]: key}, self.problem.mixing_type)

    def _value_places(self, column: Affine) -> dict[int, Affine]:
        side, weights = self.problem.values, self.weight_index(Affine())
        batch = [weights[d] for d in self.problem.weight_side.batch]
        return dict(zip(side.batch, batch, strict=True)) | {side.free[0]: column}

    def _factor(
        self,
        form: FactorForm,
        side: DotSide,
        places: Callable[[Affine], dict[int, Affine]],
        number: Affine,
        mask: Value | None = None,
    ) -> Element:
        if form.group is None:
            return self._element(side, places(number), form.type, mask)
        terms = side.operand.shape.dimensions[side.contracted[0]]
        t = form.group.element
        return GroupLoads(self.builder, form.terms, terms).load(
            number,
            lambda term: self._element(side, places(term), t, mask),
            lambda term: element_location(self.lowering, side.operand, _index(side, places(term))),
            mask,
        )

    def _element(
        self, side: DotSide, places: dict[int, Affine], t: PrimitiveType, mask: Value | None = None
    ) -> Element:
        """An element of an operand of a dot, converted to a type."""
        with nullcontext() if mask is None else self.lowering.where(mask):
            element = self.lowering.element(side.operand, _index(side, places))
        return convert_element(self.builder, element, side.operand.shape.element_type, t)

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


def _index(side: DotSide, places: dict[int, Affine]) -> Index:
    return tuple(places.get(d, Affine()) for d in range(side.operand.shape.rank))
