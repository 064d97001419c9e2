"""The time that follows from a cost, on machines of different vectors."""

from __future__ import annotations

import pytest

from xlapy.analysis.cost import Cost, Rates, element_cost
from xlapy.analysis.cost.evaluation import estimated_work
from xlapy.codegen.target import Target
from xlapy.text import parse_hlo

RATES = Rates(
    flops=100.0, transcendentals=10.0, bytes_accessed=50.0, products=400.0, cached_bytes=200.0, cache_bytes=1000
)


@pytest.mark.parametrize(
    ("cost", "microseconds"),
    [
        (Cost(flops=1000), 10.0),
        (Cost(transcendentals=1000), 100.0),
        (Cost(flops=1000, transcendentals=1000), 110.0),
        (Cost(flops=1000, operands=(1000, 500), result=500), 40.0),  # memory and arithmetic overlap
        (Cost(operands=(400,), result=600), 5.0),  # in a cache
        (Cost(flops=1000, products=800), 4.0),
        (Cost(), 0.0),
    ],
)
def test_the_time_of_a_cost(cost: Cost, microseconds: float):
    assert cost.microseconds(RATES) == microseconds


def test_rates_of_a_target_grow_with_its_vectors():
    rates = [Target(vector_bytes, 16).rates for vector_bytes in (16, 32, 64)]
    assert [rate.flops for rate in rates] == [5000.0, 10_000.0, 20_000.0]
    assert [rate.transcendentals for rate in rates] == [125.0, 250.0, 500.0]
    assert len({rate.bytes_accessed for rate in rates}) == 1


def test_evaluation_of_a_dot_counts_its_products():
    text = """HloModule m
ENTRY e { x = f32[8,16] parameter(0)  y = f32[16,4] parameter(1)
  ROOT r = f32[8,4] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0} }"""
    root = parse_hlo(text).entry_computation.root_instruction
    assert estimated_work(root) == 8 * 16 + 16 * 4 + 8 * 4 + 8 * 16 * 4


@pytest.mark.parametrize(
    ("line", "cost"),
    [
        ("f32[8] add(x, x)", 1),
        ("f32[8] divide(x, x)", 8),
        ("f32[8] exponential(x)", 16),
        ("f32[8] power(x, x)", 64),
        ("f32[8] copy(x)", 0),
        ("f32[8] reverse(x), dimensions={0}", 4),
    ],
)
def test_the_cost_of_an_element(line: str, cost: int):
    module = parse_hlo(f"HloModule m\nENTRY e {{ x = f32[8] parameter(0)  ROOT r = {line} }}")
    assert element_cost(module.entry_computation.root_instruction) == cost
