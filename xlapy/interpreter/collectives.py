"""Meaning of the collective operations: every device brings its operands and computes its own result from all of them.

Owns: what is exchanged with whom, and what becomes of it. Must not know: how values reach other devices, which is
behind `exchange.py`.
Source: AllGather, AllReduce, AllToAll, RaggedAllToAll, CollectiveBroadcast, CollectivePermute, ReduceScatter,
ReplicaId, PartitionId of the specification; collective_reduce of StableHLO's.

A -start takes part at once and waits; its -done hands on the result.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PrimitiveType
from xlapy.base.errors import ExecutionError
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter.batching.scalar_computations import apply_scalar_computation
from xlapy.interpreter.core import RULES, Array, Context, Value
from xlapy.interpreter.kernels.collective_slices import permute_slices
from xlapy.interpreter.kernels.conversion import convert_array
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

Brought = Sequence[Value]
"""The operands that one device brings to a collective."""


# -- who takes part


def device_number(context: Context) -> int:
    """replica * partitions + partition"""
    return context.replica_id * context.communicator.partition_count + context.partition_id


def collective_group_mode(instruction: Instruction) -> GroupMode:
    """What the ids in the groups or pairs of a collective number."""
    return group_mode_of(instruction.attributes_as(CollectiveAttributes))


def group_members(context: Context, groups: ReplicaGroups, mode: GroupMode) -> tuple[int, ...]:
    """The devices in this device's group, in the group's order; none if it is in no group."""
    communicator = context.communicator
    return participants(groups, mode, communicator.replica_count, communicator.partition_count, device_number(context))


def _meet(context: Context, instruction: Instruction, values: Brought) -> tuple[list[Brought], int]:
    """What all members of the group bring, in their order, and this device's place among them."""
    group = group_members(
        context, instruction.attributes_as(GroupedAttributes).replica_groups, collective_group_mode(instruction)
    )
    place = _place(context, instruction, group)
    return context.communicator.gather_operands(instruction, group, tuple(values)), place


def _place(context: Context, instruction: Instruction, group: Sequence[int]) -> int:
    device = device_number(context)
    if device not in group:
        groups = instruction.attributes_as(GroupedAttributes).replica_groups.to_text()
        raise ExecutionError(
            f"{describe_instruction(instruction)}: device {device} is in no group of replica_groups {groups}"
        )
    return group.index(device)


def _one_or_tuple(results: Sequence[Value]) -> Value:
    return results[0] if len(results) == 1 else tuple(results)


# -- all-gather


