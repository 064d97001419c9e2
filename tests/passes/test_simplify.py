"""The pass `simplify`: the cases of every rule of every family, and what the pass leaves unchanged."""

from __future__ import annotations

from importlib import import_module

import pytest

from tests.passes.algebra.rules import RULES, NoMatch, Rewrites
from tests.passes.runner import assert_unchanged, body, program, rewritten, run_passes
from tests.raising import raises
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import PassError
from xlapy.passes.algebra import REWRITES
from xlapy.passes.simplify import Simplify
from xlapy.text import parse_hlo

FAMILIES = sorted({rule.__module__.rpartition(".")[2] for rule in RULES.values()})
CASE_MODULES = [import_module(f"tests.passes.algebra.{family}") for family in FAMILIES]
REWRITE_CASES: list[Rewrites] = [case for module in CASE_MODULES for case in module.REWRITE_CASES]
NO_MATCH_CASES: list[NoMatch] = [case for module in CASE_MODULES for case in module.NO_MATCH_CASES]


def test_every_rule_has_cases_of_both_kinds() -> None:
    assert {case.rule for case in REWRITE_CASES} == {case.rule for case in NO_MATCH_CASES} == set(RULES)


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_rule_rewrites_and_keeps_every_bit(rule: str) -> None:
    for case in REWRITE_CASES:
        if case.rule == rule:
            case.check()


@pytest.mark.parametrize("rule", sorted(RULES))
def test_a_rule_does_not_match(rule: str) -> None:
    for case in NO_MATCH_CASES:
        if case.rule == rule:
            case.check()


def test_rules_work_together() -> None:
    text = program(
        "x = f32[2,3] parameter(0)",
        "z = f32[] constant(-0)",
        "b = f32[3,2] broadcast(z), dimensions={}",
        "t = f32[3,2] transpose(x), dimensions={1,0}",
        "s = f32[3,2] add(t, b)",
        "u = f32[2,3] transpose(s), dimensions={1,0}",
        "n = f32[2,3] negate(u)",
        "m = f32[6] reshape(n)",
        "r = f32[2,3] reshape(m)",
        "ROOT e = f32[2,3] negate(r)",
    )
    assert rewritten(text, "simplify") == "ROOT x = f32[2,3] parameter(0)"


def test_control_edges_are_unchanged() -> None:
    text = program(
        "x = f32[2] parameter(0)",
        "y = f32[2] abs(x)",
        "c = f32[2] copy(x), control-predecessors={y}",
        "ROOT r = f32[2] add(c, y)",
    )
    assert_unchanged(text, "simplify")


def test_barriers_are_unchanged() -> None:
    text = program(
        "x = f32[2] parameter(0)", "n = f32[2] negate(x)", "b = f32[2] opt-barrier(n)", "ROOT r = f32[2] negate(b)"
    )
    assert_unchanged(text, "simplify")


def test_shardings_are_kept() -> None:
    text = program(
        "x = f32[2] parameter(0), sharding={replicated}",
        "c = f32[2] copy(x), sharding={devices=[2]<=[2]}",
        "ROOT r = f32[2] negate(c)",
    )
    assert_unchanged(text, "simplify")


def test_annotations_are_inherited() -> None:
    text = program(
        "x = f32[2] parameter(0)",
        "n = f32[2] negate(x)",
        'ROOT r = f32[2] abs(n), sharding={replicated}, frontend_attributes={a="b"}, metadata={op_name="f"}',
    )
    module = parse_hlo(text)
    assert run_passes(module, "simplify")
    root = module.entry_computation.root_instruction
    assert root.operands[0].name == "x"
    assert root.sharding is not None and root.metadata is not None
    assert (root.frontend_attributes, root.metadata.op_name) == ({"a": "b"}, "f")


def test_dynamic_dimensions_are_unchanged() -> None:
    assert_unchanged(
        program("x = f32[<=4] parameter(0)", "n = f32[<=4] negate(x)", "ROOT r = f32[<=4] negate(n)"), "simplify"
    )


def test_fused_computations_are_unchanged() -> None:
    text = program(
        "x = f32[2] parameter(0)",
        "ROOT f = f32[2] fusion(x), kind=kLoop, calls=fused",
        before="fused { p = f32[2] parameter(0) n = f32[2] negate(p) ROOT m = f32[2] negate(n) }",
    )
    assert_unchanged(text, "simplify")


def test_called_computations_are_simplified() -> None:
    text = program(
        "x = f32[2] parameter(0)",
        "ROOT f = f32[2] call(x), to_apply=twice",
        before="twice { p = f32[2] parameter(0) n = f32[2] negate(p) ROOT m = f32[2] negate(n) }",
    )
    assert rewritten(text, "simplify", computation="twice") == "ROOT p = f32[2] parameter(0)"


LAYOUTS = program("x = f32[2,3]{0,1} parameter(0)", "c = f32[2,3]{1,0} reshape(x)", "ROOT r = f32[2,3]{1,0} negate(c)")


def test_layout_sensitive_keeps_layouts() -> None:
    assert_unchanged(LAYOUTS, [Simplify(layout_sensitive=True)])
    module = parse_hlo(LAYOUTS)
    assert run_passes(module, "simplify")
    assert body(module).endswith("negate(x)")


def test_a_bitcast_never_reads_another_layout() -> None:
    text = program("x = f32[2,3]{0,1} parameter(0)", "c = f32[2,3]{1,0} reshape(x)", "ROOT r = f32[6] bitcast(c)")
    assert_unchanged(text, "simplify")


def test_endless_rewriting_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def swap(write, instruction):
        return write.add(instruction.op, *instruction.operands)

    monkeypatch.setattr(REWRITES, "of", lambda op: [swap])
    with raises(PassError, codes.PASSES_END, "of main", "of abs"):
        Simplify().run(parse_hlo(program("x = f32[2] parameter(0)", "ROOT r = f32[2] abs(x)")))
