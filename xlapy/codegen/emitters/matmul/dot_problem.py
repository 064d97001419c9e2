"""A dot as a matrix-multiplication problem: rows and columns are the free dimensions, terms the contracting ones.

A dot whose rhs has a single column swaps its operands, so that the rows run in the lanes of vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xlapy.codegen.element_locations import element_location
from xlapy.codegen.emitters.matmul.problem import MatmulProblem
from xlapy.codegen.region import Region
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Location, PositionArithmetic, Value
from xlapy.lower import Element
from xlapy.lower.contraction import assemble_index
from xlapy.lower.core import Index, delinear
from xlapy.opcodes.contraction import DotAttributes


@dataclass(frozen=True, slots=True)
class Side:
    """An operand, and the role of each of its dimensions."""

    operand: Instruction
    batch: tuple[int, ...]
    free: tuple[int, ...]
    contracted: tuple[int, ...]

    def sizes(self, dimensions: Sequence[int]) -> list[int]:
        return [self.operand.shape.dimensions[d] for d in dimensions]


class DotProblem(MatmulProblem):
    """The only dot of a region."""

    def __init__(self, region: Region) -> None:
        super().__init__(region)
        attrs: DotAttributes = self.root.attributes_as(DotAttributes)
        lhs, rhs = self.root.operands
        left = Side(lhs, attrs.lhs_batch_dims, attrs.lhs_free_dims(lhs.shape.rank), attrs.lhs_contracting_dims)
        right = Side(rhs, attrs.rhs_batch_dims, attrs.rhs_free_dims(rhs.shape.rank), attrs.rhs_contracting_dims)
        self.swapped = math.prod(right.sizes(right.free)) == 1
        self.left, self.right = (right, left) if self.swapped else (left, right)
        self.batch_sizes = left.sizes(left.batch)
        self.term_sizes = left.sizes(left.contracted)
        self.batches = math.prod(self.batch_sizes)
        self.rows = math.prod(self.left.sizes(self.left.free))
        self.columns = math.prod(self.right.sizes(self.right.free))
        self.outer, self.inner = 1, math.prod(self.term_sizes)
        if len(self.term_sizes) > 1 and None in (self.left_strides()[1], self.right_strides()[1]):
            self.outer, self.inner = math.prod(self.term_sizes[:-1]), self.term_sizes[-1]

    def left_index(
        self, arithmetic: PositionArithmetic, batch: Affine, row: Affine, term: Affine
    ) -> tuple[Instruction, Index]:
        return self._factor(arithmetic, self.left, batch, row, term)

    def right_index(
        self, arithmetic: PositionArithmetic, batch: Affine, term: Affine, column: Affine
    ) -> tuple[Instruction, Index]:
        return self._factor(arithmetic, self.right, batch, column, term)

    def _factor(
        self, arithmetic: PositionArithmetic, side: Side, batch: Affine, free: Affine, term: Affine
    ) -> tuple[Instruction, Index]:
        parts = [
            (side.batch, delinear(arithmetic, batch, self.batch_sizes)),
            (side.free, delinear(arithmetic, free, side.sizes(side.free))),
            (side.contracted, delinear(arithmetic, term, self.term_sizes)),
        ]
        return side.operand, assemble_index(side.operand.shape.rank, *parts)

    def left_element(self, batch: Affine, row: Affine, term: Affine, mask: Value | None = None) -> Element:
        return self.load_factor(*self.left_index(self.builder, batch, row, term), mask)

    def right_element(self, batch: Affine, term: Affine, column: Affine, mask: Value | None = None) -> Element:
        return self.load_factor(*self.right_index(self.builder, batch, term, column), mask)

    def left_location(self, batch: Affine, row: Affine, term: Affine) -> Location | None:
        return element_location(self.lowering, *self.left_index(self.builder, batch, row, term))

    def right_location(self, batch: Affine, term: Affine, column: Affine) -> Location | None:
        return element_location(self.lowering, *self.right_index(self.builder, batch, term, column))

    def index(self, batch: Affine, row: Affine, column: Affine) -> Index:
        rows = delinear(self.builder, row, self.left.sizes(self.left.free))
        columns = delinear(self.builder, column, self.right.sizes(self.right.free))
        free = (*columns, *rows) if self.swapped else (*rows, *columns)
        return (*delinear(self.builder, batch, self.batch_sizes), *free)
