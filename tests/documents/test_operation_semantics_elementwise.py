"""Examples and rules of "Operation semantics": elementwise functions, comparison, selection, conversion.

Sections are named as in the document; those of one or two operands are tables.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.documents.examples import Array, built, check, evaluate, f32, pred, s32, same, shape, u32
from tests.raising import Wanted, raises
from xlapy import ops
from xlapy.base import ShapeError
from xlapy.base.error_codes.building import builder as builder_codes
from xlapy.base.error_codes.operations import elementwise as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.builder import XlaOp
from xlapy.builder.core.accuracy import ResultAccuracy

INF, NAN = math.inf, math.nan
MAX32, MIN32 = 2**31 - 1, -(2**31)
Build = Callable[..., XlaOp]


def named(value: Any) -> str:
    return getattr(value, "__name__", "")


# -- functions of one operand

UNARY: list[tuple[Build, list[float], list[float]]] = [
    (ops.abs, [-2.5, 0.0, -0.0, 3.0, -INF, NAN], [2.5, 0.0, 0.0, 3.0, INF, NAN]),
    (ops.ceil, [-1.5, -0.5, 0.5, 1.0, 2.25], [-1.0, -0.0, 1.0, 1.0, 3.0]),
    (ops.floor, [-1.5, -0.5, 0.5, 1.0, 2.25], [-2.0, -1.0, 0.0, 1.0, 2.0]),
    (ops.neg, [1.5, 0.0, -0.0, -INF], [-1.5, -0.0, 0.0, INF]),
    (ops.round, [0.5, 1.5, 2.5, -0.5, -1.5, 0.4], [1.0, 2.0, 3.0, -1.0, -2.0, 0.0]),
    (ops.round_nearest_afz, [0.5, 1.5, 2.5, -0.5, -1.5, 0.4], [1.0, 2.0, 3.0, -1.0, -2.0, 0.0]),
    (ops.round_nearest_even, [0.5, 1.5, 2.5, -0.5, -1.5, 0.6], [0.0, 2.0, 2.0, -0.0, -2.0, 1.0]),
    (ops.sign, [-3.0, -0.0, NAN, 0.0, 3.0, -INF], [-1.0, -0.0, NAN, 0.0, 1.0, -1.0]),
    (ops.sqrt, [4.0, 0.0, 2.25, -1.0], [2.0, 0.0, 1.5, NAN]),
    (ops.rsqrt, [4.0, 0.25, 0.0], [0.5, 2.0, INF]),
    (ops.cbrt, [8.0, -27.0, 0.0], [2.0, -3.0, 0.0]),
    (ops.real, [1.5, -2.0], [1.5, -2.0]),
    (ops.imag, [1.5, -2.0], [0.0, 0.0]),
]


@pytest.mark.parametrize(("op", "operand", "expected"), UNARY, ids=named)
def test_exact_function(op: Build, operand: list[float], expected: list[float]) -> None:
    check(op, (f32(operand),), f32(expected))
    check(op, (f32(operand[0]),), f32(expected[0]))


POINTS = np.array([0.125, 0.5, 0.75, 1.5, 2.0])
APPROXIMATED: list[tuple[Build, Callable[[float], float], Array]] = [
    (ops.cos, math.cos, POINTS),
    (ops.sin, math.sin, POINTS),
    (ops.tan, math.tan, POINTS),
    (ops.cosh, math.cosh, POINTS),
    (ops.sinh, math.sinh, POINTS),
    (ops.tanh, math.tanh, POINTS),
    (ops.erf, math.erf, POINTS),
    (ops.exp, math.exp, POINTS),
    (ops.expm1, math.expm1, POINTS),
    (ops.log, math.log, POINTS),
    (ops.log1p, math.log1p, POINTS),
    (ops.logistic, lambda x: 1 / (1 + math.exp(-x)), POINTS),
    (ops.cbrt, math.cbrt, POINTS),
    (ops.sqrt, math.sqrt, POINTS),
    (ops.rsqrt, lambda x: 1 / math.sqrt(x), POINTS),
    (ops.acos, math.acos, POINTS[:3]),
    (ops.asin, math.asin, POINTS[:3]),
    (ops.atan, math.atan, POINTS),
    (ops.acosh, math.acosh, POINTS[3:]),
    (ops.asinh, math.asinh, POINTS),
    (ops.atanh, math.atanh, POINTS[:3]),
]


@pytest.mark.parametrize(("op", "formula", "points"), APPROXIMATED, ids=named)
def test_approximated_function(op: Build, formula: Callable[[float], float], points: Array) -> None:
    for sign in (1, -1) if op in (ops.sin, ops.tan, ops.erf, ops.tanh, ops.expm1, ops.cbrt, ops.logistic) else (1,):
        x = sign * points
        np.testing.assert_allclose(evaluate(op, x), [formula(v) for v in x], rtol=4e-16)
        np.testing.assert_allclose(evaluate(op, f32(x)), [formula(v) for v in x], rtol=2.5e-7)


@pytest.mark.parametrize(
    "op",
    [
        ops.cbrt,
        ops.cos,
        ops.cosh,
        ops.erf,
        ops.exp,
        ops.expm1,
        ops.log,
        ops.log1p,
        ops.logistic,
        ops.rsqrt,
        ops.sin,
        ops.sqrt,
        ops.tan,
        ops.tanh,
    ],
    ids=named,
)
def test_result_accuracy(op: Build) -> None:
    computation = built(lambda x: op(x, result_accuracy=ResultAccuracy(ulps=2)), "f32[3]").builder.build()
    assert "result_accuracy={tolerance={atol=0,rtol=0,ulps=2}}" in computation.as_hlo_text()


def test_the_unary_functions_of_the_page() -> None:
    page = """abs cbrt ceil clz cos erf exp expm1 floor imag is_finite log log1p logistic neg not_ population_count real
        round round_nearest_even rsqrt sign sin sqrt tan tanh acos acosh asin asinh atan atanh cosh sinh"""
    for name in page.split():
        operand = {"clz": "s32", "not_": "s32", "population_count": "s32"}.get(name, "f32")
        result = "pred" if name == "is_finite" else operand
        assert shape(getattr(ops, name), f"{operand}[2,3]") == f"{result}[2,3]"


class TestParts:
    z = np.array([3 + 4j, -1 - 2j], np.complex64)

    def test_abs_of_complex_is_real(self) -> None:
        check(ops.abs, (self.z[:1],), f32([5]))

    def test_real_and_imag(self) -> None:
        check(ops.real, (self.z,), f32([3, -1]))
        check(ops.imag, (self.z,), f32([4, -2]))

    def test_integers_have_no_parts(self) -> None:
        with raises(ShapeError, shared.ELEMENT_TYPE, "s32[]"):
            shape(ops.real, "s32[]")


class TestBits:
    def test_clz(self) -> None:
        check(ops.clz, (s32([0, 1, 255, -1, 2**30]),), s32([32, 31, 24, 0, 1]))
        check(ops.clz, (np.array([0, 1, 128], np.uint8),), np.array([8, 7, 0], np.uint8))

    def test_population_count(self) -> None:
        check(ops.population_count, (s32([0, 1, 255, -1, MIN32]),), s32([0, 1, 8, 32, 1]))

    def test_not(self) -> None:
        check(ops.not_, (pred([True, False]),), pred([False, True]))
        check(ops.not_, (s32([0, 5]),), s32([-1, -6]))


def test_is_finite() -> None:
    check(ops.is_finite, (f32([1, INF, -INF, NAN, -0.0]),), pred([True, False, False, False, True]))
    with raises(ShapeError, shared.ELEMENT_TYPE, "s32[2]"):
        shape(ops.is_finite, "s32[2]")


def test_sign_of_integers() -> None:
    check(ops.sign, (s32([-7, 0, 7]),), s32([-1, 0, 1]))


def test_denormals_are_kept() -> None:
    check(ops.add, (f32(1e-40), f32(1e-40)), f32(1e-40) + f32(1e-40))
    assert evaluate(ops.exp, f32(-88)) > 0


# -- functions of two operands

BINARY: list[tuple[Build, Array, Array, Array]] = [
    (ops.add, s32([1, MAX32]), s32([2, 1]), s32([3, MIN32])),
    (ops.sub, s32([1, MIN32]), s32([2, 1]), s32([-1, MAX32])),
    (ops.mul, s32([3, MAX32]), s32([-4, 2]), s32([-12, -2])),
    (ops.div, s32([7, -7, 7, -7]), s32([2, 2, -2, -2]), s32([3, -3, -3, 3])),
    (ops.div, s32([5, -5, 0, MIN32]), s32([0, 0, 0, -1]), s32([-1, -1, -1, MIN32])),
    (ops.div, u32([5, 2**32 - 1]), u32([0, 2]), u32([2**32 - 1, 2**31 - 1])),
    (ops.div, f32([1, -1, 0]), f32([0, 0, 0]), f32([INF, -INF, NAN])),
    (ops.rem, s32([-5, 5, -5, 5]), s32([3, 3, -3, -3]), s32([-2, 2, -2, 2])),
    (ops.rem, s32([5, -5, MIN32]), s32([0, 0, -1]), s32([5, -5, 0])),
    (ops.rem, u32([5, 2**32 - 1]), u32([0, 10]), u32([5, 5])),
    (ops.rem, f32([-5.5, 5.5, -5.5]), f32([3, -3, -3]), f32([-2.5, 2.5, -2.5])),
    (ops.pow, f32([2, 9, 2, 0]), f32([10, 0.5, -1, 0]), f32([1024, 3, 0.5, 1])),
    (ops.pow, s32([2, 0, 2, -1, 3]), s32([10, 0, -1, -3, 21]), s32([1024, 1, 0, -1, 3**21 % 2**32])),
    (ops.max, s32([1, -5]), s32([2, -6]), s32([2, -5])),
    (ops.min, s32([1, -5]), s32([2, -6]), s32([1, -6])),
    (ops.max, f32([NAN, 1, -0.0, 0.0]), f32([1, NAN, 0.0, -0.0]), f32([NAN, NAN, 0.0, 0.0])),
    (ops.min, f32([NAN, 1, -0.0, 0.0]), f32([1, NAN, 0.0, -0.0]), f32([NAN, NAN, -0.0, -0.0])),
    (ops.and_, s32([12, -1]), s32([10, 7]), s32([8, 7])),
    (ops.or_, s32([12, -1]), s32([10, 7]), s32([14, -1])),
    (ops.xor, s32([12, -1]), s32([10, 7]), s32([6, -8])),
    (ops.and_, pred([1, 1, 0, 0]), pred([1, 0, 1, 0]), pred([1, 0, 0, 0])),
    (ops.or_, pred([1, 1, 0, 0]), pred([1, 0, 1, 0]), pred([1, 1, 1, 0])),
    (ops.xor, pred([1, 1, 0, 0]), pred([1, 0, 1, 0]), pred([0, 1, 1, 0])),
    (ops.shift_left, s32([1, -1, 1, 1, -1]), s32([4, 31, 32, 100, -1]), s32([16, MIN32, 0, 0, 0])),
    (ops.shift_right_arithmetic, s32([-16, 16, -16, 16, -1]), s32([2, 2, 32, 32, 100]), s32([-4, 4, -1, 0, -1])),
    (ops.shift_right_logical, s32([-16, 16, -16, 16, -1]), s32([28, 2, 32, 32, 31]), s32([15, 4, 0, 0, 1])),
    (ops.atan2, f32([0, 0.0, -0.0]), f32([1, -1, -1]), f32([0, np.float32(math.pi), -np.float32(math.pi)])),
]


@pytest.mark.parametrize(("op", "lhs", "rhs", "expected"), BINARY, ids=named)
def test_function_of_two_operands(op: Build, lhs: Array, rhs: Array, expected: Array) -> None:
    check(op, (lhs, rhs), expected)


def test_atan2_is_the_angle_of_the_point_rhs_lhs() -> None:
    angles = np.linspace(-3, 3, 13)
    np.testing.assert_allclose(evaluate(ops.atan2, np.sin(angles), np.cos(angles)), angles, rtol=1e-15)


def test_the_remainder_is_smaller_than_the_divisor() -> None:
    a, b = np.meshgrid(s32(range(-7, 8)), s32([-3, -2, -1, 1, 2, 3]))
    result = evaluate(ops.rem, a, b)
    assert (np.abs(result) < np.abs(b)).all()
    assert (result * np.sign(a) >= 0).all()
    same(result, np.fmod(a, b))


def test_element_types_must_agree() -> None:
    with raises(ShapeError, shared.SAME_ELEMENT_TYPE, "f32[2]", "s32[2]"):
        shape(ops.add, "f32[2]", "s32[2]")


def test_bitwise_operations_reject_floats() -> None:
    with raises(ShapeError, shared.ELEMENT_TYPE):
        shape(ops.and_, "f32[2]", "f32[2]")


def test_complex() -> None:
    check(ops.complex, (f32([1, 2]), f32([3, -4])), np.array([1 + 3j, 2 - 4j], np.complex64))
    check(ops.complex, (f32([[1], [2]]), f32([[3, 4]])), np.array([[1 + 3j, 1 + 4j], [2 + 3j, 2 + 4j]], np.complex64))
    assert shape(ops.complex, "f64[2]", "f64[2]") == "c128[2]"
    with raises(ShapeError, shared.ELEMENT_TYPE, "f32", "f64", "s32[2]"):
        shape(ops.complex, "s32[2]", "s32[2]")


# -- comparison

COMPARISONS: list[tuple[Build, Build, Callable[[Any, Any], Any]]] = [
    (ops.eq, ops.eq_total_order, np.equal),
    (ops.ne, ops.ne_total_order, np.not_equal),
    (ops.ge, ops.ge_total_order, np.greater_equal),
    (ops.gt, ops.gt_total_order, np.greater),
    (ops.le, ops.le_total_order, np.less_equal),
    (ops.lt, ops.lt_total_order, np.less),
]
IN_ORDER = np.array([-NAN, -INF, -2.5, -0.0, 0.0, 2.5, INF, NAN], np.float32)
IN_ORDER[0], IN_ORDER[-1] = np.copysign(f32(NAN), f32(-1)), np.copysign(f32(NAN), f32(1))


class TestCompare:
    @pytest.mark.parametrize(("op", "total", "numpy"), COMPARISONS, ids=named)
    def test_ieee(self, op: Build, total: Build, numpy: Callable[[Any, Any], Any]) -> None:
        check(op, (IN_ORDER[:, None], IN_ORDER[None]), numpy(IN_ORDER[:, None], IN_ORDER[None]))

    @pytest.mark.parametrize(("op", "total", "numpy"), COMPARISONS, ids=named)
    def test_total_order(self, op: Build, total: Build, numpy: Callable[[Any, Any], Any]) -> None:
        place = np.arange(len(IN_ORDER))
        check(total, (IN_ORDER[:, None], IN_ORDER[None]), numpy(place[:, None], place[None]))

    @pytest.mark.parametrize(("op", "total", "numpy"), COMPARISONS, ids=named)
    def test_integers(self, op: Build, total: Build, numpy: Callable[[Any, Any], Any]) -> None:
        check(op, (s32([1, 2, 3]), s32([2, 2, 2])), numpy([1, 2, 3], [2, 2, 2]))

    def test_unsigned(self) -> None:
        check(ops.gt, (u32(2**32 - 1), u32(1)), pred(True))

    def test_complex_numbers_compare_for_equality_only(self) -> None:
        z = np.array([1 + 2j, 1 - 2j], np.complex64)
        check(ops.eq, (z, z[::-1].copy()), pred([False, False]))
        check(ops.ne, (z, z), pred([False, False]))
        for op in (ops.ge, ops.gt, ops.le, ops.lt):
            with raises(ShapeError, codes.COMPLEX_ORDER, "c64[2]", "EQ", "NE"):
                shape(op, "c64[2]", "c64[2]")


# -- clamp and select


class TestClamp:
    def test_scalar_bounds(self) -> None:
        check(ops.clamp, (s32(0), s32([-1, 5, 9]), s32(6)), s32([0, 5, 6]))

    def test_array_bounds(self) -> None:
        check(ops.clamp, (s32([0, 6, 0]), s32([-1, 5, 9]), s32([5, 9, 7])), s32([0, 6, 7]))
        check(ops.clamp, (s32([0, 6, 0]), s32([-1, 5, 9]), s32(7)), s32([0, 6, 7]))

    def test_equals_the_minimum_of_a_maximum(self) -> None:
        low, x, high = (v.ravel() for v in np.meshgrid(*[f32([-1, 0, 1, 2])] * 3))
        check(ops.clamp, (low, x, high), np.minimum(np.maximum(low, x), high))

    def test_low_above_high_gives_high(self) -> None:
        check(ops.clamp, (s32(6), s32([-1, 3, 9]), s32(0)), s32([0, 0, 0]))

    def test_nan_is_preserved(self) -> None:
        check(ops.clamp, (f32(0), f32([NAN, 2]), f32(1)), f32([NAN, 1]))

    def test_operands_must_have_one_type(self) -> None:
        with raises(ShapeError, shared.SAME_ELEMENT_TYPE):
            shape(ops.clamp, "s32[]", "f32[2]", "f32[]")


class TestSelect:
    v1, v2 = s32([1, 2, 3, 4]), s32([100, 200, 300, 400])

    def test_array_of_predicates(self) -> None:
        check(ops.select, (pred([True, False, False, True]), self.v1, self.v2), s32([1, 200, 300, 4]))

    def test_scalar_predicate(self) -> None:
        check(ops.select, (pred(True), self.v1, self.v2), self.v1)
        check(ops.select, (pred(False), self.v1, self.v2), self.v2)

    def test_tuples_are_selected_leaf_by_leaf(self) -> None:
        on_true, on_false = (self.v1, (f32(1), f32([2]))), (self.v2, (f32(-1), f32([-2])))
        check(ops.select, (pred(True), on_true, on_false), on_true)
        check(ops.select, (pred(False), on_true, on_false), on_false)

    @pytest.mark.parametrize(
        ("shapes", "wanted"),
        [
            (("pred[2]", "(f32[2])", "(f32[2])"), (builder_codes.TUPLE_SELECTION, "pred[2]")),
            (
                ("pred[]", "(f32[2])", "(f32[3])"),
                (builder_codes.TUPLE_SELECTION, "(f32[2])", "(f32[3])"),
            ),
            (("pred[]", "f32[2]", "f32[3]"), (shared.SAME_DIMENSIONS, "f32[2]", "f32[3]")),
            (("s32[]", "f32[2]", "f32[2]"), (shared.ELEMENT_TYPE,)),
        ],
    )
    def test_refusals(self, shapes: tuple[str, ...], wanted: Wanted) -> None:
        with raises(ShapeError, *wanted):
            shape(ops.select, *shapes)


# -- conversion


def converted(to: str) -> Build:
    return lambda operand: ops.convert_element_type(operand, to)


def bitcast(to: str) -> Build:
    return lambda operand: ops.bitcast_convert_type(operand, to)


class TestConvertElementType:
    def test_integers_to_floats(self) -> None:
        check(converted("f32"), (s32([0, 1, 2]),), f32([0.0, 1.0, 2.0]))

    def test_rounds_to_nearest_even(self) -> None:
        check(converted("f32"), (s32([2**24 + 1, 2**24 + 3, 2**24 + 2]),), f32([2**24, 2**24 + 4, 2**24 + 2]))

    def test_floats_to_integers_saturate(self) -> None:
        values = f32([NAN, 1.9, -1.9, 1e10, -1e10, INF, -INF])
        check(converted("s32"), (values,), s32([0, 1, -1, MAX32, MIN32, MAX32, MIN32]))
        check(converted("s8"), (values,), np.array([0, 1, -1, 127, -128, 127, -128], np.int8))
        check(converted("u8"), (values,), np.array([0, 1, 0, 255, 0, 255, 0], np.uint8))

    def test_conversion_to_pred_tests_for_nonzero(self) -> None:
        check(converted("pred"), (f32([NAN, 0.0, -0.0, 0.25]),), pred([True, False, False, True]))

    def test_dimensions_are_preserved(self) -> None:
        assert shape(converted("f64"), "s32[2,3]") == "f64[2,3]"

    def test_tuples_are_rejected(self) -> None:
        with raises(ShapeError, shared.ARRAY_OPERAND, "(f16[])"):
            shape(converted("f32"), "(f16[])")


class TestBitcastConvertType:
    @pytest.mark.parametrize(
        ("operand", "to", "result"),
        [
            ("f32[10]", "f16", "f16[10,2]"),
            ("f32[]", "f16", "f16[2]"),
            ("f16[10,2]", "f32", "f32[10]"),
            ("s32[3]", "f32", "f32[3]"),
            ("s32[]", "s8", "s8[4]"),
            ("s8[5,4]", "s32", "s32[5]"),
        ],
    )
    def test_shapes(self, operand: str, to: str, result: str) -> None:
        assert shape(bitcast(to), operand) == result

    def test_same_width(self) -> None:
        check(bitcast("f32"), (s32([0x3F800000, MIN32]),), f32([1, -0.0]))

    def test_narrower_and_back(self) -> None:
        words = np.array([0x04030201, -1], np.int32)
        parts = np.array([[1, 2, 3, 4], [-1, -1, -1, -1]], np.int8)
        check(bitcast("s8"), (words,), parts)
        check(bitcast("s32"), (parts,), words)

    @pytest.mark.parametrize(
        ("operand", "to", "wanted"),
        [
            ("f16[10,3]", "f32", (codes.BITCAST_CONVERT_LAST_DIMENSION, "f16[10,3]", "f32")),
            ("f16[]", "f32", (codes.BITCAST_CONVERT_LAST_DIMENSION, "f16[]", "f32")),
            ("f32[2]", "c64", (codes.BITCAST_CONVERT_COMPLEX,)),
            ("c64[2]", "f32", (codes.BITCAST_CONVERT_COMPLEX,)),
            ("(f16[])", "s16", (shared.ARRAY_OPERAND, "(f16[])")),
        ],
    )
    def test_refusals(self, operand: str, to: str, wanted: Wanted) -> None:
        with raises(ShapeError, *wanted):
            shape(bitcast(to), operand)


def reduced(exponent_bits: int, mantissa_bits: int) -> Build:
    return lambda operand: ops.reduce_precision(operand, exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)


class TestReducePrecision:
    values = f32([1 / 3, -1e-3, 1e5, 65519, 65520, -1e6, INF, NAN, 0.0, -0.0])

    def test_to_half_and_back(self) -> None:
        with np.errstate(over="ignore"):
            check(reduced(5, 10), (self.values,), self.values.astype(np.float16).astype(np.float32))

    def test_to_bfloat16_and_back(self) -> None:
        check(reduced(8, 7), (self.values,), self.values.astype(ml_dtypes.bfloat16).astype(np.float32))

    def test_ties_to_even(self) -> None:
        check(reduced(8, 1), (f32([1.0, 1.25, 1.75, 1.3, -1.25]),), f32([1.0, 1.0, 2.0, 1.5, -1.0]))

    def test_overflow_gives_infinity(self) -> None:
        check(reduced(2, 3), (f32([3.75, 3.9, -4.0]),), f32([3.75, INF, -INF]))

    def test_more_bits_change_nothing(self) -> None:
        check(reduced(11, 52), (self.values,), self.values)

    def test_the_order_of_arguments(self) -> None:
        check(lambda x: ops.reduce_precision(x, 5, 10), (f32(1 / 3),), f32(np.float16(1 / 3)))

    @pytest.mark.parametrize(
        ("bits", "operand", "wanted"),
        [
            ((0, 3), "f32[]", (codes.PRECISION_BITS, "exponent_bits")),
            ((1, -1), "f32[]", (codes.PRECISION_BITS, "mantissa_bits")),
            ((5, 10), "s32[]", (shared.ELEMENT_TYPE, "s32[]")),
        ],
    )
    def test_refusals(self, bits: tuple[int, int], operand: str, wanted: Wanted) -> None:
        with raises(ShapeError, *wanted):
            shape(reduced(*bits), operand)
