"""The micro-kernel of matrix multiplications: computes a tile of the result in registers.

A tile accumulates rows x vectors sums. For each term it loads one number per row and one vector per `lanes` columns, so
that each loaded number is used many times:

    rows 2, vectors 1:   sum[0] += left[0] * right[0..15]
                         sum[1] += left[1] * right[0..15]

Does not depend on where the operands come from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from xlapy.base.element_types import PrimitiveType
from xlapy.codegen.target import Target
from xlapy.loops import I1, Affine, AxisKind, Builder, Value
from xlapy.loops.reduction_order import balanced_size
from xlapy.lower import Element, Lowering
from xlapy.lower.contraction import zero_element
from xlapy.lower.core import ComplexElement, Index, flatten_elements
from xlapy.lower.element_types import register_type
from xlapy.lower.reduction import unflatten_elements

MAX_UNROLLED_PRODUCTS = 32
"""The largest number of vector products, over all terms of the sums of a tile, that are unrolled; more are loops over
the terms. An unrolled dot of 8 x 8 would take a third longer to compile, and batches of them would not run faster."""

_MAX_TILE_VECTORS = 8
"""The largest number of vectors of columns in a tile."""


@dataclass(frozen=True, slots=True)
class Tile:
    """The shape of a register tile: MR = `rows` and NR = `vectors * lanes` columns."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def choose_micro_tile(target: Target, builder: Builder, t: PrimitiveType, rows: int, columns: int) -> Tile:
    """Chooses a tile that accumulates in half of the vector registers, nearly square, with little waste."""
    widest = builder.lanes(register_type(t))
    lanes = min(widest, 1 << (columns - 1).bit_length())
    sums = target.vector_registers // 2 // (2 if t.is_complex else 1)
    most = max(2, min(_MAX_TILE_VECTORS, sums // min(rows, sums)))
    vectors = max(1, min(most, columns // lanes))
    return Tile(balanced_size(rows, max(1, sums // vectors)), vectors, lanes)


Left = Callable[[Index, int], Element]
Right = Callable[[Index, int], Element]


class Factors(Protocol):
    """The properties of a matrix-multiplication problem that a micro-kernel depends on."""

    builder: Builder
    type: PrimitiveType

    def multiply_add(self, left: Element, right: Element, total: Element) -> Element: ...


def emit_micro_kernel(
    factors: Factors,
    tile: Tile,
    extents: Sequence[int | Value],
    left: Left,
    right: Right,
    initial: Sequence[Element] | None = None,
) -> list[list[Element]]:
    """Emits the sums of a tile, as rows of vectors; adds the terms in the order of their indices.

    `left(term, row)` and `right(term, vector)` return the factors. initial: the first totals, row by row; zero by
    default. The builder must be in a vector axis over the lanes.
    """
    builder, zero = factors.builder, zero_element(factors.builder, factors.type)
    like = [zero] * tile.rows * tile.vectors
    start = like if initial is None else initial

    def step(term: Index, carried: Sequence[Value]) -> list[Value]:
        before = iter(unflatten_elements(carried, like))
        columns = [right(term, vector) for vector in range(tile.vectors)]
        after: list[Element] = []
        for row in range(tile.rows):
            factor = left(term, row)
            after += [factors.multiply_add(factor, column, next(before)) for column in columns]
        return flatten_elements(after)

    def nest(term: Index, carried: Sequence[Value]) -> list[Value]:
        if len(term) == len(extents):
            return step(term, carried)
        kind = AxisKind.UNROLL if _is_unrolled(tile, extents[len(term) :]) else AxisKind.SERIAL
        return builder.reduce(extents[len(term)], carried, lambda p, c: nest((*term, p), c), kind=kind)

    sums = unflatten_elements(nest((), flatten_elements(start)), like)
    return [sums[row * tile.vectors : (row + 1) * tile.vectors] for row in range(tile.rows)]


def _is_unrolled(tile: Tile, extents: Sequence[int | Value]) -> bool:
    """Whether the loops over these extents, the innermost ones, are unrolled."""
    products = tile.rows * tile.vectors
    for extent in extents:
        if not isinstance(extent, int):
            return False
        products *= extent
    return products <= MAX_UNROLLED_PRODUCTS


def add_elements(builder: Builder, left: Element, right: Element) -> Element:
    """Adds two sums of products. A sum of PRED is true if one of them is."""
    if isinstance(left, ComplexElement) and isinstance(right, ComplexElement):
        return ComplexElement(builder.add(left.real, right.real), builder.add(left.imaginary, right.imaginary))
    assert isinstance(left, Value) and isinstance(right, Value)
    return builder.binary("or" if left.type is I1 else "add", left, right)


def clamped_position(builder: Builder, position: Affine, size: int) -> Affine:
    """The position, or the last valid one if it is out of bounds; its element is then computed but not stored."""
    limits = position.bounds()
    if limits is not None and limits[1] < size:
        return position
    return builder.clamped(builder.value_of(position), size - 1)


def in_bounds(lowering: Lowering, position: Affine, size: int, step: int) -> Value | None:
    """The condition that a position of a piece of `step` is below `size`; None if all pieces are whole."""
    return lowering.in_bounds((position,), [(0, size)]) if size % step else None
