"""Shape rules of batch normalization."""

from __future__ import annotations

import pytest

from tests.opcodes.rules import inferred, refusal, rewritten, written
from xlapy import opcodes
from xlapy.opcodes.registry import OpDef

IMAGE, VECTOR = "f32[2,5,5,3]", "f32[3]"
NUMBERS = {"epsilon": 0.001, "feature_index": 3}
ARGUMENTS = {
    opcodes.BATCH_NORM_TRAINING: [IMAGE, VECTOR, VECTOR],
    opcodes.BATCH_NORM_INFERENCE: [IMAGE, VECTOR, VECTOR, VECTOR, VECTOR],
    opcodes.BATCH_NORM_GRAD: [IMAGE, VECTOR, VECTOR, VECTOR, IMAGE],
}


def test_results() -> None:
    three = "(f32[2,5,5,3], f32[3], f32[3])"
    assert inferred(opcodes.BATCH_NORM_TRAINING, *ARGUMENTS[opcodes.BATCH_NORM_TRAINING], **NUMBERS) == three
    assert inferred(opcodes.BATCH_NORM_INFERENCE, *ARGUMENTS[opcodes.BATCH_NORM_INFERENCE], **NUMBERS) == IMAGE
    assert inferred(opcodes.BATCH_NORM_GRAD, *ARGUMENTS[opcodes.BATCH_NORM_GRAD], **NUMBERS) == three


def test_precision_may_be_mixed_and_features_dynamic() -> None:
    result = inferred(opcodes.BATCH_NORM_TRAINING, "bf16[2,<=4]", "f32[4]", "f32[4]", epsilon=1e-5, feature_index=1)
    assert result == "(bf16[2,<=4], bf16[<=4], bf16[<=4])"


@pytest.mark.parametrize("op", ARGUMENTS)
@pytest.mark.parametrize(
    ("place", "shape", "message"),
    [
        (0, "s32[2,5,5,3]", "takes floating-point elements, operand is s32[2,5,5,3]"),
        (0, "token[]", "takes arrays, operand 0 is token[]"),
        (0, "f32[3]", ": feature_index 3 is out of bounds for f32[3] of rank 1"),
        (1, "f32[]", ": scale must have rank 1, given f32[]"),
        (1, "f32[4]", ": scale f32[4] must have one value for each of the 3 features of operand f32[2,5,5,3]"),
        (1, "s32[3]", ": scale must be floating-point as operand f32[2,5,5,3] is, given s32[3]"),
        (2, "f32[3,1]", "must have rank 1, given f32[3,1]"),
    ],
)
def test_refusals(op: OpDef, place: int, shape: str, message: str) -> None:
    operands = list(ARGUMENTS[op])
    operands[place] = shape
    found = refusal(op, None, *operands, **NUMBERS)
    assert found.startswith(op.name) and message in found


def test_negative_feature_index() -> None:
    found = refusal(opcodes.BATCH_NORM_TRAINING, None, IMAGE, VECTOR, VECTOR, epsilon=0.1, feature_index=-1)
    assert found == "batch-norm-training: feature_index -1 is out of bounds for f32[2,5,5,3] of rank 4"


@pytest.mark.parametrize(("place", "what"), [(2, "offset"), (3, "mean"), (4, "variance")])
def test_inference_names_its_vectors(place: int, what: str) -> None:
    operands = list(ARGUMENTS[opcodes.BATCH_NORM_INFERENCE])
    operands[place] = "f32[4]"
    found = refusal(opcodes.BATCH_NORM_INFERENCE, None, *operands, **NUMBERS)
    assert found.startswith(f"batch-norm-inference: {what} f32[4] must have one value for each of the 3 features")


@pytest.mark.parametrize(
    ("gradient", "message"),
    [
        ("f32[2,5,5,4]", "grad_output f32[2,5,5,4] must have the dimensions of operand f32[2,5,5,3]"),
        ("f32[2,5,5]", "grad_output f32[2,5,5] must have the dimensions of operand f32[2,5,5,3]"),
        ("s32[2,5,5,3]", "grad_output must be floating-point, given s32[2,5,5,3]"),
    ],
)
def test_gradient_must_fit(gradient: str, message: str) -> None:
    found = refusal(opcodes.BATCH_NORM_GRAD, None, IMAGE, VECTOR, VECTOR, VECTOR, gradient, **NUMBERS)
    assert found == f"batch-norm-grad: {message}"


def test_epsilon_is_written_with_six_digits() -> None:
    attributes = opcodes.BATCH_NORM_GRAD.attributes.make(**NUMBERS)
    assert written(opcodes.BATCH_NORM_GRAD, attributes) == ["epsilon", "feature_index"]
    for text, printed in (
        ("0.0010000000475", "0.001"),
        ("1e-5", "1e-05"),
        ("1", "1"),
        ("1.23456789e10", "1.23457e+10"),
    ):
        assert rewritten(opcodes.BATCH_NORM_GRAD, "epsilon", text) == printed
