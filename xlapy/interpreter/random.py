"""Operations that generate or use random bits.

Does not depend on how a generator computes its bits (`kernels/random_bits.py`) or on the initial state of a run
(`kernels/random_state.py`).
Source: RngUniform, RngNormal, RngBitGenerator, RngGetAndUpdateState of the specification; stochastic-convert of XLA's
evaluator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import U8, U16, U32, U64, PrimitiveType
from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import UnsupportedError
from xlapy.base.rounding import round_to
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.interpreter.core import RULES, Array, Context, Value
from xlapy.interpreter.kernels.conversion import bitcast_array, dtype_of
from xlapy.interpreter.kernels.random_bits import philox, philox_block_count, three_fry
from xlapy.opcodes.random import (
    RandomAlgorithm,
    RandomDistribution,
    RngAttributes,
    RngBitGeneratorAttributes,
    RngGetAndUpdateStateAttributes,
)

# rng


@RULES.rule(opcodes.RNG)
def rng(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Draws numbers from the run's own generator: XLA specifies their distribution, not their values.

    Each number uses one word of Philox (a normal one uses two), of 64 bits for 64-bit elements and else of 32 bits. The
    upper half of the run's counter is the key, and its lower half advances by the number of blocks drawn.

    Floats are computed in float64 and rounded once. UNIFORM is the half-open interval [values[0], values[1]), for
    integers and PRED too: [false, true) contains only false. An empty interval gives its lower limit.
    """
    (first, second), shape = values, instruction.shape
    bits = 64 if shape.element_type.bits == 64 else 32
    if instruction.attributes_as(RngAttributes).distribution is RandomDistribution.NORMAL:
        one, other = _words(context, (2, *shape.dimensions), bits)
        return round_to(_wide(first) + _wide(second) * _normal(one, other), dtype_of(shape.element_type))
    words = _words(context, shape.dimensions, bits)
    uniform = _uniform if shape.element_type.is_floating else _uniform_integers
    return np.asarray(uniform(first, second, words))


def _words(context: Context, dimensions: Sequence[int], bits: int) -> Array:
    """Returns random words, uint64 or uint32, and advances the counter of the run."""
    blocks = philox_block_count(math.prod(dimensions), bits)
    counter, key = context.random_state().advance(blocks)
    _, words = philox(np.array([key, counter]), dimensions, bits)
    return words


def _unit(words: Array) -> Array:
    """Converts words to numbers in [0, 1): 32-bit words are divided by 2^32, the upper 53 of 64 bits by 2^53."""
    if words.dtype == np.uint64:
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return words.astype(np.float64) * 2.0**-32


def _normal(one: Array, other: Array) -> Array:
    """Converts pairs of words to normally distributed numbers, by the Box-Muller transform."""
    return np.sqrt(-2 * np.log(1 - _unit(one))) * np.cos(2 * math.pi * _unit(other))


def _wide(number: Array) -> Array:
    return number.astype(np.float64)


def _uniform(low: Array, high: Array, words: Array) -> Array:
    """Maps words to [low, high); a number that would round to `high` becomes the next smaller number."""
    lower, upper, unit = _wide(low), _wide(high), _unit(words)
    numbers = round_to(np.maximum(lower * (1 - unit) + upper * unit, lower), low.dtype)
    if not lower < upper:
        return np.full(unit.shape, low, low.dtype)
    return np.where(_wide(numbers) < upper, numbers, np.nextafter(high, low))


def _uniform_integers(low: Array, high: Array, words: Array) -> Array:
    """Maps words to [low, high): `low` plus the upper half of the product of the word and the interval's size."""
    first, size = int(low), max(0, int(high) - int(low))
    if words.dtype == np.uint64:
        offsets = _upper_half(words, np.asarray(size, np.uint64))
    else:
        offsets = words.astype(np.uint64) * np.uint64(size) >> np.uint64(32)
    return (np.uint64(first % 2**64) + offsets).astype(np.int64 if first < 0 else np.uint64).astype(low.dtype)


def _upper_half(words: Array, factor: Array) -> Array:
    """Returns the upper 64 of the 128 bits of products of uint64 numbers."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    low, high, factor_low, factor_high = words & mask, words >> half, factor & mask, factor >> half
    middle = high * factor_low + (low * factor_low >> half)
    return high * factor_high + (middle >> half) + (low * factor_high + (middle & mask) >> half)


@RULES.rule(opcodes.RNG_GET_AND_UPDATE_STATE)
def rng_get_and_update_state(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the run's counter, lower half first, and advances it by `delta`; `rng` uses the same counter."""
    return context.random_state().advance(instruction.attributes_as(RngGetAndUpdateStateAttributes).delta)


# rng-bit-generator

