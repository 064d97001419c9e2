"""Expansion of asynchronous chains into calls, in the order that their control edges require."""

from __future__ import annotations

import pytest

from tests.passes.runner import ROUNDING, assert_same_results, program, run_passes
from tests.raising import raises
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.hlo.edit import clone_module
from xlapy.passes.expand.expand import Expand
from xlapy.text import parse_hlo

WORK = """
add {
  x = f32[] parameter(0)
  y = f32[] parameter(1)
  ROOT z = f32[] add(x, y)
}, execution_thread="side"

work {
  v = f32[4] parameter(0)
  w = f32[4] parameter(1)
  l = f32[4] logistic(v)
  o = f32[] constant(0)
  m = f32[4] multiply(l, w)
  ROOT r = f32[] reduce(m, o), dimensions={0}, to_apply=add
}, execution_thread="side"
"""

CHAIN = program(
    "p = f32[4] parameter(0)",
    "a = f32[4] negate(p)",
    's = ((f32[4]), (), u32[]) async-start(p), calls=work, async_execution_thread="side", control-predecessors={a}',
    "b = f32[4] abs(p), control-predecessors={s}",
    "u = ((f32[4], f32[4]), f32[], u32[]) async-update(s, b)",
    "c = f32[4] sine(p), control-predecessors={u}",
    "d = f32[] async-done(u)",
    "e = f32[4] cosine(p), control-predecessors={d}",
    "ROOT t = (f32[], f32[4], f32[4], f32[4], f32[4]) tuple(d, a, b, c, e)",
    before=WORK,
)


def test_a_chain_is_a_call_in_the_order_of_its_parts():
    before = parse_hlo(CHAIN.replace("(f32[4]), (), u32[]", "(f32[4]), f32[], u32[]"))
    after = clone_module(before)
    assert run_passes(after, "expand{ops=async-done+logistic}")
    assert_same_results(before, after, ROUNDING)
    assert {c.execution_thread for c in after.computations} == {"main"}
    assert "logistic" not in {i.op.name for i in after.instructions()}, "what is called now is expanded too"
    call = next(i for i in after.instructions() if i.op.name == "call")
    assert [i.name for i in call.control_predecessors] == ["a"]
    assert sorted(i.name for i in call.control_successors) == ["c", "e"]


def test_concurrent_instructions_run_before_the_done_operation():
    text = program(
        "p = f32[4] parameter(0)",
        "s = (f32[4], f32[4], u32[]) copy-start(p)",
        "b = f32[4] negate(p), control-predecessors={s}",
        "d = f32[4] copy-done(s), control-predecessors={b}",
        "ROOT t = (f32[4], f32[4]) tuple(b, d)",
    )
    before = parse_hlo(text)
    after = clone_module(before)
    assert run_passes(after, "expand{ops=copy-done}")
    assert_same_results(before, after)
    copy = next(i for i in after.instructions() if i.op.name == "copy")
    assert [i.name for i in copy.control_predecessors] == ["b"]
    assert copy.control_successors == ()


@pytest.mark.parametrize("name", ["async-start", "async-update", "copy-start"])
def test_a_chain_is_expanded_only_as_a_whole(name):
    with raises(InvalidArgumentError, codes.EXPANDED_OPERATION, name):
        Expand(ops=(name,))
