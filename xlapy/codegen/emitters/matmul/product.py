"""What contractions and convolutions have in common: they are products of matrices.

    result[batch, row, column] = sum over terms of left[batch, row, term] * right[batch, term, column]

Each of the four positions may stand for any number of dimensions; the columns run in the lanes of vectors.

Owns: the kernel under construction, how the elements of a product lie in memory. Must not know: what the dimensions
are, tiles, blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from xlapy.base.element_types import PrimitiveType
from xlapy.codegen.emitters.matmul.tiles import inside
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Builder, Value
from xlapy.lower import Element, Lowering, components, store_element
from xlapy.lower.contraction import rounded_sum, sum_type
from xlapy.lower.core import Index, linear
from xlapy.lower.elementwise import convert_element
from xlapy.lower.movement import both


class Product(ABC):
    """The sizes of a product, its elements, and the kernel that computes it."""

    batches: int
    rows: int
    columns: int
    outer: int
    inner: int
    """Terms: `outer * inner` of them, of which the last `inner` are worth going through in one loop."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.root = region.root
        lhs, rhs = (operand.shape.element_type for operand in self.root.operands)
        self.type: PrimitiveType = sum_type([lhs, rhs], self.root.shape.element_type)
        self.start()

    def start(self) -> None:
        """Begins the kernel anew."""
        self.builder = kernel_builder(self.region.name, self.region.target)
        self._sources = {o: operand_source(self.builder, o, f"in{n}") for n, o in enumerate(self.region.operands)}
        self._output = result_buffer(self.builder, self.root.shape, "out0")
        self.lowering = Lowering(self.builder, self._sources)

    @property
    def terms(self) -> int:
        return self.outer * self.inner

    @abstractmethod
    def left_element(self, batch: Affine, row: Affine, term: Affine, mask: Value | None = None) -> Element:
        """In the type of the sum; anything, without a touch of memory, where the mask is false."""

    @abstractmethod
    def right_element(self, batch: Affine, term: Affine, column: Affine, mask: Value | None = None) -> Element:
        """As `left_element`."""

    @abstractmethod
    def index(self, batch: Affine, row: Affine, column: Affine) -> Index:
        """Of the result."""

    def exists(self, batch: Affine, row: Affine, column: Affine) -> Value | None:
        """Whether the result has this element; None if it does."""
        return None

    def fast_path_condition(self, batch: Affine, rows: tuple[Affine, int], columns: tuple[Affine, int]) -> Value | None:
        """The condition under which plain sums of products are a block's results; None if they always are.

        rows, columns: the first row and column of the block, and the numbers of rows and columns of a whole block.
        """
        return None

    def factor(self, operand: Instruction, index: Index, mask: Value | None) -> Element:
        """An operand's element in the type of the sum."""
        with nullcontext() if mask is None else self.lowering.where(mask):
            return self.widened(operand, self.lowering.element(operand, index))

    def widened(self, operand: Instruction, element: Element) -> Element:
        """An element of an operand in the type of the sum."""
        return convert_element(self.builder, element, operand.shape.element_type, self.type)

    def store(self, batch: Affine, row: Affine, column: Affine, total: Element, mask: Value | None = None) -> None:
        """Writes the result's element, given its sum (where the mask is true)."""
        if isinstance(total, Value):
            total = rounded_sum(self.builder, total, self.type)
        element = convert_element(self.builder, total, self.type, self.root.shape.element_type)
        self.write(batch, row, column, element, mask)

    def write(self, batch: Affine, row: Affine, column: Affine, element: Element, mask: Value | None = None) -> None:
        """Writes the result's element (where the mask is true)."""
        shape = self.root.shape
        mask = both(self.builder, mask, self.exists(batch, row, column))
        place = linear(self.index(batch, row, column), shape.dimensions)
        store_element(self.builder, self._output, place, element, shape.element_type, mask)

    def store_tile(
        self,
        sums: Sequence[Sequence[Element]],
        batch: Affine,
        rows: Sequence[Affine],
        columns: Sequence[Affine],
        masks: Sequence[Value | None],
    ) -> None:
        """Writes a tile of the result, those of its rows and columns that there are; `masks` tell which columns."""
        for row, totals in zip(rows, sums, strict=True):
            below = inside(self.lowering, row, self.rows, len(rows))
            for column, mask, total in zip(columns, masks, totals, strict=True):
                self.store(batch, row, column, total, both(self.builder, below, mask))

    # -- memory

    def left_strides(self) -> tuple[int | None, int | None]:
        """How far apart neighbouring rows, and neighbouring terms, of the left operand lie; None where that varies."""
        return self._strides(self.rows, lambda batch, row, term: self.left_element(batch, row, term))

    def right_strides(self) -> tuple[int | None, int | None]:
        """The same for columns and terms of the right operand."""
        return self._strides(self.columns, lambda batch, column, term: self.right_element(batch, term, column))

    def _strides(
        self, size: int, element: Callable[[Affine, Affine, Affine], Element]
    ) -> tuple[int | None, int | None]:
        """By what the loads of one element depend on, in a kernel that is thrown away."""
        builder = self.builder
        loop = builder.loop
        with loop(self.batches) as batch, loop(size) as free, loop(self.outer) as outer, loop(self.inner) as inner:
            element(batch, free, outer * self.inner + inner)
        axes = [position.terms[0][0] for position in (free, inner)]
        found = [_stride(builder, axis) for axis in axes]
        size = max(components(operand.shape.element_type) for operand in self.root.operands)
        self.start()
        return found[0] and -(-found[0] // size), found[1] and -(-found[1] // size)


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
