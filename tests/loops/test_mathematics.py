"""Mathematical functions as machine code and in the evaluator: errors, special values, denormals, complex corner
cases."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from tests.cpu.kernel_runner import run_kernel
from tests.loops.mathematics_runner import Array, flushing_denormals, run, run_complex, run_evaluated
from xlapy.cpu.llvm import operations
from xlapy.interpreter.elementwise import KERNELS
from xlapy.interpreter.kernels.float import logistic, round_half_away
from xlapy.loops import F32, F64, Affine, AxisKind, Builder, Value, print_kernel
from xlapy.loops.mathematics import COMPLEX_MATHEMATICS, MATHEMATICS
from xlapy.opcodes.registry import lookup
from xlapy.testing.comparison import assert_close, ulp_distance

INF, NAN = np.inf, np.nan
POINTS = 100_000


def erf(x: Array) -> Array:
    return np.array([math.erf(number) for number in x.tolist()])


# The reference in a wider type; the maximum error in ULP of f32 and of f64.
FUNCTIONS: dict[str, tuple[Callable[..., Any], float, float]] = {
    "acos": (np.arccos, 1, 1),
    "acosh": (np.arccosh, 2, 2.5),
    "asin": (np.arcsin, 1, 1),
    "asinh": (np.arcsinh, 2, 2.5),
    "atan": (np.arctan, 2, 2),
    "atan2": (np.arctan2, 2, 2),
    "atanh": (np.arctanh, 2, 2),
    "cbrt": (np.cbrt, 1, 1),
    "cosh": (np.cosh, 2, 2),
    "cosine": (np.cos, 1, 1),
    "erf": (erf, 1.5, 2),
    "exponential": (np.exp, 1.5, 1.5),
    "exponential-minus-one": (np.expm1, 2, 2),
    "log": (np.log, 1, 1),
    "log-plus-one": (np.log1p, 1, 1),
    "logistic": (logistic, 2, 2.5),
    "power": (np.power, 1.5, 1.5),
    "remainder": (np.fmod, 0, 0),
    "round-nearest-afz": (round_half_away, 0, 0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 2, 2),
    "sine": (np.sin, 1, 1),
    "sinh": (np.sinh, 2, 2),
    "tan": (np.tan, 1.5, 1.5),
    "tanh": (np.tanh, 2, 3),
}
BINARY = ("atan2", "power", "remainder")
DTYPES = [np.float32, np.float64]


def wide(array: Array) -> Array:
    return array.astype(np.float64 if array.dtype == np.float32 else np.longdouble)


def true_results(name: str, *operands: Array) -> Array:
    with np.errstate(all="ignore"):
        return np.asarray(FUNCTIONS[name][0](*map(wide, operands)))


def assert_within(limit: float, actual: Array, expected: Array, *operands: Array) -> None:
    """Asserts errors of at most `limit` ULP, equal NaN, and zeros with the right sign."""
    distances = ulp_distance(actual, expected, actual.dtype)
    distances[(actual == 0) & (expected == 0) & (np.signbit(actual) != np.signbit(expected))] = INF
    at = int(np.argmax(distances))
    message = f"{distances[at]} ULP at {[o[at] for o in operands]}: {actual[at]!r}, expected {expected[at]!r}"
    assert distances[at] <= limit, message


def limit(name: str, dtype: Any) -> float:
    return FUNCTIONS[name][1 if dtype is np.float32 else 2]


def specials(dtype: Any) -> Array:
    info = np.finfo(dtype)
    sizes = [0, 0.5, 1, 1.5, 2, 3, 10, 100, 2.0**30, INF, info.max, info.tiny, info.smallest_subnormal, info.tiny / 4]
    near_one = [np.nextafter(dtype(1), dtype(0)), np.nextafter(dtype(1), dtype(2)), np.nextafter(dtype(0.5), dtype(0))]
    positive = np.array([*sizes, *near_one, np.log(info.max), 2.0**info.nmant - 1, 2.0**info.nmant + 1], dtype)
    return np.concatenate([positive, -positive, [dtype(NAN)]])


def random_bits(generator: np.random.Generator, dtype: Any, count: int) -> Array:
    unsigned = np.dtype(f"u{np.dtype(dtype).itemsize}")
    numbers = generator.integers(0, 1 << (8 * unsigned.itemsize), count, dtype=np.uint64).astype(unsigned).view(dtype)
    return np.where(np.isnan(numbers), dtype(NAN), numbers)  # no signaling NaN


def points(dtype: Any, count: int = POINTS) -> Array:
    generator = np.random.default_rng(7)
    quarter = count // 4
    moderate = [generator.standard_normal(quarter) * 20, generator.uniform(-2, 2, quarter)]
    spread = np.exp(generator.uniform(-20, 12, quarter)) * generator.choice([-1, 1], quarter)
    numbers = np.concatenate([*moderate, spread]).astype(dtype)
    return np.concatenate([random_bits(generator, dtype, quarter), numbers, specials(dtype)])


def pairs(dtype: Any, count: int = POINTS) -> tuple[Array, Array]:
    """Returns all pairs of special values, random bits, and pairs for which x to the power y is finite and not 0."""
    generator = np.random.default_rng(8)
    left, right = (grid.ravel() for grid in np.meshgrid(specials(dtype), specials(dtype)))
    base = np.exp(generator.uniform(-5, 5, count // 4))
    exponent = generator.uniform(-80, 80, count // 4) / np.log(base)
    whole = generator.integers(-20, 20, (2, count // 4))
    x = [left, random_bits(generator, dtype, count // 2), base, whole[0]]
    y = [right, random_bits(generator, dtype, count // 2), exponent, whole[1]]
    return np.concatenate([a.astype(dtype) for a in x]), np.concatenate([a.astype(dtype) for a in y])


def operands_of(name: str, dtype: Any, count: int = POINTS) -> tuple[Array, ...]:
    return pairs(dtype, count) if name in BINARY else (points(dtype, count),)


# -- real functions


def test_every_function_is_tested() -> None:
    assert set(FUNCTIONS) == set(MATHEMATICS)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_machine_code_is_accurate(name: str, dtype: Any) -> None:
    operands = operands_of(name, dtype)
    assert_within(limit(name, dtype), run(name, *operands), true_results(name, *operands), *operands)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_evaluation_is_accurate(name: str, dtype: Any) -> None:
    operands = tuple(o[:: o.size // 40] for o in operands_of(name, dtype, 400))
    # a fused multiply-add is evaluated in a wider type, then rounded again
    slack = 0.5 if limit(name, dtype) else 0
    assert_within(limit(name, dtype) + slack, run_evaluated(name, *operands), true_results(name, *operands), *operands)


@pytest.mark.parametrize("name", ["sine", "power", "remainder"])
def test_scalars_and_incomplete_vectors(name: str) -> None:
    for lanes, size in ((1, 7), (16, 19), (8, 8)):
        operands = tuple(o[-size:] for o in operands_of(name, np.float32, 200))
        assert run(name, *operands, lanes=lanes).tobytes() == run(name, *operands).tobytes()


def test_arguments_next_to_multiples_of_half_pi() -> None:
    multiples = np.arange(1, 20_000) * (np.longdouble(np.pi) / 2 + np.longdouble(6.123233995736766e-17))
    for dtype in DTYPES:
        operand = multiples.astype(dtype)
        for name in ("sine", "cosine", "tan"):
            assert_within(limit(name, dtype), run(name, operand), true_results(name, operand), operand)


def test_the_hardest_arguments_of_the_sine() -> None:
    """The f32 and f64 numbers that are nearest to a multiple of pi/2 have the largest errors."""
    single, double = np.float32(16367173 * 2.0**72), np.float64(6381956970095103 * 2.0**797)
    assert float(run("cosine", np.array([single]))[0]) == pytest.approx(float(np.cos(np.float64(single))), rel=1e-7)
    assert float(run("cosine", np.array([double]))[0]) == -4.6871659242546276e-19


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_flushed_denormals(name: str, dtype: Any) -> None:
    """Denormal operands and results may be treated as 0."""
    operands = operands_of(name, dtype, 4000)
    with flushing_denormals():
        actual = run(name, *operands)
    tiny = np.finfo(dtype).tiny
    flushed = tuple(np.where(np.abs(o) < tiny, np.copysign(dtype(0), o), o) for o in operands)
    with np.errstate(over="ignore"):
        errors = [
            ulp_distance(actual, true_results(name, *given), dtype, flush_denormals=True)
            for given in (operands, flushed)
        ]
    at = int(np.argmax(np.minimum(*errors)))
    assert min(errors[0][at], errors[1][at]) <= limit(name, dtype), ([o[at] for o in operands], actual[at])


@pytest.mark.parametrize("dtype", DTYPES)
def test_powers_of_two_without_avx512(dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    operand = points(dtype, 4000)
    expected = run("exponential", operand)
    monkeypatch.setattr(operations, "vector_bytes", lambda: 32)
    assert run("exponential", operand).tobytes() == expected.tobytes()


# -- cold paths


def test_cold_paths_are_not_hoisted() -> None:
    builder = Builder("k")
    x, out = builder.buffer("x", F64, 32), builder.buffer("out", F64, 32, written=True)
    with builder.loop(32, AxisKind.VECTOR, width=8) as i:
        value = builder.load(x, i)
        condition = builder.compare("olt", value, builder.zero(F64))
        (root,) = builder.cold_path(
            "root", condition, [value], lambda: [builder.unary("sqrt", builder.unary("neg", value))]
        )
        (same,) = builder.cold_path("root", condition, [value], lambda: [value])
        assert same is root
        builder.store(out, i, root)
    text = print_kernel(builder.kernel)
    before, inside = text.split("while")
    assert "sqrt" not in before and "sqrt" in inside and "any" in inside


def test_a_cold_path_in_the_combination_of_lanes() -> None:
    """A reducer with a sine combines lanes, each of which may or may not have a large argument."""
    x = np.array([1e30, *range(1, 40)], np.float32)
    builder = Builder("k")
    given, out = builder.buffer("x", F32, x.size), builder.buffer("out", F32, 1, written=True)
    least = builder.constant(F32, -INF)

    def combine(left: Sequence[Value], right: Sequence[Value]) -> Sequence[Value]:
        nothing = builder.mul(MATHEMATICS["sine"](builder, left[0]), builder.zero(F32))
        return [builder.add(builder.binary("max", left[0], right[0]), nothing)]

    (greatest,) = builder.reduce(
        x.size,
        [builder.zero(F32)],
        lambda i, carried: [builder.binary("max", carried[0], builder.load(given, i))],
        kind=AxisKind.VECTOR,
        width=16,
        identities=[least],
        combine=combine,
    )
    builder.store(out, Affine(), greatest)
    result = np.zeros(1, np.float32)
    run_kernel(builder.kernel, [x, result])
    assert result.tolist() == [float(np.float32(1e30))]


# -- complex functions

PARTS = [0.0, -0.0, 1.0, -1.0, INF, -INF, NAN, 0.5, -2.5, 1e-5, 30.0, -88.5]
# Multiples of the error limit, for rounding errors that XLA has too: no formula on real and imaginary parts avoids
# them.
LOOSE = {"atan2": 1e3, "power": 100.0}


def complex_grid(dtype: Any) -> Array:
    real, imaginary = np.meshgrid(PARTS, PARTS)
    grid = np.empty(real.size, dtype)
    grid.real, grid.imag = real.ravel(), imaginary.ravel()
    return grid


def complex_points(dtype: Any, seed: int) -> Array:
    generator = np.random.default_rng(seed)
    scale = np.repeat([1e-6, 0.3, 1, 6], 500)
    return (scale * (generator.standard_normal(2000) + 1j * generator.standard_normal(2000))).astype(dtype)


def interpreted(name: str, operands: tuple[Array, ...]) -> Array:
    with np.errstate(all="ignore"):
        return KERNELS[lookup(name)].apply(name, operands)


COMPLEX_CASES = [(name, dtype) for name in COMPLEX_MATHEMATICS for dtype in (np.complex64, np.complex128)]


@pytest.mark.parametrize(("name", "dtype"), COMPLEX_CASES)
def test_complex_functions_are_accurate(name: str, dtype: Any) -> None:
    operands = tuple(complex_points(dtype, seed) for seed in range(lookup(name).arity.minimum))
    actual, expected = run_complex(name, operands), interpreted(name, operands)
    bound = LOOSE.get(name, 8.0) * np.finfo(dtype).eps
    assert float(np.max(np.abs(actual - expected) / np.abs(expected))) <= bound


@pytest.mark.parametrize(("name", "dtype"), [case for case in COMPLEX_CASES if case[0] not in LOOSE])
def test_complex_corners(name: str, dtype: Any) -> None:
    grid = complex_grid(dtype)
    operands: tuple[Array, ...] = (grid,)
    if lookup(name).arity.minimum == 2:
        operands = (np.repeat(grid, grid.size), np.tile(grid, grid.size))
    assert_close(run_complex(name, operands), interpreted(name, operands), rule="elementwise")


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_functions_whose_steps_overflow(dtype: Any) -> None:
    big = float(np.finfo(dtype).max)
    exact = np.array([complex(-(0.5**0.5), -(0.5**0.5)), 1, complex(0.6, -0.8)], dtype)
    operand = np.array([complex(-big, -big), complex(big, 1), complex(big * 0.75, -big)], dtype)
    assert_close(run_complex("sign", (operand,)), exact, rule="elementwise")
    on_axis = np.array([complex(-0.0, 351), complex(0.0, -800), complex(0.0, 2e4)], dtype)
    sine, cosine = run_complex("sine", (on_axis,)), run_complex("cosine", (on_axis,))
    assert sine.real.tolist() == [0, 0, 0]
    assert cosine.imag.tolist() == [0, 0, 0]
    assert np.signbit(sine.real).tolist() == [True, False, False]
    assert np.isinf(sine.imag[1:]).all()
    assert np.isinf(cosine.real[1:]).all()


def test_complex_functions_next_to_a_pole() -> None:
    operands = (np.array([1 + 2e-308j, 1 - 3e-200j, -1 + 1e-17j, 1 + 0j, -1 + 1e-30j, 1 + 0.5j]),)
    with np.errstate(divide="ignore"):
        assert_close(run_complex("atanh", operands), np.arctanh(*operands), rule="elementwise")


def test_complex_functions_of_large_numbers() -> None:
    far = (np.array([-1.7e308 + 1j, 1e300 - 1e300j, 3 + 1e200j, -1e160 + 0j]),)
    assert_close(run_complex("atan", far), np.arctan(*far), rule="elementwise")
    assert_close(run_complex("atanh", far), np.arctanh(*far), rule="elementwise")
    narrow = (np.array([89 + 0.1j, 89 + 1.5707j, 88 - 3j], np.complex64),)
    exact = np.expm1(narrow[0].astype(np.complex128)).astype(np.complex64)
    assert_close(run_complex("exponential-minus-one", narrow), exact, rule="elementwise")


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_corners_of_complex_powers(dtype: Any) -> None:
    """The powers here do not depend on the rounding of a multiple of pi."""
    cases = [
        ((0, 0), (0, 0)), ((NAN, INF), (0, 0)), ((1, 0), (NAN, INF)), ((0, 0), (2, 0)), ((0, 0), (2, 1)),
        ((0, 0), (-2, 0)), ((INF, 0), (2, 0)), ((INF, 0), (-2, 0)), ((INF, 1), (1, 0)), ((NAN, 0), (1, 0)),
        ((3, 0), (2, 0)), ((0.25, 0), (-0.5, 0)), ((2, 0), (0, 1)),
    ]  # fmt: skip
    base, exponent = np.empty(len(cases), dtype), np.empty(len(cases), dtype)
    for at, (left, right) in enumerate(cases):
        base.real[at], base.imag[at] = left
        exponent.real[at], exponent.imag[at] = right
    assert_close(run_complex("power", (base, exponent)), interpreted("power", (base, exponent)), rule="elementwise")
