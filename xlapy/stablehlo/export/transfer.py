"""Export rules: transfers to and from the host and other devices.

Owns: infeed, outfeed, send, recv; pairs of start and done, which are one operation. Must not know: who is at the other
end.
"""

from __future__ import annotations

from typing import Any

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.stablehlo import ir
from xlapy.stablehlo.export.core.attributes import integer
from xlapy.stablehlo.export.core.rules import RULES, Structure
from xlapy.stablehlo.export.core.scope import Scope, structured
from xlapy.stablehlo.export.core.types import leaves, types_of

_DEVICE_TO_DEVICE, _DEVICE_TO_HOST, _HOST_TO_DEVICE = 1, 2, 3


@RULES.rule(opcodes.INFEED)
def infeed(scope: Scope, instruction: Instruction) -> Structure:
    """The orders that arrays come in stand beside it, unless all come in the default one."""
    attributes: dict[str, Any] = {"infeed_config": instruction.infeed_config}
    orders = [_order(leaf) for leaf in leaves(instruction.shape.tuple_shapes[0])]
    if any(order != tuple(reversed(range(len(order)))) for order in orders):
        attributes["layout"] = tuple([tuple(map(integer, order)) for order in orders])
    return scope.all("stablehlo.infeed", instruction, attributes)


@RULES.rule(opcodes.OUTFEED)
def outfeed(scope: Scope, instruction: Instruction) -> Structure:
    return scope.all("stablehlo.outfeed", instruction, {"outfeed_config": instruction.outfeed_config})


@RULES.rule(opcodes.SEND)
def send(scope: Scope, instruction: Instruction) -> Structure:
    attributes = _channel(instruction, _DEVICE_TO_HOST)
    return scope.emit("stablehlo.send", scope.operands(instruction), [ir.TokenType()], attributes)[0]


@RULES.rule(opcodes.RECV)
def recv(scope: Scope, instruction: Instruction) -> Structure:
    data = instruction.shape.tuple_shapes[0]
    types = [*types_of(data), ir.TokenType()]
    attributes = _channel(instruction, _HOST_TO_DEVICE)
    *arrays, after = scope.emit("stablehlo.recv", scope.operands(instruction), types, attributes)
    return structured(data, arrays), after


@RULES.rule(opcodes.SEND_DONE, opcodes.RECV_DONE)
def transfer_done(scope: Scope, instruction: Instruction) -> Structure:
    return scope.values[instruction.operands[0]]


def _order(shape: Shape) -> tuple[int, ...]:
    layout = shape.layout if shape.is_array else None
    return tuple(reversed(range(len(shape.dimensions)))) if layout is None else layout.minor_to_major


def _channel(instruction: Instruction, with_host: int) -> dict[str, Any]:
    is_host = instruction.is_host_transfer
    fields = {"handle": instruction.channel_id or 0, "type": with_host if is_host else _DEVICE_TO_DEVICE}
    return {
        "channel_handle": ir.StructAttribute("stablehlo.channel_handle", fields),
        "is_host_transfer": is_host,
    }
