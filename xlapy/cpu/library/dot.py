"""Kernels of dot.

| form | lanes along | for |
|---|---|---|
| direct | columns, read where they are | few rows, or an operand that the cache holds |
| inner | terms | matrix times vector, few rows or columns of operands that are contiguous along the terms |
| packed | columns, copied block by block into the order in which tiles read them | all that is larger |

A block of the result is a task; its terms are added in an order that the shapes alone decide.

Owns: the choice of a form, and the loops of each. Must not know: dimension numbers, layouts of operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlapy import ops
from xlapy.cpu.library.contraction import Contraction
from xlapy.cpu.library.tiles import Kept, Tile, add_elements, balanced, choose_tile, extent_of, tile_sums
from xlapy.cpu.schedule import Region
from xlapy.loops import Affine, AxisKind, Kernel, Value
from xlapy.lower import Element
from xlapy.lower.contraction import multiply_add, sums_in_lanes, zero_element
from xlapy.lower.core import Index, delinear
from xlapy.lower.element_types import register_type
from xlapy.lower.movement import both

IN_CACHE = 1 << 17
"""Bytes of an operand that are read again and again without being packed."""

FEW_ROWS = 16
"""Rows below which packing the other operand does not pay."""

BLOCK_BYTES, BLOCK_ROWS, BLOCK_TERMS = 512, 128, 256
"""A packed block of the right operand: so many terms of so many bytes of columns; and rows of the result."""


def dot_kernel(region: Region) -> tuple[Kernel, int] | None:
    """The kernel of a region whose root is a dot, and the work of one task; None where general loops do as well."""
    if region.root.op is not ops.DOT:
        return None
    dot = Contraction(region)
    if not dot.terms or dot.rows * dot.columns * dot.terms < 8:
        return None
    columns, terms = dot.right_strides()
    rows, left_terms = dot.left_strides()
    lanes = dot.builder.lanes(register_type(dot.type))
    if not dot.type.is_complex and columns is not None and columns < 2:
        size = dot.terms * dot.columns * register_type(dot.type).byte_size
        if dot.rows < FEW_ROWS or size <= IN_CACHE:
            return _Direct(dot).kernel()
    along_terms = terms == 1 and left_terms == 1 and not dot.type.is_complex
    if along_terms and dot.terms >= lanes and min(dot.rows, dot.columns) < FEW_ROWS:
        return _Inner(dot).kernel()
    if dot.rows * dot.columns * dot.terms < 1 << 12:
        return None
    return _Packed(dot, rows_are_contiguous=rows == 1 and left_terms != 1).kernel()


# -- edges


def _within(dot: Contraction, position: Affine, size: int) -> Affine:
    """The position, or the last one where it lies beyond: it is read in vain."""
    limits = position.bounds()
    if limits is not None and limits[1] < size:
        return position
    return dot.builder.clamped(dot.builder.value_of(position), size - 1)


def _mask(dot: Contraction, position: Affine, size: int, step: int) -> Value | None:
    """Whether a position of a piece of `step` lies within the size; None if all pieces do."""
    return dot.lowering.inside((position,), [(0, size)]) if size % step else None


def _store_tile(
    dot: Contraction,
    sums: list[list[Element]],
    batch: Affine,
    rows: list[Affine],
    columns: list[Affine],
    masks: list[Value | None],
) -> None:
    for row, totals in zip(rows, sums, strict=True):
        below = _mask(dot, row, dot.rows, len(rows))
        for column, mask, total in zip(columns, masks, totals, strict=True):
            dot.store(batch, row, column, total, both(dot.builder, below, mask))


# -- direct


@dataclass(frozen=True, slots=True)
class _Direct:
    """Tiles that read both operands where they are; a tile is a task."""

    dot: Contraction

    def kernel(self) -> tuple[Kernel, int]:
        dot, builder = self.dot, self.dot.builder
        tile = choose_tile(builder, dot.type, dot.rows, dot.columns)
        down, across = -(-dot.rows // tile.rows), -(-dot.columns // tile.columns)
        with builder.loop(dot.batches * down * across, AxisKind.PARALLEL) as task:
            batch, at_row, at_column = delinear(builder, task, (dot.batches, down, across))
            self.tile(tile, batch, at_row * tile.rows, at_column * tile.columns)
        return builder.kernel, tile.rows * tile.columns * dot.terms

    def tile(self, tile: Tile, batch: Affine, first_row: Affine, first_column: Affine) -> None:
        dot, builder = self.dot, self.dot.builder
        rows = [_within(dot, first_row + row, dot.rows) for row in range(tile.rows)]
        with builder.loop(tile.lanes, AxisKind.VECTOR, width=tile.lanes) as lane:
            columns = [first_column + lane + vector * tile.lanes for vector in range(tile.vectors)]
            masks = [_mask(dot, column, dot.columns, tile.columns) for column in columns]

            def right(term: Index, vector: int) -> Element:
                return dot.right_element(batch, term, columns[vector], masks[vector])

            def left(term: Index, row: int) -> Element:
                return dot.left_element(batch, rows[row], term)

            sums = tile_sums(builder, dot.type, tile, dot.term_sizes, left, right)
            _store_tile(dot, sums, batch, [first_row + row for row in range(tile.rows)], columns, masks)


# -- inner


@dataclass(frozen=True, slots=True)
class _Inner:
    """Tiles of a few sums, each in the lanes of one or two vectors along the terms; a tile is a task."""

    dot: Contraction

    def kernel(self) -> tuple[Kernel, int]:
        dot, builder = self.dot, self.dot.builder
        tall, wide = balanced(dot.rows, 4), balanced(dot.columns, 4)
        down, across = -(-dot.rows // tall), -(-dot.columns // wide)
        with builder.loop(dot.batches * down * across, AxisKind.PARALLEL) as task:
            batch, at_row, at_column = delinear(builder, task, (dot.batches, down, across))
            rows = [at_row * tall + row for row in range(tall)]
            columns = [at_column * wide + column for column in range(wide)]
            sums = self.sums(batch, rows, columns)
            for number, total in enumerate(sums):
                row, column = rows[number // wide], columns[number % wide]
                mask = both(builder, _mask(dot, row, dot.rows, tall), _mask(dot, column, dot.columns, wide))
                dot.store(batch, row, column, total, mask)
        return builder.kernel, tall * wide * dot.terms

    def sums(self, batch: Affine, rows: list[Affine], columns: list[Affine]) -> list[Value]:
        dot, builder = self.dot, self.dot.builder
        inside = [_within(dot, row, dot.rows) for row in rows], [_within(dot, c, dot.columns) for c in columns]
        count = len(rows) * len(columns)

        def step(term: Affine, carried: Sequence[Value]) -> list[Value]:
            left = [dot.left_element(batch, row, (term,)) for row in inside[0]]
            right = [dot.right_element(batch, (term,), column) for column in inside[1]]
            pairs = [(a, b) for a in left for b in right]
            sums = [multiply_add(builder, dot.type, a, b, s) for (a, b), s in zip(pairs, carried, strict=True)]
            return [s for s in sums if isinstance(s, Value)]

        zero = zero_element(builder, dot.type)
        assert isinstance(zero, Value)
        options = sums_in_lanes(builder, dot.type, dot.terms, count=count, accumulators=max(1, 8 // count))
        return builder.reduce(dot.terms, [zero] * count, step, **options)


# -- packed


class _Packed:
    """Blocks of the result, a task each. For each block of terms the right operand's is packed, and a few rows of

    the left operand's at a time. Sums over several blocks of terms wait in scratch memory.
    """

    def __init__(self, dot: Contraction, *, rows_are_contiguous: bool) -> None:
        self.dot = dot
        self.builder = builder = dot.builder
        t = dot.type
        self.tile = tile = choose_tile(builder, t, dot.rows, dot.columns)
        size = register_type(t).byte_size * (2 if t.is_complex else 1)
        self.down = balanced(-(-dot.rows // tile.rows), max(1, BLOCK_ROWS // tile.rows))
        self.across = balanced(-(-dot.columns // tile.columns), max(1, BLOCK_BYTES // size // tile.columns))
        self.terms = balanced(dot.terms, BLOCK_TERMS)
        self.rows_are_contiguous = rows_are_contiguous
        # rows of terms must not all begin in the same set of the cache
        self.row_stride = 1 if rows_are_contiguous else -(-self.terms // tile.lanes) * tile.lanes + 64 // size
        self.term_stride = tile.rows if rows_are_contiguous else 1
        self.left = Kept(builder, "left", t, tile.rows * max(self.row_stride, self.terms))
        self.right = Kept(builder, "right", t, self.terms * tile.columns * self.across)
        self.blocks = -(-dot.terms // self.terms)
        self.width = tile.columns * self.across
        self.sums = Kept(builder, "sums", t, self.down * tile.rows * self.width) if self.blocks > 1 else None

    def kernel(self) -> tuple[Kernel, int]:
        dot, builder, tile = self.dot, self.builder, self.tile
        tiles = -(-dot.rows // tile.rows), -(-dot.columns // tile.columns)
        down, across = -(-tiles[0] // self.down), -(-tiles[1] // self.across)
        with builder.loop(dot.batches * down * across, AxisKind.PARALLEL) as task:
            batch, at_row, at_column = delinear(builder, task, (dot.batches, down, across))
            block = _Block(
                self,
                batch,
                at_row * (self.down * tile.rows),
                at_column * self.width,
                extent_of(builder, at_row * self.down, tiles[0], self.down),
                extent_of(builder, at_column * self.across, tiles[1], self.across),
            )
            block.write()
        return builder.kernel, self.down * tile.rows * self.width * dot.terms


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
        plan = self.plan
        if plan.sums is None:
            self.terms(Affine(), plan.dot.terms)
            return
        self.clear()
        with plan.builder.loop(plan.blocks) as number:
            start = number * plan.terms
            self.terms(start, extent_of(plan.builder, start, plan.dot.terms, plan.terms))
        self.finish()

    def terms(self, start: Affine, count: int | Value) -> None:
        """Adds the products of one block of terms."""
        builder, tile = self.plan.builder, self.plan.tile
        with builder.loop(count) as term, builder.loop(self.across) as panel:
            self.pack_right(panel, start + term, term)
        with builder.loop(self.down) as at_row:
            row = at_row * tile.rows
            self.pack_left(row, start, count)
            with builder.loop(self.across) as panel:
                self.multiply(row, panel, count)

    # -- packing

    def pack_right(self, panel: Affine, source: Affine, term: Affine) -> None:
        """One term of a panel of `tile.columns` columns."""
        plan, builder, tile = self.plan, self.plan.builder, self.plan.tile
        dot = plan.dot
        begin = self.column + panel * tile.columns
        with builder.loop(tile.lanes, AxisKind.VECTOR, width=tile.lanes) as lane:
            for vector in range(tile.vectors):
                column = lane + vector * tile.lanes
                mask = _mask(dot, begin + column, dot.columns, tile.columns)
                element = dot.right_element(self.batch, (source,), begin + column, mask)
                plan.right.store(panel * (plan.terms * tile.columns) + term * tile.columns + column, element)

    def pack_left(self, row: Affine, start: Affine, count: int | Value) -> None:
        """The rows of a tile, in vectors along what is contiguous."""
        plan, builder, tile = self.plan, self.plan.builder, self.plan.tile
        dot, begin = plan.dot, self.row + row
        if plan.rows_are_contiguous:
            width = 1 << (tile.rows - 1).bit_length()
            with builder.loop(count) as term, builder.loop(tile.rows, AxisKind.VECTOR, width=width) as lane:
                mask = _mask(dot, begin + lane, dot.rows, tile.rows)
                element = dot.left_element(self.batch, begin + lane, (start + term,), mask)
                plan.left.store(term * tile.rows + lane, element)
            return
        with builder.loop(tile.rows) as number:
            place = _within(dot, begin + number, dot.rows)
            with builder.loop(count, AxisKind.VECTOR, width=builder.lanes(register_type(dot.type))) as term:
                element = dot.left_element(self.batch, place, (start + term,))
                plan.left.store(number * plan.row_stride + term, element)

    # -- multiplying

    def multiply(self, row: Affine, panel: Affine, count: int | Value) -> None:
        """The sums of a tile over one block of terms: added to those before, or the result."""
        plan, builder, tile = self.plan, self.plan.builder, self.plan.tile
        dot = plan.dot
        base = panel * (plan.terms * tile.columns)
        with builder.loop(tile.lanes, AxisKind.VECTOR, width=tile.lanes) as lane:
            columns = [panel * tile.columns + lane + vector * tile.lanes for vector in range(tile.vectors)]

            def right(term: Index, vector: int) -> Element:
                return plan.right.load(base + term[0] * tile.columns + lane + vector * tile.lanes)

            def left(term: Index, number: int) -> Element:
                return plan.left.load(term[0] * plan.term_stride + number * plan.row_stride)

            sums = tile_sums(builder, dot.type, tile, [count], left, right)
            if plan.sums is not None:
                self.keep(row, columns, sums)
                return
            rows = [self.row + row + number for number in range(tile.rows)]
            places = [self.column + column for column in columns]
            masks = [_mask(dot, place, dot.columns, tile.columns) for place in places]
            _store_tile(dot, sums, self.batch, rows, places, masks)

    def keep(self, row: Affine, columns: list[Affine], sums: list[list[Element]]) -> None:
        plan = self.plan
        assert plan.sums is not None
        for number, totals in enumerate(sums):
            for column, total in zip(columns, totals, strict=True):
                place = (row + number) * plan.width + column
                plan.sums.store(place, add_elements(plan.builder, plan.sums.load(place), total))

    def clear(self) -> None:
        plan, builder = self.plan, self.plan.builder
        assert plan.sums is not None
        zero = zero_element(builder, plan.dot.type)
        size = plan.down * plan.tile.rows * plan.width
        with builder.loop(size, AxisKind.VECTOR, width=plan.tile.lanes) as place:
            plan.sums.store(place, zero)

    def finish(self) -> None:
        """The sums become the result."""
        plan, builder, dot = self.plan, self.plan.builder, self.plan.dot
        assert plan.sums is not None
        tall, wide = plan.down * plan.tile.rows, plan.width
        with builder.loop(extent_of(builder, self.row, dot.rows, tall)) as row:
            width = plan.tile.lanes
            with builder.loop(
                extent_of(builder, self.column, dot.columns, wide), AxisKind.VECTOR, width=width
            ) as column:
                dot.store(self.batch, self.row + row, self.column + column, plan.sums.load(row * wide + column))
