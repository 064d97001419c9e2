"""Verification of values of buffer type: the ops that may have them, and that each buffer is written once."""

from __future__ import annotations

import pytest

from tests.raising import Wanted, raises
from xlapy.base.error_codes.code import ErrorCode
from xlapy.base.error_codes.structure import asynchronous as codes
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


def refuse(lines: str, code: ErrorCode, *values: str, back: str = "y") -> None:
    with raises(VerificationError, code, *values):
        judge(lines, back)


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
    ("lines", "expected"),
    [
        ("ROOT r = b(f32[2]) copy(b)", (codes.BUFFER_PLACE, "r (copy)", "b", "b(f32[2])")),
        ("ROOT c = b(f32[2]) call(b), to_apply=same", (codes.BUFFER_PLACE, "c (call)", "b", "b(f32[2])")),
        ('ROOT c = f32[2] custom-call(n), custom_call_target="CreateBuffer"', (codes.BUFFER_CALL, "(s32[])", "f32[2]")),
        (
            f'ROOT c = b(f32[2]) custom-call(b), custom_call_target="Pin", {SAME}',
            (codes.BUFFER_CALL, "f32[2]", "b(f32[2])", "(b(f32[2]))"),
        ),
        (f"ROOT c = b(f32[2]) custom-call(b), {UNPIN}", (codes.BUFFER_CALL, "b(f32[2])")),
        (
            'ROOT c = f32[2] custom-call(b), custom_call_target="f"',
            (codes.BUFFER_ALIAS, "operand 0 at []", "has 0"),
        ),
        (
            'ROOT c = (b(f32[2]), b(f32[2])) custom-call(b), custom_call_target="f", '
            "output_to_operand_aliasing={{0}: (0, {}), {1}: (0, {})}",
            (codes.BUFFER_ALIAS, "has 2"),
        ),
        (
            'ROOT c = (b(f32[2]), b(f32[2])) custom-call(b), custom_call_target="f", '
            "output_to_operand_aliasing={{0}: (0, {})}",
            (codes.BUFFER_ALIAS, "the result at [1]", "has 0"),
        ),
        (
            f"v = f32[2] custom-call(b), {UNPIN}\n ROOT w = f32[2] custom-call(b), {UNPIN}",
            (codes.BUFFER_WRITERS, "b (custom-call)", "b(f32[2])", "[]", "written 2", "by v, w"),
        ),
        (
            f"{LOOP}\n ROOT v = f32[2] custom-call(b), {UNPIN}",
            (codes.BUFFER_WRITERS, "b (custom-call)", "b(f32[2])", "[]"),
        ),
    ],
)
def test_refusals(lines: str, expected: Wanted) -> None:
    refuse(lines, *expected)


def test_a_loop_writes_the_buffers_that_it_forwards() -> None:
    lines = f"{LOOP}\n ROOT v = f32[2] custom-call(c), {UNPIN}"
    refuse(lines, codes.BUFFER_WRITERS, "b(f32[2])", "[1]", "written 2", "by y, u", back="x")


def test_long_chains_of_tuples_take_no_time() -> None:
    steps = "\n".join(
        f"t{i} = (b(f32[2])) tuple(b{i})\nb{i + 1} = get-tuple-element(t{i}), index=0" for i in range(2000)
    )
    first = f'b0 = b(f32[2]) custom-call(b), custom_call_target="f", {SAME}'
    judge(f"{first}\n{steps}\nROOT v = f32[2] custom-call(b2000), {UNPIN}")
