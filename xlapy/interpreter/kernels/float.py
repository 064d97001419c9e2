"""Real-valued functions of the elementwise operations, on arrays of float32 or float64.

Responsible for the kernels that NumPy does not have, or whose special cases differ from XLA's. A kernel computes in the
type of its operands; the caller chooses that type and rounds the result. Does not depend on operations, instructions or
narrow types.
Source: "Element-wise unary functions" and "Element-wise binary arithmetic operations" of the specification.
"""

from __future__ import annotations

import numpy as np

from xlapy.base.element_types import Array


def maximum(lhs: Array, rhs: Array) -> Array:
    """The larger number; NaN if either is, and +0 is larger than -0."""
    take_left = np.isnan(lhs) | (lhs > rhs) | ((lhs == rhs) & ~np.signbit(lhs))
    return np.where(take_left, lhs, rhs)


def minimum(lhs: Array, rhs: Array) -> Array:
    """The smaller number; NaN if either is, and -0 is smaller than +0."""
    take_left = np.isnan(lhs) | (lhs < rhs) | ((lhs == rhs) & np.signbit(lhs))
    return np.where(take_left, lhs, rhs)


def sign(operand: Array) -> Array:
    """-1, -0, +0 or 1; NaN for NaN."""
    keep = np.isnan(operand) | (operand == 0)
    return np.where(keep, operand, np.copysign(operand.dtype.type(1), operand))


def round_half_away(operand: Array) -> Array:
    """The nearest integer, halves away from zero. Adding 0.5 first would round 0.49999999999999994 up."""
    whole = np.trunc(operand)
    step = (np.abs(operand - whole) >= 0.5).astype(operand.dtype)
    return whole + np.copysign(step, operand)


def logistic(operand: Array) -> Array:
    """1 / (1 + e^-x), without overflow on either side."""
    decay = np.exp(-np.abs(operand))
    return np.where(operand < 0, decay, operand.dtype.type(1)) / (1 + decay)


def reciprocal_square_root(operand: Array) -> Array:
    return 1 / np.sqrt(operand)


def error_function(operand: Array) -> Array:
    from scipy import special  # loading takes a tenth of a second, and few programs use it

    return np.asarray(special.erf(operand))
