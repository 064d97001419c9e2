"""Complex functions of extreme numbers, as machine code and in the interpreter, against a wider type.

The operands are all pairs of parts that are tiny, near 1, where squares, exponentials or sums overflow, and the
largest: a function must not overflow, underflow or cancel on the way to a result that does not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.loops.mathematics_runner import Array, flushing_denormals, run_complex
from tests.loops.test_mathematics import interpreted

LIMIT = 8.0
"""Errors are at most so many epsilons of the larger part of the result."""


def above_cut(z: Array) -> Array:
    """Replaces -0 imaginary parts by 0, for functions that are continuous with their branch cut from above."""
    result = z.copy()
    result.imag += 0
    return result


def logistic(z: Array) -> Array:
    decay = np.exp(np.where(z.real < 0, z, -z))
    return np.where(z.real < 0, decay, 1) / (1 + decay)


def log1p(z: Array) -> Array:
    near = (np.abs(z.real) < 0.5) & (np.abs(z.imag) < 0.5)
    small = np.where(near, z, 0)
    excess = small.real * (2 + small.real) + small.imag**2
    shifted = z.copy()
    shifted.real += 1
    return np.where(near, np.log1p(excess) / 2 + 1j * np.arctan2(small.imag, 1 + small.real), np.log(shifted))


def expm1(z: Array) -> Array:
    small = np.where(np.abs(z.real) < 1, z, 0)
    real = np.expm1(small.real) * np.cos(small.imag) - 2 * np.sin(small.imag / 2) ** 2
    result = np.exp(z) - 1
    result.real = np.where(np.abs(z.real) < 1, real, result.real)
    return result


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": np.abs,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "cosh": np.cosh,
    "cosine": np.cos,
    "divide": np.divide,
    "exponential": np.exp,
    "exponential-minus-one": expm1,
    "log": np.log,
    "log-plus-one": log1p,
    "logistic": logistic,
    "rsqrt": lambda z: 1 / np.sqrt(z),
    "sign": lambda z: z / np.abs(z),
    "sine": np.sin,
    "sinh": np.sinh,
    "sqrt": lambda z: np.sqrt(above_cut(z)),
    "tan": np.tan,
    "tanh": lambda z: np.tanh(above_cut(z)),
}
"""Each function in a wider type. `multiply` is defined by its formula, and `power` is as accurate as its polar form."""


def parts(dtype: Any) -> Array:
    info = np.finfo(dtype)
    largest, tiny, eps = float(info.max), float(info.tiny), float(info.eps)
    limit = float(np.log(info.max))
    sizes = [largest, largest / 2, largest**0.75, largest**0.5 * 1.01, largest**0.5 / 2, 1 / eps]
    sizes += [limit * 1.9, limit + 0.1, limit - 0.01, limit / 2, 20.0, np.pi, np.pi / 2]
    sizes += [1.5, 1 + eps, 1.0, 1 - eps / 2, 0.8, 0.6, 1e-3, eps, tiny**0.5, tiny**0.75, tiny * 4, 0.0]
    return np.array([*sizes, *(-size for size in sizes)], info.dtype)


def all_numbers(dtype: Any) -> Array:
    real, imaginary = np.meshgrid(parts(dtype), parts(dtype))
    numbers = np.empty(real.size, dtype)
    numbers.real, numbers.imag = real.ravel(), imaginary.ravel()
    angles = np.random.default_rng(1).uniform(0, 2 * np.pi, 100)
    unit = np.cos(angles) + 1j * np.sin(angles)
    return np.concatenate([numbers, unit.astype(dtype), (unit * (1 + 1e-7)).astype(dtype)])


def operands_of(name: str, dtype: Any) -> tuple[Array, ...]:
    numbers = all_numbers(dtype)
    if name == "divide":
        generator = np.random.default_rng(2)
        return generator.choice(numbers, 4000), generator.choice(numbers[numbers != 0], 4000)
    return (numbers[numbers != 0] if name in ("rsqrt", "sign") else numbers,)


def part_is_right(actual: Array, expected: Array, size: Array, dtype: Any) -> Array:
    info = np.finfo(dtype)
    near = np.abs(actual - expected) <= LIMIT * info.eps * size + 16 * info.tiny
    overflows = (np.abs(expected) >= info.max * (1 - 16 * info.eps)) & (
        np.abs(actual) >= info.max * (1 - 16 * info.eps)
    )
    return near | (overflows & (np.sign(actual) == np.sign(expected)))


def assert_right(actual: Array, expected: Array, operands: tuple[Array, ...]) -> None:
    dtype = operands[0].dtype
    both = np.stack([np.abs(expected.real), np.abs(expected.imag)])
    size = np.max(np.where(np.isfinite(both), both, 0), axis=0)
    right = part_is_right(actual.real, expected.real, size, dtype) & part_is_right(
        actual.imag, expected.imag, size, dtype
    )
    wrong = np.flatnonzero(~right)
    shown = [(*(o[at] for o in operands), actual[at], expected[at]) for at in wrong[:5]]
    assert not wrong.size, f"{wrong.size} of {right.size} are wrong: operands, result, expected {shown}"


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_that_are_finite_are_reached(name: str, dtype: Any) -> None:
    operands = operands_of(name, dtype)
    with np.errstate(all="ignore"):
        exact = np.asarray(FUNCTIONS[name](*(operand.astype(np.clongdouble) for operand in operands)))
        expected = exact.astype(dtype if exact.dtype.kind == "c" else np.finfo(dtype).dtype)
        with flushing_denormals():
            actual = run_complex(name, operands)
        assert_right(interpreted(name, operands), expected, operands)
        assert_right(actual, expected, operands)
