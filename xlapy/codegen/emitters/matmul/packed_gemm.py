"""Products whose operands are packed: copied, block by block, into the order in which register tiles read them.

    for each block of the result, a task
      for each block of terms
        pack these terms of the right operand: panels of as many columns as a tile has, term by term
        for each few rows
          pack these terms of the left operand
          for each panel: a tile of sums

Sums over several blocks of terms wait in scratch memory until all are added. Terms are counted by two loops, outer and
inner; a block is a part of the inner loop for one outer position, or the whole inner loop for several.

Owns: blocks and packing. Must not know: which operation the product is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.product import Product
from xlapy.codegen.emitters.matmul.tiles import add_elements, balanced, choose_tile, inside, tile_sums, within
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.loops import Affine, AxisKind, Kernel, Value
from xlapy.loops.ir import tile_shape
from xlapy.loops.reduction_order import CONTRACTION_BLOCK_TERMS
from xlapy.lower import Element
from xlapy.lower.contraction import zero_element
from xlapy.lower.core import Index, delinear
from xlapy.lower.element_types import register_type

BLOCK_BYTES, BLOCK_ROWS = 512, 128
"""A packed block of the right operand: so many bytes of columns; and rows of the result."""


def packed_kernel(product: Product) -> tuple[Kernel, int]:
    """The kernel, and the work of one task."""
    return _Packed(product).kernel()


class _Packed:
    """The sizes of all blocks, and the memory that they are packed in."""

    def __init__(self, product: Product) -> None:
        rows, left_terms = product.left_strides()
        columns, right_terms = product.right_strides()
        self.rows_are_contiguous = rows_are_contiguous = rows == 1 and left_terms != 1
        """Then rows are packed in vectors, else terms are."""
        self.product, self.builder = product, product.builder
        builder, t = product.builder, product.type
        self.tile = tile = choose_tile(product.region.target, builder, t, product.rows, product.columns)
        size = register_type(t).byte_size * (2 if t.is_complex else 1)
        self.down = balanced(-(-product.rows // tile.rows), max(1, BLOCK_ROWS // tile.rows))
        self.across = balanced(-(-product.columns // tile.columns), max(1, BLOCK_BYTES // size // tile.columns))
        most = CONTRACTION_BLOCK_TERMS // 2 if rows_are_contiguous else CONTRACTION_BLOCK_TERMS
        self.inner = balanced(product.inner, most)
        self.outer = balanced(product.outer, max(1, most // product.inner))
        terms = self.inner * self.outer
        plain_size = register_type(t).byte_size
        registers = tile_shape(builder.vector_bytes, plain_size)
        room = -(-terms // registers[1]) * registers[1]
        # rows of terms must not all begin in the same set of the cache
        line = room + max(1, product.region.target.cache_line_bytes // size)
        self.row_stride = 1 if rows_are_contiguous else line
        self.term_stride = tile.rows if rows_are_contiguous else 1
        self.tile_size = tile.rows * (terms if rows_are_contiguous else self.row_stride)
        self.left = ScratchArray(builder, "left", t, self.tile_size * (self.down if rows_are_contiguous else 1))
        self.panel_size = room * tile.columns
        self.right = ScratchArray(builder, "right", t, self.panel_size * self.across)
        transposes = right_terms == 1 and columns != 1 and tile.columns % registers[0] == 0
        self.line, self.lines = line, ScratchArray(builder, "lines", t, tile.columns * line) if transposes else None
        """Columns of a panel as they are in memory, where their terms are contiguous: packed by transposition."""
        self.blocks = -(-product.outer // self.outer), -(-product.inner // self.inner)
        self.width = tile.columns * self.across
        several = self.blocks != (1, 1)
        self.sums = ScratchArray(builder, "sums", t, self.down * tile.rows * self.width) if several else None

    def kernel(self) -> tuple[Kernel, int]:
        product, builder, tile = self.product, self.builder, self.tile
        tiles = -(-product.rows // tile.rows), -(-product.columns // tile.columns)
        down, across = -(-tiles[0] // self.down), -(-tiles[1] // self.across)
        with builder.loop(product.batches * down * across, AxisKind.PARALLEL) as task:
            batch, at_row, at_column = delinear(builder, task, (product.batches, down, across))
            block = _Block(
                self,
                batch,
                at_row * (self.down * tile.rows),
                at_column * self.width,
                block_extent(builder, at_row * self.down, tiles[0], self.down),
                block_extent(builder, at_column * self.across, tiles[1], self.across),
            )
            rows = block.row, self.down * tile.rows
            condition = product.fast_path_condition(batch, rows, (block.column, self.width))
            if condition is None:
                block.write()
            else:
                with builder.branch(condition):
                    block.write()
                with builder.branch(builder.logical_not(condition)):
                    block.write_plainly()
        return builder.kernel, self.down * tile.rows * self.width * product.terms


@dataclass(frozen=True, slots=True)
class _Terms:
    """A block of terms: where it begins in the outer and the inner loop, and how long it is there."""

    outer: Affine
    inner: Affine
    outer_count: int | Value
    inner_count: int | Value


@dataclass(frozen=True, slots=True)
class _Block:
    """One block of the result: where it begins, and how many tiles it has down and across."""

    plan: _Packed
    batch: Affine
    row: Affine
    column: Affine
    down: int | Value
    across: int | Value

    def write(self) -> None:
        plan, product = self.plan, self.plan.product
        if plan.sums is None:
            self.add(_Terms(Affine(), Affine(), product.outer, product.inner))
            return
        self.clear()
        with plan.builder.loop(plan.blocks[0]) as at_outer, plan.builder.loop(plan.blocks[1]) as at_inner:
            outer, inner = at_outer * plan.outer, at_inner * plan.inner
            counts = (
                block_extent(plan.builder, outer, product.outer, plan.outer),
                block_extent(plan.builder, inner, product.inner, plan.inner),
            )
            self.add(_Terms(outer, inner, *counts))
        self.finish()

    def write_plainly(self) -> None:
        """Element by element, by what the operation means."""
        product = self.plan.product
        for row, column in self.places():
            element = product.lowering.element(product.root, product.index(self.batch, row, column))
            product.write(self.batch, row, column, element)

    def places(self) -> Iterator[tuple[Affine, Affine]]:
        """Loops over the elements of the block, those that there are, columns in lanes; gives the one position."""
        plan, builder, product = self.plan, self.plan.builder, self.plan.product
        rows = block_extent(builder, self.row, product.rows, plan.down * plan.tile.rows)
        columns = block_extent(builder, self.column, product.columns, plan.width)
        with builder.loop(rows) as row, builder.loop(columns, AxisKind.VECTOR, width=plan.tile.lanes) as column:
            yield self.row + row, self.column + column

    def add(self, terms: _Terms) -> None:
        """Adds the products of one block of terms."""
        plan, builder = self.plan, self.plan.builder
        with builder.loop(terms.outer_count) as outer, builder.loop(terms.inner_count) as inner:
            source = (terms.outer + outer) * plan.product.inner + terms.inner + inner
            if plan.lines is None:
                with builder.loop(self.across) as panel:
                    self.pack_right(panel, source, outer * plan.inner + inner)
            if plan.rows_are_contiguous:
                with builder.loop(self.down) as at_row:
                    self.pack_column(at_row, source, outer * plan.inner + inner)
        if plan.lines is not None:
            with builder.loop(self.across) as panel:
                self.pack_lines(plan.lines, panel, terms)
        with builder.loop(self.down) as at_row:
            if not plan.rows_are_contiguous:
                self.pack_rows(at_row, terms)
            with builder.loop(self.across) as panel:
                self.multiply(at_row, panel, terms)

    # -- packing

    def pack_right(self, panel: Affine, source: Affine, target: Affine) -> None:
        """One term of a panel."""
        plan, builder, tile = self.plan, self.plan.builder, self.plan.tile
        product = plan.product
        begin = self.column + panel * tile.columns
        with builder.loop(tile.lanes, AxisKind.VECTOR, width=tile.lanes) as lane:
            for vector in range(tile.vectors):
                column = lane + vector * tile.lanes
                mask = inside(product.lowering, begin + column, product.columns, tile.columns)
                element = product.right_element(self.batch, source, begin + column, mask)
                plan.right.store(panel * plan.panel_size + target * tile.columns + column, element)

    def pack_lines(self, lines: ScratchArray, panel: Affine, terms: _Terms) -> None:
        """All terms of a panel."""
        plan, tile, product = self.plan, self.plan.tile, self.plan.product
        with plan.builder.loop(tile.columns) as number:
            column = within(plan.builder, self.column + panel * tile.columns + number, product.columns)
            for source, place in self.term_vectors(terms):
                lines.store(number * plan.line + place, product.right_element(self.batch, source, column))
        extents = tile.columns, self.count(terms)
        lines.transpose(Affine(), plan.line, plan.right, panel * plan.panel_size, tile.columns, extents)

    def term_vectors(self, terms: _Terms) -> Iterator[tuple[Affine, Affine]]:
        """Loops over a block of terms in vectors; gives the one term, and its place among those packed."""
        plan, builder, product = self.plan, self.plan.builder, self.plan.product
        width = min(builder.lanes(register_type(product.type)), 1 << (plan.inner - 1).bit_length())
        with (
            builder.loop(terms.outer_count) as outer,
            builder.loop(terms.inner_count, AxisKind.VECTOR, width=width) as inner,
        ):
            yield (terms.outer + outer) * product.inner + terms.inner + inner, outer * plan.inner + inner

    def pack_column(self, at_row: Affine, source: Affine, target: Affine) -> None:
        """One term of the rows of a tile, contiguous ones."""
        plan, builder, tile = self.plan, self.plan.builder, self.plan.tile
        product = plan.product
        width = 1 << (tile.rows - 1).bit_length()
        with builder.loop(tile.rows, AxisKind.VECTOR, width=width) as lane:
            row = self.row + at_row * tile.rows + lane
            mask = inside(product.lowering, row, product.rows, tile.rows)
            element = product.left_element(self.batch, row, source, mask)
            plan.left.store(at_row * plan.tile_size + target * tile.rows + lane, element)

    def pack_rows(self, at_row: Affine, terms: _Terms) -> None:
        """All terms of the rows of a tile."""
        plan, tile, product = self.plan, self.plan.tile, self.plan.product
        with plan.builder.loop(tile.rows) as number:
            row = within(plan.builder, self.row + at_row * tile.rows + number, product.rows)
            for source, place in self.term_vectors(terms):
                plan.left.store(number * plan.row_stride + place, product.left_element(self.batch, row, source))

    # -- multiplying

    def multiply(self, at_row: Affine, panel: Affine, terms: _Terms) -> None:
        """The sums of a tile over one block of terms: added to those before, or the result."""
        plan, builder, tile = self.plan, self.plan.builder, self.plan.tile
        product = plan.product
        first = at_row * plan.tile_size if plan.rows_are_contiguous else Affine()
        with builder.loop(tile.lanes, AxisKind.VECTOR, width=tile.lanes) as lane:
            columns = [panel * tile.columns + lane + vector * tile.lanes for vector in range(tile.vectors)]

            def right(term: Index, vector: int) -> Element:
                place = panel * plan.panel_size + term[0] * tile.columns
                return plan.right.load(place + lane + vector * tile.lanes)

            def left(term: Index, number: int) -> Element:
                return plan.left.load(first + term[0] * plan.term_stride + number * plan.row_stride)

            count = self.count(terms)
            sums = tile_sums(builder, product.type, tile, [count], left, right)
            if plan.sums is not None:
                self.keep(at_row, columns, sums)
                return
            rows = [self.row + at_row * tile.rows + number for number in range(tile.rows)]
            places = [self.column + column for column in columns]
            masks = [inside(product.lowering, place, product.columns, tile.columns) for place in places]
            product.store_tile(sums, self.batch, rows, places, masks)

    def count(self, terms: _Terms) -> int | Value:
        """The terms of a block, which lie side by side."""
        if isinstance(terms.outer_count, int):
            if isinstance(terms.inner_count, int):
                return terms.outer_count * terms.inner_count
            assert terms.outer_count == 1
            return terms.inner_count
        builder = self.plan.builder
        assert isinstance(terms.inner_count, int)
        return builder.value_of(Affine.of(terms.outer_count) * terms.inner_count)

    def keep(self, at_row: Affine, columns: list[Affine], sums: list[list[Element]]) -> None:
        plan = self.plan
        assert plan.sums is not None
        for number, totals in enumerate(sums):
            for column, total in zip(columns, totals, strict=True):
                place = (at_row * plan.tile.rows + number) * plan.width + column
                plan.sums.store(place, add_elements(plan.builder, plan.sums.load(place), total))

    def clear(self) -> None:
        plan, builder = self.plan, self.plan.builder
        assert plan.sums is not None
        zero = zero_element(builder, plan.product.type)
        size = plan.down * plan.tile.rows * plan.width
        with builder.loop(size, AxisKind.VECTOR, width=plan.tile.lanes) as place:
            plan.sums.store(place, zero)

    def finish(self) -> None:
        """The sums become the result."""
        plan = self.plan
        assert plan.sums is not None
        for row, column in self.places():
            total = plan.sums.load((row - self.row) * plan.width + column - self.column)
            plan.product.store(self.batch, row, column, total)
