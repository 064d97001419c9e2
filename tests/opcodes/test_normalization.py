"""Shape rules of batch normalization."""

from __future__ import annotations

import pytest

from tests.opcodes.rules import inferred, refused, rewritten, written
from tests.raising import Wanted
from xlapy import opcodes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import special as codes
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
    ("place", "shape", "wanted"),
    [
        (0, "s32[2,5,5,3]", (shared.ELEMENT_TYPE, "s32[2,5,5,3]")),
        (0, "token[]", (shared.ARRAY_OPERAND, "operand 0", "token[]")),
        (0, "f32[3]", (shared.DIMENSION_NUMBER, "feature_index 3", "f32[3]", "rank 1")),
        (1, "f32[]", (codes.FEATURE_VECTORS, "rank 1", "f32[]")),
        (1, "f32[4]", (codes.FEATURE_VECTORS, "f32[4]", "f32[2,5,5,3]")),
        (1, "s32[3]", (shared.ELEMENT_TYPE, "f32[2,5,5,3]", "s32[3]")),
        (2, "f32[3,1]", (codes.FEATURE_VECTORS, "rank 1", "f32[3,1]")),
    ],
)
def test_refusals(op: OpDef, place: int, shape: str, wanted: Wanted) -> None:
    operands = list(ARGUMENTS[op])
    operands[place] = shape
    refused((*wanted, op.name), op, None, *operands, **NUMBERS)


def test_negative_feature_index() -> None:
    refused(
        (shared.DIMENSION_NUMBER, "feature_index -1", "f32[2,5,5,3]", "rank 4"),
        opcodes.BATCH_NORM_TRAINING,
        None,
        IMAGE,
        VECTOR,
        VECTOR,
        epsilon=0.1,
        feature_index=-1,
    )


@pytest.mark.parametrize(("place", "what"), [(2, "offset"), (3, "mean"), (4, "variance")])
def test_inference_names_its_vectors(place: int, what: str) -> None:
    operands = list(ARGUMENTS[opcodes.BATCH_NORM_INFERENCE])
    operands[place] = "f32[4]"
    refused((codes.FEATURE_VECTORS, what, "f32[4]"), opcodes.BATCH_NORM_INFERENCE, None, *operands, **NUMBERS)


@pytest.mark.parametrize(
    ("gradient", "wanted"),
    [
        ("f32[2,5,5,4]", (shared.SAME_DIMENSIONS, "grad_output", "f32[2,5,5,4]", "f32[2,5,5,3]")),
        ("f32[2,5,5]", (shared.SAME_DIMENSIONS, "grad_output", "f32[2,5,5]", "f32[2,5,5,3]")),
        ("s32[2,5,5,3]", (shared.ELEMENT_TYPE, "grad_output", "s32[2,5,5,3]")),
    ],
)
def test_gradient_must_fit(gradient: str, wanted: Wanted) -> None:
    refused(wanted, opcodes.BATCH_NORM_GRAD, None, IMAGE, VECTOR, VECTOR, VECTOR, gradient, **NUMBERS)


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
