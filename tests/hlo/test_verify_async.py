"""Verification of asynchronous chains: every start has one done of its kind, and chains and channels match their
start."""

from __future__ import annotations

import pytest

from tests.raising import Wanted, raises
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.structure import asynchronous as codes
from xlapy.base.errors import VerificationError
from xlapy.debugging.fuzzing.survival import time_limit
from xlapy.hlo.verify import verify
from xlapy.text import parse_hlo, print_module

COMPUTATIONS = """HloModule m
add { left = f32[] parameter(0) right = f32[] parameter(1) ROOT total = f32[] add(left, right) }
negate { x = f32[4] parameter(0) ROOT y = f32[4] negate(x) }
sum { a1 = f32[4] parameter(0) a2 = f32[4] parameter(1) ROOT a3 = f32[4] add(a1, a2) }
twice { b1 = f32[4] parameter(0) b2 = f32[4] negate(b1) ROOT b3 = f32[4] negate(b2) }
both { c1 = f32[4] parameter(0) c2 = f32[4] parameter(1) ROOT c3 = (f32[4], f32[4]) tuple(c1, c2) }
ENTRY main {
  p = f32[4] parameter(0)
  k = token[] after-all()
"""

START = "s = ((f32[4]), f32[4], u32[]) async-start(p), calls="
SUM = "s = ((f32[4]), (), u32[]) async-start(p), calls="


def refuse(lines: str, code: ErrorCode, *values: str) -> None:
    module = parse_hlo(f"{COMPUTATIONS}  {lines}\n}}", verify=False)
    with raises(VerificationError, code, *values):
        verify(module)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (f"ROOT {START}negate", (codes.ASYNC_READER, "s (async-start)", "0 readers")),
        (
            f"{START}negate\n d = f32[4] async-done(s)\n ROOT e = f32[4] async-done(s)",
            (codes.ASYNC_READER, "s (async-start)", "2 readers (d, e)"),
        ),
        (
            f"{START}negate\n t = (((f32[4]), f32[4], u32[])) tuple(s)\n ROOT r = f32[4] negate(p)",
            (codes.ASYNC_READER, "s (async-start)", "t (tuple)"),
        ),
        (
            f"{START}negate\n u = ((f32[4]), f32[4], u32[]) async-update(s)\n ROOT r = f32[4] negate(p)",
            (codes.ASYNC_READER, "u (async-update)"),
        ),
        (
            "c = (f32[4], f32[4], u32[]) copy-start(p)\n d = f32[4] copy-done(c)\n ROOT e = f32[4] copy-done(c)",
            (codes.ASYNC_READER, "c (copy-start)", "2 readers (d, e)"),
        ),
        (
            "o = u32[] constant(1)\n t = (f32[4], f32[4], u32[]) tuple(p, p, o)\n ROOT d = f32[4] copy-done(t)",
            (codes.ASYNC_OPERAND, "d (copy-done)", "operand 0", "t (tuple)"),
        ),
        (
            "h = f32[4] all-reduce-start(p), to_apply=add\n ROOT n = f32[4] negate(h)",
            (codes.ASYNC_READER, "h (all-reduce-start)", "n (negate)"),
        ),
        (
            "g = (f32[4], f32[4]) all-gather-start(p), dimensions={0}\n"
            " d = f32[4] all-gather-done(g)\n ROOT e = f32[4] all-gather-done(g)",
            (codes.ASYNC_READER, "g (all-gather-start)", "2 readers (d, e)"),
        ),
        (
            "t = (f32[4], f32[4]) tuple(p, p)\n ROOT d = f32[4] collective-permute-done(t)",
            (codes.ASYNC_OPERAND, "d (collective-permute-done)", "operand 0", "t (tuple)"),
        ),
        ("ROOT s = send(p, k), channel_id=1", (codes.ASYNC_READER, "s (send)", "0 readers")),
        (
            "r = (f32[4], u32[], token[]) recv(k), channel_id=1\n ROOT b = f32[4] get-tuple-element(r), index=0",
            (codes.ASYNC_READER, "r (recv)", "b (get-tuple-element)"),
        ),
    ],
)
def test_pairs(lines: str, expected: Wanted) -> None:
    refuse(lines.replace("= send(", "= (f32[4], u32[], token[]) send("), *expected)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            f"{START}twice\n ROOT d = f32[4] async-done(s)",
            (codes.ASYNC_ONE_OPERATION, "s (async-start)", "b2 (negate)"),
        ),
        (
            f"{SUM}sum\n ROOT d = f32[4] async-done(s)".replace("()", "f32[4]"),
            (codes.ASYNC_SHAPE, "d (async-done)", "(f32[4], f32[4])", "(f32[4])"),
        ),
        (
            f"{START}negate\n u = ((f32[4], f32[4]), f32[4], u32[]) async-update(s, p)\n ROOT d = f32[4] async-done(u)",
            (codes.ASYNC_SHAPE, "u (async-update)", "(f32[4], f32[4])", "(f32[4])"),
        ),
        (
            f"{SUM}both\n u = ((f32[4], f32[4]), (s8[1]), u32[]) async-update(s, p)\n ROOT d = (s8[1]) async-done(u)",
            (codes.ASYNC_SHAPE, "u (async-update)", "(s8[1])", "(f32[4], f32[4])"),
        ),
        (
            f"{SUM}both\n u = ((f32[4], f32[4]), (f32[4]), u32[]) async-update(s, p)\n ROOT d = (f32[4]) async-done(u)",
            (codes.ASYNC_SHAPE, "d (async-done)", "(f32[4])", "(f32[4], f32[4])"),
        ),
    ],
)
def test_chains(lines: str, expected: Wanted) -> None:
    refuse(lines, *expected)


