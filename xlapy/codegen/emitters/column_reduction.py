"""Emits kernels of column reductions, which reduce dimensions that are not the contiguous ones.

A task computes one block of the results. It walks through memory row by row, a few rows at once, and combines them with
partial results in scratch memory; each row is read in contiguous runs as long as the block:

    for each block of columns, a task
      for every eight rows
        for each vector of columns: combine their elements with the partial results
      for each vector of columns: the results

Does not decide which instructions share a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from xlapy import opcodes
from xlapy.codegen.emitters.loop_nest import block_extent, preferred_lanes
from xlapy.codegen.emitters.scratch import ScratchArray
from xlapy.codegen.kernel_cost import vector_cycles
from xlapy.codegen.plan import (
    Candidate,
    ImpossibleParameterError,
    Rejection,
    Strategy,
    parameter,
)
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer, result_elements
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.monoids import identity_of, monoid
from xlapy.loops import Affine, AxisKind, Kernel, Value
from xlapy.loops.builder import MAX_SCRATCH_BYTES
from xlapy.loops.reduction_order import combine_pairwise, rows_per_step
from xlapy.lower import Lowering, store_element
from xlapy.lower.core import Element, Index, delinear, linear
from xlapy.lower.element_types import register_type
from xlapy.lower.reduction import combine_elements, insert_components

COLUMN_BLOCK_BYTES = 1 << 11
"""The width in bytes of a block of columns: the part of each row that one task reads."""

MIN_COLUMN_ROWS = 32
"""The smallest number of rows of a column reduction with a kernel of its own. Below it, the loop emitter keeps the
partial results of a vector of columns in registers."""


@dataclass(frozen=True, slots=True)
class ColumnReductionParameters:
    """The blocks of a column reduction."""

    block_columns: int = parameter(1, MAX_SCRATCH_BYTES)
    """The columns of one task."""
    step_rows: int = parameter(1, 64)
    """The rows that are combined at once."""


class ColumnReductionStrategy(Strategy[ColumnReductionParameters]):
    """Walks through memory row by row, with the partial results of a block of columns in scratch memory."""

    name = "column-reduction"
    required_opcodes = frozenset({opcodes.REDUCE})

    def candidate(self, region: Region) -> Candidate | Rejection:
        reductions = _reductions(region)
        if not reductions:
            return Rejection("it has no reductions")
        columns = column_shape(reductions[0])
        if columns is None or any(column_shape(reduction) != columns for reduction in reductions):
            return Rejection(
                f"its reductions are not of at least {MIN_COLUMN_ROWS} rows of the same {COLUMN_BLOCK_BYTES // 8} bytes"
                " or more of columns, in any order"
            )
        size = reductions[0].shape.size
        if any(not leaf.is_array or leaf.size != size for leaf in (r.shape for r in region.results)):
            return Rejection("a result does not have one element per column")
        if any(_depends_on_another(reduction, reductions) for reduction in reductions):
            return Rejection("a reduction depends on another one")
        return Candidate(vector_cycles(region, size * math.prod(columns.rows), _columns_per_vector(region)))

    def parameters(self, region: Region) -> ColumnReductionParameters:
        reductions, lanes = _reductions(region), _columns_per_vector(region)
        columns = column_shape(reductions[0])
        assert columns is not None
        widest, count = max(r.shape.element_type.byte_size for r in reductions), math.prod(columns.columns)
        width = min(COLUMN_BLOCK_BYTES // widest, -(-count // lanes) * lanes)
        return ColumnReductionParameters(width, rows_per_step(len(region.instructions)))

    def check(self, region: Region, parameters: ColumnReductionParameters) -> None:
        lanes = _columns_per_vector(region)
        if parameters.block_columns % lanes:
            value = parameters.block_columns
            raise ImpossibleParameterError("block_columns", f"it is {value}, but must be a multiple of {lanes}")
        size = sum(register_type(r.shape.element_type).byte_size for r in _reductions(region))
        if size * parameters.block_columns > MAX_SCRATCH_BYTES:
            raise ImpossibleParameterError(
                "block_columns",
                f"partial results of {size * parameters.block_columns} bytes exceed {MAX_SCRATCH_BYTES}",
            )

    def emit(self, region: Region, parameters: ColumnReductionParameters) -> list[Kernel]:
        reductions = _reductions(region)
        columns = column_shape(reductions[0])
        assert columns is not None
        return [_ColumnReductionEmitter(region, reductions, columns, parameters).kernel()]


def _reductions(region: Region) -> list[Instruction]:
    return [i for i in region.instructions if i.op is opcodes.REDUCE]


def _columns_per_vector(region: Region) -> int:
    return max(preferred_lanes(region), 1)


@dataclass(frozen=True, slots=True)
class ColumnShape:
    """The dimensions of a reduction's operand: those before the reduced ones, the reduced ones, those after them."""

    before: tuple[int, ...]
    rows: tuple[int, ...]
    columns: tuple[int, ...]


