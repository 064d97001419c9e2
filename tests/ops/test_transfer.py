"""Shape rules of infeed, outfeed, send, recv and asynchronous copies."""

from __future__ import annotations

import pytest

from tests.ops.rules import accepts, inferred, read, refusal, rewritten, shapes, written
from xlapy import ops
from xlapy.base.shape import Shape
from xlapy.ops.registry import Effect


def test_infeed() -> None:
    assert accepts(ops.INFEED, "(f32[2], token[])", "token[]")
    assert accepts(ops.INFEED, "((f32[2], s32[]), token[])", "token[]", infeed_config="x")
    assert accepts(ops.INFEED, "((), token[])", "token[]")


@pytest.mark.parametrize(
    ("shape", "operand", "message"),
    [
        ("(f32[2], token[])", "f32[]", "infeed takes a token as operand 0, given f32[]"),
        ("f32[2]", "token[]", "infeed has shape (data, token[]), declared f32[2]"),
        ("(f32[2], f32[2])", "token[]", "infeed has shape (data, token[]), declared (f32[2], f32[2])"),
        (
            "(((f32[2])), token[])",
            "token[]",
            "infeed takes in an array or a tuple of arrays without further nesting, declared ((f32[2]))",
        ),
    ],
)
def test_infeed_refuses(shape: str, operand: str, message: str) -> None:
    assert refusal(ops.INFEED, shape, operand) == message


def test_outfeed() -> None:
    data = Shape.parse("f32[2]")
    assert inferred(ops.OUTFEED, "f32[2]", "token[]") == "token[]"
    assert inferred(ops.OUTFEED, "f32[2]", "token[]", outfeed_shape=data) == "token[]"
    assert refusal(ops.OUTFEED, None, "f32[2]", "f32[2]") == "outfeed takes a token as operand 1, given f32[2]"
    assert refusal(ops.OUTFEED, None, "f32[3]", "token[]", outfeed_shape=data) == (
        "outfeed: outfeed_shape is f32[2], operand 0 is f32[3]"
    )


def test_outfeed_shape_is_filled_in_and_written() -> None:
    assert ops.OUTFEED.normalize is not None
    make = ops.OUTFEED.attributes.make
    filled = ops.OUTFEED.normalize(make(outfeed_config="c"), shapes(["f32[2]", "token[]"]), Shape.token())
    assert filled == make(outfeed_shape=Shape.parse("f32[2]"), outfeed_config="c")
    assert written(ops.OUTFEED, filled) == ["outfeed_shape", "outfeed_config"]
    given = make(outfeed_shape=Shape.parse("f32[2,3]{0,1}"))
    assert ops.OUTFEED.normalize(given, shapes(["f32[2,3]", "token[]"]), Shape.token()) is given
    assert rewritten(ops.OUTFEED, "outfeed_config", r'"a\"b\n"') == r'"a\"b\n"'
    assert read(ops.OUTFEED, "outfeed_config", r'"a\"b\n"') == 'a"b\n'


def test_send_and_recv() -> None:
    under_way = "(f32[2], u32[], token[])"
    assert inferred(ops.SEND, "f32[2]", "token[]", channel_id=1) == under_way
    assert inferred(ops.SEND_DONE, under_way) == "token[]"
    assert accepts(ops.RECV, under_way, "token[]", channel_id=1, is_host_transfer=True)
    assert inferred(ops.RECV_DONE, under_way) == "(f32[2], token[])"
    make = ops.SEND.attributes.make
    assert written(ops.SEND, make()) == []
    assert written(ops.SEND, make(channel_id=0, is_host_transfer=True)) == ["channel_id", "is_host_transfer"]
    for op in (ops.SEND, ops.SEND_DONE, ops.RECV, ops.RECV_DONE, ops.INFEED, ops.OUTFEED):
        assert op.effect is Effect.SIDE_EFFECT


def test_send_and_recv_refuse() -> None:
    transfer = "a transfer under way has shape (buffer, u32[], token[]), given"
    assert refusal(ops.SEND, None, "f32[2]", "f32[2]") == "send takes a token as operand 1, given f32[2]"
    assert refusal(ops.SEND, "(f32[3], u32[], token[])", "f32[2]", "token[]").startswith(
        "send of (f32[2], token[]) has shape (f32[2], u32[], token[]), declared (f32[3], u32[], token[])"
    )
    assert refusal(ops.SEND_DONE, None, "f32[2]") == f"send-done: {transfer} f32[2]"
    assert refusal(ops.RECV, "(f32[2], s32[], token[])", "token[]") == f"recv: {transfer} (f32[2], s32[], token[])"
    assert refusal(ops.RECV, "(f32[2], u32[], token[])", "u32[]") == "recv takes a token as operand 0, given u32[]"
    assert refusal(ops.RECV_DONE, None, "(f32[2], token[])") == f"recv-done: {transfer} (f32[2], token[])"


def test_asynchronous_copies() -> None:
    assert inferred(ops.COPY_START, "f32[2]", cross_program_prefetch_index=0) == "(f32[2], f32[2], u32[])"
    assert accepts(ops.COPY_START, "(f32[2,2]{0,1:S(5)}, f32[2,2], u32[])", "f32[2,2]")
    assert inferred(ops.COPY_DONE, "(f32[2], f32[2], u32[])") == "f32[2]"
    assert written(ops.COPY_START, ops.COPY_START.attributes.make(cross_program_prefetch_index=0)) == [
        "cross_program_prefetch_index"
    ]
    assert refusal(ops.COPY_DONE, None, "f32[2]") == "copy-done takes (destination, source, u32[]), given f32[2]"
    assert refusal(ops.COPY_DONE, None, "(f32[2], f32[3], u32[])") == (
        "copy-done: destination f32[2] and source f32[3] must have one shape"
    )
    assert refusal(ops.COPY_DONE, None, "(f32[2], f32[2], s32[])") == (
        "copy-done: the context has shape u32[], declared s32[]"
    )
