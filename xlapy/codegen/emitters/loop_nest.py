"""Loops around the elements of a result: which dimension runs in vectors, and which dimensions are split into tasks.

Usually the last dimension runs in vectors and the dimensions before it form the parallel loop. If each element is a sum
over contiguous memory, the sum runs in vectors instead. Elementwise regions, and results with a short last dimension,
run through all elements as one flat dimension. Does not depend on what the elements are.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.codegen.access_analysis import (
    PERMUTING_OPCODES,
    SUMMING_OPCODES,
    DimensionGroups,
    coalesced_accesses,
    index_of_positions,
    result_accesses,
)
from xlapy.codegen.access_maps import stride
from xlapy.codegen.iteration_domain import first_array_shape
from xlapy.codegen.region import Region
from xlapy.loops import I64, Affine, AxisKind, Builder, Value
from xlapy.loops.reduction_order import MIN_VECTOR_TERMS
from xlapy.lower import LOWERINGS, components, storage_type
from xlapy.lower.core import Index, delinear
from xlapy.lower.reduction import can_be_reordered
from xlapy.opcodes.contraction import DotAttributes

TASK_ELEMENTS = 1 << 13
"""The number of elements of one task (one iteration of the parallel loop) in a kernel that treats all elements as one
dimension."""


@dataclass(frozen=True, slots=True)
class LoopNest:
    """The loops around one element of a result."""

    flat: bool
    """Whether all elements form one dimension, which is split into tasks of `TASK_ELEMENTS`."""
    lanes: int
    """The number of lanes of the vector axis; 1 if there is none."""
    groups: DimensionGroups | None = None
    """The dimensions of the result, of which neighboring ones run as one dimension; None to run each by itself."""


# -- the choice of loops


def preferred_lanes(region: Region) -> int:
    """The lanes of the vector axis around an element of the first result; 1 if there is none."""
    return choose_loop_nest(region, first_array_shape(region.root.shape)).lanes


def choose_loop_nest(region: Region, shape: Shape) -> LoopNest:
    """Chooses the loops around an element of a result of this shape."""
    dimensions = [size for size in shape.dimensions if size > 1]
    last = dimensions[-1] if dimensions else 1
    lanes = _lanes(region)
    if shape.size == 1 or _sums_contiguous_memory(region):
        return LoopNest(False, 1)
    if last < lanes and (groups := _groups_that_fill_vectors(region, shape, lanes)):
        return LoopNest(False, lanes, groups)
    if len(dimensions) == 1 or last < lanes or _is_elementwise(region):
        lanes = min(lanes, 1 << (shape.size.bit_length() - 1))
        return LoopNest(True, lanes)
    return LoopNest(False, lanes)


def _groups_that_fill_vectors(region: Region, shape: Shape, lanes: int) -> DimensionGroups | None:
    """Groups of dimensions of which the last fills vectors of neighboring elements; None if there are none.

    In a copy of f32[9,2,33,12], the last dimension may be too short, but the last two together contiguous everywhere.
    """
    if not any(i.op in PERMUTING_OPCODES for i in region.instructions) or lanes == 1 or _is_elementwise(region):
        return None
    if any(i.op in SUMMING_OPCODES for i in region.instructions):
        return None
    if region.root.shape.is_tuple or shape.dimensions != region.root.shape.dimensions:
        return None
    groups, axes, everywhere = coalesced_accesses(region, shape.dimensions)
    found, _ = region.derived(result_accesses)
    is_contiguous = all(stride(read.offset, axes[-1]) in (0, 1) for read in everywhere)
    fills_vectors = len(groups) > 1 and math.prod(groups[-1]) >= lanes
    return groups if fills_vectors and is_contiguous and len(everywhere) == len(found) else None


def _lanes(region: Region) -> int:
    """Returns the number of lanes of a vector of the widest elements; 1 if lanes may have to branch differently."""
    if any(i.op not in LOWERINGS for i in region.instructions):
        return 1
    arrays = [i.shape for i in (*region.instructions, *region.operands) if i.shape.is_array and i.shape.rank]
    widest = max((components(s.element_type) and storage_type(s.element_type).byte_size for s in arrays), default=4)
    return region.target.vector_bytes // widest


def _sums_contiguous_memory(region: Region) -> bool:
    """Whether the root is a sum that may run in vectors along the last dimension of its operands."""
    root = region.root
    if root.op is opcodes.REDUCE:
        operand = root.operands[0].shape
        is_long = operand.rank and operand.dimensions[-1] >= MIN_VECTOR_TERMS
        return bool(is_long and operand.rank - 1 in root.dimensions) and can_be_reordered(root.to_apply)
    if root.op is opcodes.DOT:
        (left, right), attrs = root.operands, root.attributes_as(DotAttributes)
        ends = zip((left, right), (attrs.lhs_contracting_dims, attrs.rhs_contracting_dims), strict=True)
        return all(o.shape.rank - 1 in dims and o.shape.dimensions[-1] >= MIN_VECTOR_TERMS for o, dims in ends)
    return False


def _is_elementwise(region: Region) -> bool:
    """Whether every array of the region is read at the position of the result, scalars excepted."""
    size = first_array_shape(region.root.shape).dimensions
    for instruction in region.instructions:
        scalar_broadcast = instruction.op is opcodes.BROADCAST and not instruction.operands[0].shape.rank
        plain = (
            instruction.op.elementwise
            or instruction.op in (opcodes.CONSTANT, opcodes.MAP, opcodes.TUPLE)
            or scalar_broadcast
        )
        if not plain or any(leaf.dimensions not in ((), size) for _, leaf in instruction.shape.leaves()):
            return False
    return all(not operand.shape.is_array or operand.shape.dimensions in ((), size) for operand in region.operands)


# -- loops


@contextmanager
def element_loops(builder: Builder, nest: LoopNest, shape: Shape) -> Iterator[Index]:
    """Opens the loops around one element of a result; yields the element's index."""
    if nest.flat:
        with flat_loops(builder, nest.lanes, shape.size) as position:
            yield delinear(builder, position, shape.dimensions)
    elif not shape.rank:
        yield ()
    elif nest.groups is not None:
        with _nested_loops(builder, nest, [math.prod(group) for group in nest.groups]) as positions:
            yield index_of_positions(builder, nest.groups, positions)
    else:
        with _nested_loops(builder, nest, shape.dimensions) as index:
            yield index


