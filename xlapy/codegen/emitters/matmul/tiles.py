"""Register tiles: sums of products of a few rows and a few vectors of columns at once, and memory that feeds them.

A tile keeps rows x vectors sums in registers. For each term it reads one number a row and one vector of columns, so
that each number read is used many times:

    rows 2, vectors 1:   sum[0] += left[0] * right[0..15]
                         sum[1] += left[1] * right[0..15]

Owns: the shape of tiles, their loops, elements kept in scratch memory. Must not know: which operation the sums are of.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlapy.base.element_types import PrimitiveType
from xlapy.codegen.target import Target
from xlapy.loops import I1, Affine, AxisKind, Builder, Value
from xlapy.lower import Element, Lowering
from xlapy.lower.contraction import multiply_add, zero_element
from xlapy.lower.core import ComplexElement, Index
from xlapy.lower.element_types import register_type
from xlapy.lower.reduction import flat, unflat

UNROLLED = 8
"""Terms up to which a sum is written out instead of a loop."""

_WIDEST_ROW_OF_VECTORS = 8


@dataclass(frozen=True, slots=True)
class Tile:
    """rows x vectors sums of `lanes` columns each."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        return self.vectors * self.lanes


def choose_tile(target: Target, builder: Builder, t: PrimitiveType, rows: int, columns: int) -> Tile:
    """About as many sums as registers allow, square rather than long, and little left over at the edges."""
    widest = builder.lanes(register_type(t))
    lanes = min(widest, 1 << (columns - 1).bit_length())
    sums = target.vector_registers // 2 // (2 if t.is_complex else 1)
    most = max(2, min(_WIDEST_ROW_OF_VECTORS, sums // min(rows, sums)))
    vectors = max(1, min(most, columns // lanes))
    return Tile(balanced(rows, max(1, sums // vectors)), vectors, lanes)


def balanced(size: int, most: int) -> int:
    """The size of pieces of at most `most` that are about equal."""
    pieces = -(-size // most)
    return -(-size // pieces)


Left = Callable[[Index, int], Element]
Right = Callable[[Index, int], Element]


def tile_sums(
    builder: Builder, t: PrimitiveType, tile: Tile, extents: Sequence[int | Value], left: Left, right: Right
) -> list[list[Element]]:
    """The sums over terms in the order of their indices: rows of vectors, where `left(term, row)` and

    `right(term, vector)` give the factors. Must stand in a vector axis over the lanes.
    """
    like = [zero_element(builder, t)] * (tile.rows * tile.vectors)

    def step(term: Index, carried: Sequence[Value]) -> list[Value]:
        before = iter(unflat(carried, like))
        columns = [right(term, vector) for vector in range(tile.vectors)]
        after: list[Element] = []
        for row in range(tile.rows):
            factor = left(term, row)
            after += [multiply_add(builder, t, factor, column, next(before)) for column in columns]
        return flat(after)

    def nest(term: Index, carried: Sequence[Value]) -> list[Value]:
        if len(term) == len(extents):
            return step(term, carried)
        extent = extents[len(term)]
        kind = AxisKind.UNROLL if isinstance(extent, int) and extent <= UNROLLED else AxisKind.SERIAL
        return builder.reduce(extent, carried, lambda p, c: nest((*term, p), c), kind=kind)

    sums = unflat(nest((), flat(like)), like)
    return [sums[row * tile.vectors : (row + 1) * tile.vectors] for row in range(tile.rows)]


def add_elements(builder: Builder, left: Element, right: Element) -> Element:
    """The sum of two sums of products; of PRED, whether one of them is true."""
    if isinstance(left, ComplexElement) and isinstance(right, ComplexElement):
        return ComplexElement(builder.add(left.real, right.real), builder.add(left.imaginary, right.imaginary))
    assert isinstance(left, Value) and isinstance(right, Value)
    return builder.binary("or" if left.type is I1 else "add", left, right)


def within(builder: Builder, position: Affine, size: int) -> Affine:
    """The position, or the last one where it lies beyond: it is read in vain."""
    limits = position.bounds()
    if limits is not None and limits[1] < size:
        return position
    return builder.clamped(builder.value_of(position), size - 1)


def inside(lowering: Lowering, position: Affine, size: int, step: int) -> Value | None:
    """Whether a position of a piece of `step` lies within the size; None if all pieces do."""
    return lowering.inside((position,), [(0, size)]) if size % step else None
