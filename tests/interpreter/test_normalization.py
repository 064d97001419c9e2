"""Batch normalization: the specification's formulas, compared with constants and with XLA:CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.interpreter.runners.instruction import Array, Case, evaluate, evaluate_all, evaluate_on_xla, typed
from xlapy.base.shape import Shape
from xlapy.testing.comparison import assert_close

TYPES = ["f16", "bf16", "f32", "f64"]
SHAPES = [((2, 3, 4, 5), 3), ((4, 7), 1), ((3, 2, 5), 0), ((6,), 0), ((2, 5, 3), 1)]
PER_FEATURE = {"training": 2, "inference": 4, "grad": 3}
"""The number of operands after the first, each a vector with one element per feature."""


def batch_norm(kind: str, operands: list[Any], shape: str, feature_index: int, epsilon: float = 0) -> Any:
    return evaluate(f"batch-norm-{kind}", operands, shape, f"epsilon={epsilon}, feature_index={feature_index}")


# -- the formulas


def test_training_normalizes_by_the_biased_variance() -> None:
    operand = [[1.0, 10.0], [3.0, 10.0], [5.0, 16.0], [7.0, 16.0]]
    y, mean, variance = batch_norm("training", [operand, [2, 1], [0.5, -1]], "(f32[4,2], f32[2], f32[2])", 1, 4)
    assert mean.tolist() == [4, 13] and variance.tolist() == [5, 9]
    assert np.allclose(y[:, 0], [-1.5, -1 / 6, 7 / 6, 2.5], rtol=1e-6)
    assert np.allclose(y[:, 1], -1 + np.array([-3, -3, 3, 3]) / np.sqrt(13), rtol=1e-6)


def test_inference_takes_mean_and_variance() -> None:
    vectors = [[2, 3], [1, 0], [1, -1], [15, 3]]
    y = batch_norm("inference", [[[3, 5], [-1, 1]], *vectors], "f32[2,2]", 0, 1)
    assert y.tolist() == [[2, 3], [0, 3]]


def test_gradients_of_the_specification() -> None:
    x, dy = np.array([1.0, 2.0, 6.0]), np.array([1.0, 0.0, 2.0])
    gamma, mean, variance, epsilon = 3.0, 3.0, 8.0, 1.0
    operands = [typed("f64", v) for v in (x[:, np.newaxis], [gamma], [mean], [variance], dy[:, np.newaxis])]
    dx, dgamma, dbeta = batch_norm("grad", operands, "(f64[3,1], f64[1], f64[1])", 1, epsilon)
    assert dbeta.tolist() == [3] and np.allclose(dgamma, [(-2 + 6) / 3])
    c, d = (-2 + 6) / 9 / 3, 1.0
    assert np.allclose(dx[:, 0], gamma / 3 * (dy - d - c * (x - mean)), rtol=1e-15)


def test_the_gradient_is_the_derivative_of_training() -> None:
    rng = np.random.default_rng(2)
    x, dy = rng.standard_normal((2, 5, 3)), rng.standard_normal((2, 5, 3))
    gamma, beta = rng.standard_normal(3), rng.standard_normal(3)

    def loss(x: Array, gamma: Array, beta: Array) -> float:
        y, _, _ = batch_norm("training", [x, gamma, beta], "(f64[2,5,3], f64[3], f64[3])", 2, 0.25)
        return float((y * dy).sum())

    _, mean, variance = batch_norm("training", [x, gamma, beta], "(f64[2,5,3], f64[3], f64[3])", 2, 0.25)
    operands = [x, gamma, mean, variance, dy]
    gradients = batch_norm("grad", operands, "(f64[2,5,3], f64[3], f64[3])", 2, 0.25)
    for number, (variable, gradient) in enumerate(zip((x, gamma, beta), gradients, strict=True)):
        for place in [(0,) * variable.ndim, tuple(size - 1 for size in variable.shape)]:
            step = np.zeros_like(variable)
            step[place] = 1e-5
            up, down = [x, gamma, beta], [x, gamma, beta]
            up[number], down[number] = variable + step, variable - step
            assert abs((loss(*up) - loss(*down)) / 2e-5 - gradient[place]) < 1e-8


def test_epsilon_is_a_float32_in_the_operands_type() -> None:
    def inverse_root(element_type: str, epsilon: float) -> float:
        one, zero = typed(element_type, [1.0]), typed(element_type, [0.0])
        operands = [one, one, zero, zero, zero]
        return float(batch_norm("inference", operands, f"{element_type}[1]", 0, epsilon)[0])

    assert inverse_root("f64", 0.1) == 1 / np.sqrt(np.float64(np.float32(0.1)))
    assert inverse_root("f16", 1e-9) == np.inf
    assert inverse_root("f32", 1e-6) == pytest.approx(1000, rel=1e-6)


def test_features_without_elements() -> None:
    empty = np.zeros((0, 3), np.float32)
    y, mean, variance = batch_norm("training", [empty, [1, 1, 1], [0, 0, 0]], "(f32[0,3], f32[3], f32[3])", 1)
    assert y.shape == (0, 3) and np.isnan(mean).all() and np.isnan(variance).all()
    operands = [empty, [1, 1, 1], [0, 0, 0], [1, 1, 1], empty]
    dx, dgamma, dbeta = batch_norm("grad", operands, "(f32[0,3], f32[3], f32[3])", 1)
    assert dx.shape == (0, 3) and dgamma.tolist() == dbeta.tolist() == [0, 0, 0]


def test_no_features() -> None:
    empty, none = np.zeros((4, 0), np.float32), np.zeros(0, np.float32)
    y, mean, variance = batch_norm("training", [empty, none, none], "(f32[4,0], f32[0], f32[0])", 1)
    assert y.shape == (4, 0) and mean.shape == variance.shape == (0,)


def test_mixed_types_use_that_of_the_operand() -> None:
    operand = typed("f32", [[1.0], [3.0]])
    scale, offset = typed("bf16", [2.0]), typed("f64", [1.0])
    y, mean, variance = batch_norm("training", [operand, scale, offset], "(f32[2,1], f32[1], f32[1])", 1)
    assert y.tolist() == [[-1], [3]] and mean.tolist() == [2] and variance.tolist() == [1]


# -- against XLA


def case_of(kind: str, element_type: str, dimensions: tuple[int, ...], feature_index: int, seed: int) -> Case:
    rng = np.random.default_rng(seed)
    features = dimensions[feature_index]
    vectors = [rng.standard_normal(features) for _ in range(PER_FEATURE[kind])]
    if kind != "training":
        vectors[-1] = rng.random(features) + 0.5
    arrays = [rng.standard_normal(dimensions), *vectors]
    if kind == "grad":
        arrays.append(rng.standard_normal(dimensions))
    operands = tuple(typed(element_type, array) for array in arrays)
    whole, vector = Shape.of(operands[0]), Shape.of(operands[1])
    shape = str(whole) if kind == "inference" else f"({whole}, {vector}, {vector})"
    return Case(f"batch-norm-{kind}", operands, shape, f"epsilon=0.125, feature_index={feature_index}")


def magnitudes(case: Case, feature_index: int) -> tuple[Array, ...]:
    """Returns the sums of the absolute values of the terms that the results consist of.

    XLA subtracts the square of the mean from the mean of the squares, and divides the result by this variance.
    """
    x, *rest = (np.abs(operand.astype(np.float64)) for operand in case.operands)
    reduced = tuple(d for d in range(x.ndim) if d != feature_index)
    column = [size if d == feature_index else 1 for d, size in enumerate(x.shape)]

    def mean(array: Array) -> Array:
        return np.mean(array, axis=reduced, keepdims=True)

    count = x.size / x.shape[feature_index]
    if case.op == "batch-norm-training":
        gamma, beta = (v.reshape(column) for v in rest)
        square = mean(x * x)
        true = case.operands[0].astype(np.float64)
        variance = np.var(true, axis=reduced, keepdims=True) + 0.125
        y = gamma * (x + mean(x)) / np.sqrt(variance) * (1 + square / variance) + beta
        return y, mean(x).reshape(-1), 2 * square.reshape(-1)
    if case.op == "batch-norm-inference":
        gamma, beta, mu, variance = (v.reshape(column) for v in rest)
        return (gamma * (x + mu) / np.sqrt(variance + 0.125) + beta,)
    gamma, mu, variance = (v.reshape(column) for v in rest[:3])
    dy, root = rest[3], np.sqrt(variance + 0.125)
    moment = mean(dy * (x + mu))
    dx = gamma / root * (dy + mean(dy) + moment * (x + mu) / root**2)
    return dx, (count * moment / root).reshape(-1), count * mean(dy).reshape(-1)


@pytest.mark.parametrize("element_type", TYPES)
@pytest.mark.parametrize("kind", list(PER_FEATURE))
def test_results_agree_with_xla(kind: str, element_type: str) -> None:
    cases = [case_of(kind, element_type, dims, index, seed) for seed, (dims, index) in enumerate(SHAPES)]
    for (dims, index), case, ours, theirs in zip(
        SHAPES, cases, evaluate_all(cases), evaluate_on_xla(cases), strict=True
    ):
        pairs = [(ours, theirs)] if kind == "inference" else list(zip(ours, theirs, strict=True))
        terms = int(np.prod(dims)) // dims[index] + 4
        for (left, right), magnitude in zip(pairs, magnitudes(case, index), strict=True):
            assert_close(left, right, rule="accumulation", terms=terms, magnitude=magnitude, where=case.title)
