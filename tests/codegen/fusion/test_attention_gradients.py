"""Gradients of attention are recognized by their structure: labels of dimensions, and the dots with what follows."""

from __future__ import annotations

import re
from collections.abc import Container

import pytest

from xlapy import opcodes
from xlapy.codegen.fusion import attention_gradients
from xlapy.codegen.fusion.attention_gradients import FuseAttentionGradients, find_gradient
from xlapy.codegen.fusion.score_values import TERMS, ScoreValues, labels_of_product, labels_of_scores, score_values
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.text import parse_hlo

REDUCER = "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT c = f32[] add(a, b) }\n"

HEADS = """
  q = f32[2,20,3,8] parameter(0)  k = f32[2,30,3,8] parameter(1)  v = f32[2,30,3,9] parameter(2)
  u = f32[2,20,3,9] parameter(3)  z = f32[] constant(0)
  s = f32[2,3,20,30] dot(q, k), lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={3}
  e = f32[2,3,20,30] exponential(s)
  l = f32[2,3,20] reduce(e, z), dimensions={3}, to_apply=add
  b = f32[2,3,20,30] broadcast(l), dimensions={0,1,2}
  p = f32[2,3,20,30] divide(e, b)
  w = f32[2,3,30,20] dot(v, u), lhs_batch_dims={0,2}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={3}
  t = f32[2,3,20,30] transpose(w), dimensions={0,1,3,2}
  m = f32[2,3,20,30] multiply(t, p)
  d = f32[2,3,20] reduce(m, z), dimensions={3}, to_apply=add
  f = f32[2,3,20,30] broadcast(d), dimensions={0,1,2}
  g = f32[2,3,20,30] subtract(t, f)
  h = f32[2,3,20,30] multiply(g, p)
  dq = f32[2,3,20,8] dot(h, k), lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, lhs_contracting_dims={3}, rhs_contracting_dims={1}
  dk = f32[2,3,8,30] dot(q, h), lhs_batch_dims={0,2}, rhs_batch_dims={0,1}, lhs_contracting_dims={1}, rhs_contracting_dims={2}
  dv = f32[2,3,30,9] dot(p, u), lhs_batch_dims={0,1}, rhs_batch_dims={0,2}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
"""  # noqa: E501
"""The gradient of attention with heads: `s` and `w` are the dots of scores, of which one is transposed."""

DOT = "dot(q, q), lhs_contracting_dims={1}, rhs_contracting_dims={1}"


def module(results: str, body: str = HEADS) -> Module:
    shapes = {"dq": "f32[2,3,20,8]", "dk": "f32[2,3,8,30]", "dq_2": "f32[2,3,20,8]", "dk_2": "f32[2,3,8,30]"}
    shapes |= {"dv": "f32[2,3,30,9]", "h": "f32[2,3,20,30]"}
    names = results.split()
    root = f"ROOT r = ({', '.join(shapes[n] for n in names)}) tuple({', '.join(names)})"
    return parse_hlo(f"HloModule m\n{REDUCER}ENTRY e {{{body}  {root} }}")


def named(parsed: Module, name: str) -> Instruction:
    return next(i for i in parsed.entry_computation if i.name == name)


def test_labels_follow_the_dimensions_of_the_dot():
    parsed = module("dq dk dv")
    scores = score_values(named(parsed, "w"))
    assert {v.name: scores.labels[v] for v in scores.labels} == {
        "w": (0, 1, 2, 3), "t": (0, 1, 3, 2), "m": (0, 1, 3, 2), "d": (0, 1, 3), "f": (0, 1, 3, 2), "g": (0, 1, 3, 2),
        "h": (0, 1, 3, 2),
    }  # fmt: skip
    assert scores.reduced == {2}


def test_labels_of_dots():
    parsed = module("dq dk dv")
    scores = labels_of_scores(named(parsed, "w"), (0, 1, 2, 3))
    assert scores is not None
    assert (scores.left, scores.right) == ((0, 2, 1, TERMS), (0, 3, 1, TERMS))
    product = labels_of_product(named(parsed, "dk"), 1, (0, 1, 2, 3))
    assert product is not None
    assert (product.left, product.result) == ((0, 2, 1, TERMS), (0, 1, TERMS, 3))


def test_the_parts_of_a_gradient():
    parsed = module("dq dk dv")
    found = find_gradient(score_values(named(parsed, "s")), score_values(named(parsed, "w")))
    assert found is not None and not isinstance(found, str)
    assert found.order == (0, 1, 2, 3)
    assert {p.dot.name: p.contracts_keys for p in found.products} == {"dq": True, "dk": False, "dv": False}


def test_values_with_two_orders_of_dimensions_have_no_labels():
    """The sum of scores and of their transpose is not elementwise in scores; nor is what depends on it."""
    parsed = parse_hlo(f"""HloModule m
{REDUCER}ENTRY e {{
  q = f32[2,20,8] parameter(0)  z = f32[] constant(0)
  s = f32[2,20,20] dot(q, q), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, lhs_contracting_dims={{2}}, rhs_contracting_dims={{2}}
  t = f32[2,20,20] transpose(s), dimensions={{0,2,1}}
  m = f32[2,20,20] add(s, t)
  n = f32[2,20,20] exponential(m)
  r = f32[2,20] reduce(s, z), dimensions={{2}}, to_apply=add
  g = f32[2,20,20] broadcast(r), dimensions={{0,2}}
  d = f32[2,20,20] add(s, g)
  e = f32[2,20,20] multiply(d, n)
  f = f32[2,20,20] add(t, g)
  ROOT x = (f32[2,20,20], f32[2,20,20]) tuple(e, f) }}""")  # noqa: E501
    scores = score_values(named(parsed, "s"))
    assert {v.name: scores.labels[v] for v in scores.labels} == {
        "s": (0, 1, 2), "t": (0, 2, 1), "r": (0, 1), "g": (0, 2, 1), "f": (0, 2, 1),
    }  # fmt: skip
    assert scores.reduced == {2} and {v.name for v in scores.mixed} == {"m", "n", "d", "e"}


