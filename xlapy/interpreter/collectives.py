"""Collective operations: every device passes its operands to the members of its group and computes its own result.

Responsible for the groups, and for the result as a function of all members' operands. Does not depend on how values
reach other devices (`hlo/communicator.py`).
Source: AllGather, AllReduce, AllToAll, RaggedAllToAll, CollectiveBroadcast, CollectivePermute, ReduceScatter,
ReplicaId, PartitionId of the specification; collective_reduce of StableHLO's.

A -start op takes part in the collective and waits for it; its -done op returns the result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PrimitiveType
from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.error_codes.structure import annotations as annotation_codes
from xlapy.base.errors import ExecutionError
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter.batching.scalar_computations import apply_scalar_computation
from xlapy.interpreter.core import RULES, Array, Context, Value
from xlapy.interpreter.kernels.collective_slices import permute_slices
from xlapy.interpreter.kernels.conversion import convert_array
from xlapy.interpreter.kernels.ragged_slices import check_slices
from xlapy.opcodes.attributes.replica_groups import ALL_REPLICAS, GroupMode, ReplicaGroups, participants
from xlapy.opcodes.collectives import (
    AllGatherAttributes,
    AllToAllAttributes,
    CollectiveAttributes,
    CollectivePermuteAttributes,
    GroupedAttributes,
    ReduceScatterAttributes,
    group_mode_of,
    has_dynamic_root,
)

MemberOperands = Sequence[Value]
"""The operands that one device passes to a collective."""


# -- groups


def device_number(context: Context) -> int:
    """Returns replica * partition_count + partition."""
    return context.replica_id * context.communicator.partition_count + context.partition_id


def collective_group_mode(instruction: Instruction) -> GroupMode:
    """Returns whether the ids in the groups or pairs of a collective are replicas, partitions or both."""
    return group_mode_of(instruction.attributes_as(CollectiveAttributes))


def group_members(context: Context, groups: ReplicaGroups, mode: GroupMode) -> tuple[int, ...]:
    """Returns the devices in this device's group, in the group's order; () if the device is in no group."""
    communicator = context.communicator
    return participants(groups, mode, communicator.replica_count, communicator.partition_count, device_number(context))


def _gather(context: Context, instruction: Instruction, values: MemberOperands) -> tuple[list[MemberOperands], int]:
    """Returns the operands of all members of the group, in the group's order, and this device's position in it."""
    group = group_members(
        context, instruction.attributes_as(GroupedAttributes).replica_groups, collective_group_mode(instruction)
    )
    position = _position_in(context, instruction, group)
    return context.communicator.gather_operands(instruction, group, tuple(values)), position


def _position_in(context: Context, instruction: Instruction, group: Sequence[int]) -> int:
    device = device_number(context)
    if device not in group:
        groups = instruction.attributes_as(GroupedAttributes).replica_groups.to_text()
        raise ExecutionError(
            annotation_codes.GROUP_MEMBERS,
            f"{describe_instruction(instruction)}: device {device} is in no group of replica_groups {groups}",
        )
    return group.index(device)


def _one_or_tuple(results: Sequence[Value]) -> Value:
    return results[0] if len(results) == 1 else tuple(results)


# -- all-gather


@RULES.rule(opcodes.ALL_GATHER)
def all_gather(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Concatenates the shards of all members along the dimension."""
    gathered, _ = _gather(context, instruction, values)
    return _one_or_tuple(
        [
            np.concatenate(shards, instruction.attributes_as(AllGatherAttributes).all_gather_dimension)
            for shards in zip(*gathered, strict=True)
        ]
    )


