"""Transfers between devices, the host and memories.

Owns: who sends to whom on a channel. Must not know: how values travel, which is behind `communicator.py`.
Source: Infeed, Outfeed, Send, SendDone, Recv, RecvDone, CopyStart, CopyDone of the specification.

The frontend attribute `_xla_send_recv_source_target_pairs={{0,1},{1,2}}` of send and recv names the devices that take
part: partitions with a channel, replicas without one (or with channel 0). Who is no source sends nothing, who is no
target receives zeros. Without pairs one device sends on the channel and one receives. A send never waits for its recv.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
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
    """(data, token): the next value that the host feeds in; the empty tuple is there without it."""
    data = instruction.shape.tuple_shapes[0]
    if data.is_tuple and not data.tuple_shapes:
        return (), TOKEN
    return context.communicator.infeed(instruction, data), TOKEN


@RULES.rule(opcodes.OUTFEED)
def outfeed(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """A token, once the host has the operand."""
    context.communicator.outfeed(instruction, values[0])
    return TOKEN


# -- send, recv: (buffer, number, token)


@RULES.rule(opcodes.SEND)
def send(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The operand is under way at once, to the host or to another device."""
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
    """A token: the value has left."""
    return TOKEN


@RULES.rule(opcodes.RECV)
def recv(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Zeros for the buffer, and the number under which recv-done takes the value: 0 if none comes."""
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
    """(data, token), once the data are there."""
    buffer, number, _ = values[0]
    if not int(number):
        return buffer, TOKEN
    return context.communicator.finish_receive(instruction, int(number), instruction.shape.tuple_shapes[0]), TOKEN


def source_target_pairs(instruction: Instruction) -> Pairs | None:
    """The (source, target) pairs of a send or recv, None if it names none; `ExecutionError` if they cannot be read."""
    text = (instruction.frontend_attributes or {}).get(SOURCE_TARGET_PAIRS)
    if text is None:
        return None
    pairs = parse_pairs(text)
    if pairs is None:
        raise ExecutionError(
            f"{describe_instruction(instruction)}: {SOURCE_TARGET_PAIRS} must be pairs such as {{{{0,1}},{{1,0}}}}, "
            f"it is {text}"
        )
    return pairs


@functools.lru_cache(maxsize=256)
def parse_pairs(text: str) -> Pairs | None:
    """The pairs in `{{0,1},{1,2}}`, quoted or not; None if it reads otherwise."""
    text = text.strip().strip('"')
    if not _PAIRS.fullmatch(text):
        return None
    return tuple((int(source), int(target)) for source, target in re.findall(_PAIR, text))


def transfer_group_mode(instruction: Instruction) -> GroupMode:
    """What the ids in the pairs of a send or recv number."""
    return (
        GroupMode.CROSS_PARTITION
        if instruction.attributes_as(ChannelAttributes).channel_id
        else GroupMode.CROSS_REPLICA
    )


def _partners(context: Context, instruction: Instruction, pairs: Pairs) -> list[int]:
    """The devices that stand second in the pairs where this device stands first."""
    everybody = group_members(context, ALL_REPLICAS, transfer_group_mode(instruction))
    return find_partners(instruction, pairs, everybody, device_number(context))


def find_partners(instruction: Instruction, pairs: Pairs, everybody: Sequence[int], device: int) -> list[int]:
    """Those that stand second where a device stands first, in pairs of places among the devices that take part."""
    place = everybody.index(device)
    others = [other for own, other in pairs if own == place]
    if any(other >= len(everybody) for other in others):
        raise ExecutionError(
            f"{describe_instruction(instruction)}: {SOURCE_TARGET_PAIRS} name id {max(others)}, there are "
            f"{len(everybody)} "
            f"{transfer_group_mode(instruction).value.removeprefix('cross_')}s"
        )
    return [everybody[other] for other in others]


def _zeros(shape: Shape) -> Value:
    if shape.is_tuple:
        return tuple(map(_zeros, shape.tuple_shapes))
    return np.zeros(shape.dimensions, shape.dtype) if shape.is_array else TOKEN


# -- copies between memories


@RULES.rule(opcodes.COPY_START)
def copy_start(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """(copy, operand, context): values never change, so the operand is its own copy; the context means nothing."""
    return values[0], values[0], np.zeros((), np.uint32)


@RULES.rule(opcodes.COPY_DONE)
def copy_done(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The copy that the matching copy-start made."""
    return values[0][0]
