"""Custom calls that name a sharding: constraints, boundaries of manual regions, and reports of shardings.

Responsible for the arrays on both sides of such a call. Does not depend on which axes of a region are manual
(`manual_regions.py`).
"""

from __future__ import annotations

from xlapy.hlo.instruction import Instruction
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.spmd.array_sharding import (
    are_independent,
    hlo_sharding_of,
)
from xlapy.spmd.context import InspectSharding
from xlapy.spmd.manual_regions import (
    FULL_TO_SHARD,
    SHARD_TO_FULL,
    axes_without,
    boundary_shardings,
    manual_axes_of_boundary,
    union_of_axes,
)
from xlapy.spmd.partitioned_values import PartitionedValues, requested_shardings
from xlapy.spmd.resharding import PartitionedArray


def add_constraint_or_boundary(partitioned: PartitionedValues, instruction: Instruction) -> None:
    """Writes a sharding constraint, or the reshard at the boundary of a manual region."""
    (operand,) = partitioned.values[instruction.operands[0]]
    if instruction.custom_call_target == FULL_TO_SHARD:
        found = _full_to_shard(partitioned, instruction, operand)
    elif instruction.custom_call_target == SHARD_TO_FULL:
        found = _shard_to_full(partitioned, instruction, operand)
    else:
        found = _constrained(partitioned, instruction, operand)
    partitioned.values[instruction] = [found]


def _constrained(
    partitioned: PartitionedValues, instruction: Instruction, operand: PartitionedArray
) -> PartitionedArray:
    """Reshards as the constraint requests; partial sums stay unreduced for a single user, which may defer them."""
    if instruction.sharding is None:
        return operand
    (requested,) = requested_shardings(instruction, partitioned.devices, allow_uneven=True)
    if requested.partial_sums is None and len(instruction.users) == 1:
        deferred = requested.with_partial_sums(operand.sharding.partial_sums)
        is_possible = are_independent([*deferred.all_tilings, *operand.manual_axes])
        requested = deferred if is_possible else requested
    return partitioned.resharder.reshard(operand, requested)


def _full_to_shard(
    partitioned: PartitionedValues, instruction: Instruction, operand: PartitionedArray
) -> PartitionedArray:
    outside, inside = boundary_shardings(instruction, partitioned.devices)
    manual_axes = manual_axes_of_boundary(instruction, partitioned.devices)
    local = partitioned.resharder.reshard(operand, outside)
    return PartitionedArray(local.instruction, inside, union_of_axes([operand.manual_axes, manual_axes]))


def _shard_to_full(
    partitioned: PartitionedValues, instruction: Instruction, operand: PartitionedArray
) -> PartitionedArray:
    outside, inside = boundary_shardings(instruction, partitioned.devices)
    manual_axes = manual_axes_of_boundary(instruction, partitioned.devices)
    local = partitioned.resharder.reshard(operand, inside)
    return PartitionedArray(local.instruction, outside, axes_without(operand.manual_axes, manual_axes))


def add_inspection(partitioned: PartitionedValues, instruction: Instruction, inspect: InspectSharding) -> None:
    """Reports the sharding of a value; one that is still unreduced is reported as it will be when reduced."""
    (operand,) = partitioned.values[instruction.operands[0]]
    sharding = hlo_sharding_of(operand.sharding.with_partial_sums(None), partitioned.devices)
    inspect(instruction, Sharding(ShardingKind.MANUAL) if operand.manual_axes else sharding)
    partitioned.values[instruction] = [operand]
