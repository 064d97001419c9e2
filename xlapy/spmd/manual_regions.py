"""Manual regions: parts of a program that compute on local arrays by hand, as JAX's shard_map does.

A region lies between the custom calls SPMDFullToShardShape, which leads into it, and SPMDShardToFullShape, which leads
out. Some axes of the device mesh are manual in a region: the partitioner leaves arrays alone along them, and may split
them along the other axes.

Responsible for which axes are manual where, and for the shardings on both sides of a region's boundary. Does not depend
on what a region computes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from xlapy import opcodes
from xlapy.base.error_codes.compilation import partitioner as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.traverse import post_order
from xlapy.spmd.array_sharding import (
    ArraySharding,
    Tiling,
    array_sharding_of,
    local_shape,
    manual_axis_tilings,
    replicated,
    restricted_to_manual_axes,
)

FULL_TO_SHARD, SHARD_TO_FULL = "SPMDFullToShardShape", "SPMDShardToFullShape"
"""The targets of the custom calls at the boundary of a region."""

ManualAxes = tuple[Tiling, ...]
"""The coordinate of each device along each of some manual axes."""


def union_of_axes(several: Iterable[ManualAxes]) -> ManualAxes:
    """Returns all of the axes, each once."""
    return tuple(dict.fromkeys(axis for axes in several for axis in axes))


def axes_without(axes: ManualAxes, others: ManualAxes) -> ManualAxes:
    """Returns the axes that are not among the others."""
    return tuple([axis for axis in axes if axis not in others])


def manual_axes_of_boundary(instruction: Instruction, devices: int) -> ManualAxes:
    """Returns the manual axes of the region that a custom call leads into or out of."""
    sides = instruction.operands[0].sharding, instruction.sharding
    outside, inside = sides if instruction.custom_call_target == FULL_TO_SHARD else sides[::-1]
    mesh = outside.named.mesh if outside is not None and outside.named is not None else None
    return manual_axis_tilings(inside, mesh, devices)


def manual_axes_of_uses(computation: Computation, devices: int) -> dict[Instruction, ManualAxes]:
    """Returns the manual axes of the regions that use each value, for values whose operands do not determine them."""
    found: dict[Instruction, ManualAxes] = defaultdict(tuple)
    for instruction in reversed(post_order(computation)):
        axes = found[instruction]
        target = instruction.custom_call_target if instruction.op is opcodes.CUSTOM_CALL else ""
        if target == FULL_TO_SHARD:
            axes = axes_without(axes, manual_axes_of_boundary(instruction, devices))
        elif target == SHARD_TO_FULL:
            axes = union_of_axes([axes, manual_axes_of_boundary(instruction, devices)])
        for operand in instruction.operands:
            found[operand] = union_of_axes([found[operand], axes])
    return found


def boundary_shardings(instruction: Instruction, devices: int) -> tuple[ArraySharding, ArraySharding]:
    """Returns the shardings of a boundary's array outside and inside of the region.

    If the sizes do not allow more, the array is split along the manual axes only. Raises `UnsupportedError` if the
    local arrays outside do not have the shape that the region declares.
    """
    operand = instruction.operands[0]
    full, shard = (operand, instruction) if instruction.custom_call_target == FULL_TO_SHARD else (instruction, operand)
    outside = array_sharding_of(full.sharding, full.shape, devices)
    inside = array_sharding_of(shard.sharding, shard.shape, devices)
    if not _have_equal_local_shapes(full.shape, outside, shard.shape, inside):
        manual_only = full.sharding and restricted_to_manual_axes(full.sharding, shard.sharding)
        outside, inside = array_sharding_of(manual_only, full.shape, devices), replicated(shard.shape)
    if not _have_equal_local_shapes(full.shape, outside, shard.shape, inside):
        raise UnsupportedError(
            codes.MANUAL_REGION_SHAPE,
            f"{describe_instruction(instruction)}, target {instruction.custom_call_target}: each device holds "
            f"{local_shape(full.shape, outside).to_text(layout=False)}, the manual region declares "
            f"{shard.shape.to_text(layout=False)}",
        )
    return outside, inside


def _have_equal_local_shapes(full: Shape, outside: ArraySharding, shard: Shape, inside: ArraySharding) -> bool:
    return local_shape(full, outside).compatible(local_shape(shard, inside))
