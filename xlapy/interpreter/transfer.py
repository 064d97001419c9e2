"""Transfers between devices, the host and memory spaces.

Responsible for the source and the target of each transfer. Does not depend on how values are transported
(`hlo/communicator.py`).
Source: Infeed, Outfeed, Send, SendDone, Recv, RecvDone, CopyStart, CopyDone of the specification.

The frontend attribute `_xla_send_recv_source_target_pairs={{0,1},{1,2}}` of send and recv names the devices that take
part: partitions if there is a channel, replicas without one (or with channel 0). A device that is not a source sends
nothing, and one that is not a target receives zeros. Without pairs, one device sends on the channel and one receives. A
send never waits for its recv.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.error_codes.structure import annotations as annotation_codes
from xlapy.base.errors import ExecutionError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter.collectives import device_number, group_members
from xlapy.interpreter.core import RULES, TOKEN, Context, Value
from xlapy.opcodes.attributes.replica_groups import ALL_REPLICAS, GroupMode
from xlapy.opcodes.transfer import ChannelAttributes

SOURCE_TARGET_PAIRS = "_xla_send_recv_source_target_pairs"

Pairs = tuple[tuple[int, int], ...]

_PAIR = r"\{\s*(\d+)\s*,\s*(\d+)\s*\}"
_PAIRS = re.compile(rf"\{{\s*(?:{_PAIR}(?:\s*,\s*{_PAIR})*)?\s*\}}")


# -- infeed, outfeed


@RULES.rule(opcodes.INFEED)
def infeed(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns (data, token) with the next value in the infeed queue; an empty tuple does not wait for the host."""
    data = instruction.shape.tuple_shapes[0]
    if data.is_tuple and not data.tuple_shapes:
        return (), TOKEN
    return context.communicator.infeed(instruction, data), TOKEN


@RULES.rule(opcodes.OUTFEED)
def outfeed(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Appends the operand to the outfeed queue and returns a token."""
    context.communicator.outfeed(instruction, values[0])
    return TOKEN


# -- send, recv, whose values are (buffer, number, token)


@RULES.rule(opcodes.SEND)
def send(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Sends the operand to the host or to other devices, without waiting for a receiver."""
    communicator, value = context.communicator, values[0]
    pairs = source_target_pairs(instruction)
    if instruction.attributes_as(ChannelAttributes).is_host_transfer:
        communicator.send_to_host(instruction, value)
    elif pairs is None:
        communicator.send(instruction, None, value)
    else:
        for target in _partners(context, instruction, pairs):
            communicator.send(instruction, target, value)
    return value, np.zeros((), np.uint32), TOKEN


@RULES.rule(opcodes.SEND_DONE)
def send_done(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns a token: the value was sent by `send`."""
    return TOKEN


@RULES.rule(opcodes.RECV)
def recv(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Starts to receive; returns zeros for the buffer, and the number for recv-done (0 if not a target)."""
    communicator = context.communicator
    pairs = source_target_pairs(instruction)
    if instruction.attributes_as(ChannelAttributes).is_host_transfer:
        number = communicator.start_receive_from_host(instruction)
    elif pairs is None:
        number = communicator.start_receive(instruction, None)
    else:
        sources = _partners(context, instruction, tuple((target, source) for source, target in pairs))
        number = communicator.start_receive(instruction, sources[0]) if sources else 0
    return _zeros(instruction.shape.tuple_shapes[0]), np.array(number, np.uint32), TOKEN


@RULES.rule(opcodes.RECV_DONE)
def recv_done(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Waits for the data and returns (data, token)."""
    buffer, number, _ = values[0]
    if not int(number):
        return buffer, TOKEN
    return context.communicator.finish_receive(instruction, int(number), instruction.shape.tuple_shapes[0]), TOKEN


def source_target_pairs(instruction: Instruction) -> Pairs | None:
    """Returns the (source, target) pairs of a send or recv, or None; raises `ExecutionError` if they are malformed."""
    text = (instruction.frontend_attributes or {}).get(SOURCE_TARGET_PAIRS)
    if text is None:
        return None
    pairs = parse_pairs(text)
    if pairs is None:
        raise ExecutionError(
            codes.PAIR_LIST,
            f"{describe_instruction(instruction)}: {SOURCE_TARGET_PAIRS} must be pairs such as {{{{0,1}},{{1,0}}}}, "
            f"given {text}",
        )
    return pairs


@functools.lru_cache(maxsize=256)
def parse_pairs(text: str) -> Pairs | None:
    """Parses pairs such as `{{0,1},{1,2}}`, quoted or not; returns None if they are malformed."""
    text = text.strip().strip('"')
    if not _PAIRS.fullmatch(text):
        return None
    return tuple((int(source), int(target)) for source, target in re.findall(_PAIR, text))


def transfer_group_mode(instruction: Instruction) -> GroupMode:
    """Returns whether the ids in the pairs of a send or recv are partitions or replicas."""
    return (
        GroupMode.CROSS_PARTITION
        if instruction.attributes_as(ChannelAttributes).channel_id
        else GroupMode.CROSS_REPLICA
    )


def _partners(context: Context, instruction: Instruction, pairs: Pairs) -> list[int]:
    """Returns the devices that are second in a pair with this device as the first."""
    devices = group_members(context, ALL_REPLICAS, transfer_group_mode(instruction))
    return find_partners(instruction, pairs, devices, device_number(context))


def find_partners(instruction: Instruction, pairs: Pairs, devices: Sequence[int], device: int) -> list[int]:
    """Returns the devices that are second in a pair with `device` as the first; pairs are positions in `devices`."""
    position = devices.index(device)
    others = [other for own, other in pairs if own == position]
    if any(other >= len(devices) for other in others):
        raise ExecutionError(
            annotation_codes.PAIR_MEMBERS,
            f"{describe_instruction(instruction)}: {SOURCE_TARGET_PAIRS} name id {max(others)}, but there are "
            f"{len(devices)} {transfer_group_mode(instruction).value.removeprefix('cross_')}s",
        )
    return [devices[other] for other in others]


def _zeros(shape: Shape) -> Value:
    if shape.is_tuple:
        return tuple(map(_zeros, shape.tuple_shapes))
    return np.zeros(shape.dimensions, shape.dtype) if shape.is_array else TOKEN


# -- copies between memory spaces


@RULES.rule(opcodes.COPY_START)
def copy_start(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns (copy, operand, context), where the copy is the operand itself, because values never change."""
    return values[0], values[0], np.zeros((), np.uint32)


@RULES.rule(opcodes.COPY_DONE)
def copy_done(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the copy that the matching copy-start returned."""
    return values[0][0]
