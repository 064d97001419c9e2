"""Matrix multiplications of narrow types by dot instructions, which multiply groups of terms.

A grouped problem has a group of two or four consecutive terms where the original problem has a term. A factor is an
I32 that holds the elements of a group, in a form of `group_formats`. Every kernel of this folder solves a grouped
problem as it solves any other. Groups that are contiguous in memory are loaded at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlapy.base.element_types import S32
from xlapy.codegen.emitters.matmul.group_formats import (
    GroupFormat,
    add_products,
    element_in_group,
    group_format,
    joined,
)
from xlapy.codegen.emitters.matmul.micro_kernel import clamped_position
from xlapy.codegen.emitters.matmul.problem import MatmulProblem
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I32, I64, Affine, Location, PositionArithmetic, Value
from xlapy.lower import Element
from xlapy.lower.core import Index
from xlapy.lower.movement import conjunction

MIN_GROUPS = 4
"""The smallest number of groups of terms for which packing groups is worth it."""

_HIGHEST_BITS = 0x80808080
"""The highest bit of each byte of a group."""


def grouped_problem(problem: MatmulProblem) -> MatmulProblem:
    """Returns the problem with its terms in groups if a dot instruction multiplies them, else the problem itself."""
    origin = (Affine(),) * 3
    left, _ = problem.left_index(problem.builder, *origin)
    right, _ = problem.right_index(problem.builder, *origin)
    types = left.shape.element_type, right.shape.element_type
    form = group_format(problem.region.target, *types, problem.type, problem.terms)
    if form is None:
        return problem
    size = form.instruction.terms
    if problem.terms < MIN_GROUPS * size or (problem.outer > 1 and problem.inner % size):
        return problem
    return GroupedProblem(problem, form)


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
        self._partial = terms.inner % self._size
        """The number of terms of the last group if it is not whole, else 0."""

    @property
    def terms_per_factor(self) -> int:
        return self._size

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
        return self.builder.constant(I32, _HIGHEST_BITS) if self.format.has_left_offset else None

    # -- factors

    def left_element(self, batch: Affine, row: Affine, term: Affine, mask: Value | None = None) -> Element:
        terms = self._ungrouped
        group = self._group(
            term,
            lambda position: terms.left_element(batch, row, position, mask),
            lambda position: terms.left_location(batch, row, position),
            mask,
        )
        offset = self.left_offset()
        return self.builder.binary("xor", group, offset) if isinstance(offset, Value) else group

    def right_element(self, batch: Affine, term: Affine, column: Affine, mask: Value | None = None) -> Element:
        terms = self._ungrouped
        return self._group(
            term,
            lambda position: terms.right_element(batch, position, column, mask),
            lambda position: terms.right_location(batch, position, column),
            mask,
        )

    def _group(
        self,
        group: Affine,
        element: Callable[[Affine], Element],
        location: Callable[[Affine], Location | None],
        mask: Value | None,
    ) -> Value:
        """The elements of a group. Elements beyond the last term are zero."""
        positions = [group * self._size + number for number in range(self._size)]
        found = self._loaded_group(group, [location(position) for position in positions], mask)
        if found is not None:
            return found
        builder = self.builder
        parts: list[Value] = []
        for number, position in enumerate(positions):
            if self._partial and number >= self._partial:
                last = clamped_position(builder, position, self._ungrouped.inner)
                part = element_in_group(builder, self._size, element(last), number)
                parts.append(builder.select(self._is_last(group), builder.zero(I32), part))
            else:
                parts.append(element_in_group(builder, self._size, element(position), number))
        return joined(builder, parts)

    def _loaded_group(self, group: Affine, places: Sequence[Location | None], mask: Value | None) -> Value | None:
        """Loads the elements of a group at once if they are contiguous in memory; None otherwise."""
        builder, first = self.builder, places[0]
        if first is None or first.buffer.type.bits * self._size != I32.bits:
            return None
        for number, place in enumerate(places):
            if place is None or place.buffer is not first.buffer or place.offset - first.offset != Affine((), number):
                return None
        if not self._partial:
            return builder.load_wide(I32, first, mask)
        # The last group reaches into the next row. Only the one in the last row ends outside of the buffer.
        size, terms = first.buffer.size, self._ungrouped.inner
        start = first.offset - group * self._size
        if any(stride % terms for stride in (size, start.constant, *(factor for _, factor in start.terms))):
            return None
        rest = [builder.load(first.buffer, Affine((), size - self._partial + n)) for n in range(self._partial)]
        ends = builder.value_of(first.offset + (self._size - 1))
        is_inside = builder.compare("slt", ends, builder.constant(I64, size))
        otherwise = joined(builder, [element_in_group(builder, self._size, part, n) for n, part in enumerate(rest)])
        loaded = builder.load_wide(I32, first, conjunction(builder, is_inside, mask), otherwise)
        kept = builder.constant(I32, (1 << self._partial * (I32.bits // self._size)) - 1)
        return builder.binary("and", loaded, builder.select(self._is_last(group), kept, builder.constant(I32, -1)))

    def _is_last(self, group: Affine) -> Value:
        builder = self.builder
        return builder.compare("eq", builder.value_of(group), builder.constant(I64, self.inner - 1))
