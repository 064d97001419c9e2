"""Whether a module fits the replicas and partitions that it is compiled for.

Owns: what the verifier cannot judge without their number: who takes part in each collective, and values that are split
over partitions. Must not know: back ends.
"""

from __future__ import annotations

from xlapy import ops
from xlapy.base.errors import ShapeError, UnsupportedError, VerificationError
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.named_sharding import NamedForm, NamedSharding
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.interpreter.exchange import describe
from xlapy.ops.replica_groups import GroupMode, group_mode, participants

_MAY_LEAVE_OUT = frozenset({ops.COLLECTIVE_BROADCAST, ops.COLLECTIVE_REDUCE})
"""Devices outside all groups have a result here: zeros."""

_WHOLE = frozenset({ShardingKind.REPLICATED, ShardingKind.MANUAL, ShardingKind.MAXIMAL})
_BOUND_TO_A_DEVICE = frozenset({ops.INFEED, ops.OUTFEED, ops.SEND, ops.RECV})


def check_partitioning(module: Module, replicas: int, partitions: int) -> None:
    """`VerificationError` for collectives that do not fit, `UnsupportedError` for a program still to be partitioned."""
    for instruction in module.instructions():
        if instruction.op.family == "collectives":
            _check_collective(instruction, replicas, partitions)
    if partitions > 1 and not module.config.is_scheduled:  # a schedule is made after partitioning
        for instruction in module.instructions():
            _refuse_sharding(instruction, partitions)


# -- collectives


def _check_collective(instruction: Instruction, replicas: int, partitions: int) -> None:
    attributes = instruction.attributes
    if hasattr(attributes, "source_target_pairs"):
        _check_pairs(instruction, replicas, partitions)
    if hasattr(attributes, "replica_groups"):
        _check_groups(instruction, replicas, partitions)


def _check_groups(instruction: Instruction, replicas: int, partitions: int) -> None:
    attributes = instruction.attributes
    groups = attributes.replica_groups
    try:
        mode = group_mode(attributes.channel_id, getattr(attributes, "use_global_device_ids", None))
        rows = [participants(groups, mode, replicas, partitions, d) for d in range(replicas * partitions)]
    except ShapeError as error:
        raise VerificationError(f"{describe(instruction)}: {error}") from error
    for device, row in enumerate(rows):
        if not row and instruction.op not in _MAY_LEAVE_OUT:
            raise VerificationError(
                f"{describe(instruction)}: replica_groups {groups.to_text()} leave out device {device} of "
                f"{replicas} replicas and {partitions} partitions"
            )
    for size in sorted({len(row) for row in rows}):
        _check_sizes(instruction, size)


def _check_sizes(instruction: Instruction, members: int) -> None:
    """Shapes tell how many shards there are: as many as members."""
    op, shape = instruction.op, instruction.shape
    operand = instruction.operands[0].shape
    if op is ops.ALL_GATHER_START:
        op, shape = ops.ALL_GATHER, shape.tuple_shapes[1]
    first = shape.tuple_shapes[0] if shape.is_tuple else shape
    small = large = fits = None
    if op is ops.ALL_GATHER:
        dimension = instruction.all_gather_dimension
        small, large = operand.dimensions[dimension], first.dimensions[dimension]
    elif op is ops.REDUCE_SCATTER:
        dimension = instruction.scatter_dimension
        small, large = first.dimensions[dimension], operand.dimensions[dimension]
    if small is not None and large != small * members:
        _misfit(instruction, f"the shapes {operand.brief} and {first.brief} do not tell {members} shards", members)
    if op is ops.ALL_TO_ALL and instruction.split_dimension is not None:
        fits = operand.dimensions[instruction.split_dimension] % members == 0
    elif op is ops.ALL_TO_ALL:
        fits = len(instruction.operands) == members
    elif op is ops.RAGGED_ALL_TO_ALL:
        fits = instruction.operands[2].shape.dimensions[0] == members
    if fits is False:
        shapes = ", ".join(o.shape.brief for o in instruction.operands)
        _misfit(instruction, f"operands {shapes} cannot be divided among {members}", members)
