"""Batch normalization: training, inference and gradient.

Computes in float64 and rounds once, whatever the element types. `epsilon` is a float32, rounded to the operand's type.
Source: BatchNormTraining, BatchNormInference, BatchNormGrad of the specification, whose symbols the code uses.

Example: operand f32[2,3] with feature_index=1 has 3 features, each with the mean and variance of 2 elements.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.rounding import round_to
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import RULES, Array, Context, Value
from xlapy.opcodes.normalization import BatchNormAttributes


class _Features:
    """Sums, means and vectors per feature of an operand, and epsilon."""

    def __init__(self, instruction: Instruction, operand: Array) -> None:
        attributes = instruction.attributes_as(BatchNormAttributes)
        feature_index = attributes.feature_index
        self.dtype = operand.dtype
        self.reduced = tuple(d for d in range(operand.ndim) if d != feature_index)
        self.column = [size if d == feature_index else 1 for d, size in enumerate(operand.shape)]
        epsilon = np.asarray(attributes.epsilon, np.float32)
        self.epsilon = float(round_to(epsilon, operand.dtype))

    def spread(self, vector: Array) -> Array:
        """Reshapes a vector of one number per feature so that it broadcasts with the operand."""
        return vector.astype(np.float64).reshape(self.column)

    def sum(self, array: Array) -> Array:
        """Sums all elements of each feature; the result has the shape that `spread` returns."""
        return array.sum(axis=self.reduced, keepdims=True)

    def mean(self, array: Array) -> Array:
        """Returns the mean of each feature; NaN if it has no elements."""
        count = np.prod([array.shape[d] for d in self.reduced], dtype=np.float64)
        return self.sum(array) / count

    def whole(self, array: Array) -> Array:
        """Rounds a result of the operand's shape."""
        return round_to(array, self.dtype)

    def vector(self, column: Array) -> Array:
        """Rounds a result of one number per feature and makes it a vector."""
        return round_to(column.reshape(-1), self.dtype)


@RULES.rule(opcodes.BATCH_NORM_TRAINING)
def batch_norm_training(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns (normalized operand, mean, variance) with the biased variance, that of the elements themselves."""
    features = _Features(instruction, values[0])
    x = values[0].astype(np.float64)
    gamma, beta = map(features.spread, values[1:])
    mu = features.mean(x)
    sigma2 = features.mean(np.square(x - mu))
    y = gamma * (x - mu) / np.sqrt(sigma2 + features.epsilon) + beta
    return features.whole(y), features.vector(mu), features.vector(sigma2)


@RULES.rule(opcodes.BATCH_NORM_INFERENCE)
def batch_norm_inference(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Normalizes the operand with a given mean and variance."""
    features = _Features(instruction, values[0])
    x = values[0].astype(np.float64)
    gamma, beta, mu, sigma2 = map(features.spread, values[1:])
    return features.whole(gamma * (x - mu) / np.sqrt(sigma2 + features.epsilon) + beta)


@RULES.rule(opcodes.BATCH_NORM_GRAD)
def batch_norm_grad(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the gradients with respect to (operand, scale, offset)."""
    features = _Features(instruction, values[0])
    x, grad_y = values[0].astype(np.float64), values[4].astype(np.float64)
    gamma, mu, sigma2 = map(features.spread, values[1:4])
    variance = sigma2 + features.epsilon
    c = features.mean(grad_y * (x - mu) / variance)
    d = features.mean(grad_y)
    grad_x = gamma / np.sqrt(variance) * (grad_y - d - c * (x - mu))
    grad_gamma = features.sum(grad_y * (x - mu) / np.sqrt(variance))
    grad_beta = features.sum(grad_y)
    return features.whole(grad_x), features.vector(grad_gamma), features.vector(grad_beta)
