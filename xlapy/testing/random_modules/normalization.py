"""Makers of batch normalizations: any feature dimension, features without elements, moderate constants as operands."""

from __future__ import annotations

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PrimitiveType
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.normalization import BatchNormAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.testing.random_modules.draft import Draft, Maker, Unsuitable
from xlapy.testing.random_values import random_array


def _operand(draft: Draft) -> tuple[PrimitiveType, tuple[int, ...], BatchNormAttributes]:
    if draft.exact:
        raise Unsuitable
    t = draft.type(lambda t: t.is_floating and t.bits >= 16)
    dimensions = draft.dimensions(1)
    feature = draft.integer(0, len(dimensions) - 1)
    epsilon = draft.choice((0.001, 0.5, 1e-5))
    return t, dimensions, BatchNormAttributes.make(epsilon=epsilon, feature_index=feature)


def _moderate(draft: Draft, dimensions: tuple[int, ...], t: PrimitiveType) -> Instruction:
    return draft.constant(random_array(dimensions, t.dtype, draft.rng, special=False))


def _vectors(draft: Draft, t: PrimitiveType, size: int, count: int) -> list[Instruction]:
    return [_moderate(draft, (size,), t) for _ in range(count)]


def _variance(draft: Draft, t: PrimitiveType, size: int) -> Instruction:
    numbers = random_array((size,), np.float64, draft.rng, special=False)
    return draft.constant((np.abs(numbers) + 0.1).astype(t.dtype))


def batch_norm_training(draft: Draft) -> None:
    t, dimensions, attributes = _operand(draft)
    features = dimensions[attributes.feature_index]
    operands = (_moderate(draft, dimensions, t), *_vectors(draft, t, features, 2))
    draft.add(opcodes.BATCH_NORM_TRAINING, operands, attributes)


def batch_norm_inference(draft: Draft) -> None:
    t, dimensions, attributes = _operand(draft)
    features = dimensions[attributes.feature_index]
    vectors = (*_vectors(draft, t, features, 3), _variance(draft, t, features))
    draft.add(opcodes.BATCH_NORM_INFERENCE, (_moderate(draft, dimensions, t), *vectors), attributes)


def batch_norm_grad(draft: Draft) -> None:
    t, dimensions, attributes = _operand(draft)
    features = dimensions[attributes.feature_index]
    vectors = (*_vectors(draft, t, features, 2), _variance(draft, t, features))
    operands = (_moderate(draft, dimensions, t), *vectors, _moderate(draft, dimensions, t))
    draft.add(opcodes.BATCH_NORM_GRAD, operands, attributes)


MAKERS: tuple[tuple[OpDef, Maker], ...] = (
    (opcodes.BATCH_NORM_TRAINING, batch_norm_training),
    (opcodes.BATCH_NORM_INFERENCE, batch_norm_inference),
    (opcodes.BATCH_NORM_GRAD, batch_norm_grad),
)
