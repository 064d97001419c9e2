"""Worked examples and refusals of operations that move data between the host, devices and memory spaces."""

from __future__ import annotations

from xlapy.base.error_codes.operations import collectives as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.testing.examples.example import Example, Refusal

_HOST = "jaxlib's client has no infeed, outfeed or channels"
_DEVICES = "jaxlib refuses send and recv between devices"
_ASYNC = "XLA:CPU does not run asynchronous copies"

_SEND = """
        x = f32[2] {1, 2} | {3, 4}
        k = token[] after-all()
        s = (f32[2], u32[], token[]) send(x, k), channel_id=1, \
frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,0}}}
        r = (f32[2], u32[], token[]) recv(k), channel_id=1, \
frontend_attributes={_xla_send_recv_source_target_pairs={{0,1},{1,0}}}
        sent = token[] send-done(s), channel_id=1
        received = (f32[2], token[]) recv-done(r), channel_id=1
        y = f32[2] get-tuple-element(received), index=0
        => f32[2] {3, 4} | {1, 2}
        """

_COPY = """
        x = f32[2] {1, 2}
        c = (f32[2], f32[2], u32[]) copy-start(x)
        y = f32[2] copy-done(c)
        => f32[2] {1, 2}
        """

EXAMPLES = [
    Example(
        "infeed",
        """
        infeed <- f32[2] {1, 2}
        k = token[] after-all()
        i = (f32[2], token[]) infeed(k)
        x = f32[2] get-tuple-element(i), index=0
        => f32[2] {1, 2}
        """,
        xla_cpu=_HOST,
    ),
    Example(
        "outfeed",
        """
        x = f32[2] {1, 2}
        k = token[] after-all()
        o = token[] outfeed(x, k), outfeed_shape=f32[2]
        outfeed -> f32[2] {1, 2}
        """,
        xla_cpu=_HOST,
    ),
    *(Example(op, _SEND, partitions=2, xla_cpu=_DEVICES) for op in ("send", "send-done", "recv", "recv-done")),
    *(Example(op, _COPY, xla_cpu=_ASYNC) for op in ("copy-start", "copy-done")),
]

REFUSALS = [
    Refusal("infeed", 1, "(f32[2], token[]) infeed(f32[2])", (shared.TOKEN_OPERAND, "operand 0", "f32[2]")),
    Refusal("infeed", 2, "f32[2] infeed(token[])", (codes.INFEED_SHAPE, "token[]", "f32[2]")),
    Refusal("infeed", 3, "((f32[2], (f32[2])), token[]) infeed(token[])", (codes.INFEED_SHAPE, "(f32[2], (f32[2]))")),
    Refusal("outfeed", 1, "token[] outfeed(f32[2], f32[2]), outfeed_shape=f32[2]", (shared.TOKEN_OPERAND, "operand 1")),
    Refusal(
        "outfeed",
        2,
        "token[] outfeed(f32[2], token[]), outfeed_shape=f32[3]",
        (codes.OUTFEED_SHAPE, "outfeed_shape", "f32[3]", "operand 0"),
    ),
    Refusal(
        "send", 1, "(f32[2], u32[], token[]) send(f32[2], f32[2]), channel_id=1", (shared.TOKEN_OPERAND, "operand 1")
    ),
    Refusal(
        "send-done", 1, "token[] send-done((f32[2], token[])), channel_id=1", (codes.TRANSFER_SHAPE, "u32[]", "token[]")
    ),
    Refusal("recv", 1, "(f32[2], u32[], token[]) recv(f32[2]), channel_id=1", (shared.TOKEN_OPERAND, "operand 0")),
    Refusal("recv", 2, "f32[2] recv(token[]), channel_id=1", (codes.TRANSFER_SHAPE, "u32[]", "token[]")),
    Refusal(
        "recv-done", 1, "(f32[2], token[]) recv-done(f32[2]), channel_id=1", (codes.TRANSFER_SHAPE, "u32[]", "token[]")
    ),
    Refusal("copy-done", 1, "f32[2] copy-done(f32[2])", (codes.COPY_SHAPE, "u32[]", "f32[2]")),
    Refusal("copy-done", 1, "f32[2] copy-done((f32[2], f32[2], f32[]))", (shared.RESULT_SHAPE, "u32[]", "f32[]")),
    Refusal("copy-done", 2, "f32[2] copy-done((f32[2], f32[3], u32[]))", (codes.COPY_SHAPE, "f32[2]", "f32[3]")),
]
