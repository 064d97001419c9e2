"""Emits kernels with interleaved access, for regions in which an array is contiguous along a very short dimension.

Examples are images with three channels, lists of points, and stacked arrays. Vectors run along a longer dimension, and
each iteration computes all elements of the short one. For out[i, c] = a[i, c] + b[c, i] with three c:

    for i in vectors
      a0, a1, a2 = the vectors of a[i, 0], a[i, 1], a[i, 2], deinterleaved from three contiguous loads
      out[i, 0], out[i, 1], out[i, 2] = a0 + b[0, i], a1 + b[1, i], a2 + b[2, i], interleaved to contiguous stores

Does not depend on how the back end interleaves vectors.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from xlapy.base.shape import Shape
from xlapy.codegen.access_analysis import (
    MAX_SHORT_DIMENSION,
    PERMUTING_OPCODES,
    SUMMING_OPCODES,
    DimensionGroups,
    coalesce_dimensions,
    coalesced_accesses,
    has_order_of_result,
    index_of_positions,
    irregular_accesses,
    result_accesses,
    transposed_axis,
)
from xlapy.codegen.emitters.loop_nest import preferred_lanes, row_loops
from xlapy.codegen.emitters.transpose import MIN_TILE_COLUMNS
from xlapy.codegen.kernel_cost import operation_cycles, vector_cycles
from xlapy.codegen.plan import (
    Candidate,
    ImpossibleParameterError,
    Rejection,
    Strategy,
    parameter,
)
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer, result_elements
from xlapy.loops import Affine, Kernel
from xlapy.lower import Lowering, store_element
from xlapy.lower.core import Element, delinear, linear

MAX_UNROLLED_INSTRUCTIONS = 200
"""The largest number of instructions of one unrolled iteration. Above it, the loop emitter computes the region, because
longer code takes long to compile."""


@dataclass(frozen=True, slots=True)
class InterleavedParameters:
    """The dimensions that play a part in the loops, after neighboring ones that are traversed as one are joined."""

    unrolled_dimension: int = parameter(0, 64)
    """The number of the dimension whose elements each iteration computes."""
    vector_dimension: int = parameter(0, 64)
    """The number of the dimension that runs in vectors."""


class InterleavedStrategy(Strategy[InterleavedParameters]):
    """Computes all elements of a very short dimension in each iteration, with interleaved loads and stores."""

    name = "interleaved"

    def candidate(self, region: Region) -> Candidate | Rejection:
        shapes = [shape for _, shape in region.root.shape.leaves()]
        dimensions = shapes[0].dimensions
        lanes = preferred_lanes(region)
        if lanes == 1 or len(dimensions) < 2 or any(shape.dimensions != dimensions for shape in shapes):
            return Rejection("it has no two dimensions, or results with different dimensions")
        if not shapes[0].size or any(i.op in SUMMING_OPCODES for i in region.instructions):
            return Rejection("it combines many elements to one")
        plan = region.derived(_plan)
        if plan is None:
            return Rejection("no array is contiguous along another very short dimension")
        if not _fills_vectors(plan.sizes[plan.long], lanes):
            return Rejection(f"{plan.sizes[plan.long]} elements do not fill vectors of {lanes}", is_possible=True)
        code = len(region.instructions) * plan.sizes[plan.short]
        if code > MAX_UNROLLED_INSTRUCTIONS:
            return Rejection(
                f"{code} unrolled instructions are more than {MAX_UNROLLED_INSTRUCTIONS}", is_possible=True
            )
        shuffles = region.derived(irregular_accesses) * shapes[0].size
        return Candidate(vector_cycles(region, shapes[0].size, lanes) + operation_cycles(shuffles, lanes))

    def parameters(self, region: Region) -> InterleavedParameters:
        plan = region.derived(_plan)
        assert plan is not None
        return InterleavedParameters(plan.short, plan.long)

    def check(self, region: Region, parameters: InterleavedParameters) -> None:
        plan = region.derived(_plan)
        assert plan is not None
        for name, number in asdict(parameters).items():
            if number >= len(plan.groups):
                raise ImpossibleParameterError(
                    name, f"it is {number}, but there are dimensions 0 to {len(plan.groups) - 1}"
                )
        if parameters.unrolled_dimension == parameters.vector_dimension:
            raise ImpossibleParameterError("vector_dimension", "it is the unrolled dimension, too")
        size = plan.sizes[parameters.unrolled_dimension]
        if size * len(region.instructions) > MAX_UNROLLED_INSTRUCTIONS:
            raise ImpossibleParameterError(
                "unrolled_dimension",
                f"{size} elements of {len(region.instructions)} instructions are more than {MAX_UNROLLED_INSTRUCTIONS}",
            )

    def emit(self, region: Region, parameters: InterleavedParameters) -> list[Kernel]:
        plan = region.derived(_plan)
        assert plan is not None
        shapes = [shape for _, shape in region.root.shape.leaves()]
        chosen = _InterleavingPlan(plan.groups, parameters.unrolled_dimension, parameters.vector_dimension)
        return [_build(region, shapes, chosen, preferred_lanes(region))]


def _fills_vectors(size: int, lanes: int) -> bool:
    """Whether a dimension is long enough for vectors: little of the last vector stays empty."""
    return size >= 8 * lanes or (size >= 2 * lanes and size % lanes == 0)


@dataclass(frozen=True, slots=True)
class _InterleavingPlan:
    """The dimension groups that play a part in the loops."""

    groups: DimensionGroups
    short: int
    """The number of the group whose elements are unrolled."""
    long: int
    """The number of the group that runs in vectors."""

    @property
    def sizes(self) -> list[int]:
        """The number of elements along each group."""
        return [math.prod(group) for group in self.groups]


def _plan(region: Region) -> _InterleavingPlan | None:
    dimensions = region.results[0].shape.dimensions
    return _short_last_dimension(region, dimensions) or _short_operand_dimension(region, dimensions)


def _short_last_dimension(region: Region, dimensions: tuple[int, ...]) -> _InterleavingPlan | None:
    """The plan for a result with a short last dimension, unless all operands have the same order as the result."""
    if not 1 < dimensions[-1] <= MAX_SHORT_DIMENSION:
        return None
    found, axes = region.derived(result_accesses)
    if all(has_order_of_result(read, axes, dimensions) for read in found):
        return None
    everywhere = [read for read in found if read.is_unconditional]
    groups = (*coalesce_dimensions(everywhere, axes[:-1], dimensions[:-1]), dimensions[-1:])
    return _InterleavingPlan(groups, len(groups) - 1, len(groups) - 2)


def _short_operand_dimension(region: Region, dimensions: tuple[int, ...]) -> _InterleavingPlan | None:
    """The plan for operands that are contiguous along a short dimension that is not the last one of the result."""
    if not any(i.op in PERMUTING_OPCODES for i in region.instructions):
        return None
    groups, axes, everywhere = coalesced_accesses(region, dimensions)
    for read in everywhere:
        columns = transposed_axis(read.offset, axes)
        if columns is not None and 1 < math.prod(groups[columns]) < MIN_TILE_COLUMNS:
            return _InterleavingPlan(groups, columns, len(groups) - 1)
    return None


def _build(region: Region, shapes: Sequence[Shape], plan: _InterleavingPlan, lanes: int) -> Kernel:
    builder = kernel_builder(region.name, region.target)
    lowering = Lowering(builder, {o: operand_source(builder, o, f"in{n}") for n, o in enumerate(region.operands)})
    outputs = [result_buffer(builder, shape, f"out{n}") for n, shape in enumerate(shapes)]
    sizes = plan.sizes
    others = [number for number in range(len(sizes)) if number not in (plan.short, plan.long)]
    counts = [sizes[number] for number in others]
    with row_loops(builder, math.prod(counts), sizes[plan.long], lanes) as (row, long_position):
        positions = dict(zip(others, delinear(builder, row, counts), strict=True))
        computed: list[tuple[Affine, list[Element]]] = []
        for number in range(sizes[plan.short]):
            positions |= {plan.long: long_position, plan.short: Affine((), number)}
            at = tuple(positions[group] for group in range(len(sizes)))
            position = linear(at, sizes)
            computed.append(
                (position, result_elements(lowering, region, index_of_positions(builder, plan.groups, at), position))
            )
        for result, (buffer, shape) in enumerate(zip(outputs, shapes, strict=True)):
            for position, elements in computed:
                store_element(builder, buffer, position, elements[result], shape.element_type)
    return builder.kernel
