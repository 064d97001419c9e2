"""Estimates of work have the right order of magnitude."""

from __future__ import annotations

import pytest

from tests.passes.runner import program
from xlapy.analysis.cost import element_count
from xlapy.analysis.cost.evaluation import estimated_work
from xlapy.base.shape import Shape
from xlapy.text import parse_hlo


@pytest.mark.parametrize(
    ("line", "low", "high"),
    [
        ("negate(x)", 8192, 20_000),
        ("dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}", 262_144, 300_000),
        ("reduce-window(x, z), window={size=8x8 pad=4_3x4_3}, to_apply=plus", 262_144, 3_000_000),
        ("cholesky(x)", 262_144, 300_000),
        ("map(x, x), dimensions={0,1}, to_apply=plus", 24_000, 200_000),
    ],
)
def test_estimates(line: str, low: int, high: int) -> None:
    plus = "plus { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }"
    text = program("x = f32[64,64] parameter(0)", "z = f32[] constant(0)", f"ROOT r = f32[64,64] {line}", before=plus)
    assert low <= estimated_work(parse_hlo(text).entry_computation.root_instruction) <= high


def test_elements_of_tuples_are_added_up() -> None:
    assert element_count(Shape.parse("((f32[2,3], s32[]), token[], f32[0])")) == 7
