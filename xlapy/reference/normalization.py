"""Definitions of batch normalization, in f64; results are rounded once. `epsilon` is rounded to the operand's type.

The symbols are those of the specification: x the operand, gamma the scale, beta the offset, mu the mean and sigma2 the
variance of a feature, dy the gradient of the result. A mean of no elements is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import F32, Array
from xlapy.base.value import Value
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.normalization import BatchNormAttributes
from xlapy.reference.core import defines
from xlapy.reference.elements import Index, element, indices, number, tabulate, type_of

Numbers = Sequence[Any]
"""One number per feature."""


@defines(opcodes.BATCH_NORM_TRAINING)
def batch_norm_training(instruction: Instruction, x: Array, gamma: Array, beta: Array) -> Value:
    """(x normalized by the mean and variance of each feature, these means, these variances)

    The variance is the mean of (x - mu)^2, which is called biased.
    """
    features = places_of_features(instruction, x)
    mu = [mean([number(x[i]) for i in places]) for places in features]
    sigma2 = [mean([(number(x[i]) - mu[f]) ** 2 for i in places]) for f, places in enumerate(features)]
    return normalized(instruction, x, gamma, beta, mu, sigma2), vector(mu, x), vector(sigma2, x)


@defines(opcodes.BATCH_NORM_INFERENCE)
def batch_norm_inference(
    instruction: Instruction, x: Array, gamma: Array, beta: Array, mu: Array, sigma2: Array
) -> Array:
    """gamma * (x - mu) / sqrt(sigma2 + epsilon) + beta, where each feature has its own gamma, mu, sigma2 and beta"""
    return normalized(instruction, x, gamma, beta, numbers(mu), numbers(sigma2))


@defines(opcodes.BATCH_NORM_GRAD)
def batch_norm_grad(instruction: Instruction, x: Array, gamma: Array, mu: Array, sigma2: Array, dy: Array) -> Value:
    """(dx, dgamma, dbeta), the gradients with respect to x, gamma and beta

    With v = sigma2 + epsilon, d = mean(dy) and c = mean(dy * (x - mu) / v) of each feature:
    dx = gamma / sqrt(v) * (dy - d - c * (x - mu)), dgamma = sum(dy * (x - mu) / sqrt(v)), dbeta = sum(dy)
    """
    features, feature = places_of_features(instruction, x), feature_index(instruction)
    v = [variance + epsilon_of(instruction, x) for variance in numbers(sigma2)]
    m, scale = numbers(mu), numbers(gamma)
    d = [mean([number(dy[i]) for i in places]) for places in features]
    c = [mean([number(dy[i]) * (number(x[i]) - m[f]) / v[f] for i in places]) for f, places in enumerate(features)]

    def dx_at(i: Index) -> Any:
        f = i[feature]
        centered = number(x[i]) - m[f]
        return element(scale[f] / np.sqrt(v[f]) * (number(dy[i]) - d[f] - c[f] * centered), type_of(x))

    dgamma = [
        total([number(dy[i]) * (number(x[i]) - m[f]) / np.sqrt(v[f]) for i in places])
        for f, places in enumerate(features)
    ]
    dbeta = [total([number(dy[i]) for i in places]) for places in features]
    return tabulate(type_of(x), x.shape, dx_at), vector(dgamma, x), vector(dbeta, x)


def normalized(instruction: Instruction, x: Array, gamma: Array, beta: Array, mu: Numbers, sigma2: Numbers) -> Array:
    """Returns gamma * (x - mu) / sqrt(sigma2 + epsilon) + beta in the type of x."""
    feature, epsilon = feature_index(instruction), epsilon_of(instruction, x)
    scale, offset = numbers(gamma), numbers(beta)

    def element_at(i: Index) -> Any:
        f = i[feature]
        return element(scale[f] * (number(x[i]) - mu[f]) / np.sqrt(sigma2[f] + epsilon) + offset[f], type_of(x))

    return tabulate(type_of(x), x.shape, element_at)


def feature_index(instruction: Instruction) -> int:
    """Returns the dimension whose positions are the features."""
    return instruction.attributes_as(BatchNormAttributes).feature_index


def epsilon_of(instruction: Instruction, x: Array) -> Any:
    """Returns epsilon, an f32, rounded to the type of x."""
    epsilon = element(instruction.attributes_as(BatchNormAttributes).epsilon, F32)
    return number(element(number(epsilon), type_of(x)))


def places_of_features(instruction: Instruction, x: Array) -> list[list[Index]]:
    """Returns the indices of the elements of each feature."""
    places: list[list[Index]] = [[] for _ in range(x.shape[feature_index(instruction)])]
    for index in indices(x.shape):
        places[index[feature_index(instruction)]].append(index)
    return places


def numbers(values: Array) -> Numbers:
    return [number(value) for value in values]


def vector(values: Numbers, x: Array) -> Array:
    """Returns one number per feature as an array of the type of x."""
    return tabulate(type_of(x), [len(values)], lambda i: element(values[i[0]], type_of(x)))


def total(terms: Numbers) -> Any:
    return sum(terms, np.float64(0))


def mean(terms: Numbers) -> Any:
    return total(terms) / np.float64(len(terms))
