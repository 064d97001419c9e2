"""Orders of instructions with a small peak of memory, and the simulation that compares them."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

import xlapy as xla
from xlapy.analysis.aliasing import AliasAnalysis
from xlapy.analysis.memory.graph import MemoryGraph
from xlapy.analysis.memory.profile import live_bytes, peak_bytes
from xlapy.analysis.memory.schedule import schedule

ARRAY = 256 * 256 * 4
"""The bytes of f32[256,256]."""


def graph_of(text: str, donated: Sequence[str] = ()) -> MemoryGraph:
    aliases = AliasAnalysis(xla.parse_hlo(text, verify=True).entry_computation)
    return MemoryGraph(aliases, {}, [aliases.value(p) for p in aliases.computation.parameters if p.name in donated])


def names(graph: MemoryGraph, order: list[int]) -> list[str]:
    return [graph.instructions[node].name for node in order]


def dot(name: str, left: str, right: str) -> str:
    return f"{name} = f32[256,256] dot({left}, {right}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}"


CHAIN = f"""HloModule chain
ENTRY main {{ x = f32[256,256] parameter(0)
  {dot("a", "x", "x")}
  {dot("b", "a", "x")}
  {dot("c", "b", "x")}
  t = f32[256,256] tanh(c)
  ROOT d = f32[256,256] dot(t, a), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"""


def test_live_bytes_count_what_is_read_later_and_reuse_operands():
    graph = graph_of(CHAIN)
    live = dict(zip(names(graph, list(range(6))), live_bytes(graph, range(6)), strict=True))
    # c needs b and a; t overwrites c, which nothing reads later; a lives until d
    assert {name: size // ARRAY for name, size in live.items()} == {"x": 0, "a": 1, "b": 2, "c": 3, "t": 2, "d": 3}
    assert peak_bytes(graph, range(6)) == 3 * ARRAY


def test_results_count_from_the_start():
    graph = graph_of("HloModule r ENTRY e { x = f32[64,64] parameter(0)  ROOT r = f32[64,64] tanh(x) }")
    assert peak_bytes(graph, []) == graph.result_bytes == 64 * 64 * 4


def gradients(depth: int) -> str:
    """A chain of products, the gradient of its operands from the end to the start, and an update for each of them."""
    lines: list[str] = []
    above = "x"
    for n in range(depth):
        lines += [dot(f"a{n}", above, f"w{n}")]
        above = f"a{n}"
    backward = above
    for n in reversed(range(depth)):
        lines += [dot(f"weight{n}", f"a{n}", backward), dot(f"g{n}", backward, f"w{n}")]
        lines += [f"sum{n} = f32[] reduce(weight{n}, zero), dimensions={{0,1}}, to_apply=add"]
        backward = f"g{n}"
    parameters = [f"w{n} = f32[256,256] parameter({n + 1})" for n in range(depth)]
    text = "\n  ".join([*parameters, "zero = f32[] constant(0)", *lines])
    return f"""HloModule gradients
add {{ a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }}
ENTRY main {{ x = f32[256,256] parameter(0)
  {text}
  ROOT r = ({", ".join(["f32[]"] * depth)}) tuple({", ".join(f"sum{n}" for n in range(depth))}) }}"""


@pytest.mark.parametrize("depth", [4, 9])
def test_gradients_are_used_as_soon_as_they_are_known(depth: int):
    graph = graph_of(gradients(depth))
    given = list(range(len(graph.instructions)))
    order, peak = schedule(graph)
    assert sorted(order) == given and peak == peak_bytes(graph, order)
    # the activations of all layers, a gradient and what is computed from both; in post-order, all gradients as well
    assert peak <= (depth + 2) * ARRAY + 4096
    assert peak_bytes(graph, given) >= (2 * depth - 1) * ARRAY


def test_a_value_that_is_computed_again_is_computed_late():
    text = f"""HloModule again
ENTRY main {{ x = f32[256,256] parameter(0)
  small = f32[256,256] parameter(1)
  again = f32[256,256] exponential(small)
  {dot("a", "x", "x")}
  {dot("b", "a", "a")}
  {dot("c", "b", "b")}
  {dot("r", "again", "c")}
  ROOT s = f32[256,256] dot(r, x), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"""
    graph = graph_of(text)
    order, peak = schedule(graph)
    assert peak == 3 * ARRAY and peak_bytes(graph, list(range(len(order)))) == 3 * ARRAY
    assert names(graph, order).index("again") < names(graph, order).index("r")


def test_an_update_waits_for_the_other_readers_of_its_operand():
    text = """HloModule update
ENTRY main { x = f32[256,256] parameter(0)  i = s32[] parameter(1)  zero = s32[] constant(0)
  row = f32[1,256] parameter(2)
  a = f32[256,256] tanh(x)
  u = f32[256,256] dynamic-update-slice(a, row, i, zero)
  e = f32[256,256] exponential(a)
  ROOT r = (f32[256,256], f32[256,256]) tuple(u, e) }"""
    graph = graph_of(text)
    order = names(graph, schedule(graph)[0])
    assert order.index("e") < order.index("u")


def test_an_update_runs_although_a_reader_of_its_operand_needs_its_result():
    text = """HloModule update
ENTRY main { x = f32[256,256] parameter(0)  i = s32[] parameter(1)  zero = s32[] constant(0)
  row = f32[1,256] parameter(2)
  a = f32[256,256] tanh(x)
  u = f32[256,256] dynamic-update-slice(a, row, i, zero)
  ROOT e = f32[256,256] add(a, u) }"""
    graph = graph_of(text)
    order = names(graph, schedule(graph)[0])
    assert order[-2:] == ["u", "e"]


def test_a_result_in_a_donated_argument_waits_for_the_other_readers_of_that_argument():
    text = f"""HloModule donated
ENTRY main {{ w = f32[256,256] parameter(0)  y = f32[256,256] parameter(1)
  new = f32[256,256] subtract(w, y)
  {dot("a", "w", "y")}
  {dot("b", "a", "y")}
  ROOT r = (f32[256,256], f32[256,256]) tuple(new, b) }}"""
    free, donated = graph_of(text), graph_of(text, ["w"])
    assert names(donated, schedule(donated)[0]) == ["w", "y", "a", "new", "b", "r"]
    assert names(free, schedule(free)[0]) == ["w", "y", "new", "a", "b", "r"]


def test_control_edges_are_kept():
    text = f"""HloModule edges
ENTRY main {{ x = f32[256,256] parameter(0)
  {dot("c", "x", "x")}
  {dot("b", "x", "x")}, control-predecessors={{c}}
  s = f32[256,256] add(b, c)
  ROOT r = f32[256,256] dot(s, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}} }}"""
    graph = graph_of(text)
    order = names(graph, schedule(graph)[0])
    assert order.index("c") < order.index("b")


@pytest.mark.parametrize("seed", range(20))
def test_orders_of_random_graphs_are_valid_deterministic_and_not_worse_than_the_given_one(seed: int):
    draw = random.Random(seed)
    lines = ["v0 = f32[256,256] parameter(0)"]
    for n in range(1, 40):
        left, right = f"v{draw.randrange(max(0, n - 12), n)}", f"v{draw.randrange(n)}"
        is_sum = draw.random() < 0.4
        lines.append(f"v{n} = f32[256,256] add({left}, {right})" if is_sum else dot(f"v{n}", left, right))
    lines.append(f"ROOT r = (f32[256,256], f32[256,256]) tuple(v39, v{draw.randrange(39)})")
    graph = graph_of("HloModule random\nENTRY main {\n" + "\n".join(lines) + "\n}")
    order, peak = schedule(graph)
    places = {node: place for place, node in enumerate(order)}
    assert sorted(order) == list(range(len(graph.instructions)))
    assert all(places[o] < places[n] for n, others in enumerate(graph.dependencies) for o in others)
    assert schedule(graph)[0] == order
    assert peak == peak_bytes(graph, order) <= peak_bytes(graph, range(len(order)))


def test_a_loop_defines_only_the_arrays_of_its_state_that_it_changes():
    """The other arrays are those of its operand: of the parameter, and of the dot before it."""
    text = f"""HloModule loop
        state {{ s = (s32[], f32[256,256], f32[256,256]) parameter(0)
          n = s32[] get-tuple-element(s), index=0
          changed = f32[256,256] get-tuple-element(s), index=1
          kept = f32[256,256] get-tuple-element(s), index=2
          one = s32[] constant(1)
          next = s32[] add(n, one)
          sum = f32[256,256] add(changed, kept)
          ROOT r = (s32[], f32[256,256], f32[256,256]) tuple(next, sum, kept) }}
        condition {{ s = (s32[], f32[256,256], f32[256,256]) parameter(0)
          n = s32[] get-tuple-element(s), index=0
          end = s32[] constant(3)
          ROOT r = pred[] compare(n, end), direction=LT }}
        ENTRY main {{ x = f32[256,256] parameter(0)
          zero = s32[] constant(0)
          {dot("a", "x", "x")}
          {dot("b", "a", "x")}
          start = (s32[], f32[256,256], f32[256,256]) tuple(zero, a, b)
          w = (s32[], f32[256,256], f32[256,256]) while(start), condition=condition, body=state
          ROOT r = f32[256,256] get-tuple-element(w), index=1 }}"""
    graph = graph_of(text)
    loop = [instruction.name for instruction in graph.instructions].index("w")
    assert sorted(graph.sizes[value] for value in graph.defines[loop]) == [64, ARRAY]
    live = dict(
        zip(names(graph, list(range(len(graph.defines)))), live_bytes(graph, range(len(graph.defines))), strict=True)
    )
    assert live["w"] // ARRAY == 2
