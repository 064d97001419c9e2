"""Random numbers on cpu equal the interpreter's and are drawn natively, also in loops and branches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from xlapy.base import flags
from xlapy.base.errors import UnsupportedError
from xlapy.base.flags import Flags

INTERPRETER = xla.Client("interpreter")
CPU = xla.Client("cpu")


def results(client: xla.Client, text: str, *arguments: Any) -> list[np.ndarray]:
    given = client.compile(text)(*arguments)
    return [np.asarray(value) for value in (given if isinstance(given, tuple) else (given,))]


def assert_same(text: str, *arguments: Any) -> list[np.ndarray]:
    ours, theirs = results(CPU, text, *arguments), results(INTERPRETER, text, *arguments)
    assert [a.tobytes() for a in ours] == [b.tobytes() for b in theirs]
    return ours


LOOP = """
HloModule walk
body {
  s = (s32[], f32[5], u64[2]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  sum = f32[5] get-tuple-element(s), index=1
  one = s32[] constant(1)
  next = s32[] add(n, one)
  low = f32[] constant(-1)
  high = f32[] constant(3)
  step = f32[5] rng(low, high), distribution=rng_uniform
  walked = f32[5] add(sum, step)
  state = u64[2] rng-get-and-update-state(), delta=7, control-predecessors={step}
  ROOT r = (s32[], f32[5], u64[2]) tuple(next, walked, state)
}
condition {
  s = (s32[], f32[5], u64[2]) parameter(0)
  n = s32[] get-tuple-element(s), index=0
  rounds = s32[] constant(100)
  ROOT r = pred[] compare(n, rounds), direction=LT
}
ENTRY main {
  n = s32[] constant(0)
  start = f32[5] parameter(0)
  state = u64[2] constant({0, 0})
  s = (s32[], f32[5], u64[2]) tuple(n, start, state)
  w = (s32[], f32[5], u64[2]) while(s), condition=condition, body=body
  after = u64[2] rng-get-and-update-state(), delta=1, control-predecessors={w}
  walked = f32[5] get-tuple-element(w), index=1
  last = u64[2] get-tuple-element(w), index=2
  ROOT r = (f32[5], u64[2], u64[2]) tuple(walked, last, after)
}
"""


def test_every_round_of_a_loop_draws_other_numbers():
    walked, last, after = assert_same(LOOP, np.zeros(5, np.float32))
    assert np.all(np.abs(walked - 100) < 6 * np.sqrt(100 * 16 / 12)) and len(set(walked.tolist())) == 5
    assert after[0] - last[0] == 7 and after[0] == 0x7012395 + 100 * (2 + 7)


def test_only_the_branch_that_is_taken_draws():
    text = """
    HloModule either
    few { p = f32[] parameter(0)  b = f32[] constant(1)  ROOT r = f32[9] rng(p, b), distribution=rng_uniform }
    many {
      p = f32[] parameter(0)
      b = f32[] constant(1)
      x = f32[90] rng(p, b), distribution=rng_uniform
      ROOT r = f32[9] slice(x), slice={[50:59]}
    }
    ENTRY main {
      which = pred[] parameter(0)
      zero = f32[] constant(0)
      x = f32[9] conditional(which, zero, zero), true_computation=few, false_computation=many
      s = u64[2] rng-get-and-update-state(), delta=1, control-predecessors={x}
      ROOT r = (f32[9], u64[2]) tuple(x, s)
    }
    """
    for which, blocks in ((True, 3), (False, 23)):
        _, state = assert_same(text, np.array(which))
        assert state[0] == 0x7012395 + blocks


@pytest.mark.parametrize("delta", [0, -1, -(2**63), 2**63 - 1])
def test_the_counter_has_128_bits_and_moves_both_ways(delta: int):
    first = f"a = u64[2] rng-get-and-update-state(), delta={delta}"
    then = f"b = u64[2] rng-get-and-update-state(), delta={2**63 - 1}, control-predecessors={{a}}"
    last = "c = u64[2] rng-get-and-update-state(), delta=1, control-predecessors={b}"
    states = assert_same(f"HloModule m ENTRY main {{ {first} {then} {last} ROOT r = (u64[2], u64[2]) tuple(b, c) }}")
    start = 0x7012395 + delta
    for state, expected in zip(states, (start, start + 2**63 - 1), strict=True):
        assert state.tolist() == [expected % 2**64, (expected >> 64) % 2**64]


NORMAL = """
HloModule numbers
ENTRY main {
  mean = f32[] constant(2)
  deviation = f32[] constant(0.5)
  ROOT r = f32[300,101] rng(mean, deviation), distribution=rng_normal
}
"""


def test_normal_numbers_of_a_run_and_of_another_seed(monkeypatch: pytest.MonkeyPatch):
    program = CPU.compile(NORMAL)
    numbers = np.asarray(program())
    assert np.array_equal(numbers, np.asarray(program()))
    assert abs(numbers.mean() - 2) < 0.02 and abs(numbers.std() - 0.5) < 0.01
    np.testing.assert_allclose(numbers, results(INTERPRETER, NORMAL)[0], rtol=3e-7)
    monkeypatch.setattr(flags, "current", lambda: Flags({"rng_seed": 5}))
    assert not np.any(np.isclose(numbers, np.asarray(program()), rtol=1e-6).all(axis=1))


def test_replicas_draw_numbers_of_their_own():
    text = NORMAL.replace("HloModule numbers", "HloModule numbers, replica_count=2")
    ours, theirs = (
        [np.asarray(value) for value in xla.Client(platform, devices=2).compile(text).execute_sharded([[], []])]
        for platform in ("cpu", "interpreter")
    )
    for mine, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, other, rtol=3e-7)
    assert not np.any(ours[0] == ours[1])


DRAWING = """
HloModule m
noise { x = f32[] parameter(0)  one = f32[] constant(1)  ROOT r = f32[] rng(x, one), distribution=rng_uniform }
ENTRY main {
  p = f32[4] parameter(0)
  zero = f32[] constant(0)
  one = f32[] constant(1)
  a = f32[3] rng(zero, one), distribution=rng_uniform
  b = f32[4] map(p), dimensions={0}, to_apply=noise
  c = f32[3] rng(zero, one), distribution=rng_uniform
  ROOT r = (f32[3], f32[4], f32[3]) tuple(a, b, c)
}
"""


def test_numbers_inside_of_computations_of_elements_go_on_with_the_same_counter():
    limits = np.array([0, 0.5, 0.2, 0.1], np.float32)
    program = CPU.compile(DRAWING)
    expected = results(INTERPRETER, DRAWING, limits)
    for again in (program, CPU.deserialize(program.serialize())):
        for ours, theirs in zip(again(limits), expected, strict=True):
            np.testing.assert_array_equal(np.asarray(ours), theirs)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "x = f32[4] parameter(0) b = u32[4] parameter(1) ROOT r = f16[4] stochastic-convert(x, b)",
            "converts to signed",
        ),
        (
            "s = u32[4] parameter(0) ROOT r = (u32[4], u32[7]) rng-bit-generator(s), algorithm=rng_default",
            "takes a state of",
        ),
    ],
)
def test_undefined_forms_are_rejected_at_compile_time(text: str, message: str):
    with pytest.raises(UnsupportedError, match=message):
        CPU.compile(f"HloModule m\nENTRY e {{ {text} }}")
