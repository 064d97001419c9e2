"""Values of convert, bitcast-convert and reduce-precision."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.interpreter.runners.elementwise import evaluate
from xlapy import opcodes
from xlapy.base.element_types import ARRAY_TYPES, PRED, PrimitiveType
from xlapy.base.shape import Shape
from xlapy.interpreter.kernels.conversion import bitcast_array, convert_array
from xlapy.opcodes.elementwise import ReducePrecisionAttributes, bitcast_convert_shape
from xlapy.testing.random_values import random_array

Array = np.ndarray[Any, Any]
INF, NAN = np.inf, np.nan
FLOATS = [t for t in ARRAY_TYPES if t.is_floating]


def type_of(text: str) -> PrimitiveType:
    return PrimitiveType.from_text(text)


def of(element_type: str, values: list[Any]) -> Array:
    return np.array(values).astype(type_of(element_type).dtype)


def listed(array: Array) -> list[Any]:
    if array.dtype.kind in "biufc":
        return array.tolist()
    native = np.int64 if array.dtype.name.startswith(("int", "uint")) else np.float64
    return array.astype(native).tolist()


def convert(source: str, target: str, values: list[Any]) -> list[Any]:
    operand = of(source, values)
    return listed(evaluate(opcodes.CONVERT, operand, shape=Shape.array(type_of(target), operand.shape)))


@pytest.mark.parametrize(
    ("source", "target", "values", "expected"),
    [
        ("s32", "s8", [127, 128, -129, 300], [127, -128, 127, 44]),
        ("s32", "u8", [-1, 256], [255, 0]),
        ("s8", "u64", [-1], [2**64 - 1]),
        ("u64", "s64", [2**63], [-(2**63)]),
        ("s32", "s4", [7, 8, -9, 16], [7, -8, 7, 0]),
        ("u4", "s4", [15, 7], [-1, 7]),
        ("s2", "s32", [-2, 1], [-2, 1]),
        ("s8", "u1", [2, 3, -1], [0, 1, 1]),
        ("s8", "s1", [1, 2], [-1, 0]),
        ("pred", "s4", [True, False], [1, 0]),
        ("pred", "f32", [True, False], [1, 0]),
        ("pred", "f8e8m0fnu", [True], [1]),
        ("s32", "pred", [0, 2, -1], [False, True, True]),
        ("u2", "pred", [0, 2], [False, True]),
        ("f32", "pred", [0.0, -0.0, NAN, 1e-40, 0.5], [False, False, True, True, True]),
        ("f8e5m2", "pred", [0.0, NAN], [False, True]),
        ("f32", "s32", [1.9, -1.9, NAN, INF, -INF, 3e9], [1, -1, 0, 2**31 - 1, -(2**31), 2**31 - 1]),
        ("f64", "s32", [2147483647.5, -2147483648.9, 2147483646.5], [2**31 - 1, -(2**31), 2**31 - 2]),
        ("f32", "s8", [127.9, 128, -128.9, -129, NAN], [127, 127, -128, -128, 0]),
        ("f32", "u8", [-0.5, -3, 255.9, 256, NAN], [0, 0, 255, 255, 0]),
        ("f64", "s64", [2.0**63, -(2.0**63), 2.0**62], [2**63 - 1, -(2**63), 2**62]),
        ("f64", "u64", [2.0**64, 2.0**63, -1], [2**64 - 1, 2**63, 0]),
        ("f16", "s4", [7.5, 8, -8.5, -20, NAN], [7, 7, -8, -8, 0]),
        ("bf16", "u2", [3.5, 4, -1], [3, 3, 0]),
        ("f8e4m3fn", "s32", [448, -2.5, NAN], [448, -2, 0]),
        ("f64", "f32", [1e300, 1 + 2**-24, 1 + 2**-24 + 2**-40], [INF, 1, 1 + 2**-23]),
        ("f64", "bf16", [1 + 2**-8 + 2**-40, 1 + 2**-8], [1 + 2**-7, 1]),
        ("f64", "f16", [1 + 2**-11 + 2**-40, 65520, 65519], [1 + 2**-10, INF, 65504]),
        ("f64", "f8e5m2", [1.125 + 2**-40, 1.125, 1e9], [1.25, 1, INF]),
        ("f32", "f4e2m1fn", [2.5, 2.5000002, 100, -100], [2, 3, 6, -6]),
        ("f32", "f8e8m0fnu", [1, 1.5, 3, 0.75], [1, 2, 4, 1]),
        ("s64", "f32", [2**60 + 2**36 + 1, 2**53 + 1], [2.0**60 + 2.0**37, 2.0**53]),
        ("u64", "f32", [2**64 - 1], [2.0**64]),
        ("s64", "bf16", [2**60 + 2**52 + 1, 2**60 + 2**52], [2.0**60 + 2.0**53, 2.0**60]),
        ("u8", "bf16", [255], [255]),
        ("s32", "f16", [2049, 2051, 70000], [2048, 2052, INF]),
        ("s32", "f8e4m3fn", [448, 17], [448, 16]),
        ("f32", "c64", [1.5, -0.0], [1.5, 0]),
        ("s64", "c128", [3], [3]),
        ("pred", "c64", [True], [1]),
        ("c128", "c64", [1 + 2j, 1e300], [1 + 2j, complex(INF, 0)]),
        ("c64", "f32", [1.5 + 2j, complex(-0.0, 1)], [1.5, -0.0]),
        ("c64", "s8", [1.7 + 2j, -2.7, complex(NAN, 1), 300j, 300], [1, -2, 0, 0, 127]),
        ("c128", "bf16", [257 + 1j], [256]),
        ("c64", "pred", [1j, 0.5 + 1j], [False, True]),
    ],
)
def test_convert(source: str, target: str, values: list[Any], expected: list[Any]) -> None:
    assert convert(source, target, values) == expected


@pytest.mark.parametrize(
    ("target", "values"),
    [("f8e4m3fn", [1e9, NAN]), ("f8e4m3b11fnuz", [1e9, -INF]), ("f8e8m0fnu", [0, -1, INF])],
)
def test_numbers_outside_the_type_become_nan(target: str, values: list[float]) -> None:
    assert np.isnan(convert("f32", target, values)).all()


@pytest.mark.parametrize("source", ARRAY_TYPES, ids=str)
def test_every_pair_of_types_converts(source: PrimitiveType) -> None:
    operand = random_array((3, 5), source.dtype, np.random.default_rng(7))
    for target in ARRAY_TYPES:
        with np.errstate(all="ignore"):
            result = convert_array(operand, target)
        assert result.dtype == target.dtype and result.shape == (3, 5), target
        if source is target:
            assert result.tobytes() == operand.tobytes()


# Bits


@pytest.mark.parametrize(
    ("source", "values", "target", "expected"),
    [
        ("f32", [1.0, -0.0], "u32", [0x3F800000, 0x80000000]),
        ("s32", [0x01020304], "s8", [[4, 3, 2, 1]]),
        ("s8", [[4, 3, 2, 1]], "s32", [0x01020304]),
        ("u16", [[0, 0x3F80]], "f32", [1.0]),
        ("u8", [0x21], "u4", [[1, 2]]),
        ("s4", [[1, 2], [-1, -8]], "u8", [0x21, 0x8F]),
        ("s8", [-2], "s4", [[-2, -1]]),
        ("u8", [0b11100100], "u2", [[0, 1, 2, 3]]),
        ("s2", [[-1, 0, 1, -2]], "u8", [0b10010011]),
        ("u2", [[3, 1]], "u4", [7]),
        ("u8", [5], "u1", [[1, 0, 1, 0, 0, 0, 0, 0]]),
        ("s4", [-1, 7], "u4", [15, 7]),
        ("f4e2m1fn", [[1.0, -6.0]], "u8", [0xF2]),
        ("u8", [0xF2], "f4e2m1fn", [[1.0, -6.0]]),
        ("f64", [1.0], "u32", [[0, 0x3FF00000]]),
        ("bf16", [1.0], "f16", [1.875]),
        ("pred", [True, False], "u8", [1, 0]),
        ("u8", [1, 0], "pred", [True, False]),
        ("f8e4m3fn", [1.0], "s8", [0x38]),
    ],
)
def test_bitcast_convert(source: str, values: list[Any], target: str, expected: list[Any]) -> None:
    operand = of(source, values)
    shape = bitcast_convert_shape(Shape.of(operand), type_of(target))
    assert listed(evaluate(opcodes.BITCAST_CONVERT, operand, shape=shape)) == expected


@pytest.mark.parametrize("source", [t for t in ARRAY_TYPES if t is not PRED], ids=str)
def test_bitcast_convert_round_trip(source: PrimitiveType) -> None:
    operand = random_array((4, 8), source.dtype, np.random.default_rng(8))
    for target in ARRAY_TYPES:
        narrower = target is not PRED and source.bits % target.bits == 0
        if narrower and source.is_complex == target.is_complex:
            there = bitcast_array(operand, target)
            assert Shape.of(there) == bitcast_convert_shape(Shape.of(operand), target)
            assert bitcast_array(there, source).tobytes() == operand.tobytes()


def test_bitcast_convert_of_scalars_and_views() -> None:
    assert bitcast_array(np.array(1.0, np.float32), type_of("u8")).tolist() == [0, 0, 128, 63]
    assert bitcast_array(np.array([0, 0, 128, 63], np.uint8), type_of("f32")).shape == ()
    columns = np.arange(8, dtype=np.complex64).reshape(2, 4).T
    wide = bitcast_array(columns, type_of("c128"))
    assert bitcast_array(wide, type_of("c64")).tolist() == columns.tolist()
    assert bitcast_array(np.zeros((0, 4), np.uint8), type_of("s32")).shape == (0,)
    assert bitcast_array(np.complex128(1 + 2j)[()], type_of("c64")).shape == (2,)


# Precision


def reduced(values: list[float], exponent_bits: int, mantissa_bits: int, t: str = "f32") -> list[float]:
    attributes = ReducePrecisionAttributes.make(exponent_bits=exponent_bits, mantissa_bits=mantissa_bits)
    return listed(evaluate(opcodes.REDUCE_PRECISION, of(t, values), attributes=attributes))


def test_reduce_precision() -> None:
    assert reduced([1 + 2**-11, 1 + 3 * 2**-11, 65520, 65519, -1e9], 5, 10) == [1, 1 + 2**-9, INF, 65504, -INF]
    assert reduced([2.0**-14, 2.0**-15, -(2.0**-15)], 5, 10) == [2.0**-14, 0, 0]
    assert np.signbit(reduced([-(2.0**-15), -0.0], 5, 10)).all()
    assert reduced([1 + 2**-8, 1 + 3 * 2**-8, 1e-40], 8, 7) == pytest.approx([1, 1 + 2**-6, 1e-40], rel=1e-2)
    assert reduced([INF, -INF, 0.0], 2, 1) == [INF, -INF, 0]
    assert np.isnan(reduced([NAN], 2, 1)).all()
    assert reduced([1.1, 3e38], 11, 52) == [float(np.float32(1.1)), float(np.float32(3e38))]


def test_reduce_precision_to_a_bare_exponent() -> None:
    assert reduced([1.4, 1.6, 0.75, 1.5, 3, 6, -0.75], 8, 0) == [1, 2, 0.5, 2, 2, 8, -0.5]
    assert reduced([1.9, 2.0, -3.0, 0.1, -1.0], 1, 0) == [INF, INF, -INF, 0, 0]
    assert reduced([1.0, 1.4], 1, 23) == [0, 0]


def test_reduce_precision_of_other_types() -> None:
    assert reduced([1 + 2**-30], 8, 23, "f64") == [1]
    assert reduced([1e39, 1e-39], 8, 23, "f64") == [INF, 0]
    assert reduced([448, 240], 4, 3, "f8e4m3fn") == pytest.approx([NAN, 240], nan_ok=True)
    assert reduced([448, 1.125], 5, 2, "f8e4m3fn") == [448, 1]
    assert reduced([6, 4, 1.5], 2, 1, "f4e2m1fn") == [6, 6, 1.5]
    assert reduced([2.0**100, 4], 8, 0, "f8e8m0fnu") == [2.0**100, 4]


@pytest.mark.parametrize(("t", "exponent", "mantissa"), [("f16", 5, 10), ("bf16", 8, 7)])
def test_reduce_precision_to_a_type_is_a_round_trip_through_it(t: str, exponent: int, mantissa: int) -> None:
    x = random_array((5000,), np.float32, np.random.default_rng(9))
    dtype = np.dtype(type_of(t).dtype)
    with np.errstate(all="ignore"):
        expected = x.astype(dtype).astype(np.float32)
    denormal = np.abs(expected) < float(ml_dtypes.finfo(dtype).smallest_normal)
    expected = np.where(denormal, np.copysign(np.float32(0), x), expected)
    np.testing.assert_array_equal(np.array(reduced(x.tolist(), exponent, mantissa), np.float32), expected)