def column_shape(reduction: Instruction) -> ColumnShape | None:
    """The column shape of a reduction; None if it has few columns or rows, or cannot be reordered."""
    if len(reduction.operands) != 2 or monoid(reduction.to_apply) is None or reduction.shape.element_type.is_complex:
        return None
    sizes, reduced = reduction.operands[0].shape.dimensions, sorted(reduction.dimensions)
    if not reduced or reduced != list(range(reduced[0], reduced[-1] + 1)):
        return None
    shape = ColumnShape(sizes[: reduced[0]], sizes[reduced[0] : reduced[-1] + 1], sizes[reduced[-1] + 1 :])
    wide = math.prod(shape.columns) * reduction.shape.element_type.byte_size >= COLUMN_BLOCK_BYTES // 8
    return shape if wide and math.prod(shape.rows) >= MIN_COLUMN_ROWS else None


def _depends_on_another(reduction: Instruction, others: Sequence[Instruction]) -> bool:
    """Whether a reduction depends on another one."""
    visited, stack = {reduction}, [*reduction.operands]
    while stack:
        instruction = stack.pop()
        if instruction in others:
            return True
        if instruction not in visited:
            visited.add(instruction)
            stack += instruction.operands
    return False


class _ColumnReductionEmitter:
    def __init__(
        self,
        region: Region,
        reductions: list[Instruction],
        shape: ColumnShape,
        parameters: ColumnReductionParameters,
    ) -> None:
        self.region, self.reductions, self.shape = region, reductions, shape
        self.builder = kernel_builder(region.name, region.target)
        sources = {o: operand_source(self.builder, o, f"in{n}") for n, o in enumerate(region.operands)}
        self.outputs = [result_buffer(self.builder, r.shape, f"out{n}") for n, r in enumerate(region.results)]
        self.values: dict[Instruction, Element] = {}
        self.lowering = Lowering(self.builder, sources, self.values)
        self.columns = math.prod(shape.columns)
        self.lanes = _columns_per_vector(region)
        self.width, self.step_rows = parameters.block_columns, parameters.step_rows
        types = [r.shape.element_type for r in reductions]
        self.partial = [ScratchArray(self.builder, f"partial{n}", t, self.width) for n, t in enumerate(types)]

    def kernel(self) -> Kernel:
        builder, rows = self.builder, math.prod(self.shape.rows)
        step_rows = self.step_rows
        outer, blocks = math.prod(self.shape.before), -(-self.columns // self.width)
        with builder.loop(outer * blocks, AxisKind.PARALLEL) as task:
            before, block = delinear(builder, task, (outer, blocks))
            first = block * self.width
            extent = block_extent(builder, first, self.columns, self.width)
            self.initialize()
            whole, rest = divmod(rows, step_rows)
            if whole:
                with builder.loop(whole) as step:
                    self.add(before, first, extent, [step * step_rows + row for row in range(step_rows)])
            if rest:
                self.add(before, first, extent, [Affine((), rows - rest + row) for row in range(rest)])
            self.finish(before, first, extent)
        return builder.kernel

    def initialize(self) -> None:
        """Sets the partial results to the neutral elements."""
        builder = self.builder
        with builder.loop(self.width, AxisKind.VECTOR, width=self.lanes) as position:
            for reduction, partial_results in zip(self.reductions, self.partial, strict=True):
                neutral = identity_of(reduction.to_apply)
                partial_results.store(position, builder.constant(register_type(reduction.shape.element_type), neutral))

    def add(self, before: Affine, first: Affine, extent: int | Value, rows: list[Affine]) -> None:
        """Combines the elements of some rows with the partial results."""
        with self.builder.loop(extent, AxisKind.VECTOR, width=self.lanes) as column:
            index = self.index(before, first + column)
            for reduction, partial_results in zip(self.reductions, self.partial, strict=True):
                terms: list[Element] = [
                    partial_results.load(column),
                    *(self.term(reduction, index, row) for row in rows),
                ]
                partial_results.store(column, combine_pairwise(terms, partial(self.combined, reduction)))

    def finish(self, before: Affine, first: Affine, extent: int | Value) -> None:
        """Combines the partial results with the initial values, and writes the results."""
        builder, region = self.builder, self.region
        with builder.loop(extent, AxisKind.VECTOR, width=self.lanes) as column:
            index = self.index(before, first + column)
            for reduction, partial_results in zip(self.reductions, self.partial, strict=True):
                initial = self.lowering.element(reduction.operands[1], ())
                self.values[reduction] = self.combined(reduction, initial, partial_results.load(column))
            position = linear(index, (*self.shape.before, *self.shape.columns))
            result_index = delinear(builder, position, region.results[0].shape.dimensions)
            elements = result_elements(self.lowering, region, result_index, position)
            for buffer, element, result in zip(self.outputs, elements, region.results, strict=True):
                store_element(builder, buffer, position, element, result.shape.element_type)

    def index(self, before: Affine, column: Affine) -> Index:
        return (*delinear(self.builder, before, self.shape.before), *delinear(self.builder, column, self.shape.columns))

    def term(self, reduction: Instruction, index: Index, row: Affine) -> Element:
        row_index = delinear(self.builder, row, self.shape.rows)
        return self.lowering.element(
            reduction.operands[0], insert_components(index, sorted(reduction.dimensions), row_index)
        )

    def combined(self, reduction: Instruction, left: Element, right: Element) -> Element:
        (element,) = combine_elements(self.lowering, reduction.to_apply, [left], [right])
        return element
