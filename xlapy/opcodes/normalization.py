"""Definitions of batch normalization: training, inference and gradient.

Responsible for batch-norm-training, batch-norm-inference, batch-norm-grad.
Does not depend on the IR or on values.
Source: BatchNormTraining, BatchNormInference, BatchNormGrad of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import special as codes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.codecs import FLOAT, INTEGER, Attributes, attribute, attributes
from xlapy.opcodes.registry import OpDef, ProgramShapes, constraint, exactly
from xlapy.opcodes.requirements import require_arrays, require_dimension, same_size


@attributes
class BatchNormAttributes(Attributes):
    """`epsilon` is added to the variance; `feature_index` is the dimension that is not reduced."""

    epsilon: float = attribute(FLOAT)
    feature_index: int = attribute(INTEGER)


def _check_feature_vectors(name: str, operands: Sequence[Shape], vectors: dict[str, int], feature_index: int) -> Shape:
    """Checks the operand and the vectors with one value per feature (name -> operand number); returns their shape.

    Element types may differ among floating-point types, as in XLA.
    """
    require_arrays(name, operands)
    operand = operands[0]
    require_dimension(name, "feature_index", feature_index, operand)
    if not operand.element_type.is_floating:
        raise ShapeError(
            shared.ELEMENT_TYPE, f"{name} takes floating-point elements, operand is {operand.to_text(layout=False)}"
        )
    features = operand.dimensions[feature_index]
    for what, number in vectors.items():
        vector = operands[number]
        if vector.rank != 1:
            raise ShapeError(
                codes.FEATURE_VECTORS, f"{name}: {what} must have rank 1, given {vector.to_text(layout=False)}"
            )
        if not vector.element_type.is_floating:
            raise ShapeError(
                shared.ELEMENT_TYPE,
                f"{name}: {what} must be floating-point as operand "
                f"{operand.to_text(layout=False)} is, given {vector.to_text(layout=False)}",
            )
        if not same_size(vector.dimensions[0], features):
            raise ShapeError(
                codes.FEATURE_VECTORS,
                f"{name}: {what} {vector.to_text(layout=False)} must "
                f"have one value for each of the {features} features "
                f"of operand {operand.to_text(layout=False)}",
            )
    return Shape.array(operand.element_type, (features,), (operand.dynamic_dimensions[feature_index],))


def _infer_batch_norm_training(operands: Sequence[Shape], attrs: BatchNormAttributes, _: ProgramShapes) -> Shape:
    vectors = {"scale": 1, "offset": 2}
    feature = _check_feature_vectors("batch-norm-training", operands, vectors, attrs.feature_index)
    return Shape.tuple((operands[0], feature, feature))


def _infer_batch_norm_inference(operands: Sequence[Shape], attrs: BatchNormAttributes, _: ProgramShapes) -> Shape:
    vectors = {"scale": 1, "offset": 2, "mean": 3, "variance": 4}
    _check_feature_vectors("batch-norm-inference", operands, vectors, attrs.feature_index)
    return operands[0]


def _infer_batch_norm_grad(operands: Sequence[Shape], attrs: BatchNormAttributes, _: ProgramShapes) -> Shape:
    vectors = {"scale": 1, "mean": 2, "variance": 3}
    feature = _check_feature_vectors("batch-norm-grad", operands, vectors, attrs.feature_index)
    operand, gradient = operands[0], operands[4]
    if not gradient.element_type.is_floating:
        raise ShapeError(
            shared.ELEMENT_TYPE,
            f"batch-norm-grad: grad_output must be floating-point, given {gradient.to_text(layout=False)}",
        )
    if operand.rank != gradient.rank or not all(map(same_size, operand.dimensions, gradient.dimensions)):
        raise ShapeError(
            shared.SAME_DIMENSIONS,
            f"batch-norm-grad: grad_output {gradient.to_text(layout=False)} "
            f"must have the dimensions of operand {operand.to_text(layout=False)}",
        )
    return Shape.tuple((operand, feature, feature))


BATCH_NORM_TRAINING = OpDef(
    name="batch-norm-training",
    family="normalization",
    summary=(
        "Normalizes each feature by its mean and variance over all other dimensions, then scales it and "
        "adds the offset; the result is (output, mean, variance)."
    ),
    result="A tuple: the shape of the operand, and twice an array of one element per feature.",
    operands="operand scale offset",
    constraints=(
        constraint("All operands are arrays.", shared.ARRAY_OPERAND),
        constraint("`feature_index` is a dimension of the operand.", shared.DIMENSION_NUMBER),
        constraint("The operand has floating-point elements.", shared.ELEMENT_TYPE),
        constraint("The vectors are floating-point and have rank 1.", shared.ELEMENT_TYPE, codes.FEATURE_VECTORS),
        constraint("Each vector has one value per feature.", codes.FEATURE_VECTORS),
    ),
    arity=exactly(3),
    attributes=BatchNormAttributes,
    infer=_infer_batch_norm_training,
)
BATCH_NORM_INFERENCE = OpDef(
    name="batch-norm-inference",
    family="normalization",
    summary="Normalizes each feature by the given mean and variance, then scales it and adds the offset.",
    result="The shape of the operand.",
    operands="operand scale offset mean variance",
    constraints=(
        constraint("All operands are arrays.", shared.ARRAY_OPERAND),
        constraint("`feature_index` is a dimension of the operand.", shared.DIMENSION_NUMBER),
        constraint("The operand has floating-point elements.", shared.ELEMENT_TYPE),
        constraint("The vectors are floating-point and have rank 1.", shared.ELEMENT_TYPE, codes.FEATURE_VECTORS),
        constraint("Each vector has one value per feature.", codes.FEATURE_VECTORS),
    ),
    arity=exactly(5),
    attributes=BatchNormAttributes,
    infer=_infer_batch_norm_inference,
)
BATCH_NORM_GRAD = OpDef(
    name="batch-norm-grad",
    family="normalization",
    summary="The gradients of batch-norm-training with respect to operand, scale and offset.",
    result="A tuple: the shape of the operand, and twice an array of one element per feature.",
    operands="operand scale mean variance grad_output",
    constraints=(
        constraint("All operands are arrays.", shared.ARRAY_OPERAND),
        constraint("`feature_index` is a dimension of the operand.", shared.DIMENSION_NUMBER),
        constraint("The operand has floating-point elements.", shared.ELEMENT_TYPE),
        constraint("The vectors are floating-point and have rank 1.", shared.ELEMENT_TYPE, codes.FEATURE_VECTORS),
        constraint("Each vector has one value per feature.", codes.FEATURE_VECTORS),
        constraint(
            "grad_output is floating-point and has the dimensions of the operand.",
            shared.SAME_DIMENSIONS,
            shared.ELEMENT_TYPE,
        ),
    ),
    arity=exactly(5),
    attributes=BatchNormAttributes,
    infer=_infer_batch_norm_grad,
)
