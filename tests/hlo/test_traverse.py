"""Orders of instructions and computations, cycles, and depth without recursion."""

from __future__ import annotations

import random

import pytest

from tests import xla_reference
from xlapy import opcodes
from xlapy.hlo import edit
from xlapy.hlo.traverse import (
    ancestors,
    called_computations,
    computation_post_order,
    find_call_cycle,
    find_cycle,
    post_order,
    print_order,
)
from xlapy.text import parse_hlo, print_module

CALLS = """
HloModule calls
c { p = f32[] parameter(0) }
b { p = f32[] parameter(0)  ROOT q = f32[] call(p), to_apply=c }
a { p = f32[] parameter(0)  ROOT q = f32[] call(p), to_apply=b }
unused { p = f32[] parameter(0)  ROOT q = f32[] call(p), to_apply=c }
ENTRY e { p = f32[] parameter(0)  x = f32[] call(p), to_apply=c  y = f32[] call(x), to_apply=a
  ROOT z = f32[] add(x, y) }
"""


def random_graph(rng: random.Random) -> str:
    lines = ["i0 = f32[] parameter(0)"]
    for number in range(1, 30):
        left, right = rng.randrange(number), rng.randrange(number)
        before = f", control-predecessors={{i{rng.randrange(number)}}}" if rng.random() < 0.3 else ""
        lines.append(f"i{number} = f32[] add(i{left}, i{right}){before}")
    return "HloModule m\nENTRY e {\n" + "\n".join(lines) + "\n}"


@pytest.mark.parametrize("seed", range(8))
def test_post_order_is_the_order_in_which_xla_prints(seed: int) -> None:
    text = random_graph(random.Random(seed))
    module = parse_hlo(text)
    assert print_module(module) == xla_reference.parse_and_print(text)
    seen = set()
    for instruction in post_order(module.entry_computation):
        assert seen.issuperset({*instruction.operands, *instruction.control_predecessors})
        seen.add(instruction)
    assert len(seen) == 30


def test_callees_come_before_callers() -> None:
    module = parse_hlo(CALLS)
    assert [c.name for c in computation_post_order(module)] == ["c", "unused", "b", "a", "e"]
    assert [c.name for c in print_order(module)] == ["c", "unused", "b", "a", "e"]
    assert print_module(module) == xla_reference.parse_and_print(CALLS)


def test_a_true_post_order_where_xla_prints_another() -> None:
    text = (
        "HloModule m\ncond { s = (s32[]) parameter(0)\n ROOT r = pred[] constant(false) }\n"
        "inner { ROOT s = (s32[]) parameter(0) }\n"
        "outer { s = (s32[]) parameter(0)\n ROOT w = (s32[]) while(s), condition=cond, body=inner }\n"
        "ENTRY e { s = (s32[]) parameter(0)\n ROOT w = (s32[]) while(s), condition=cond, body=outer }"
    )
    module = parse_hlo(text)
    assert [c.name for c in print_order(module)] == ["inner", "outer", "cond", "e"]
    order = [c.name for c in computation_post_order(module)]
    assert order.index("cond") < order.index("outer") < order.index("e")


def test_ancestors_follow_operands_and_control_edges() -> None:
    module = parse_hlo(
        "HloModule m\nENTRY e { a = f32[] parameter(0)\n b = f32[] negate(a)\n c = f32[] negate(a)\n"
        " d = f32[] negate(a)\n ROOT r = f32[] negate(c), control-predecessors={b} }"
    )
    found = ancestors([module.entry_computation.find("r")])
    assert {i.name for i in found} == {"a", "b", "c", "r"}


def test_cycles_are_found() -> None:
    module = parse_hlo(
        "HloModule m\nENTRY e { a = f32[] parameter(0)\n b = f32[] negate(a)\n ROOT c = f32[] negate(b) }"
    )
    entry = module.entry_computation
    assert find_cycle(entry) == []
    edit.set_operands(entry.find("b"), [entry.find("c")])
    assert {i.name for i in find_cycle(entry)} == {"b", "c"}


