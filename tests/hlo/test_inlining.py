"""Inlined instructions keep the order of the calls that they replace, by few control edges."""

from __future__ import annotations

import numpy as np
import pytest

from xlapy.hlo.inlining import inline_call
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.verify import verify
from xlapy.runtime import Client
from xlapy.text import parse_hlo


def names(instructions: tuple[Instruction, ...]) -> list[str]:
    return [instruction.name for instruction in instructions]


CALLS_IN_ORDER = """HloModule m

f {
  p = f32[] parameter(0)
%s
}

ENTRY e {
  x = f32[] parameter(0)
%s
  c = f32[] call(x), to_apply=f%s
  d = f32[] call(c), to_apply=f, control-predecessors={c}
%s
  ROOT r = f32[] add(c, d)
}
"""


def calls_in_order(count: int, acting: int, neighbors: int = 1) -> Module:
    """Returns a module with two ordered calls of `count` instructions, the first `acting` of which are custom calls.

    The first call runs after `neighbors` instructions, the second one before as many.
    """
    ops = ['custom-call(%s), custom_call_target="t"'] * acting + ["negate(%s)"] * (count - acting)
    last = count - 1
    body = [f"  {'ROOT ' * (n == last)}i{n} = f32[] {op % (f'i{n - 1}' if n else 'p')}" for n, op in enumerate(ops)]
    names = [f"n{n}" for n in range(neighbors)]
    before = "\n".join(f"  {name} = f32[] abs(x)" for name in names)
    after = "\n".join(f"  m{n} = f32[] abs(x), control-predecessors={{d}}" for n in range(neighbors))
    edges = f", control-predecessors={{{', '.join(names)}}}"
    return parse_hlo(CALLS_IN_ORDER % ("\n".join(body), before, edges, after))


def control_edge_count(module: Module) -> int:
    return sum(len(i.control_predecessors) for i in module.instructions())


@pytest.mark.parametrize("acting", [0, 1, 50, 100])
def test_inlining_adds_a_linear_number_of_control_edges(acting: int) -> None:
    module = calls_in_order(100, acting, neighbors=100)
    for name in "cd":
        inline_call(module.entry_computation.find(name))
    verify(module)
    assert control_edge_count(module) <= 3 * len(module.entry_computation)


def test_inlining_orders_only_instructions_that_act() -> None:
    module = calls_in_order(5, 2)
    for name in "cd":
        inline_call(module.entry_computation.find(name))
    after = {i.name: names(i.control_predecessors) for i in module.entry_computation if i.control_predecessors}
    assert after == {"i0.1": ["n0"], "i1.1": ["i0.1"], "i0.2": ["i1.1"], "i1.2": ["i0.2"], "m0": ["i1.2"]}


def test_order_holds_through_computations_without_instructions() -> None:
    module = parse_hlo(
        "HloModule m\nid {\n  ROOT p = f32[] parameter(0)\n}\nENTRY e {\n  x = f32[] parameter(0)\n"
        "  a = f32[] abs(x)\n  b = f32[] negate(x)\n  c = f32[] call(x), to_apply=id, control-predecessors={a, b}\n"
        "  d = f32[] negate(c), control-predecessors={c}\n  ROOT r = f32[] add(c, d), control-predecessors={c}\n}\n"
    )
    inline_call(module.entry_computation.find("c"))
    verify(module)
    for name in "dr":
        (join,) = module.entry_computation.find(name).control_predecessors
        assert names(join.control_predecessors) == ["a", "b"]
    assert float(Client("cpu").compile(module)(np.float32(2))) == 0
