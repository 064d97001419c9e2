"""Chooses and emits the kernel of a dot.

| form | vectors run along | used for |
|---|---|---|
| direct | columns, loaded from the operand | an operand that fits into the cache, columns contiguous or few |
| skinny GEMM | columns, loaded from the operand, a few terms at a time | few rows, an operand larger than the cache |
| inner products | terms | matrix times vector; few rows or columns of operands that are contiguous along the terms |
| packed GEMM | columns, packed block by block | everything larger |

A block of the result is a task. The order of its additions follows from the shapes alone (`loops.reduction_order`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.codegen.emitters.matmul.dot_problem import DotProblem
from xlapy.codegen.emitters.matmul.gemv import skinny_gemm_kernel
from xlapy.codegen.emitters.matmul.left_offset import emit_corrected_micro_kernel, subtracted
from xlapy.codegen.emitters.matmul.micro_kernel import (
    Tile,
    choose_tile,
    clamped_position,
    in_bounds,
)
from xlapy.codegen.emitters.matmul.packed_gemm import packed_gemm_kernel
from xlapy.codegen.emitters.matmul.problem import MatmulProblem
from xlapy.codegen.emitters.matmul.term_groups import grouped_problem
from xlapy.codegen.epilogue import contraction_of
from xlapy.codegen.region import Region
from xlapy.loops import Affine, AxisKind, Kernel, Value
from xlapy.loops.reduction_order import INNER_PRODUCT_ACCUMULATOR_VECTORS, balanced_size
from xlapy.lower import Element
from xlapy.lower.contraction import sums_in_lanes, zero_element
from xlapy.lower.core import Index, delinear, linear
from xlapy.lower.element_types import register_type
from xlapy.lower.movement import conjunction

MAX_CACHED_OPERAND_BYTES = 1 << 17
"""The largest size in bytes of a right operand that stays in the cache, so that every tile loads it without packing."""

MAX_SKINNY_ROWS = 32
"""The largest number of rows for which a right operand larger than the cache is not packed."""

MIN_TILE_SIDE = 2
"""The smallest number of rows and of columns of a small result that is computed in tiles. Below it, a tile would use
each loaded number only once."""

MIN_PACKED_PRODUCTS = 1 << 12
"""The smallest number of products (rows x columns x terms) of a packed GEMM. Below it, packing costs more than
it saves."""

MIN_PRODUCTS = 8
"""The smallest number of products of a dot with a kernel of its own. Below it, the loop emitter is as fast."""


def dot_kernel(region: Region) -> tuple[Kernel, int] | None:
    """Returns the kernel of a dot with its epilogue, and the work of one task; None to use the loop emitter."""
    contraction = contraction_of(region)
    if contraction is None or contraction.op is not opcodes.DOT:
        return None
    dot: MatmulProblem = DotProblem(region)
    if not dot.terms or dot.rows * dot.columns * dot.terms < MIN_PRODUCTS:
        return None
    dot = grouped_problem(dot)
    columns, terms = dot.right_strides()
    _, left_terms = dot.left_strides()
    lanes = dot.builder.lanes(register_type(dot.type))
    along_terms = terms == 1 and left_terms == 1 and not dot.type.is_complex and dot.terms >= lanes
    if not dot.type.is_complex and columns is not None and columns < 2 and not (along_terms and dot.columns == 1):
        size = dot.terms * dot.columns * register_type(dot.type).byte_size
        if size <= MAX_CACHED_OPERAND_BYTES:
            return _DirectGemm(dot).kernel()
        if dot.rows <= MAX_SKINNY_ROWS:
            return skinny_gemm_kernel(dot)
    if along_terms and min(dot.rows, dot.columns) <= MAX_SKINNY_ROWS:
        return _InnerProducts(dot).kernel()
    if dot.rows * dot.columns * dot.terms < MIN_PACKED_PRODUCTS:
        return _DirectGemm(dot).kernel() if min(dot.rows, dot.columns) >= MIN_TILE_SIDE else None
    return packed_gemm_kernel(dot)


# -- direct


@dataclass(frozen=True, slots=True)
class _DirectGemm:
    """Computes a tile per task; the micro-kernel loads both operands without packing."""

    dot: MatmulProblem

    def kernel(self) -> tuple[Kernel, int]:
        dot, builder = self.dot, self.dot.builder
        tile = choose_tile(dot.region.target, builder, dot.type, dot.rows, dot.columns)
        row_tiles, column_tiles = -(-dot.rows // tile.rows), -(-dot.columns // tile.columns)
        with builder.loop(dot.batches * row_tiles * column_tiles, AxisKind.PARALLEL) as task:
            batch, tile_row, tile_column = delinear(builder, task, (dot.batches, row_tiles, column_tiles))
            self.tile(tile, batch, tile_row * tile.rows, tile_column * tile.columns)
        return builder.kernel, tile.rows * tile.columns * dot.terms

    def tile(self, tile: Tile, batch: Affine, first_row: Affine, first_column: Affine) -> None:
        dot, builder = self.dot, self.dot.builder
        sizes = [dot.outer, dot.inner] if dot.outer > 1 else [dot.inner]
        rows = [clamped_position(builder, first_row + row, dot.rows) for row in range(tile.rows)]
        with builder.loop(tile.lanes, AxisKind.VECTOR, width=tile.lanes) as lane:
            columns = [first_column + lane + vector * tile.lanes for vector in range(tile.vectors)]
            masks = [in_bounds(dot.lowering, column, dot.columns, tile.columns) for column in columns]

            def right(term: Index, vector: int) -> Element:
                return dot.right_element(batch, linear(term, sizes), columns[vector], masks[vector])

            def left(term: Index, row: int) -> Element:
                return dot.left_element(batch, rows[row], linear(term, sizes))

            sums = emit_corrected_micro_kernel(dot, tile, sizes, left, right)
            dot.store_tile(tile, lane, sums, batch, [first_row + row for row in range(tile.rows)], columns, masks)


# -- inner products


@dataclass(frozen=True, slots=True)
class _InnerProducts:
    """Computes a tile of a few sums per task; each sum runs in vectors along the terms."""

    dot: MatmulProblem

    def kernel(self) -> tuple[Kernel, int]:
        dot, builder = self.dot, self.dot.builder
        tile_rows, tile_columns = balanced_size(dot.rows, 4), balanced_size(dot.columns, 4)
        row_tiles, column_tiles = -(-dot.rows // tile_rows), -(-dot.columns // tile_columns)
        with builder.loop(dot.batches * row_tiles * column_tiles, AxisKind.PARALLEL) as task:
            # consecutive tasks share what they load of the larger operand
            if dot.rows > dot.columns:
                batch, tile_row, tile_column = delinear(builder, task, (dot.batches, row_tiles, column_tiles))
            else:
                batch, tile_column, tile_row = delinear(builder, task, (dot.batches, column_tiles, row_tiles))
            rows = [tile_row * tile_rows + row for row in range(tile_rows)]
            columns = [tile_column * tile_columns + column for column in range(tile_columns)]
            sums = self.sums(batch, rows, columns)
            for number, total in enumerate(sums):
                row, column = rows[number // tile_columns], columns[number % tile_columns]
                mask = conjunction(
                    builder,
                    in_bounds(dot.lowering, row, dot.rows, tile_rows),
                    in_bounds(dot.lowering, column, dot.columns, tile_columns),
                )
                dot.store(batch, row, column, total, mask)
        return builder.kernel, tile_rows * tile_columns * dot.terms

    def sums(self, batch: Affine, rows: list[Affine], columns: list[Affine]) -> list[Value]:
        dot, builder = self.dot, self.dot.builder
        positions = (
            [clamped_position(builder, row, dot.rows) for row in rows],
            [clamped_position(builder, c, dot.columns) for c in columns],
        )
        count = len(rows) * len(columns)
        offset = dot.left_offset()
        excess = 0 if offset is None else len(columns)

        def step(term: Affine, carried: Sequence[Value]) -> list[Value]:
            left = [dot.left_element(batch, row, term) for row in positions[0]]
            left += [] if offset is None else [offset]
            right = [dot.right_element(batch, term, column) for column in positions[1]]
            pairs = [(a, b) for a in left for b in right]
            sums = [dot.multiply_add(a, b, s) for (a, b), s in zip(pairs, carried, strict=True)]
            return [s for s in sums if isinstance(s, Value)]

        zero = zero_element(builder, dot.type)
        assert isinstance(zero, Value)
        options = sums_in_lanes(
            builder, dot.type, dot.terms, count=count + excess, limit=INNER_PRODUCT_ACCUMULATOR_VECTORS
        )
        found = builder.reduce(dot.terms, [zero] * (count + excess), step, **options)
        if not excess:
            return found
        return [
            subtracted(builder, total, found[count + number % excess]) for number, total in enumerate(found[:count])
        ]