def test_call_cycles_are_found() -> None:
    module = parse_hlo(
        "HloModule m\nf { p = f32[] parameter(0)\n ROOT q = f32[] call(p), to_apply=g }\n"
        "g { p = f32[] parameter(0)\n ROOT q = f32[] call(p), to_apply=f }\n"
        "ENTRY e { p = f32[] parameter(0)\n ROOT q = f32[] call(p), to_apply=f }",
        verify=False,
    )
    assert {c.name for c in find_call_cycle(module)} == {"f", "g"}
    assert set(print_order(module)) == set(module.computations)
    assert print_module(module).count("to_apply") == 3


def test_depth_needs_no_recursion() -> None:
    lines = [f"  a{i} = f32[] negate(a{i - 1})" for i in range(1, 20_000)]
    module = parse_hlo("HloModule m\nENTRY e {\n  a0 = f32[] parameter(0)\n" + "\n".join(lines) + "\n}")
    assert len(post_order(module.entry_computation)) == 20_000
    calls = ["call0 { p = f32[] parameter(0) }"]
    calls += [
        f"call{i} {{ p = f32[] parameter(0)\n ROOT q = f32[] call(p), to_apply=call{i - 1} }}" for i in range(1, 3000)
    ]
    deep = parse_hlo("HloModule m\n" + "\n".join(calls))
    assert [c.name for c in computation_post_order(deep)] == [f"call{i}" for i in range(3000)]
    assert print_order(deep) == computation_post_order(deep)


EDITS = {
    "append": lambda c, i: edit.create(c, opcodes.ABS, [i["x"]]),
    "operands": lambda c, i: edit.set_operands(i["r"], [i["a"], i["x"]]),
    "one operand": lambda c, i: edit.replace_operand(i["r"], 0, i["x"]),
    "uses": lambda c, i: edit.replace_uses(i["a"], i["x"]),
    "control edge": lambda c, i: edit.add_control_edge(i["r"], i["d"]),
    "no control edges": lambda c, i: edit.remove_control_edges(i["b"]),
    "remove": lambda c, i: edit.remove(i["d"]),
    "remove a parameter": lambda c, i: edit.remove_parameter(i["y"]),
    "reorder": lambda c, i: edit.reorder(c, [i[name] for name in ("x", "y", "a", "b", "r", "d")]),
}


@pytest.mark.parametrize("change", EDITS)
def test_the_post_order_follows_each_edit(change):
    text = """ENTRY e { x = f32[] parameter(0)  y = f32[] parameter(1)  a = f32[] sine(x)
    b = f32[] cosine(x), control-predecessors={a}  d = f32[] tan(x)  ROOT r = f32[] add(b, a) }"""
    computation = parse_hlo(text).entry_computation
    before = post_order(computation)
    before_copy = list(before)
    before.clear()
    assert post_order(computation) == before_copy, "callers own what they get"
    EDITS[change](computation, {i.name: i for i in computation})
    found = post_order(computation)
    computation._post_order = None
    assert found == post_order(computation)
    assert found != before_copy


CALL_EDITS = {
    "append": lambda c, i, m: edit.create(c, opcodes.CALL, [i["x"]], computations=[m["f"]]),
    "computations": lambda c, i, m: edit.set_computations(i["b"], [m["f"]]),
    "remove": lambda c, i, m: edit.remove(i["d"]),
    "reorder": lambda c, i, m: edit.reorder(c, [i[name] for name in ("x", "d", "b", "r")]),
}


@pytest.mark.parametrize("change", CALL_EDITS)
def test_the_called_computations_follow_each_edit(change):
    text = """HloModule m
    f { pf = f32[] parameter(0)  ROOT yf = f32[] sine(pf) }
    g { pg = f32[] parameter(0)  ROOT yg = f32[] cosine(pg) }
    h { ph = f32[] parameter(0)  ROOT yh = f32[] tan(ph) }
    ENTRY e { x = f32[] parameter(0)  b = f32[] call(x), to_apply=g  d = f32[] call(x), to_apply=h
      ROOT r = f32[] negate(b) }"""
    module = parse_hlo(text)
    computation = module.entry_computation
    before = called_computations(computation)
    named = {c.name: c for c in module.computations}
    CALL_EDITS[change](computation, {i.name: i for i in computation}, named)
    found = called_computations(computation)
    computation._called = None
    assert found == called_computations(computation)
    assert found != before