@RULES.rule(opcodes.ALL_GATHER)
def all_gather(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The shards of all members, one behind the other along the dimension."""
    brought, _ = _meet(context, instruction, values)
    return _one_or_tuple(
        [
            np.concatenate(shards, instruction.attributes_as(AllGatherAttributes).all_gather_dimension)
            for shards in zip(*brought, strict=True)
        ]
    )


@RULES.rule(opcodes.ALL_GATHER_START)
def all_gather_start(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """(operands, gathered)"""
    return _one_or_tuple(values), all_gather(context, instruction, values)


# -- all-reduce, reduce-scatter, collective-reduce


@RULES.rule(opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START)
def all_reduce(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The reduction of the operands of all members, from the first of the group to the last."""
    brought, _ = _meet(context, instruction, values)
    return _one_or_tuple(_reduced(context, instruction, brought))


@RULES.rule(opcodes.REDUCE_SCATTER)
def reduce_scatter(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Of the reduced operands, cut along the dimension into as many blocks as there are members, the own block."""
    brought, place = _meet(context, instruction, values)
    dimension, count = instruction.attributes_as(ReduceScatterAttributes).scatter_dimension, len(brought)
    blocks = [tuple(_block(array, dimension, count, place) for array in arrays) for arrays in brought]
    return _one_or_tuple(_reduced(context, instruction, blocks))


def _block(array: Array, dimension: int, count: int, place: int) -> Array:
    """Block number `place` of an array cut into `count` equal blocks along a dimension."""
    size = array.shape[dimension] // count
    return array[(slice(None),) * dimension + (slice(place * size, (place + 1) * size),)]


def _reduced(context: Context, instruction: Instruction, brought: Sequence[Brought]) -> list[Array]:
    """One array an operand; the reducer takes one pair of scalars, or the pairs of all operands at once."""
    reducer = instruction.to_apply
    if len(reducer.parameters) == 2:
        return [
            _folded(context, instruction, [(array,) for array in arrays])[0] for arrays in zip(*brought, strict=True)
        ]
    for arrays in brought:
        if len({array.shape for array in arrays}) > 1:
            shapes = ", ".join(str(list(array.shape)) for array in arrays)
            raise ExecutionError(
                f"{describe_instruction(instruction)}: a reducer of all operands at once takes equal sizes, given "
                f"{shapes}"
            )
    return _folded(context, instruction, brought)


def _folded(context: Context, instruction: Instruction, rows: Sequence[Sequence[Array]]) -> list[Array]:
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
    """For reducers of another type than the operands', such as f32 for bf16."""
    source = PrimitiveType.from_dtype(array.dtype)
    if source.is_complex and not target.is_complex:
        raise ExecutionError(
            f"{describe_instruction(instruction)}: {source} is reduced with {target}, which loses imaginary parts"
        )
    return convert_array(array, target)


@RULES.rule(opcodes.COLLECTIVE_REDUCE)
def collective_reduce(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The reduction of the operands of all members on the root; zeros on the others, and outside all groups."""
    if not group_members(
        context, instruction.attributes_as(GroupedAttributes).replica_groups, collective_group_mode(instruction)
    ):
        return _one_or_tuple([np.zeros_like(value) for value in _data(instruction, values)])
    brought, place = _meet(context, instruction, values)
    roots = _roots(instruction, brought)
    total = _reduced(context, instruction, [_data(instruction, arrays) for arrays in brought])
    return _one_or_tuple([a if root == place else np.zeros_like(a) for a, root in zip(total, roots, strict=True)])


# -- collective-broadcast, and the roots that it shares with collective-reduce


@RULES.rule(opcodes.COLLECTIVE_BROADCAST)
def collective_broadcast(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The operands of the root; zeros outside all groups."""
    if not group_members(
        context, instruction.attributes_as(GroupedAttributes).replica_groups, collective_group_mode(instruction)
    ):
        return _one_or_tuple([np.zeros_like(value) for value in _data(instruction, values)])
    brought, _ = _meet(context, instruction, values)
    return _one_or_tuple([brought[root][number] for number, root in enumerate(_roots(instruction, brought))])


def _data(instruction: Instruction, values: Brought) -> Brought:
    """The operands without the dynamic root."""
    return values[:-1] if has_dynamic_root(instruction.attributes) else values


def _roots(instruction: Instruction, brought: Sequence[Brought]) -> list[int]:
    """The place in the group of each operand's root; the members must agree on dynamic ones."""
    if not has_dynamic_root(instruction.attributes):
        return [0] * len(brought[0])
    given = [tuple(arrays[-1].tolist()) for arrays in brought]
    if len(set(given)) > 1:
        raise ExecutionError(
            f"{describe_instruction(instruction)}: the members of a group give different roots: {given}"
        )
    if not all(0 <= root < len(brought) for root in given[0]):
        raise ExecutionError(
            f"{describe_instruction(instruction)}: roots are places in a group of {len(brought)} members, given "
            f"{list(given[0])}"
        )
    return list(given[0])


# -- all-to-all


@RULES.rule(opcodes.ALL_TO_ALL)
def all_to_all(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Block or operand i of each member goes to member i, which has them in the order of the members."""
    brought, place = _meet(context, instruction, values)
    dimension = instruction.attributes_as(AllToAllAttributes).split_dimension
    if dimension is None:
        return tuple(arrays[place] for arrays in brought)
    return np.concatenate([_block(arrays[0], dimension, len(brought), place) for arrays in brought], dimension)


@RULES.rule(opcodes.RAGGED_ALL_TO_ALL)
def ragged_all_to_all(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The output with the rows that the members have for this device written over it, from the first member on."""
    _, output, starts, *_, expected = values
    numbers = PrimitiveType.from_dtype(starts.dtype)
    if not numbers.is_integral:
        raise ExecutionError(
            f"{describe_instruction(instruction)}: offsets and sizes must be integers, they are {numbers}"
        )
    brought, place = _meet(context, instruction, values)
    result: Array = output.copy()
    for member, (source, _, starts, sizes, targets, _) in enumerate(brought):
        if not np.array_equal(sizes[place], expected[member]):
            raise ExecutionError(
                f"{describe_instruction(instruction)}: recv_sizes expect {expected[member].tolist()} rows of member "
                f"{member} of "
                f"the group, it sends {sizes[place].tolist()} (send_sizes)"
            )
        updates = (np.atleast_1d(array[place]).astype(np.int64).tolist() for array in (starts, sizes, targets))
        for start, size, target in zip(*updates, strict=True):
            _require_rows(instruction, "input", source, start, size)
            _require_rows(instruction, "output", result, target, size)
            result[target : target + size] = source[start : start + size]
    return result


def _require_rows(instruction: Instruction, what: str, array: Array, start: int, size: int) -> None:
    if start < 0 or size < 0 or start + size > len(array):
        raise ExecutionError(
            f"{describe_instruction(instruction)}: {size} rows from row {start} on are not within the {len(array)} "
            f"rows of {what}"
        )


# -- collective-permute


@RULES.rule(opcodes.COLLECTIVE_PERMUTE)
def collective_permute(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The operands of the source whose target this device is; zeros if it is none."""
    group = group_members(context, ALL_REPLICAS, collective_group_mode(instruction))
    place = group.index(device_number(context))
    brought = context.communicator.gather_operands(instruction, group, tuple(values))
    _check_places(instruction, len(brought))
    attributes = instruction.attributes_as(CollectivePermuteAttributes)
    if attributes.slice_sizes:
        return permute_slices(instruction, brought, place)
    sources = [source for source, target in attributes.source_target_pairs if target == place]
    if not sources:
        return _one_or_tuple([np.zeros_like(value) for value in values])
    return _one_or_tuple(brought[sources[0]])


def _check_places(instruction: Instruction, count: int) -> None:
    for pair in instruction.attributes_as(CollectivePermuteAttributes).source_target_pairs:
        if max(pair) >= count:
            raise ExecutionError(
                f"{describe_instruction(instruction)}: pair {pair} names an id beyond the {count} members"
            )


@RULES.rule(opcodes.COLLECTIVE_PERMUTE_START)
def collective_permute_start(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """(operands, results, contexts...); of the operands of the form with slices, the input."""
    contexts = [np.zeros(shape.dimensions, shape.dtype) for shape in instruction.shape.tuple_shapes[2:]]
    operands = (
        values[0] if instruction.attributes_as(CollectivePermuteAttributes).slice_sizes else _one_or_tuple(values)
    )
    return operands, collective_permute(context, instruction, values), *contexts


# -- the second halves, and who am I


@RULES.rule(opcodes.ALL_REDUCE_DONE)
def all_reduce_done(_: Context, __: Instruction, values: Sequence[Value]) -> Value:
    return values[0]


@RULES.rule(opcodes.ALL_GATHER_DONE, opcodes.COLLECTIVE_PERMUTE_DONE)
def done(_: Context, __: Instruction, values: Sequence[Value]) -> Value:
    """The result, which stands behind the operands."""
    return values[0][1]


@RULES.rule(opcodes.REPLICA_ID)
def replica_id(context: Context, _: Instruction, __: Sequence[Value]) -> Value:
    return np.array(context.replica_id, np.uint32)


@RULES.rule(opcodes.PARTITION_ID)
def partition_id(context: Context, _: Instruction, __: Sequence[Value]) -> Value:
    return np.array(context.partition_id, np.uint32)
