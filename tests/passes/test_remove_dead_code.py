"""remove-dead-code: which instructions are removed, and what keeps an instruction alive."""

from __future__ import annotations

from tests.passes.runner import assert_unchanged, program, rewritten
from xlapy.passes import parse_passes
from xlapy.passes.rewrite import remove_if_dead
from xlapy.text import parse_hlo


def test_chains_of_dead_instructions_go():
    text = program(
        "x = f32[2] parameter(0)",
        "a = f32[2] negate(x)",
        "b = f32[2] multiply(a, a)",
        "ROOT r = f32[2] abs(x)",
    )
    assert rewritten(text, "dce") == "x = f32[2] parameter(0)\nROOT r = f32[2] abs(x)"


def test_parameters_stay():
    assert_unchanged(program("x = f32[2] parameter(0)", "y = f32[2] parameter(1)", "ROOT r = f32[2] abs(x)"), "dce")


CALLEES = """
inner { p = f32[2] parameter(0) ROOT n = f32[2] negate(p) }
outer { p = f32[2] parameter(0) ROOT n = f32[2] call(p), to_apply=inner }
idle { p = f32[2] parameter(0) ROOT n = f32[2] call(p), to_apply=outer }
"""


def test_uncalled_computations_are_removed():
    text = program(
        "x = f32[2] parameter(0)", "d = f32[2] call(x), to_apply=outer", "ROOT r = f32[2] abs(x)", before=CALLEES
    )
    module = parse_hlo(text)
    assert len(module.computations) == 4
    assert parse_passes("dce")[0].run(module)
    assert [c.name for c in module.computations] == ["main"]


def test_a_tuple_without_users_is_removed_with_its_loop():
    text = program(
        "x = s32[] parameter(0)",
        "w = s32[] while(x), condition=less, body=next",
        "ROOT r = s32[] negate(x)",
        before="""
less { p = s32[] parameter(0) c = s32[] constant(5) ROOT l = pred[] compare(p, c), direction=LT }
next { p = s32[] parameter(0) c = s32[] constant(1) ROOT a = s32[] add(p, c) }
""",
    )
    assert rewritten(text, "dce") == "x = s32[] parameter(0)\nROOT r = s32[] negate(x)"


def test_side_effects_keep_what_they_need():
    text = program(
        "x = f32[2] parameter(0)",
        "a = f32[2] negate(x)",
        "t = token[] after-all()",
        "o = token[] outfeed(a, t), outfeed_shape=f32[2]",
        "ROOT r = f32[2] abs(x)",
    )
    assert_unchanged(text, "dce")


def test_side_effects_of_called_computations_count():
    text = program(
        "l = f32[] constant(0)",
        "h = f32[] constant(1)",
        "c = f32[2] call(l, h), to_apply=draw",
        "x = f32[2] parameter(0)",
        "ROOT r = f32[2] abs(x)",
        before="draw { l = f32[] parameter(0) h = f32[] parameter(1) "
        "ROOT g = f32[2] rng(l, h), distribution=rng_uniform }",
    )
    assert_unchanged(text, "dce")


def test_barriers_die_with_their_users():
    text = program("x = f32[2] parameter(0)", "b = f32[2] opt-barrier(x)", "ROOT r = f32[2] abs(x)")
    assert rewritten(text, "dce") == "x = f32[2] parameter(0)\nROOT r = f32[2] abs(x)"


def test_control_edges_keep_an_instruction():
    text = program(
        "x = f32[2] parameter(0)",
        "a = f32[2] negate(x)",
        "ROOT r = f32[2] abs(x), control-predecessors={a}",
    )
    assert_unchanged(text, "dce")


def test_an_asynchronous_operation_that_stays_keeps_its_done():
    kept = program(
        "x = f32[2] parameter(0)",
        "s = (f32[2], f32[2], u32[]) copy-start(x)",
        "d = f32[2] copy-done(s)",
        "ROOT r = f32[2] abs(x), control-predecessors={s}",
    )
    assert_unchanged(kept, "dce")
    free = kept.replace(", control-predecessors={s}", "")
    assert rewritten(free, "dce") == "x = f32[2] parameter(0)\nROOT r = f32[2] abs(x)"


def test_a_collective_keeps_its_done():
    text = program(
        "x = f32[2] parameter(0)",
        "s = f32[2] all-reduce-start(x), to_apply=sum",
        "d = f32[2] all-reduce-done(s)",
        "ROOT r = f32[2] abs(x)",
        before="sum { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }",
    )
    assert_unchanged(text, "dce")


def test_a_pass_that_removes_what_it_has_replaced_keeps_the_done_of_a_start_that_stays():
    text = program(
        "x = f32[2] parameter(0)",
        "s = (f32[2], f32[2], u32[]) copy-start(x)",
        "d = f32[2] copy-done(s)",
        "ROOT r = f32[2] abs(x), control-predecessors={s}",
    )
    entry = parse_hlo(text).entry_computation
    remove_if_dead(next(one for one in entry if one.name == "d"))
    assert {one.name for one in entry} == {"x", "s", "d", "r"}
