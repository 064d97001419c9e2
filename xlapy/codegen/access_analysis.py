"""Access analysis: which positions of its operands a region reads, as affine functions of the index of its result.

The dimensions of the result are coalesced: neighboring dimensions that every operand traverses as if they were one
dimension form a group, with one axis for the group. Does not depend on how an emitter arranges its loops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

from xlapy import opcodes
from xlapy.codegen.access_maps import Access, accesses, depends_on_axis, stride
from xlapy.codegen.iteration_domain import first_array_shape
from xlapy.codegen.iteration_space import IterationSpace
from xlapy.codegen.region import Region, result_indices
from xlapy.loops import Affine, PositionArithmetic, Value
from xlapy.lower.core import Index, delinear, linear

MAX_SHORT_DIMENSION = 4
"""The largest number of elements of a short last dimension of the result, whose vectors are interleaved for a store.
Longer dimensions are stored in vectors along themselves."""

DimensionGroups: TypeAlias = tuple[tuple[int, ...], ...]
"""The sizes of a result's dimensions; those that share an axis are in one inner tuple."""

PERMUTING_OPCODES = frozenset({opcodes.TRANSPOSE, opcodes.BITCAST})
"""Opcodes whose operand may be contiguous along another dimension than their result."""

SUMMING_OPCODES = frozenset({opcodes.REDUCE, opcodes.DOT, opcodes.CONVOLUTION, opcodes.REDUCE_WINDOW})
"""Opcodes that combine many elements of an operand to one element of their result."""


def operand_accesses(region: Region, groups: DimensionGroups) -> tuple[list[Access], list[Value]]:
    """Returns the elements that one element of the result takes, and the axis of each group of dimensions."""
    space = IterationSpace()
    sizes = [math.prod(group) for group in groups]
    positions = tuple(space.axis(size) for size in sizes)
    index = index_of_positions(space, groups, positions)
    results = result_indices(space, region, index, linear(positions, sizes))
    found = accesses(space, results, region.operands)
    return found, [value for position in positions for value, _ in position.terms]


def result_accesses(region: Region) -> tuple[list[Access], list[Value]]:
    """The elements that one element of the first result takes, and the axis of each dimension of that result."""
    return operand_accesses(region, tuple((size,) for size in first_array_shape(region.root.shape).dimensions))


def irregular_accesses(region: Region) -> int:
    """The number of accesses of which a vector along the last dimension of the result does not load neighbors.

    Regions without permutations count as regular, unless the last dimension is short.
    """
    dimensions = first_array_shape(region.root.shape).dimensions
    is_short = bool(dimensions) and 1 < dimensions[-1] <= MAX_SHORT_DIMENSION
    if not dimensions or not (is_short or any(i.op in PERMUTING_OPCODES for i in region.instructions)):
        return 0
    found, axes = region.derived(result_accesses)
    if is_short:
        return sum(not has_order_of_result(read, axes, dimensions) for read in found)
    return sum(stride(read.offset, axes[-1]) not in (0, 1) for read in found)


def has_order_of_result(read: Access, axes: Sequence[Value], dimensions: tuple[int, ...]) -> bool:
    """Whether neighboring elements of the result need neighboring elements of the operand, or all need the same one."""
    position = linear(tuple(Affine.of(axis) for axis in axes), dimensions)
    return read.is_unconditional and (read.offset.is_constant or (read.offset - position).is_constant)


def coalesced_accesses(
    region: Region, dimensions: tuple[int, ...]
) -> tuple[DimensionGroups, list[Value], list[Access]]:
    """Coalesces the result's dimensions as far as all unconditional accesses allow.

    Returns the groups of dimensions, the axis of each, and the unconditional accesses in terms of these axes.
    """
    found, axes = region.derived(result_accesses)
    groups = coalesce_dimensions([access for access in found if access.is_unconditional], axes, dimensions)
    if len(groups) < len(dimensions):
        found, axes = operand_accesses(region, groups)
    return groups, axes, [access for access in found if access.is_unconditional]


def transposed_axis(offset: Affine, axes: Sequence[Value]) -> int | None:
    """The number of the axis along which an access is contiguous, if that is another than the last axis.

    Returns None if the access is contiguous along the last axis or along none, or depends on data.
    """
    *others, last = axes
    if offset.coefficient(last) in (0, 1):
        return None
    if any(value not in axes and depends_on_axis(value, axes) for value, _ in offset.terms):
        return None
    return next((number for number, axis in enumerate(others) if offset.coefficient(axis) == 1), None)


def coalesce_dimensions(
    accesses: Sequence[Access], axes: Sequence[Value], dimensions: tuple[int, ...]
) -> DimensionGroups:
    """Groups neighboring dimensions that all accesses traverse as one: outer stride = inner stride * inner size."""
    groups: list[tuple[int, ...]] = [dimensions[:1]]
    previous = axes[0]
    for axis, size in zip(axes[1:], dimensions[1:], strict=True):
        strides = [(access.offset.coefficient(previous), access.offset.coefficient(axis)) for access in accesses]
        is_one_dimension = size == 1 or all(outer == size * inner for outer, inner in strides)
        groups[-1:] = [(*groups[-1], size)] if is_one_dimension else [groups[-1], (size,)]
        previous = previous if size == 1 else axis
    return tuple(groups)


def index_of_positions(arithmetic: PositionArithmetic, groups: DimensionGroups, positions: Sequence[Affine]) -> Index:
    """The index of the element at one position in each group of dimensions."""
    pairs = zip(groups, positions, strict=True)
    return tuple(component for group, position in pairs for component in delinear(arithmetic, position, group))
