"""The kernels of dots that need no packing: tiles that load both operands where they lie, and inner products.

Does not decide when they are used (`dot`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.left_offset import emit_corrected_micro_kernel, subtracted
from xlapy.codegen.emitters.matmul.micro_kernel import Tile, clamped_position, in_bounds
from xlapy.codegen.emitters.matmul.problem import MatmulProblem
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.plan import parameter
from xlapy.loops import Affine, AxisKind, Kernel, Value
from xlapy.loops.reduction_order import INNER_PRODUCT_ACCUMULATOR_VECTORS
from xlapy.lower import Element
from xlapy.lower.contraction import sums_in_lanes, zero_element
from xlapy.lower.core import Index, delinear, linear
from xlapy.lower.movement import conjunction

INNER_PRODUCT_TILE_SIDE = 4
"""The largest number of rows and of columns of a tile of inner products: sixteen sums."""

MAX_SCALAR_EPILOGUE_COST = 8.0
"""The largest cost of an epilogue, in additions, that inner products compute for one sum at a time. With a longer one,
sums go through scratch memory to vectors."""


@dataclass(frozen=True, slots=True)
class InnerProductParameters:
    """The sums of one task."""

    tile_rows: int = parameter(1, 16)
    """The rows of a tile."""
    tile_columns: int = parameter(1, 16)
    """The columns of a tile."""


@dataclass(frozen=True, slots=True)
class DirectGemm:
    """Computes a tile per task; the micro-kernel loads both operands without packing."""

    dot: MatmulProblem
    tile_shape: Tile

    def kernel(self) -> Kernel:
        dot, builder, tile = self.dot, self.dot.builder, self.tile_shape
        row_tiles, column_tiles = -(-dot.rows // tile.rows), -(-dot.columns // tile.columns)
        with builder.loop(dot.batches * row_tiles * column_tiles, AxisKind.PARALLEL) as task:
            batch, tile_row, tile_column = delinear(builder, task, (dot.batches, row_tiles, column_tiles))
            self.tile(tile, batch, tile_row * tile.rows, tile_column * tile.columns)
        return builder.kernel

    def tile(self, tile: Tile, batch: Affine, first_row: Affine, first_column: Affine) -> None:
        dot, builder = self.dot, self.dot.builder
        sizes = [dot.outer, dot.inner] if dot.outer > 1 else [dot.inner]
        rows = [clamped_position(builder, first_row + row, dot.rows) for row in range(tile.rows)]
        dot.prefetch_tile(tile, batch, first_row, first_column, dot.terms)
        with builder.loop(tile.lanes, AxisKind.VECTOR, width=tile.lanes) as lane:
            columns = [first_column + lane + vector * tile.lanes for vector in range(tile.vectors)]
            masks = [in_bounds(dot.lowering, column, dot.columns, tile.columns) for column in columns]

            def right(term: Index, vector: int) -> Element:
                return dot.right_element(batch, linear(term, sizes), columns[vector], masks[vector])

            def left(term: Index, row: int) -> Element:
                return dot.left_element(batch, rows[row], linear(term, sizes))

            sums = emit_corrected_micro_kernel(dot, tile, sizes, left, right)
            dot.store_tile(tile, lane, sums, batch, (first_row, first_column))


@dataclass(frozen=True, slots=True)
class InnerProducts:
    """Computes a tile of a few sums per task, or a strip of such tiles; each sum runs in vectors along the terms."""

    dot: MatmulProblem
    parameters: InnerProductParameters

    def kernel(self) -> Kernel:
        dot, builder = self.dot, self.dot.builder
        height, width = self.parameters.tile_rows, self._strip_columns()
        row_tiles, strips = -(-dot.rows // height), -(-dot.columns // width)
        with builder.loop(dot.batches * row_tiles * strips, AxisKind.PARALLEL) as task:
            # consecutive tasks share what they load of the larger operand
            if dot.rows > dot.columns:
                batch, tile_row, strip = delinear(builder, task, (dot.batches, row_tiles, strips))
            else:
                batch, strip, tile_row = delinear(builder, task, (dot.batches, strips, row_tiles))
            first = (tile_row * height, strip * width)
            if width > self.parameters.tile_columns:
                self._store_strip(batch, first, width)
            else:
                self._store_tile(batch, first)
        return builder.kernel

    def _strip_columns(self) -> int:
        """The columns of a task: those of a tile, or enough tiles to compute a long epilogue in vectors."""
        dot, parameters = self.dot, self.parameters
        if dot.epilogue.cost <= MAX_SCALAR_EPILOGUE_COST or dot.columns <= parameters.tile_columns:
            return parameters.tile_columns
        tiles = -(-min(dot.lanes, dot.columns) // parameters.tile_columns)
        return tiles * parameters.tile_columns

    def _store_tile(self, batch: Affine, first: tuple[Affine, Affine]) -> None:
        """Stores the sums of a tile one by one."""
        dot, tile_rows, tile_columns = self.dot, self.parameters.tile_rows, self.parameters.tile_columns
        rows = [first[0] + row for row in range(tile_rows)]
        columns = [first[1] + column for column in range(tile_columns)]
        for number, total in enumerate(self.sums(batch, rows, columns)):
            row, column = rows[number // tile_columns], columns[number % tile_columns]
            mask = conjunction(
                dot.builder,
                in_bounds(dot.lowering, row, dot.rows, tile_rows),
                in_bounds(dot.lowering, column, dot.columns, tile_columns),
            )
            dot.store(batch, row, column, total, mask)

    def _store_strip(self, batch: Affine, first: tuple[Affine, Affine], width: int) -> None:
        """Computes neighboring tiles into scratch memory, and stores their rows in vectors.

        A long epilogue takes as long for a vector of sums as for one sum.
        """
        dot, builder = self.dot, self.dot.builder
        tile_rows, tile_columns = self.parameters.tile_rows, self.parameters.tile_columns
        totals = ScratchArray(builder, "totals", dot.type, tile_rows * width)
        rows = [first[0] + row for row in range(tile_rows)]
        with builder.loop(width // tile_columns) as tile:
            columns = [first[1] + tile * tile_columns + column for column in range(tile_columns)]
            for number, total in enumerate(self.sums(batch, rows, columns)):
                offset = number // tile_columns * width + number % tile_columns
                totals.store(tile * tile_columns + offset, total)
        lanes = min(dot.lanes, 1 << (width - 1).bit_length())
        with (
            builder.loop(block_extent(builder, first[0], dot.rows, tile_rows)) as row,
            builder.loop(block_extent(builder, first[1], dot.columns, width), AxisKind.VECTOR, width=lanes) as column,
        ):
            dot.store(batch, first[0] + row, first[1] + column, totals.load(row * width + column))

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
