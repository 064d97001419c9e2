"""Starts run as soon as they can, dones when nothing else can, and both in an order that keeps all dependences."""

from __future__ import annotations

import numpy as np
import pytest

import xlapy as xla
from xlapy.cpu.transforms.order_side_effects import OrderSideEffects
from xlapy.cpu.transforms.overlap_exchanges import OverlapExchanges
from xlapy.hlo.module import Module
from xlapy.passes.pipeline import Pipeline

HEAD = """HloModule m, replica_count=2, is_scheduled=true
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e { x = f32[8] parameter(0) """


def all_reduce(name: str, operand: str) -> str:
    """The start and the done of an all-reduce: `name`s and `name`d."""
    start = f"{name}s = f32[8] all-reduce-start({operand}), replica_groups={{}}, to_apply=add\n"
    return f"{start} {name}d = f32[8] all-reduce-done({name}s)\n"


def order(lines: str) -> list[str]:
    module = xla.parse_hlo(f"{HEAD}{lines} }}", verify=True)
    before = [instruction.name for instruction in module.entry_computation]
    changed = OverlapExchanges().run(module)
    found = [instruction.name for instruction in module.entry_computation]
    assert changed == (found != before)
    places = {name: place for place, name in enumerate(found)}
    for instruction in module.entry_computation:
        for other in (*instruction.operands, *instruction.control_predecessors):
            assert places[other.name] < places[instruction.name]
    return found


def test_what_does_not_depend_on_a_done_runs_before_it() -> None:
    lines = f"{all_reduce('p', 'x')} q = f32[8] sine(x) r = f32[8] cosine(q) ROOT t = f32[8] add(pd, r)"
    assert order(lines) == ["x", "ps", "q", "r", "pd", "t"]


def test_what_leads_to_a_start_runs_first() -> None:
    lines = f"q = f32[8] sine(x) r = f32[8] cosine(x) {all_reduce('p', 'r')} ROOT t = f32[8] add(pd, q)"
    assert order(lines) == ["x", "r", "ps", "q", "pd", "t"]


def test_a_chain_of_exchanges_has_its_computations_in_between() -> None:
    lines = f"""{all_reduce("p", "x")} u = f32[8] sine(x) {all_reduce("q", "pd")} v = f32[8] sine(pd)
  w = f32[8] add(u, v) ROOT t = f32[8] add(w, qd)"""
    assert order(lines) == ["x", "ps", "u", "pd", "qs", "v", "w", "qd", "t"]


def test_several_are_pending_at_once() -> None:
    lines = f"{all_reduce('p', 'x')} {all_reduce('q', 'x')} ROOT t = f32[8] add(pd, qd)"
    assert order(lines) == ["x", "ps", "qs", "pd", "qd", "t"]


def test_other_computations_keep_their_order() -> None:
    lines = "q = f32[8] sine(x) r = f32[8] cosine(x) u = f32[8] tan(x) v = f32[8] add(u, q) ROOT t = f32[8] add(v, r)"
    assert order(lines) == ["x", "q", "r", "u", "v", "t"]


def ordered(lines: str) -> Module:
    module = xla.parse_hlo(f"{HEAD.replace(', is_scheduled=true', '')}{lines} }}", verify=True)
    Pipeline([OrderSideEffects()]).run(module)
    return module


def test_side_effects_need_not_follow_a_done() -> None:
    """The second start follows the first one, not its done; the first done follows no later side effect."""
    entry = ordered(f"{all_reduce('p', 'x')} {all_reduce('q', 'x')} ROOT t = f32[8] add(pd, qd)").entry_computation
    before = {instruction.name: [one.name for one in instruction.control_predecessors] for instruction in entry}
    assert before == {"x": [], "ps": [], "pd": [], "qs": ["ps"], "qd": [], "t": []}


def test_a_done_follows_the_side_effects_before_it() -> None:
    """Others may wait for them before they send."""
    entry = ordered(
        f"ps = f32[8] all-reduce-start(x), replica_groups={{}}, to_apply=add\n"
        f"{all_reduce('q', 'x')} pd = f32[8] all-reduce-done(ps) ROOT t = f32[8] subtract(qd, pd)"
    ).entry_computation
    before = {instruction.name: [one.name for one in instruction.control_predecessors] for instruction in entry}
    assert before["ps"] == ["qs"] and before["qd"] == [] and before["pd"] == []


@pytest.mark.parametrize("size", [1, 100_000])
@pytest.mark.parametrize("donated", [(), (0,)])
def test_donated_operands_are_overwritten_after_the_exchange(size: int, donated: tuple[int, ...]) -> None:
    """Results may be computed in the memory of the operand, which others read until the done."""
    text = HEAD.replace(", is_scheduled=true", "") + (
        f"{all_reduce('p', 'x')} q = f32[8] sine(x) r = f32[8] cosine(q) ROOT t = (f32[8], f32[8]) tuple(r, pd) }}"
    )
    module = xla.parse_hlo(text.replace("f32[8]", f"f32[{size}]").replace("replica_count=2", "replica_count=4"))
    values = [np.linspace(device, device + 1, size, dtype=np.float32) for device in range(4)]
    found = []
    for platform, given in (("cpu", donated), ("interpreter", ())):
        client = xla.Client(platform, devices=4)
        results = client.compile(module, donate=given).execute_sharded([[value] for value in values])
        found.append([[np.asarray(array) for array in result] for result in results])
    for own, expected in zip(*found, strict=True):
        np.testing.assert_allclose(own[0], expected[0], rtol=1e-6)
        assert own[1].tobytes() == expected[1].tobytes()