_STORAGE = {8: U8, 16: U16, 32: U32, 64: U64}


@RULES.rule(opcodes.RNG_BIT_GENERATOR)
def rng_bit_generator(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the next state and random bits, which depend on the state alone and equal those of XLA:CPU.

    DEFAULT is Philox. Other elements than unsigned integers are random bits, bitcast to the element type.
    """
    _check_bits(instruction)
    shape, (state,) = instruction.shape, values
    bits_shape = _bits_shape(instruction)
    element_type, algorithm = bits_shape.element_type, instruction.attributes_as(RngBitGeneratorAttributes).algorithm
    generate = three_fry if algorithm is RandomAlgorithm.THREE_FRY else philox
    next_state, drawn = generate(state, bits_shape.dimensions, element_type.bits)
    bits = _elements(drawn, element_type)
    return (next_state, bits) if shape.is_tuple else bits


def _bits_shape(instruction: Instruction) -> Shape:
    shape = instruction.shape
    return shape.tuple_shapes[1] if shape.is_tuple else shape


def _check_bits(instruction: Instruction) -> None:
    bits_shape = _bits_shape(instruction)
    element_type = bits_shape.element_type
    where = describe_instruction(instruction)
    if element_type.is_complex or not (element_type.is_floating or element_type.is_integral):
        raise UnsupportedError(
            shared.ELEMENT_TYPE,
            f"{where} returns integers or floating-point numbers, declared {bits_shape.to_text(layout=False)}",
        )
    algorithm, given = instruction.attributes_as(RngBitGeneratorAttributes).algorithm, instruction.operands[0].shape
    words = (2,) if algorithm is RandomAlgorithm.THREE_FRY else (2, 3)
    if given.element_type is not U64 or given.rank != 1 or given.dimensions[0] not in words:
        allowed = " or ".join(f"u64[{count}]" for count in words)
        raise UnsupportedError(
            codes.RANDOM_STATE,
            f"{where} with {algorithm.value} takes a state of {allowed}, given {given.to_text(layout=False)}",
        )


def _elements(words: Array, element_type: PrimitiveType) -> Array:
    """Converts the lowest bits of each word to an element."""
    if element_type.is_integral:
        return words.astype(dtype_of(element_type))
    if element_type.bits < 8:
        return (words.astype(np.uint8) & np.uint8((1 << element_type.bits) - 1)).view(dtype_of(element_type))
    return bitcast_array(words.astype(dtype_of(_STORAGE[element_type.bits])), element_type)


# stochastic-convert


@RULES.rule(opcodes.STOCHASTIC_CONVERT)
def stochastic_convert(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Converts floats to signed integers; rounds away from zero with a probability equal to the fractional part.

    It rounds away from zero where the random number, of `n` bits, is less than the fraction times 2^n. NaN gives 0, and
    numbers beyond the range saturate.
    """
    _check_rounded(instruction)
    target = instruction.shape.element_type
    number, random = values[0].astype(np.float64), values[1]
    whole = np.floor(np.abs(number))
    fraction = np.where(np.isfinite(number), np.abs(number) - whole, 0.0)
    bits = PrimitiveType.from_dtype(random.dtype).bits
    up = random.astype(np.uint64) < (fraction * 2.0**bits).astype(np.uint64)
    return _saturated(number, whole, up, dtype_of(target))


def _check_rounded(instruction: Instruction) -> None:
    target = instruction.shape.element_type
    if not (target.is_integral and target.is_signed):
        raise UnsupportedError(
            shared.ELEMENT_TYPE,
            f"{describe_instruction(instruction)} converts to signed "
            f"integers, declared {instruction.shape.to_text(layout=False)}",
        )


def _saturated(number: Array, whole: Array, up: Array, dtype: np.dtype[Any]) -> Array:
    """Returns `whole + up` with the sign of `number`, or the limit of the type if `number` reaches it."""
    limits: Any = ml_dtypes.iinfo(dtype)
    low, high = np.int64(limits.min), np.int64(limits.max)
    below, above = number <= float(low), number >= float(high)
    size = np.where(below | above | np.isnan(number), 0.0, whole).astype(np.int64) + up
    signed = np.where(number < 0, -size, size)
    return np.where(above, high, np.where(below, low, signed)).astype(dtype)


# checks

_CHECKS = {opcodes.RNG_BIT_GENERATOR: _check_bits, opcodes.STOCHASTIC_CONVERT: _check_rounded}


def check_random_instruction(instruction: Instruction) -> None:
    """Raises `UnsupportedError` for an instruction that passes XLA's verifier but is undefined.

    A compiler calls this before the program runs.
    """
    check = _CHECKS.get(instruction.op)
    if check is not None:
        check(instruction)
