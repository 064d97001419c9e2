"""The loop emitter: computes any region in loops over the elements of its result.

Regions that reduce rows go through `row_reduction`. Everything else gets the loops that `loop_nest` chooses, with one
expression for the element inside; reductions of the same dimensions share one inner loop.
"""

from __future__ import annotations

from xlapy.codegen.element_cost import element_cost
from xlapy.codegen.emitters.horizontal_reductions import horizontally_fused_reductions
from xlapy.codegen.emitters.loop_nest import (
    TASK_ELEMENTS,
    LoopNest,
    choose_loop_nest,
    element_loops,
    flat_loops,
)
from xlapy.codegen.emitters.row_reduction import (
    RowPlan,
    RowReductionEmitter,
    emit_unrolled_row,
    lanes_of_widest,
    plan_row_reduction,
)
from xlapy.codegen.iteration_domain import IterationDomain
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer, result_elements
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Builder, Kernel
from xlapy.lower import Element, Lowering, store_element
from xlapy.lower.core import linear


def loop_kernel(region: Region) -> tuple[Kernel, int]:
    """Returns the kernel of a region, and the work of one iteration of its parallel loop.

    The kernel's buffers are the operands in order, then one buffer for each array of the result.
    """
    builder = kernel_builder(region.name, region.target)
    sources = {operand: operand_source(builder, operand, f"in{n}") for n, operand in enumerate(region.operands)}
    shapes = [shape for _, shape in region.root.shape.leaves()]
    outputs = [result_buffer(builder, shape, f"out{n}") for n, shape in enumerate(shapes)]
    plan = plan_row_reduction(region.results, region.instructions)
    if plan is not None and plan.domain.is_unrolled(sum(map(element_cost, region.instructions))):
        nest = _loops_over_rows(builder, region, plan)
        with flat_loops(builder, nest.lanes, plan.domain.rows, _rows_of_task(plan.domain)) as row:
            emit_unrolled_row(builder, plan, sources, row, list(zip(region.results, outputs, strict=True)))
        return builder.kernel, nest.work
    if plan is not None:
        RowReductionEmitter(builder, plan, sources).emit(list(zip(region.results, outputs, strict=True)))
        return builder.kernel, plan.domain.length * max(1, len(region.instructions))
    values: dict[Instruction, Element] = {}
    lowering = Lowering(builder, sources, values)
    nest = choose_loop_nest(region, shapes[0])
    with element_loops(builder, nest, shapes[0]) as index:
        position = linear(index, shapes[0].dimensions)
        values.update(horizontally_fused_reductions(lowering, region.instructions, position))
        elements = result_elements(lowering, region, index, position)
        for buffer, element, shape in zip(outputs, elements, shapes, strict=True):
            store_element(builder, buffer, position, element, shape.element_type)
    return builder.kernel, nest.work * max(1, len(region.instructions))


def _rows_of_task(domain: IterationDomain) -> int:
    """The short rows of one task: a multiple of 64, so that they fill whole vectors of any width."""
    return TASK_ELEMENTS // domain.length // 64 * 64


def _loops_over_rows(builder: Builder, region: Region, plan: RowPlan) -> LoopNest:
    """The loops for short rows: all rows as one dimension, whose lanes are rows."""
    rows, length = plan.domain.rows, plan.domain.length
    lanes = min(lanes_of_widest(builder, [*plan.patterns, *region.operands]), 1 << (rows.bit_length() - 1))
    return LoopNest(True, lanes, min(TASK_ELEMENTS, rows * length) * max(1, len(region.instructions)))
