"""Batch normalization.

Owns: the builder functions of `opcodes/normalization.py`. Must not know: how they are evaluated.
Source: BatchNormTraining, BatchNormInference, BatchNormGrad of the specification.

`operand` is a floating-point array; `feature_index` names its feature dimension, of size c. Statistics are taken over
all other dimensions; `scale`, `offset`, means and variances are vectors of c elements. `epsilon` is added to a variance
before it divides. Every function raises `BuilderError` at the caller's line when the operands do not fit.
"""

from __future__ import annotations

from xlapy.builder.core.builder import append
from xlapy.builder.core.op import XlaOp
from xlapy.opcodes.normalization import BATCH_NORM_GRAD, BATCH_NORM_INFERENCE, BATCH_NORM_TRAINING, BatchNormAttributes


def batch_norm_training(operand: XlaOp, scale: XlaOp, offset: XlaOp, epsilon: float, feature_index: int) -> XlaOp:
    """The tuple (normalized operand, batch mean, batch variance), by features.

    Normalized is scale * (operand - mean) / sqrt(variance + epsilon) + offset; the variance is the biased one.
    """
    attributes = BatchNormAttributes.make(epsilon=epsilon, feature_index=feature_index)
    return append(BATCH_NORM_TRAINING, (operand, scale, offset), attributes)


def batch_norm_inference(
    operand: XlaOp,
    scale: XlaOp,
    offset: XlaOp,
    mean: XlaOp,
    variance: XlaOp,
    epsilon: float,
    feature_index: int,
) -> XlaOp:
    """The operand normalized as in training, by the given mean and variance in place of the batch's own."""
    attributes = BatchNormAttributes.make(epsilon=epsilon, feature_index=feature_index)
    return append(BATCH_NORM_INFERENCE, (operand, scale, offset, mean, variance), attributes)


def batch_norm_grad(
    operand: XlaOp,
    scale: XlaOp,
    batch_mean: XlaOp,
    batch_var: XlaOp,
    grad_output: XlaOp,
    epsilon: float,
    feature_index: int,
) -> XlaOp:
    """The tuple of gradients with respect to operand, scale and offset of `batch_norm_training`.

    `batch_mean` and `batch_var` are its results, `grad_output` the gradient with respect to its first one.
    """
    attributes = BatchNormAttributes.make(epsilon=epsilon, feature_index=feature_index)
    return append(BATCH_NORM_GRAD, (operand, scale, batch_mean, batch_var, grad_output), attributes)
