"""Definitions of collectives: the result of each member of a group, given the operands of all of them.

`members[m][k]` is operand k of member m, in the order of the group. A definition returns one result per member. What
the ids in `replica_groups` and `source_target_pairs` stand for, replicas, partitions or devices, follows from
`channel_id` and `use_global_device_ids`. A -start op takes part in the collective, and its -done op returns the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import Array, PrimitiveType
from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.error_codes.structure import annotations as annotation_codes
from xlapy.base.errors import ExecutionError
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.opcodes.attributes.replica_groups import ALL_REPLICAS, participants
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
from xlapy.reference.control import zeros_of
from xlapy.reference.conversion import converted
from xlapy.reference.core import (
    GROUPS,
    ZEROS_OUTSIDE,
    Device,
    Function,
    Value,
    defines,
    defines_for_group,
    defines_on_device,
)
from xlapy.reference.elements import Index, indices, number, tabulate, type_of, with_values
from xlapy.reference.movement import concatenated, plus
from xlapy.reference.reduction import in_tuple

Operands = Sequence[Any]
Members = Sequence[Operands]


def one_or_tuple(results: Sequence[Value]) -> Value:
    return results[0] if len(results) == 1 else tuple(results)


# -- groups


def group_of(device: Device, instruction: Instruction) -> Sequence[int]:
    """Returns the devices in the replica group of a device, in the order of the group; none if it is in no group."""
    attributes, communicator = instruction.attributes_as(GroupedAttributes), device.communicator
    counts = communicator.replica_count, communicator.partition_count
    return participants(attributes.replica_groups, group_mode_of(attributes), *counts, device.number)


def all_of_mode(device: Device, instruction: Instruction) -> Sequence[int]:
    """Returns the devices that the ids in source_target_pairs number: all replicas, or all partitions."""
    attributes, communicator = instruction.attributes_as(CollectiveAttributes), device.communicator
    counts = communicator.replica_count, communicator.partition_count
    return participants(ALL_REPLICAS, group_mode_of(attributes), *counts, device.number)


def zeros_outside(instruction: Instruction, operands: Operands) -> Value:
    """Returns the result of a device in no group."""
    return zeros_of(instruction.shape)


# -- all-gather


@defines_for_group(opcodes.ALL_GATHER)
def all_gather(instruction: Instruction, members: Members) -> list[Value]:
    """Every member gets the operands of all members, joined along a dimension in the order of the group."""
    dimension = instruction.attributes_as(AllGatherAttributes).all_gather_dimension
    gathered = one_or_tuple([concatenated(arrays, dimension) for arrays in zip(*members, strict=True)])
    return [gathered for _ in members]


@defines_for_group(opcodes.ALL_GATHER_START)
def all_gather_start(instruction: Instruction, members: Members) -> list[Value]:
    """(operands, result of the all-gather)"""
    results = all_gather(instruction, members)
    return [(one_or_tuple(own), result) for own, result in zip(members, results, strict=True)]


# -- reductions


@defines_for_group(opcodes.ALL_REDUCE, opcodes.ALL_REDUCE_START)
def all_reduce(instruction: Instruction, reducer: Function, members: Members) -> list[Value]:
    """Every member gets the elements of all members, combined from the first member to the last."""
    total = one_or_tuple(combined(reducer, instruction, members))
    return [total for _ in members]


@defines_for_group(opcodes.REDUCE_SCATTER)
def reduce_scatter(instruction: Instruction, reducer: Function, members: Members) -> list[Value]:
    """Member m gets block m of what an all-reduce returns, which is split along a dimension."""
    dimension, count = instruction.attributes_as(ReduceScatterAttributes).scatter_dimension, len(members)
    total = combined(reducer, instruction, members)
    return [one_or_tuple([block(array, dimension, count, m) for array in total]) for m in range(count)]


def block(array: Array, dimension: int, count: int, number: int) -> Array:
    """Returns one of `count` equal parts of an array along a dimension."""
    size = array.shape[dimension] // count
    sizes = with_values(array.shape, [dimension], [size])
    offset = with_values((0,) * array.ndim, [dimension], [number * size])
    return tabulate(type_of(array), sizes, lambda index: array[plus(offset, index)])


def combined(reducer: Function, instruction: Instruction, members: Members) -> list[Array]:
    """Returns the elements of all members, combined by a reducer of one pair of scalars, or of one pair per operand.

    Departure of XLA: the reducer may have another element type, such as f32 for bf16. Elements are converted to it,
    partial results stay in it, and the result is converted back.
    """
    types = [parameter.shape.element_type for parameter in instruction.to_apply.parameters]
    if len(types) == 2:
        columns = zip(*members, strict=True)
        return [_fold(instruction, reducer, types, [[array] for array in column])[0] for column in columns]
    return _fold(instruction, reducer, types, members)


def _fold(
    instruction: Instruction, reducer: Function, types: Sequence[PrimitiveType], rows: Sequence[Operands]
) -> list[Array]:
    results = [np.array(array) for array in rows[0]]
    if len({array.shape for array in results}) > 1:
        raise ExecutionError(
            codes.REDUCED_SIZES,
            f"{describe_instruction(instruction)}: a reducer of all operands at once takes equal sizes, given "
            f"{', '.join(str(list(array.shape)) for array in results)}",
        )
    if any(type_of(array).is_complex and not t.is_complex for array, t in zip(results, types, strict=False)):
        raise ExecutionError(
            codes.REDUCED_TYPE, f"{describe_instruction(instruction)}: the reducer loses imaginary parts"
        )
    for index in indices(results[0].shape):
        total = [array[index] for array in results]
        for row in rows[1:]:
            given = [*total, *(array[index] for array in row)]
            arguments = [np.asarray(converted(x, t)) for x, t in zip(given, types, strict=True)]
            total = [np.asarray(value)[()] for value in in_tuple(reducer(*arguments))]
        for result, value in zip(results, total, strict=True):
            result[index] = converted(value, type_of(result))
    return results


@defines_for_group(opcodes.COLLECTIVE_REDUCE)
def collective_reduce(instruction: Instruction, reducer: Function, members: Members) -> list[Value]:
    """The root of each operand gets what an all-reduce returns, the other members get zeros."""
    roots, data = split_roots(instruction, members)
    total = combined(reducer, instruction, data)
    zeros = in_tuple(zeros_of(instruction.shape))
    return [
        one_or_tuple([total[k] if root == m else zeros[k] for k, root in enumerate(roots)]) for m in range(len(members))
    ]


def split_roots(instruction: Instruction, members: Members) -> tuple[list[int], Members]:
    """Returns the root of each operand (a position in the group; by default the first), and the other operands."""
    if not has_dynamic_root(instruction.attributes):
        return [0] * len(members[0]), members
    given = [[number(root) for root in operands[-1]] for operands in members]
    if any(roots != given[0] or not all(0 <= root < len(members) for root in roots) for roots in given):
        raise ExecutionError(
            codes.BROADCAST_ROOT,
            f"{describe_instruction(instruction)}: members give different or unknown roots: {given}",
        )
    return given[0], [operands[:-1] for operands in members]


@defines_for_group(opcodes.COLLECTIVE_BROADCAST)
def collective_broadcast(instruction: Instruction, members: Members) -> list[Value]:
    """Every member gets each operand of its root."""
    roots, data = split_roots(instruction, members)
    sent = one_or_tuple([data[root][k] for k, root in enumerate(roots)])
    return [sent for _ in members]


# -- exchanges


@defines_for_group(opcodes.ALL_TO_ALL)
def all_to_all(instruction: Instruction, members: Members) -> list[Value]:
    """Member m gets block m (or operand m) of every member, joined (or in a tuple) in the order of the group."""
    dimension, count = instruction.attributes_as(AllToAllAttributes).split_dimension, len(members)
    if dimension is None:
        return [tuple(operands[m] for operands in members) for m in range(count)]
    return [
        concatenated([block(operands[0], dimension, count, m) for operands in members], dimension) for m in range(count)
    ]


@defines_for_group(opcodes.RAGGED_ALL_TO_ALL)
def ragged_all_to_all(instruction: Instruction, members: Members) -> list[Value]:
    """Of member s, member m gets the rows input[starts[m] ...], sizes[m] of them, in its output from targets[m] on.

    starts, sizes and targets are those of the sender; with two dimensions there are several updates for each member.
    """
    results = [np.array(operands[1]) for operands in members]
    if not type_of(members[0][2]).is_integral:
        raise ExecutionError(
            codes.INTEGER_OFFSETS, f"{describe_instruction(instruction)}: offsets and sizes must be integers"
        )
    for s, (source, _, starts, sizes, targets, _) in enumerate(members):
        for m, result in enumerate(results):
            expected = members[m][5]
            for k in indices(sizes.shape[1:]):
                start, size, target = (number(array[(m, *k)]) for array in (starts, sizes, targets))
                if size != number(expected[(s, *k)]):
                    raise ExecutionError(
                        codes.RECEIVED_SIZES,
                        f"{describe_instruction(instruction)}: member {m} expects {number(expected[(s, *k)])} rows of "
                        f"member {s}, which sends {size}",
                    )
                _check_rows(instruction, source, start, size)
                _check_rows(instruction, result, target, size)
                for row in range(size):
                    for index in indices(source.shape[1:]):
                        result[(target + row, *index)] = source[(start + row, *index)]
    return list(results)


def _check_rows(instruction: Instruction, array: Array, start: int, size: int) -> None:
    if start < 0 or size < 0 or start + size > len(array):
        raise ExecutionError(
            codes.SLICE_BOUNDS,
            f"{describe_instruction(instruction)}: {size} rows from row {start} on are not within {len(array)} rows",
        )


@defines_for_group(opcodes.COLLECTIVE_PERMUTE)
def collective_permute(instruction: Instruction, members: Members) -> list[Value]:
    """The target of each pair gets the operands of its source; members that are no target get zeros."""
    attributes = instruction.attributes_as(CollectivePermuteAttributes)
    for pair in attributes.source_target_pairs:
        if max(pair) >= len(members):
            raise ExecutionError(
                annotation_codes.PAIR_MEMBERS,
                f"{describe_instruction(instruction)}: {pair} names none of {len(members)} members",
            )
    if attributes.slice_sizes:
        return permute_slices(instruction, members)
    sources = {target: source for source, target in attributes.source_target_pairs}
    zeros = tuple(np.zeros(array.shape, array.dtype) for array in members[0])
    return [one_or_tuple(members[sources[m]] if m in sources else zeros) for m in range(len(members))]


def permute_slices(instruction: Instruction, members: Members) -> list[Value]:
    """Copies a slice of the input of each source into the output of its target.

    The operands are input, output, and the offsets in both; the sender's offsets in the input count, and the receiver's
    in the output. The first pair of an id carries its first slice, its second pair the second; a single slice is
    carried by every pair.
    """
    attributes = instruction.attributes_as(CollectivePermuteAttributes)
    results = [[np.array(array) for array in in_tuple(operands[1])] for operands in members]
    sent, received = Counter[int](), Counter[int]()
    for source, target in attributes.source_target_pairs:
        pair_number = max(sent[source], received[target])
        sent[source] = received[target] = pair_number + 1
        reads, writes = slice_offsets(members[source][0], members[source][2]), slice_offsets(*members[target][1::2])
        for k, array in enumerate(in_tuple(members[source][0])):
            count = len(reads[k])
            chosen = min(pair_number, count - 1)
            sizes = attributes.slice_sizes[k * count + chosen]
            for offset in indices(sizes):
                results[target][k][_inside(instruction, results[target][k], writes[k][chosen], sizes, offset)] = array[
                    _inside(instruction, array, reads[k][chosen], sizes, offset)
                ]
    is_tuple = instruction.operands[1].shape.is_tuple
    return [tuple(arrays) if is_tuple else arrays[0] for arrays in results]


def slice_offsets(buffers: Value, offsets: Value) -> list[list[Index]]:
    """Returns, for each buffer, the position of each of its slices."""
    by_buffer = offsets if isinstance(buffers, tuple) else (offsets,)
    slices = [entry if entry and isinstance(entry[0], tuple) else (entry,) for entry in by_buffer]
    return [[tuple(number(i) for i in position) for position in entry] for entry in slices]


def _inside(instruction: Instruction, array: Array, start: Index, sizes: Sequence[int], offset: Index) -> Index:
    if any(i < 0 or i + size > whole for i, size, whole in zip(start, sizes, array.shape, strict=True)):
        raise ExecutionError(
            codes.SLICE_BOUNDS,
            f"{describe_instruction(instruction)}: a slice of sizes {list(sizes)} at {list(start)} is not within the "
            f"sizes {list(array.shape)}",
        )
    return plus(start, offset)


@defines_for_group(opcodes.COLLECTIVE_PERMUTE_START)
def collective_permute_start(instruction: Instruction, members: Members) -> list[Value]:
    """(operands, results, contexts...); with slices, (input, output, contexts...)"""
    has_slices = bool(instruction.attributes_as(CollectivePermuteAttributes).slice_sizes)
    contexts = [zeros_of(shape) for shape in instruction.shape.tuple_shapes[2:]]
    results = zip(members, collective_permute(instruction, members), strict=True)
    return [(own[0] if has_slices else one_or_tuple(own), result, *contexts) for own, result in results]


# -- done ops and ids


@defines(opcodes.ALL_REDUCE_DONE)
def all_reduce_done(instruction: Instruction, result: Value) -> Value:
    """The result of the all-reduce."""
    return result


@defines(opcodes.ALL_GATHER_DONE, opcodes.COLLECTIVE_PERMUTE_DONE)
def done(instruction: Instruction, started: Value) -> Value:
    """The result of the start op, whose value is (operands, result, contexts...)."""
    return started[1]


@defines_on_device(opcodes.REPLICA_ID)
def replica_id(device: Device, instruction: Instruction) -> Array:
    """The number of the replica that the device belongs to."""
    return np.array(device.replica_id, np.uint32)


@defines_on_device(opcodes.PARTITION_ID)
def partition_id(device: Device, instruction: Instruction) -> Array:
    """The number of the partition that the device computes."""
    return np.array(device.partition_id, np.uint32)


for _op in (opcodes.COLLECTIVE_PERMUTE, opcodes.COLLECTIVE_PERMUTE_START):
    GROUPS[_op] = all_of_mode
for _op in (
    opcodes.ALL_GATHER,
    opcodes.ALL_GATHER_START,
    opcodes.ALL_REDUCE,
    opcodes.ALL_REDUCE_START,
    opcodes.ALL_TO_ALL,
    opcodes.COLLECTIVE_BROADCAST,
    opcodes.COLLECTIVE_REDUCE,
    opcodes.RAGGED_ALL_TO_ALL,
    opcodes.REDUCE_SCATTER,
):
    GROUPS[_op] = group_of
ZEROS_OUTSIDE.update({opcodes.COLLECTIVE_BROADCAST: zeros_outside, opcodes.COLLECTIVE_REDUCE: zeros_outside})
