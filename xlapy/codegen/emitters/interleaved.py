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
from dataclasses import dataclass

from xlapy.base.shape import Shape
from xlapy.codegen.access_analysis import (
    PERMUTING_OPCODES,
    SUMMING_OPCODES,
    DimensionGroups,
    coalesce_dimensions,
    coalesced_accesses,
    index_of_positions,
    operand_accesses,
    transposed_axis,
)
from xlapy.codegen.access_maps import Access
from xlapy.codegen.emitters.loop_nest import TASK_ELEMENTS, choose_loop_nest, row_loops
from xlapy.codegen.emitters.transpose import MIN_TILE_COLUMNS
from xlapy.codegen.region import Region, kernel_builder, operand_source, result_buffer, result_elements
from xlapy.loops import Affine, Kernel, Value
from xlapy.lower import Lowering, store_element
from xlapy.lower.core import Element, delinear, linear

MAX_INTERLEAVED_VECTORS = 4
"""The largest number of elements of a short last dimension of the result, whose vectors are interleaved for a store.
Longer dimensions are stored in vectors along themselves."""

MAX_UNROLLED_INSTRUCTIONS = 200
"""The largest number of instructions of one unrolled iteration. Above it, the loop emitter computes the region, because
longer code takes long to compile."""


def interleaved_kernel(region: Region) -> tuple[Kernel, int] | None:
    """Returns the kernel of a region with interleaved access, and the work of one parallel iteration; None for others.

    The kernel has the buffers that `elementwise.loop_kernel` gives it.
    """
    shapes = [shape for _, shape in region.root.shape.leaves()]
    dimensions = shapes[0].dimensions
    lanes = choose_loop_nest(region, shapes[0]).lanes
    if lanes == 1 or len(dimensions) < 2 or any(shape.dimensions != dimensions for shape in shapes):
        return None
    if not shapes[0].size or any(i.op in SUMMING_OPCODES for i in region.instructions):
        return None
    plan = _short_last_dimension(region, dimensions) or _short_operand_dimension(region, dimensions)
    if plan is None or not _fills_vectors(plan.sizes[plan.long], lanes):
        return None
    if len(region.instructions) * plan.sizes[plan.short] > MAX_UNROLLED_INSTRUCTIONS:
        return None
    return _build(region, shapes, plan, lanes)


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


def _short_last_dimension(region: Region, dimensions: tuple[int, ...]) -> _InterleavingPlan | None:
    """The plan for a result with a short last dimension, unless all operands have the same order as the result."""
    if not 1 < dimensions[-1] <= MAX_INTERLEAVED_VECTORS:
        return None
    found, axes = operand_accesses(region, tuple((size,) for size in dimensions))
    if all(_has_order_of_result(read, axes, dimensions) for read in found):
        return None
    everywhere = [read for read in found if read.is_unconditional]
    groups = (*coalesce_dimensions(everywhere, axes[:-1], dimensions[:-1]), dimensions[-1:])
    return _InterleavingPlan(groups, len(groups) - 1, len(groups) - 2)


def _has_order_of_result(read: Access, axes: Sequence[Value], dimensions: tuple[int, ...]) -> bool:
    """Whether neighboring elements of the result need neighboring elements of the operand, or all need the same one."""
    position = linear(tuple(Affine.of(axis) for axis in axes), dimensions)
    return read.is_unconditional and (read.offset.is_constant or (read.offset - position).is_constant)


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


def _build(region: Region, shapes: Sequence[Shape], plan: _InterleavingPlan, lanes: int) -> tuple[Kernel, int]:
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
    work = min(TASK_ELEMENTS, sizes[plan.long]) * sizes[plan.short]
    return builder.kernel, work * max(1, len(region.instructions))
