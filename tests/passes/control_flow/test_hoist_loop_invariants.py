"""hoist-loop-invariants: which instructions are moved out of loops, and which must stay."""

from __future__ import annotations

import pytest

from tests.passes.runner import assert_same_results, assert_unchanged, program, run_passes
from xlapy import opcodes
from xlapy.hlo.edit import clone_module
from xlapy.hlo.module import Module
from xlapy.text import parse_hlo

CALLED = """
plus { left = f32[] parameter(0) right = f32[] parameter(1) ROOT sum = f32[] add(left, right) }
"""


def loop(*lines: str, result: str = "e") -> str:
    """Returns a loop that adds `result`, of shape f32[2], to a vector; `m` is an f32[2,2] that does not change."""
    inner = "\n  ".join(lines)
    return program(
        "n = s32[] parameter(0)",
        "x = f32[2] parameter(1)",
        "y = f32[2,2] parameter(2)",
        "z = s32[] constant(0)",
        "s = s32[] constant(3)",
        "c = s32[] clamp(z, n, s)",
        "init = (s32[], f32[2], f32[2,2]) tuple(c, x, y)",
        "w = (s32[], f32[2], f32[2,2]) while(init), condition=more, body=step",
        "ROOT r = f32[2] get-tuple-element(w), index=1",
        before=CALLED
        + f"""
more {{
  p = (s32[], f32[2], f32[2,2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  none = s32[] constant(0)
  ROOT g = pred[] compare(i, none), direction=GT
}}
step {{
  q = (s32[], f32[2], f32[2,2]) parameter(0)
  j = s32[] get-tuple-element(q), index=0
  v = f32[2] get-tuple-element(q), index=1
  m = f32[2,2] get-tuple-element(q), index=2
  one = s32[] constant(1)
  d = s32[] subtract(j, one)
  zero = f32[] constant(0)
  {inner}
  b = f32[2] add(v, {result})
  ROOT t = (s32[], f32[2], f32[2,2]) tuple(d, b, m)
}}
""",
    )


def hoisted(text: str, passes: str = "hoist-loop-invariants") -> Module:
    before = parse_hlo(text)
    after = clone_module(before)
    assert run_passes(after, passes)
    assert_same_results(before, after)
    assert not run_passes(after, passes)
    return after


def ops_in(module: Module, number: int) -> list[str]:
    (found,) = [i for i in module.instructions() if i.op is opcodes.WHILE]
    return [i.op.name for i in found.computations[number]]


def test_a_chain_leaves_as_one_value() -> None:
    module = hoisted(
        loop(
            "f = f32[2,2] exponential(m)",
            "h = f32[2,2] transpose(f), dimensions={1,0}",
            "e = f32[2] reduce(h, zero), dimensions={0}, to_apply=plus",
        )
    )
    outside = [i.op for i in module.entry_computation]
    assert {opcodes.EXPONENTIAL, opcodes.TRANSPOSE, opcodes.REDUCE} <= set(outside)
    assert not {"exponential", "transpose", "reduce"} & set(ops_in(module, 1))
    (found,) = [i for i in module.instructions() if i.op is opcodes.WHILE]
    assert found.shape.to_text(layout=False) == "(s32[], f32[2], f32[2,2], f32[2])"
    assert len(module.computations) == 4


def test_operands_of_hoisted_instructions_are_passed_to_the_body_too() -> None:
    module = hoisted(
        loop(
            "f = f32[2,2] exponential(m)",
            "a = f32[2] reduce(f, zero), dimensions={0}, to_apply=plus",
            "k = f32[2] dot(v, f), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
            "e = f32[2] add(a, k)",
        )
    )
    (found,) = [i for i in module.instructions() if i.op is opcodes.WHILE]
    assert found.shape.to_text(layout=False) == "(s32[], f32[2], f32[2,2], f32[2,2], f32[2])"


@pytest.mark.parametrize(
    "lines",
    [
        (
            "h = f32[2,2] transpose(m), dimensions={1,0}",
            "e = f32[2] dot(v, h), lhs_contracting_dims={0}, rhs_contracting_dims={0}",
        ),
        ("e = f32[2] exponential(v)",),
        (
            "f = f32[2,2] opt-barrier(m)",
            "k = f32[2,2] exponential(f)",
            "e = f32[2] reduce(k, zero), dimensions={0}, to_apply=plus",
        ),
        ("f = f32[2] rng(zero, zero), distribution=rng_uniform", "e = f32[2] exponential(f)"),
        ("f = f32[2] broadcast(zero), dimensions={}", "e = f32[2] add(f, v)"),
        (
            "o = f32[2] abs(v)",
            "f = f32[2,2] exponential(m), control-predecessors={o}",
            "e = f32[2] reduce(f, zero), dimensions={0}, to_apply=plus",
        ),
    ],
)
def test_instructions_that_are_not_hoisted(lines: tuple[str, ...]) -> None:
    assert_unchanged(loop(*lines), "hoist-loop-invariants")


LARGE = loop(
    "l = f32[2,2,1000] broadcast(m), dimensions={0,1}",
    "i2 = f32[2,2,1000] iota(), iota_dimension=2",
    "u = f32[2,2,1000] add(l, i2)",
    "o = f32[2,2,1000] sine(u)",
    "j2 = f32[] convert(j)",
    "j3 = f32[2,2,1000] broadcast(j2), dimensions={}",
    "k = f32[2,2,1000] multiply(o, j3)",
    "e = f32[2] reduce(k, zero), dimensions={1,2}, to_apply=plus",
)


def test_results_larger_than_their_operands_have_a_limit() -> None:
    assert_unchanged(LARGE, "hoist-loop-invariants{elements=3999}")
    module = hoisted(LARGE, "hoist-loop-invariants{elements=4000}")
    assert "sine" not in ops_in(module, 1)


def test_a_custom_call_stays() -> None:
    text = loop(
        'f = f32[2,2] custom-call(m), custom_call_target="f"',
        "e = f32[2] reduce(f, zero), dimensions={0}, to_apply=plus",
    )
    assert not run_passes(parse_hlo(text), "hoist-loop-invariants")
