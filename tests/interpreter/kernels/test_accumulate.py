"""Every algorithm that combines ordered updates agrees with applying the updates one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xlapy.interpreter import Context
from xlapy.interpreter.kernels.accumulate import accumulate
from xlapy.text import parse_hlo

Step = Callable[[Any, Any], Any]


def computation(t: str, body: str) -> Any:
    text = f"""HloModule m
        ENTRY f {{
          a = {t}[] parameter(0)
          b = {t}[] parameter(1)
          ROOT r = {t}[] {body}
        }}"""
    return parse_hlo(text).entry_computation


CASES: list[tuple[str, Any, str, Step]] = [
    ("f32", np.float32, "add(a, b)", lambda a, b: a + b),
    ("f32", np.float32, "multiply(b, a)", lambda a, b: b * a),
    ("bf16", ml_dtypes.bfloat16, "add(a, b)", lambda a, b: a + b),
    ("f8e4m3fn", ml_dtypes.float8_e4m3fn, "add(a, b)", lambda a, b: a + b),
    ("c64", np.complex64, "add(a, b)", lambda a, b: a + b),
    ("f32", np.float32, "maximum(a, b)", max),
    ("s32", np.int32, "add(b, a)", lambda a, b: a + b),
    ("s8", np.int8, "multiply(a, b)", lambda a, b: a * b),
    ("u8", np.uint8, "minimum(a, b)", min),
    ("u16", np.uint16, "xor(a, b)", lambda a, b: a ^ b),
    ("s32", np.int32, "subtract(a, b)", lambda a, b: a - b),
    ("f32", np.float32, "divide(b, a)", lambda a, b: b / a),
    ("s32", np.int32, "copy(a)", lambda a, b: a),
    ("s32", np.int32, "copy(b)", lambda a, b: b),
]


@pytest.mark.parametrize(("t", "dtype", "body", "step"), CASES, ids=[f"{t} {body}" for t, _, body, _ in CASES])
@pytest.mark.parametrize("cell", [(), (3,), (2, 0)])
def test_as_one_update_after_the_other(t: str, dtype: Any, body: str, step: Step, cell: tuple[int, ...]):
    rng = np.random.default_rng(0)
    current = rng.integers(1, 9, (5, *cell)).astype(dtype)
    targets = rng.integers(0, 4, 40)
    updates = rng.integers(1, 9, (40, *cell)).astype(dtype)
    before = current.copy()
    (result,) = accumulate(Context(), computation(t, body), [current], targets, [updates])
    expected = current.copy()
    with np.errstate(all="ignore"):
        for target, update in zip(targets, updates, strict=True):
            for place in np.ndindex(cell):
                expected[(target, *place)] = step(expected[(target, *place)], update[place])
    np.testing.assert_array_equal(result, expected)
    assert result.dtype == dtype
    np.testing.assert_array_equal(current, before)


def test_the_last_update_wins_if_the_computation_returns_it():
    text = "HloModule m\nENTRY f {\n a = s32[] parameter(0)\n ROOT b = s32[] parameter(1)\n}"
    updates = np.arange(1, 5, dtype=np.int32)
    last = parse_hlo(text).entry_computation
    (result,) = accumulate(Context(), last, [np.zeros(3, np.int32)], np.array([2, 0, 2, 2]), [updates])
    assert result.tolist() == [2, 0, 4]


def test_a_computation_of_two_values_receives_both():
    text = """HloModule m
        ENTRY f {
          a = s32[] parameter(0)
          b = f32[] parameter(1)
          c = s32[] parameter(2)
          d = f32[] parameter(3)
          x = s32[] add(a, c)
          y = f32[] convert(a)
          z = f32[] add(y, d)
          ROOT r = (s32[], f32[]) tuple(x, z)
        }"""
    first, second = accumulate(
        Context(),
        parse_hlo(text).entry_computation,
        [np.zeros(2, np.int32), np.zeros(2, np.float32)],
        np.array([1, 1, 0, 1]),
        [np.int32([1, 2, 3, 4]), np.float32([0.5, 0.25, 0.5, 0.125])],
    )
    assert first.tolist() == [3, 7]
    assert second.tolist() == [0.5, 3.125]


def test_no_updates():
    current = np.arange(3, dtype=np.float32)
    (result,) = accumulate(
        Context(), computation("f32", "add(a, b)"), [current], np.zeros(0, np.int64), [np.zeros(0, np.float32)]
    )
    assert result.tolist() == [0, 1, 2]
    assert result is not current
