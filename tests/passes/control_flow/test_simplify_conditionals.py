"""simplify-conditionals: branches that are known to be taken, and tuple elements that do not depend on the branch."""

from __future__ import annotations

import pytest

from tests.passes.runner import assert_same_results, assert_unchanged, program, rewritten, run_passes
from xlapy import opcodes
from xlapy.hlo.edit import clone_module
from xlapy.hlo.module import Module
from xlapy.text import parse_hlo

BRANCHES = """
plus { p = f32[2] parameter(0) ROOT a = f32[2] add(p, p) }
minus { q = f32[2] parameter(0) ROOT n = f32[2] negate(q) }
again { s = f32[2] parameter(0) ROOT b = f32[2] add(s, s) }
"""


def conditional(index: str, first: str = "plus", second: str = "minus", given: str = "x, y") -> str:
    kind = index.partition("[")[0]
    called = f"true_computation={first}, false_computation={second}"
    if kind == "s32":
        called = f"branch_computations={{{first}, {second}}}"
    return program(
        "x = f32[2] parameter(0)",
        "y = f32[2] parameter(1)",
        f"i = {index}",
        f"ROOT r = f32[2] conditional(i, {given}), {called}",
        before=BRANCHES,
    )


@pytest.mark.parametrize(
    ("index", "root"),
    [
        ("pred[] constant(true)", "add(x, x)"),
        ("pred[] constant(false)", "negate(y)"),
        ("s32[] constant(0)", "add(x, x)"),
        ("s32[] constant(7)", "negate(y)"),
        ("s32[] constant(-1)", "negate(y)"),
    ],
)
def test_a_known_index(index: str, root: str) -> None:
    assert rewritten(conditional(index), "simplify-conditionals").splitlines()[-1].endswith(root)


def test_equal_branches_given_the_same() -> None:
    text = conditional("pred[] parameter(2)", second="again", given="x, x")
    assert rewritten(text, "simplify-conditionals").splitlines()[-1].endswith("add(x, x)")
    assert_unchanged(conditional("pred[] parameter(2)", second="again"), "simplify-conditionals")
    assert_unchanged(conditional("pred[] parameter(2)", given="x, x"), "simplify-conditionals")


TUPLES = program(
    "c = pred[] parameter(0)",
    "x = f32[2] parameter(1)",
    "k = f32[] constant(3)",
    "t = (f32[2], f32[]) tuple(x, k)",
    "d = (f32[2], f32[], f32[2], f32[]) conditional(c, t, t), true_computation=yes, false_computation=no",
    "d0 = f32[2] get-tuple-element(d), index=0",
    "d1 = f32[] get-tuple-element(d), index=1",
    "d3 = f32[] get-tuple-element(d), index=3",
    "ROOT r = (f32[2], f32[], f32[]) tuple(d0, d1, d3)",
    before="""
yes {
  p = (f32[2], f32[]) parameter(0)
  p0 = f32[2] get-tuple-element(p), index=0
  p1 = f32[] get-tuple-element(p), index=1
  seven = f32[] constant(7)
  m = f32[] negate(p1)
  e = f32[2] exponential(p0)
  ROOT z = (f32[2], f32[], f32[2], f32[]) tuple(p0, seven, e, m)
}
no {
  q = (f32[2], f32[]) parameter(0)
  q0 = f32[2] get-tuple-element(q), index=0
  q1 = f32[] get-tuple-element(q), index=1
  siete = f32[] constant(7)
  ROOT y = (f32[2], f32[], f32[2], f32[]) tuple(q0, siete, q0, q1)
}
""",
)


def simplified(text: str, passes: str = "simplify-conditionals") -> Module:
    before = parse_hlo(text)
    after = clone_module(before)
    assert run_passes(after, passes)
    assert_same_results(before, after)
    return after


def test_elements_leave_the_branches() -> None:
    """Element 0 is x in both branches, 1 is 7, 2 is unused; the others depend only on constants."""
    entry = simplified(TUPLES).entry_computation
    first, second, third = entry.root_instruction.operands
    assert first is entry.parameters[1]
    assert second.op is opcodes.CONSTANT and float(second.literal.array) == 7
    (left,) = [i for i in entry if i.op is opcodes.CONDITIONAL]
    assert left.shape.to_text(layout=False) == "(f32[])"
    assert third.operands == (left,)
    assert opcodes.EXPONENTIAL not in {i.op for i in left.computations[0]}
    assert all(opcodes.CONSTANT in {i.op for i in branch} for branch in left.computations)


