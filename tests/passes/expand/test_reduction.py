"""Expansion of select-and-scatter into windows and a scatter, and of scan into a loop."""

from __future__ import annotations

import pytest

from tests.passes.runner import assert_unchanged, program, rewritten

FUNCTIONS = """
choose {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT r = pred[] compare(a, b), direction=DIRECTION
}

combine {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  d = f32[] subtract(a, b)
  two = f32[] constant(2)
  ROOT r = f32[] multiply(d, two)
}
"""

STEP = """
step {
  x = f32[0,2] parameter(0)
  c = (s32[], f32[]) parameter(1)
  n = f32[0,2] negate(x)
  ROOT r = (f32[0,2], (s32[], f32[])) tuple(n, c)
}
"""


@pytest.mark.parametrize("direction", ["GE", "LT", "NE"])
def test_windows_that_share_elements_combine_in_order(direction):
    text = program(
        "p = f32[6,7] parameter(0)",
        "s = f32[4,4] parameter(1)",
        "i = f32[] parameter(2)",
        "ROOT r = f32[6,7] select-and-scatter(p, s, i), window={size=3x3 stride=2x2 pad=2_2x1_2}, "
        "select=choose, scatter=combine",
        before=FUNCTIONS.replace("DIRECTION", direction),
    )
    assert "call(" not in rewritten(text, "expand{ops=select-and-scatter}")


def test_a_scalar_is_its_own_window():
    text = program(
        "p = f32[] parameter(0)",
        "s = f32[] parameter(1)",
        "i = f32[] parameter(2)",
        "ROOT r = f32[] select-and-scatter(p, s, i), window={}, select=choose, scatter=combine",
        before=FUNCTIONS.replace("DIRECTION", "GE"),
    )
    rewritten(text, "expand{ops=select-and-scatter}")


@pytest.mark.parametrize("length", [0, 3])
def test_a_scan_of_empty_slices_carries_tuples(length):
    shape = f"f32[0,{length},2]"
    text = program(
        f"p = {shape} parameter(0)",
        "c = (s32[], f32[]) parameter(1)",
        f"ROOT r = ({shape}, (s32[], f32[])) scan(p, c), dimensions={{1}}, num_carries=1, is_reverse=true, "
        "to_apply=step",
        before=STEP,
    )
    assert " scan(" not in rewritten(text, "expand{ops=scan}")


def test_dynamic_dimensions_stay():
    text = program(
        "p = f32[<=6] parameter(0)",
        "s = f32[<=3] parameter(1)",
        "i = f32[] parameter(2)",
        "ROOT r = f32[<=6] select-and-scatter(p, s, i), window={size=2 stride=2}, select=choose, scatter=combine",
        before=FUNCTIONS.replace("DIRECTION", "GE"),
    )
    assert_unchanged(text, "expand{ops=select-and-scatter}")
