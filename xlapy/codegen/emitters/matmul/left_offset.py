"""Subtracts the products of a constant that the left factors contain: see `MatmulProblem.left_offset`.

Example: a byte x of s8 becomes the unsigned number x + 128. A sum of products with the right factors y then is larger
by 128 times the sum of y, which depends on the column only.

Does not depend on the types of the factors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from xlapy.codegen.emitters.matmul.micro_kernel import Factors, Left, Right, Tile, emit_micro_kernel
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.loops import Affine, AxisKind, Builder, Value
from xlapy.lower import Element
from xlapy.lower.contraction import zero_element
from xlapy.lower.core import Index


class OffsetFactors(Factors, Protocol):
    """Factors of which the left ones may contain a constant."""

    def left_offset(self) -> Element | None: ...


def emit_corrected_micro_kernel(
    problem: OffsetFactors, tile: Tile, extents: Sequence[int | Value], left: Left, right: Right
) -> list[list[Element]]:
    """Emits a micro-kernel with one more row if the left factors contain a constant; its sums are subtracted."""
    offset = problem.left_offset()
    if offset is None:
        return emit_micro_kernel(problem, tile, extents, left, right)

    def factor(term: Index, row: int) -> Element:
        return offset if row == tile.rows else left(term, row)

    *rows, excess = emit_micro_kernel(problem, Tile(tile.rows + 1, tile.vectors, tile.lanes), extents, factor, right)
    return [[subtracted(problem.builder, a, b) for a, b in zip(row, excess, strict=True)] for row in rows]


def subtracted(builder: Builder, left: Element, right: Element) -> Value:
    """The difference of two sums."""
    assert isinstance(left, Value) and isinstance(right, Value)
    return builder.sub(left, right)


class PackedCorrections:
    """The first totals of the columns of a packed block of the right operand."""

    def __init__(self, problem: OffsetFactors, tile: Tile, panels: int) -> None:
        self.problem, self.tile = problem, tile
        self._totals: ScratchArray | None = None
        if problem.left_offset() is not None:
            self._totals = ScratchArray(problem.builder, "corrections", problem.type, panels * tile.columns)

    def compute(self, panels: int | Value, terms: int | Value, right: ScratchArray, panel_size: int) -> None:
        """Computes the first totals of the panels of a block, which are packed in `right`."""
        tile, problem, builder = self.tile, self.problem, self.problem.builder
        offset = problem.left_offset()
        if self._totals is None or offset is None:
            return
        zero = zero_element(builder, problem.type)
        with (
            builder.loop(panels) as panel,
            builder.loop(tile.lanes, AxisKind.VECTOR, width=tile.lanes) as lane,
        ):

            def factor(term: Index, vector: int) -> Element:
                return right.load(panel * panel_size + term[0] * tile.columns + lane + vector * tile.lanes)

            row = Tile(1, tile.vectors, tile.lanes)
            (excess,) = emit_micro_kernel(problem, row, [terms], lambda *_: offset, factor)
            for vector, total in enumerate(excess):
                place = panel * tile.columns + lane + vector * tile.lanes
                self._totals.store(place, subtracted(builder, zero, total))

    def first_totals(self, panel: Affine, lane: Affine) -> list[Element] | None:
        """Returns the first totals of the vectors of a panel; None for zeros."""
        if self._totals is None:
            return None
        tile = self.tile
        return [self._totals.load(panel * tile.columns + lane + vector * tile.lanes) for vector in range(tile.vectors)]
