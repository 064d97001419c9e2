"""Checks that a module fits the numbers of replicas and partitions that it is compiled for.

Responsible for what the verifier cannot check without these numbers: the participants of each collective, and values
that are split over partitions. Does not depend on back ends.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.compilation import compiling as codes
from xlapy.base.error_codes.operations import collectives as collectives_codes
from xlapy.base.error_codes.structure import annotations as annotation_codes
from xlapy.base.errors import ShapeError, UnsupportedError, VerificationError
from xlapy.base.shape import Ints, Shape
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Module
from xlapy.hlo.named_sharding import NamedForm
from xlapy.hlo.sharding import Sharding, ShardingKind
from xlapy.interpreter.kernels.collective_slices import check_slices
from xlapy.interpreter.transfer import SOURCE_TARGET_PAIRS, source_target_pairs
from xlapy.interpreter.transfer import transfer_group_mode as transfer_mode
from xlapy.opcodes.attributes.replica_groups import GroupMode, participants
from xlapy.opcodes.collectives import (
    AllGatherAttributes,
    AllToAllAttributes,
    CollectivePermuteAttributes,
    GroupedAttributes,
    ReduceScatterAttributes,
    group_mode_of,
)
from xlapy.opcodes.transfer import ChannelAttributes

_PARTIAL_GROUPS_ALLOWED = frozenset({opcodes.COLLECTIVE_BROADCAST, opcodes.COLLECTIVE_REDUCE})
"""Collectives in which devices outside all groups may run: their result is zeros."""

_TRANSFERS = frozenset({opcodes.INFEED, opcodes.OUTFEED, opcodes.SEND, opcodes.RECV})


def check_partitioning(module: Module, replicas: int, partitions: int) -> None:
    """`VerificationError` for collectives that do not fit, `UnsupportedError` for a program that still has to be
    partitioned."""
    for instruction in module.instructions():
        if instruction.op.family == "collectives":
            _check_collective(instruction, replicas, partitions)
        elif instruction.op in (opcodes.SEND, opcodes.RECV):
            _check_transfer(instruction, replicas, partitions)
    if partitions > 1 and not module.config.is_scheduled:  # a schedule is made after partitioning
        for instruction in module.instructions():
            _check_sharding(instruction, partitions)


# -- collectives


def _check_collective(instruction: Instruction, replicas: int, partitions: int) -> None:
    attributes = instruction.attributes
    if isinstance(attributes, CollectivePermuteAttributes):
        _check_pairs(instruction, replicas, partitions)
        if attributes.slice_sizes:
            check_slices(instruction)
    if isinstance(attributes, GroupedAttributes):
        _check_groups(instruction, replicas, partitions)


def _check_groups(instruction: Instruction, replicas: int, partitions: int) -> None:
    attributes = instruction.attributes_as(GroupedAttributes)
    groups = attributes.replica_groups
    try:
        mode = group_mode_of(attributes)
        rows = [participants(groups, mode, replicas, partitions, d) for d in range(replicas * partitions)]
    except ShapeError as error:
        raise VerificationError(error.code, f"{describe_instruction(instruction)}: {error.message}") from error
    for device, row in enumerate(rows):
        if not row and instruction.op not in _PARTIAL_GROUPS_ALLOWED:
            raise VerificationError(
                annotation_codes.GROUP_MEMBERS,
                f"{describe_instruction(instruction)}: replica_groups {groups.to_text()} leave out device {device} of "
                f"{replicas} replicas and {partitions} partitions",
            )
    for members in sorted({len(row) for row in rows if row}):
        mismatch = _shape_mismatch(instruction, members)
        if mismatch:
            code, difference = mismatch
            raise VerificationError(
                code, f"{describe_instruction(instruction)}: {difference}, the groups have {members} members"
            )


def _shape_mismatch(instruction: Instruction, members: int) -> tuple[ErrorCode, str] | None:
    """Describes how the shapes contradict the number of group members; None if they do not."""
    op, operand, result = instruction.op, instruction.operands[0].shape, instruction.shape
    if op is opcodes.ALL_GATHER_START:
        op, result = opcodes.ALL_GATHER, result.tuple_shapes[1]
    if op is opcodes.ALL_GATHER:
        return _dimension_mismatch(
            instruction.attributes_as(AllGatherAttributes).all_gather_dimension, operand, result, members
        )
    if op is opcodes.REDUCE_SCATTER:
        return _dimension_mismatch(
            instruction.attributes_as(ReduceScatterAttributes).scatter_dimension, result, operand, members
        )
    if op is opcodes.RAGGED_ALL_TO_ALL and instruction.operands[2].shape.dimensions[0] != members:
        offsets = instruction.operands[2].shape.to_text(layout=False)
        return collectives_codes.RAGGED_OFFSETS, f"input_offsets {offsets} do not have one row per member"
    if op is not opcodes.ALL_TO_ALL:
        return None
    split_dimension = instruction.attributes_as(AllToAllAttributes).split_dimension
    if split_dimension is None:
        if (count := len(instruction.operands)) == members:
            return None
        return collectives_codes.EXCHANGED_OPERANDS, f"{count} operands are not one per member"
    if operand.dimensions[split_dimension] % members == 0:
        return None
    text = operand.to_text(layout=False)
    return collectives_codes.GROUP_SIZE_DIVIDES, f"dimension {split_dimension} of {text} cannot be divided"


def _dimension_mismatch(dimension: int, shard: Shape, whole: Shape, members: int) -> tuple[ErrorCode, str] | None:
    """Describes a mismatch between the shape of a shard and that of the whole. For several operands, the first one is
    checked: the shape rule has compared them already."""
    shard, whole = (shape.tuple_shapes[0] if shape.is_tuple else shape for shape in (shard, whole))
    if whole.dimensions[dimension] == shard.dimensions[dimension] * members:
        return None
    return collectives_codes.SHARD_COUNT, (
        f"dimension {dimension} of {whole.to_text(layout=False)} is not that many times the dimension of "
        f"{shard.to_text(layout=False)}"
    )


def _check_pairs(instruction: Instruction, replicas: int, partitions: int) -> None:
    attributes = instruction.attributes_as(CollectivePermuteAttributes)
    across = GroupMode.CROSS_REPLICA if attributes.channel_id is None else GroupMode.CROSS_PARTITION
    _check_ids(instruction, "source_target_pairs", attributes.source_target_pairs, across, replicas, partitions)


def _check_transfer(instruction: Instruction, replicas: int, partitions: int) -> None:
    pairs = None if instruction.attributes_as(ChannelAttributes).is_host_transfer else source_target_pairs(instruction)
    if pairs:
        _check_ids(instruction, SOURCE_TARGET_PAIRS, pairs, transfer_mode(instruction), replicas, partitions)


def _check_ids(
    instruction: Instruction, attribute: str, pairs: Sequence[Ints], across: GroupMode, replicas: int, partitions: int
) -> None:
    limit, kind = (replicas, "replicas") if across is GroupMode.CROSS_REPLICA else (partitions, "partitions")
    largest = max((max(pair) for pair in pairs), default=0)
    if largest >= limit:
        raise VerificationError(
            annotation_codes.PAIR_MEMBERS,
            f"{describe_instruction(instruction)}: {attribute} name id {largest}, but there are {limit} {kind}",
        )


# -- shardings


def _check_sharding(instruction: Instruction, partitions: int) -> None:
    sharding = instruction.sharding
    if sharding is None:
        return
    where = f"{describe_instruction(instruction)} has sharding={sharding.to_text(metadata=False)}"
    requirement = (
        f"; a program for {partitions} partitions must be partitioned already, or compiled with "
        f"use_spmd_partitioning=True"
    )
    if not sharding.is_whole:
        raise UnsupportedError(codes.SHARDED_VALUE, f"{where}, which splits its value over partitions{requirement}")
    if instruction.op in _TRANSFERS and _has_device(sharding):
        raise UnsupportedError(codes.SHARDED_VALUE, f"{where}, which binds a transfer to one partition{requirement}")


def _has_device(sharding: Sharding) -> bool:
    if sharding.named is not None:
        return sharding.named.form is NamedForm.DEVICE
    return sharding.kind is ShardingKind.MAXIMAL or any(map(_has_device, sharding.elements))
