"""Shape rules of infeed, outfeed, send, recv and asynchronous copies."""

from __future__ import annotations

import pytest

from tests.opcodes.rules import accepts, inferred, read, refused, rewritten, shapes, written
from tests.raising import Wanted
from xlapy import opcodes
from xlapy.base.error_codes.operations import collectives as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.shape import Shape
from xlapy.opcodes.registry import Effect


def test_infeed() -> None:
    assert accepts(opcodes.INFEED, "(f32[2], token[])", "token[]")
    assert accepts(opcodes.INFEED, "((f32[2], s32[]), token[])", "token[]", infeed_config="x")
    assert accepts(opcodes.INFEED, "((), token[])", "token[]")


@pytest.mark.parametrize(
    ("shape", "operand", "wanted"),
    [
        ("(f32[2], token[])", "f32[]", (shared.TOKEN_OPERAND, "operand 0", "f32[]")),
        ("f32[2]", "token[]", (codes.INFEED_SHAPE, "token[]", "f32[2]")),
        ("(f32[2], f32[2])", "token[]", (codes.INFEED_SHAPE, "token[]", "(f32[2], f32[2])")),
        (
            "(((f32[2])), token[])",
            "token[]",
            (codes.INFEED_SHAPE, "((f32[2]))"),
        ),
    ],
)
def test_infeed_refuses(shape: str, operand: str, wanted: Wanted) -> None:
    refused(wanted, opcodes.INFEED, shape, operand)


def test_outfeed() -> None:
    data = Shape.parse("f32[2]")
    assert inferred(opcodes.OUTFEED, "f32[2]", "token[]") == "token[]"
    assert inferred(opcodes.OUTFEED, "f32[2]", "token[]", outfeed_shape=data) == "token[]"
    refused((shared.TOKEN_OPERAND, "operand 1", "f32[2]"), opcodes.OUTFEED, None, "f32[2]", "f32[2]")
    refused(
        (codes.OUTFEED_SHAPE, "outfeed_shape", "f32[2]", "operand 0", "f32[3]"),
        opcodes.OUTFEED,
        None,
        "f32[3]",
        "token[]",
        outfeed_shape=data,
    )


def test_outfeed_shape_is_filled_in_and_written() -> None:
    assert opcodes.OUTFEED.canonicalize_attributes is not None
    make = opcodes.OUTFEED.attributes.make
    filled = opcodes.OUTFEED.canonicalize_attributes(
        make(outfeed_config="c"), shapes(["f32[2]", "token[]"]), Shape.token()
    )
    assert filled == make(outfeed_shape=Shape.parse("f32[2]"), outfeed_config="c")
    assert written(opcodes.OUTFEED, filled) == ["outfeed_shape", "outfeed_config"]
    given = make(outfeed_shape=Shape.parse("f32[2,3]{0,1}"))
    assert opcodes.OUTFEED.canonicalize_attributes(given, shapes(["f32[2,3]", "token[]"]), Shape.token()) is given
    assert rewritten(opcodes.OUTFEED, "outfeed_config", r'"a\"b\n"') == r'"a\"b\n"'
    assert read(opcodes.OUTFEED, "outfeed_config", r'"a\"b\n"') == 'a"b\n'


def test_send_and_recv() -> None:
    under_way = "(f32[2], u32[], token[])"
    assert inferred(opcodes.SEND, "f32[2]", "token[]", channel_id=1) == under_way
    assert inferred(opcodes.SEND_DONE, under_way) == "token[]"
    assert accepts(opcodes.RECV, under_way, "token[]", channel_id=1, is_host_transfer=True)
    assert inferred(opcodes.RECV_DONE, under_way) == "(f32[2], token[])"
    make = opcodes.SEND.attributes.make
    assert written(opcodes.SEND, make()) == []
    assert written(opcodes.SEND, make(channel_id=0, is_host_transfer=True)) == ["channel_id", "is_host_transfer"]
    for op in (opcodes.SEND, opcodes.SEND_DONE, opcodes.RECV, opcodes.RECV_DONE, opcodes.INFEED, opcodes.OUTFEED):
        assert op.effect is Effect.SIDE_EFFECT


def test_send_and_recv_refuse() -> None:
    transfer = "a transfer in progress has shape (buffer, u32[], token[]), given"
    refused((shared.TOKEN_OPERAND, "operand 1", "f32[2]"), opcodes.SEND, None, "f32[2]", "f32[2]")
    refused(
        (shared.RESULT_SHAPE, "(f32[2], token[])", "(f32[2], u32[], token[])", "(f32[3], u32[], token[])"),
        opcodes.SEND,
        "(f32[3], u32[], token[])",
        "f32[2]",
        "token[]",
    )
    refused((codes.TRANSFER_SHAPE, f"{transfer}", "f32[2]"), opcodes.SEND_DONE, None, "f32[2]")
    refused(
        (codes.TRANSFER_SHAPE, f"{transfer}", "(f32[2], s32[], token[])"),
        opcodes.RECV,
        "(f32[2], s32[], token[])",
        "token[]",
    )
    refused((shared.TOKEN_OPERAND, "operand 0", "u32[]"), opcodes.RECV, "(f32[2], u32[], token[])", "u32[]")
    refused((codes.TRANSFER_SHAPE, f"{transfer}", "(f32[2], token[])"), opcodes.RECV_DONE, None, "(f32[2], token[])")


def test_asynchronous_copies() -> None:
    assert inferred(opcodes.COPY_START, "f32[2]", cross_program_prefetch_index=0) == "(f32[2], f32[2], u32[])"
    assert accepts(opcodes.COPY_START, "(f32[2,2]{0,1:S(5)}, f32[2,2], u32[])", "f32[2,2]")
    assert inferred(opcodes.COPY_DONE, "(f32[2], f32[2], u32[])") == "f32[2]"
    assert written(opcodes.COPY_START, opcodes.COPY_START.attributes.make(cross_program_prefetch_index=0)) == [
        "cross_program_prefetch_index"
    ]
    refused((codes.COPY_SHAPE, "u32[]", "f32[2]"), opcodes.COPY_DONE, None, "f32[2]")
    refused((codes.COPY_SHAPE, "f32[2]", "f32[3]"), opcodes.COPY_DONE, None, "(f32[2], f32[3], u32[])")
    refused((shared.RESULT_SHAPE, "u32[]", "s32[]"), opcodes.COPY_DONE, None, "(f32[2], f32[2], s32[])")
