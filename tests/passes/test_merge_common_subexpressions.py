"""merge-common-subexpressions: which instructions are equal, and which must be computed twice."""

from __future__ import annotations

import pytest

from tests.passes.runner import assert_unchanged, body, program, rewritten, run_passes
from xlapy.text import parse_hlo


def test_equal_instructions_are_computed_once() -> None:
    text = program(
        "x = f32[2] parameter(0)",
        "y = f32[2] parameter(1)",
        "a = f32[2] add(x, y)",
        "b = f32[2] add(y, x)",
        "c = f32[2] exponential(a)",
        "d = f32[2] exponential(b)",
        "ROOT r = f32[2] subtract(c, d)",
    )
    assert rewritten(text, "cse") == (
        "x = f32[2] parameter(0)\ny = f32[2] parameter(1)\na = f32[2] add(x, y)\nc = f32[2] exponential(a)\n"
        "ROOT r = f32[2] subtract(c, c)"
    )


def test_equal_constants_and_iotas_are_one() -> None:
    text = program(
        "a = f32[2] constant({1, nan})",
        "b = f32[2] constant({1, nan})",
        "c = f32[2] iota(), iota_dimension=0",
        "d = f32[2] iota(), iota_dimension=0",
        "s = f32[2] add(a, c)",
        "t = f32[2] add(b, d)",
        "ROOT r = f32[2] multiply(s, t)",
    )
    assert rewritten(text, "cse").splitlines() == [
        "a = f32[2] constant({1, nan})",
        "c = f32[2] iota(), iota_dimension=0",
        "s = f32[2] add(a, c)",
        "ROOT r = f32[2] multiply(s, s)",
    ]


REDUCERS = """
first { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = f32[] add(a, b) }
second { c = f32[] parameter(0) d = f32[] parameter(1) ROOT s = f32[] add(c, d) }
other { e = f32[] parameter(0) f = f32[] parameter(1) ROOT t = f32[] add(f, e) }
"""


def reduces(called: str) -> str:
    return program(
        "x = f32[5] parameter(0)",
        "z = f32[] constant(0)",
        "a = f32[] reduce(x, z), dimensions={0}, to_apply=first",
        f"b = f32[] reduce(x, z), dimensions={{0}}, to_apply={called}",
        "ROOT r = f32[] add(a, b)",
        before=REDUCERS,
    )


def test_called_computations_are_compared_by_structure() -> None:
    assert rewritten(reduces("second"), "cse").splitlines()[-1].endswith("add(a.1, a.1)")
    assert_unchanged(reduces("other"), "cse")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("f32[2] constant({0, 1})", "f32[2] constant({-0, 1})"),
        ("f32[2] constant({...})", "f32[2] constant({...})"),
        ("f32[2] abs(x)", "f32[2] abs(x), sharding={replicated}"),
        ("f32[2] abs(x)", 'f32[2] abs(x), frontend_attributes={a="b"}'),
        ("f32[2] opt-barrier(x)", "f32[2] opt-barrier(x)"),
        ("f32[2] rng(l, l), distribution=rng_uniform", "f32[2] rng(l, l), distribution=rng_uniform"),
        ("f32[2] subtract(x, y)", "f32[2] subtract(y, x)"),
        ("f32[2] abs(x)", "f32[2] abs(x), control-predecessors={y}"),
    ],
)
def test_instructions_that_are_not_equal(first: str, second: str) -> None:
    text = program(
        "x = f32[2] parameter(0)",
        "l = f32[] parameter(1)",
        "y = f32[2] negate(x)",
        f"a = {first}",
        f"b = {second}",
        "s = f32[2] add(a, b)",
        "ROOT r = f32[2] add(s, y)",
    )
    assert_unchanged(text, "cse")


def test_instructions_with_different_layouts_are_not_merged() -> None:
    text = program(
        "x = f32[2,3] parameter(0)",
        "a = f32[2,3]{1,0} copy(x)",
        "b = f32[2,3]{0,1} copy(x)",
        "ROOT r = f32[2,3] add(a, b)",
    )
    assert_unchanged(text, "cse")


def test_instructions_with_different_metadata_are_merged() -> None:
    text = program(
        "x = f32[2] parameter(0)",
        "a = f32[2] abs(x)",
        'b = f32[2] abs(x), metadata={op_name="b"}',
        "ROOT r = f32[2] add(a, b)",
    )
    module = parse_hlo(text)
    assert run_passes(module, "cse")
    assert body(module).splitlines()[-1] == "ROOT r = f32[2] add(a, a)"
    metadata = module.entry_computation.find("a").metadata
    assert metadata is not None and metadata.op_name == "b"
