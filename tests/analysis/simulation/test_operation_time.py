"""Kernels whose operations have rates of their own, with times computed by hand.

The machine does 10 operations, 1 function and moves 1e9 bytes in a second, unless a test says otherwise.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from xlapy.analysis.simulation.communication import DeviceCounts
from xlapy.analysis.simulation.machine import Curve, DeviceRates, Level, Link, MachineDescription
from xlapy.analysis.simulation.simulator import simulate
from xlapy.text import parse_hlo

RATES = DeviceRates({"default": Curve.constant(1000.0)}, 10.0, 1.0, Curve.constant(1e9))
MACHINE = MachineDescription("m", RATES, (Level("node", 0, Link(1.0, Curve.constant(40.0))),))


def _seconds(text: str, elements: dict[str, float] | None = None, **rates: object) -> float:
    """Returns the seconds of an entry computation, of which the lines are given."""
    curves = {name: Curve.constant(rate) for name, rate in (elements or {}).items()}
    machine = replace(MACHINE, rates=replace(RATES, elements=curves, **rates))  # type: ignore[arg-type]
    return simulate(parse_hlo(f"HloModule m\n{text}"), machine, DeviceCounts(1, 1)).seconds


FUSED = """f {
  p = f32[8] parameter(0)
  t = f32[8] tanh(p)
  e = f32[8] exponential(t)
  ROOT a = f32[8] add(e, p)
}
ENTRY e { x = f32[8] parameter(0)  ROOT y = f32[8] fusion(x), kind=kLoop, calls=f }"""


def test_functions_with_a_rate_count_by_it_and_others_as_before() -> None:
    """16 functions and 8 additions: 16.8 s; with 4 tanh in a second, 8 / 4 + 8 + 0.8."""
    assert _seconds(FUSED) == pytest.approx(16.8)
    assert _seconds(FUSED, {"tanh": 4.0}) == pytest.approx(10.8)


def test_functions_in_a_row_take_longer_than_by_themselves() -> None:
    """Two functions in a row reach half of the rate: (2 + 2) / 0.5 + 0.8."""
    chains = Curve(((1.0, 1.0), (2.0, 0.5)))
    assert _seconds(FUSED, {"tanh": 4.0, "exponential": 4.0}, chains=chains) == pytest.approx(8.8)
    beside = FUSED.replace("exponential(t)", "exponential(p)").replace("add(e, p)", "add(e, t)")
    assert _seconds(beside, {"tanh": 4.0, "exponential": 4.0}, chains=chains) == pytest.approx(4.8)


def test_elements_of_more_than_four_bytes_count_as_several() -> None:
    text = "ENTRY e { x = f32[8] parameter(0)  ROOT y = f32[8] tanh(x) }"
    assert _seconds(text, {"tanh": 4.0}) == pytest.approx(2)
    assert _seconds(text.replace("f32", "f64"), {"tanh": 4.0}) == pytest.approx(4)
    assert _seconds(text.replace("f32", "bf16"), {"tanh": 4.0}) == pytest.approx(2)


SORT = """less { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT }
ENTRY e { x = f32[4,100] parameter(0)  ROOT y = f32[4,100] sort(x), dimensions={1}, to_apply=less }"""


def test_sorts_by_the_length_of_rows() -> None:
    """400 elements: 400 * 9 comparisons without a rate; the rate is that of rows of 100."""
    assert _seconds(SORT) == pytest.approx(360)
    rates = replace(RATES, elements={"sort": Curve(((10.0, 1000.0), (100.0, 100.0), (400.0, 1.0)))})
    machine = replace(MACHINE, rates=rates)
    assert simulate(parse_hlo(f"HloModule m\n{SORT}"), machine, DeviceCounts(1, 1)).seconds == pytest.approx(4)


def test_an_update_of_an_argument_copies_it_unless_it_is_donated() -> None:
    """1,000 bytes copied take 2,000 / 100 s; the update reads 40 + 40 bytes and the index, and writes 40."""
    text = """ENTRY e {
  x = f32[250] parameter(0)
  u = f32[10] parameter(1)
  i = s32[] parameter(2)
  ROOT y = f32[250] dynamic-update-slice(x, u, i)
}"""
    kept = _seconds(text, bandwidth=Curve.constant(100.0))
    assert kept == pytest.approx(20 + (40 + 4 + 40) / 100)
    machine = replace(MACHINE, rates=replace(RATES, bandwidth=Curve.constant(100.0)))
    donated = parse_hlo(f"HloModule m, input_output_alias={{ {{}}: (0, {{}}, may-alias) }}\n{text}")
    assert simulate(donated, machine, DeviceCounts(1, 1)).seconds == pytest.approx(0.84)


CUMULATIVE = """add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[2,100] parameter(0)
  z = f32[] constant(0)
  ROOT y = f32[2,100] reduce-window(x, z), window={size=1x100 pad=0_0x99_0}, to_apply=add
}"""


def test_cumulative_sums_take_one_operation_per_element() -> None:
    assert _seconds(CUMULATIVE) == pytest.approx(20)
    assert _seconds(CUMULATIVE, {"reduce-window": 50.0}) == pytest.approx(4)
    pooled = CUMULATIVE.replace("1x100 pad=0_0x99_0", "1x3 pad=0_0x1_1")
    assert _seconds(pooled, {"reduce-window": 50.0}) == pytest.approx(200 * 2 / 10)


def test_a_rotation_of_bits_is_one_operation_and_a_reshape_none() -> None:
    text = """f {
  p = u32[20] parameter(0)
  n = u32[] constant(13)
  ns = u32[20] broadcast(n), dimensions={}
  m = u32[] constant(19)
  ms = u32[20] broadcast(m), dimensions={}
  l = u32[20] shift-left(p, ns)
  r = u32[20] shift-right-logical(p, ms)
  ROOT o = u32[20] or(l, r)
}
ENTRY e {
  x = u32[20] parameter(0)
  y = u32[20] fusion(x), kind=kLoop, calls=f
  ROOT z = u32[4,5] reshape(y)
}"""
    assert _seconds(text) == pytest.approx(2)
    assert _seconds(text.replace("shift-right-logical(p, ms)", "shift-right-logical(ns, ms)")) == pytest.approx(6)


def test_devices_that_exchange_data_are_woken() -> None:
    machine = replace(MACHINE, wake_up=5.0, launch=1.0)
    alone = parse_hlo("HloModule m, replica_count=2\nENTRY e { x = f32[10] parameter(0)  ROOT y = f32[10] negate(x) }")
    assert simulate(alone, machine, DeviceCounts(2, 1)).launch == pytest.approx(2)
    together = parse_hlo(
        "HloModule m, replica_count=2\nENTRY e { x = f32[10] parameter(0)  ROOT y = f32[20] all-gather(x), "
        "replica_groups={}, dimensions={0} }"
    )
    assert simulate(together, machine, DeviceCounts(2, 1)).launch == pytest.approx(7)
