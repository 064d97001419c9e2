"""Checks for NaN and infinity: both platforms name the instruction that produces one, and the loop iteration."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from xlapy.base import flags
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.error_codes.interfaces import commands as commands_codes
from xlapy.base.errors import ExecutionError, UnsupportedError
from xlapy.interpreter.checks import NO_CHECKS
from xlapy.testing.random_arguments import random_arguments
from xlapy.testing.random_modules import random_module
from xlapy.testing.samples import samples_of

PLATFORMS = ("interpreter", "cpu")

LOOPS = """HloModule m
inner_body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  step = f32[] constant(1)
  steps = f32[4] broadcast(step), dimensions={}
  d = f32[4] subtract(v, steps), metadata={source_file="model.py" source_line=7}
  q = f32[4] sqrt(d), metadata={source_file="model.py" source_line=9}
  back = f32[4] multiply(q, q)
  ROOT t = (s32[], f32[4]) tuple(j, back)
}
inner_condition {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(10)
  ROOT c = pred[] compare(i, n), direction=LT
}
outer_body {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  v = f32[4] get-tuple-element(s), index=1
  one = s32[] constant(1)
  j = s32[] add(i, one)
  k = s32[] constant(0)
  state = (s32[], f32[4]) tuple(k, v)
  inner = (s32[], f32[4]) while(state), condition=inner_condition, body=inner_body
  w = f32[4] get-tuple-element(inner), index=1
  ROOT t = (s32[], f32[4]) tuple(j, w)
}
outer_condition {
  s = (s32[], f32[4]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] parameter_count
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY main {
  x = f32[4] parameter(0)
  k = s32[] constant(0)
  s = (s32[], f32[4]) tuple(k, x)
  outer = (s32[], f32[4]) while(s), condition=outer_condition, body=outer_body
  ROOT r = f32[4] get-tuple-element(outer), index=1
}
""".replace("parameter_count", "constant(3)")

MAXIMUM = """HloModule m
larger { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] maximum(a, b) }
ENTRY main {
  x = f32[4] parameter(0)
  least = f32[] constant(-inf)
  m = f32[] reduce(x, least), dimensions={0}, to_apply=larger
  wide = f32[4] broadcast(m), dimensions={}
  d = f32[4] subtract(x, wide)
  ROOT e = f32[4] divide(x, d)
}
"""


def failure(platform: str, text: str, *arguments: Any, **checks: bool) -> str:
    with raises(ExecutionError, codes.INVALID_VALUE) as caught:
        xla.Client(platform).compile(text, **checks)(*arguments)
    return caught.value.message


@pytest.mark.parametrize("platform", PLATFORMS)
def test_errors_name_loop_iterations_and_the_source_line(platform):
    """After 24 subtractions the smallest number is below zero: in iteration 4 of the third loop of ten iterations."""
    message = failure(platform, LOOPS, np.array([100, 90, 24.5, 80], np.float32), check_nans=True)
    assert "q" in message.split(" ")[0] and " (sqrt) at model.py:9 is the first to make a NaN: [" in message
    assert message.endswith(", in iteration 4 of inner of iteration 2 of outer")
    assert ("; it is computed in " in message) == (platform == "cpu")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_infinities_except_constants_of_the_program(platform):
    x = np.array([100, 50, 30, 20], np.float32)
    message = failure(platform, MAXIMUM, x, check_infs=True)
    assert " (divide) is the first to make an infinity: [ inf -1. -0.428571 -0.25 ]; operand 0 = [100." in message
    executable = xla.Client(platform).compile(MAXIMUM, check_nans=True)
    assert np.asarray(executable(x)).tolist()[:2] == [np.inf, -1]
    with_infinity = np.array([np.inf, 1, 2, 3], np.float32)
    assert "NaN" in failure(platform, MAXIMUM, with_infinity, check_nans=True)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_nans_in_arguments_are_not_reported(platform):
    nans = np.full(4, np.nan, np.float32)
    result = xla.Client(platform).compile(LOOPS, check_nans=True, check_infs=True)(nans)
    assert np.isnan(np.asarray(result)).all()


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_constant_in_a_tuple_of_several_types(platform):
    text = """HloModule m
    ENTRY main {
      p = f32[2] parameter(0)
      c = f64[] constant(nan)
      k = s32[] constant(1)
      ROOT t = (f32[2], f64[], s32[]) tuple(p, c, k)
    }
    """
    message = failure(platform, text, np.ones(2, np.float32), check_nans=True)
    assert message.startswith("c (constant) is the first to make a NaN: nan; it has no operands")


@pytest.mark.parametrize("platform", PLATFORMS)
def test_devices_and_collectives(platform):
    text = """HloModule m, replica_count=2
    sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }
    ENTRY main {
      p = f32[2] parameter(0)
      s = f32[2] all-reduce(p), replica_groups={{0,1}}, to_apply=sum
      ROOT r = f32[2] copy(s)
    }
    """
    executable = xla.Client(platform, devices=2).compile(text, check_nans=True)
    one, infinite = np.ones(2, np.float32), np.array([1, np.inf], np.float32)
    assert np.asarray(executable.execute_sharded([[one], [one]])[1]).tolist() == [2, 2]
    with raises(ExecutionError, codes.INVALID_VALUE, "(all-reduce)", "[ 0. nan]"):
        executable.execute_sharded([[infinite], [-infinite]])


@pytest.mark.parametrize("platform", PLATFORMS)
def test_dynamic_dimensions(platform):
    text = """HloModule m
    ENTRY main {
      x = f32[<=4] parameter(0)
      ROOT l = f32[<=4] log(x)
    }
    """
    executable = xla.Client(platform).compile(text, check_nans=True)
    assert np.asarray(executable(np.ones(3, np.float32))).tolist() == [0, 0, 0]
    with raises(ExecutionError, codes.INVALID_VALUE, "(log)"):
        executable(-np.ones(3, np.float32))


def test_the_flags(monkeypatch: pytest.MonkeyPatch):
    x = np.array([100, 50, 30, 20], np.float32)
    with monkeypatch.context() as patch:
        patch.setattr(flags, "current", lambda: flags.Flags({"check_infs": True}))
        with raises(ExecutionError, codes.INVALID_VALUE):
            xla.Client("cpu").compile(MAXIMUM)(x)
        assert xla.Client("cpu").compile(MAXIMUM, check_infs=False)(x).shape == (4,)


def test_programs_without_checks_contain_no_checks():
    executable = xla.Client("cpu").compile(LOOPS)
    assert executable.program.compiled.program.host_calling_thunks == []
    assert executable.program.fast_path is not None
    watched = xla.Client("cpu").compile(LOOPS, check_nans=True)
    assert len(watched.program.compiled.program.host_calling_thunks) > 3
    with raises(UnsupportedError, commands_codes.SERIALIZABLE_PROGRAM):
        watched.serialize()


def test_programs_with_checks_return_the_same_bits():
    """Only their use of memory differs: sorts, updates and loops in place, of random and of sample modules."""
    texts = [sample.text for family in ("indexing", "sorting", "control") for sample in samples_of(family)][::9]
    texts += [random_module(seed, instructions=12).to_text(print_large_constants=True) for seed in range(2)]
    compared = 0
    for text in texts:
        module = xla.parse_hlo(text)
        arguments = random_arguments([p.shape for p in module.entry_computation.parameters], seed=1)
        try:
            plain = xla.Client("cpu").compile(module)
            expected = plain(*arguments)
        except xla.errors.XlaError:
            continue
        watched = xla.Client("cpu").compile(module, check_infs=True)
        watched.program._checks = NO_CHECKS  # infinities are there, and may be
        assert bits(watched(*arguments)) == bits(expected), text
        compared += 1
    assert compared > 10


def bits(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(bits, value))
    return np.asarray(value).tobytes() if hasattr(value, "__array__") else None


def test_a_nan_that_only_the_fused_kernel_produces():
    """On cpu the denormal square is 0; on the interpreter, which runs single instructions, it is not."""
    text = """HloModule m
    ENTRY main {
      x = f32[2] parameter(0)
      a = f32[2] multiply(x, x)
      ROOT r = f32[2] divide(a, a)
    }
    """
    x = np.full(2, 1e-20, np.float32)
    message = failure("cpu", text, x, check_nans=True)
    assert message == (
        "r.fusion (fusion) is the first to make a NaN: [nan nan]; operand 0 = [1.e-20 1.e-20]; evaluated one by one, "
        "the instructions in this fusion do not make it"
    )
    assert np.asarray(xla.Client("interpreter").compile(text, check_nans=True)(x)).tolist() == [1, 1]
