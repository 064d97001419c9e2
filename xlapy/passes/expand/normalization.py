"""Expansions of batch normalization.

Sums over a feature use f64: squares and cubes of f32 elements overflow in f32, and differences of sums cancel.
Source: BatchNormTraining, BatchNormInference, BatchNormGrad of the specification.
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
    """The arithmetic of features in the type that the expansion computes in.

    Vectors may have another element type than the operand, which decides.
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
        """A vector repeated along all but the feature dimension."""
        return self.write.broadcast(vector, self.operands[0].shape, [self.index])

    def sum(self, operand: Instruction) -> Instruction:
        """Over all elements of each feature."""
        return reduce_dimensions(self.write, opcodes.ADD, operand, self.reduced)

    def mean(self, operand: Instruction) -> Instruction:
        """NaN if features have no elements."""
        total = self.sum(operand)
        return self.write.add(opcodes.DIVIDE, total, self.write.broadcast(self._count(), total.shape))

    def _count(self) -> Instruction:
        """How many elements a feature has."""
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
        """variance + epsilon, which is a float32 rounded to the operand's type."""
        rounded = self.write.convert(self.write.scalar(float(np.float32(self._epsilon)), self.result), self.type)
        return self.write.add(opcodes.ADD, variance, self.write.broadcast(rounded, variance.shape))

    def normalized(
        self, scale: Instruction, centred: Instruction, variance: Instruction, offset: Instruction
    ) -> Instruction:
        """scale centred / sqrt(variance + epsilon) + offset"""
        deviation = self.write.add(opcodes.SQRT, self.with_epsilon(variance))
        scaled = self.write.add(opcodes.MULTIPLY, self.spread(scale), centred)
        quotient = self.write.add(opcodes.DIVIDE, scaled, self.spread(deviation))
        return self.round(self.write.add(opcodes.ADD, quotient, self.spread(offset)))

    def round(self, value: Instruction) -> Instruction:
        return self.write.convert(value, self.result)


@EXPANSIONS.rule(opcodes.BATCH_NORM_TRAINING)
def batch_norm_training(write: Writer, instruction: Instruction) -> Instruction:
    """Inference by the mean of the elements, and the mean of their squared distances from it."""
    features = _Features(write, instruction, F64)
    operand, scale, offset = features.operands
    mean = features.mean(operand)
    centred = write.add(opcodes.SUBTRACT, operand, features.spread(mean))
    variance = features.mean(write.add(opcodes.MULTIPLY, centred, centred))
    output = features.normalized(scale, centred, variance, offset)
    return write.add(opcodes.TUPLE, output, features.round(mean), features.round(variance))


@EXPANSIONS.rule(opcodes.BATCH_NORM_INFERENCE)
def batch_norm_inference(write: Writer, instruction: Instruction) -> Instruction:
    """(x - mean) / sqrt(variance + epsilon) scale + offset, the vectors repeated along all but one dimension."""
    features = _Features(write, instruction, wide_type(instruction.shape.element_type))
    operand, scale, offset, mean, variance = features.operands
    centred = write.add(opcodes.SUBTRACT, operand, features.spread(mean))
    return features.normalized(scale, centred, variance, offset)


@EXPANSIONS.rule(opcodes.BATCH_NORM_GRAD)
def batch_norm_grad(write: Writer, instruction: Instruction) -> Instruction:
    """With x the centred operand, g the gradient, v = variance + epsilon:
    (scale / sqrt(v) (g - mean(g) - x mean(g x / v)), sum(g x / sqrt(v)), sum(g))"""
    features = _Features(write, instruction, F64)
    operand, scale, mean, variance, gradient = features.operands
    centred = write.add(opcodes.SUBTRACT, operand, features.spread(mean))
    with_epsilon = features.with_epsilon(variance)
    deviation = write.add(opcodes.SQRT, with_epsilon)
    product = write.add(opcodes.MULTIPLY, gradient, centred)
    slope = features.mean(write.add(opcodes.DIVIDE, product, features.spread(with_epsilon)))
    level = write.add(opcodes.SUBTRACT, gradient, features.spread(features.mean(gradient)))
    residue = write.add(opcodes.SUBTRACT, level, write.add(opcodes.MULTIPLY, features.spread(slope), centred))
    factor = features.spread(write.add(opcodes.DIVIDE, scale, deviation))
    of_scale = features.sum(write.add(opcodes.DIVIDE, product, features.spread(deviation)))
    of_operand = features.round(write.add(opcodes.MULTIPLY, factor, residue))
    return write.add(opcodes.TUPLE, of_operand, features.round(of_scale), features.round(features.sum(gradient)))
