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
from xlapy.codegen.access_maps import Access, accesses, stride_in_vectors
from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.micro_kernel import Tile, add_elements, clamped_position, in_bounds
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.epilogue import MAX_UNROLLED_EPILOGUE_COST, Epilogue, contraction_of
from xlapy.codegen.iteration_space import IterationSpace
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Affine, Location, PositionArithmetic, Value
from xlapy.lower import Element, Lowering
from xlapy.lower.contraction import multiply_add, rounded_sum, sum_type
from xlapy.lower.core import Index, flatten_elements
from xlapy.lower.element_types import register_type, storage_type
from xlapy.lower.elementwise import convert_element
from xlapy.lower.movement import conjunction
from xlapy.lower.reduction import unflatten_elements

MIN_TERMS_OF_LONG_TILES = 48
"""The smallest number of terms of a tile whose part of the result is prefetched, or stored by a loop. Batches of
64 x 64 x 64 take 0.9 of the time with the prefetch, of 32 x 32 x 32 1.04 times as long; 28 x 8 x 2173 takes 1.1 times
as long with the loop (benchmarks/products.py)."""

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
        contraction = contraction_of(region)
        assert contraction is not None, region.name
        self.root = contraction
        lhs, rhs = (operand.shape.element_type for operand in self.root.operands[:2])
        self.type: PrimitiveType = sum_type([lhs, rhs], self.root.shape.element_type)
        """The type of the sums."""
        self.factor_type = self.type
        """The type of the factors, which kernels pack."""
        self.builder = kernel_builder(self.region.name, self.region.target)
        sources = {o: operand_source(self.builder, o, f"in{n}") for n, o in enumerate(self.region.operands)}
        outputs = [result_buffer(self.builder, r.shape, f"out{n}") for n, r in enumerate(self.region.results)]
        self.lowering = Lowering(self.builder, sources)
        self.epilogue = Epilogue(self.region, self.root, self.builder, sources, outputs)
        self._tile: ScratchArray | None = None

    @property
    def terms_per_factor(self) -> int:
        """The number of elements of an operand that a factor holds."""
        return 1

    @property
    def has_known_terms(self) -> bool:
        """Whether the number of terms is known when the kernel is compiled."""
        return True

    @property
    def columns_per_load(self) -> int:
        """The number of neighboring columns whose right factors are loaded together (`right_elements`)."""
        return 1

    @property
    def terms(self) -> int:
        return self.outer * self.inner

    @property
    def lanes(self) -> int:
        """The sums that fill a vector register."""
        return self.builder.lanes(register_type(self.type))

    @property
    def products(self) -> int:
        """The multiplications of one element of the batch."""
        return self.rows * self.columns * self.terms

    @property
    def right_bytes(self) -> int:
        """The size of the right operand of one element of the batch."""
        return self.terms * self.columns * register_type(self.type).byte_size

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

    def right_elements(self, batch: Affine, term: Affine, column: Affine, count: int) -> list[Element]:
        """The factors of a term in `count` neighboring columns, the first of which is `column`."""
        return [self.right_element(batch, term, column + number) for number in range(count)]

    @abstractmethod
    def index(self, batch: Affine, row: Affine, column: Affine) -> Index:
        """The index of an element in the result."""

    def left_location(self, batch: Affine, row: Affine, term: Affine) -> Location | None:
        """Where the factor of a term from the left operand lies in memory as it is; None if it is computed."""
        return None

    def right_location(self, batch: Affine, term: Affine, column: Affine) -> Location | None:
        """Where the factor of a term from the right operand lies in memory as it is; None if it is computed."""
        return None

    def right_locations(self, batch: Affine, term: Affine, column: Affine) -> list[Location]:
        """Where the elements of a factor from the right operand lie in memory as they are; none of them if one is
        computed."""
        location = self.right_location(batch, term, column)
        return [] if location is None else [location]

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
        mask = conjunction(self.builder, mask, self.element_exists(batch, row, column))
        self.epilogue.store(self.index(batch, row, column), element, mask)

    def store_tile(
        self,
        tile: Tile,
        lane: Affine,
        sums: Sequence[Sequence[Element]],
        batch: Affine,
        first: tuple[Affine, Affine],
        *,
        in_loops: bool = False,
        accumulates: Value | None = None,
        is_partial: bool = False,
    ) -> None:
        """Stores the part of a tile that is inside the result.

        first: the row and the column of the tile's first element. in_loops: writes the tile to scratch memory first, so
        that the code for an element is there once; tiles with a long epilogue are always written so. accumulates: if
        given and true, adds the tile to the sums of earlier terms that the result holds. is_partial: stores sums to
        which later terms are added, without the epilogue.
        """

        builder, (first_row, first_column) = self.builder, first
        columns = [first_column + lane + vector * tile.lanes for vector in range(tile.vectors)]
        masks = [in_bounds(self.lowering, column, self.columns, tile.columns) for column in columns]
        loaded = [] if accumulates is None else [conjunction(builder, accumulates, mask) for mask in masks]

        def store(row: Affine, totals: Sequence[Element], inside: Value | None) -> None:
            for vector, (column, total) in enumerate(zip(columns, totals, strict=True)):
                if accumulates is not None:
                    is_read = conjunction(builder, loaded[vector], inside)
                    total = self._accumulated(batch, (row, column), total, accumulates, is_read)
                mask = conjunction(builder, masks[vector], inside)
                (self.store_partial if is_partial else self.store)(batch, row, column, total, mask)

        is_long = not is_partial and self.epilogue.cost * tile.rows * tile.vectors > MAX_UNROLLED_EPILOGUE_COST
        if not in_loops and not is_long:
            for number, totals in enumerate(sums):
                row = first_row + number
                inside = in_bounds(self.lowering, row, self.rows, tile.rows)
                # a store without active lanes to a page that was never written takes hundreds of cycles
                store(clamped_position(builder, row, self.rows), totals, inside)
            return
        saved = self._saved(tile, lane, sums)
        rows = block_extent(builder, first_row, self.rows, tile.rows)
        with builder.loop(rows) as at:
            offset = lane + at * tile.columns
            store(first_row + at, [saved.load(offset + v * tile.lanes) for v in range(tile.vectors)], None)

    def _saved(self, tile: Tile, lane: Affine, sums: Sequence[Sequence[Element]]) -> ScratchArray:
        """The scratch memory of a tile, with its sums row by row."""
        if self._tile is None:
            self._tile = ScratchArray(self.builder, "tile", self.type, tile.rows * tile.columns)
        for number, totals in enumerate(sums):
            for vector, total in enumerate(totals):
                self._tile.store(lane + (number * tile.columns + vector * tile.lanes), total)
        return self._tile

    def prefetch_tile(self, tile: Tile, batch: Affine, row: Affine, column: Affine, terms: int) -> None:
        """Prefetches the lines of the results that a tile writes, which begins at a row and a column, if its `terms`
        terms take long enough and the result does not stay in the level-2 cache.

        A store to a line beyond the level-2 cache takes some 60 cycles, and few of them overlap.
        """
        result_bytes = self.batches * self.rows * self.columns * register_type(self.type).byte_size
        if terms < MIN_TERMS_OF_LONG_TILES or result_bytes <= self.region.target.l2_bytes // 2:
            return
        line_bytes = self.region.target.cache_line_bytes
        with self.builder.loop(tile.rows) as number:
            for place, pitch in self.epilogue.locations(self.index(batch, row + number, column)):
                size = place.buffer.type.byte_size
                begins = list(range(0, tile.columns, max(1, line_bytes // size)))
                if pitch * size % line_bytes:  # rows begin within a line
                    begins.append(tile.columns - 1)
                for begin in begins:
                    self.builder.prefetch(Location(place.buffer, place.offset + begin), for_write=True)

    @property
    def accumulates_in_result(self) -> bool:
        """Whether sums of some of the terms can be kept in a result, because it holds them exactly."""
        t = self.root.shape.element_type
        is_exact = t is self.type and storage_type(t) is register_type(t)
        is_last_known = self.has_known_terms or self.epilogue.is_trivial  # an epilogue follows the last block of terms
        return is_exact and is_last_known and self.epilogue.result_of_type(t) is not None

    def _accumulated(
        self, batch: Affine, place: tuple[Affine, Affine], total: Element, accumulates: Value, mask: Value | None
    ) -> Element:
        """The total of an element, and the sum of earlier terms if `accumulates` is true."""
        before = self.stored(batch, *place, conjunction(self.builder, accumulates, mask))
        after = flatten_elements([add_elements(self.builder, before, total)])
        pairs = zip(after, flatten_elements([total]), strict=True)
        return unflatten_elements([self.builder.select(accumulates, new, old) for new, old in pairs], [total])[0]

    def stored(self, batch: Affine, row: Affine, column: Affine, mask: Value | None) -> Element:
        """Loads the sum that `store_partial` has stored, where the mask is true."""
        mask = conjunction(self.builder, mask, self.element_exists(batch, row, column))
        return self.epilogue.load_sum(self.index(batch, row, column), mask)

    def store_partial(self, batch: Affine, row: Affine, column: Affine, total: Element, mask: Value | None) -> None:
        """Stores a sum of some of the terms where the mask is true, if `accumulates_in_result`."""
        mask = conjunction(self.builder, mask, self.element_exists(batch, row, column))
        self.builder.kernel.stores_repeatedly = True
        self.epilogue.store_sum(self.index(batch, row, column), total, mask)

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
        return _largest_stride(found, along_free, self.lanes), _largest_stride(found, along_inner, self.lanes)


def _largest_stride(found: Sequence[Access], axis: Value, lanes: int) -> int | None:
    """The largest stride of any access along an axis in vectors; None if one depends on the axis in another way."""
    largest = 0
    for access in found:
        along = stride_in_vectors(access.offset, axis, lanes)
        if along is None:
            return None
        largest = max(largest, abs(along))
    return largest
