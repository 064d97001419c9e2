"""GEMV and skinny GEMM: few rows times an operand too large for the cache, which is read once, in memory order.

for each block of columns, a task
  clear the sums
  for every few terms
    for each vector of columns: add their products to the sums
  write the sums
"""

from __future__ import annotations

from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.left_offset import subtracted
from xlapy.codegen.emitters.matmul.problem import MatmulProblem
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.loops import Affine, AxisKind, Kernel, Value
from xlapy.lower import Element
from xlapy.lower.contraction import zero_element
from xlapy.lower.core import delinear
from xlapy.lower.element_types import register_type

ACCUMULATOR_BLOCK_BYTES = 1 << 14
"""The size in bytes of the sums of one task, which are all rows of a block of columns."""

MIN_COLUMN_RUN_BYTES = 512
"""The smallest number of contiguous bytes that a task reads of each term; shorter runs use memory bandwidth badly."""

TERMS_PER_STEP = 8
"""The number of terms that are added to a vector of sums while it is in a register."""


def skinny_gemm_kernel(problem: MatmulProblem) -> tuple[Kernel, int]:
    """Returns the kernel and the work of one task. The columns must be contiguous and the elements real."""
    return _SkinnyGemm(problem).kernel()


class _SkinnyGemm:
    def __init__(self, problem: MatmulProblem) -> None:
        self.problem, self.builder = problem, problem.builder
        size = register_type(problem.type).byte_size
        self.lanes = min(self.builder.lanes(register_type(problem.type)), 1 << (problem.columns - 1).bit_length())
        width = max(MIN_COLUMN_RUN_BYTES, ACCUMULATOR_BLOCK_BYTES // problem.rows) // size
        self.width = min(width, -(-problem.columns // self.lanes) * self.lanes)
        self.offset = problem.left_offset()
        self.sum_rows = problem.rows + (self.offset is not None)
        self.sums = ScratchArray(self.builder, "sums", problem.type, self.sum_rows * self.width)

    def kernel(self) -> tuple[Kernel, int]:
        problem, builder = self.problem, self.builder
        blocks = -(-problem.columns // self.width)
        with builder.loop(problem.batches * blocks, AxisKind.PARALLEL) as task:
            batch, block = delinear(builder, task, (problem.batches, blocks))
            first = block * self.width
            columns = block_extent(builder, first, problem.columns, self.width)
            with builder.loop(self.sum_rows * self.width, AxisKind.VECTOR, width=self.lanes) as position:
                self.sums.store(position, zero_element(builder, problem.type))
            whole, rest = divmod(problem.terms, TERMS_PER_STEP)
            if whole:
                with builder.loop(whole) as step:
                    self.add(batch, first, columns, [step * TERMS_PER_STEP + term for term in range(TERMS_PER_STEP)])
            if rest:
                self.add(batch, first, columns, [Affine((), problem.terms - rest + term) for term in range(rest)])
            with builder.loop(problem.rows) as row, builder.loop(columns, AxisKind.VECTOR, width=self.lanes) as column:
                total = self.sums.load(row * self.width + column)
                if self.offset is not None:
                    total = subtracted(builder, total, self.sums.load(column + problem.rows * self.width))
                problem.store(batch, row, first + column, total)
        return builder.kernel, problem.rows * self.width * problem.terms

    def add(self, batch: Affine, first: Affine, columns: int | Value, terms: list[Affine]) -> None:
        """Adds the products of a few terms to the sums of all rows."""
        problem, builder = self.problem, self.builder
        left = [[problem.left_element(batch, Affine((), row), term) for term in terms] for row in range(problem.rows)]
        if self.offset is not None:
            left.append([self.offset] * len(terms))
        with builder.loop(columns, AxisKind.VECTOR, width=self.lanes) as column:
            right = [problem.right_element(batch, term, first + column) for term in terms]
            for row, factors in enumerate(left):
                offset = column + row * self.width
                total: Element = self.sums.load(offset)
                for factor, element in zip(factors, right, strict=True):
                    total = problem.multiply_add(factor, element, total)
                self.sums.store(offset, total)
