"""Builder functions of random numbers and stochastic rounding.

Responsible for the builder functions of `opcodes/random.py`. Does not depend on how bits are generated.
Source: RngNormal, RngUniform, RngBitGenerator of the specification; StochasticConvertType of xla_builder.h.

Every function raises `BuilderError` at the caller's line if the arguments do not fit.
"""

from __future__ import annotations

from xlapy.base.element_types import PRED, U1, U2, U4, U8, U16, U32, U64
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.builder.core.broadcasting import constant_of
from xlapy.builder.core.builder import append, builder_of
from xlapy.builder.core.op import Operand, XlaOp
from xlapy.builder.elementwise import ElementType, element_type_of
from xlapy.opcodes.random import (
    RNG,
    RNG_BIT_GENERATOR,
    STOCHASTIC_CONVERT,
    RandomAlgorithm,
    RandomDistribution,
    RngAttributes,
    RngBitGeneratorAttributes,
)

_UNSIGNED = {element_type.bits: element_type for element_type in (U1, U2, U4, U8, U16, U32, U64)}


def _bits_of(shape: Shape) -> Shape:
    """Returns the shape with unsigned integers of the same width as elements; PRED counts as one bit."""
    element_type = shape.element_type
    unsigned = U1 if element_type is PRED else _UNSIGNED.get(element_type.bits)
    if unsigned is None:
        raise ShapeError(
            shared.ELEMENT_TYPE,
            f"returns bits as wide as an unsigned integer type, given {shape.to_text(layout=False)}",
        )
    return shape.with_element_type(unsigned)


def rng_normal(mu: Operand, sigma: Operand, shape: Shape) -> XlaOp:
    """Returns an array of `shape` drawn from the normal distribution N(mu, sigma).

    The mean `mu` and the standard deviation `sigma` are scalars of its floating-point element type; at least one is an
    XlaOp.
    """
    return _rng(RandomDistribution.NORMAL, mu, sigma, shape)


def rng_uniform(a: Operand, b: Operand, shape: Shape) -> XlaOp:
    """Returns an array of `shape` drawn uniformly from [a, b): floating-point numbers, integers or PRED.

    The limits are scalars of its element type; at least one is an XlaOp. Unless b > a, the values are unspecified.
    """
    return _rng(RandomDistribution.UNIFORM, a, b, shape)


def _rng(distribution: RandomDistribution, first: Operand, second: Operand, shape: Shape) -> XlaOp:
    builder = builder_of("rng", (first, second))
    with builder.building("rng"):
        scalars = [constant_of(builder, value, shape.element_type) for value in (first, second)]
        return builder.append(RNG, scalars, RngAttributes.make(distribution=distribution), shape=shape)


def rng_bit_generator(algorithm: RandomAlgorithm, initial_state: XlaOp, shape: Shape) -> XlaOp:
    """Returns the tuple of the next state and an array of random bits, which depend only on `initial_state`.

    The bits have the dimensions of `shape` and are unsigned integers as wide as its elements: f32[2] gives u32[2]. The
    state is u64[2] for THREE_FRY, and u64[2] or u64[3] for PHILOX; the next state has its shape.
    """
    with builder_of("rng-bit-generator", (initial_state,)).building("rng-bit-generator"):
        attributes = RngBitGeneratorAttributes.make(algorithm=algorithm)
        result = Shape.tuple((initial_state.shape, _bits_of(shape)))
        return append(RNG_BIT_GENERATOR, (initial_state,), attributes, shape=result)


def stochastic_convert_type(operand: XlaOp, random: XlaOp, new_element_type: ElementType) -> XlaOp:
    """Converts a floating-point array to another type, rounding up or down at random, more likely to the nearer value.

    `random` holds, for each element, an unsigned integer as wide as the element. Back ends run conversions to signed
    integers only.
    """
    with builder_of("stochastic-convert", (operand,)).building("stochastic-convert"):
        shape = operand.shape.with_element_type(element_type_of(new_element_type))
        return append(STOCHASTIC_CONVERT, (operand, random), shape=shape)
