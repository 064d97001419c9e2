"""Custom calls run in the order in which the interpreter runs them, whatever is removed or rewritten before."""

from __future__ import annotations

import random

import numpy as np
import pytest

import xlapy as xla

CALLED: list[int] = []


def note(number: np.ndarray, _: np.ndarray) -> np.ndarray:
    CALLED.append(int(number))
    return np.float32(number)


@pytest.fixture(autouse=True)
def target():
    xla.register_custom_call_target("note_order", note, platform="interpreter")
    xla.register_custom_call_target("note_order", note, platform="cpu")
    CALLED.clear()
    yield
    for platform in ("interpreter", "cpu"):
        xla.unregister_custom_call_target("note_order", platform=platform)


def call(number: int, operand: str) -> str:
    return f"""n{number} = s32[] constant({number})
  c{number} = f32[] custom-call(n{number}, {operand}), custom_call_target="note_order", custom_call_has_side_effect=true
  """


def orders(text: str) -> tuple[list[int], list[int]]:
    """Returns the numbers of the calls in the order of the interpreter, and in that of cpu."""
    found: list[list[int]] = []
    for platform in ("interpreter", "cpu"):
        CALLED.clear()
        executable = xla.Client(platform).compile(text)
        xla.block_until_ready(executable(*[np.float32(1)] * len(executable.program_shape.parameters)))
        found.append(list(CALLED))
    return found[0], found[1]


def test_dead_code_takes_part_in_the_order():
    """The unused sum is visited first, and with it the second call."""
    text = f"""HloModule m
ENTRY e {{ x = f32[] parameter(0)
  {call(1, "x")}{call(2, "x")}dead = f32[] add(c2, c2)
  ROOT r = (f32[], f32[]) tuple(c1, c2) }}"""
    assert orders(text) == ([2, 1], [2, 1])


def test_dead_code_takes_part_in_the_order_of_calls_and_loops():
    text = f"""HloModule m
inner {{ x = f32[] parameter(0)
  {call(3, "x")}{call(4, "x")}dead = f32[] negate(c4)
  ROOT r = f32[] add(c3, c4) }}
next {{ s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  {call(5, "v")}w = f32[] call(v), to_apply=inner
  unused = f32[] multiply(w, w)
  both = f32[] add(c5, w)
  ROOT r = (s32[], f32[]) tuple(j, both) }}
below {{ s = (s32[], f32[]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  two = s32[] constant(2)
  ROOT r = pred[] compare(i, two), direction=LT }}
ENTRY e {{ x = f32[] parameter(0)
  zero = s32[] constant(0)
  {call(1, "x")}start = (s32[], f32[]) tuple(zero, x)
  loop = (s32[], f32[]) while(start), condition=below, body=next
  {call(2, "x")}last = f32[] get-tuple-element(loop), index=1
  dead = f32[] subtract(c2, last)
  ROOT r = (f32[], f32[], f32[]) tuple(c1, last, c2) }}"""
    interpreted, compiled = orders(text)
    assert interpreted == compiled
    assert interpreted[:3] == [2, 4, 3]


def random_module(seed: int) -> str:
    """Calls that use each other's results or not, with arithmetic in between, most of it dead."""
    choose = random.Random(seed)
    values = ["x"]
    lines: list[str] = []
    for number in range(12):
        if choose.random() < 0.6:
            lines.append(call(number, choose.choice(values)).rstrip())
            values.append(f"c{number}")
        else:
            lines.append(f"a{number} = f32[] add({choose.choice(values)}, {choose.choice(values)})")
            values.append(f"a{number}")
    results = choose.sample(values, min(len(values), 3))
    body = "\n  ".join(lines)
    return f"""HloModule m
ENTRY e {{ x = f32[] parameter(0)
  {body}
  ROOT r = ({", ".join(["f32[]"] * len(results))}) tuple({", ".join(results)}) }}"""


@pytest.mark.parametrize("seed", range(12))
def test_random_modules(seed: int):
    interpreted, compiled = orders(random_module(seed))
    assert interpreted == compiled
