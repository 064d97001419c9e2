"""Verification of asynchronous chains: every start has one done of its kind, and chains and channels match their
start."""

from __future__ import annotations

import pytest

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


def refusal(lines: str) -> str:
    module = parse_hlo(f"{COMPUTATIONS}  {lines}\n}}", verify=False)
    with pytest.raises(VerificationError) as caught:
        verify(module)
    return str(caught.value)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (f"ROOT {START}negate", "s (async-start): must be read exactly once, by async-update or async-done; it has 0"),
        (
            f"{START}negate\n d = f32[4] async-done(s)\n ROOT e = f32[4] async-done(s)",
            "s (async-start): must be read exactly once, by async-update or async-done; it has 2 readers (d, e)",
        ),
        (
            f"{START}negate\n t = (((f32[4]), f32[4], u32[])) tuple(s)\n ROOT r = f32[4] negate(p)",
            "s (async-start): must be read by async-update or async-done, but is read by t (tuple)",
        ),
        (
            f"{START}negate\n u = ((f32[4]), f32[4], u32[]) async-update(s)\n ROOT r = f32[4] negate(p)",
            "u (async-update): must be read exactly once",
        ),
        (
            "c = (f32[4], f32[4], u32[]) copy-start(p)\n d = f32[4] copy-done(c)\n ROOT e = f32[4] copy-done(c)",
            "c (copy-start): must be read exactly once, by copy-done; it has 2 readers (d, e)",
        ),
        (
            "o = u32[] constant(1)\n t = (f32[4], f32[4], u32[]) tuple(p, p, o)\n ROOT d = f32[4] copy-done(t)",
            "d (copy-done): operand 0 must be copy-start, but is t (tuple)",
        ),
        (
            "h = f32[4] all-reduce-start(p), to_apply=add\n ROOT n = f32[4] negate(h)",
            "h (all-reduce-start): must be read by all-reduce-done, but is read by n (negate)",
        ),
        (
            "g = (f32[4], f32[4]) all-gather-start(p), dimensions={0}\n"
            " d = f32[4] all-gather-done(g)\n ROOT e = f32[4] all-gather-done(g)",
            "g (all-gather-start): must be read exactly once, by all-gather-done; it has 2 readers (d, e)",
        ),
        (
            "t = (f32[4], f32[4]) tuple(p, p)\n ROOT d = f32[4] collective-permute-done(t)",
            "d (collective-permute-done): operand 0 must be collective-permute-start, but is t (tuple)",
        ),
        ("ROOT s = send(p, k), channel_id=1", "s (send): must be read exactly once, by send-done or tuple; it has 0"),
        (
            "r = (f32[4], u32[], token[]) recv(k), channel_id=1\n ROOT b = f32[4] get-tuple-element(r), index=0",
            "r (recv): must be read by recv-done or tuple, but is read by b (get-tuple-element)",
        ),
    ],
)
def test_pairs(lines: str, message: str) -> None:
    assert message in refusal(lines.replace("= send(", "= (f32[4], u32[], token[]) send("))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            f"{START}twice\n ROOT d = f32[4] async-done(s)",
            "s (async-start): starts one operation, twice also holds b2 (negate)",
        ),
        (
            f"{SUM}sum\n ROOT d = f32[4] async-done(s)".replace("()", "f32[4]"),
            "d (async-done): sum takes (f32[4], f32[4]), only (f32[4]) is bound when it is done",
        ),
        (
            f"{START}negate\n u = ((f32[4], f32[4]), f32[4], u32[]) async-update(s, p)\n ROOT d = f32[4] async-done(u)",
            "u (async-update): declares the operands (f32[4], f32[4]), negate has (f32[4])",
        ),
        (
            f"{SUM}both\n u = ((f32[4], f32[4]), (s8[1]), u32[]) async-update(s, p)\n ROOT d = (s8[1]) async-done(u)",
            "u (async-update): declares the result (s8[1]), both has (f32[4], f32[4])",
        ),
        (
            f"{SUM}both\n u = ((f32[4], f32[4]), (f32[4]), u32[]) async-update(s, p)\n ROOT d = (f32[4]) async-done(u)",
            "d (async-done): has shape (f32[4]), both returns (f32[4], f32[4])",
        ),
    ],
)
def test_chains(lines: str, message: str) -> None:
    assert message in refusal(lines)


def transfer(send: str, done: str) -> str:
    return f"s = (f32[4], u32[], token[]) send(p, k), {send}\n d = token[] send-done(s), {done}\n"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (transfer("channel_id=1", "channel_id=2"), "d (send-done): has channel_id=2, s has channel_id=1"),
        (
            transfer("channel_id=1, is_host_transfer=true", "channel_id=1"),
            "d (send-done): has is_host_transfer=False, s has is_host_transfer=True",
        ),
        (
            transfer("channel_id=1, is_host_transfer=true", "channel_id=1, is_host_transfer=true")
            + " t = (f32[4], u32[], token[]) send(p, d), channel_id=1, is_host_transfer=true, "
            'frontend_attributes={a="b"}\n e = token[] send-done(t), channel_id=1, is_host_transfer=true\n',
            "t (send): transfers with the host through channel 1 as s does, but differs from it",
        ),
    ],
)
def test_channels(lines: str, message: str) -> None:
    assert message in refusal(f"{lines} ROOT n = f32[4] negate(p)")


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
    assert "d (async-done): operand 0 must be async-start or async-update, but is t (parameter)" in refusal(lines)