def vector_extent(nest: LoopNest, shape: Shape) -> int:
    """The elements along which vectors run, if the nest is not flat."""
    if nest.groups is not None:
        return math.prod(nest.groups[-1])
    return next((size for size in reversed(shape.dimensions) if size > 1), 1)


@contextmanager
def flat_loops(builder: Builder, lanes: int, size: int, task_elements: int = TASK_ELEMENTS) -> Iterator[Affine]:
    """Opens a parallel loop over tasks and a vector loop over the elements of a task; yields the flat position.

    The last task takes the rest. If one task holds all elements, there is only the vector loop.
    """
    if size <= task_elements:
        with builder.loop(size, AxisKind.VECTOR, width=lanes) as position:
            yield position
        return
    with builder.loop(-(-size // task_elements), AxisKind.PARALLEL) as task:
        start = task * task_elements
        left = builder.value_of(Affine((), size) - start)
        end = builder.binary("smin", left, builder.constant(I64, task_elements))
        with builder.loop(end if size % task_elements else task_elements, AxisKind.VECTOR, width=lanes) as inner:
            limit_range(inner, task_elements)
            yield start + inner


@contextmanager
def _nested_loops(builder: Builder, nest: LoopNest, dimensions: Sequence[int]) -> Iterator[Index]:
    """Opens a vector loop over the last dimension that is not 1, inside a parallel loop over all dimensions before it.

    Without vectors, one parallel loop runs over all elements.
    """
    if nest.lanes == 1:
        with builder.loop(math.prod(dimensions), AxisKind.PARALLEL) as position:
            yield delinear(builder, position, dimensions)
        return
    inner = max((d for d, size in enumerate(dimensions) if size > 1), default=len(dimensions) - 1)
    outer = dimensions[:inner]
    with builder.loop(math.prod(outer), AxisKind.PARALLEL) as row:
        outer_index = delinear(builder, row, outer)
        with builder.loop(dimensions[inner], AxisKind.VECTOR, width=nest.lanes) as position:
            yield (*outer_index, position, *[Affine()] * (len(dimensions) - inner - 1))


@contextmanager
def row_loops(builder: Builder, rows: int, size: int, lanes: int) -> Iterator[tuple[Affine, Affine]]:
    """Opens loops over `rows` rows of `size` elements; yields the row and the position in it.

    A task is `TASK_ELEMENTS` of one row; the last task of a row takes the rest of the row.
    """
    chunks = -(-size // TASK_ELEMENTS)
    with builder.loop(rows * chunks, AxisKind.PARALLEL) as task:
        row, chunk = delinear(builder, task, (rows, chunks))
        if chunks == 1:
            with builder.loop(size, AxisKind.VECTOR, width=lanes) as position:
                yield row, position
            return
        left = builder.value_of(Affine((), size) - chunk * TASK_ELEMENTS)
        extent: int | Value = TASK_ELEMENTS
        if size % TASK_ELEMENTS:
            extent = builder.binary("smin", left, builder.constant(I64, TASK_ELEMENTS))
        with builder.loop(extent, AxisKind.VECTOR, width=lanes) as position:
            limit_range(position, TASK_ELEMENTS)
            yield row, chunk * TASK_ELEMENTS + position


def limit_range(position: Affine, size: int) -> None:
    """Records that an axis whose extent is known only at run time stays below `size`."""
    for value, _ in position.terms:
        value.range = (0, size - 1)


def block_extent(builder: Builder, start: Affine, size: int, block: int) -> int | Value:
    """Returns the number of positions below `size` in a block at `start`; `block` if all blocks are complete."""
    if size % block == 0:
        return block
    left = builder.value_of(Affine((), size) - start)
    extent = builder.binary("smin", left, builder.constant(left.type, block))
    extent.range = (1, block)
    return extent
