"""Trip counts that counters bound."""

from __future__ import annotations

from math import inf

import pytest

from xlapy.analysis.cost.duration import is_long_running
from xlapy.analysis.counted_loops import estimated_trip_count
from xlapy.text import parse_hlo

LOOP = """
compared {{ a = s32[] parameter(0) n = s32[] constant(20) ROOT b = pred[] compare(a, n), direction=LT }}
step {{
  s = (s32[], f32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  error = f32[] get-tuple-element(s), index=1
  n = s32[] get-tuple-element(s), index=2
  smaller = f32[] multiply(error, error)
  c = s32[] constant({step})
  next = s32[] {next}
  ROOT t = (s32[], f32[], s32[]) tuple(next, smaller, n)
}}
condition {{
  s = (s32[], f32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  error = f32[] get-tuple-element(s), index=1
  n = s32[] get-tuple-element(s), index=2
  tolerance = f32[] constant(1e-6)
  c = s32[] constant({limit})
  {condition}
}}
ENTRY e {{
  x = f32[] parameter(0)
  n = s32[] parameter(1)
  first = s32[] {first}
  s = (s32[], f32[], s32[]) tuple(first, x, n)
  ROOT w = (s32[], f32[], s32[]) while(s), condition=condition, body=step
}}
"""
UP = {"step": 1, "next": "add(i, c)", "limit": 20, "first": "constant(0)"}
DOWN = {"step": 1, "next": "subtract(i, c)", "limit": 0, "first": "constant(30)"}
LESS = "ROOT less = pred[] compare(i, c), direction=LT"
MORE = "ROOT more = pred[] compare(i, c), direction=GT"
LARGE_ERROR = "large = pred[] compare(error, tolerance), direction=GT"


@pytest.mark.parametrize(
    ("parts", "condition", "expected"),
    [
        (UP, LESS, 20),
        (UP, LESS.replace("LT", "LE"), 21),
        (UP, LESS.replace("LT", "NE"), 20),
        (UP, "ROOT less = pred[] compare(c, i), direction=GT", 20),
        (UP | {"step": 3}, LESS, 7),
        (UP | {"step": 3, "next": "add(c, i)"}, LESS, 7),
        (UP | {"first": "constant(18)"}, LESS, 2),
        (UP | {"first": "constant(50)"}, LESS, 0),
        (UP | {"first": "negate(n)"}, LESS, 20),
        (UP | {"step": -1}, LESS, inf),
        (UP | {"step": 0}, LESS, inf),
        (UP | {"next": "multiply(i, c)"}, LESS, inf),
        (UP | {"next": "add(i, n)"}, LESS, inf),
        (UP, "ROOT less = pred[] compare(i, n), direction=LT", inf),
        (UP, LESS.replace("LT", "EQ"), inf),
        (UP, "ROOT not = pred[] constant(true)", inf),
        (UP, f"ROOT {LARGE_ERROR}", inf),
        (UP | {"limit": 0}, f"zero = s32[] constant(5)\n ROOT {LARGE_ERROR}", inf),
        (UP, f"{LARGE_ERROR}\n {LESS[5:]}\n ROOT both = pred[] and(large, less)", 20),
        (UP, f"{LARGE_ERROR}\n {LESS[5:]}\n b = pred[] and(less, large)\n ROOT both = pred[] and(b, b)", 20),
        (UP, f"{LARGE_ERROR}\n {LESS[5:]}\n ROOT either = pred[] or(large, less)", inf),
        (UP, "ROOT less = pred[] fusion(i), kind=kLoop, calls=compared", 20),
        (UP, "ROOT less = pred[] call(i), to_apply=compared", 20),
        (UP, "j = s64[] convert(i)\n m = s64[] constant(7)\n ROOT less = pred[] compare(j, m), direction=LT", 7),
        (DOWN, MORE, 30),
        (DOWN, MORE.replace("GT", "GE"), 31),
        (DOWN, MORE.replace("GT", "NE"), 30),
        (DOWN | {"first": "copy(n)"}, MORE, inf),
        (DOWN | {"first": "constant(-3)"}, MORE, 0),
        (DOWN | {"next": "add(i, c)"}, MORE, inf),
        (DOWN | {"next": "add(i, c)", "step": -4}, MORE, 8),
    ],
)
def test_bounds(parts, condition, expected):
    module = parse_hlo(LOOP.format(**parts, condition=condition))
    assert estimated_trip_count(module.entry_computation.root_instruction) == expected
    assert is_long_running(module) is (expected == inf)


def test_conditions_that_share_are_looked_at_once():
    joined = "\n".join(f"b{n} = pred[] and(b{n - 1}, b{n - 1})" for n in range(1, 60))
    condition = f"{LESS[5:].replace('less', 'b0')}\n {joined}\n ROOT all = pred[] and(b59, b59)"
    loop = parse_hlo(LOOP.format(**UP, condition=condition)).entry_computation.root_instruction
    assert estimated_trip_count(loop) == 20


NESTED = """
outer { s = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1)
  j = s32[] add(i, one) zero = s32[] constant(0) w = (s32[]) tuple(zero) v = (s32[]) while(w), condition=most, body=next
  k = s32[] get-tuple-element(v), index=0 ROOT t = (s32[], s32[]) tuple(j, k) }
next { s = (s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 one = s32[] constant(1) j = s32[] add(i, one)
  ROOT t = (s32[]) tuple(j) }
most { s = (s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(COUNT)
  ROOT less = pred[] compare(i, n), direction=LT }
all { s = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0 n = s32[] constant(COUNT)
  ROOT less = pred[] compare(i, n), direction=LT }
ENTRY e { zero = s32[] constant(0) s = (s32[], s32[]) tuple(zero, zero)
  ROOT w = (s32[], s32[]) while(s), condition=all, body=outer }
"""


@pytest.mark.parametrize(("count", "expected"), [(20, False), (300, True)])
def test_nested_loops(count, expected):
    assert is_long_running(parse_hlo(NESTED.replace("COUNT", str(count)))) is expected
