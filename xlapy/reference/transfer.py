"""Definitions of the operations that exchange values with the host or with other devices, outside of collectives.

The value of send and recv is (buffer, context, token). The frontend attribute `_xla_send_recv_source_target_pairs`
names who takes part: partitions if there is a channel, else replicas. Without it, one device sends on the channel and
one receives. A send never waits.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import Array
from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.error_codes.structure import annotations as annotation_codes
from xlapy.base.errors import ExecutionError
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.opcodes.attributes.replica_groups import ALL_REPLICAS, GroupMode, participants
from xlapy.opcodes.transfer import ChannelAttributes
from xlapy.reference.control import zeros_of
from xlapy.reference.core import TOKEN, Device, Value, defines, defines_on_device

_PAIRS = "_xla_send_recv_source_target_pairs"
_PAIR = re.compile(r"\{(\d+),(\d+)\}")


@defines_on_device(opcodes.INFEED)
def infeed(device: Device, instruction: Instruction, token: Value) -> Value:
    """(the next value that the host has put into the device's infeed queue, token); an empty tuple takes none."""
    data = instruction.shape.tuple_shapes[0]
    if data.is_tuple and not data.tuple_shapes:
        return (), TOKEN
    return device.communicator.infeed(instruction, data), TOKEN


@defines_on_device(opcodes.OUTFEED)
def outfeed(device: Device, instruction: Instruction, operand: Value, token: Value) -> Value:
    """Appends the operand to the device's outfeed queue, from which the host takes it."""
    device.communicator.outfeed(instruction, operand)
    return TOKEN


@defines_on_device(opcodes.SEND)
def send(device: Device, instruction: Instruction, operand: Array, token: Value) -> Value:
    """Sends the operand to the host, to the device's targets, or to whoever receives on the channel."""
    pairs = pairs_of(instruction)
    if instruction.attributes_as(ChannelAttributes).is_host_transfer:
        device.communicator.send_to_host(instruction, operand)
    elif pairs is None:
        device.communicator.send(instruction, None, operand)
    else:
        for target in partners(device, instruction, pairs):
            device.communicator.send(instruction, target, operand)
    return operand, np.zeros((), np.uint32), TOKEN


@defines(opcodes.SEND_DONE)
def send_done(instruction: Instruction, sent: Value) -> Value:
    """A token."""
    return TOKEN


@defines_on_device(opcodes.RECV)
def recv(device: Device, instruction: Instruction, token: Value) -> Value:
    """Asks for a value from the host, from the device's source, or from whoever sends on the channel.

    The context is the number of the request, 0 for a device that is no target: its recv-done returns the zeros.
    """
    pairs, communicator = pairs_of(instruction), device.communicator
    if instruction.attributes_as(ChannelAttributes).is_host_transfer:
        request = communicator.start_receive_from_host(instruction)
    elif pairs is None:
        request = communicator.start_receive(instruction, None)
    else:
        sources = partners(device, instruction, [(target, source) for source, target in pairs])
        request = communicator.start_receive(instruction, sources[0]) if sources else 0
    return zeros_of(instruction.shape.tuple_shapes[0]), np.array(request, np.uint32), TOKEN


@defines_on_device(opcodes.RECV_DONE)
def recv_done(device: Device, instruction: Instruction, received: Value) -> Value:
    """(the value that was asked for, token)"""
    buffer, request, _ = received
    if not int(request):
        return buffer, TOKEN
    return device.communicator.finish_receive(instruction, int(request), instruction.shape.tuple_shapes[0]), TOKEN


def pairs_of(instruction: Instruction) -> Sequence[tuple[int, int]] | None:
    """Returns the (source, target) pairs of a send or recv, or None."""
    text = (instruction.frontend_attributes or {}).get(_PAIRS)
    if text is None:
        return None
    plain = re.sub(r'[\s"]', "", text)
    pairs = _PAIR.findall(plain)
    if plain != "{" + ",".join(f"{{{source},{target}}}" for source, target in pairs) + "}":
        raise ExecutionError(
            codes.PAIR_LIST, f"{describe_instruction(instruction)}: {_PAIRS} must be pairs, given {text}"
        )
    return [(int(source), int(target)) for source, target in pairs]


def partners(device: Device, instruction: Instruction, pairs: Sequence[tuple[int, int]]) -> list[int]:
    """Returns the devices that are second in a pair whose first is this device."""
    has_channel = bool(instruction.attributes_as(ChannelAttributes).channel_id)
    mode = GroupMode.CROSS_PARTITION if has_channel else GroupMode.CROSS_REPLICA
    communicator = device.communicator
    counts = communicator.replica_count, communicator.partition_count
    devices = participants(ALL_REPLICAS, mode, *counts, device.number)
    others = [second for first, second in pairs if first == devices.index(device.number)]
    if any(other >= len(devices) for other in others):
        raise ExecutionError(
            annotation_codes.PAIR_MEMBERS,
            f"{describe_instruction(instruction)}: {_PAIRS} name id {max(others)} of {len(devices)}",
        )
    return [devices[other] for other in others]


@defines(opcodes.COPY_START)
def copy_start(instruction: Instruction, operand: Value) -> Value:
    """(copy, operand, context)"""
    return operand, operand, np.zeros((), np.uint32)


@defines(opcodes.COPY_DONE)
def copy_done(instruction: Instruction, started: Value) -> Value:
    """The copy."""
    return started[0]
