"""Definitions of the operations that generate or use random bits.

Responsible for rng, rng-bit-generator, rng-get-and-update-state, stochastic-convert.
Does not depend on the IR or on values.
Source: RngUniform, RngNormal, RngBitGenerator, RngGetAndUpdateState, StochasticConvert of the specification.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from xlapy.base.element_types import PRED, U64
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.error_codes.operations import special as codes
from xlapy.base.errors import ShapeError
from xlapy.base.shape import Shape
from xlapy.opcodes.attributes.codecs import INTEGER, Attributes, EnumCodec, attribute, attributes
from xlapy.opcodes.registry import Effect, OpDef, ProgramShapes, at_least, constraint, exactly
from xlapy.opcodes.requirements import compatible_ignoring_dynamic, require_arrays, require_shape


class RandomDistribution(Enum):
    """UNIFORM draws from [operand 0, operand 1); NORMAL has mean operand 0 and standard deviation operand 1."""

    UNIFORM = "rng_uniform"
    NORMAL = "rng_normal"


@attributes
class RngAttributes(Attributes):
    distribution: RandomDistribution = attribute(EnumCodec(RandomDistribution, ignore_case=True))


def _check_rng(shape: Shape, operands: Sequence[Shape], attrs: RngAttributes, _: ProgramShapes) -> None:
    element = shape.element_type
    if len(operands) != 2:
        raise ShapeError(shared.OPERAND_COUNT, f"rng takes 2 operands, given {len(operands)}")
    for number, operand in enumerate(operands):
        if not operand.is_scalar or operand.element_type is not element:
            raise ShapeError(
                codes.RNG_OPERANDS,
                f"rng of {shape.to_text(layout=False)} takes {element}[] "
                f"as operand {number}, given {operand.to_text(layout=False)}",
            )
    if not shape.is_array:
        raise ShapeError(shared.ARRAY_RESULT, f"rng returns an array, declared {shape.to_text(layout=False)}")
    if attrs.distribution is RandomDistribution.NORMAL and not element.is_floating:
        raise ShapeError(
            shared.ELEMENT_TYPE,
            f"rng with rng_normal returns floating-point elements, declared {shape.to_text(layout=False)}",
        )
    if not (element.is_floating or element.is_integral or element is PRED):
        raise ShapeError(
            shared.ELEMENT_TYPE,
            "rng with rng_uniform returns floating-point, integer or "
            f"pred elements, declared {shape.to_text(layout=False)}",
        )


RNG = OpDef(
    name="rng",
    family="random",
    summary=(
        "Random numbers: uniform in [a, b), or normal with mean a and standard deviation b. The sequence is "
        "unspecified."
    ),
    result="Any array shape, which is declared, with the element type of the operands.",
    operands="a b",
    constraints=(
        constraint(
            "There are two operands, which are scalars of the result's element type.",
            shared.OPERAND_COUNT,
            codes.RNG_OPERANDS,
        ),
        constraint("rng_normal returns floating-point elements.", shared.ELEMENT_TYPE),
        constraint("rng_uniform returns floating-point, integer or pred elements.", shared.ELEMENT_TYPE),
    ),
    arity=at_least(0),
    attributes=RngAttributes,
    check=_check_rng,
    effect=Effect.SIDE_EFFECT,
)


class RandomAlgorithm(Enum):
    """The random number generator; DEFAULT is Philox, as in XLA:CPU."""

    DEFAULT = "rng_default"
    THREE_FRY = "rng_three_fry"
    PHILOX = "rng_philox"


@attributes
class RngBitGeneratorAttributes(Attributes):
    algorithm: RandomAlgorithm = attribute(EnumCodec(RandomAlgorithm, ignore_case=True))


def _check_rng_bit_generator(
    shape: Shape, operands: Sequence[Shape], _: RngBitGeneratorAttributes, __: ProgramShapes
) -> None:
    """Requires the result (new state, bits), or only the bits. The size of the state is checked at run time."""
    require_arrays("rng-bit-generator", operands)
    (state,) = operands
    bits = shape
    if shape.is_tuple:
        if len(shape.tuple_shapes) != 2:
            raise ShapeError(
                codes.RNG_STATE, f"rng-bit-generator has shape (state, bits), declared {shape.to_text(layout=False)}"
            )
        if not compatible_ignoring_dynamic(shape.tuple_shapes[0], state):
            raise ShapeError(
                codes.RNG_STATE,
                f"rng-bit-generator takes state {state.to_text(layout=False)} "
                f"and returns it in {shape.to_text(layout=False)}: "
                "both states must have the same shape",
            )
        bits = shape.tuple_shapes[1]
    if not bits.is_array:
        raise ShapeError(
            shared.ARRAY_RESULT, f"rng-bit-generator returns an array of bits, declared {shape.to_text(layout=False)}"
        )


RNG_BIT_GENERATOR = OpDef(
    name="rng-bit-generator",
    family="random",
    summary="The next state, and random bits that depend only on the algorithm and the initial state.",
    result="The tuple of the state's shape and an array of any shape, which is declared; or only that array.",
    operands="initial_state",
    constraints=(
        constraint("The state is an array.", shared.ARRAY_OPERAND),
        constraint(
            "The shape is (state, bits) with the shape of the operand for the state, or only the bits.", codes.RNG_STATE
        ),
        constraint("The bits are an array.", shared.ARRAY_RESULT),
    ),
    arity=exactly(1),
    attributes=RngBitGeneratorAttributes,
    check=_check_rng_bit_generator,
)


@attributes
class RngGetAndUpdateStateAttributes(Attributes):
    """`delta` is the number of steps by which the hidden 128-bit state advances."""

    delta: int = attribute(INTEGER)


def _infer_rng_get_and_update_state(
    _: Sequence[Shape], __: RngGetAndUpdateStateAttributes, ___: ProgramShapes
) -> Shape:
    return Shape.array(U64, (2,))


RNG_GET_AND_UPDATE_STATE = OpDef(
    name="rng-get-and-update-state",
    family="random",
    summary=(
        "Returns the device's hidden 128-bit state as two words, the lower word first, and advances the "
        "state by `delta`."
    ),
    result="`u64[2]`.",
    arity=exactly(0),
    attributes=RngGetAndUpdateStateAttributes,
    infer=_infer_rng_get_and_update_state,
    effect=Effect.SIDE_EFFECT,
)


def _check_stochastic_convert(shape: Shape, operands: Sequence[Shape], _: Any, __: ProgramShapes) -> None:
    require_arrays("stochastic-convert", operands)
    operand, random = operands
    if not operand.element_type.is_floating:
        raise ShapeError(
            shared.ELEMENT_TYPE,
            f"stochastic-convert takes floating-point elements, operand is {operand.to_text(layout=False)}",
        )
    if not random.element_type.is_unsigned:
        raise ShapeError(
            codes.RANDOM_BITS,
            f"stochastic-convert takes unsigned random numbers, operand 1 is {random.to_text(layout=False)}",
        )
    if operand.element_type.bits != random.element_type.bits:
        raise ShapeError(
            codes.RANDOM_BITS,
            f"stochastic-convert: random numbers {random.to_text(layout=False)} "
            f"must have the width of operand {operand.to_text(layout=False)}",
        )
    if not compatible_ignoring_dynamic(operand.with_element_type(random.element_type), random):
        raise ShapeError(
            shared.SAME_DIMENSIONS,
            f"stochastic-convert: random numbers {random.to_text(layout=False)} "
            f"must have the dimensions of operand {operand.to_text(layout=False)}",
        )
    if not shape.is_array:
        raise ShapeError(
            shared.ARRAY_RESULT, f"stochastic-convert returns an array, declared {shape.to_text(layout=False)}"
        )
    require_shape("stochastic-convert", shape, operand.with_element_type(shape.element_type))


STOCHASTIC_CONVERT = OpDef(
    name="stochastic-convert",
    family="random",
    summary=(
        "Converts the elements to another type with stochastic rounding: away from zero where the random "
        "bits are less than the discarded fraction, and toward zero elsewhere."
    ),
    result="The dimensions of the operand, with any element type, which is declared.",
    operands="operand random",
    constraints=(
        constraint("Both operands are arrays of the same dimensions.", shared.ARRAY_OPERAND, shared.SAME_DIMENSIONS),
        constraint("The operand has floating-point elements.", shared.ELEMENT_TYPE),
        constraint("The random numbers are unsigned integers of the operand's width.", codes.RANDOM_BITS),
        constraint("The result is an array of the operand's dimensions.", shared.RESULT_SHAPE, shared.ARRAY_RESULT),
    ),
    arity=exactly(2),
    check=_check_stochastic_convert,
    elementwise=True,
)
