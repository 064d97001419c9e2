"""Op generators of exchanges in which devices do different things: sends and receives, ragged all-to-alls, branches.

Responsible for operands and pairs with which no device waits for ever. Does not depend on the collectives in which all
members do the same (`collectives`). XLA:CPU runs none of these.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import S32, S64, U32
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes import collectives as ops
from xlapy.opcodes.attributes.replica_groups import ALL_REPLICAS, GroupMode, ReplicaGroups, group_mode, participants
from xlapy.opcodes.control import CONDITIONAL
from xlapy.opcodes.elementwise import ADD, CONVERT, MAXIMUM, MULTIPLY
from xlapy.opcodes.movement import DYNAMIC_SLICE, RESHAPE, DynamicSliceAttributes, ReshapeAttributes
from xlapy.opcodes.transfer import RECV, RECV_DONE, SEND, SEND_DONE, ChannelAttributes
from xlapy.opcodes.tuples import TUPLE
from xlapy.testing.random_modules.collectives import (
    DeviceOpGenerator,
    add_collective,
    add_tuple_element,
    random_operand,
)
from xlapy.testing.random_modules.generator import ModuleGenerator
from xlapy.testing.random_modules.replica_groups import MODES_WITHOUT_GLOBAL_IDS, Devices, random_group_attributes

_PAIRS = "_xla_send_recv_source_target_pairs"

# -- sends and receives


def send_and_receive(generator: ModuleGenerator, devices: Devices) -> None:
    """Adds one or two messages at a time, each from some devices to as many others; a message may be a tuple.

    Messages of one channel are received in the order in which they are sent. Replicas have no channels, so that only
    the entry sends between them, one message after the other.
    """
    mode = generator.choice(MODES_WITHOUT_GLOBAL_IDS if generator.depth == 0 else (GroupMode.CROSS_PARTITION,))
    channel = devices.channel(mode)
    messages: list[tuple[Instruction, Instruction]] = []
    earlier = devices.transfers if channel is None else messages
    for _ in range(generator.integer(1, 2)):
        begun = _begin_message(generator, devices, mode, channel)
        for before, after in zip(earlier[-1] if earlier else (), begun, strict=False):
            edit.add_control_edge(before, after)
        messages.append(begun)
        if channel is None:
            devices.transfers.append(begun)
    for send, recv in messages:
        value = edit.create(generator.computation, RECV_DONE, (recv,), recv.attributes)
        for other, _ in messages:  # a device that receives first would wait for others that do so, too
            edit.add_control_edge(other, value)
        edit.create(generator.computation, SEND_DONE, (send,), send.attributes)
        parts = [add_tuple_element(generator, value, 0)]
        if (data := parts[0]).shape.is_tuple:
            generator.remove_last_from_pool()
            parts = [add_tuple_element(generator, data, number) for number in range(len(data.shape.tuple_shapes))]
        if send.operands[0] in devices.large_values:
            devices.large_values.update(parts)


def _begin_message(
    generator: ModuleGenerator, devices: Devices, mode: GroupMode, channel: int | None
) -> tuple[Instruction, Instruction]:
    """Adds a send and its recv; returns them."""
    values = [random_operand(generator) for _ in range(generator.choice((1, 1, 2)))]
    data = values[0] if len(values) == 1 else edit.create(generator.computation, TUPLE, values)
    if not devices.large_values.isdisjoint(values):
        devices.large_values.add(data)
    ids = range(devices.ids(mode))
    sources = generator.random_subset(generator.shuffled(ids), 0.8)
    pairs = sorted(zip(sources, generator.shuffled(ids), strict=False))
    attributes = ChannelAttributes.make(channel_id=channel)
    token = edit.create(generator.computation, opcodes.AFTER_ALL, ())
    whole = Shape.tuple([data.shape, Shape.scalar(U32), token.shape])
    recv = edit.create(generator.computation, RECV, (token,), attributes, shape=whole)
    send = edit.create(generator.computation, SEND, (data, token), attributes, shape=whole)
    for one in (send, recv):
        text = ",".join(f"{{{source},{target}}}" for source, target in pairs)
        one.frontend_attributes = {_PAIRS: f"{{{text}}}"}
    return send, recv


# -- ragged all-to-all


def ragged_all_to_all(generator: ModuleGenerator, devices: Devices) -> None:
    """Adds a ragged all-to-all, whose devices have offsets and sizes of their own."""
    chosen, members = random_group_attributes(generator, devices, MODES_WITHOUT_GLOBAL_IDS)
    mode = group_mode(chosen["channel_id"], None)
    source = random_operand(generator, 1)
    rows = source.shape.dimensions
    output = generator.choice(
        [
            i
            for i in generator.pool
            if i.shape.is_array
            and i.shape.element_type is source.shape.element_type
            and i.shape.rank == len(rows)
            and i.shape.dimensions[1:] == rows[1:]
        ]
    )
    slices = generator.choice(((), (), (2,)))
    table = _ragged_table(
        generator, devices, chosen["replica_groups"], mode, (members, *slices), rows[0], output.shape.dimensions[0]
    )
    attributes = ops.RaggedAllToAllAttributes.make(**chosen)
    operands = [source, output, *_rows_of_this_device(generator, devices, table)]
    add_collective(generator, devices, opcodes.RAGGED_ALL_TO_ALL, operands, attributes)


def _ragged_table(
    generator: ModuleGenerator,
    devices: Devices,
    groups: ReplicaGroups,
    mode: GroupMode,
    shape: tuple[int, ...],
    rows: int,
    limit: int,
) -> np.ndarray[Any, Any]:
    """Draws the offsets and sizes of each device, as an array [devices, 4, *shape]. rows, limit: the numbers of rows
    of the input and of the output."""
    count = devices.replicas * devices.partitions
    sizes = generator.rng.integers(0, min(rows, limit) // 2, (count, *shape), endpoint=True)
    starts = generator.rng.integers(0, rows - sizes, endpoint=True)
    targets = generator.rng.integers(0, limit - sizes, endpoint=True)
    received = np.zeros_like(sizes)
    for device in range(count):
        group = participants(groups, mode, devices.replicas, devices.partitions, device)
        own = group.index(device)
        for number, member in enumerate(group):
            received[device, number] = sizes[member, own]
    return np.stack([starts, sizes, targets, received], 1)


def _rows_of_this_device(
    generator: ModuleGenerator, devices: Devices, table: np.ndarray[Any, Any]
) -> list[Instruction]:
    """Adds the arrays that a table [devices, arrays, ...] has for the device that executes the instructions."""
    before = len(generator.pool)
    t = generator.choice((S32, S64))
    whole = generator.constant(table.astype(t.dtype))
    replica, partition = (
        generator.add(CONVERT, (generator.add(op),), shape=Shape.scalar(t))
        for op in (opcodes.REPLICA_ID, opcodes.PARTITION_ID)
    )
    constants = [generator.constant(np.array(number, t.dtype)) for number in (0, devices.partitions)]
    device = generator.add(ADD, (generator.add(MULTIPLY, (replica, constants[1])), partition))
    sizes = (1, 1, *table.shape[2:])
    found = []
    for number in range(table.shape[1]):
        position = [device, generator.constant(np.array(number, t.dtype)), *[constants[0]] * (table.ndim - 2)]
        row = generator.add(DYNAMIC_SLICE, (whole, *position), DynamicSliceAttributes.make(dynamic_slice_sizes=sizes))
        shape = Shape.array(t, table.shape[2:])
        found.append(generator.add(RESHAPE, (row,), ReshapeAttributes.make(), shape=shape))
    del generator.pool[before:]
    return found


# -- branches


def conditional(generator: ModuleGenerator, devices: Devices) -> None:
    """Adds a conditional: all devices take the same branch, which may contain collectives, or each takes its own."""
    operand = random_operand(generator)
    is_uniform = generator.chance(0.6)
    count = generator.integer(2, 4)
    index = _common_index(generator, devices, count) if is_uniform else _own_index(generator)
    branches, is_large = [], operand in devices.large_values
    for _ in range(count):
        inner = generator.nested("branch", [operand.shape], () if is_uniform else ("local",))
        if is_large:
            devices.large_values.update(inner.pool)
        inner.add_random_instructions(generator.integer(1, 2))
        fitting = [i for i in inner.pool if i.shape == operand.shape]
        is_large = is_large or fitting[-1] in devices.large_values
        branches.append(inner.finish(fitting[-1]))
    added = generator.add(CONDITIONAL, (index, *[operand] * count), None, branches)
    if is_large:
        devices.large_values.add(added)


def _common_index(generator: ModuleGenerator, devices: Devices, count: int) -> Instruction:
    """Adds the number of a branch, sometimes out of range, that all devices compute together."""
    identifier = generator.add(CONVERT, (generator.add(opcodes.REPLICA_ID),), shape=Shape.scalar(S32))
    inner = generator.nested("reducer", [Shape.scalar(S32)] * 2, scalars=True)
    largest = inner.finish(inner.add(MAXIMUM, inner.pool[:2]))
    channel = devices.channel(GroupMode.CROSS_REPLICA_AND_PARTITION)
    attributes = ops.AllReduceAttributes.make(channel_id=channel, replica_groups=ALL_REPLICAS)
    last = generator.add(opcodes.ALL_REDUCE, (identifier,), attributes, (largest,))
    shift = generator.constant(np.array(generator.integer(-1, count) - devices.replicas + 1, np.int32))
    return generator.add(ADD, (last, shift))


def _own_index(generator: ModuleGenerator) -> Instruction:
    identifiers = [generator.add(op) for op in (opcodes.REPLICA_ID, opcodes.PARTITION_ID)]
    return generator.add(CONVERT, (generator.add(ADD, identifiers),), shape=Shape.scalar(S32))


EXCHANGES: tuple[DeviceOpGenerator, ...] = (send_and_receive, ragged_all_to_all, conditional)
