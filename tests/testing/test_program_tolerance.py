"""Tolerances of whole programs: they follow the rounding errors of the instructions, in every element type."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import xlapy as xla
from xlapy.testing.comparison import max_errors
from xlapy.testing.program_tolerance import program_tolerance, sharded_tolerances

BF16, F16, F8 = ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e4m3fn
NARROW = {"bf16": BF16, "f16": F16, "f8e4m3fn": F8}
ADD = "add { a = TYPE[] parameter(0)  b = TYPE[] parameter(1)  ROOT c = TYPE[] add(a, b) }"


def program(*entry: str, called: str = "", t: str = "f32") -> xla.Module:
    return xla.parse_hlo("\n".join(["HloModule m", called, "ENTRY e {", *entry, "}"]).replace("TYPE", t), verify=True)


def rejects(module: xla.Module, arguments: list[Any], wrong: Any, **options: bool) -> bool:
    try:
        program_tolerance(module, arguments, **options).assert_close(wrong)
    except AssertionError:
        return True
    return False


@pytest.mark.parametrize("t", NARROW)
def test_a_program_of_exact_operations_has_exact_results(t: str) -> None:
    module = program("x = TYPE[4] parameter(0)", "d = TYPE[4] add(x, x)", "ROOT m = TYPE[4] multiply(d, x)", t=t)
    x = np.array([0.5, 1, 1.5, 2], NARROW[t])
    right = (2 * x.astype(np.float32) ** 2).astype(NARROW[t])
    above = (right.view(f"u{right.itemsize}") + 1).view(NARROW[t])
    assert not rejects(module, [x], right)
    assert rejects(module, [x], above)
    assert not rejects(module, [x], above, excess_precision=True)


@pytest.mark.parametrize("t", NARROW)
def test_programs_in_narrow_types_are_checked(t: str) -> None:
    """A result that is twice as large, or zero, is wrong in every type."""
    lines = [
        "x = TYPE[6] parameter(0)",
        "z = TYPE[] constant(0)",
        "s = TYPE[6] sine(x)",
        "e = TYPE[6] multiply(s, s)",
    ]
    module = program(*lines, "ROOT r = TYPE[] reduce(e, z), dimensions={0}, to_apply=add", called=ADD, t=t)
    x = np.linspace(0.1, 1.5, 6).astype(NARROW[t])
    result = np.asarray(xla.Client("cpu").compile(module)(x))
    assert not rejects(module, [x], result)
    assert rejects(module, [x], (result.astype(np.float32) * 2).astype(result.dtype))
    assert rejects(module, [x], np.zeros_like(result))


def test_the_tolerance_of_one_function_is_a_few_times_that_of_its_rule() -> None:
    module = program("x = f32[9] parameter(0)", "ROOT r = f32[9] sine(x)")
    x = np.linspace(0.5, 1, 9, dtype=np.float32)
    exact = np.sin(x.astype(np.float64))
    assert not rejects(module, [x], (exact * (1 + 4 * 2.0**-24)).astype(np.float32))
    assert rejects(module, [x], (exact * (1 + 16 * 2.0**-23)).astype(np.float32))


def test_a_cancellation_is_part_of_the_tolerance() -> None:
    """The sines have errors of 2^-22; their difference may be wrong by as much, whatever its size."""
    lines = ["x = f32[8] parameter(0)", "y = f32[8] parameter(1)", "s = f32[8] sine(x)", "t = f32[8] sine(y)"]
    module = program(*lines, "ROOT d = f32[8] subtract(s, t)")
    x = np.linspace(1.5, 1.6, 8, dtype=np.float32)
    y = x + np.float32(2**-10)
    exact = np.sin(x.astype(np.float64)) - np.sin(y.astype(np.float64))
    assert np.abs(exact).max() < 2**-12
    assert not rejects(module, [x, y], (exact + 2.0**-23).astype(np.float32))
    assert rejects(module, [x, y], (exact + 2.0**-18).astype(np.float32))


def test_what_rounding_decides_is_not_compared() -> None:
    """Whether two sines are equal depends on rounding; whether 1 equals 2 does not."""
    lines = ["x = f32[2] parameter(0)", "y = f32[2] parameter(1)", "s = f32[2] sine(x)", "t = f32[2] sine(y)"]
    module = program(*lines, "ROOT c = pred[2] compare(s, t), direction=GE")
    x, y = np.array([1.0, 1.0], np.float32), np.array([1.0, 0.5], np.float32)
    assert not rejects(module, [x, y], np.array([False, True]))
    assert rejects(module, [x, y], np.array([True, False]))


def test_maximum_reductions_and_movement_are_exact() -> None:
    text = "max { a = bf16[] parameter(0)  b = bf16[] parameter(1)  ROOT c = bf16[] maximum(a, b) }"
    lines = ["x = bf16[6,9] parameter(0)", "z = bf16[] constant(-9)", "t = bf16[9,6] transpose(x), dimensions={1,0}"]
    module = program(*lines, "ROOT r = bf16[6] reduce(t, z), dimensions={0}, to_apply=max", called=text)
    x = np.random.default_rng(0).standard_normal((6, 9)).astype(BF16)
    right = x.max(1)
    assert not rejects(module, [x], right)
    assert rejects(module, [x], (right.view(np.uint16) + 1).view(BF16))


def test_flushed_denormals_and_what_follows_from_them() -> None:
    module = program("x = f32[2] parameter(0)", "ROOT r = f32[2] divide(x, x)")
    x = np.array([1e-40, 1], np.float32)
    flushed = np.array([np.nan, 1], np.float32)
    assert rejects(module, [x], flushed)
    assert not rejects(module, [x], flushed, flush_denormals=True)
    assert rejects(module, [x], np.array([np.nan, 2], np.float32), flush_denormals=True)


def test_errors_grow_with_the_iterations_of_a_loop() -> None:
    loop = """
