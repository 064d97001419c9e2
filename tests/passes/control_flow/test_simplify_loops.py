"""simplify-loops: loops that run at most once, state elements that do not change, and unused elements."""

from __future__ import annotations

import pytest

from tests.passes.runner import assert_same_results, assert_unchanged, body, program, run_passes
from xlapy import opcodes
from xlapy.analysis.loops import known_trip_count
from xlapy.hlo.edit import clone_module
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.text import parse_hlo


def counting(start: str, limit: int, step: str = "1", direction: str = "LT", extra: str = "") -> str:
    """Returns a loop that negates a vector once per iteration."""
    return program(
        "x = f32[2] parameter(0)",
        f"z = s32[] {start}",
        "init = (s32[], f32[2]) tuple(z, x)",
        f"w = (s32[], f32[2]) while(init), condition=less, body=step{extra}",
        "ROOT r = f32[2] get-tuple-element(w), index=1",
        before=f"""
less {{
  p = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  limit = s32[] constant({limit})
  ROOT l = pred[] compare(i, limit), direction={direction}
}}
step {{
  q = (s32[], f32[2]) parameter(0)
  j = s32[] get-tuple-element(q), index=0
  v = f32[2] get-tuple-element(q), index=1
  by = s32[] constant({step})
  a = s32[] add(j, by)
  n = f32[2] negate(v)
  ROOT t = (s32[], f32[2]) tuple(a, n)
}}
""",
    )


def loop_of(module: Module) -> Instruction:
    (loop,) = [i for i in module.instructions() if i.op is opcodes.WHILE]
    return loop


def simplified(text: str, passes: str = "simplify-loops") -> Module:
    before = parse_hlo(text)
    after = clone_module(before)
    assert run_passes(after, passes)
    assert_same_results(before, after)
    assert not run_passes(after, passes)
    return after


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (counting("constant(5)", 5), 0),
        (counting("constant(4)", 5), 1),
        (counting("constant(0)", 5), 5),
        (counting("constant(0)", 9), None),
        (counting("parameter(1)", 5), None),
        (counting("constant(0)", 5, step="0"), None),
        (counting("constant(2147483647)", 0, direction="GT"), 1),
    ],
)
def test_known_trip_count(text: str, expected: int | None) -> None:
    assert known_trip_count(loop_of(parse_hlo(text)), max_trip_count=7) == expected


def test_a_loop_that_never_runs() -> None:
    module = simplified(counting("constant(5)", 5))
    assert body(module).splitlines()[-1] == "ROOT r = f32[2] get-tuple-element(init), index=1"
    assert len(module.computations) == 1


def test_a_loop_that_runs_once() -> None:
    assert opcodes.WHILE not in {i.op for i in simplified(counting("constant(4)", 5)).instructions()}


def test_loops_that_run_longer_or_for_an_unknown_time_stay() -> None:
    assert_unchanged(counting("constant(0)", 5), "simplify-loops")
    assert_unchanged(counting("parameter(1)", 5), "simplify-loops")


def in_loop(inner_step: str, inner_limit: int, first: str = "constant(0)", t: str = "s32", size: int = 2) -> str:
    """A loop in a loop; the inner one adds its counter to a vector once per iteration."""
    inner, outer = f"({t}[], s32[{size}])", f"(s32[], s32[{size}])"
    return program(
        f"x = s32[{size}] parameter(0)",
        "z = s32[] constant(0)",
        f"init = {outer} tuple(z, x)",
        f"w = {outer} while(init), condition=outer_less, body=outer_step",
        f"ROOT r = s32[{size}] get-tuple-element(w), index=1",
        before=f"""
less {{
  p = {inner} parameter(0)
  i = {t}[] get-tuple-element(p), index=0
  limit = {t}[] constant({inner_limit})
  ROOT l = pred[] compare(i, limit), direction=LT
}}
step {{
  q = {inner} parameter(0)
  j = {t}[] get-tuple-element(q), index=0
  v = s32[{size}] get-tuple-element(q), index=1
  by = {t}[] constant({inner_step})
  a = {t}[] add(j, by)
  c = s32[] convert(j)
  b = s32[{size}] broadcast(c), dimensions={{}}
  d = s32[{size}] add(v, v)
  n = s32[{size}] add(d, b)
  ROOT t = {inner} tuple(a, n)
}}
outer_less {{
  m = {outer} parameter(0)
  k = s32[] get-tuple-element(m), index=0
  most = s32[] constant(3)
  ROOT o = pred[] compare(k, most), direction=LT
}}
outer_step {{
  s = {outer} parameter(0)
  e = s32[] get-tuple-element(s), index=0
  u = s32[{size}] get-tuple-element(s), index=1
  one = s32[] constant(1)
  f = s32[] add(e, one)
  start = {t}[] {first}
  begin = {inner} tuple(start, u)
  g = {inner} while(begin), condition=less, body=step
  h = s32[{size}] get-tuple-element(g), index=1
  ROOT y = {outer} tuple(f, h)
}}
""",
    )


