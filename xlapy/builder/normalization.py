"""Builder functions of batch normalization.

Responsible for the builder functions of `opcodes/normalization.py`. Does not depend on how they are evaluated.
Source: BatchNormTraining, BatchNormInference, BatchNormGrad of the specification.

`operand` is a floating-point array; `feature_index` is its feature dimension, of size c. Statistics are computed over
all other dimensions; `scale`, `offset`, means and variances are vectors of c elements. `epsilon` is added to a variance
before the division. Every function raises `BuilderError` at the caller's line if the operands do not fit.
"""

from __future__ import annotations

from xlapy.builder.core.builder import append
from xlapy.builder.core.op import XlaOp
from xlapy.opcodes.normalization import BATCH_NORM_GRAD, BATCH_NORM_INFERENCE, BATCH_NORM_TRAINING, BatchNormAttributes


def batch_norm_training(operand: XlaOp, scale: XlaOp, offset: XlaOp, epsilon: float, feature_index: int) -> XlaOp:
    """Returns the tuple (normalized operand, batch mean, batch variance).

    The normalized operand is scale * (operand - mean) / sqrt(variance + epsilon) + offset; the variance is the biased
    one.
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
    """Normalizes the operand as in training, with the given mean and variance."""
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
    """Returns the gradients with respect to operand, scale and offset of `batch_norm_training`, as a tuple.

    `batch_mean` and `batch_var` are results of `batch_norm_training`; `grad_output` is the gradient with respect to its
    first result.
    """
    attributes = BatchNormAttributes.make(epsilon=epsilon, feature_index=feature_index)
    return append(BATCH_NORM_GRAD, (operand, scale, batch_mean, batch_var, grad_output), attributes)
