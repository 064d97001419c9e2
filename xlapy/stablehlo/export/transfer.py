"""Export rules of infeed, outfeed, send and recv. A send or recv with its done instruction becomes one operation."""

from __future__ import annotations

from typing import Any

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.transfer import ChannelAttributes, InfeedAttributes, OutfeedAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import integer
from xlapy.stablehlo.export.core.block_builder import BlockBuilder
from xlapy.stablehlo.export.core.rules import RULES
from xlapy.stablehlo.export.core.types import leaves, types_of
from xlapy.stablehlo.export.core.value_tree import ValueTree, unflatten

_DEVICE_TO_DEVICE, _DEVICE_TO_HOST, _HOST_TO_DEVICE = 1, 2, 3


@RULES.rule(opcodes.INFEED)
def infeed(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    """Exports an infeed. The layouts of its arrays become an attribute unless all are the default layout."""
    attributes: dict[str, Any] = {"infeed_config": instruction.attributes_as(InfeedAttributes).infeed_config}
    orders = [_minor_to_major(leaf) for leaf in leaves(instruction.shape.tuple_shapes[0])]
    if any(order != tuple(reversed(range(len(order)))) for order in orders):
        attributes["layout"] = tuple([tuple(map(integer, order)) for order in orders])
    return builder.emit_for("stablehlo.infeed", instruction, attributes)


@RULES.rule(opcodes.OUTFEED)
def outfeed(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.emit_for(
        "stablehlo.outfeed",
        instruction,
        {"outfeed_config": instruction.attributes_as(OutfeedAttributes).outfeed_config},
    )


@RULES.rule(opcodes.SEND)
def send(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    attributes = _channel(instruction, _DEVICE_TO_HOST)
    return builder.emit("stablehlo.send", builder.operands(instruction), [ir.TokenType()], attributes)[0]


@RULES.rule(opcodes.RECV)
def recv(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    data = instruction.shape.tuple_shapes[0]
    types = [*types_of(data), ir.TokenType()]
    attributes = _channel(instruction, _HOST_TO_DEVICE)
    *arrays, after = builder.emit("stablehlo.recv", builder.operands(instruction), types, attributes)
    return unflatten(data, arrays), after


@RULES.rule(opcodes.SEND_DONE, opcodes.RECV_DONE)
def transfer_done(builder: BlockBuilder, instruction: Instruction) -> ValueTree:
    return builder.values[instruction.operands[0]]


def _minor_to_major(shape: Shape) -> tuple[int, ...]:
    layout = shape.layout if shape.is_array else None
    return tuple(reversed(range(len(shape.dimensions)))) if layout is None else layout.minor_to_major


def _channel(instruction: Instruction, host_type: int) -> dict[str, Any]:
    attributes = instruction.attributes_as(ChannelAttributes)
    is_host = attributes.is_host_transfer
    fields = {"handle": attributes.channel_id or 0, "type": host_type if is_host else _DEVICE_TO_DEVICE}
    return {
        "channel_handle": ir.StructAttribute("stablehlo.channel_handle", fields),
        "is_host_transfer": is_host,
    }
