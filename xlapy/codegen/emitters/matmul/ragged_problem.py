"""A ragged dot as a matrix-multiplication problem, of which each batch element has as much as its group.

| ragged dimension | batch | part of a batch element that exists |
|---|---|---|
| free | groups, batch and the free dimensions before it | the rows of the group |
| contracting | groups and batch | the terms of the group |
| batch | batch | all of it, if a group owns it |

If the dimension is free, one more group owns the rows that belong to no group; their results are zero. Group sizes that
are negative, or whose sum exceeds the ragged dimension, must be normalized first. If they are not, all ranges are still
inside the ragged dimension, but the results may be other ones. Does not depend on tiles or blocks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlapy.base.element_types import F8E8M0FNU, S64
from xlapy.codegen.element_locations import element_location
from xlapy.codegen.emitters.matmul.dot_problem import Side
from xlapy.codegen.emitters.matmul.problem import MatmulProblem
from xlapy.codegen.region import Region
from xlapy.hlo.instruction import Instruction
from xlapy.loops import I64, Affine, AxisKind, Location, PositionArithmetic, Value
from xlapy.lower import Element
from xlapy.lower.contraction import assemble_index
from xlapy.lower.core import Index, delinear
from xlapy.lower.elementwise import convert_element
from xlapy.lower.movement import conjunction
from xlapy.opcodes.contraction import RaggedDotAttributes, RaggedMode, ragged_mode


def has_ragged_problem(instruction: Instruction) -> bool:
    """Whether a ragged dot with static dimensions is such a problem: it has elements and terms of a type that kernels
    compute, and the groups of a contracting dimension do not differ between the contracting dimensions before it."""
    attrs: RaggedDotAttributes = instruction.attributes_as(RaggedDotAttributes)
    lhs, rhs, sizes = instruction.operand_shapes
    shapes = (lhs, rhs, sizes, instruction.shape)
    if not all(shape.size and shape.element_type is not F8E8M0FNU for shape in shapes):
        return False
    is_contracting = ragged_mode(attrs) is RaggedMode.CONTRACTING
    return not is_contracting or sizes.rank <= 1 + len(attrs.lhs_batch_dims)


class RaggedDotProblem(MatmulProblem):
    """The only ragged dot of a region."""

    def __init__(self, region: Region) -> None:
        super().__init__(region)
        attrs: RaggedDotAttributes = self.root.attributes_as(RaggedDotAttributes)
        self.mode = ragged_mode(attrs)
        self.sizes = self.root.operands[2]
        self.groups = self.sizes.shape.dimensions[-1]
        self.ragged_size = self.root.operands[0].shape.dimensions[attrs.lhs_ragged_dims[0]]
        self.left, self.right = _sides(self.root, attrs, self.mode)
        self.shared_sizes = self.left.sizes(self.left.batch)
        """The sizes of the dimensions of the batch besides the groups."""
        free, contracted = self.left.sizes(self.left.free), self.left.sizes(self.left.contracted)
        self.rows, self.columns = math.prod(free), math.prod(self.right.sizes(self.right.free))
        self.outer, self.inner = 1, math.prod(contracted)
        self.batches = self.group_numbers * math.prod(self.shared_sizes)
        self.unit = 1
        """The rows or terms of one index of the ragged dimension."""
        if self.mode is not RaggedMode.BATCH:
            ragged = free if self.mode is RaggedMode.FREE else contracted
            self.unit = math.prod(ragged) // self.ragged_size
            self.ragged_position = 0
        else:
            self.ragged_position = attrs.lhs_batch_dims.index(attrs.lhs_ragged_dims[0])
        self.end_row: Value | None = None
        """The row after those of the group of the current task, if the rows are ragged."""
        self.first_term = Affine()
        """The first term of the group of the current task."""
        self.term_count: Value | None = None
        """The number of terms of this group, if factors hold several terms and the last one may be incomplete."""

    @property
    def group_numbers(self) -> int:
        """How many groups the batch has, with that of the rows without a group; 1 if the batch has no groups."""
        return {RaggedMode.FREE: self.groups + 1, RaggedMode.CONTRACTING: self.groups, RaggedMode.BATCH: 1}[self.mode]

    def batch_index(self, arithmetic: PositionArithmetic, batch: Affine) -> tuple[Affine, Index]:
        """The group of a batch element, and its index in the other dimensions of the batch."""
        group, *shared = delinear(arithmetic, batch, (self.group_numbers, *self.shared_sizes))
        return group, tuple(shared)

    # -- groups

    def group_range(self, batch: Affine) -> tuple[Value, Value]:
        """Emits the first index of a batch element's group in the ragged dimension, and the index after the last one.

        If the ragged dimension is a batch dimension, the range is that of all groups. Both indices are from 0 to the
        size of the ragged dimension, whatever the group sizes are.
        """
        builder = self.builder
        group, shared = self.batch_index(builder, batch)
        number, zero = builder.value_of(group), builder.zero(I64)
        is_whole = self.mode is RaggedMode.BATCH

        def step(position: Affine, carried: Sequence[Value]) -> list[Value]:
            prefix = shared[: self.sizes.shape.rank - 1]
            size = self._size((*prefix, position))
            at = builder.value_of(position)
            is_before = builder.compare("slt", at, number)
            is_included = builder.compare("sle", at, number)
            start = carried[0] if is_whole else builder.add(carried[0], builder.select(is_before, size, zero))
            end = builder.add(carried[1], size if is_whole else builder.select(is_included, size, zero))
            return [start, end]

        def added(left: Sequence[Value], right: Sequence[Value]) -> list[Value]:
            return [builder.add(one, other) for one, other in zip(left, right, strict=True)]

        sums = builder.reduce(
            self.groups,
            [zero, zero],
            step,
            kind=AxisKind.VECTOR,
            width=min(builder.lanes(I64), 1 << (self.groups - 1).bit_length()),
            identities=[zero, zero],
            combine=added,
        )
        start, end = map(self._in_ragged_dimension, sums)
        if self.mode is RaggedMode.FREE:
            is_last = builder.compare("eq", number, builder.constant(I64, self.groups))
            end = builder.select(is_last, builder.constant(I64, self.ragged_size), end)
            end.range = (0, self.ragged_size)
        return start, end

    def _in_ragged_dimension(self, position: Value) -> Value:
        return self.builder.value_of(self.builder.clamped(position, self.ragged_size))

    def _size(self, index: Index) -> Value:
        """The size of a group, clamped, so that sums of sizes neither overflow nor decrease."""
        element = self.lowering.element(self.sizes, index)
        size = convert_element(self.builder, element, self.sizes.shape.element_type, S64)
        assert isinstance(size, Value)
        return self._in_ragged_dimension(size)

    # -- factors

    def left_index(
        self, arithmetic: PositionArithmetic, batch: Affine, row: Affine, term: Affine
    ) -> tuple[Instruction, Index]:
        _, shared = self.batch_index(arithmetic, batch)
        return self._factor(arithmetic, self.left, shared, row, term)

    def right_index(
        self, arithmetic: PositionArithmetic, batch: Affine, term: Affine, column: Affine
    ) -> tuple[Instruction, Index]:
        group, shared = self.batch_index(arithmetic, batch)
        if self.mode is RaggedMode.FREE:
            shared = group, *shared[: len(self.right.batch) - 1]
        return self._factor(arithmetic, self.right, shared, column, term)

    def _factor(
        self, arithmetic: PositionArithmetic, side: Side, batch: Index, free: Affine, term: Affine
    ) -> tuple[Instruction, Index]:
        if arithmetic is self.builder:
            term = self.first_term + term
        parts = [
            (side.batch, batch),
            (side.free, delinear(arithmetic, free, side.sizes(side.free))),
            (side.contracted, delinear(arithmetic, term, side.sizes(side.contracted))),
        ]
        return side.operand, assemble_index(side.operand.shape.rank, *parts)

    def left_element(self, batch: Affine, row: Affine, term: Affine, mask: Value | None = None) -> Element:
        if self.mode is RaggedMode.FREE:
            # a group may begin at any row, so that its last tile may end beyond the operand
            mask = conjunction(self.builder, mask, self.lowering.in_bounds((row,), [(0, self.rows)]))
        return self._element_of_group(*self.left_index(self.builder, batch, row, term), term, mask)

    def right_element(self, batch: Affine, term: Affine, column: Affine, mask: Value | None = None) -> Element:
        return self._element_of_group(*self.right_index(self.builder, batch, term, column), term, mask)

    def _element_of_group(self, operand: Instruction, index: Index, term: Affine, mask: Value | None) -> Element:
        """Loads a factor. Terms beyond those of the group are zero, if `term_count` is known."""
        if self.term_count is None:
            return self.load_factor(operand, index, mask)
        builder = self.builder
        is_inside = builder.compare("slt", builder.value_of(term), self.term_count)
        element = self.load_factor(operand, index, conjunction(builder, mask, is_inside))
        assert isinstance(element, Value)
        return builder.select(is_inside, element, builder.zero(element.type))

    def left_location(self, batch: Affine, row: Affine, term: Affine) -> Location | None:
        limits = row.bounds()
        if self.mode is RaggedMode.CONTRACTING or limits is None or limits[1] >= self.rows:
            return None
        return element_location(self.lowering, *self.left_index(self.builder, batch, row, term))

    def right_location(self, batch: Affine, term: Affine, column: Affine) -> Location | None:
        if self.mode is RaggedMode.CONTRACTING:
            return None
        return element_location(self.lowering, *self.right_index(self.builder, batch, term, column))

    # -- results

    def index(self, batch: Affine, row: Affine, column: Affine) -> Index:
        group, shared = self.batch_index(self.builder, batch)
        rows = delinear(self.builder, row, self.left.sizes(self.left.free))
        columns = delinear(self.builder, column, self.right.sizes(self.right.free))
        groups = (group,) if self.mode is RaggedMode.CONTRACTING else ()
        return (*groups, *shared, *rows, *columns)

    def element_exists(self, batch: Affine, row: Affine, column: Affine) -> Value | None:
        if self.end_row is None:
            return None
        return self.builder.compare("slt", self.builder.value_of(row), self.end_row)

    @property
    def has_known_terms(self) -> bool:
        return self.mode is not RaggedMode.CONTRACTING


def _sides(dot: Instruction, attrs: RaggedDotAttributes, mode: RaggedMode) -> tuple[Side, Side]:
    """The operands, with the dimensions in the order in which kernels count rows, columns, terms and the batch."""
    lhs, rhs = dot.operands[:2]
    ragged, batch = attrs.lhs_ragged_dims[0], attrs.lhs_batch_dims
    free, columns = attrs.lhs_free_dims(lhs.shape.rank), attrs.rhs_free_dims(rhs.shape.rank)
    terms = attrs.lhs_contracting_dims, attrs.rhs_contracting_dims
    if mode is RaggedMode.FREE:
        (group,) = attrs.rhs_group_dims
        position = free.index(ragged)
        left = Side(lhs, (*batch, *free[:position]), free[position:], terms[0])
        right = Side(rhs, (group, *attrs.rhs_batch_dims), tuple(d for d in columns if d != group), terms[1])
        return left, right
    if mode is RaggedMode.CONTRACTING:
        first = terms[0].index(ragged)
        terms = _moved_to_front(terms[0], first), _moved_to_front(terms[1], first)
    return Side(lhs, batch, free, terms[0]), Side(rhs, attrs.rhs_batch_dims, columns, terms[1])


def _moved_to_front(dimensions: tuple[int, ...], position: int) -> tuple[int, ...]:
    return (dimensions[position], *dimensions[:position], *dimensions[position + 1 :])
