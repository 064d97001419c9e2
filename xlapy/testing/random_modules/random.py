"""Op generators for instructions that create or use random bits. Only the values of `rng` are unspecified."""

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
from xlapy.testing.random_modules.generator import ModuleGenerator, OpGenerator, SkipDraw


def _entry_only(generator: ModuleGenerator) -> None:
    """Skips called computations, in which an unspecified value could reach one that is compared."""
    if generator.depth:
        raise SkipDraw


def rng(generator: ModuleGenerator) -> None:
    """Adds an rng with an interval, or a mean and a deviation, of moderate constants. No other instruction uses its
    value.
    """
    _entry_only(generator)
    normal = generator.chance(0.4)
    t = generator.type(lambda t: t.is_floating or (not normal and not t.is_complex))
    low, high = sorted(generator.integer(-1 if t.is_signed or t.is_floating else 0, 1) for _ in range(2))
    first, second = (np.array(number).astype(t.dtype) for number in (low, high if normal else high + 1))
    kind = RandomDistribution.NORMAL if normal else RandomDistribution.UNIFORM
    operands = (generator.constant(first), generator.constant(np.abs(second) if normal else second))
    generator.add(
        opcodes.RNG, operands, RngAttributes.make(distribution=kind), shape=Shape.array(t, generator.dimensions())
    )
    generator.remove_last_from_pool()


def rng_get_and_update_state(generator: ModuleGenerator) -> None:
    _entry_only(generator)
    generator.add(
        opcodes.RNG_GET_AND_UPDATE_STATE, (), RngGetAndUpdateStateAttributes.make(delta=generator.integer(1, 5))
    )
    generator.remove_last_from_pool()


def _has_bits(t: PrimitiveType) -> bool:
    return t.is_integral and t.bits >= 8


def rng_bit_generator(generator: ModuleGenerator) -> None:
    """Adds an rng-bit-generator of any width, with or without the state in its result."""
    algorithm = generator.choice(list(RandomAlgorithm))
    words = 2 if algorithm is RandomAlgorithm.THREE_FRY or generator.chance(0.5) else 3
    if generator.scalars:
        raise SkipDraw
    state = generator.array_of((words,), U64)
    bits = Shape.array(generator.type(_has_bits), generator.dimensions())
    shape = Shape.tuple([state.shape, bits]) if generator.chance(0.8) else bits
    generator.add(opcodes.RNG_BIT_GENERATOR, (state,), RngBitGeneratorAttributes.make(algorithm=algorithm), shape=shape)


def stochastic_convert(generator: ModuleGenerator) -> None:
    operand = generator.array(lambda _: True, lambda t: t.is_floating and t.bits >= 16)
    source = operand.shape.element_type
    unsigned = generator.type(lambda t: t.is_unsigned and t.bits == source.bits)
    target = generator.type(lambda t: t.is_signed and t.bits >= 8)
    random = generator.array_of(operand.shape.dimensions, unsigned)
    generator.add(opcodes.STOCHASTIC_CONVERT, (operand, random), shape=operand.shape.with_element_type(target))


OP_GENERATORS: tuple[tuple[OpDef, OpGenerator], ...] = (
    (opcodes.RNG, rng),
    (opcodes.RNG_GET_AND_UPDATE_STATE, rng_get_and_update_state),
    (opcodes.RNG_BIT_GENERATOR, rng_bit_generator),
    (opcodes.RNG_BIT_GENERATOR, rng_bit_generator),
    (opcodes.STOCHASTIC_CONVERT, stochastic_convert),
)
