"""Op generators for batch normalizations: any feature dimension, empty features, operands that are moderate
constants."""

from __future__ import annotations

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PrimitiveType
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.normalization import BatchNormAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.testing.random_modules.generator import ModuleGenerator, OpGenerator, SkipDraw
from xlapy.testing.random_values import random_array


def _operand(generator: ModuleGenerator) -> tuple[PrimitiveType, tuple[int, ...], BatchNormAttributes]:
    if generator.exact:
        raise SkipDraw
    t = generator.type(lambda t: t.is_floating and t.bits >= 16)
    dimensions = generator.dimensions(1)
    feature = generator.integer(0, len(dimensions) - 1)
    epsilon = generator.choice((0.001, 0.5, 1e-5))
    return t, dimensions, BatchNormAttributes.make(epsilon=epsilon, feature_index=feature)


def _moderate(generator: ModuleGenerator, dimensions: tuple[int, ...], t: PrimitiveType) -> Instruction:
    return generator.constant(random_array(dimensions, t.dtype, generator.rng, special=False))


def _vectors(generator: ModuleGenerator, t: PrimitiveType, size: int, count: int) -> list[Instruction]:
    return [_moderate(generator, (size,), t) for _ in range(count)]


def _variance(generator: ModuleGenerator, t: PrimitiveType, size: int) -> Instruction:
    numbers = random_array((size,), np.float64, generator.rng, special=False)
    return generator.constant((np.abs(numbers) + 0.1).astype(t.dtype))


def batch_norm_training(generator: ModuleGenerator) -> None:
    t, dimensions, attributes = _operand(generator)
    features = dimensions[attributes.feature_index]
    operands = (_moderate(generator, dimensions, t), *_vectors(generator, t, features, 2))
    generator.add(opcodes.BATCH_NORM_TRAINING, operands, attributes)


def batch_norm_inference(generator: ModuleGenerator) -> None:
    t, dimensions, attributes = _operand(generator)
    features = dimensions[attributes.feature_index]
    vectors = (*_vectors(generator, t, features, 3), _variance(generator, t, features))
    generator.add(opcodes.BATCH_NORM_INFERENCE, (_moderate(generator, dimensions, t), *vectors), attributes)


def batch_norm_grad(generator: ModuleGenerator) -> None:
    t, dimensions, attributes = _operand(generator)
    features = dimensions[attributes.feature_index]
    vectors = (*_vectors(generator, t, features, 2), _variance(generator, t, features))
    operands = (_moderate(generator, dimensions, t), *vectors, _moderate(generator, dimensions, t))
    generator.add(opcodes.BATCH_NORM_GRAD, operands, attributes)


OP_GENERATORS: tuple[tuple[OpDef, OpGenerator], ...] = (
    (opcodes.BATCH_NORM_TRAINING, batch_norm_training),
    (opcodes.BATCH_NORM_INFERENCE, batch_norm_inference),
    (opcodes.BATCH_NORM_GRAD, batch_norm_grad),
)
