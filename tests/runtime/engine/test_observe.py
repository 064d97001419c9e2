"""Observers: traces, and finding the first NaN."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from tests.raising import raises
from tests.tools.programs import COUNT_TO_3
from xlapy.base.error_codes.execution import calls as calls_codes
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError, InvalidArgumentError
from xlapy.interpreter import TOKEN
from xlapy.runtime.engine.observe import check_nans, combine_observers, describe_value, trace


def run(text: str, *arguments: object, observer) -> object:
    return xla.Client("interpreter").compile(text)(*arguments, observer=observer)


def test_trace_names_computation_operands_and_value():
    lines: list[str] = []
    run(COUNT_TO_3, 2, observer=trace(lines.append, "^after$"))
    assert lines == ["body: after = s32[] add(before, one) -> 3"]


def test_trace_takes_a_regular_expression():
    with raises(InvalidArgumentError, calls_codes.NAME_PATTERN, "'['"):
        trace(print, "[")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.float32(0.1234567), "0.1234567"),
        (np.array([[1.5, 2], [3, 4]]), "[[1.5 2. ] [3. 4. ]]"),
        (np.arange(100), "[ 0 1 2 ... 97 98 99]"),
        (np.array([1.5], ml_dtypes.bfloat16), "[1.5]"),
        ((np.array(1), (TOKEN,)), "(1, (TOKEN))"),
    ],
)
def test_describe(value: object, text: str):
    assert describe_value(value) == text


NAN = """HloModule n
body {
  state = (f32[], s32[]) parameter(0)
  x = f32[] get-tuple-element(state), index=0
  i = s32[] get-tuple-element(state), index=1
  root = f32[] sqrt(x)
  one = f32[] constant(1)
  less = f32[] subtract(root, one)
  step = s32[] constant(1)
  next = s32[] add(i, step)
  ROOT pair = (f32[], s32[]) tuple(less, next)
}
condition {
  state = (f32[], s32[]) parameter(0)
  i = s32[] get-tuple-element(state), index=1
  limit = s32[] constant(5)
  ROOT go = pred[] compare(i, limit), direction=LT
}
ENTRY main {
  x = f32[] parameter(0)
  zero = s32[] constant(0)
  start = (f32[], s32[]) tuple(x, zero)
  ROOT end = (f32[], s32[]) while(start), condition=condition, body=body
}
"""


def test_the_first_nan_is_found_inside_a_loop():
    with raises(ExecutionError, codes.INVALID_VALUE, "root (sqrt)", "0 = -1"):
        run(NAN, 0.0, observer=check_nans)


def test_a_nan_in_an_argument_is_not_reported():
    passed = "HloModule p\nENTRY main {\n  x = f32[] parameter(0)\n  ROOT y = f32[] negate(x)\n}\n"
    run(passed, float("nan"), observer=check_nans)


@pytest.mark.parametrize("element_type", ["bf16", "f8e5m2", "f64", "c64"])
def test_every_inexact_type_is_checked(element_type: str):
    text = f"""HloModule t
ENTRY main {{
  x = f32[2] parameter(0)
  n = s4[2] convert(x)
  y = {element_type}[2] convert(x)
  ROOT z = {element_type}[2] subtract(y, y)
}}
"""
    run(text, [1, 2], observer=check_nans)
    with raises(ExecutionError, codes.INVALID_VALUE, "z (subtract)"):
        run(text, [1, float("inf")], observer=check_nans)


def test_both_observers_are_called():
    first: list[str] = []
    second: list[str] = []
    run(COUNT_TO_3, 3, observer=combine_observers(trace(first.append), trace(second.append)))
    assert first == second != []
