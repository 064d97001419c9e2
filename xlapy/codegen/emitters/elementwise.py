"""The loop strategy: computes any region in loops over the elements of its result.

The loops are those that `choose_loop_nest` chooses, with one expression for the element inside; reductions of the same
dimensions share one inner loop.
"""

from __future__ import annotations

from dataclasses import dataclass

from xlapy.analysis.cost.reference_machine import ITERATION_CYCLES, LANE_CYCLES, LATENCY_CYCLES
from xlapy.base.shape import Shape
from xlapy.codegen.access_analysis import SUMMING_OPCODES, irregular_accesses
from xlapy.codegen.emitters.horizontal_reductions import horizontally_fused_reductions
from xlapy.codegen.emitters.loop_nest import (
    LoopNest,
    choose_loop_nest,
    element_loops,
    vector_extent,
)
from xlapy.codegen.emitters.row_reduction import region_row_plan
from xlapy.codegen.emitters.streaming import store_past_caches
from xlapy.codegen.epilogue import CONTRACTIONS
from xlapy.codegen.kernel_cost import result_size, terms_of_largest_sum, vector_cycles
from xlapy.codegen.plan import (
    Candidate,
    ImpossibleParameterError,
    Rejection,
    Strategy,
    parameter,
)
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer, result_elements
from xlapy.hlo.instruction import Instruction
from xlapy.loops import Kernel
from xlapy.lower import Element, Lowering, store_element
from xlapy.lower.core import linear


@dataclass(frozen=True, slots=True)
class LoopParameters:
    """The loops around one element."""

    flat: bool
    """Whether all elements are one dimension, which is split into tasks; else tasks are rows of the last dimension."""
    lanes: int = parameter(1, 64)
    """The elements that run in the lanes of one vector; 1 to run element by element, or for sums in vectors."""


class LoopStrategy(Strategy[LoopParameters]):
    """Computes one element after the other, or one vector of elements."""

    name = "loops"

    def candidate(self, region: Region) -> Candidate | Rejection:
        shapes = _result_shapes(region)
        nest = choose_loop_nest(region, shapes[0])
        rows = region.derived(region_row_plan)
        if any(shape.size != shapes[0].size for shape in shapes):
            return Rejection("the results have different numbers of elements")
        if rows is not None:
            return Rejection(
                f"each element would compute the reductions of its row again ({rows.domain})", is_possible=True
            )
        terms = result_size(region) * terms_of_largest_sum(region)
        cycles = vector_cycles(region, terms, nest.lanes)
        if any(i.op in CONTRACTIONS for i in region.instructions):
            # each lane loads factors of its own, and each term waits for the sum of those before it
            cycles += terms * (2 * LANE_CYCLES + (LATENCY_CYCLES + ITERATION_CYCLES) / nest.lanes)
        elif not any(i.op in SUMMING_OPCODES for i in region.instructions):
            cycles += LANE_CYCLES * result_size(region) * region.derived(irregular_accesses)
        return Candidate(cycles)

    def parameters(self, region: Region) -> LoopParameters:
        nest = choose_loop_nest(region, _result_shapes(region)[0])
        return LoopParameters(nest.flat, nest.lanes)

    def check(self, region: Region, parameters: LoopParameters) -> None:
        most = choose_loop_nest(region, _result_shapes(region)[0]).lanes
        if parameters.lanes > most or parameters.lanes & (parameters.lanes - 1):
            raise ImpossibleParameterError(
                "lanes", f"it is {parameters.lanes}, but must be a power of two up to {most}"
            )
        if parameters.flat and parameters.lanes == 1 and most == 1:
            raise ImpossibleParameterError("flat", "sums in vectors, or a single element, have no flat loops")

    def emit(self, region: Region, parameters: LoopParameters) -> list[Kernel]:
        builder = kernel_builder(region.name, region.target)
        sources = {operand: operand_source(builder, operand, f"in{n}") for n, operand in enumerate(region.operands)}
        shapes = _result_shapes(region)
        outputs = [result_buffer(builder, shape, f"out{n}") for n, shape in enumerate(shapes)]
        values: dict[Instruction, Element] = {}
        lowering = Lowering(builder, sources, values)
        groups = choose_loop_nest(region, shapes[0]).groups
        nest = LoopNest(parameters.flat, parameters.lanes, None if parameters.flat else groups)
        results = list(zip(outputs, shapes, strict=True))
        store_past_caches(region.target, results, nest.lanes, () if nest.flat else [vector_extent(nest, shapes[0])])
        with element_loops(builder, nest, shapes[0]) as index:
            position = linear(index, shapes[0].dimensions)
            values.update(horizontally_fused_reductions(lowering, region.instructions, position))
            elements = result_elements(lowering, region, index, position)
            for (buffer, shape), element in zip(results, elements, strict=True):
                store_element(builder, buffer, position, element, shape.element_type)
        return [builder.kernel]


def _result_shapes(region: Region) -> list[Shape]:
    return [shape for _, shape in region.root.shape.leaves()]