def loop_count(module: Module) -> int:
    return sum(i.op is opcodes.WHILE for i in module.instructions())


@pytest.mark.parametrize(("step", "limit", "first"), [("1", 5, "constant(0)"), ("3", 20, "constant(-3)")])
def test_a_short_loop_in_a_loop_is_unrolled(step: str, limit: int, first: str) -> None:
    assert loop_count(simplified(in_loop(step, limit, first))) == 1


def test_inner_loops_that_run_longer_or_on_larger_arrays_stay() -> None:
    assert_unchanged(in_loop("1", 9), "simplify-loops")
    assert_unchanged(in_loop("1", 4, size=129), "simplify-loops")
    assert_unchanged(in_loop("1", 4, first="copy(e)"), "simplify-loops")


def test_the_counter_of_an_unrolled_loop_does_not_overflow() -> None:
    """120 + 5 is 125, + 5 is -126, which is below the limit: the loop runs for more than two iterations."""
    assert_unchanged(in_loop("5", 127, "constant(120)", "s8"), "simplify-loops")


def test_control_edges_are_kept_by_the_body() -> None:
    text = counting("constant(4)", 5, extra=", control-predecessors={y}").replace(
        "  z = s32[]", "  y = f32[2] abs(x)\n  z = s32[]"
    )
    module = parse_hlo(text)
    assert run_passes(module, "simplify-loops")
    negate = next(i for i in module.entry_computation if i.op is opcodes.NEGATE)
    assert [i.name for i in negate.control_predecessors] == ["y"]


WIDE = program(
    "x = f32[2] parameter(0)",
    "z = s32[] constant(0)",
    "k = f32[2] constant({2, 3})",
    "init = (s32[], f32[2], f32[2], f32[2], f32[2], f32[2]) tuple(z, x, x, k, x, x)",
    "w = (s32[], f32[2], f32[2], f32[2], f32[2], f32[2]) while(init), condition=less, body=step",
    "w1 = f32[2] get-tuple-element(w), index=1",
    "w2 = f32[2] get-tuple-element(w), index=2",
    "ROOT r = f32[2] add(w1, w2)",
    before="""
less {
  p = (s32[], f32[2], f32[2], f32[2], f32[2], f32[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  limit = s32[] constant(5)
  ROOT l = pred[] compare(i, limit), direction=LT
}
step {
  q = (s32[], f32[2], f32[2], f32[2], f32[2], f32[2]) parameter(0)
  q0 = s32[] get-tuple-element(q), index=0
  q1 = f32[2] get-tuple-element(q), index=1
  q2 = f32[2] get-tuple-element(q), index=2
  q3 = f32[2] get-tuple-element(q), index=3
  q4 = f32[2] get-tuple-element(q), index=4
  q5 = f32[2] get-tuple-element(q), index=5
  one = s32[] constant(1)
  a = s32[] add(q0, one)
  m = f32[2] multiply(q1, q3)
  d = f32[2] add(q4, q5)
  ROOT t = (s32[], f32[2], f32[2], f32[2], f32[2], f32[2]) tuple(a, m, q2, q3, d, q4)
}
""",
)


