"""The builder functions of transfers: appended instructions, their order, errors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests import xla_reference
from tests.builder.programs import instruction_texts, opcode_names, parameters
from tests.raising import Wanted, raises
from xlapy import ops
from xlapy.base import Shape, ShapeError
from xlapy.base.error_codes.building import builder as codes
from xlapy.base.error_codes.operations import collectives as collectives_codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import BuilderError
from xlapy.builder import XlaBuilder, XlaOp
from xlapy.builder.core.channels import ChannelHandle, ChannelType

VECTOR = Shape.parse("f32[3]")
BARE = VECTOR.without_layout()
TO_HOST = ChannelHandle(4, ChannelType.DEVICE_TO_HOST)
FROM_HOST = ChannelHandle(5, ChannelType.HOST_TO_DEVICE)
AMONG_DEVICES = ChannelHandle(6, ChannelType.DEVICE_TO_DEVICE)


class TestInfeed:
    def test_array(self) -> None:
        result = ops.infeed(XlaBuilder("test"), VECTOR, "config")
        assert instruction_texts(result) == [
            "after-all = token[] after-all()",
            'infeed = (f32[3], token[]) infeed(after-all), infeed_config="config"',
            "get-tuple-element = f32[3] get-tuple-element(infeed), index=0",
        ]

    def test_calls_are_ordered(self) -> None:
        builder = XlaBuilder("test")
        first = ops.infeed(builder, VECTOR)
        second = ops.infeed(builder, Shape.parse("(s32[], f32[2])"))
        assert second.shape.to_text(layout=False) == "(s32[], f32[2])"
        assert instruction_texts(ops.tuple(builder, [first, second])) == [
            "after-all = token[] after-all()",
            "infeed = (f32[3], token[]) infeed(after-all)",
            "get-tuple-element = f32[3] get-tuple-element(infeed), index=0",
            "get-tuple-element.1 = token[] get-tuple-element(infeed), index=1",
            "infeed.1 = ((s32[], f32[2]), token[]) infeed(get-tuple-element.1)",
            "get-tuple-element.2 = (s32[], f32[2]) get-tuple-element(infeed.1), index=0",
            "tuple = (f32[3], (s32[], f32[2])) tuple(get-tuple-element, get-tuple-element.2)",
        ]

    def test_with_token(self) -> None:
        (token,) = parameters("token[]")
        result = ops.infeed_with_token(token, Shape.parse("f32[2,3]{0,1}"), "c")
        assert result.shape == Shape.parse("(f32[2,3]{0,1}, token[])")
        assert instruction_texts(result) == ['infeed = (f32[2,3], token[]) infeed(p0), infeed_config="c"']

    def test_refused(self) -> None:
        (x,) = parameters("f32[3]")
        with raises(ShapeError, shared.TOKEN_OPERAND, "operand 0", "f32[3]"):
            ops.infeed_with_token(x, VECTOR)
        with raises(ShapeError, codes.HOST_LAYOUT, "f32[3]"):
            ops.infeed(x.builder, BARE)
        with raises(ShapeError, collectives_codes.INFEED_SHAPE, "((f32[2]))"):
            ops.infeed(x.builder, Shape.parse("((f32[2]))"))
        assert opcode_names(x) == []  # the tokens of failed calls are removed


class TestOutfeed:
    def test_calls_are_ordered(self) -> None:
        (x,) = parameters("f32[2,3]")
        ops.outfeed(x, Shape.parse("f32[2,3]{0,1}"), "config")
        result = ops.outfeed(x, x.shape)
        assert result.shape == Shape.tuple()
        ordered = [text for text in instruction_texts(result) if "tuple()" not in text]
        assert ordered == [
            "after-all = token[] after-all()",
            'outfeed = token[] outfeed(p0, after-all), outfeed_shape=f32[2,3]{0,1}, outfeed_config="config"',
            "outfeed.1 = token[] outfeed(p0, outfeed), outfeed_shape=f32[2,3]{1,0}",
        ]

    def test_with_token(self) -> None:
        x, token = parameters("(f32[3], s32[])", "token[]")
        result = ops.outfeed_with_token(x, token, x.shape, "c")
        assert result.shape.is_token
        assert instruction_texts(result) == [
            'outfeed = token[] outfeed(p0, p1), outfeed_shape=(f32[3]{0}, s32[]), outfeed_config="c"'
        ]

    def test_refused(self) -> None:
        (x,) = parameters("f32[3]")
        with raises(ShapeError, collectives_codes.OUTFEED_SHAPE, "outfeed_shape", "f32[2]", "operand 0", "f32[3]"):
            ops.outfeed(x, Shape.parse("f32[2]"))
        with raises(ShapeError, codes.HOST_LAYOUT, "shape_with_layout", "f32[3]"):
            ops.outfeed(x, BARE)
        with raises(ShapeError, shared.TOKEN_OPERAND, "operand 1", "f32[3]"):
            ops.outfeed_with_token(x, x, x.shape)
        assert opcode_names(x) == []


class TestSendAndRecv:
    def test_send(self) -> None:
        (x,) = parameters("f32[3]")
        result = ops.send(x, 2)
        assert result.shape.is_token
        assert instruction_texts(result) == [
            "after-all = token[] after-all()",
            "send = (f32[3], u32[], token[]) send(p0, after-all), channel_id=2",
            "send-done = token[] send-done(send), channel_id=2",
        ]

    def test_send_with_token(self) -> None:
        x, token = parameters("f32[3]", "token[]")
        assert instruction_texts(ops.send_with_token(x, token, AMONG_DEVICES)) == [
            "send = (f32[3], u32[], token[]) send(p0, p1), channel_id=6",
            "send-done = token[] send-done(send), channel_id=6",
        ]

    def test_recv(self) -> None:
        assert instruction_texts(ops.recv(XlaBuilder("test"), VECTOR, AMONG_DEVICES)) == [
            "after-all = token[] after-all()",
            "recv = (f32[3], u32[], token[]) recv(after-all), channel_id=6",
            "recv-done = (f32[3], token[]) recv-done(recv), channel_id=6",
            "get-tuple-element = f32[3] get-tuple-element(recv-done), index=0",
        ]

    def test_recv_with_token(self) -> None:
        (token,) = parameters("token[]")
        result = ops.recv_with_token(token, VECTOR, 1)
        assert result.shape.to_text(layout=False) == "(f32[3], token[])"
        assert opcode_names(result) == ["recv", "recv-done"]

    def test_host(self) -> None:
        x, token = parameters("f32[2,3]", "token[]")
        column_major = Shape.parse("f32[2,3]{0,1}")
        sent = ops.send_to_host(x, token, column_major, TO_HOST)
        assert sent.instruction.operands[0].shape == Shape.parse("(f32[2,3]{0,1}, u32[], token[])")
        received = ops.recv_from_host(sent, column_major, FROM_HOST)
        assert received.shape == Shape.parse("(f32[2,3]{0,1}, token[])")
        assert instruction_texts(received) == [
            "send = (f32[2,3], u32[], token[]) send(p0, p1), channel_id=4, is_host_transfer=true",
            "send-done = token[] send-done(send), channel_id=4, is_host_transfer=true",
            "recv = (f32[2,3], u32[], token[]) recv(send-done), channel_id=5, is_host_transfer=true",
            "recv-done = (f32[2,3], token[]) recv-done(recv), channel_id=5, is_host_transfer=true",
        ]

    @pytest.mark.parametrize(
        ("call", "wanted"),
        [
            (lambda x, k: ops.send(x, TO_HOST), (codes.CHANNEL_HANDLE, "channel 4")),
            (lambda x, k: ops.send_with_token(x, k, 0), (codes.CHANNEL_HANDLE, "0")),
            (lambda x, k: ops.send_with_token(x, x, 1), (shared.TOKEN_OPERAND, "operand 1", "f32[3]")),
            (
                lambda x, k: ops.recv(x.builder, VECTOR, FROM_HOST),
                (codes.CHANNEL_HANDLE, "channel 5"),
            ),
            (lambda x, k: ops.recv_with_token(x, VECTOR, 1), (shared.TOKEN_OPERAND, "operand 0", "f32[3]")),
            (
                lambda x, k: ops.send_to_host(x, k, VECTOR, FROM_HOST),
                (codes.CHANNEL_HANDLE, "channel 5"),
            ),
            (lambda x, k: ops.send_to_host(x, k, BARE, 1), (codes.HOST_LAYOUT, "shape_with_layout", "f32[3]")),
            (lambda x, k: ops.send_to_host(k, k, VECTOR, 1), (shared.ARRAY_OPERAND, "operand 0", "token[]")),
            (
                lambda x, k: ops.send_to_host(x, k, Shape.parse("f32[2]"), 1),
                (collectives_codes.OUTFEED_SHAPE, "shape_with_layout", "f32[2]", "f32[3]"),
            ),
            (lambda x, k: ops.recv_from_host(k, BARE, 1), (codes.HOST_LAYOUT, "f32[3]")),
            (lambda x, k: ops.recv_from_host(k, Shape.tuple(), 1), (shared.ARRAY_OPERAND, "operand 0")),
            (lambda x, k: ops.recv_from_host(k, VECTOR, AMONG_DEVICES), (codes.CHANNEL_HANDLE,)),
        ],
    )
    def test_refused(self, call: Callable[[XlaOp, XlaOp], XlaOp], wanted: Wanted) -> None:
        x, token = parameters("f32[3]", "token[]")
        with raises(BuilderError, *wanted):
            call(x, token)
        assert opcode_names(x) == []


def test_jaxlib_reads_built_programs() -> None:
    (x,) = parameters("f32[3]")
    builder = x.builder
    ops.outfeed(x, x.shape)
    values = [ops.infeed(builder, VECTOR), ops.infeed(builder, Shape.parse("(f32[2])")), ops.recv(builder, VECTOR, 1)]
    token = ops.send_to_host(x, ops.send(x, 1), x.shape, 2)
    text = builder.build(ops.tuple(builder, [*values, token])).as_hlo_text(print_metadata=False)
    assert xla_reference.parse_and_print(text) == text
