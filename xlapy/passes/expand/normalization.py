"""Expansions of batch normalization.

Sums over a feature use f64: squares and cubes of f32 elements overflow in f32, and differences of sums cancel. Source:
BatchNormTraining, BatchNormInference and BatchNormGrad of the specification.
"""

from __future__ import annotations

import math

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import F64, PrimitiveType
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.movement import DimensionAttributes
from xlapy.opcodes.normalization import BatchNormAttributes
from xlapy.passes.expand.blocks import reduce_dimensions
from xlapy.passes.expand.core import EXPANSIONS, wide_type
from xlapy.passes.rewrite import Writer


class _Features:
    """Operands and arithmetic of one batch normalization, in the element type that the expansion computes in.

    element_type: the type for intermediate values. Results have the element type of the first operand, which scale,
    offset, mean and variance need not share.
    """

    def __init__(self, write: Writer, instruction: Instruction, element_type: PrimitiveType) -> None:
        self.write, self.shape = write, instruction.operands[0].shape
        self.result = self.shape.element_type
        self.type = element_type
        self.operands = [write.convert(each, self.type) for each in instruction.operands]
        attributes = instruction.attributes_as(BatchNormAttributes)
        self.index = attributes.feature_index
        self.reduced = [d for d in range(self.shape.rank) if d != self.index]
        self._epsilon = attributes.epsilon

    def spread(self, vector: Instruction) -> Instruction:
        """Broadcasts a vector of one element per feature along all other dimensions."""
        return self.write.broadcast(vector, self.operands[0].shape, [self.index])

    def sum(self, operand: Instruction) -> Instruction:
        """Sums over all elements of each feature."""
        return reduce_dimensions(self.write, opcodes.ADD, operand, self.reduced)

    def mean(self, operand: Instruction) -> Instruction:
        """Returns the mean of each feature; NaN if a feature has no elements."""
        total = self.sum(operand)
        return self.write.add(opcodes.DIVIDE, total, self.write.broadcast(self._count(), total.shape))

    def _count(self) -> Instruction:
        """Returns the number of elements per feature."""
        is_dynamic = self.shape.dynamic_dimensions
        count = self.write.scalar(
            math.prod(self.shape.dimensions[d] for d in self.reduced if not is_dynamic[d]), self.type
        )
        for dimension in self.reduced:
            if is_dynamic[dimension]:
                attributes = DimensionAttributes.make(dimension=dimension)
                size = self.write.add(opcodes.GET_DIMENSION_SIZE, self.operands[0], attributes=attributes)
                count = self.write.add(opcodes.MULTIPLY, count, self.write.convert(size, self.type))
        return count

    def with_epsilon(self, variance: Instruction) -> Instruction:
        """Returns variance + epsilon. epsilon is a float32 that is rounded to the operand's element type."""
        rounded = self.write.convert(self.write.scalar(float(np.float32(self._epsilon)), self.result), self.type)
        return self.write.add(opcodes.ADD, variance, self.write.broadcast(rounded, variance.shape))

    def normalized(
        self, scale: Instruction, centered: Instruction, variance: Instruction, offset: Instruction
    ) -> Instruction:
        """Returns scale centered / sqrt(variance + epsilon) + offset."""
        deviation = self.write.add(opcodes.SQRT, self.with_epsilon(variance))
        scaled = self.write.add(opcodes.MULTIPLY, self.spread(scale), centered)
        quotient = self.write.add(opcodes.DIVIDE, scaled, self.spread(deviation))
        return self.round(self.write.add(opcodes.ADD, quotient, self.spread(offset)))

    def round(self, value: Instruction) -> Instruction:
        return self.write.convert(value, self.result)


@EXPANSIONS.rule(opcodes.BATCH_NORM_TRAINING)
def batch_norm_training(write: Writer, instruction: Instruction) -> Instruction:
    """Normalizes with the mean and the variance of each feature, and returns both.

    The variance is the mean of the squared differences from the mean.
    """
    features = _Features(write, instruction, F64)
    operand, scale, offset = features.operands
    mean = features.mean(operand)
    centered = write.add(opcodes.SUBTRACT, operand, features.spread(mean))
    variance = features.mean(write.add(opcodes.MULTIPLY, centered, centered))
    output = features.normalized(scale, centered, variance, offset)
    return write.add(opcodes.TUPLE, output, features.round(mean), features.round(variance))


@EXPANSIONS.rule(opcodes.BATCH_NORM_INFERENCE)
def batch_norm_inference(write: Writer, instruction: Instruction) -> Instruction:
    """Returns (x - mean) / sqrt(variance + epsilon) scale + offset, with vectors broadcast over each feature."""
    features = _Features(write, instruction, wide_type(instruction.shape.element_type))
    operand, scale, offset, mean, variance = features.operands
    centered = write.add(opcodes.SUBTRACT, operand, features.spread(mean))
    return features.normalized(scale, centered, variance, offset)


@EXPANSIONS.rule(opcodes.BATCH_NORM_GRAD)
def batch_norm_grad(write: Writer, instruction: Instruction) -> Instruction:
    """Returns the gradients with respect to the operand, scale and offset.

    With x the centered operand, g the gradient of the output and v = variance + epsilon:
    (scale / sqrt(v) (g - mean(g) - x mean(g x / v)), sum(g x / sqrt(v)), sum(g))
    """
    features = _Features(write, instruction, F64)
    operand, scale, mean, variance, gradient = features.operands
    centered = write.add(opcodes.SUBTRACT, operand, features.spread(mean))
    with_epsilon = features.with_epsilon(variance)
    deviation = write.add(opcodes.SQRT, with_epsilon)
    product = write.add(opcodes.MULTIPLY, gradient, centered)
    slope = features.mean(write.add(opcodes.DIVIDE, product, features.spread(with_epsilon)))
    level = write.add(opcodes.SUBTRACT, gradient, features.spread(features.mean(gradient)))
    residue = write.add(opcodes.SUBTRACT, level, write.add(opcodes.MULTIPLY, features.spread(slope), centered))
    factor = features.spread(write.add(opcodes.DIVIDE, scale, deviation))
    scale_gradient = features.sum(write.add(opcodes.DIVIDE, product, features.spread(deviation)))
    operand_gradient = features.round(write.add(opcodes.MULTIPLY, factor, residue))
    return write.add(
        opcodes.TUPLE, operand_gradient, features.round(scale_gradient), features.round(features.sum(gradient))
    )