def test_constants_are_not_put_into_branches_of_others() -> None:
    text = TUPLES.replace("false_computation=no", "false_computation=yes")
    module = parse_hlo(text)
    branch = module.find("yes")
    assert run_passes(module, "simplify-conditionals")
    assert branch.module is None or len(branch.callers) != 1


def test_an_unread_effect_still_happens() -> None:
    text = program(
        "c = pred[] parameter(0)",
        "x = f32[2] parameter(1)",
        "d = (f32[2], f32[2]) conditional(c, x, x), true_computation=draw, false_computation=keep",
        "ROOT r = f32[2] get-tuple-element(d), index=0",
        before="""
draw {
  p = f32[2] parameter(0)
  l = f32[] constant(0)
  g = f32[2] rng(l, l), distribution=rng_uniform
  ROOT t = (f32[2], f32[2]) tuple(p, g)
}
keep { q = f32[2] parameter(0) n = f32[2] negate(q) ROOT u = (f32[2], f32[2]) tuple(n, q) }
""",
    )
    module = simplified(text)
    assert opcodes.RNG in {i.op for i in module.instructions()}
    assert [i.op for i in module.entry_computation].count(opcodes.CONDITIONAL) == 1


def test_a_result_used_as_a_tuple_stays() -> None:
    text = TUPLES.replace(
        "ROOT r = (f32[2], f32[], f32[]) tuple(d0, d1, d3)", "ROOT r = (f32[2], f32[], f32[2], f32[]) opt-barrier(d)"
    )
    module = parse_hlo(text)
    run_passes(module, "simplify-conditionals")
    left = next(i for i in module.instructions() if i.op is opcodes.CONDITIONAL)
    assert len(left.shape.tuple_shapes) == 4


LOOP_WITH_BRANCHES = """HloModule m
less {{ s = (s32[], s32[], f32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT }}
first {{ p = (s32[], f32[]) parameter(0) k = s32[] get-tuple-element(p), index=0 x = f32[] get-tuple-element(p), index=1
  one = s32[] constant(1) j = s32[] add(k, one) y = f32[] {operation}(x) ROOT r = (s32[], f32[]) tuple(j, y) }}
second {{ p = (s32[], f32[]) parameter(0) k = s32[] get-tuple-element(p), index=0
  x = f32[] get-tuple-element(p), index=1
  j = s32[] negate(k) ROOT r = (s32[], f32[]) tuple(j, x) }}
step {{ s = (s32[], s32[], f32[]) parameter(0) i = s32[] get-tuple-element(s), index=0
  k = s32[] get-tuple-element(s), index=1 x = f32[] get-tuple-element(s), index=2 one = s32[] constant(1)
  j = s32[] add(i, one) three = s32[] constant(3) m = s32[] remainder(i, three) zero = s32[] constant(0)
  q = pred[] compare(m, zero), direction=EQ t = (s32[], f32[]) tuple(k, x)
  c = (s32[], f32[]) conditional({index}, t, t), {branches}
  k2 = s32[] get-tuple-element(c), index=0 x2 = f32[] get-tuple-element(c), index=1
  ROOT r = (s32[], s32[], f32[]) tuple(j, k2, x2) }}
ENTRY e {{ i = s32[] constant(0) k = s32[] parameter(0) x = f32[] parameter(1) t = (s32[], s32[], f32[]) tuple(i, k, x)
  ROOT w = (s32[], s32[], f32[]) while(t), condition=less, body=step }}
"""
TWO_BRANCHES = {
    "q": "true_computation=first, false_computation=second",
    "m": "branch_computations={first, second}",
}


@pytest.mark.parametrize("index", TWO_BRANCHES)
@pytest.mark.parametrize(("operation", "is_selected"), [("negate", True), ("sine", False)])
def test_cheap_branches_in_loops_become_selections(index: str, operation: str, is_selected: bool) -> None:
    text = LOOP_WITH_BRANCHES.format(index=index, branches=TWO_BRANCHES[index], operation=operation)
    module = parse_hlo(text)
    run_passes(module, "simplify-conditionals")
    assert any(i.op is opcodes.CONDITIONAL for i in module.instructions()) != is_selected
    assert_same_results(parse_hlo(text), module)
