"""Tolerances and random inputs: what passes, what fails, and the message of a failure."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from xlapy.testing.comparison import assert_close, rule_of_operation, ulp_distance
from xlapy.testing.random_values import random_array, special_values

FLOATS = [
    np.dtype(t)
    for t in (
        np.float16,
        np.float32,
        np.float64,
        ml_dtypes.bfloat16,
        ml_dtypes.float8_e4m3fn,
        ml_dtypes.float8_e5m2,
        ml_dtypes.float8_e4m3,
        ml_dtypes.float8_e3m4,
        ml_dtypes.float8_e4m3b11fnuz,
        ml_dtypes.float8_e4m3fnuz,
        ml_dtypes.float8_e5m2fnuz,
        ml_dtypes.float8_e8m0fnu,
        ml_dtypes.float4_e2m1fn,
        ml_dtypes.float6_e2m3fn,
        ml_dtypes.float6_e3m2fn,
    )
]
INTEGERS = [
    np.dtype(t)
    for t in (
        np.int8,
        np.uint8,
        np.int16,
        np.uint16,
        np.int32,
        np.uint32,
        np.int64,
        np.uint64,
        ml_dtypes.int1,
        ml_dtypes.uint1,
        ml_dtypes.int2,
        ml_dtypes.uint2,
        ml_dtypes.int4,
        ml_dtypes.uint4,
    )
]
OTHERS = [np.dtype(np.bool_), np.dtype(np.complex64), np.dtype(np.complex128)]


def steps_away(value: float, steps: int, dtype: Any = np.float32) -> Any:
    number = np.dtype(dtype).type(value)
    for _ in range(steps):
        number = np.nextafter(number, number.dtype.type(np.inf))
    return np.array([number])


def test_ulp_distance_counts_floats() -> None:
    one = np.array([1.0], np.float32)
    assert ulp_distance(steps_away(1.0, 5), one, np.float32)[0] == 5
    assert ulp_distance(one, np.array([1.0 + 2.0**-25]), np.float32)[0] == 0.25
    assert ulp_distance(steps_away(1.0, 3, np.float64), np.array([1.0]), np.float64)[0] == 3


def test_ulp_distance_of_bfloat16_and_float8() -> None:
    assert ulp_distance(np.array([1.0078125], ml_dtypes.bfloat16), np.array([1.0]), ml_dtypes.bfloat16)[0] == 1
    assert ulp_distance(np.array([1.125], ml_dtypes.float8_e4m3fn), np.array([1.0]), ml_dtypes.float8_e4m3fn)[0] == 1


def test_infinity_is_one_step_after_the_largest() -> None:
    largest = np.array([np.finfo(np.float32).max])
    infinity = np.array([np.inf], np.float32)
    assert ulp_distance(largest, np.array([np.inf]), np.float32)[0] <= 1
    assert ulp_distance(infinity, np.array([1e300]), np.float32)[0] == 0
    assert ulp_distance(infinity, -infinity, np.float32)[0] > 1e6
    assert ulp_distance(np.array([np.nan], np.float32), infinity, np.float32)[0] == np.inf


@pytest.mark.parametrize("steps,passes", [(4, True), (5, False)])
def test_elementwise_f32_allows_four_ulp(steps: int, passes: bool) -> None:
    actual = steps_away(1.0, steps)
    if passes:
        assert_close(actual, np.array([1.0]), np.float32)
        return
    with pytest.raises(AssertionError, match=r"float32\[1\]: 1 of 1 .*within 4 ULP\n.*first at \[0\].*5 ULP"):
        assert_close(actual, np.array([1.0]), np.float32)


def test_message_names_first_and_worst() -> None:
    expected = np.ones((2, 3), np.float32)
    actual = expected.copy()
    actual[0, 1] += 1e-5
    actual[1, 2] = 3.0
    with pytest.raises(AssertionError) as caught:
        assert_close(actual, expected)
    text = str(caught.value)
    assert "2 of 6 elements" in text and "first at [0, 1]: actual 1.00001, expected 1.0" in text
    assert "worst at [1, 2]: actual 3.0, expected 1.0" in text


def test_nan_equals_any_nan_and_nothing_else() -> None:
    quiet, other = np.array([0x7FC00000], np.uint32), np.array([0xFFC12345], np.uint32)
    assert_close(quiet.view(np.float32), other.view(np.float32), rule="bits")
    with pytest.raises(AssertionError, match=r"actual nan, expected 1\.0, inf ULP"):
        assert_close(np.array([np.nan], np.float32), np.array([1.0], np.float32))


def test_only_the_bits_rule_compares_zero_signs() -> None:
    minus, plus = np.array([-0.0], np.float32), np.array([0.0], np.float32)
    assert_close(minus, plus, rule="exact")
    with pytest.raises(AssertionError, match=r"the same bits\n.*actual -0\.0, expected 0\.0"):
        assert_close(minus, plus, rule="bits")
    with pytest.raises(AssertionError, match="the same bits"):
        assert_close(np.array([complex(1, -0.0)], np.complex64), np.array([1], np.complex64), rule="bits")


def test_denormals_are_flushed_on_request() -> None:
    tiny, zero = np.array([1e-40, -3e-39], np.float32), np.array([0.0, -0.0], np.float32)
    assert_close(zero, tiny, rule="bits", flush_denormals=True)
    with pytest.raises(AssertionError, match="2 of 2"):
        assert_close(zero, tiny, rule="bits")
    border = np.finfo(np.float32).smallest_normal
    assert_close(np.array([border]), np.array([float(border) * (1 - 2**-24)]), np.float32, flush_denormals=True)


@pytest.mark.parametrize("dtype", [*INTEGERS, np.dtype(np.bool_)], ids=str)
def test_integers_are_exact_by_every_rule(dtype: np.dtype[Any]) -> None:
    values = np.array([0, 1]).astype(dtype)
    for rule in ("bits", "exact", "elementwise", "accumulation", "products", "norm"):
        assert_close(values, values.copy(), rule=rule)
        with pytest.raises(AssertionError, match="2 of 2 elements"):
            assert_close(values, values[::-1].copy(), rule=rule)


def test_large_unsigned_integers_do_not_collapse() -> None:
    with pytest.raises(AssertionError, match="18446744073709551615"):
        assert_close(np.array([2**64 - 1], np.uint64), np.array([2**64 - 2], np.uint64))


def test_sums_are_bounded_by_their_terms() -> None:
    bound = 2.0**-23 * 10 * 50.0
    expected = np.array([1.0], np.float32)
    assert_close(expected + np.float32(0.9 * bound), expected, rule="accumulation", terms=100, magnitude=50.0)
    with pytest.raises(AssertionError, match=r"'accumulation': within 5\.96e-05"):
        assert_close(expected + np.float32(1.1 * bound), expected, rule="accumulation", terms=100, magnitude=50.0)


@pytest.mark.parametrize("rule", ["norm", "products"])
def test_narrow_types_are_computed_in_f32_and_rounded_once(rule: str) -> None:
    """The bound is one unit in the last place; 16 eps of bf16 would be an eighth of the result."""
    expected = np.array([1.5, 1000.0], ml_dtypes.bfloat16)
    near = np.array([1.5 + 2**-7, 1004], ml_dtypes.bfloat16)
    assert_close(near, expected, rule=rule, terms=100)
    for far in ([1.5 + 2**-6, 1000], [1.5, 1008]):
        with pytest.raises(AssertionError, match="1 of 2"):
            assert_close(np.array(far, ml_dtypes.bfloat16), expected, rule=rule, terms=100)


def test_complex_functions_are_compared_by_norm() -> None:
    expected = np.array([1 + 1e-9j])
    assert_close(np.array([1 + 2e-7j], np.complex64), expected, np.complex64)
    with pytest.raises(AssertionError, match="within 8 eps of"):
        assert_close(np.array([1 + 2e-6j], np.complex64), expected, np.complex64)
    assert_close(np.array([complex(np.inf, 0)]), np.array([complex(np.inf, 0)]))


def test_the_finite_part_of_an_infinite_complex_number_has_the_tolerance_too() -> None:
    infinite = np.array([complex(np.inf, 453.4578)], np.complex64)
    close, far = np.nextafter(infinite.imag, 500, dtype=np.float32), infinite.imag + 1
    near = np.array([complex(np.inf, close[0])], np.complex64)
    assert_close(near, infinite, rule="accumulation", terms=4)
    for wrong in (complex(np.inf, far[0]), complex(-np.inf, 453.4578), complex(np.inf, np.inf), complex(1, 453.4578)):
        with pytest.raises(AssertionError, match="1 of 1 elements"):
            assert_close(np.array([wrong], np.complex64), infinite, rule="accumulation", terms=4)


def test_each_term_of_a_sum_may_be_flushed() -> None:
    normal = np.finfo(np.float32).smallest_normal
    sums = np.array([3.5 * normal, 7.5 * normal], np.float32)
    assert_close(np.zeros(1, np.float32), sums[:1], rule="accumulation", terms=4, flush_denormals=True)
    for terms, flush in ((4, True), (16, False)):
        with pytest.raises(AssertionError, match="1 of 1"):
            assert_close(np.zeros(1, np.float32), sums[1:], rule="accumulation", terms=terms, flush_denormals=flush)


def test_tuples_tokens_types_and_shapes() -> None:
    one = np.ones(2, np.float32)
    assert_close((one, (one, None), ()), (one, (one, None), ()))
    with pytest.raises(AssertionError, match=r"result\[1\]\[0\]: float32\[2\]: 2 of 2"):
        assert_close((one, (one,)), (one, (one * 2,)))
    with pytest.raises(AssertionError, match="expected a tuple of 2, got a tuple of 1"):
        assert_close((one,), (one, one))
    with pytest.raises(AssertionError, match="expected a token, got float32 array"):
        assert_close(one, None)
    with pytest.raises(AssertionError, match=r"expected float64\[2\], got float32\[2\]"):
        assert_close(one, one, np.float64)
    with pytest.raises(AssertionError, match=r"expected float32\[1\], got float32\[2\]"):
        assert_close(one, one[:1])


def test_rule_of_operation() -> None:
    assert rule_of_operation("transpose", np.float32) == "bits"
    assert rule_of_operation("add", np.float32) == "exact"
    assert rule_of_operation("multiply", np.complex64) == "elementwise"
    assert rule_of_operation("tanh", np.float32) == "elementwise"
    assert rule_of_operation("dot", np.float32) == "products"


@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + OTHERS, ids=str)
@pytest.mark.parametrize("special", [False, True])
def test_random_arrays_of_every_type(dtype: np.dtype[Any], special: bool) -> None:
    first, second = (random_array((7, 9), dtype, np.random.default_rng(3), special) for _ in range(2))
    assert first.dtype == dtype and first.shape == (7, 9)
    assert_close(first, second, rule="bits")
    assert np.unique(first.astype(np.complex128)).size > 1
    if not special:
        assert np.isfinite(first.astype(np.complex128)).all()


def test_special_values_appear() -> None:
    values = random_array((4000,), np.float32, np.random.default_rng(0))
    assert np.isnan(values).any() and (values == np.inf).any() and (values == -np.inf).any()
    assert (np.signbit(values) & (values == 0)).any() and (values == np.finfo(np.float32).max).any()
    assert not ((values != 0) & (np.abs(values) < np.finfo(np.float32).smallest_normal)).any()
    with_denormals = random_array((4000,), np.float32, np.random.default_rng(0), denormals=True)
    assert ((with_denormals != 0) & (np.abs(with_denormals) < np.finfo(np.float32).smallest_normal)).any()
    integers = random_array((4000,), np.int32, np.random.default_rng(0))
    assert {-(2**31), 2**31 - 1, 0, -1} <= set(integers.tolist())
    assert special_values(np.uint8).tolist() == [0, 1, 254, 255]


def test_random_arrays_of_zero_and_one_element() -> None:
    rng = np.random.default_rng(1)
    assert random_array((0, 3), np.float32, rng).shape == (0, 3)
    assert random_array((), np.int64, rng).shape == ()
    assert random_array((), np.bool_, rng).dtype == np.bool_
