"""The builder functions of batch normalization: appended instructions, inferred shapes, errors."""

from __future__ import annotations

from tests.builder.programs import instruction_texts, parameters
from tests.raising import raises
from xlapy import ops
from xlapy.base import ShapeError
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import special as codes


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
    with raises(ShapeError, codes.FEATURE_VECTORS, "f32[4]"):
        ops.batch_norm_training(x, v, w, 0.001, 1)
    with raises(ShapeError, shared.DIMENSION_NUMBER, "feature_index 2", "f32[4,3]", "rank 2"):
        ops.batch_norm_inference(x, v, v, v, v, 0.001, 2)
    with raises(ShapeError, shared.SAME_DIMENSIONS, "grad_output", "f32[3]", "f32[4,3]"):
        ops.batch_norm_grad(x, v, v, v, v, 0.001, 1)
