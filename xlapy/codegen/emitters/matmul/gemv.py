"""GEMV and skinny GEMM: few rows times an operand too large for the cache, which is read once, in memory order.

    for each block of columns, a task
      for each block of KC terms
        pack these terms of the left operand; clear the sums
        for each strip of a few terms, for each few vectors of columns
          for each few rows: the micro-kernel adds their products to the sums, in registers
        add the sums to those of the blocks before
      store the sums

The columns of a tile may alternate between vectors (`SkinnySizes.columns_per_load`). The sums in scratch memory then
have the order of the tiles; they are stored by way of a row in the order of the columns.

KC is a multiple of `BLOCK_MULTIPLE`; the terms that remain are a block of their own. No other size affects the bits of
a result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.left_offset import subtracted
from xlapy.codegen.emitters.matmul.micro_kernel import Tile, add_elements, emit_micro_kernel
from xlapy.codegen.emitters.matmul.problem import MatmulProblem
from xlapy.codegen.emitters.matmul.skinny_sizes import BLOCK_MULTIPLE, SkinnyGemmParameters, SkinnySizes
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.loops import Affine, AxisKind, Kernel, Value
from xlapy.lower import Element
from xlapy.lower.contraction import zero_element
from xlapy.lower.core import Index, delinear
from xlapy.lower.element_types import register_type

MAX_SHARED_FACTORS = 8
"""The largest number of left factors of a strip, of all rows, that stay in registers for all columns."""


def skinny_gemm_kernel(problem: MatmulProblem, parameters: SkinnyGemmParameters) -> Kernel:
    """Returns the kernel. The columns must be contiguous and the elements real."""
    return _SkinnyGemm(problem, parameters).kernel()


class _SkinnyGemm:
    """The sizes of all blocks, and the scratch memory."""

    def __init__(self, problem: MatmulProblem, parameters: SkinnyGemmParameters) -> None:
        self.problem, self.builder, self.parameters = problem, problem.builder, parameters
        builder, t = problem.builder, problem.type
        self.sizes = sizes = SkinnySizes(problem, parameters)
        self.tile, self.width, self.sum_rows = sizes.tile, parameters.block_columns, sizes.sum_rows
        self.offset = problem.left_offset()
        self.left = ScratchArray(builder, "left", problem.factor_type, sizes.left)
        self.sums = ScratchArray(builder, "sums", t, sizes.sums)
        self.totals: ScratchArray | None = None
        """The sums of all blocks of terms so far, if there are several blocks."""
        if sizes.totals:
            self.totals = ScratchArray(builder, "totals", t, sizes.totals)
        self.ordered: ScratchArray | None = None
        """A row of sums in the order of the columns, if they have another order in `sums` and `totals`."""
        if sizes.columns_per_load > 1:
            self.ordered = ScratchArray(builder, "ordered", t, sizes.pitch)

    def kernel(self) -> Kernel:
        problem, builder = self.problem, self.builder
        blocks = -(-problem.columns // self.width)
        with builder.loop(problem.batches * blocks, AxisKind.PARALLEL) as task:
            batch, block = delinear(builder, task, (problem.batches, blocks))
            first = block * self.width
            columns = block_extent(builder, first, problem.columns, self.width)
            _ColumnBlock(self, batch, first, columns).compute()
        return builder.kernel


@dataclass(frozen=True, slots=True)
class _Strip:
    """Terms that are added to a tile of sums at once: the first one in the operands and in the packed left operand, and
    how many. factors: the left factors by row, if all columns share registers with them."""

    source: Affine
    packed: Affine
    count: int | Value
    factors: Sequence[Sequence[Element]] | None


@dataclass(frozen=True, slots=True)
class _ColumnBlock:
    """The columns of a task: the first one, and how many there are."""

    gemm: _SkinnyGemm
    batch: Affine
    first: Affine
    columns: int | Value

    def compute(self) -> None:
        """Computes and stores all rows of these columns."""
        gemm, builder, sizes = self.gemm, self.gemm.builder, self.gemm.sizes
        if gemm.totals is not None:
            self.clear(gemm.totals, gemm.problem.rows)
        if sizes.blocks:
            with builder.loop(sizes.blocks) as number:
                start = number * sizes.block_terms
                units = sizes.block_terms // BLOCK_MULTIPLE
                count = block_extent(builder, number * units, sizes.whole_terms // BLOCK_MULTIPLE, units)
                self.add_block(start, sizes.block_terms if isinstance(count, int) else count)
                self.add_sums()
        if sizes.rest:
            self.add_block(Affine((), sizes.whole_terms), sizes.rest)
            self.add_sums()
        if gemm.ordered is None:
            for row, column in self.elements():
                gemm.problem.store(self.batch, row, self.first + column, self.total(row, column))
            return
        with builder.loop(gemm.problem.rows) as row:
            self.order_columns(row, gemm.ordered)
            with builder.loop(self.columns, AxisKind.VECTOR, width=gemm.tile.lanes) as column:
                gemm.problem.store(self.batch, row, self.first + column, gemm.ordered.load(column))

    def order_columns(self, row: Affine, ordered: ScratchArray) -> None:
        """Stores the sums of a row in the order of the columns."""
        builder, tile, together = self.gemm.builder, self.gemm.tile, self.gemm.sizes.columns_per_load
        whole, end, rest = self.pieces()
        with builder.loop(whole) as piece, builder.loop(tile.lanes, AxisKind.VECTOR, width=tile.lanes) as lane:
            for first in range(0, tile.vectors, together):
                begin = piece * tile.columns + first * tile.lanes
                totals = [self.total(row, begin + vector * tile.lanes + lane) for vector in range(together)]
                for vector, total in enumerate(totals):
                    ordered.store(begin + lane * together + vector, total)
        if self.gemm.problem.columns % tile.columns:
            with builder.loop(rest, AxisKind.VECTOR, width=tile.lanes) as column:
                ordered.store(end + column, self.total(row, end + column))

    def pieces(self) -> tuple[int | Value, Affine, int | Value]:
        """The number of whole tiles in the columns of the block, the first column after them, and how many follow."""
        builder, wide = self.gemm.builder, self.gemm.tile.columns
        if isinstance(self.columns, int):
            whole, rest = divmod(self.columns, wide)
            return whole, Affine((), whole * wide), rest
        pieces = builder.quotient(Affine.of(self.columns), wide)
        return builder.value_of(pieces), pieces * wide, builder.value_of(Affine.of(self.columns) - pieces * wide)

    def elements(self) -> Iterator[tuple[Affine, Affine]]:
        """Emits loops over the elements of the block, columns in vectors; yields the row and the column in it."""
        gemm, builder = self.gemm, self.gemm.builder
        with (
            builder.loop(gemm.problem.rows) as row,
            builder.loop(self.columns, AxisKind.VECTOR, width=gemm.tile.lanes) as column,
        ):
            yield row, column

    def clear(self, sums: ScratchArray, rows: int) -> None:
        gemm, builder = self.gemm, self.gemm.builder
        size = rows * gemm.sizes.pitch
        with builder.loop(size, AxisKind.VECTOR, width=gemm.tile.lanes) as position:
            sums.store(position, zero_element(builder, gemm.problem.type))

    # -- terms

    def add_block(self, start: Affine, count: int | Value) -> None:
        """Computes the sums of the products of a block of terms. count: its terms if it is an integer; of any other
        block, how many times `BLOCK_MULTIPLE`."""
        gemm, builder = self.gemm, self.gemm.builder
        terms = count if isinstance(count, int) else builder.value_of(Affine.of(count) * BLOCK_MULTIPLE)
        self.pack_left(start, terms)
        self.clear(gemm.sums, gemm.sum_rows)
        step = gemm.parameters.step_terms
        if isinstance(terms, int):
            whole, rest = divmod(terms, step)
            if whole:
                with builder.loop(whole) as number:
                    self.add_strip(start + number * step, number * step, step)
            if rest:
                self.add_strip(start + whole * step, Affine((), whole * step), rest)
            return
        strips = builder.value_of(builder.quotient(Affine.of(terms) + (step - 1), step))
        with builder.loop(strips) as number:
            taken: int | Value = step
            if BLOCK_MULTIPLE % step:
                left = builder.value_of(Affine.of(terms) - number * step)
                taken = builder.binary("smin", left, builder.constant(left.type, step))
                taken.range = (1, step)
            self.add_strip(start + number * step, number * step, taken)

    def pack_left(self, start: Affine, terms: int | Value) -> None:
        """Packs a block of terms of all rows, and the offset as the last row if there is one."""
        gemm, builder, problem, pitch = self.gemm, self.gemm.builder, self.gemm.problem, self.gemm.sizes.left_pitch
        width = min(builder.lanes(register_type(problem.factor_type)), 1 << (pitch - 1).bit_length())
        with builder.loop(problem.rows) as row, builder.loop(terms, AxisKind.VECTOR, width=width) as term:
            gemm.left.store(row * pitch + term, problem.left_element(self.batch, row, start + term))
        if gemm.offset is not None:
            with builder.loop(terms, AxisKind.VECTOR, width=width) as term:
                gemm.left.store(term + problem.rows * pitch, gemm.offset)

    def add_strip(self, source: Affine, packed: Affine, count: int | Value) -> None:
        """Adds the products of a strip to the sums of all rows and columns."""
        gemm, builder = self.gemm, self.gemm.builder
        wide, (whole, end, rest) = gemm.tile.columns, self.pieces()
        factors: list[list[Element]] | None = None
        is_one_tile = gemm.sum_rows <= gemm.tile.rows
        if is_one_tile and isinstance(count, int) and gemm.sum_rows * count <= MAX_SHARED_FACTORS:
            pitch = gemm.sizes.left_pitch
            factors = [[gemm.left.load(packed + row * pitch + t) for t in range(count)] for row in range(gemm.sum_rows)]
        strip = _Strip(source, packed, count, factors)
        lanes = gemm.tile.lanes
        with builder.loop(whole) as piece, builder.loop(lanes, AxisKind.VECTOR, width=lanes) as lane:
            places = [piece * wide + vector * lanes + lane for vector in range(gemm.tile.vectors)]
            together = gemm.sizes.columns_per_load
            self.add_rows(strip, places, [place + lane * (together - 1) for place in places[::together]])
        if gemm.problem.columns % wide:
            with builder.loop(rest, AxisKind.VECTOR, width=lanes) as column:
                self.add_rows(strip, [end + column], [end + column])

    # -- products

    def prefetch(self, term: Affine, columns: Sequence[Affine]) -> None:
        """Prefetches the elements of a later term in some vectors of columns, a line each, if they are not computed."""
        gemm, builder, problem = self.gemm, self.gemm.builder, self.gemm.problem
        later = builder.clamped(builder.value_of(term + gemm.parameters.prefetch_terms), problem.terms - 1)
        for column in columns[:: problem.terms_per_factor]:
            for location in problem.right_locations(self.batch, later, self.first + column):
                builder.prefetch(location)

    def add_rows(self, strip: _Strip, places: Sequence[Affine], columns: Sequence[Affine]) -> None:
        """Adds the products of a strip in some vectors of columns to the sums of all rows, a tile of rows at a time.

        places: those of the vectors in a row of sums. columns: the first of the neighboring columns whose vectors are
        loaded together.
        """
        gemm, builder, rows = self.gemm, self.gemm.builder, self.gemm.tile.rows
        together = len(places) // len(columns)
        loaded: list[Element] = []

        def right(term: Index, vector: int) -> Element:
            source = strip.source + term[0]
            if vector == 0 and gemm.parameters.prefetch_terms:
                self.prefetch(source, places)
            if vector % together == 0:
                first = self.first + columns[vector // together]
                loaded[:] = gemm.problem.right_elements(self.batch, source, first, together)
            return loaded[vector % together]

        whole, rest = divmod(gemm.sum_rows, rows)
        if whole:
            with builder.loop(whole) as number:
                self.add_tile(strip, number * rows, rows, places, right)
        if rest:
            self.add_tile(strip, Affine((), whole * rows), rest, places, right)

    def add_tile(
        self,
        strip: _Strip,
        row: Affine,
        rows: int,
        columns: Sequence[Affine],
        right: Callable[[Index, int], Element],
    ) -> None:
        """Adds the products of a strip to a tile of sums, which are at `columns` in their rows."""
        gemm, sizes = self.gemm, self.gemm.sizes
        tile = Tile(rows, len(columns), gemm.tile.lanes)
        places = [(row + number) * sizes.pitch + column for number in range(rows) for column in columns]

        def left(term: Index, number: int) -> Element:
            return gemm.left.load((row + number) * sizes.left_pitch + strip.packed + term[0])

        after = [gemm.sums.load(place) for place in places]
        if strip.factors is None:
            found = emit_micro_kernel(gemm.problem, tile, [strip.count], left, right, after)
            after = [total for totals in found for total in totals]
        else:
            for term in range(len(strip.factors[0])):
                elements = [right((Affine((), term),), vector) for vector in range(tile.vectors)]
                pairs = [(factors[term], element) for factors in strip.factors for element in elements]
                after = [gemm.problem.multiply_add(*pair, total) for pair, total in zip(pairs, after, strict=True)]
        for place, total in zip(places, after, strict=True):
            gemm.sums.store(place, total)

    # -- sums

    def add_sums(self) -> None:
        """Adds the sums of a block of terms to those of the blocks before."""
        gemm = self.gemm
        if gemm.totals is None:
            return
        for row, column in self.elements():
            place = row * gemm.sizes.pitch + column
            gemm.totals.store(place, add_elements(gemm.builder, gemm.totals.load(place), self.sum(row, column)))

    def total(self, row: Affine, column: Affine) -> Element:
        """The sum of all blocks of terms."""
        if self.gemm.totals is None:
            return self.sum(row, column)
        return self.gemm.totals.load(row * self.gemm.sizes.pitch + column)

    def sum(self, row: Affine, column: Affine) -> Element:
        """The sum of a block of terms."""
        gemm, pitch = self.gemm, self.gemm.sizes.pitch
        total = gemm.sums.load(row * pitch + column)
        if gemm.offset is None:
            return total
        return subtracted(gemm.builder, total, gemm.sums.load(column + gemm.problem.rows * pitch))