body { s = (s32[], f32[8]) parameter(0)  i = s32[] get-tuple-element(s), index=0
  v = f32[8] get-tuple-element(s), index=1
  one = s32[] constant(1)  j = s32[] add(i, one)  w = f32[8] exponential(v)  u = f32[8] log(w)
  ROOT t = (s32[], f32[8]) tuple(j, u) }
condition { s = (s32[], f32[8]) parameter(0)  i = s32[] get-tuple-element(s), index=0  n = s32[] constant(COUNT)
  ROOT c = pred[] compare(i, n), direction=LT }"""
    lines = ["x = f32[8] parameter(0)", "z = s32[] constant(0)", "s = (s32[], f32[8]) tuple(z, x)"]
    deviations = []
    for count in (1, 100):
        called = loop.replace("COUNT", str(count))
        module = program(*lines, "w = (s32[], f32[8]) while(s), condition=condition, body=body",
                         "ROOT r = f32[8] get-tuple-element(w), index=1", called=called)  # fmt: skip
        deviations.append(program_tolerance(module, [np.linspace(1, 2, 8, dtype=np.float32)]).deviations.max())
    assert 3 < deviations[1] / deviations[0] < 100


def test_tuples_tokens_and_dynamic_sizes() -> None:
    lines = ["x = f32[4] parameter(0)", "n = s32[] parameter(1)", "k = token[] after-all()", "s = f32[4] sine(x)"]
    lines += ["d = f32[<=4] set-dimension-size(s, n), dimensions={0}", "p = (s32[], token[]) tuple(n, k)"]
    module = program(*lines, "ROOT t = (f32[<=4], (s32[], token[])) tuple(d, p)")
    x = np.ones(4, np.float32)
    expected = (np.sin(x[:3]), (np.int32(3), None))
    tolerance = program_tolerance(module, [x, np.int32(3)])
    tolerance.assert_close(expected)
    for wrong in ((np.sin(x[:2]), (np.int32(3), None)), (np.sin(x[:3]), (np.int32(2), None)), expected[:1]):
        with pytest.raises(AssertionError):
            tolerance.assert_close(wrong)


def test_each_device_has_its_own_tolerance() -> None:
    lines = ["x = f32[2] parameter(0)", "ROOT r = f32[2] all-reduce(x), replica_groups={}, to_apply=add"]
    module = program(*lines, called=ADD)
    arguments = [[np.array([k, 1], np.float32)] for k in (1, 2)]
    first, second = sharded_tolerances(module, arguments, 2)
    for tolerance in (first, second):
        tolerance.assert_close(np.array([3, 2], np.float32))
        with pytest.raises(AssertionError, match="1 of 2 elements differ by more than rounding errors"):
            tolerance.assert_close(np.array([3, 2.01], np.float32))


def test_numbers_near_the_largest_have_errors_too() -> None:
    """Neither the bound of a rule nor the absolute value of a complex number may overflow."""
    module = program("a = f64[2,2] parameter(0)", "ROOT r = f64[2,2] cholesky(a), lower=true")
    a = np.array([[1e300, 0], [1e290, 1e308]])
    assert np.all(program_tolerance(module, [a]).deviations[np.tril_indices(2)] > 0)
    module = program("x = c128[1] parameter(0)", "ROOT r = c128[1] tanh(x)")
    assert program_tolerance(module, [np.array([1 + 1j])]).deviations > 0
    assert max_errors(np.array([1.7e308 * (1 + 1j)]), np.complex128, "elementwise") < 1e295
