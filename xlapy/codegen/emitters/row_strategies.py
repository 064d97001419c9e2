"""The strategies of regions that reduce rows: sweeps over each row, or unrolled short rows.

Does not depend on how `row_reduction` emits them.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy import opcodes
from xlapy.analysis.cost import element_cost
from xlapy.codegen.emitters.loop_nest import TASK_ELEMENTS, flat_loops
from xlapy.codegen.emitters.row_reduction import (
    RowPlan,
    RowReductionEmitter,
    emit_unrolled_row,
    lanes_of_widest,
    region_row_plan,
)
from xlapy.codegen.iteration_domain import IterationDomain
from xlapy.codegen.kernel_cost import vector_cycles
from xlapy.codegen.plan import (
    Candidate,
    ImpossibleParameterError,
    NoParameters,
    Rejection,
    Strategy,
    parameter,
)
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer
from xlapy.loops import Kernel

_NO_ROWS = "it has no reductions of rows with other results"


class RowReductionStrategy(Strategy[NoParameters]):
    """Makes several sweeps over each row, in vectors along the row."""

    name = "row-reduction"
    required_opcodes = frozenset({opcodes.REDUCE})

    def candidate(self, region: Region) -> Candidate | Rejection:
        plan = region.derived(region_row_plan)
        if plan is None:
            return Rejection(_NO_ROWS)
        elements = plan.domain.rows * plan.domain.length
        lanes = min(_lanes(region, plan), plan.domain.length)
        return Candidate(vector_cycles(region, elements, lanes) * len(plan.sweeps))

    def parameters(self, region: Region) -> NoParameters:
        return NoParameters()

    def emit(self, region: Region, parameters: NoParameters) -> list[Kernel]:
        plan = region.derived(region_row_plan)
        assert plan is not None
        builder = kernel_builder(region.name, region.target)
        sources = {operand: operand_source(builder, operand, f"in{n}") for n, operand in enumerate(region.operands)}
        outputs = [result_buffer(builder, r.shape, f"out{n}") for n, r in enumerate(region.results)]
        RowReductionEmitter(builder, plan, sources).emit(list(zip(region.results, outputs, strict=True)))
        return [builder.kernel]


@dataclass(frozen=True, slots=True)
class UnrolledRowParameters:
    """The vectors of an unrolled row."""

    lanes: int = parameter(1, 64)
    """The rows that run in the lanes of one vector."""


class UnrolledRowStrategy(Strategy[UnrolledRowParameters]):
    """Gives every element of a short row code of its own; vectors run across rows."""

    name = "unrolled-rows"
    required_opcodes = frozenset({opcodes.REDUCE})

    def candidate(self, region: Region) -> Candidate | Rejection:
        plan = region.derived(region_row_plan)
        if plan is None:
            return Rejection(_NO_ROWS)
        if not plan.domain.has_short_rows:
            return Rejection(f"rows of {plan.domain.length} elements would be too much code")
        if not plan.domain.is_unrolled(sum(map(element_cost, region.instructions))):
            return Rejection(
                f"{plan.domain} are too few for the time that their code takes to compile", is_possible=True
            )
        return Candidate(vector_cycles(region, plan.domain.rows * plan.domain.length, _lanes_of_rows(region, plan)))

    def parameters(self, region: Region) -> UnrolledRowParameters:
        plan = region.derived(region_row_plan)
        assert plan is not None
        return UnrolledRowParameters(_lanes_of_rows(region, plan))

    def check(self, region: Region, parameters: UnrolledRowParameters) -> None:
        plan = region.derived(region_row_plan)
        assert plan is not None
        most = _lanes_of_rows(region, plan)
        if parameters.lanes > most or parameters.lanes & (parameters.lanes - 1):
            raise ImpossibleParameterError(
                "lanes", f"it is {parameters.lanes}, but must be a power of two up to {most}"
            )

    def emit(self, region: Region, parameters: UnrolledRowParameters) -> list[Kernel]:
        plan = region.derived(region_row_plan)
        assert plan is not None
        builder = kernel_builder(region.name, region.target)
        sources = {operand: operand_source(builder, operand, f"in{n}") for n, operand in enumerate(region.operands)}
        outputs = [result_buffer(builder, r.shape, f"out{n}") for n, r in enumerate(region.results)]
        with flat_loops(builder, parameters.lanes, plan.domain.rows, _rows_of_task(plan.domain)) as row:
            emit_unrolled_row(builder, plan, sources, row, list(zip(region.results, outputs, strict=True)))
        return [builder.kernel]


def _rows_of_task(domain: IterationDomain) -> int:
    """The short rows of one task: a multiple of 64, so that they fill whole vectors of any width."""
    return TASK_ELEMENTS // domain.length // 64 * 64


def _lanes(region: Region, plan: RowPlan) -> int:
    return lanes_of_widest(region.target.vector_bytes, [*plan.patterns, *region.operands])


def _lanes_of_rows(region: Region, plan: RowPlan) -> int:
    return min(_lanes(region, plan), 1 << (plan.domain.rows.bit_length() - 1))
