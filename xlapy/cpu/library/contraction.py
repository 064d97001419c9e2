"""A dot as a product of matrices.

    result[batch, row, column] = sum over k of left[batch, row, k] * right[batch, k, column]

Rows, columns and k stand for any number of dimensions each, gone through in row-major order. The columns are those
that run in the lanes of vectors. A dot with a single rhs column has its operands changed over, so that its rows do.

Owns: which element of which operand a position means, and how elements lie in memory. Must not know: tiles, blocks.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from xlapy.base.element_types import PrimitiveType
from xlapy.cpu.schedule import Region, kernel_builder, output, source
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Builder, Value
from xlapy.lower import Element, Lowering, components, store_element
from xlapy.lower.contraction import placed, sum_type
from xlapy.lower.core import Index, delinear, linear
from xlapy.lower.element_types import rounded
from xlapy.lower.elementwise import convert_element
from xlapy.ops.contraction import DotAttributes


@dataclass(frozen=True, slots=True)
class Side:
    """An operand, and the meaning of its dimensions."""

    operand: Instruction
    batch: tuple[int, ...]
    free: tuple[int, ...]
    contracted: tuple[int, ...]

    def sizes(self, dimensions: Sequence[int]) -> list[int]:
        return [self.operand.shape.dimensions[d] for d in dimensions]

    def index(self, batch: Index, free: Index, contracted: Index) -> Index:
        rank = self.operand.shape.rank
        return placed(rank, (self.batch, batch), (self.free, free), (self.contracted, contracted))


class Contraction:
    """The dot of a region, with a kernel under construction: its sources, its output, its elements."""

    def __init__(self, region: Region) -> None:
        dot = region.root
        attrs: DotAttributes = dot.attributes
        lhs, rhs = dot.operands
        left = Side(lhs, attrs.lhs_batch_dims, attrs.lhs_free_dims(lhs.shape.rank), attrs.lhs_contracting_dims)
        right = Side(rhs, attrs.rhs_batch_dims, attrs.rhs_free_dims(rhs.shape.rank), attrs.rhs_contracting_dims)
        swapped = math.prod(right.sizes(right.free)) == 1
        self.left, self.right = (right, left) if swapped else (left, right)
        self.region = region
        self.dot = dot
        self.type: PrimitiveType = sum_type([lhs.shape.element_type, rhs.shape.element_type], dot.shape.element_type)
        self.batch_sizes = self.left.sizes(self.left.batch)
        self.term_sizes = self.left.sizes(self.left.contracted)
        self.batches, self.terms = math.prod(self.batch_sizes), math.prod(self.term_sizes)
        self.rows = math.prod(self.left.sizes(self.left.free))
        self.columns = math.prod(self.right.sizes(self.right.free))
        self.start()

    def start(self) -> None:
        """Begins the kernel anew."""
        self.builder = kernel_builder(self.region.name)
        self._sources = {o: source(self.builder, o, f"in{n}") for n, o in enumerate(self.region.operands)}
        self._output = output(self.builder, self.region.root.shape, "out0")
        self.lowering = Lowering(self.builder, self._sources)

    # -- elements

    def left_element(self, batch: Affine, row: Affine, term: Index, mask: Value | None = None) -> Element:
        """In the type of the sum; anything, without a touch of memory, where the mask is false.

        `term` is an index of the contracted dimensions, or a position among all of them.
        """
        return self._element(self.left, batch, row, term, mask)

    def right_element(self, batch: Affine, term: Index, column: Affine, mask: Value | None = None) -> Element:
        """As `left_element`."""
        return self._element(self.right, batch, column, term, mask)

    def _element(self, side: Side, batch: Affine, free: Affine, term: Index, mask: Value | None) -> Element:
        if len(term) != len(self.term_sizes):
            term = delinear(self.builder, term[0], self.term_sizes)
        places = delinear(self.builder, batch, self.batch_sizes)
        index = side.index(places, delinear(self.builder, free, side.sizes(side.free)), term)
        with nullcontext() if mask is None else self.lowering.where(mask):
            element = self.lowering.element(side.operand, index)
        return convert_element(self.builder, element, side.operand.shape.element_type, self.type)

    def store(self, batch: Affine, row: Affine, column: Affine, total: Element, mask: Value | None = None) -> None:
        """Writes the result's element, given its sum (where the mask is true)."""
        if isinstance(total, Value):
            total = rounded(self.builder, total, self.type)
        shape = self.dot.shape
        element = convert_element(self.builder, total, self.type, shape.element_type)
        place = linear((batch, row, column), (self.batches, self.rows, self.columns))
        store_element(self.builder, self._output, place, element, shape.element_type, mask)

    # -- memory

    def left_strides(self) -> tuple[int | None, int | None]:
        """How far apart neighbouring rows, and neighbouring terms, of the left operand lie; None where that varies."""
        return self._strides(lambda free, term: self.left_element(Affine(), free, (term,)), self.left)

    def right_strides(self) -> tuple[int | None, int | None]:
        """The same for columns and terms of the right operand."""
        return self._strides(lambda free, term: self.right_element(Affine(), (term,), free), self.right)

    def _strides(self, element: Callable[[Affine, Affine], Element], side: Side) -> tuple[int | None, int | None]:
        """By what the loads of one element depend on, in a kernel that is thrown away."""
        with self.builder.loop(math.prod(side.sizes(side.free))) as free, self.builder.loop(self.terms) as term:
            element(free, term)
        axes = [position.terms[0][0] for position in (free, term)]
        found = [_stride(self.builder, axis) for axis in axes]
        size = components(side.operand.shape.element_type)
        self.start()
        return found[0] and found[0] // size, found[1] and found[1] // size


def _stride(builder: Builder, axis: Value) -> int | None:
    """The largest step of any load along an axis."""
    largest = 0
    for statement in builder.kernel.statements():
        if not isinstance(statement, Value) or statement.op != "load":
            continue
        place, _ = statement.attribute
        for value, coefficient in place.offset.terms:
            if value is axis:
                largest = max(largest, abs(coefficient))
            elif _follows(value, axis):
                return None
    return largest


def _follows(value: Value, axis: Value) -> bool:
    return value is axis or any(_follows(arg, axis) for arg in value.args)
