"""The strategy of ragged dots: a packed GEMM, each of whose tasks finds the part of its block that a group owns.

    for each group, batch element, block of MC rows and some blocks of NC columns, a task
      adds up the sizes of the groups before
      ragged rows:   computes the rows of the block that the group has
      ragged terms:  adds the products of the terms of the group
      ragged batch:  computes the block if a group owns the batch element

There are tasks for as many rows as the largest possible group has; those beyond the end of their group do nothing.
Elements that no group owns are zero. The group sizes are known at run time only, and neither they nor the order of
additions depends on the number of threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy import opcodes
from xlapy.codegen.emitters.loop_nest import block_extent
from xlapy.codegen.emitters.matmul.cost import MatmulCost
from xlapy.codegen.emitters.matmul.packed_gemm import (
    PackedGemm,
    PackedGemmParameters,
    ResultBlock,
    TermBlock,
    check_packed_gemm,
    packed_gemm_parameters,
)
from xlapy.codegen.emitters.matmul.problem import MatmulProblem
from xlapy.codegen.emitters.matmul.ragged_problem import RaggedDotProblem, has_ragged_problem
from xlapy.codegen.emitters.matmul.term_groups import grouped_problem
from xlapy.codegen.epilogue import contraction_of
from xlapy.codegen.plan import Candidate, Rejection, Strategy
from xlapy.codegen.region import Region
from xlapy.loops import I64, Affine, AxisKind, Kernel, Value
from xlapy.lower.contraction import zero_element
from xlapy.opcodes.contraction import RaggedMode

TASKS_PER_PROCESSOR = 4
"""The number of tasks for each processor if one group owned everything. Tasks differ in size, so that there must be
several for the processors to end at the same time."""


@dataclass(frozen=True, slots=True)
class _RaggedForm:
    ragged: RaggedDotProblem
    problem: MatmulProblem
    """The ragged dot, with its terms in groups if a dot instruction multiplies them."""


class RaggedGemmStrategy(Strategy[PackedGemmParameters]):
    """Packs blocks of both operands, for the part of them that a group owns."""

    name = "ragged-gemm"
    required_opcodes = frozenset({opcodes.RAGGED_DOT})
    computes_elements = False

    def candidate(self, region: Region) -> Candidate | Rejection:
        form = region.derived(_ragged_form)
        if form is None:
            return Rejection("it is not a ragged dot of static dimensions with an epilogue")
        problem = form.problem
        whole = MatmulCost(problem, problem.left_strides(), problem.right_strides()).packed()
        return Candidate(whole / form.ragged.group_numbers)  # groups share rows or terms

    def parameters(self, region: Region) -> PackedGemmParameters:
        form = region.derived(_ragged_form)
        assert form is not None
        batches = form.problem.batches
        if form.ragged.mode is RaggedMode.FREE:
            batches //= form.ragged.group_numbers
        return packed_gemm_parameters(form.problem, batches, TASKS_PER_PROCESSOR)

    def check(self, region: Region, parameters: PackedGemmParameters) -> None:
        form = region.derived(_ragged_form)
        assert form is not None
        check_packed_gemm(form.problem, parameters)

    def emit(self, region: Region, parameters: PackedGemmParameters) -> list[Kernel]:
        form = region.derived(_ragged_form)
        assert form is not None
        return [_RaggedGemm(form, parameters).kernel()]


def _ragged_form(region: Region) -> _RaggedForm | None:
    dot = contraction_of(region)
    if dot is None or dot.op is not opcodes.RAGGED_DOT or not has_ragged_problem(dot):
        return None
    ragged = RaggedDotProblem(region)
    return _RaggedForm(ragged, grouped_problem(ragged))


class _RaggedGemm(PackedGemm):
    def __init__(self, form: _RaggedForm, parameters: PackedGemmParameters) -> None:
        super().__init__(form.problem, parameters)
        self.ragged = form.ragged

    def compute_task(self, batch: Affine, task_row: Affine, task_column: Affine) -> None:
        computes = {
            RaggedMode.FREE: self.compute_rows,
            RaggedMode.CONTRACTING: self.compute_terms,
            RaggedMode.BATCH: self.compute_batch_block,
        }
        computes[self.ragged.mode](batch, task_row, task_column)

    # -- ragged rows

    def compute_rows(self, batch: Affine, task_row: Affine, task_column: Affine) -> None:
        """Computes the rows of a group that are in the block of a task; those of the last group are zero."""
        builder, ragged, most = self.builder, self.ragged, self.blocking.mc_tiles
        start, end = ragged.group_range(batch)
        ragged.end_row = builder.value_of(Affine.of(end) * ragged.unit)
        row = Affine.of(start) * ragged.unit + task_row * (most * self.tile.rows)
        rows = self._clamped(Affine.of(ragged.end_row) - row, ragged.rows)
        tiles = self._clamped(builder.quotient(Affine.of(rows) + (self.tile.rows - 1), self.tile.rows), most)
        column, column_blocks = self.columns_of_task(task_column)
        block = ResultBlock(self, batch, row, column, tiles, column_blocks)
        group, _ = ragged.batch_index(builder, batch)
        is_group = builder.compare("slt", builder.value_of(group), builder.constant(I64, ragged.groups))
        has_rows = builder.compare("sgt", rows, builder.zero(I64))
        with builder.branch(builder.binary("and", has_rows, is_group)):
            block.compute()
        with builder.branch(builder.binary("and", has_rows, builder.logical_not(is_group))):
            self.store_zeros(block, self._clamped(Affine.of(rows), most * self.tile.rows))

    # -- ragged terms

    def compute_terms(self, batch: Affine, task_row: Affine, task_column: Affine) -> None:
        """Computes a block of the result from the terms of its group."""
        builder, ragged = self.builder, self.ragged
        start, end = ragged.group_range(batch)
        ragged.first_term = Affine.of(start) * ragged.unit
        count = self._clamped((Affine.of(end) - Affine.of(start)) * ragged.unit, ragged.inner)
        size = self.problem.terms_per_factor
        ragged.term_count = count if size > 1 else None
        block = self._whole_block(batch, task_row, task_column)
        has_terms = builder.compare("sgt", count, builder.zero(I64))
        with builder.branch(has_terms):
            factors = builder.quotient(Affine.of(count) + (size - 1), size)
            self._add_terms(block, self._clamped(factors, self.problem.inner))
        with builder.branch(builder.logical_not(has_terms)):
            self.store_zeros(block, self._rows_of(block))

    def _add_terms(self, block: ResultBlock, count: Value) -> None:
        """Computes and stores a block from its first `count` terms."""
        builder, most = self.builder, self.kc_inner
        if self.blocks == (1, 1):
            block.add(TermBlock(Affine(), Affine(), 1, count), None)
            return
        if self.sums is not None:
            block.clear()
        pieces = builder.value_of(builder.quotient(Affine.of(count) + (most - 1), most))
        with builder.loop(pieces) as number:
            first = number * most
            left = self._clamped(Affine.of(count) - first, most)
            block.add(TermBlock(Affine(), first, 1, left), builder.value_of(number))
        if self.sums is not None:
            block.store_sums()

    # -- ragged batches

    def compute_batch_block(self, batch: Affine, task_row: Affine, task_column: Affine) -> None:
        """Computes a block of a batch element if a group owns this element; otherwise stores zeros."""
        builder, ragged = self.builder, self.ragged
        _, end = ragged.group_range(batch)
        _, index = ragged.batch_index(builder, batch)
        is_owned = builder.compare("slt", builder.value_of(index[ragged.ragged_position]), end)
        block = self._whole_block(batch, task_row, task_column)
        with builder.branch(is_owned):
            block.compute()
        with builder.branch(builder.logical_not(is_owned)):
            self.store_zeros(block, self._rows_of(block))

    # -- blocks

    def _whole_block(self, batch: Affine, task_row: Affine, task_column: Affine) -> ResultBlock:
        most, row_tiles = self.blocking.mc_tiles, -(-self.problem.rows // self.tile.rows)
        tiles = block_extent(self.builder, task_row * most, row_tiles, most)
        column, column_blocks = self.columns_of_task(task_column)
        return ResultBlock(self, batch, task_row * (most * self.tile.rows), column, tiles, column_blocks)

    def _rows_of(self, block: ResultBlock) -> int | Value:
        return block_extent(self.builder, block.row, self.problem.rows, self.blocking.mc_tiles * self.tile.rows)

    def store_zeros(self, block: ResultBlock, rows: int | Value) -> None:
        """Stores zeros as the sums of some rows of a block."""
        builder, problem = self.builder, self.problem
        columns = block_extent(builder, block.column, problem.columns, self.width * self.blocking.column_blocks)
        zero = zero_element(builder, problem.type)
        with builder.loop(rows) as row, builder.loop(columns, AxisKind.VECTOR, width=self.tile.lanes) as column:
            problem.store(block.batch, block.row + row, block.column + column, zero)

    def _clamped(self, number: Affine, high: int) -> Value:
        """A number, or the nearer one of 0 and `high` if it is outside of these."""
        return self.builder.value_of(self.builder.clamped(self.builder.value_of(number), high))