def test_elements_that_are_constant_unchanged_or_unneeded_go() -> None:
    """Element 2 is always x, 3 is a constant, 4 and 5 need only each other: the counter and element 1 remain."""
    module = simplified(WIDE)
    loop = loop_of(module)
    assert loop.shape.to_text(layout=False) == "(s32[], f32[2])"
    assert [i.op for i in loop.computations[1]].count(opcodes.ADD) == 1
    root = module.entry_computation.root_instruction
    assert root.operands[1] is module.entry_computation.parameters[0]
    assert len(module.computations) == 3


def test_a_state_used_as_a_tuple_keeps_its_elements() -> None:
    text = WIDE.replace(
        "ROOT r = f32[2] add(w1, w2)",
        "r = f32[2] add(w1, w2)\n  ROOT o = (s32[], f32[2], f32[2], f32[2], f32[2], f32[2]) opt-barrier(w)",
    )
    module = parse_hlo(text)
    run_passes(module, "simplify-loops")
    assert len(loop_of(module).shape.tuple_shapes) == 6


def test_operands_of_side_effects_stay() -> None:
    text = WIDE.replace(
        "  ROOT t = (s32[], f32[2]",
        "  k = token[] after-all()\n  o = token[] outfeed(d, k), outfeed_shape=f32[2]\n  ROOT t = (s32[], f32[2]",
    )
    module = parse_hlo(text)
    assert run_passes(module, "simplify-loops")
    assert loop_of(module).shape.to_text(layout=False) == "(s32[], f32[2], f32[2], f32[2])"
    assert opcodes.OUTFEED in {i.op for i in module.instructions()}


def test_a_body_shared_with_another_loop_is_copied() -> None:
    second = "v = (s32[], f32[2], f32[2], f32[2], f32[2], f32[2]) while(w), condition=less, body=step"
    text = WIDE.replace("  w1 =", f"  {second}\n  w1 =").replace(
        "get-tuple-element(w), index=2", "get-tuple-element(v), index=4"
    )
    module = simplified(text)
    loops = [i for i in module.instructions() if i.op is opcodes.WHILE]
    assert len({c for loop in loops for c in loop.computations}) == 4


def test_a_sharded_loop_keeps_its_state() -> None:
    text = WIDE.replace(
        "while(init),",
        "while(init), sharding={{replicated},{replicated},{replicated},{replicated},{replicated},{replicated}},",
    )
    module = parse_hlo(text)
    run_passes(module, "simplify-loops")
    assert len(loop_of(module).shape.tuple_shapes) == 6


def test_an_asynchronous_operation_that_stays_keeps_its_done() -> None:
    """The last element needs the done only, but a control edge keeps the start."""
    module = simplified(
        program(
            "x = f32[2] parameter(0)",
            "z = s32[] constant(0)",
            "init = (s32[], f32[2], f32[2]) tuple(z, x, x)",
            "w = (s32[], f32[2], f32[2]) while(init), condition=less, body=step",
            "ROOT r = f32[2] get-tuple-element(w), index=1",
            before="""
less {
  p = (s32[], f32[2], f32[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  limit = s32[] constant(5)
  ROOT l = pred[] compare(i, limit), direction=LT
}
step {
  q = (s32[], f32[2], f32[2]) parameter(0)
  j = s32[] get-tuple-element(q), index=0
  v = f32[2] get-tuple-element(q), index=1
  s = (f32[2], f32[2], u32[]) copy-start(v)
  n = f32[2] negate(v), control-predecessors={s}
  d = f32[2] copy-done(s)
  by = s32[] constant(1)
  a = s32[] add(j, by)
  ROOT t = (s32[], f32[2], f32[2]) tuple(a, n, d)
}
""",
        )
    )
    loop = loop_of(module)
    assert loop.shape.to_text(layout=False) == "(s32[], f32[2])"
    assert [i.op for i in loop.computations[1]].count(opcodes.COPY_DONE) == 1
