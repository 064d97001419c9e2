"""flatten-tuples: tuples and their elements, nested tuples in loops, branches and calls."""

from __future__ import annotations

from tests.passes.runner import assert_same_results, assert_unchanged, program, rewritten, run_passes
from xlapy import opcodes
from xlapy.hlo.edit import clone_module
from xlapy.hlo.module import Module
from xlapy.text import parse_hlo

LOOP = program(
    "x = f32[2] parameter(0)",
    "z = s32[] constant(0)",
    "inner = (f32[2], s32[]) tuple(x, z)",
    "init = ((f32[2], s32[]), s32[]) tuple(inner, z)",
    "w = ((f32[2], s32[]), s32[]) while(init), condition=less, body=step",
    "e = (f32[2], s32[]) get-tuple-element(w), index=0",
    "ROOT r = f32[2] get-tuple-element(e), index=0",
    before="""
less {
  p = ((f32[2], s32[]), s32[]) parameter(0)
  i = s32[] get-tuple-element(p), index=1
  five = s32[] constant(5)
  ROOT l = pred[] compare(i, five), direction=LT
}
step {
  q = ((f32[2], s32[]), s32[]) parameter(0)
  pair = (f32[2], s32[]) get-tuple-element(q), index=0
  v = f32[2] get-tuple-element(pair), index=0
  k = s32[] get-tuple-element(pair), index=1
  j = s32[] get-tuple-element(q), index=1
  n = f32[2] negate(v)
  one = s32[] constant(1)
  a = s32[] add(j, one)
  t = (f32[2], s32[]) tuple(n, k)
  ROOT o = ((f32[2], s32[]), s32[]) tuple(t, a)
}
""",
)


def flattened(text: str) -> Module:
    before = parse_hlo(text)
    after = clone_module(before)
    assert run_passes(after, "flatten-tuples")
    assert_same_results(before, after)
    assert not run_passes(after, "flatten-tuples")
    return after


def test_a_loop_carries_leaves() -> None:
    module = flattened(LOOP)
    loop = next(i for i in module.instructions() if i.op is opcodes.WHILE)
    assert loop.shape.to_text(layout=False) == "(f32[2], s32[], s32[])"
    body = loop.computations[1]
    assert [i.op for i in body] == [
        opcodes.PARAMETER,
        *[opcodes.GET_TUPLE_ELEMENT] * 3,
        opcodes.NEGATE,
        opcodes.CONSTANT,
        opcodes.ADD,
        opcodes.TUPLE,
    ]
    assert len(module.computations) == 3


def test_a_loop_on_an_array_carries_a_tuple() -> None:
    lines = """less { x = s32[] parameter(0)  n = s32[] constant(9)  ROOT c = pred[] compare(x, n), direction=LT }
step { x = s32[] parameter(0)  two = s32[] constant(2)  ROOT y = s32[] add(x, two) }"""
    text = program("x = s32[] parameter(0)", "ROOT w = s32[] while(x), condition=less, body=step", before=lines)
    module = flattened(text)
    (loop,) = (i for i in module.instructions() if i.op is opcodes.WHILE)
    assert loop.shape.to_text(layout=False) == "(s32[])"
    assert module.entry_computation.root_instruction.op is opcodes.GET_TUPLE_ELEMENT


def test_a_nested_result_is_reassembled() -> None:
    text = LOOP.replace("  e = (f32[2], s32[]) get-tuple-element(w), index=0\n", "").replace(
        "ROOT r = f32[2] get-tuple-element(e), index=0", "ROOT r = ((f32[2], s32[]), s32[]) tuple(g, h)"
    )
    text = text.replace(
        "ROOT r =",
        "g = (f32[2], s32[]) get-tuple-element(w), index=0\n  h = s32[] get-tuple-element(w), index=1\n  ROOT r =",
    )
    module = flattened(text)
    assert module.entry_computation.root_instruction.shape.to_text(layout=False) == "((f32[2], s32[]), s32[])"


def test_branches_take_and_return_leaves() -> None:
    text = program(
        "c = pred[] parameter(0)",
        "x = f32[2] parameter(1)",
        "a = (f32[2]) tuple(x)",
        "b = ((f32[2]), f32[2]) tuple(a, x)",
        "d = ((f32[2]), f32[2]) conditional(c, b, b), true_computation=yes, false_computation=no",
        "e = (f32[2]) get-tuple-element(d), index=0",
        "ROOT r = f32[2] get-tuple-element(e), index=0",
        before="""
yes { ROOT p = ((f32[2]), f32[2]) parameter(0) }
no {
  q = ((f32[2]), f32[2]) parameter(0)
  s = f32[2] get-tuple-element(q), index=1
  n = f32[2] negate(s)
  t = (f32[2]) tuple(n)
  ROOT u = ((f32[2]), f32[2]) tuple(t, s)
}
""",
    )
    conditional = next(i for i in flattened(text).instructions() if i.op is opcodes.CONDITIONAL)
    assert [o.shape.to_text(layout=False) for o in conditional.operands] == [
        "pred[]",
        "(f32[2], f32[2])",
        "(f32[2], f32[2])",
    ]
    assert conditional.shape.to_text(layout=False) == "(f32[2], f32[2])"


def test_a_call_passes_leaves_separately() -> None:
    text = program(
        "x = f32[2] parameter(0)",
        "a = (f32[2], f32[2]) tuple(x, x)",
        "ROOT r = f32[2] call(a), to_apply=sum",
        before="""
sum {
  p = (f32[2], f32[2]) parameter(0)
  f = f32[2] get-tuple-element(p), index=0
  g = f32[2] get-tuple-element(p), index=1
  ROOT s = f32[2] add(f, g)
}
""",
    )
    assert rewritten(text, "flatten-tuples").splitlines()[-1] == "ROOT call = f32[2] call(x, x), to_apply=sum.1"


def test_side_effects_happen_once() -> None:
    text = program(
        "c = pred[] parameter(0)",
        "k = token[] after-all()",
        "x = f32[2] parameter(1)",
        "a = (f32[2]) tuple(x)",
        "b = ((f32[2]), token[]) tuple(a, k)",
        "d = ((f32[2]), token[]) conditional(c, b, b), true_computation=out, false_computation=out",
        "e = (f32[2]) get-tuple-element(d), index=0",
        "ROOT r = f32[2] get-tuple-element(e), index=0",
        before="""
out {
  p = ((f32[2]), token[]) parameter(0)
  i = (f32[2]) get-tuple-element(p), index=0
  v = f32[2] get-tuple-element(i), index=0
  t = token[] get-tuple-element(p), index=1
  o = token[] outfeed(v, t), outfeed_shape=f32[2]
  ROOT s = ((f32[2]), token[]) tuple(i, o)
}
""",
    )
    module = parse_hlo(text)
    assert run_passes(module, "flatten-tuples")
    assert [i.op for i in module.entry_computation].count(opcodes.CONDITIONAL) == 1


def test_loops_that_are_not_flattened() -> None:
    assert_unchanged(
        LOOP.replace("while(init),", "while(init), sharding={{replicated},{replicated},{replicated}},"),
        "flatten-tuples",
    )
    parameters = program(
        "p = ((f32[2], s32[]), s32[]) parameter(0)", "ROOT e = (f32[2], s32[]) get-tuple-element(p), index=0"
    )
    assert_unchanged(parameters, "flatten-tuples")
