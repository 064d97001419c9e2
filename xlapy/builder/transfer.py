"""Builder functions of transfers to and from the host and other devices.

Responsible for the builder functions of `opcodes/transfer.py`. Does not depend on the other end of a transfer.
Source: Infeed, Outfeed, Send, SendDone, Recv, RecvDone of the specification; the forms WithToken, SendToHost and
RecvFromHost of xla_builder.h.

Tokens order transfers: each transfer takes a token and returns one. The forms without a token create their own; infeeds
and outfeeds follow the previous one of their kind in the builder, in the order of the calls. Every function raises
`BuilderError` at the caller's line if the arguments do not fit.
"""

from __future__ import annotations

from xlapy.base.element_types import U32
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.operations import collectives as collectives_codes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.builder import tuples
from xlapy.builder.control import create_token
from xlapy.builder.core.builder import XlaBuilder, append, builder_of
from xlapy.builder.core.channels import Channel, ChannelType, transfer_number
from xlapy.builder.core.op import XlaOp
from xlapy.opcodes.requirements import compatible_ignoring_dynamic, require_arrays
from xlapy.opcodes.transfer import (
    INFEED,
    OUTFEED,
    RECV,
    RECV_DONE,
    SEND,
    SEND_DONE,
    ChannelAttributes,
    InfeedAttributes,
    OutfeedAttributes,
)


def _require_layout(what: str, shape: Shape) -> None:
    for _, leaf in shape.leaves():
        if leaf.is_array and leaf.layout is None:
            raise ShapeError(
                codes.HOST_LAYOUT,
                f"{what} {shape.to_text(layout=False)} needs a layout; with_default_layout() gives the row-major one",
            )


# -- infeed, outfeed


def infeed(builder: XlaBuilder, shape: Shape, config: str = "") -> XlaOp:
    """Receives the next value of the host's infeed: an array, or a tuple of arrays, of exactly `shape`, layout
    included.

    `config` is passed to the back end. Infeeds of one builder take place in the order of the calls.
    """
    with builder.building("infeed"):
        last = builder.last_of(INFEED)
        token = create_token(builder) if last is None else tuples.get_tuple_element(last, 1)
        return tuples.get_tuple_element(infeed_with_token(token, shape, config), 0)


def infeed_with_token(token: XlaOp, shape: Shape, config: str = "") -> XlaOp:
    """Returns the tuple of the next infeed value, of `shape`, and a token."""
    builder = builder_of("infeed", (token,))
    with builder.building("infeed"):
        _require_layout("shape", shape)
        result = Shape.tuple((shape, Shape.token()))
        return builder.append(INFEED, (token,), InfeedAttributes.make(infeed_config=config), shape=result)


def outfeed(operand: XlaOp, shape_with_layout: Shape, outfeed_config: str = "") -> XlaOp:
    """Sends an array or a tuple of arrays to the host's outfeed, in the layout of `shape_with_layout`.

    Outfeeds of one builder take place in the order of the calls. Returns the empty tuple, so that it can be the root of
    a computation.
    """
    builder = builder_of("outfeed", (operand,))
    with builder.building("outfeed"):
        last = builder.last_of(OUTFEED)
        token = create_token(builder) if last is None else last
        outfeed_with_token(operand, token, shape_with_layout, outfeed_config)
        return tuples.tuple(builder, ())


def outfeed_with_token(operand: XlaOp, token: XlaOp, shape_with_layout: Shape, outfeed_config: str = "") -> XlaOp:
    """Sends the operand to the host's outfeed, in the layout of `shape_with_layout`. Returns a token."""
    builder = builder_of("outfeed", (operand,))
    with builder.building("outfeed"):
        _require_layout("shape_with_layout", shape_with_layout)
        attributes = OutfeedAttributes.make(outfeed_shape=shape_with_layout, outfeed_config=outfeed_config)
        return builder.append(OUTFEED, (operand, token), attributes)


# -- send, recv


def _context(data: Shape) -> Shape:
    """Returns the shape of a transfer of `data` in progress."""
    return Shape.tuple((data, Shape.scalar(U32), Shape.token()))


def send(operand: XlaOp, handle: Channel) -> XlaOp:
    """Sends the operand to the `recv` of the same channel in another computation. Returns a token."""
    builder = builder_of("send", (operand,))
    with builder.building("send"):
        return send_with_token(operand, create_token(builder), handle)


def send_with_token(operand: XlaOp, token: XlaOp, handle: Channel) -> XlaOp:
    """Sends the operand on a device-to-device channel: a send and its send-done. Returns a token."""
    with builder_of("send", (operand,)).building("send"):
        number = transfer_number(handle, ChannelType.DEVICE_TO_DEVICE)
        attributes = ChannelAttributes.make(channel_id=number)
        return append(SEND_DONE, (append(SEND, (operand, token), attributes),), attributes)


def recv(builder: XlaBuilder, shape: Shape, handle: Channel) -> XlaOp:
    """Returns the value, of `shape`, that the `send` of the same channel in another computation sends."""
    with builder.building("recv"):
        return tuples.get_tuple_element(recv_with_token(create_token(builder), shape, handle), 0)


def recv_with_token(token: XlaOp, shape: Shape, handle: Channel) -> XlaOp:
    """Returns the tuple of the value, of `shape`, received on a device-to-device channel, and a token."""
    with builder_of("recv", (token,)).building("recv"):
        number = transfer_number(handle, ChannelType.DEVICE_TO_DEVICE)
        attributes = ChannelAttributes.make(channel_id=number)
        return append(RECV_DONE, (append(RECV, (token,), attributes, shape=_context(shape)),), attributes)


def send_to_host(operand: XlaOp, token: XlaOp, shape_with_layout: Shape, handle: Channel) -> XlaOp:
    """Sends an array to the host, in the layout of `shape_with_layout`. Returns a token."""
    with builder_of("send", (operand,)).building("send"):
        require_arrays("send", (operand.shape,))
        _require_layout("shape_with_layout", shape_with_layout)
        if not compatible_ignoring_dynamic(operand.shape, shape_with_layout):
            raise ShapeError(
                collectives_codes.OUTFEED_SHAPE,
                f"shape_with_layout is {shape_with_layout.to_text(layout=False)}, "
                f"the operand {operand.shape.to_text(layout=False)}",
            )
        number = transfer_number(handle, ChannelType.DEVICE_TO_HOST)
        attributes = ChannelAttributes.make(channel_id=number, is_host_transfer=True)
        sent = append(SEND, (operand, token), attributes, shape=_context(shape_with_layout))
        return append(SEND_DONE, (sent,), attributes)


def recv_from_host(token: XlaOp, shape: Shape, handle: Channel) -> XlaOp:
    """Returns the tuple of the array, of `shape` with its layout, that the host sends, and a token."""
    with builder_of("recv", (token,)).building("recv"):
        require_arrays("recv", (shape,))
        _require_layout("shape", shape)
        number = transfer_number(handle, ChannelType.HOST_TO_DEVICE)
        attributes = ChannelAttributes.make(channel_id=number, is_host_transfer=True)
        return append(RECV_DONE, (append(RECV, (token,), attributes, shape=_context(shape)),), attributes)
