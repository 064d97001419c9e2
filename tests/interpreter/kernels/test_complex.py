"""Values of the elementwise operations on complex numbers: accuracy, infinities, NaNs and branch cuts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.interpreter.runners.elementwise import evaluate
from xlapy import opcodes
from xlapy.opcodes.registry import lookup

Array = np.ndarray[Any, Any]
INF, NAN = np.inf, np.nan


def c(*parts: tuple[float, float], dtype: Any = np.complex128) -> Array:
    """Makes complex numbers from their parts: `complex(0, inf) * 1` would already be NaN."""
    array = np.empty(len(parts), dtype)
    array.real, array.imag = [p[0] for p in parts], [p[1] for p in parts]
    return array


def parts(array: Array) -> list[tuple[float, float]]:
    return list(zip(array.real.tolist(), array.imag.tolist(), strict=True))


def same(actual: Array, expected: list[tuple[float, float]]) -> None:
    """Compares real and imaginary parts: NaN equals NaN, and 0 equals -0, because the sign of zeros is unspecified."""
    np.testing.assert_array_equal(np.array(parts(actual)), np.array(expected))


# Accuracy

Z = np.clongdouble


def _log1p(z: Array) -> Array:
    return np.log1p(z.real * (2 + z.real) + z.imag**2) / 2 + 1j * np.arctan2(z.imag, 1 + z.real)


def _expm1(z: Array) -> Array:
    real = np.expm1(z.real) * np.cos(z.imag) - 2 * np.sin(z.imag / 2) ** 2
    return real + 1j * np.exp(z.real) * np.sin(z.imag)


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cosh": np.cosh,
    "cosine": np.cos,
    "exponential": np.exp,
    "exponential-minus-one": _expm1,
    "log": np.log,
    "log-plus-one": _log1p,
    "logistic": lambda z: 1 / (1 + np.exp(-z)),
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "sign": lambda z: z / np.abs(z),
    "sine": np.sin,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "tan": np.tan,
    "tanh": np.tanh,
    "negate": np.negative,
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "divide": np.divide,
    "power": np.power,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_functions_against_long_double(name: str, dtype: Any) -> None:
    rng = np.random.default_rng(5)
    op = lookup(name)
    scale = np.repeat([1e-6, 0.3, 1, 6], 1000)
    operands = [
        (scale * (rng.standard_normal(4000) + 1j * rng.standard_normal(4000))).astype(dtype)
        for _ in range(op.arity.minimum)
    ]
    expected = FUNCTIONS[name](*[operand.astype(Z) for operand in operands])
    error = np.abs(evaluate(op, *operands).astype(Z) - expected) / np.abs(expected)
    assert float(error.max()) <= 8 * np.finfo(dtype).eps


def test_atan2_is_the_angle_of_a_real_pair_and_solves_the_tangent_of_a_complex_one() -> None:
    rng = np.random.default_rng(6)
    y, x = rng.standard_normal((2, 500))
    angle = evaluate(opcodes.ATAN2, y.astype(np.complex128), x.astype(np.complex128))
    np.testing.assert_allclose(angle, np.arctan2(y, x), rtol=1e-13, atol=1e-15)
    w, z = rng.standard_normal((2, 500)) + 0.25j * rng.standard_normal((2, 500))
    np.testing.assert_allclose(np.tan(evaluate(opcodes.ATAN2, w, z)), w / z, rtol=1e-9)


def test_no_part_overflows_on_the_way() -> None:
    big = 1e300
    same(evaluate(opcodes.DIVIDE, c((big, big)), c((big, big))), [(1, 0)])
    assert evaluate(opcodes.ABS, c((3e300, 4e300))).tolist() == [5e300]
    root = evaluate(opcodes.RSQRT, c((1.7e308, 1.7e308)))
    np.testing.assert_allclose(root, 1 / np.sqrt(Z(1.7e308 + 1.7e308j)).astype(complex), rtol=1e-14)
    e = evaluate(opcodes.EXPONENTIAL, c((709.9, np.pi / 2 - 1e-3)))  # e^709.9 alone overflows
    np.testing.assert_allclose(e.real, [float(np.exp(np.longdouble(709.9)) * np.sin(np.longdouble(1e-3)))], rtol=1e-10)
    assert np.isinf(e.imag[0])


# Corners: what XLA:CPU returns


@pytest.mark.parametrize(
    ("name", "operand", "expected"),
    [
        ("abs", (INF, NAN), NAN),
        ("abs", (NAN, -INF), NAN),
        ("abs", (-INF, 1), INF),
        ("log", (0, 0), (-INF, 0)),
        ("log", (-1, 0), (0, np.pi)),
        ("log", (-1, -0.0), (0, -np.pi)),
        ("log", (INF, NAN), (NAN, NAN)),
        ("log", (-INF, 1), (INF, np.pi)),
        ("log-plus-one", (-1, 0), (-INF, 0)),
        ("log-plus-one", (NAN, INF), (NAN, NAN)),
        ("exponential", (INF, 0), (INF, 0)),
        ("exponential", (-INF, 2), (-0.0, 0)),
        ("exponential", (NAN, -0.0), (NAN, 0)),
        ("exponential", (-INF, INF), (NAN, NAN)),
        ("exponential", (INF, NAN), (NAN, NAN)),
        ("exponential-minus-one", (INF, 0), (INF, 0)),
        ("exponential-minus-one", (-INF, 0), (-1, 0)),
        ("exponential-minus-one", (NAN, 0), (NAN, 0)),
        ("sqrt", (-4, 0), (0, 2)),
        ("sqrt", (-4, -0.0), (0, 2)),
        ("sqrt", (-4, -1e-300), (2.5e-301, -2)),
        ("sqrt", (1, INF), (INF, INF)),
        ("sqrt", (-INF, 1), (0, INF)),
        ("sqrt", (INF, NAN), (NAN, NAN)),
        ("sqrt", (-INF, NAN), (NAN, NAN)),
        ("rsqrt", (0, 0), (INF, NAN)),
        ("rsqrt", (-4, 0), (0, -0.5)),
        ("rsqrt", (-4, -0.0), (0, 0.5)),
        ("rsqrt", (3, INF), (0, 0)),
        ("rsqrt", (NAN, -INF), (0, 0)),
        ("rsqrt", (-INF, NAN), (0, 0)),
        ("rsqrt", (NAN, 1), (NAN, NAN)),
        ("sign", (0, -0.0), (0, 0)),
        ("sign", (INF, 1), (NAN, 0)),
        ("sign", (1, INF), (0, NAN)),
        ("tanh", (0, INF), (NAN, NAN)),
        ("tanh", (INF, NAN), (1, 0)),
        ("tanh", (-INF, INF), (-1, 0)),
        ("tanh", (NAN, 0), (NAN, 0)),
        ("tan", (INF, 0), (NAN, NAN)),
        ("tan", (-0.0, -INF), (0, -1)),
        ("cosine", (0, INF), (INF, NAN)),
        ("sine", (0, -INF), (NAN, -INF)),
        ("cosine", (0, 800), (INF, 0)),
        ("sine", (0, -800), (0, -INF)),
        ("sine", (INF, 0), (NAN, NAN)),
        ("logistic", (INF, 1), (1, 0)),
        ("logistic", (-INF, 1), (0, 0)),
        ("logistic", (INF, INF), (NAN, NAN)),
        ("negate", (0, INF), (-0.0, -INF)),
    ],
)
@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_unary_corners(name: str, operand: tuple[float, float], expected: Any, dtype: Any) -> None:
    if dtype is np.complex64 and operand == (-4, -1e-300):
        operand, expected = (-4, -1e-30), (2.5e-31, -2)
    result = evaluate(lookup(name), c(operand, dtype=dtype))
    if result.dtype.kind != "c":
        np.testing.assert_array_equal(result, [expected])
        return
    np.testing.assert_allclose(np.array(parts(result)), [expected], rtol=1e-6)


@pytest.mark.parametrize(
    ("name", "lhs", "rhs", "expected"),
    [
        ("multiply", (INF, 0), (1, 0), (INF, NAN)),
        ("divide", (1, 0), (0, 0), (INF, NAN)),
        ("divide", (1, 2), (-0.0, 0), (-INF, -INF)),
        ("divide", (0, 0), (0, 0), (NAN, NAN)),
        ("divide", (INF, 1), (1, 1), (INF, -INF)),
        ("divide", (INF, INF), (1, 0), (INF, INF)),
        ("divide", (1, 1), (INF, 2), (0, 0)),
        ("divide", (1, 1), (NAN, INF), (0, 0)),
        ("divide", (INF, 1), (INF, 1), (NAN, NAN)),
        ("divide", (NAN, INF), (1, 0), (NAN, INF)),
        ("power", (0, 0), (0, 0), (1, 0)),
        ("power", (NAN, INF), (0, 0), (1, 0)),
        ("power", (1, 0), (NAN, INF), (1, 0)),
        ("power", (0, 0), (2, 0), (0, 0)),
        ("power", (0, 0), (2, 1), (NAN, NAN)),
        ("power", (INF, 0), (2, 0), (INF, 0)),
        ("power", (INF, 0), (-2, 0), (0, 0)),
        ("power", (INF, 1), (1, 0), (NAN, NAN)),
        ("power", (-2, 0), (3, 0), (-8, 0)),
    ],
)
def test_binary_corners(name: str, lhs: Any, rhs: Any, expected: tuple[float, float]) -> None:
    result = evaluate(lookup(name), c(lhs), c(rhs))
    np.testing.assert_allclose(np.array(parts(result)), [expected], rtol=1e-6, atol=1e-14)


def test_parts_and_composition() -> None:
    z = c((1, INF), (NAN, -0.0), (-2, 3), dtype=np.complex64)
    real, imag = evaluate(opcodes.REAL, z), evaluate(opcodes.IMAG, z)
    np.testing.assert_array_equal(real, np.array([1, NAN, -2], np.float32))
    assert imag.tolist() == [INF, -0.0, 3] and np.signbit(imag[1])
    back = evaluate(opcodes.COMPLEX, real, imag)
    assert back.dtype == np.complex64 and back.tobytes() == z.tobytes()
    wide = evaluate(opcodes.COMPLEX, np.array([0.1, INF]), np.array([INF, -0.0]))
    same(wide, [(0.1, INF), (INF, 0)])


def test_abs_of_complex64_is_rounded_once() -> None:
    z = c((3, 4), (1e-30, 1e-30), (3e38, 0), dtype=np.complex64)
    result = evaluate(opcodes.ABS, z)
    assert result.dtype == np.float32
    assert result.tolist() == [5, float(np.float32(np.hypot(*[float(np.float32(1e-30))] * 2))), float(np.float32(3e38))]


def test_both_parts_of_log_plus_one_are_accurate_near_the_unit_circle() -> None:
    points = c(
        (-0.11987730268292507, -0.47473015326017165), (-1.7836114830014105, -0.5037064871898412), (-0.00125, 0.05)
    )
    found = evaluate(opcodes.LOG_PLUS_ONE, points)
    expected = [-7.6596851156965046599e-6, -0.070915912172725803192, 7.8124938964918607151e-7]
    np.testing.assert_allclose(found.real, expected, rtol=4 * np.finfo(float).eps)
    angles = [-0.49466153965817168369, -2.5702946815960101186, 0.050020817694396020475]
    np.testing.assert_allclose(found.imag, angles, rtol=2 * np.finfo(float).eps)
