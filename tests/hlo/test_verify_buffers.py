"""Verification of values of buffer type: the ops that may have them, and that each buffer is written once."""

from __future__ import annotations

import pytest

from xlapy.base.errors import VerificationError
from xlapy.hlo.verify import verify
from xlapy.text import parse_hlo

SAME = "output_to_operand_aliasing={{}: (0, {})}"
UNPIN = f'custom_call_target="Unpin", {SAME}'
HEAD = f"""HloModule m
go {{ s = (s32[], b(f32[2])) parameter(0) ROOT g = pred[] constant(true) }}
step {{
  s = (s32[], b(f32[2])) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  x = b(f32[2]) get-tuple-element(s), index=1
  y = b(f32[2]) custom-call(x), custom_call_target="foo", {SAME}
  ROOT u = (s32[], b(f32[2])) tuple(n, BACK)
}}
same {{ ROOT q = b(f32[2]) parameter(0) }}
ENTRY main {{
  p = f32[2] parameter(0)
  n = s32[] parameter(1)
  b = b(f32[2]) custom-call(p), custom_call_target="Pin", {SAME}
"""
LOOP = """t = (s32[], b(f32[2])) tuple(n, b)
  w = (s32[], b(f32[2])) while(t), condition=go, body=step
  c = b(f32[2]) get-tuple-element(w), index=1"""


def judge(lines: str, back: str = "y") -> None:
    verify(parse_hlo(HEAD.replace("BACK", back) + lines + "\n}\n", verify=False))


def refusal(lines: str, back: str = "y") -> str:
    with pytest.raises(VerificationError) as caught:
        judge(lines, back)
    return str(caught.value)


@pytest.mark.parametrize(
    "lines",
    [
        f"ROOT v = f32[2] custom-call(b), {UNPIN}",
        f"{LOOP}\n ROOT v = f32[2] custom-call(c), {UNPIN}",
        f"""e = b(f32[2]) custom-call(), custom_call_target="CreateBuffer"
        ROOT v = f32[2] custom-call(e), {UNPIN}""",
        """c = ((b(f32[2])), f32[]) custom-call(b), custom_call_target="f", output_to_operand_aliasing={{0,0}: (0, {})}
        d = (b(f32[2])) get-tuple-element(c), index=0
        ROOT e = b(f32[2]) get-tuple-element(d), index=0""",
        'ROOT c = b(f32[2]) call(b), to_apply=same, frontend_attributes={_xla_stream_annotation="1"}',
    ],
)
def test_valid_examples(lines: str) -> None:
    judge(lines)


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ("ROOT r = b(f32[2]) copy(b)", "r (copy): must not have buffers here, but b is b(f32[2])"),
        ("ROOT c = b(f32[2]) call(b), to_apply=same", "c (call): must not have buffers here, but b is b(f32[2])"),
        ('ROOT c = f32[2] custom-call(n), custom_call_target="CreateBuffer"', "returns a buffer: (s32[]) -> f32[2]"),
        (
            f'ROOT c = b(f32[2]) custom-call(b), custom_call_target="Pin", {SAME}',
            "Pin goes from f32[2] to b(f32[2]), keeping the shape: (b(f32[2])) -> b(f32[2])",
        ),
        (f"ROOT c = b(f32[2]) custom-call(b), {UNPIN}", "Unpin goes from b(f32[2]) to f32[2], keeping the shape"),
        (
            'ROOT c = f32[2] custom-call(b), custom_call_target="f"',
            "operand 0 at [] is a buffer, which output_to_operand_aliasing must pair with one result; it has 0",
        ),
        (
            'ROOT c = (b(f32[2]), b(f32[2])) custom-call(b), custom_call_target="f", '
            "output_to_operand_aliasing={{0}: (0, {}), {1}: (0, {})}",
            "must pair with one result; it has 2",
        ),
        (
            'ROOT c = (b(f32[2]), b(f32[2])) custom-call(b), custom_call_target="f", '
            "output_to_operand_aliasing={{0}: (0, {})}",
            "the result at [1] is a buffer, which output_to_operand_aliasing must pair with one operand; it has 0",
        ),
        (
            f"v = f32[2] custom-call(b), {UNPIN}\n ROOT w = f32[2] custom-call(b), {UNPIN}",
            "b (custom-call): the buffer b(f32[2]) at [] is written 2 times, by v, w",
        ),
        (f"{LOOP}\n ROOT v = f32[2] custom-call(b), {UNPIN}", "b (custom-call): the buffer b(f32[2]) at [] is written"),
    ],
)
def test_refusals(lines: str, message: str) -> None:
    assert message in refusal(lines)


def test_a_loop_writes_the_buffers_that_it_forwards() -> None:
    lines = f"{LOOP}\n ROOT v = f32[2] custom-call(c), {UNPIN}"
    assert "the buffer b(f32[2]) at [1] is written 2 times, by y, u" in refusal(lines, back="x")


def test_long_chains_of_tuples_take_no_time() -> None:
    steps = "\n".join(
        f"t{i} = (b(f32[2])) tuple(b{i})\nb{i + 1} = get-tuple-element(t{i}), index=0" for i in range(2000)
    )
    first = f'b0 = b(f32[2]) custom-call(b), custom_call_target="f", {SAME}'
    judge(f"{first}\n{steps}\nROOT v = f32[2] custom-call(b2000), {UNPIN}")
