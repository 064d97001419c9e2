"""Values of the elementwise operations on PRED, integers and real numbers: corner cases, and accuracy of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.interpreter.runners.elementwise import evaluate
from tests.raising import raises
from xlapy import opcodes
from xlapy.base.element_types import ARRAY_TYPES, PrimitiveType
from xlapy.base.error_codes.operations import operands as codes
from xlapy.base.errors import UnsupportedError
from xlapy.interpreter.elementwise import KERNELS, total_order_key
from xlapy.opcodes.elementwise import CompareAttributes, ComparisonDirection, ComparisonType
from xlapy.opcodes.registry import OpDef, lookup
from xlapy.testing.comparison import assert_close
from xlapy.testing.random_values import random_array, special_values

Array = np.ndarray[Any, Any]
INF, NAN = np.inf, np.nan
INTEGERS = [t for t in ARRAY_TYPES if t.is_integral]
FLOATS = [t for t in ARRAY_TYPES if t.is_floating]
NARROW = [t for t in FLOATS if t.bits <= 8]


def of(element_type: str, *values: Any) -> Array:
    return np.array(values).astype(PrimitiveType.from_text(element_type).dtype)


def values(array: Array) -> list[Any]:
    """Returns the elements as Python numbers; narrow types are first converted to a native one."""
    if array.dtype.kind in "biufc":
        return array.tolist()
    native = np.int64 if array.dtype.name.startswith(("int", "uint")) else np.float64
    return array.astype(native).tolist()


def apply(name: str, element_type: str, *operands: list[Any]) -> list[Any]:
    return values(evaluate(lookup(name), *[of(element_type, *operand) for operand in operands]))


# PRED


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("add", [False, True, True, True]),
        ("multiply", [False, False, False, True]),
        ("maximum", [False, True, True, True]),
        ("minimum", [False, False, False, True]),
        ("and", [False, False, False, True]),
        ("or", [False, True, True, True]),
        ("xor", [False, True, True, False]),
    ],
)
def test_pred_arithmetic_is_logic(name: str, expected: list[bool]) -> None:
    assert apply(name, "pred", [False, False, True, True], [False, True, False, True]) == expected


def test_not() -> None:
    assert apply("not", "pred", [False, True]) == [True, False]
    assert apply("not", "s8", [0, 5, -1]) == [-1, -6, 0]
    assert apply("not", "u4", [0, 5, 15]) == [15, 10, 0]


# Integers


@pytest.mark.parametrize(
    ("name", "element_type", "operands", "expected"),
    [
        ("add", "s8", ([127, -128], [1, -1]), [-128, 127]),
        ("add", "u4", ([15, 9], [1, 9]), [0, 2]),
        ("subtract", "u8", ([0], [1]), [255]),
        ("multiply", "s4", ([7, -8], [2, -1]), [-2, -8]),
        ("multiply", "s64", ([2**62, 3], [4, -5]), [0, -15]),
        ("negate", "s8", ([-128, 3],), [-128, -3]),
        ("negate", "u2", ([0, 1, 3],), [0, 3, 1]),
        ("abs", "s4", ([-8, -3, 5],), [-8, 3, 5]),
        ("sign", "s32", ([-(2**31), 0, 7],), [-1, 0, 1]),
        ("divide", "s32", ([7, -7, 7, -7, 5, -(2**31)], [2, 2, -2, -2, 0, -1]), [3, -3, -3, 3, -1, -(2**31)]),
        ("divide", "u8", ([7, 255, 9], [2, 255, 0]), [3, 1, 255]),
        ("divide", "s4", ([-8, 7, -8], [-1, 0, 3]), [-8, -1, -2]),
        ("remainder", "s32", ([-5, 5, -5, 7, -(2**31)], [3, -3, -3, 0, -1]), [-2, 2, -2, 7, 0]),
        ("remainder", "u8", ([7, 9], [4, 0]), [3, 9]),
        ("power", "s32", ([0, 2, -1, -1, 1, 3, 0, -2], [0, -1, -3, -4, -9, 3, -1, 3]), [1, 0, -1, 1, 1, 27, 0, -8]),
        ("power", "s8", ([2, 2, 3, -128], [7, 64, 65, 2]), [-128, 0, 3, 0]),
        ("power", "u8", ([3, 7, 255], [255, 128, 3]), [171, 1, 255]),
        ("maximum", "u64", ([2**63, 1], [1, 2]), [2**63, 2]),
        ("minimum", "s2", ([-2, 1], [1, 0]), [-2, 0]),
        ("mulhi", "s8", ([127, -128, -1], [127, -128, 1]), [63, 64, -1]),
        ("mulhi", "u8", ([255, 16], [255, 16]), [254, 1]),
        ("mulhi", "s4", ([-8, 7], [7, 7]), [-4, 3]),
        ("and", "u8", ([0b1100], [0b1010]), [0b1000]),
        ("or", "s8", ([-128], [1]), [-127]),
        ("xor", "s4", ([-1], [5]), [-6]),
        ("shift-left", "s32", ([1, 1, 3, 1], [31, 32, 1, -1]), [-(2**31), 0, 6, 0]),
        ("shift-left", "u4", ([9, 1, 1], [1, 3, 4]), [2, 8, 0]),
        ("shift-right-logical", "s8", ([-1, -1, -1], [1, 8, 7]), [127, 0, 1]),
        ("shift-right-logical", "s4", ([-1, -8], [1, 3]), [7, 1]),
        ("shift-right-arithmetic", "s8", ([-5, -5, 5, -5], [1, 100, 100, -1]), [-3, -1, 0, -1]),
        ("shift-right-arithmetic", "u8", ([0x80, 0x40, 0x80], [1, 1, 9]), [0xC0, 0x20, 0xFF]),
        ("shift-right-arithmetic", "u4", ([8, 4], [1, 9]), [12, 0]),
        ("count-leading-zeros", "u32", ([0, 1, 2**31, 12345],), [32, 31, 0, 18]),
        ("count-leading-zeros", "s64", ([-1, 0, 2**40],), [0, 64, 23]),
        ("count-leading-zeros", "u4", ([0, 1, 5, 8],), [4, 3, 1, 0]),
        ("popcnt", "s8", ([-1, 0, 127, -128],), [8, 0, 7, 1]),
        ("popcnt", "u64", ([2**64 - 1, 2**63],), [64, 1]),
        ("popcnt", "u4", ([15, 6],), [4, 2]),
    ],
)
def test_integer_corners(name: str, element_type: str, operands: tuple[list[int], ...], expected: list[int]) -> None:
    assert apply(name, element_type, *operands) == expected


def _wrapped(value: int, t: PrimitiveType) -> int:
    value %= 1 << t.bits
    return value - (1 << t.bits) if t.is_signed and value >> (t.bits - 1) else value


def _quotient(a: int, b: int) -> int:
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _power(a: int, b: int) -> int:
    if b >= 0:
        return pow(a, b, 1 << 64)
    return {1: 1, -1: 1 - 2 * (b % 2)}.get(a, 0)


def _pattern(a: int, t: PrimitiveType) -> int:
    return a % (1 << t.bits)


def _arithmetic_shift(a: int, b: int, t: PrimitiveType) -> int:
    signed = _pattern(a, t) - (_pattern(a, t) >> (t.bits - 1) << t.bits)
    return signed >> min(_pattern(b, t), t.bits - 1)


IN_PYTHON: dict[str, Callable[[int, int, PrimitiveType], int]] = {
    "add": lambda a, b, t: a + b,
    "subtract": lambda a, b, t: a - b,
    "multiply": lambda a, b, t: a * b,
    "divide": lambda a, b, t: _quotient(a, b),
    "remainder": lambda a, b, t: a if b == 0 else a - _quotient(a, b) * b,
    "power": lambda a, b, t: _power(a, b),
    "mulhi": lambda a, b, t: (a * b) >> t.bits,
    "maximum": lambda a, b, t: max(a, b),
    "minimum": lambda a, b, t: min(a, b),
    "and": lambda a, b, t: a & b,
    "or": lambda a, b, t: a | b,
    "xor": lambda a, b, t: a ^ b,
    "shift-left": lambda a, b, t: a << _pattern(b, t) if _pattern(b, t) < t.bits else 0,
    "shift-right-logical": lambda a, b, t: _pattern(a, t) >> _pattern(b, t),
    "shift-right-arithmetic": _arithmetic_shift,
    "count-leading-zeros": lambda a, _, t: t.bits - _pattern(a, t).bit_length(),
    "popcnt": lambda a, _, t: _pattern(a, t).bit_count(),
    "not": lambda a, _, t: ~a,
    "negate": lambda a, _, t: -a,
    "abs": lambda a, _, t: abs(a),
    "sign": lambda a, _, t: (a > 0) - (a < 0),
}


@pytest.mark.parametrize("t", INTEGERS, ids=str)
def test_integers_as_python_computes_them(t: PrimitiveType) -> None:
    rng = np.random.default_rng(1)
    special = special_values(t.dtype)
    lhs = np.concatenate([np.repeat(special, special.size), random_array((100,), t.dtype, rng)])
    rhs = np.concatenate([np.tile(special, special.size), random_array((100,), t.dtype, rng)])
    pairs = list(zip(values(lhs), values(rhs), strict=True))
    for name, function in IN_PYTHON.items():
        op = lookup(name)
        if name in ("abs", "sign") and t.is_unsigned:
            continue
        result = values(evaluate(op, *(lhs, rhs)[: op.arity.minimum]))
        assert result == [_wrapped(function(a, b, t), t) for a, b in pairs], name


# Floats: corners


@pytest.mark.parametrize("t", ["f8e5m2", "f16", "bf16", "f32", "f64"])
@pytest.mark.parametrize(
    ("name", "operands", "expected"),
    [
        ("maximum", ([-0.0, 0.0, NAN, 1, INF, -INF], [0.0, -0.0, 1, NAN, NAN, 2]), [0.0, 0.0, NAN, NAN, NAN, 2]),
        ("minimum", ([-0.0, 0.0, NAN, 1, INF, -INF], [0.0, -0.0, 1, NAN, 3, 2]), [-0.0, -0.0, NAN, NAN, 3, -INF]),
        ("sign", ([-3, -0.0, 0.0, 4, INF, -INF, NAN],), [-1, -0.0, 0.0, 1, 1, -1, NAN]),
        ("round-nearest-afz", ([0.5, -0.5, 1.5, 2.5, -2.5, 0.25, -0.25, INF],), [1, -1, 2, 3, -3, 0, -0.0, INF]),
        ("round-nearest-even", ([0.5, -0.5, 1.5, 2.5, -2.5, INF, NAN],), [0, -0.0, 2, 2, -2, INF, NAN]),
        ("floor", ([-0.5, 0.5, -0.0, INF, NAN],), [-1, 0, -0.0, INF, NAN]),
        ("ceil", ([-0.5, 0.5, -0.0, -INF],), [-0.0, 1, -0.0, -INF]),
        ("abs", ([-0.0, -2, -INF, NAN],), [0, 2, INF, NAN]),
        ("negate", ([0.0, -2, INF, NAN],), [-0.0, 2, -INF, NAN]),
        ("remainder", ([-5, 5, -5, 1, 1, INF, -4, 0], [3, -3, -3, 0, INF, 1, 2, 5]), [-2, 2, -2, NAN, 1, NAN, -0.0, 0]),
        ("divide", ([1, -1, 0, 1, INF], [0, 0, 0, -INF, INF]), [INF, -INF, NAN, -0.0, NAN]),
        ("multiply", ([0, INF, -2], [INF, -1, 0]), [NAN, -INF, -0.0]),
        ("subtract", ([INF, 1, -0.0], [INF, 1, 0]), [NAN, 0, -0.0]),
        ("sqrt", ([4, -1, -0.0, INF],), [2, NAN, -0.0, INF]),
        ("rsqrt", ([4, -1, -0.0, 0, INF],), [0.5, NAN, -INF, INF, 0]),
        ("cbrt", ([-8, 8, -0.0, -INF],), [-2, 2, -0.0, -INF]),
        ("power", ([1, NAN, 0, -8, -2, -INF, -0.0], [NAN, 0, 0, 0.5, 3, 3, -1]), [1, 1, 1, NAN, -8, -INF, -INF]),
        ("logistic", ([0, INF, -INF, NAN],), [0.5, 1, 0, NAN]),
        ("log", ([1, 0, -0.0, -1, INF],), [0, -INF, -INF, NAN, INF]),
        ("log-plus-one", ([0, -0.0, -1, -2],), [0, -0.0, -INF, NAN]),
        ("exponential", ([0, -INF, INF, NAN],), [1, 0, INF, NAN]),
        ("exponential-minus-one", ([-0.0, -INF, INF],), [-0.0, -1, INF]),
        ("tanh", ([-0.0, INF, -INF, NAN],), [-0.0, 1, -1, NAN]),
        ("erf", ([-0.0, INF, -INF, NAN],), [-0.0, 1, -1, NAN]),
        ("atan2", ([0, -0.0, 0, INF], [1, 1, 0, NAN]), [0, -0.0, 0, NAN]),
        ("acosh", ([1, 0.5, INF],), [0, NAN, INF]),
        ("atanh", ([0, 1, -1, 2],), [0, INF, -INF, NAN]),
        ("acos", ([1, 2],), [0, NAN]),
        ("real", ([-0.0, NAN, 3],), [-0.0, NAN, 3]),
        ("imag", ([-0.0, NAN, 3],), [0, 0, 0]),
    ],
)
def test_float_corners(name: str, t: str, operands: tuple[list[float], ...], expected: list[float]) -> None:
    result = evaluate(lookup(name), *[of(t, *operand) for operand in operands])
    assert_close(result, of(t, *expected), rule="bits")


def test_half_away_from_zero_does_not_round_twice() -> None:
    below_half = 0.49999999999999994
    assert apply("round-nearest-afz", "f64", [below_half, -below_half, 2.0**52 + 1]) == [0, 0, 2.0**52 + 1]
    assert apply("round-nearest-afz", "f32", [0.49999997, 8388609.0]) == [0, 8388609.0]


def test_is_finite() -> None:
    assert apply("is-finite", "f32", [0, INF, -INF, NAN, 3e38]) == [True, False, False, False, True]
    assert apply("is-finite", "f8e4m3fn", [448, NAN]) == [True, False]
    assert apply("is-finite", "f4e2m1fn", [6, -6]) == [True, True]


def test_types_without_some_values() -> None:
    assert apply("add", "f8e4m3fn", [448, 448], [16, 64]) == pytest.approx([448, NAN], nan_ok=True)
    assert apply("add", "f4e2m1fn", [6, -6], [6, -6]) == [6, -6]
    assert apply("negate", "f8e4m3fnuz", [0, 2]) == [0, -2]
    assert not np.signbit(evaluate(opcodes.NEGATE, of("f8e4m3fnuz", 0)).astype(np.float32))
    assert apply("add", "f8e8m0fnu", [1, 4], [1, 2]) == [2, 8]
    assert apply("imag", "f8e8m0fnu", [1]) == pytest.approx([NAN], nan_ok=True)
    assert apply("subtract", "f8e8m0fnu", [1, 1], [0.5, 2]) == pytest.approx([0.5, NAN], nan_ok=True)


def test_denormals_are_kept() -> None:
    assert apply("add", "f32", [1e-40], [1e-40]) == [np.float32(1e-40) + np.float32(1e-40)]
    assert apply("exponential", "f32", [-88.0]) == [float(np.float32(np.exp(-88.0)))]
    assert apply("multiply", "f64", [5e-324], [1.0]) == [5e-324]


# Floats: accuracy

LONG: dict[str, Callable[..., Any]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cbrt": np.cbrt,
    "cosh": np.cosh,
    "cosine": np.cos,
    "exponential": np.exp,
    "exponential-minus-one": np.expm1,
    "log": np.log,
    "log-plus-one": np.log1p,
    "sine": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "atan2": np.arctan2,
    "power": np.power,
    "logistic": lambda x: 1 / (1 + np.exp(-x)),
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "remainder": np.fmod,
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
}
EXACT = {"add", "subtract", "multiply", "divide", "remainder", "sqrt"}


@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("t", ["bf16", "f32", "f64"])
def test_functions_against_long_double(name: str, t: str) -> None:
    rng = np.random.default_rng(2)
    dtype = PrimitiveType.from_text(t).dtype
    op = lookup(name)
    scales = np.repeat([1e-4, 0.4, 1, 9, 80], 2000)
    operands = [rng.standard_normal(scales.size) * scales for _ in range(op.arity.minimum)]
    if name == "acosh":
        operands = [1 + np.abs(operands[0])]
    arrays = [operand.astype(dtype) for operand in operands]
    result = evaluate(op, *arrays)
    with np.errstate(all="ignore"):
        expected = LONG[name](*[array.astype(np.longdouble) for array in arrays])
        assert_close(result, expected, dtype, "elementwise")
        if name in EXACT and t == "f32":
            assert_close(result, expected.astype(dtype), rule="exact")


def test_the_error_function() -> None:
    # Abramowitz and Stegun, table 7.1, and the first term of the series for a tiny argument
    table = {0.1: 0.1124629160182849, 0.5: 0.5204998778130465, 1: 0.8427007929497149, 2: 0.9953222650189527}
    table[1e-20] = 1.1283791670955126e-20
    assert apply("erf", "f64", list(table)) == pytest.approx(list(table.values()), rel=1e-15)


@pytest.mark.parametrize("t", NARROW, ids=str)
def test_narrow_types_round_once(t: PrimitiveType) -> None:
    """Checks every value of the type against functions computed in float64 and rounded by hand to the nearest value."""
    storage = np.arange(1 << t.bits, dtype=np.uint8).view(t.dtype)
    wide = storage.astype(np.float64)
    table = np.unique(wide[np.isfinite(wide)])
    for name, function in (("sqrt", np.sqrt), ("exponential", np.exp), ("tanh", np.tanh)):
        with np.errstate(all="ignore"):
            exact = function(wide)
        inside = np.isfinite(exact) & (np.abs(exact) <= table[-1]) & (exact >= table[0])
        result, exact = evaluate(lookup(name), storage).astype(np.float64)[inside], exact[inside]
        above = np.clip(np.searchsorted(table, exact), 1, table.size - 1)
        distance = np.minimum(np.abs(exact - table[above]), np.abs(exact - table[above - 1]))
        np.testing.assert_array_equal(np.abs(result - exact), distance, err_msg=name)


# Comparison


def compared(lhs: Array, rhs: Array, direction: str, order: ComparisonType | None = None) -> list[bool]:
    attributes = CompareAttributes.make(direction=ComparisonDirection[direction], type=order)
    return evaluate(opcodes.COMPARE, lhs, rhs, attributes=attributes).tolist()


def test_comparison_of_floats() -> None:
    lhs, rhs = of("f32", 1, 2, -0.0, NAN, NAN, INF), of("f32", 2, 1, 0.0, NAN, 1, INF)
    assert compared(lhs, rhs, "LT") == [True, False, False, False, False, False]
    assert compared(lhs, rhs, "LE") == [True, False, True, False, False, True]
    assert compared(lhs, rhs, "GT") == [False, True, False, False, False, False]
    assert compared(lhs, rhs, "GE") == [False, True, True, False, False, True]
    assert compared(lhs, rhs, "EQ") == [False, False, True, False, False, True]
    assert compared(lhs, rhs, "NE") == [True, True, False, True, True, False]


def test_comparison_of_other_types() -> None:
    assert compared(of("s8", -1, 1), of("s8", 1, 1), "LT") == [True, False]
    assert compared(of("u8", 255, 1), of("u8", 1, 1), "GT") == [True, False]
    assert compared(of("s4", -8, 7), of("s4", 7, -8), "LT") == [True, False]
    assert compared(of("pred", False, True), of("pred", True, True), "LT") == [True, False]
    assert compared(of("c64", 1 + 2j, 1, NAN), of("c64", 1 + 2j, 1j, NAN), "EQ") == [True, False, False]
    assert compared(of("c128", 1 + 2j, 1, NAN), of("c128", 1 + 2j, 1j, NAN), "NE") == [False, True, True]


@pytest.mark.parametrize("t", ["f8e5m2", "f8e4m3fn", "f16", "bf16", "f32", "f64"])
def test_total_order(t: str) -> None:
    largest = float(ml_dtypes.finfo(PrimitiveType.from_text(t).dtype).max)
    infinity = [INF] if t != "f8e4m3fn" else []
    positive = [0.0, 1.0, 2.5, largest, *infinity, NAN]
    up = np.concatenate([of(t, *positive)[::-1], of(t, *positive)])
    # the negative half: the same magnitudes with the sign bit set
    bits = up.view(f"u{up.itemsize}")
    bits[: len(positive)] |= bits.dtype.type(1 << (8 * up.itemsize - 1))
    key = total_order_key(up)
    assert np.all(key[1:] > key[:-1])
    matrix = np.arange(up.size)[:, None] < np.arange(up.size)[None, :]
    lhs, rhs = np.repeat(up, up.size), np.tile(up, up.size)
    assert compared(lhs, rhs, "LT", ComparisonType.TOTALORDER) == matrix.reshape(-1).tolist()
    assert compared(lhs, rhs, "GE", ComparisonType.TOTALORDER) == (~matrix).reshape(-1).tolist()


def test_total_order_of_types_without_negative_zero() -> None:
    every = np.array([0x80, 0xFF, 0x81, 0x00, 0x01, 0x7F], np.uint8).view(ml_dtypes.float8_e4m3fnuz)
    key = total_order_key(every)  # NaN, -max, -min, 0, min, max
    assert np.all(key[1:] > key[:-1])
    scales = np.array([0x00, 0x7F, 0xFE, 0xFF], np.uint8).view(ml_dtypes.float8_e8m0fnu)
    assert np.all(np.diff(total_order_key(scales).astype(int)) > 0)
    small = np.arange(16, dtype=np.uint8).view(ml_dtypes.float4_e2m1fn)
    order = np.argsort(total_order_key(small))
    assert order.tolist() == [15, 14, 13, 12, 11, 10, 9, 8, 0, 1, 2, 3, 4, 5, 6, 7]


# Choice


def test_clamp() -> None:
    def clamp(low: list[Any], x: list[Any], high: list[Any], t: str) -> list[Any]:
        return apply("clamp", t, low, x, high)

    assert clamp([0, 0, 0, 5, 5], [-1, 1, 9, 1, 9], [3, 3, 3, 2, 2], "s32") == [0, 1, 3, 2, 2]
    assert clamp([0, 0], [200, 3], [255, 2], "u8") == [200, 2]
    expected = [NAN, NAN, NAN, 0.5, 2]
    result = clamp([0, NAN, 0, 0, 5], [NAN, 1, 1, 0.5, 1], [1, 2, NAN, 1, 2], "f32")
    assert result == pytest.approx(expected, nan_ok=True)


def test_clamp_by_scalars_and_select_by_a_scalar() -> None:
    x = of("f16", [1, 5], [-3, 2])
    assert evaluate(opcodes.CLAMP, of("f16", 0)[0], x, of("f16", 2)[0]).tolist() == [[1, 2], [0, 2]]
    y = x + np.float16(10)
    assert evaluate(opcodes.SELECT, np.True_, x, y).tolist() == x.tolist()
    assert evaluate(opcodes.SELECT, np.False_, x, y).tolist() == y.tolist()
    assert evaluate(opcodes.SELECT, np.array([[True, False], [False, True]]), x, y).tolist() == [[1, 15], [7, 2]]


@pytest.mark.parametrize("t", ARRAY_TYPES, ids=str)
def test_select_keeps_bits(t: PrimitiveType) -> None:
    rng = np.random.default_rng(3)
    on_true, on_false = random_array((50,), t.dtype, rng), random_array((50,), t.dtype, rng)
    predicate = random_array((50,), np.bool_, rng)
    result = evaluate(opcodes.SELECT, predicate, on_true, on_false)
    expected = on_false.copy()
    expected[predicate] = on_true[predicate]
    assert result.tobytes() == expected.tobytes()


# Contracts


@pytest.mark.parametrize("op", [op for op in KERNELS if op.arity.minimum == 2], ids=lambda op: op.name)
def test_kernels_broadcast(op: OpDef) -> None:
    dtype = np.int32 if KERNELS[op].integral else np.float32
    column, row = np.arange(1, 4).astype(dtype)[:, None], np.arange(1, 5).astype(dtype)
    with np.errstate(all="ignore"):
        together = KERNELS[op].apply(op.name, np.broadcast_arrays(column, row))
        assert together.shape == (3, 4)
        np.testing.assert_array_equal(KERNELS[op].apply(op.name, (column, row)), together)
        np.testing.assert_array_equal(KERNELS[op].apply(op.name, (np.array(2, dtype), row)), together[1])


@pytest.mark.parametrize("op", KERNELS, ids=lambda op: op.name)
def test_operands_are_not_written(op: OpDef) -> None:
    for dtype in (np.int32, np.float32, np.complex64):
        kernels = KERNELS[op]
        real = kernels.exact or kernels.function
        if {np.int32: kernels.integral, np.float32: real, np.complex64: kernels.complex_valued}[dtype] is None:
            continue
        arrays = [np.array([1, 2, 3], dtype) for _ in range(op.arity.minimum)]
        for array in arrays:
            array.flags.writeable = False
        evaluate(op, *arrays)


def test_an_unsupported_element_type_is_an_error() -> None:
    with raises(UnsupportedError, codes.ELEMENT_TYPE, "sine.1", "s32"):
        KERNELS[opcodes.SINE].apply("sine.1", [np.array([1], np.int32)])


def test_zero_sizes_and_scalars() -> None:
    for op in KERNELS:
        if KERNELS[op].exact or KERNELS[op].function:
            assert evaluate(op, *[np.zeros((0, 3), np.float32)] * op.arity.minimum).shape == (0, 3)
            assert evaluate(op, *[np.float32(1)] * op.arity.minimum).shape == ()


def test_large_arrays_take_at_most_seconds() -> None:
    x = np.ones(1 << 24, np.float32)
    assert evaluate(opcodes.ADD, x, x)[-1] == 2
