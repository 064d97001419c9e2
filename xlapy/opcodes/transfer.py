"""Definitions of the operations that move data to and from the host, other devices and other memories.

Responsible for infeed, outfeed, send, send-done, recv, recv-done, copy-start, copy-done.
Does not depend on the IR or on values.
Source: Infeed, Outfeed, Send, SendDone, Recv, RecvDone, CopyStart, CopyDone of the specification.

Example: `recv` returns `(f32[4], u32[], token[])` (buffer, context, token), `recv-done` of it `(f32[4], token[])`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy.base.element_types import U32
from xlapy.base.error_codes.operations import collectives as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.codecs import BOOL, INTEGER, SHAPE, STRING, Attributes, attribute, attributes
from xlapy.opcodes.registry import AsyncRole, Effect, OpDef, ProgramShapes, constraint, exactly
from xlapy.opcodes.requirements import compatible_ignoring_dynamic, elements_of, require_shape, require_token

_CONTEXT = Shape.scalar(U32)
_TOKEN = Shape.token()


def _canonicalize_outfeed_shape(_: Shape, __: Sequence[Shape]) -> Shape:
    return _TOKEN


# -- infeed, outfeed


@attributes
class InfeedAttributes(Attributes):
    infeed_config: str = attribute(STRING, default="")


def _check_infeed(shape: Shape, operands: Sequence[Shape], _: InfeedAttributes, __: ProgramShapes) -> None:
    """Requires the result (data, token), where data is an array or a flat tuple of arrays."""
    require_token("infeed", operands, 0)
    if not shape.is_tuple or len(shape.tuple_shapes) != 2 or not shape.tuple_shapes[1].is_token:
        raise ShapeError(
            codes.INFEED_SHAPE, f"infeed has shape (data, token[]), declared {shape.to_text(layout=False)}"
        )
    data = shape.tuple_shapes[0]
    if any(not part.is_array for part in elements_of(data)):
        raise ShapeError(
            codes.INFEED_SHAPE,
            "infeed returns an array or a tuple of arrays without "
            f"further nesting, declared {data.to_text(layout=False)}",
        )


def _canonicalize_infeed_shape(declared: Shape, _: Sequence[Shape]) -> Shape:
    """Keeps the declared shape of the data and adds the token."""
    return Shape.tuple((declared.tuple_shapes[0], _TOKEN)) if declared.tuple_shapes else declared


INFEED = OpDef(
    name="infeed",
    family="transfer",
    summary="The next value from the host's infeed queue, and a token.",
    result="`(data, token[])`. The shape of the data is declared.",
    operands="token",
    constraints=(
        constraint("The operand is a token.", shared.TOKEN_OPERAND),
        constraint("The shape is (data, token[]).", codes.INFEED_SHAPE),
        constraint("The data is an array or a tuple of arrays.", codes.INFEED_SHAPE),
    ),
    arity=exactly(1),
    attributes=InfeedAttributes,
    check=_check_infeed,
    canonicalize_shape=_canonicalize_infeed_shape,
    effect=Effect.SIDE_EFFECT,
)


@attributes
class OutfeedAttributes(Attributes):
    """`outfeed_shape` has the layout in which the host receives the data; by default that of the operand."""

    outfeed_shape: Shape | None = attribute(SHAPE, default=None, always=True)
    outfeed_config: str = attribute(STRING, default="")


def _infer_outfeed(operands: Sequence[Shape], attrs: OutfeedAttributes, _: ProgramShapes) -> Shape:
    require_token("outfeed", operands, 1)
    declared = attrs.outfeed_shape
    if declared is not None and not compatible_ignoring_dynamic(declared, operands[0]):
        raise ShapeError(
            codes.OUTFEED_SHAPE,
            f"outfeed: outfeed_shape is {declared.to_text(layout=False)}, "
            f"operand 0 is {operands[0].to_text(layout=False)}",
        )
    return _TOKEN


def _fill_outfeed_shape(attrs: OutfeedAttributes, operands: Sequence[Shape], _: Shape) -> OutfeedAttributes:
    return attrs if attrs.outfeed_shape is not None else attrs.replace(outfeed_shape=operands[0])


OUTFEED = OpDef(
    name="outfeed",
    family="transfer",
    summary="Sends a value to the host's outfeed queue, and returns a token.",
    result="`token[]`.",
    operands="operand token",
    constraints=(
        constraint("Operand 1 is a token.", shared.TOKEN_OPERAND),
        constraint("`outfeed_shape` is the shape of the operand.", codes.OUTFEED_SHAPE),
    ),
    arity=exactly(2),
    attributes=OutfeedAttributes,
    infer=_infer_outfeed,
    canonicalize_shape=_canonicalize_outfeed_shape,
    canonicalize_attributes=_fill_outfeed_shape,
    effect=Effect.SIDE_EFFECT,
)


# -- send, recv


@attributes
class ChannelAttributes(Attributes):
    """`channel_id` connects the two ends of a transfer; `is_host_transfer` tells that one end is the host."""

    channel_id: int | None = attribute(INTEGER, default=None)
    is_host_transfer: bool = attribute(BOOL, default=False)


def _infer_send(operands: Sequence[Shape], _: ChannelAttributes, __: ProgramShapes) -> Shape:
    require_token("send", operands, 1)
    return Shape.tuple((operands[0], _CONTEXT, _TOKEN))


def _canonicalize_send_shape(_: Shape, operands: Sequence[Shape]) -> Shape:
    return Shape.tuple((operands[0], _CONTEXT, _TOKEN))


SEND = OpDef(
    name="send",
    family="transfer",
    summary="Starts to send a value to the `recv` of the same channel, or to the host.",
    result="`(operand, u32[], token[])`, with the shape of operand 0.",
    operands="operand token",
    constraints=(constraint("Operand 1 is a token.", shared.TOKEN_OPERAND),),
    arity=exactly(2),
    attributes=ChannelAttributes,
    infer=_infer_send,
    canonicalize_shape=_canonicalize_send_shape,
    effect=Effect.SIDE_EFFECT,
    in_place_pairs=((0, (0,)),),
    async_role=AsyncRole.START,
)


def _require_transfer(name: str, operand: Shape) -> None:
    """Requires the shape of a transfer in progress: (buffer, u32[], token[])."""
    parts = operand.tuple_shapes
    if len(parts) != 3 or not parts[1].compatible(_CONTEXT) or not parts[2].is_token:
        raise ShapeError(
            codes.TRANSFER_SHAPE,
            f"{name}: a transfer in progress has shape (buffer, u32[], token[]), given {operand.to_text(layout=False)}",
        )


def _infer_send_done(operands: Sequence[Shape], _: ChannelAttributes, __: ProgramShapes) -> Shape:
    _require_transfer("send-done", operands[0])
    return _TOKEN


SEND_DONE = OpDef(
    name="send-done",
    family="transfer",
    summary="Waits until the value is sent, and returns a token.",
    result="`token[]`.",
    operands="context",
    constraints=(constraint("The operand has the shape (buffer, u32[], token[]).", codes.TRANSFER_SHAPE),),
    arity=exactly(1),
    attributes=ChannelAttributes,
    infer=_infer_send_done,
    canonicalize_shape=_canonicalize_outfeed_shape,
    effect=Effect.SIDE_EFFECT,
    async_role=AsyncRole.DONE,
)


def _check_recv(shape: Shape, operands: Sequence[Shape], _: ChannelAttributes, __: ProgramShapes) -> None:
    require_token("recv", operands, 0)
    _require_transfer("recv", shape)


def _canonicalize_recv_shape(declared: Shape, _: Sequence[Shape]) -> Shape:
    """Keeps the declared shape of the buffer and adds the context and the token."""
    return Shape.tuple((declared.tuple_shapes[0], _CONTEXT, _TOKEN)) if declared.tuple_shapes else declared


RECV = OpDef(
    name="recv",
    family="transfer",
    summary="Starts to receive a value from the `send` of the same channel, or from the host.",
    result="`(buffer, u32[], token[])`. The shape of the buffer is declared.",
    operands="token",
    constraints=(
        constraint("The operand is a token.", shared.TOKEN_OPERAND),
        constraint("The shape is (buffer, u32[], token[]).", codes.TRANSFER_SHAPE),
    ),
    arity=exactly(1),
    attributes=ChannelAttributes,
    check=_check_recv,
    canonicalize_shape=_canonicalize_recv_shape,
    effect=Effect.SIDE_EFFECT,
    async_role=AsyncRole.START,
)


def _infer_recv_done(operands: Sequence[Shape], _: ChannelAttributes, __: ProgramShapes) -> Shape:
    _require_transfer("recv-done", operands[0])
    return Shape.tuple((operands[0].tuple_shapes[0], _TOKEN))


def _canonicalize_recv_done_shape(declared: Shape, operands: Sequence[Shape]) -> Shape:
    return Shape.tuple((operands[0].tuple_shapes[0], _TOKEN)) if operands[0].tuple_shapes else declared


RECV_DONE = OpDef(
    name="recv-done",
    family="transfer",
    summary="Waits until the value is received, and returns it with a token.",
    result="`(buffer, token[])`, with the buffer of the operand.",
    operands="context",
    constraints=(constraint("The operand has the shape (buffer, u32[], token[]).", codes.TRANSFER_SHAPE),),
    arity=exactly(1),
    attributes=ChannelAttributes,
    infer=_infer_recv_done,
    canonicalize_shape=_canonicalize_recv_done_shape,
    effect=Effect.SIDE_EFFECT,
    async_role=AsyncRole.DONE,
)


# -- copy-start, copy-done


@attributes
class CopyStartAttributes(Attributes):
    """`cross_program_prefetch_index` numbers the copies that may start before the program."""

    cross_program_prefetch_index: int | None = attribute(INTEGER, default=None)


def _infer_copy_start(operands: Sequence[Shape], _: CopyStartAttributes, __: ProgramShapes) -> Shape:
    """Returns (destination, source, context); the layouts of destination and source may differ."""
    return Shape.tuple((operands[0], operands[0], _CONTEXT))


COPY_START = OpDef(
    name="copy-start",
    family="transfer",
    summary="Starts a copy; the result is (destination, source, context).",
    result="`(destination, source, u32[])`. Destination and source have the shape of the operand.",
    operands="operand",
    arity=exactly(1),
    attributes=CopyStartAttributes,
    infer=_infer_copy_start,
    effect=Effect.ORDERED,
    in_place_pairs=((0, (1,)),),
    async_role=AsyncRole.START,
)


def _infer_copy_done(operands: Sequence[Shape], _: Any, __: ProgramShapes) -> Shape:
    (operand,) = operands
    if len(operand.tuple_shapes) != 3:
        raise ShapeError(
            codes.COPY_SHAPE, f"copy-done takes (destination, source, u32[]), given {operand.to_text(layout=False)}"
        )
    destination, source, context = operand.tuple_shapes
    require_shape("copy-done: the context", context, _CONTEXT)
    if not compatible_ignoring_dynamic(destination, source):
        raise ShapeError(
            codes.COPY_SHAPE,
            f"copy-done: destination {destination.to_text(layout=False)} "
            f"and source {source.to_text(layout=False)} must have the same shape",
        )
    return destination


COPY_DONE = OpDef(
    name="copy-done",
    family="transfer",
    summary="Waits for a copy and returns its destination.",
    result="The first element of the operand's tuple, the destination.",
    operands="context",
    constraints=(
        constraint("The operand has the shape (destination, source, u32[]).", shared.RESULT_SHAPE, codes.COPY_SHAPE),
        constraint("Destination and source have the same shape.", codes.COPY_SHAPE),
    ),
    arity=exactly(1),
    infer=_infer_copy_done,
    effect=Effect.ORDERED,
    async_role=AsyncRole.DONE,
)
