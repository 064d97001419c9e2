"""Kernels of dot.

| form | lanes along | for |
|---|---|---|
| direct | columns, read where they are | an operand that the cache holds, columns in one run of memory or few |
| streamed | columns, read where they are, a few terms at a time | few rows, an operand larger than the cache |
| inner | terms | matrix times vector, few rows or columns of operands that are contiguous along the terms |
| packed | columns, copied block by block into the order in which tiles read them | all that is larger |

A block of the result is a task; its terms are added in an order that the shapes alone decide.

Owns: the choice of a form, and the loops of each. Must not know: dimension numbers, layouts of operands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.codegen.emitters.matmul.contraction import Contraction
from xlapy.codegen.emitters.matmul.gemv import streamed_kernel
from xlapy.codegen.emitters.matmul.packed_gemm import packed_kernel
from xlapy.codegen.emitters.matmul.tiles import Tile, balanced, choose_tile, inside, tile_sums, within
from xlapy.codegen.region import Region
from xlapy.loops import Affine, AxisKind, Kernel, Value
from xlapy.loops.reduction_order import MAX_ACCUMULATOR_REGISTERS
from xlapy.lower import Element
from xlapy.lower.contraction import multiply_add, sums_in_lanes, zero_element
from xlapy.lower.core import Index, delinear, linear
from xlapy.lower.element_types import register_type
from xlapy.lower.movement import both

IN_CACHE = 1 << 17
"""Bytes of an operand that are read again and again without being packed."""

FEW_ROWS = 16
"""Rows below which packing the other operand does not pay."""

LEAST_SIDE = 2
"""Rows and columns of products, too little work to be packed, that share what tiles read."""


def dot_kernel(region: Region) -> tuple[Kernel, int] | None:
    """The kernel of a region whose root is a dot, and the work of one task; None where general loops do as well."""
    if region.root.op is not opcodes.DOT:
        return None
    dot = Contraction(region)
    if not dot.terms or dot.rows * dot.columns * dot.terms < 8:
        return None
    columns, terms = dot.right_strides()
    _, left_terms = dot.left_strides()
    lanes = dot.builder.lanes(register_type(dot.type))
    along_terms = terms == 1 and left_terms == 1 and not dot.type.is_complex and dot.terms >= lanes
    if not dot.type.is_complex and columns is not None and columns < 2 and not (along_terms and dot.columns == 1):
        size = dot.terms * dot.columns * register_type(dot.type).byte_size
        if size <= IN_CACHE:
            return _Direct(dot).kernel()
        if dot.rows < FEW_ROWS:
            return streamed_kernel(dot)
    if along_terms and min(dot.rows, dot.columns) < FEW_ROWS:
        return _Inner(dot).kernel()
    if dot.rows * dot.columns * dot.terms < 1 << 12:
        return _Direct(dot).kernel() if min(dot.rows, dot.columns) >= LEAST_SIDE else None
    return packed_kernel(dot)


# -- direct


@dataclass(frozen=True, slots=True)
class _Direct:
    """Tiles that read both operands where they are; a tile is a task."""

    dot: Contraction

    def kernel(self) -> tuple[Kernel, int]:
        dot, builder = self.dot, self.dot.builder
        tile = choose_tile(dot.region.target, builder, dot.type, dot.rows, dot.columns)
        down, across = -(-dot.rows // tile.rows), -(-dot.columns // tile.columns)
        with builder.loop(dot.batches * down * across, AxisKind.PARALLEL) as task:
            batch, at_row, at_column = delinear(builder, task, (dot.batches, down, across))
            self.tile(tile, batch, at_row * tile.rows, at_column * tile.columns)
        return builder.kernel, tile.rows * tile.columns * dot.terms

    def tile(self, tile: Tile, batch: Affine, first_row: Affine, first_column: Affine) -> None:
        dot, builder = self.dot, self.dot.builder
        sizes = [dot.outer, dot.inner] if dot.outer > 1 else [dot.inner]
        rows = [within(builder, first_row + row, dot.rows) for row in range(tile.rows)]
        with builder.loop(tile.lanes, AxisKind.VECTOR, width=tile.lanes) as lane:
            columns = [first_column + lane + vector * tile.lanes for vector in range(tile.vectors)]
            masks = [inside(dot.lowering, column, dot.columns, tile.columns) for column in columns]

            def right(term: Index, vector: int) -> Element:
                return dot.right_element(batch, linear(term, sizes), columns[vector], masks[vector])

            def left(term: Index, row: int) -> Element:
                return dot.left_element(batch, rows[row], linear(term, sizes))

            sums = tile_sums(builder, dot.type, tile, sizes, left, right)
            dot.store_tile(sums, batch, [first_row + row for row in range(tile.rows)], columns, masks)


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
                mask = both(
                    builder, inside(dot.lowering, row, dot.rows, tall), inside(dot.lowering, column, dot.columns, wide)
                )
                dot.store(batch, row, column, total, mask)
        return builder.kernel, tall * wide * dot.terms

    def sums(self, batch: Affine, rows: list[Affine], columns: list[Affine]) -> list[Value]:
        dot, builder = self.dot, self.dot.builder
        known = [within(builder, row, dot.rows) for row in rows], [within(builder, c, dot.columns) for c in columns]
        count = len(rows) * len(columns)

        def step(term: Affine, carried: Sequence[Value]) -> list[Value]:
            left = [dot.left_element(batch, row, term) for row in known[0]]
            right = [dot.right_element(batch, term, column) for column in known[1]]
            pairs = [(a, b) for a in left for b in right]
            sums = [multiply_add(builder, dot.type, a, b, s) for (a, b), s in zip(pairs, carried, strict=True)]
            return [s for s in sums if isinstance(s, Value)]

        zero = zero_element(builder, dot.type)
        assert isinstance(zero, Value)
        options = sums_in_lanes(builder, dot.type, dot.terms, count=count, limit=MAX_ACCUMULATOR_REGISTERS)
        return builder.reduce(dot.terms, [zero] * count, step, **options)
