"""The builder functions of batch normalization: appended instructions, inferred shapes, errors."""

from __future__ import annotations

import pytest

from tests.builder.programs import instruction_texts, parameters
from xlapy import ops
from xlapy.base import ShapeError


def test_training() -> None:
    x, scale, offset = parameters("f32[4,2,3]", "f32[3]", "f32[3]")
    assert instruction_texts(ops.batch_norm_training(x, scale, offset, 0.001, 2)) == [
        "batch-norm-training = (f32[4,2,3], f32[3], f32[3]) batch-norm-training(p0, p1, p2), epsilon=0.001, "
        "feature_index=2"
    ]


def test_inference() -> None:
    x, *vectors = parameters("bf16[4,3]", *["bf16[3]"] * 4)
    assert instruction_texts(ops.batch_norm_inference(x, *vectors, epsilon=1e-5, feature_index=1)) == [
        "batch-norm-inference = bf16[4,3] batch-norm-inference(p0, p1, p2, p3, p4), epsilon=1e-05, feature_index=1"
    ]


def test_grad() -> None:
    x, scale, mean, variance, g = parameters("f64[4,3]", "f64[4]", "f64[4]", "f64[4]", "f64[4,3]")
    assert instruction_texts(ops.batch_norm_grad(x, scale, mean, variance, g, 0.5, 0)) == [
        "batch-norm-grad = (f64[4,3], f64[4], f64[4]) batch-norm-grad(p0, p1, p2, p3, p4), epsilon=0.5, feature_index=0"
    ]


def test_refused() -> None:
    x, v, w = parameters("f32[4,3]", "f32[3]", "f32[4]")
    with pytest.raises(ShapeError, match=r"offset f32\[4\] must have one value for each of the 3 features"):
        ops.batch_norm_training(x, v, w, 0.001, 1)
    with pytest.raises(ShapeError, match=r"feature_index 2 is out of bounds for f32\[4,3\] of rank 2"):
        ops.batch_norm_inference(x, v, v, v, v, 0.001, 2)
    with pytest.raises(ShapeError, match=r"grad_output f32\[3\] must have the dimensions of operand f32\[4,3\]"):
        ops.batch_norm_grad(x, v, v, v, v, 0.001, 1)
