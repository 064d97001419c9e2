"""Meaning of the operations that make or use random bits.

Must not know: how a generator makes its bits (`random_bits`), where a run's numbers begin (`random_state`).
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
from xlapy.base.errors import UnsupportedError
from xlapy.base.rounding import round_to
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
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
    """Numbers of the run's own generator: XLA says how they are distributed, not which ones come.

    Each is made of a word of Philox, of 64 bits for elements of 64 and else of 32, a normal one of two words. The
    counter of the run says which: its upper half is the key, and its lower half moves on by the blocks drawn.

    Floats are computed in float64 and rounded once. UNIFORM is the half-open interval [values[0], values[1]), for
    integers and PRED too: [false, true) holds only false. An empty interval gives its lower limit.
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
    """Random words, uint64 or uint32, and the counter of the run moves on."""
    blocks = philox_block_count(math.prod(dimensions), bits)
    counter, key = context.random_state().advance(blocks)
    _, words = philox(np.array([key, counter]), dimensions, bits)
    return words


def _unit(words: Array) -> Array:
    """Numbers of [0, 1): words of 32 bits divided by 2^32, the upper 53 of 64 bits by 2^53."""
    if words.dtype == np.uint64:
        return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return words.astype(np.float64) * 2.0**-32


def _normal(one: Array, other: Array) -> Array:
    """The transform of Box and Muller: a random distance in a random direction, seen from one side."""
    return np.sqrt(-2 * np.log(1 - _unit(one))) * np.cos(2 * math.pi * _unit(other))


def _wide(number: Array) -> Array:
    return number.astype(np.float64)


def _uniform(low: Array, high: Array, words: Array) -> Array:
    """Numbers of [0, 1) mapped to [low, high); one that would be rounded to `high` becomes its neighbour."""
    lower, upper, unit = _wide(low), _wide(high), _unit(words)
    numbers = round_to(np.maximum(lower * (1 - unit) + upper * unit, lower), low.dtype)
    if not lower < upper:
        return np.full(unit.shape, low, low.dtype)
    return np.where(_wide(numbers) < upper, numbers, np.nextafter(high, low))


def _uniform_integers(low: Array, high: Array, words: Array) -> Array:
    """`low` plus the word times the size of the interval, of which the upper half, that above the word, is taken."""
    first, size = int(low), max(0, int(high) - int(low))
    if words.dtype == np.uint64:
        offsets = _upper_half(words, np.asarray(size, np.uint64))
    else:
        offsets = words.astype(np.uint64) * np.uint64(size) >> np.uint64(32)
    return (np.uint64(first % 2**64) + offsets).astype(np.int64 if first < 0 else np.uint64).astype(low.dtype)


def _upper_half(words: Array, factor: Array) -> Array:
    """The upper 64 of the 128 bits of products of uint64 numbers."""
    half, mask = np.uint64(32), np.uint64(0xFFFFFFFF)
    low, high, factor_low, factor_high = words & mask, words >> half, factor & mask, factor >> half
    middle = high * factor_low + (low * factor_low >> half)
    return high * factor_high + (middle >> half) + (low * factor_high + (middle & mask) >> half)


@RULES.rule(opcodes.RNG_GET_AND_UPDATE_STATE)
def rng_get_and_update_state(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The run's counter, lower half first, before it moves on by `delta`: one counter for all that draws."""
    return context.random_state().advance(instruction.attributes_as(RngGetAndUpdateStateAttributes).delta)


# rng-bit-generator

_STORAGE = {8: U8, 16: U16, 32: U32, 64: U64}


@RULES.rule(opcodes.RNG_BIT_GENERATOR)
def rng_bit_generator(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The next state and random bits, a function of the state alone: bit for bit those of XLA:CPU.

    DEFAULT is Philox. Elements that are not unsigned integers are such bits read as their type.
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
    where = f"{instruction.name} (rng-bit-generator)"
    if element_type.is_complex or not (element_type.is_floating or element_type.is_integral):
        raise UnsupportedError(
            f"{where} makes integers or floating-point numbers, declared {bits_shape.to_text(layout=False)}"
        )
    algorithm, given = instruction.attributes_as(RngBitGeneratorAttributes).algorithm, instruction.operands[0].shape
    words = (2,) if algorithm is RandomAlgorithm.THREE_FRY else (2, 3)
    if given.element_type is not U64 or given.rank != 1 or given.dimensions[0] not in words:
        allowed = " or ".join(f"u64[{count}]" for count in words)
        raise UnsupportedError(
            f"{where} with {algorithm.value} takes a state of {allowed}, given {given.to_text(layout=False)}"
        )


def _elements(words: Array, element_type: PrimitiveType) -> Array:
    """The lowest bits of each word, read as an element."""
    if element_type.is_integral:
        return words.astype(dtype_of(element_type))
    if element_type.bits < 8:
        return (words.astype(np.uint8) & np.uint8((1 << element_type.bits) - 1)).view(dtype_of(element_type))
    return bitcast_array(words.astype(dtype_of(_STORAGE[element_type.bits])), element_type)


# stochastic-convert


@RULES.rule(opcodes.STOCHASTIC_CONVERT)
def stochastic_convert(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Floats to signed integers, rounded away from zero with the probability of the fraction that is cut off.

    That is done where the random number, of `n` bits, is less than the fraction times 2^n. NaN gives 0, numbers beyond
    the range saturate.
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
            f"{instruction.name} (stochastic-convert) converts to signed "
            f"integers, declared {instruction.shape.to_text(layout=False)}"
        )


def _saturated(number: Array, whole: Array, up: Array, dtype: np.dtype[Any]) -> Array:
    """`whole + up` with the sign of `number`, or the limit of the type that `number` reaches."""
    limits: Any = ml_dtypes.iinfo(dtype)
    low, high = np.int64(limits.min), np.int64(limits.max)
    below, above = number <= float(low), number >= float(high)
    size = np.where(below | above | np.isnan(number), 0.0, whole).astype(np.int64) + up
    signed = np.where(number < 0, -size, size)
    return np.where(above, high, np.where(below, low, signed)).astype(dtype)


# forms

_CHECKS = {opcodes.RNG_BIT_GENERATOR: _check_bits, opcodes.STOCHASTIC_CONVERT: _check_rounded}


def check_random_instruction(instruction: Instruction) -> None:
    """`UnsupportedError` for what XLA's verifier lets pass and has no meaning: a compiler asks before anything runs."""
    check = _CHECKS.get(instruction.op)
    if check is not None:
        check(instruction)
