"""Import rules: transfers to and from the host and other devices.

Owns: infeed, outfeed, send, recv. Must not know: who is at the other end.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy import opcodes
from xlapy.base.element_types import U32
from xlapy.base.errors import ShapeError
from xlapy.base.layout import Layout
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.transfer import SOURCE_TARGET_PAIRS
from xlapy.opcodes.transfer import ChannelAttributes, InfeedAttributes, OutfeedAttributes
from xlapy.stablehlo import ir
from xlapy.stablehlo.importing.core.attributes import as_integers, fields, flag, matrix, pairs, shown, text
from xlapy.stablehlo.importing.core.rules import SOME, rule
from xlapy.stablehlo.importing.core.scope import Scope


@rule("stablehlo.infeed", operands=1, results=SOME, stored=True)
def infeed(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    """Several arrays come as a tuple, which is taken apart."""
    shapes = [scope.declared(result) for result in operation.results[:-1]]
    shapes = _with_layouts(shapes, operation.attributes.get("layout"))
    data = shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)
    attributes = InfeedAttributes.make(infeed_config=text(operation, "infeed_config", ""))
    shape = Shape.tuple((data, Shape.token()))
    result = scope.emit(opcodes.INFEED, scope.operands(operation), attributes, shape=shape)
    return [*scope.elements(scope.element(result, 0), len(shapes)), scope.element(result, 1)]


def _with_layouts(shapes: list[Shape], given: Any) -> list[Shape]:
    """The shapes in the orders `[[1, 0], ...]`, minor dimensions first."""
    if given is None:
        return shapes
    if not isinstance(given, tuple) or len(given) < len(shapes):
        raise ShapeError(f"attribute layout must list a layout for each of {len(shapes)} arrays, it is {shown(given)}")
    return [
        shape.with_layout(Layout(as_integers(layout, "layout"))) for shape, layout in zip(shapes, given, strict=False)
    ]


@rule("stablehlo.outfeed", operands=SOME, stored=True)
def outfeed(scope: Scope, operation: ir.Operation) -> Instruction:
    *arrays, token = scope.operands(operation)
    data = scope.packed(arrays)
    attributes = OutfeedAttributes.make(outfeed_shape=data.shape, outfeed_config=text(operation, "outfeed_config", ""))
    return scope.emit(opcodes.OUTFEED, (data, token), attributes)


@rule("stablehlo.send", operands=SOME, stored=True)
def send(scope: Scope, operation: ir.Operation) -> Instruction:
    *arrays, token = scope.operands(operation)
    data = scope.packed(arrays)
    attributes = _channel(operation)
    sent = scope.emit(opcodes.SEND, (data, token), attributes)
    done = scope.emit(opcodes.SEND_DONE, (sent,), attributes)
    _name_devices(operation, sent, done)
    return done


@rule("stablehlo.recv", operands=1, results=SOME, stored=True)
def recv(scope: Scope, operation: ir.Operation) -> Sequence[Instruction]:
    shapes = [scope.declared(result) for result in operation.results[:-1]]
    data = shapes[0] if len(shapes) == 1 else Shape.tuple(shapes)
    attributes = _channel(operation)
    context = Shape.tuple((data, Shape.scalar(U32), Shape.token()))
    received = scope.emit(opcodes.RECV, scope.operands(operation), attributes, shape=context)
    done = scope.emit(opcodes.RECV_DONE, (received,), attributes)
    _name_devices(operation, received, done)
    return [*scope.elements(scope.element(done, 0), len(shapes)), scope.element(done, 1)]


def _channel(operation: ir.Operation) -> ChannelAttributes:
    return ChannelAttributes.make(
        channel_id=fields(operation, "channel_handle").integer("handle"),
        is_host_transfer=flag(operation, "is_host_transfer"),
    )


def _name_devices(operation: ir.Operation, *instructions: Instruction) -> None:
    """Which devices send to which: HLO keeps it as a frontend attribute of both halves."""
    named = pairs(matrix(operation, "source_target_pairs"), "source_target_pairs")
    if named:
        listed = ",".join(f"{{{source},{target}}}" for source, target in named)
        for instruction in instructions:
            instruction.frontend_attributes = {
                **(instruction.frontend_attributes or {}),
                SOURCE_TARGET_PAIRS: f"{{{listed}}}",
            }
