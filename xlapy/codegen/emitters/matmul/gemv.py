"""GEMV and skinny GEMM: few rows times an operand too large for the cache, which is read once, in memory order.

    for each block of columns, a task
      for each block of KC terms
        pack these terms of the left operand; clear the sums
        for every few terms, for every few vectors of columns
          load these elements of the right operand
          for each row: add their products to the sums
        add the sums to those of the blocks before
      store the sums

KC is a multiple of the terms of a step; the terms that remain are a block of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.left_offset import subtracted
from xlapy.codegen.emitters.matmul.micro_kernel import add_elements
from xlapy.codegen.emitters.matmul.problem import MatmulProblem
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.plan import ImpossibleParameterError, parameter
from xlapy.loops import Affine, AxisKind, Kernel, Value
from xlapy.loops.builder import MAX_SCRATCH_BYTES
from xlapy.loops.reduction_order import CONTRACTION_BLOCK_TERMS, balanced_size
from xlapy.lower import Element
from xlapy.lower.contraction import zero_element
from xlapy.lower.core import delinear
from xlapy.lower.element_types import register_type

MIN_COLUMN_RUN_BYTES = 512
"""The smallest number of contiguous bytes that a task reads of each term; shorter runs use memory bandwidth badly."""

TASKS_PER_PROCESSOR = 4
"""The number of blocks of columns for each processor, so that all are busy until the end. There are fewer if a factor
holds several narrow terms, so that a task reads as many contiguous bytes of each term: 1 x 4096 times 4096 x 4096 takes
0.67x the time in bf16 and 0.5x in s8 (benchmarks/products.py)."""

SINGLE_ROW_TASKS_PER_PROCESSOR = 2
"""The same for one row, whose time is that of reading: wider blocks are longer runs of memory, which the processor
prefetches by itself. With no prefetches by the kernel, 1 x 4096 times 4096 x 4096 takes 0.75x the time
(benchmarks/products.py)."""

TERMS_PER_STEP = 8
"""The number of terms that are added to a vector of sums while it is in a register. Their rows of the right operand may
all map to one set of the level-1 cache, which has 8 ways or more."""

MIN_FACTORS_PER_STEP = 4
"""The smallest number of factors of a step, even if a factor holds several terms: with 2 groups of four terms of s8, 32
x 4096 times 4096 x 4096 takes 1.4x the time (benchmarks/products.py)."""


@dataclass(frozen=True, slots=True)
class SkinnyGemmParameters:
    """The blocks of a skinny GEMM."""

    block_columns: int = parameter(1, MAX_SCRATCH_BYTES)
    """The columns of one task."""
    step_terms: int = parameter(1, 32)
    """The terms that are added to a vector of sums while it is in a register."""


def skinny_gemm_parameters(problem: MatmulProblem) -> SkinnyGemmParameters:
    """The preferred blocks of a problem."""
    # the elements of the right operand that are loaded at once take half of the registers
    factors = max(MIN_FACTORS_PER_STEP, TERMS_PER_STEP // problem.terms_per_factor)
    terms = min(factors, problem.region.target.vector_registers // 2 // _vectors(problem))
    return SkinnyGemmParameters(_block_columns(problem), terms)


def _lanes(problem: MatmulProblem) -> int:
    return min(problem.lanes, 1 << (problem.columns - 1).bit_length())


def _vectors(problem: MatmulProblem) -> int:
    """The vectors of columns that are loaded at once."""
    return 2 if problem.columns > _lanes(problem) else 1


def _block_columns(problem: MatmulProblem) -> int:
    """The columns of a task: few enough for all processors, and for the sums to fit into half of the level-1 cache."""
    target, size = problem.region.target, register_type(problem.type).byte_size
    step = _lanes(problem) * _vectors(problem)
    per_processor = max(1, TASKS_PER_PROCESSOR // problem.terms_per_factor)
    if problem.rows == 1:
        per_processor = min(per_processor, SINGLE_ROW_TASKS_PER_PROCESSOR)
    tasks = per_processor * target.processors
    share = problem.batches * problem.columns * size // tasks
    width = max(MIN_COLUMN_RUN_BYTES, min(share, target.l1_bytes // 2 // problem.rows))
    return -(-min(width // size, problem.columns) // step) * step


def check_skinny_gemm(problem: MatmulProblem, parameters: SkinnyGemmParameters) -> None:
    """Raises `ImpossibleParameterError` for blocks that the kernel cannot have."""
    step, columns = _lanes(problem) * _vectors(problem), parameters.block_columns
    if columns % step:
        raise ImpossibleParameterError("block_columns", f"it is {columns}, but must be a multiple of {step}")
    size = register_type(problem.type).byte_size
    row_bytes = (2 * columns + 2 * CONTRACTION_BLOCK_TERMS) * size
    if (problem.rows + 1) * row_bytes > MAX_SCRATCH_BYTES:
        raise ImpossibleParameterError(
            "block_columns", f"sums of {(problem.rows + 1) * row_bytes} bytes exceed {MAX_SCRATCH_BYTES}"
        )


def skinny_gemm_kernel(problem: MatmulProblem, parameters: SkinnyGemmParameters) -> Kernel:
    """Returns the kernel. The columns must be contiguous and the elements real."""
    return _SkinnyGemm(problem, parameters).kernel()


class _SkinnyGemm:
    def __init__(self, problem: MatmulProblem, parameters: SkinnyGemmParameters) -> None:
        self.problem, self.builder = problem, problem.builder
        builder, t, target = problem.builder, problem.type, problem.region.target
        size = register_type(t).byte_size
        self.lanes, self.vectors = _lanes(problem), _vectors(problem)
        self.width, self.terms_per_step = parameters.block_columns, parameters.step_terms
        self.steps, self.rest = divmod(problem.terms, self.terms_per_step)
        most = CONTRACTION_BLOCK_TERMS // self.terms_per_step
        self.block_steps = balanced_size(self.steps, most) if self.steps else 1
        # the padding keeps rows of terms from mapping to the same cache set
        self.pitch = self.block_steps * self.terms_per_step + max(1, target.cache_line_bytes // size)
        self.offset = problem.left_offset()
        self.sum_rows = problem.rows + (self.offset is not None)
        """The rows of the packed left operand: the last one is the offset, if there is one."""
        self.left = ScratchArray(builder, "left", problem.factor_type, self.sum_rows * self.pitch)
        self.sums = ScratchArray(builder, "sums", t, self.sum_rows * self.width)
        self.blocks = -(-self.steps // self.block_steps)
        self.totals: ScratchArray | None = None
        """The sums of all blocks of terms so far, if there are several blocks."""
        if self.blocks + bool(self.rest) > 1:
            self.totals = ScratchArray(builder, "totals", t, problem.rows * self.width)

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
class _ColumnBlock:
    """The columns of a task: the first one, and how many there are."""

    gemm: _SkinnyGemm
    batch: Affine
    first: Affine
    columns: int | Value

    def compute(self) -> None:
        """Computes and stores all rows of these columns."""
        gemm, builder = self.gemm, self.gemm.builder
        if gemm.totals is not None:
            self.clear(gemm.totals, gemm.problem.rows)
        if gemm.blocks:
            with builder.loop(gemm.blocks) as number:
                start = number * gemm.block_steps
                steps = block_extent(builder, start, gemm.steps, gemm.block_steps)
                self.add_terms(start * gemm.terms_per_step, steps, gemm.terms_per_step)
                self.add_sums()
        if gemm.rest:
            self.add_terms(Affine((), gemm.problem.terms - gemm.rest), 1, gemm.rest)
            self.add_sums()
        for row, column in self.elements():
            if gemm.totals is None:
                total = self.sum(row, column)
            else:
                total = gemm.totals.load(row * gemm.width + column)
            gemm.problem.store(self.batch, row, self.first + column, total)

    def elements(self) -> Iterator[tuple[Affine, Affine]]:
        """Emits loops over the elements of the block, columns in vectors; yields the row and the column in it."""
        gemm, builder = self.gemm, self.gemm.builder
        with (
            builder.loop(gemm.problem.rows) as row,
            builder.loop(self.columns, AxisKind.VECTOR, width=gemm.lanes) as column,
        ):
            yield row, column

    def clear(self, sums: ScratchArray, rows: int) -> None:
        gemm, builder = self.gemm, self.gemm.builder
        with builder.loop(rows * gemm.width, AxisKind.VECTOR, width=gemm.lanes) as position:
            sums.store(position, zero_element(builder, gemm.problem.type))

    def add_terms(self, start: Affine, steps: int | Value, terms: int) -> None:
        """Computes the sums of `steps` times `terms` products, from the term `start` on."""
        gemm, builder, problem = self.gemm, self.gemm.builder, self.gemm.problem
        count = steps * terms if isinstance(steps, int) else builder.value_of(Affine.of(steps) * terms)
        width = min(builder.lanes(register_type(problem.factor_type)), 1 << (gemm.pitch - 1).bit_length())
        with builder.loop(problem.rows) as row, builder.loop(count, AxisKind.VECTOR, width=width) as term:
            gemm.left.store(row * gemm.pitch + term, problem.left_element(self.batch, row, start + term))
        if gemm.offset is not None:
            with builder.loop(count, AxisKind.VECTOR, width=width) as term:
                gemm.left.store(term + problem.rows * gemm.pitch, gemm.offset)
        self.clear(gemm.sums, gemm.sum_rows)
        with builder.loop(steps) as step:
            self.add_step(start + step * terms, step * terms, terms)

    def add_step(self, source: Affine, packed: Affine, terms: int) -> None:
        """Adds the products of a few terms to the sums of all rows. source, packed: the first term in the operands and
        in the packed left operand."""
        gemm, builder = self.gemm, self.gemm.builder
        wide = gemm.lanes * gemm.vectors
        if isinstance(self.columns, int):
            whole: int | Value = self.columns // wide
            rest: int | Value = self.columns % wide
        else:
            pieces = builder.quotient(Affine.of(self.columns), wide)
            whole, rest = builder.value_of(pieces), builder.value_of(Affine.of(self.columns) - pieces * wide)
        factors: list[Element] | None = None
        if gemm.sum_rows == 1:  # all columns share the loads
            factors = [gemm.left.load(packed + term) for term in range(terms)]
        with builder.loop(whole) as piece, builder.loop(gemm.lanes, AxisKind.VECTOR, width=gemm.lanes) as lane:
            columns = [piece * wide + vector * gemm.lanes + lane for vector in range(gemm.vectors)]
            self.add_products(source, packed, terms, columns, factors)
        if gemm.problem.columns % wide:
            begin = Affine((), whole * wide) if isinstance(whole, int) else Affine.of(whole) * wide
            with builder.loop(rest, AxisKind.VECTOR, width=gemm.lanes) as column:
                self.add_products(source, packed, terms, [begin + column], factors)

    def add_products(
        self,
        source: Affine,
        packed: Affine,
        terms: int,
        columns: Sequence[Affine],
        factors: Sequence[Element] | None,
    ) -> None:
        """Loads the right elements of a few terms in some vectors of columns, and adds their products for each row.

        factors: the left factors of the terms if there is one row of sums; None if they are loaded for each row.
        """
        gemm, builder, problem = self.gemm, self.gemm.builder, self.gemm.problem
        right = [[problem.right_element(self.batch, source + t, self.first + c) for c in columns] for t in range(terms)]
        if factors is None:
            self.prefetch(source + terms, terms, columns)
        with builder.loop(gemm.sum_rows) as row:
            totals: list[Element] = [gemm.sums.load(row * gemm.width + column) for column in columns]
            for term, elements in enumerate(right):
                factor = gemm.left.load(row * gemm.pitch + packed + term) if factors is None else factors[term]
                totals = [
                    problem.multiply_add(factor, element, total)
                    for element, total in zip(elements, totals, strict=True)
                ]
            for column, total in zip(columns, totals, strict=True):
                gemm.sums.store(row * gemm.width + column, total)

    def prefetch(self, source: Affine, terms: int, columns: Sequence[Affine]) -> None:
        """Prefetches the right elements of a step, if they are not computed."""
        builder, problem = self.gemm.builder, self.gemm.problem
        for number in range(terms):
            term = builder.clamped(builder.value_of(source + number), problem.terms - 1)
            for column in columns:
                location = problem.right_location(self.batch, term, self.first + column)
                if location is not None:
                    builder.prefetch(location)

    def add_sums(self) -> None:
        """Adds the sums of a block of terms to those of the blocks before."""
        gemm = self.gemm
        if gemm.totals is None:
            return
        for row, column in self.elements():
            offset = row * gemm.width + column
            total = add_elements(gemm.builder, gemm.totals.load(offset), self.sum(row, column))
            gemm.totals.store(offset, total)

    def sum(self, row: Affine, column: Affine) -> Element:
        """The sum of a block of terms."""
        gemm = self.gemm
        total = gemm.sums.load(row * gemm.width + column)
        if gemm.offset is None:
            return total
        return subtracted(gemm.builder, total, gemm.sums.load(column + gemm.problem.rows * gemm.width))
