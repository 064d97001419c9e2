"""Every row of the table in docs/explanation/differences.md states the results of the interpreter, cpu and XLA:CPU."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from tests.cpu.instruction_sets import limited_to
from tests.documents.pages import ROOT
from xlapy.debugging.fuzzing.implementations import plain
from xlapy.testing.xla_cpu import XlaCpuError, run_hlo

PAGE = (ROOT / "docs" / "explanation" / "differences.md").read_text()
ROW = re.compile(r"^\| ([^|]+) \| `([^|]+)` \| `([^|]+)` \| `([^|]+)` \|$", re.MULTILINE)
ADD = "add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT r = f32[] add(a, b) }"
LESS = "lt { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=LT%s }"


def module(*entry: str, called: str = "") -> str:
    return "\n".join(["HloModule m", called, "ENTRY e {", *entry, "}"])


def unary(op: str, shape: str) -> str:
    return module(f"x = {shape} parameter(0)", f"ROOT r = {shape} {op}(x)")


def binary(op: str, shape: str) -> str:
    return module(f"x = {shape} parameter(0)", f"y = {shape} parameter(1)", f"ROOT r = {shape} {op}(x, y)")


def sum_of(size: int, initial: int) -> str:
    start = f"i = f32[] constant({initial})"
    total = "ROOT r = f32[] reduce(x, i), dimensions={0}, to_apply=add"
    return module(f"x = f32[{size}] parameter(0)", start, total, called=ADD)


def sort_of(kind: str) -> str:
    sort = "ROOT r = f32[5] sort(x), dimensions={0}, is_stable=true, to_apply=lt"
    return module("x = f32[5] parameter(0)", sort, called=LESS % kind)


def f32(*values: float) -> np.ndarray[Any, Any]:
    return np.array(values, np.float32)


def s32(*values: int) -> np.ndarray[Any, Any]:
    return np.array(values, np.int32)


SCATTER = module(
    "x = f32[3] parameter(0)",
    "i = s32[2,1] parameter(1)",
    "u = f32[2,2] parameter(2)",
    "ROOT r = f32[3] scatter(x, i, u), update_window_dims={1}, inserted_window_dims={}, "
    "scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add",
    called=ADD,
)
SIZE = module(
    "x = s32[4] parameter(0)",
    "n = s32[] parameter(1)",
    "d = s32[<=4] set-dimension-size(x, n), dimensions={0}",
    "ROOT g = s32[] get-dimension-size(d), dimensions={0}",
)
RANDOM = module("a = f32[] constant(0)", "b = f32[] constant(1)", "ROOT r = f32[2] rng(a, b), distribution=rng_uniform")
NAN = float("nan")

CASES: dict[str, tuple[str, list[Any]]] = {
    "the root of a denormal number, 1e-40": (unary("sqrt", "f32[]"), [np.float32(1e-40)]),
    "the reciprocal root of 1e-40": (unary("rsqrt", "f32[]"), [np.float32(1e-40)]),
    "0, -1 and 2 to the power of the constant -1 in s32": (
        module("x = s32[3] parameter(0)", "y = s32[3] constant({-1, -1, -1})", "ROOT r = s32[3] power(x, y)"),
        [s32(0, -1, 2)],
    ),
    "0, -1 and 2 to the power of -1 in s32": (binary("power", "s32[3]"), [s32(0, -1, 2), s32(-1, -1, -1)]),
    "the sum of 64 zeros in f32 from 1": (sum_of(64, 1), [np.zeros(64, np.float32)]),
    "the sum of one zero from 1": (sum_of(1, 1), [np.zeros(1, np.float32)]),
    "the sum of 100,000 times 0.1 in f32": (sum_of(100_000, 0), [np.full(100_000, 0.1, np.float32)]),
    "3 to the power of 64, and of 65, in s32": (binary("power", "s32[2]"), [s32(3, 3), s32(64, 65)]),
    "set bits of -1 in s4": (unary("popcnt", "s4[1]"), [np.array([-1], ml_dtypes.int4)]),
    "sorting 3, NaN, 1, NaN, 2 by `a < b`": (sort_of(""), [f32(3, NAN, 1, NAN, 2)]),
    "sorting 3, NaN, 1, -0, 0 by total order": (sort_of(", type=TOTALORDER"), [f32(3, NAN, 1, -0.0, 0.0)]),
    "setting a dimension of bound 4 to 9, and asking for it": (SIZE, [s32(0, 1, 2, 3), np.int32(9)]),
    "uniform numbers of `rng`": (RANDOM, []),
    "the hyperbolic sine of 0": (unary("sinh", "f32[]"), [np.float32(0)]),
    "the constant -0": (module("ROOT c = f32[1] constant({-0})"), []),
    "7 and -2147483648 divided by 0 and -1": (binary("divide", "s32[2]"), [s32(7, -(2**31)), s32(0, -1)]),
    "and their remainders": (binary("remainder", "s32[2]"), [s32(7, -(2**31)), s32(0, -1)]),
    "the maximum of NaN and 1, of -0 and 0": (binary("maximum", "f32[2]"), [f32(NAN, -0.0), f32(1, 0)]),
    "NaN, 3e9 and -3e9 converted to s32": (
        module("x = f32[3] parameter(0)", "ROOT r = s32[3] convert(x)"),
        [f32(NAN, 3e9, -3e9)],
    ),
    "-8 and 8 shifted right by 32 with the sign": (
        binary("shift-right-arithmetic", "s32[2]"),
        [s32(-8, 8), s32(32, 32)],
    ),
    "ones scattered at 1 and 2 in windows of 2, of 3": (
        SCATTER,
        [f32(0, 0, 0), np.array([[1], [2]], np.int32), np.ones((2, 2), np.float32)],
    ),
}


def shown(run: Any) -> str:
    try:
        value = np.asarray(run())
    except (xla.errors.XlaError, XlaCpuError):
        return "refused"
    if value.dtype.kind == "f":
        words = [format(float(number), ".7g") for number in value.reshape(-1)]
    else:
        words = [str(int(number)) for number in value.reshape(-1)]
    return ", ".join(words)


def on(platform: str, text: str, arguments: list[Any]) -> str:
    return shown(lambda: plain(xla.Client(platform).compile(text)(*arguments)))


@pytest.mark.parametrize("what", CASES)
def test_row_states_the_measured_results(what: str) -> None:
    rows = {row[0]: row[1:] for row in ROW.findall(PAGE)}
    text, arguments = CASES[what]
    printed = xla.parse_hlo(text).to_text(print_large_constants=True)  # XLA's parser requires spaces around `=`
    with limited_to("AVX2"):
        measured = (on("interpreter", text, arguments), on("cpu", text, arguments))
    xla_result = shown(lambda: run_hlo(printed, arguments))
    if what == "uniform numbers of `rng`":
        assert measured[0] == measured[1] != xla_result
        xla_result = "others"
    assert rows[what] == (*measured, xla_result)


def test_every_row_has_a_case() -> None:
    assert {row[0] for row in ROW.findall(PAGE)} == set(CASES)
