"""A matrix-multiplication problem: the form to which dots and convolutions are reduced.

    result[batch, row, column] = sum over terms of left[batch, row, term] * right[batch, term, column]

In the names of BLAS, there are M rows, N columns and K terms. Each of the four positions may stand for any number of
dimensions; the columns run in the lanes of vectors. A subclass says which elements of its operands the positions mean.
Does not depend on tiles or blocks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import TypeAlias

from xlapy.base.element_types import PrimitiveType
from xlapy.codegen.access_maps import Access, accesses, stride
from xlapy.codegen.emitters.matmul.micro_kernel import add_elements, in_bounds
from xlapy.codegen.iteration_space import IterationSpace
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Location, PositionArithmetic, Value
from xlapy.lower import Element, Lowering, store_element
from xlapy.lower.contraction import multiply_add, rounded_sum, sum_type
from xlapy.lower.core import Index, linear
from xlapy.lower.element_types import load_element, register_type, storage_type
from xlapy.lower.elementwise import convert_element
from xlapy.lower.movement import conjunction

FactorIndex: TypeAlias = Callable[[PositionArithmetic, Affine, Affine, Affine], tuple[Instruction, Index]]
"""Returns the operand and the index of a factor, given the batch element, the row or column, and the term."""


class MatmulProblem(ABC):
    """The sizes and elements of a problem, and the kernel under construction that solves it."""

    batches: int
    rows: int
    columns: int
    outer: int
    inner: int
    """There are `outer * inner` terms. The `inner` ones are regular enough for one loop."""

    def __init__(self, region: Region) -> None:
        self.region = region
        self.root = region.root
        lhs, rhs = (operand.shape.element_type for operand in self.root.operands)
        self.type: PrimitiveType = sum_type([lhs, rhs], self.root.shape.element_type)
        """The type of the sums."""
        self.factor_type = self.type
        """The type of the factors, which kernels pack."""
        self.builder = kernel_builder(self.region.name, self.region.target)
        self._sources = {o: operand_source(self.builder, o, f"in{n}") for n, o in enumerate(self.region.operands)}
        self._output = result_buffer(self.builder, self.root.shape, "out0")
        self.lowering = Lowering(self.builder, self._sources)

    @property
    def terms(self) -> int:
        return self.outer * self.inner

    @abstractmethod
    def left_index(
        self, arithmetic: PositionArithmetic, batch: Affine, row: Affine, term: Affine
    ) -> tuple[Instruction, Index]:
        """The left operand, and the index of the factor of a term in it."""

    @abstractmethod
    def right_index(
        self, arithmetic: PositionArithmetic, batch: Affine, term: Affine, column: Affine
    ) -> tuple[Instruction, Index]:
        """The right operand, and the index of the factor of a term in it."""

    @abstractmethod
    def left_element(self, batch: Affine, row: Affine, term: Affine, mask: Value | None = None) -> Element:
        """The factor of a term from the left operand, in the type of the factors.

        Where the mask is false, memory is not accessed and the result is unspecified.
        """

    @abstractmethod
    def right_element(self, batch: Affine, term: Affine, column: Affine, mask: Value | None = None) -> Element:
        """The factor of a term from the right operand, as `left_element`."""

    @abstractmethod
    def index(self, batch: Affine, row: Affine, column: Affine) -> Index:
        """The index of an element in the result."""

    def left_location(self, batch: Affine, row: Affine, term: Affine) -> Location | None:
        """Where the factor of a term from the left operand lies in memory as it is; None if it is computed."""
        return None

    def right_location(self, batch: Affine, term: Affine, column: Affine) -> Location | None:
        """Where the factor of a term from the right operand lies in memory as it is; None if it is computed."""
        return None

    def multiply_add(self, left: Element, right: Element, total: Element) -> Element:
        """The sum of a total and the product of two factors."""
        return multiply_add(self.builder, self.type, left, right, total)

    def left_offset(self) -> Element | None:
        """A constant that every left factor contains besides its value; None if there is none.

        A kernel subtracts the products of this constant with the right factors from its sums.
        """
        return None

    def element_exists(self, batch: Affine, row: Affine, column: Affine) -> Value | None:
        """The condition that the result has this element; None if it always does."""
        return None

    def fast_path_condition(self, batch: Affine, rows: tuple[Affine, int], columns: tuple[Affine, int]) -> Value | None:
        """The condition under which plain sums of products are a block's results; None if they always are.

        rows, columns: the first row and column of the block, and the numbers of rows and columns of a whole block.
        """
        return None

    def load_factor(self, operand: Instruction, index: Index, mask: Value | None) -> Element:
        """Loads an element of an operand in the type of the factors."""
        with nullcontext() if mask is None else self.lowering.where(mask):
            return self.converted_to_factor(operand, self.lowering.element(operand, index))

    def converted_to_factor(self, operand: Instruction, element: Element) -> Element:
        """Converts an element of an operand to the type of the factors."""
        return convert_element(self.builder, element, operand.shape.element_type, self.factor_type)

    def store(self, batch: Affine, row: Affine, column: Affine, total: Element, mask: Value | None = None) -> None:
        """Stores an element of the result, given its sum, where the mask is true."""
        if isinstance(total, Value):
            total = rounded_sum(self.builder, total, self.type)
        element = convert_element(self.builder, total, self.type, self.root.shape.element_type)
        self.store_result(batch, row, column, element, mask)

    def store_result(
        self, batch: Affine, row: Affine, column: Affine, element: Element, mask: Value | None = None
    ) -> None:
        """Stores an element of the result where the mask is true."""
        shape = self.root.shape
        mask = conjunction(self.builder, mask, self.element_exists(batch, row, column))
        offset = linear(self.index(batch, row, column), shape.dimensions)
        store_element(self.builder, self._output, offset, element, shape.element_type, mask)

    def store_tile(
        self,
        sums: Sequence[Sequence[Element]],
        batch: Affine,
        rows: Sequence[Affine],
        columns: Sequence[Affine],
        masks: Sequence[Value | None],
        *,
        accumulate: bool = False,
    ) -> None:
        """Stores the part of a tile that is inside the result. masks: which columns are. accumulate: adds it to the
        result instead."""
        for row, totals in zip(rows, sums, strict=True):
            row_mask = in_bounds(self.lowering, row, self.rows, len(rows))
            for column, mask, total in zip(columns, masks, totals, strict=True):
                inside = conjunction(self.builder, row_mask, mask)
                if accumulate:
                    total = add_elements(self.builder, self.stored(batch, row, column, inside), total)
                self.store(batch, row, column, total, inside)

    @property
    def accumulates_in_result(self) -> bool:
        """Whether sums of some of the terms can be kept in the result, because it holds them exactly."""
        return self.root.shape.element_type is self.type and storage_type(self.type) is register_type(self.type)

    def stored(self, batch: Affine, row: Affine, column: Affine, mask: Value | None) -> Element:
        """Loads an element of the result where the mask is true, if `accumulates_in_result`."""
        mask = conjunction(self.builder, mask, self.element_exists(batch, row, column))
        offset = linear(self.index(batch, row, column), self.root.shape.dimensions)
        return load_element(self.builder, self._output, offset, self.type, mask)

    # -- memory

    def left_strides(self) -> tuple[int | None, int | None]:
        """The strides of the left operand between rows and between terms; None for a stride that varies."""
        return self._strides(self.left_index, self.rows)

    def right_strides(self) -> tuple[int | None, int | None]:
        """The strides of the right operand between columns and between terms; None for a stride that varies."""
        return self._strides(
            lambda space, batch, column, term: self.right_index(space, batch, term, column), self.columns
        )

    def _strides(self, index_of: FactorIndex, size: int) -> tuple[int | None, int | None]:
        """The strides of a factor along `size` rows or columns, and along the inner terms."""
        space = IterationSpace()
        batch, free, outer, inner = (space.axis(n) for n in (self.batches, size, self.outer, self.inner))
        factor = index_of(space, batch, free, outer * self.inner + inner)
        found = accesses(space, [factor], self.region.operands)
        (along_free, _), (along_inner, _) = (position.terms[0] for position in (free, inner))
        return _largest_stride(found, along_free), _largest_stride(found, along_inner)


def _largest_stride(found: Sequence[Access], axis: Value) -> int | None:
    """The largest stride of any access along an axis; None if one depends on the axis in another way."""
    largest = 0
    for access in found:
        along = stride(access.offset, axis)
        if along is None:
            return None
        largest = max(largest, abs(along))
    return largest
