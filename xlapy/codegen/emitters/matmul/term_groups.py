"""Matrix multiplications of narrow types by dot instructions, which multiply groups of terms.

A grouped problem has a group of two or four consecutive terms where the original problem has a term. A factor is an
I32 that holds the elements of a group, in a form of `group_formats`. Every kernel of this folder solves a grouped
problem as it solves any other.
"""

from __future__ import annotations

from collections.abc import Callable

from xlapy.base.element_types import S32
from xlapy.codegen.emitters.matmul.group_formats import (
    GroupFormat,
    add_products,
    group_format,
    left_offset,
    tile_format,
    with_left_offset,
)
from xlapy.codegen.emitters.matmul.group_loads import GroupLoads, is_group
from xlapy.codegen.emitters.matmul.micro_kernel import clamped_position
from xlapy.codegen.emitters.matmul.problem import MatmulProblem
from xlapy.codegen.target import Target
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Location, PositionArithmetic, Value
from xlapy.lower import Element
from xlapy.lower.contraction import sum_type
from xlapy.lower.core import Index

MIN_GROUPS = 4
"""The smallest number of groups of terms for which packing groups is worth it."""


def grouped_problem(problem: MatmulProblem) -> MatmulProblem:
    """Returns the problem with its terms in groups if a dot instruction multiplies them, else the problem itself."""
    form = _form(problem, group_format)
    return problem if form is None else GroupedProblem(problem, form)


def has_tile_instruction(target: Target, contraction: Instruction) -> bool:
    """Whether a machine has a tile instruction for the types of a dot."""
    left, right = (operand.shape.element_type for operand in contraction.operands[:2])
    return tile_format(target, left, right, sum_type([left, right], contraction.shape.element_type), 1) is not None


def tiled_problem(problem: MatmulProblem) -> GroupedProblem | None:
    """Returns the problem with its terms in groups that a tile instruction multiplies; None if there is none."""
    form = _form(problem, tile_format)
    return None if form is None else GroupedProblem(problem, form)


def _form(problem: MatmulProblem, format: Callable[..., GroupFormat | None]) -> GroupFormat | None:
    """The format of the groups of a problem; None if its terms cannot be grouped so."""
    origin = (Affine(),) * 3
    left, _ = problem.left_index(problem.builder, *origin)
    right, _ = problem.right_index(problem.builder, *origin)
    types = left.shape.element_type, right.shape.element_type
    form = format(problem.region.target, *types, problem.type, problem.terms)
    if form is None:
        return None
    size = form.instruction.terms
    if problem.terms < MIN_GROUPS * size or (problem.outer > 1 and problem.inner % size):
        return None
    return form


class GroupedProblem(MatmulProblem):
    """A problem whose terms are the groups of terms of another problem."""

    def __init__(self, terms: MatmulProblem, form: GroupFormat) -> None:
        self._ungrouped, self.format = terms, form
        self._size = form.instruction.terms
        super().__init__(terms.region)
        self.builder, self.lowering, self.epilogue = terms.builder, terms.lowering, terms.epilogue
        self.type, self.factor_type, terms.factor_type = form.sum, S32, form.element
        self.batches, self.rows, self.columns = terms.batches, terms.rows, terms.columns
        self.outer, self.inner = terms.outer, -(-terms.inner // self._size)
        self._loads = GroupLoads(self.builder, self._size, terms.inner)

    @property
    def terms_per_factor(self) -> int:
        return self._size

    @property
    def has_known_terms(self) -> bool:
        return self._ungrouped.has_known_terms

    @property
    def columns_per_load(self) -> int:
        """As many as a group has terms, if the elements of a term in these columns are one I32 in memory."""
        origin, size, (columns, terms) = Affine(), self._size, self.right_strides()
        if self.columns < size * self.lanes or columns != 1 or terms == 1:
            return 1
        places = [self._ungrouped.right_location(origin, origin, Affine((), number)) for number in range(size)]
        return size if is_group(places) else 1

    def left_index(
        self, arithmetic: PositionArithmetic, batch: Affine, row: Affine, term: Affine
    ) -> tuple[Instruction, Index]:
        return self._ungrouped.left_index(arithmetic, batch, row, term * self._size)

    def right_index(
        self, arithmetic: PositionArithmetic, batch: Affine, term: Affine, column: Affine
    ) -> tuple[Instruction, Index]:
        return self._ungrouped.right_index(arithmetic, batch, term * self._size, column)

    def left_strides(self) -> tuple[int | None, int | None]:
        return self._grouped(self._ungrouped.left_strides())

    def right_strides(self) -> tuple[int | None, int | None]:
        return self._grouped(self._ungrouped.right_strides())

    def _grouped(self, strides: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
        free, terms = strides
        return free, terms and (1 if terms == 1 else terms * self._size)

    def index(self, batch: Affine, row: Affine, column: Affine) -> Index:
        return self._ungrouped.index(batch, row, column)

    def fast_path_condition(self, batch: Affine, rows: tuple[Affine, int], columns: tuple[Affine, int]) -> Value | None:
        return self._ungrouped.fast_path_condition(batch, rows, columns)

    def element_exists(self, batch: Affine, row: Affine, column: Affine) -> Value | None:
        return self._ungrouped.element_exists(batch, row, column)

    def multiply_add(self, left: Element, right: Element, total: Element) -> Element:
        return add_products(self.builder, self.format, left, right, total)

    def left_offset(self) -> Element | None:
        return left_offset(self.builder, self.format)

    # -- factors

    def left_element(self, batch: Affine, row: Affine, term: Affine, mask: Value | None = None) -> Element:
        terms = self._ungrouped
        group = self._loads.load(
            term,
            lambda position: terms.left_element(batch, row, position, mask),
            lambda position: terms.left_location(batch, row, position),
            mask,
        )
        return with_left_offset(self.builder, self.format, group)

    def right_locations(self, batch: Affine, term: Affine, column: Affine) -> list[Location]:
        terms = self._ungrouped
        positions = [term * self._size + number for number in range(self._size)]
        inside = [clamped_position(self.builder, position, terms.terms) for position in positions]
        found = [terms.right_location(batch, position, column) for position in inside]
        places = [place for place in found if place is not None]
        return places if len(places) == len(found) else []

    def right_element(self, batch: Affine, term: Affine, column: Affine, mask: Value | None = None) -> Element:
        terms = self._ungrouped
        return self._loads.load(
            term,
            lambda position: terms.right_element(batch, position, column, mask),
            lambda position: terms.right_location(batch, position, column),
            mask,
        )

    def right_elements(self, batch: Affine, term: Affine, column: Affine, count: int) -> list[Element]:
        terms = self._ungrouped
        found: list[Value] | None = None
        if count == self._size:
            found = self._loads.load_columns(
                term, lambda position, number: terms.right_location(batch, position, column + number)
            )
        return super().right_elements(batch, term, column, count) if found is None else [*found]