@RULES.rule(opcodes.ALL_GATHER_START)
def all_gather_start(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns (operands, gathered)."""
    return _one_or_tuple(values), all_gather(context, instruction, values)


# -- all-reduce, reduce-scatter, collective-reduce


@RULES.rule(opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START)
def all_reduce(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Reduces the operands of all members, from the first of the group to the last."""
    gathered, _ = _gather(context, instruction, values)
    return _one_or_tuple(_reduced(context, instruction, gathered))


@RULES.rule(opcodes.REDUCE_SCATTER)
def reduce_scatter(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns this device's block of the reduced operands, which are split into one block per member."""
    gathered, position = _gather(context, instruction, values)
    dimension, count = instruction.attributes_as(ReduceScatterAttributes).scatter_dimension, len(gathered)
    blocks = [tuple(_block(array, dimension, count, position) for array in arrays) for arrays in gathered]
    return _one_or_tuple(_reduced(context, instruction, blocks))


def _block(array: Array, dimension: int, count: int, position: int) -> Array:
    """Returns block number `position` of an array that is split into `count` equal blocks along a dimension."""
    size = array.shape[dimension] // count
    return array[(slice(None),) * dimension + (slice(position * size, (position + 1) * size),)]


def _reduced(context: Context, instruction: Instruction, gathered: Sequence[MemberOperands]) -> list[Array]:
    """Reduces each operand over the members; the reducer takes one pair of scalars, or one pair per operand."""
    reducer = instruction.to_apply
    if len(reducer.parameters) == 2:
        return [
            _folded(context, instruction, [(array,) for array in arrays])[0] for arrays in zip(*gathered, strict=True)
        ]
    for arrays in gathered:
        if len({array.shape for array in arrays}) > 1:
            shapes = ", ".join(str(list(array.shape)) for array in arrays)
            raise ExecutionError(
                codes.REDUCED_SIZES,
                f"{describe_instruction(instruction)}: a reducer of all operands at once takes equal sizes, given "
                f"{shapes}",
            )
    return _folded(context, instruction, gathered)


def _folded(context: Context, instruction: Instruction, rows: Sequence[Sequence[Array]]) -> list[Array]:
    """Applies the reducer to the arrays of each member in order, in the reducer's element types."""
    reducer = instruction.to_apply
    types = [parameter.shape.element_type for parameter in reducer.parameters]
    total = list(rows[0])
    for row in rows[1:]:
        operands = [_converted(instruction, a, t) for a, t in zip((*total, *row), types, strict=True)]
        result = apply_scalar_computation(context, reducer, operands)
        total = list(result) if isinstance(result, tuple) else [result]
    wanted = [PrimitiveType.from_dtype(array.dtype) for array in rows[0]]
    return [_converted(instruction, array, t) for array, t in zip(total, wanted, strict=True)]


def _converted(instruction: Instruction, array: Array, target: PrimitiveType) -> Array:
    """Converts between the operands' type and the reducer's, such as f32 for bf16 operands."""
    source = PrimitiveType.from_dtype(array.dtype)
    if source.is_complex and not target.is_complex:
        raise ExecutionError(
            codes.REDUCED_TYPE,
            f"{describe_instruction(instruction)}: {source} is reduced with {target}, which loses imaginary parts",
        )
    return convert_array(array, target)


@RULES.rule(opcodes.COLLECTIVE_REDUCE)
def collective_reduce(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the reduction of all members' operands on the root, and zeros on other devices."""
    if not group_members(
        context, instruction.attributes_as(GroupedAttributes).replica_groups, collective_group_mode(instruction)
    ):
        return _one_or_tuple([np.zeros_like(value) for value in _data(instruction, values)])
    gathered, position = _gather(context, instruction, values)
    roots = _roots(instruction, gathered)
    total = _reduced(context, instruction, [_data(instruction, arrays) for arrays in gathered])
    return _one_or_tuple([a if root == position else np.zeros_like(a) for a, root in zip(total, roots, strict=True)])


# -- collective-broadcast, and the roots of it and of collective-reduce


@RULES.rule(opcodes.COLLECTIVE_BROADCAST)
def collective_broadcast(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the operands of the root; zeros on devices in no group."""
    if not group_members(
        context, instruction.attributes_as(GroupedAttributes).replica_groups, collective_group_mode(instruction)
    ):
        return _one_or_tuple([np.zeros_like(value) for value in _data(instruction, values)])
    gathered, _ = _gather(context, instruction, values)
    return _one_or_tuple([gathered[root][number] for number, root in enumerate(_roots(instruction, gathered))])


def _data(instruction: Instruction, values: MemberOperands) -> MemberOperands:
    """Returns the operands without the dynamic root."""
    return values[:-1] if has_dynamic_root(instruction.attributes) else values


def _roots(instruction: Instruction, gathered: Sequence[MemberOperands]) -> list[int]:
    """Returns the position in the group of each operand's root; all members must pass the same dynamic roots."""
    if not has_dynamic_root(instruction.attributes):
        return [0] * len(gathered[0])
    given = [tuple(arrays[-1].tolist()) for arrays in gathered]
    if len(set(given)) > 1:
        raise ExecutionError(
            codes.BROADCAST_ROOT,
            f"{describe_instruction(instruction)}: the members of a group give different roots: {given}",
        )
    if not all(0 <= root < len(gathered) for root in given[0]):
        raise ExecutionError(
            codes.BROADCAST_ROOT,
            f"{describe_instruction(instruction)}: roots are positions in a group of {len(gathered)} members, given "
            f"{list(given[0])}",
        )
    return list(given[0])


# -- all-to-all


@RULES.rule(opcodes.ALL_TO_ALL)
def all_to_all(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Sends block (or operand) i of each member to member i, which orders them by member."""
    gathered, position = _gather(context, instruction, values)
    dimension = instruction.attributes_as(AllToAllAttributes).split_dimension
    if dimension is None:
        return tuple(arrays[position] for arrays in gathered)
    return np.concatenate([_block(arrays[0], dimension, len(gathered), position) for arrays in gathered], dimension)


@RULES.rule(opcodes.RAGGED_ALL_TO_ALL)
def ragged_all_to_all(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Copies the rows that each member sends to this device into the output, in the order of the members."""
    _, output, starts, *_, expected = values
    numbers = PrimitiveType.from_dtype(starts.dtype)
    if not numbers.is_integral:
        raise ExecutionError(
            codes.INTEGER_OFFSETS,
            f"{describe_instruction(instruction)}: offsets and sizes must be integers, given {numbers}",
        )
    gathered, position = _gather(context, instruction, values)
    starts, sizes, targets = (
        np.stack([operands[n][position] for operands in gathered]).astype(np.int64) for n in (2, 3, 4)
    )
    input_rows = [len(operands[0]) for operands in gathered]
    where, slices = describe_instruction(instruction), (starts, sizes, targets)
    check_slices(where, input_rows, len(output), slices, expected.astype(np.int64))
    result: Array = output.copy()
    for member, (source, *_) in enumerate(gathered):
        received = (np.atleast_1d(each[member]).tolist() for each in slices)
        for start, size, target in zip(*received, strict=True):
            result[target : target + size] = source[start : start + size]
    return result


# -- collective-permute


@RULES.rule(opcodes.COLLECTIVE_PERMUTE)
def collective_permute(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the operands of the source whose target this device is; zeros if it is not a target."""
    group = group_members(context, ALL_REPLICAS, collective_group_mode(instruction))
    position = group.index(device_number(context))
    gathered = context.communicator.gather_operands(instruction, group, tuple(values))
    _check_pairs(instruction, len(gathered))
    attributes = instruction.attributes_as(CollectivePermuteAttributes)
    if attributes.slice_sizes:
        return permute_slices(instruction, gathered, position)
    sources = [source for source, target in attributes.source_target_pairs if target == position]
    if not sources:
        return _one_or_tuple([np.zeros_like(value) for value in values])
    return _one_or_tuple(gathered[sources[0]])


def _check_pairs(instruction: Instruction, count: int) -> None:
    for pair in instruction.attributes_as(CollectivePermuteAttributes).source_target_pairs:
        if max(pair) >= count:
            raise ExecutionError(
                annotation_codes.PAIR_MEMBERS,
                f"{describe_instruction(instruction)}: pair {pair} names an id beyond the {count} members",
            )


@RULES.rule(opcodes.COLLECTIVE_PERMUTE_START)
def collective_permute_start(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns (operands, results, contexts...); the form with slices has only the input in place of the operands."""
    contexts = [np.zeros(shape.dimensions, shape.dtype) for shape in instruction.shape.tuple_shapes[2:]]
    operands = (
        values[0] if instruction.attributes_as(CollectivePermuteAttributes).slice_sizes else _one_or_tuple(values)
    )
    return operands, collective_permute(context, instruction, values), *contexts


# -- done ops and ids


@RULES.rule(opcodes.ALL_REDUCE_DONE)
def all_reduce_done(_: Context, __: Instruction, values: Sequence[Value]) -> Value:
    return values[0]


@RULES.rule(opcodes.ALL_GATHER_DONE, opcodes.COLLECTIVE_PERMUTE_DONE)
def done(_: Context, __: Instruction, values: Sequence[Value]) -> Value:
    """Returns the result, which follows the operands in the start op's tuple."""
    return values[0][1]


@RULES.rule(opcodes.REPLICA_ID)
def replica_id(context: Context, _: Instruction, __: Sequence[Value]) -> Value:
    return np.array(context.replica_id, np.uint32)


@RULES.rule(opcodes.PARTITION_ID)
def partition_id(context: Context, _: Instruction, __: Sequence[Value]) -> Value:
    return np.array(context.partition_id, np.uint32)