@pytest.mark.parametrize("count", [40, 400])
def test_many_values_between_the_dots(count: int):
    steps = [f"  x{n + 1} = f32[2,3,20,30] {('sine', 'negate')[n % 2]}(x{n})" for n in range(count)]
    body = HEADS.replace("exponential(s)", f"exponential(x{count})").replace(
        "  e = ", "\n".join(["  x0 = f32[2,3,20,30] negate(s)", *steps, "  e = "])
    )
    decided: list[str] = []
    fuse = FuseAttentionGradients(lambda _: "", lambda decision: decided.append(str(decision)))
    assert fuse.run(module("dq dk dv", body)) == (count == 40)
    assert ("411 values depend on s, which are more than 64" in decided[0]) == (count == 400)


@pytest.mark.parametrize("is_mixed", [False, True])
def test_the_search_is_linear(is_mixed: bool):
    """A value is found from at most two dots, although it depends on all dots before it."""
    other = "t" if is_mixed else "d"
    text = "".join(
        f"""  d{n} = f32[20,20] {DOT}
  t{n} = f32[20,20] transpose(d{n}), dimensions={{1,0}}
  b{n} = f32[20,20] add(d{n}, {other}{n})
  a{n + 1} = f32[20,20] add(a{n}, b{n})\n"""
        for n in range(50)
    )
    parsed = parse_hlo(f"""HloModule m
{REDUCER}ENTRY e {{ q = f32[20,8] parameter(0)  z = f32[] constant(0)  a0 = f32[20,20] {DOT}
{text}  ROOT r = f32[20] reduce(a50, z), dimensions={{1}}, to_apply=add }}""")
    found: list[int] = []

    def search(dot: Instruction, excluded: Container[Instruction]) -> ScoreValues:
        scores = score_values(dot, excluded)
        found.append(len(scores.labels) + len(scores.mixed))
        return scores

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention_gradients, "score_values", search)
        FuseAttentionGradients(lambda _: "").run(parsed)
    assert len(found) == 51 and sum(found) < 6 * 51


def test_two_gradients_of_the_same_scores():
    """The second pair of dots is looked at again after the first has become a fusion, which replaces some values."""
    copied = "w t m d f g h dq dk"
    lines = [line for line in HEADS.splitlines() if line.split("=")[0].strip() in copied.split()]
    second = "\n".join(re.sub(rf"\b({copied.replace(' ', '|')})\b(?=[ ,)])", r"\g<1>_2", line) for line in lines)
    body = HEADS + second.replace("dot(v, u)", "dot(v, u_2)")
    parsed = module("dq dk dv dq_2 dk_2", body.replace("  z = ", "  u_2 = f32[2,20,3,9] parameter(4)  z = "))
    decided: list[str] = []
    assert FuseAttentionGradients(lambda _: "", lambda decision: decided.append(str(decision))).run(parsed)
    verify(parsed)
    assert "become one gradient" in decided[0] and "needs w_2 in memory" in decided[1]


def test_scores_that_are_a_result():
    parsed = module("dq dk h")
    found = find_gradient(score_values(named(parsed, "s")), score_values(named(parsed, "w")))
    assert found == "r (tuple) needs h in memory"


def test_dots_that_depend_on_each_other():
    """A fusion would need its own result: the gradient that enters depends on what it computes."""
    body = HEADS.replace("u = f32[2,20,3,9] parameter(3)", "u0 = f32[2,20,3,9] parameter(3)")
    lines = body.splitlines()
    dv = next(line for line in lines if line.strip().startswith("dv ="))
    lines.remove(dv)
    at = next(n for n, line in enumerate(lines) if line.strip().startswith("w ="))
    lines[at:at] = [
        dv.replace("u)", "u0)"),
        "  n = f32[2,3,30,9] sine(dv)  o = f32[2,3,9] reduce(n, z), dimensions={2}, to_apply=add",
        "  u = f32[2,20,3,9] broadcast(o), dimensions={0,2,3}",
    ]
    parsed = module("dq dk dv", "\n".join(lines))
    decided: list[str] = []
    fuse = FuseAttentionGradients(lambda _: "", lambda decision: decided.append(str(decision)))
    assert not fuse.run(parsed)
    assert "an operand depends on a result" in decided[0]


def test_the_fusion_has_its_dimensions_in_order():
    parsed = module("dq dk dv")
    assert FuseAttentionGradients(lambda _: "").run(parsed)
    (fusion,) = [i for i in parsed.entry_computation if i.op is opcodes.FUSION]
    dots = [i.shape.dimensions for i in fusion.computations[0] if i.op is opcodes.DOT]
    assert sorted(dots) == sorted([(2, 3, 20, 30), (2, 3, 20, 30), (2, 3, 20, 8), (2, 3, 30, 8), (2, 3, 30, 9)])
    assert [i.op.name for i in parsed.entry_computation if i.op is opcodes.DOT] == []
