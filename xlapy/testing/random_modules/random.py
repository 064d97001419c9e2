"""Makers of instructions that make or use random bits. Which numbers `rng` gives is not specified; the others are."""

from __future__ import annotations

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import U64, PrimitiveType
from xlapy.base.shape import Shape
from xlapy.opcodes.random import (
    RandomAlgorithm,
    RandomDistribution,
    RngAttributes,
    RngBitGeneratorAttributes,
    RngGetAndUpdateStateAttributes,
)
from xlapy.opcodes.registry import OpDef
from xlapy.testing.random_modules.draft import Draft, Maker, Unsuitable


def _entry_only(draft: Draft) -> None:
    """Elsewhere a value that is not specified would reach one that is compared."""
    if draft.depth:
        raise Unsuitable


def rng(draft: Draft) -> None:
    """An interval, or a mean and a deviation, of moderate constants; nothing is computed from what comes."""
    _entry_only(draft)
    normal = draft.chance(0.4)
    t = draft.type(lambda t: t.is_floating or (not normal and not t.is_complex))
    low, high = sorted(draft.integer(-1 if t.is_signed or t.is_floating else 0, 1) for _ in range(2))
    first, second = (np.array(number).astype(t.dtype) for number in (low, high if normal else high + 1))
    kind = RandomDistribution.NORMAL if normal else RandomDistribution.UNIFORM
    operands = (draft.constant(first), draft.constant(np.abs(second) if normal else second))
    draft.add(opcodes.RNG, operands, RngAttributes.make(distribution=kind), shape=Shape.array(t, draft.dimensions()))
    draft.set_aside()


def rng_get_and_update_state(draft: Draft) -> None:
    _entry_only(draft)
    draft.add(opcodes.RNG_GET_AND_UPDATE_STATE, (), RngGetAndUpdateStateAttributes.make(delta=draft.integer(1, 5)))
    draft.set_aside()


def _has_bits(t: PrimitiveType) -> bool:
    return t.is_integral and t.bits >= 8


def rng_bit_generator(draft: Draft) -> None:
    """With the state or without, from any state, of every width."""
    algorithm = draft.choice(list(RandomAlgorithm))
    words = 2 if algorithm is RandomAlgorithm.THREE_FRY or draft.chance(0.5) else 3
    if draft.scalars:
        raise Unsuitable
    state = draft.values((words,), U64)
    bits = Shape.array(draft.type(_has_bits), draft.dimensions())
    shape = Shape.tuple([state.shape, bits]) if draft.chance(0.8) else bits
    draft.add(opcodes.RNG_BIT_GENERATOR, (state,), RngBitGeneratorAttributes.make(algorithm=algorithm), shape=shape)


def stochastic_convert(draft: Draft) -> None:
    operand = draft.array(lambda _: True, lambda t: t.is_floating and t.bits >= 16)
    source = operand.shape.element_type
    unsigned = draft.type(lambda t: t.is_unsigned and t.bits == source.bits)
    target = draft.type(lambda t: t.is_signed and t.bits >= 8)
    random = draft.values(operand.shape.dimensions, unsigned)
    draft.add(opcodes.STOCHASTIC_CONVERT, (operand, random), shape=operand.shape.with_element_type(target))


MAKERS: tuple[tuple[OpDef, Maker], ...] = (
    (opcodes.RNG, rng),
    (opcodes.RNG_GET_AND_UPDATE_STATE, rng_get_and_update_state),
    (opcodes.RNG_BIT_GENERATOR, rng_bit_generator),
    (opcodes.RNG_BIT_GENERATOR, rng_bit_generator),
    (opcodes.STOCHASTIC_CONVERT, stochastic_convert),
)