def transfer(send: str, done: str) -> str:
    return f"s = (f32[4], u32[], token[]) send(p, k), {send}\n d = token[] send-done(s), {done}\n"


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (
            transfer("channel_id=1", "channel_id=2"),
            (codes.CHANNEL_PAIR, "d (send-done)", "channel_id=2", "channel_id=1"),
        ),
        (
            transfer("channel_id=1, is_host_transfer=true", "channel_id=1"),
            (codes.CHANNEL_PAIR, "d (send-done)", "is_host_transfer=False", "is_host_transfer=True"),
        ),
        (
            transfer("channel_id=1, is_host_transfer=true", "channel_id=1, is_host_transfer=true")
            + " t = (f32[4], u32[], token[]) send(p, d), channel_id=1, is_host_transfer=true, "
            'frontend_attributes={a="b"}\n e = token[] send-done(t), channel_id=1, is_host_transfer=true\n',
            (codes.HOST_CHANNEL, "t (send)", "channel 1"),
        ),
    ],
)
def test_channels(lines: str, expected: Wanted) -> None:
    refuse(f"{lines} ROOT n = f32[4] negate(p)", *expected)


def test_valid_examples() -> None:
    lines = (
        f'{START}twice, frontend_attributes={{_collectives_group="g"}}\n d = f32[4] async-done(s)\n'
        " ss = ((f32[4]), (), u32[]) async-start(d), calls=sum\n"
        " uu = ((f32[4], f32[4]), f32[4], u32[]) async-update(ss, p)\n dd = f32[4] async-done(uu)\n"
        " c = (f32[4], f32[4], u32[]) copy-start(dd)\n"
        ' note = () custom-call(c), custom_call_target="control_dep"\n e = f32[4] copy-done(c)\n'
        " v = (f32[4], u32[], token[]) send(e, k), channel_id=1\n"
        " w = ((f32[4], u32[], token[])) tuple(v)\n x = (f32[4], u32[], token[]) get-tuple-element(w), index=0\n"
        " y = token[] send-done(x), channel_id=1\n ROOT z = f32[4] negate(e)"
    )
    parse_hlo(f"{COMPUTATIONS}  {lines}\n}}")


def test_long_chains_take_no_time() -> None:
    """The verifier must not walk from every update back to the start: 20,000 updates would take minutes."""
    updates = "\n".join(f" s{i} = ((f32[4]), f32[4], u32[]) async-update(s{i - 1})" for i in range(1001, 21_000))
    lines = f"s1000 = ((f32[4]), f32[4], u32[]) async-start(p), calls=negate\n{updates}\n"
    with time_limit(60):
        module = parse_hlo(f"{COMPUTATIONS}  {lines} ROOT d = f32[4] async-done(s20999)\n}}", verify=False)
        verify(module)
        assert print_module(module).count("async-update") == 0  # the short form of async-update is negate-update


def test_a_chain_must_begin_with_a_start() -> None:
    lines = "t = ((f32[4]), f32[4], u32[]) parameter(1)\n ROOT d = f32[4] async-done(t)"
    refuse(lines, codes.ASYNC_OPERAND, "d (async-done)", "operand 0", "t (parameter)")
