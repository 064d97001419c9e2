"""Expansions of random bits and stochastic rounding into integer arithmetic on arrays of words.

Source: RngBitGenerator of the specification; Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3
(SC 2011), with 20 and 10 rounds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import PRED, S32, U8, U16, U32, U64, PrimitiveType
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.kernels.random_bits import philox_block_count
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.movement import DimensionAttributes
from xlapy.opcodes.random import RandomAlgorithm, RngBitGeneratorAttributes
from xlapy.opcodes.registry import OpDef
from xlapy.passes.expand.blocks import compare, concatenate, iota, slice_dimension
from xlapy.passes.expand.core import EXPANSIONS, wide_type
from xlapy.passes.expand.random_numbers import random_numbers
from xlapy.passes.rewrite import Writer

EXPANSIONS.refuse("the state that it reads and moves on belongs to the device", opcodes.RNG_GET_AND_UPDATE_STATE)


@EXPANSIONS.rule(opcodes.RNG)
def rng(write: Writer, instruction: Instruction) -> Instruction:
    """Random bits and arithmetic on them (`random_numbers.py`); dynamic dimensions get their bounds as sizes."""
    result = random_numbers(write, instruction)
    for dimension, bound in enumerate(instruction.shape.dimensions):
        if instruction.shape.dynamic_dimensions[dimension]:
            attributes = DimensionAttributes.make(dimension=dimension)
            result = write.add(opcodes.SET_DIMENSION_SIZE, result, write.scalar(bound, S32), attributes=attributes)
    return result


_UNSIGNED = {8: U8, 16: U16, 32: U32, 64: U64}
_WORD = 32
_MASK = 2**_WORD - 1


class _Words:
    """Writes arithmetic on arrays of unsigned words; an int operand is a constant of the other operand's shape."""

    def __init__(self, write: Writer) -> None:
        self.write = write

    def apply(self, op: OpDef, left: Instruction, right: Instruction | int) -> Instruction:
        if isinstance(right, int):
            right = self.write.splat(right, left.shape)
        return self.write.add(op, left, right)

    def add(self, left: Instruction, right: Instruction | int) -> Instruction:
        return self.apply(opcodes.ADD, left, right)

    def xor(self, left: Instruction, right: Instruction | int) -> Instruction:
        return self.apply(opcodes.XOR, left, right)

    def split(self, numbers: Instruction) -> tuple[Instruction, Instruction]:
        """Returns the lower and upper halves of u64 numbers as u32 words."""
        upper = self.apply(opcodes.SHIFT_RIGHT_LOGICAL, numbers, _WORD)
        lower = self.apply(opcodes.AND, numbers, _MASK)
        return self.write.convert(lower, U32), self.write.convert(upper, U32)

    def join(self, low: Instruction, high: Instruction) -> Instruction:
        upper = self.apply(opcodes.SHIFT_LEFT, self.write.convert(high, U64), _WORD)
        return self.apply(opcodes.OR, self.write.convert(low, U64), upper)

    def rotate(self, word: Instruction, distance: int) -> Instruction:
        """Rotates u32 words to the left."""
        left = self.apply(opcodes.SHIFT_LEFT, word, distance)
        return self.apply(opcodes.OR, left, self.apply(opcodes.SHIFT_RIGHT_LOGICAL, word, _WORD - distance))

    def repeat(self, word: Instruction, like: Instruction) -> Instruction:
        """Broadcasts a scalar word to the dimensions of an array."""
        return self.write.broadcast(word, like.shape.with_element_type(word.shape.element_type))

    def entry(self, state: Instruction, index: int) -> Instruction:
        """Returns one word of the state as a scalar."""
        return self.write.reshape(slice_dimension(self.write, state, 0, index, index + 1), Shape.scalar(U64))

    def counters(self, first: Instruction, count: int) -> Instruction:
        """Returns u64[count], consecutive numbers from `first` on, modulo 2^64."""
        places = iota(self.write, Shape.array(U64, (count,)), 0)
        return self.add(self.repeat(first, places), places)

    def interleaved(self, words: Sequence[Instruction]) -> Instruction:
        """Interleaves vectors: the first elements of all, then the second ones, and so on."""
        count = words[0].shape.dimensions[0]
        column = words[0].shape.with_dimensions((count, 1))
        table = concatenate(self.write, [self.write.reshape(word, column) for word in words], 1)
        return self.write.reshape(table, column.with_dimensions((count * len(words),)))

    def state(self, entries: Sequence[Instruction]) -> Instruction:
        single = Shape.array(U64, (1,))
        return concatenate(self.write, [self.write.reshape(entry, single) for entry in entries], 0)


@EXPANSIONS.rule(opcodes.RNG_BIT_GENERATOR)
def rng_bit_generator(write: Writer, instruction: Instruction) -> Instruction:
    """The rounds of Threefry, or of Philox, also for the default algorithm; bit-equal to the interpreter's."""
    shape, state = instruction.shape, instruction.operands[0]
    bits = shape.tuple_shapes[1] if shape.is_tuple else shape
    _check_bits(bits, state.shape)
    generate = (
        _three_fry
        if instruction.attributes_as(RngBitGeneratorAttributes).algorithm is RandomAlgorithm.THREE_FRY
        else _philox
    )
    next_state, words = generate(_Words(write), state, bits.dimensions, bits.element_type.bits)
    random = _elements(write, words, bits)
    return write.add(opcodes.TUPLE, next_state, random) if shape.is_tuple else random


def _check_bits(bits: Shape, state: Shape) -> None:
    t = bits.element_type
    if t.is_complex or t is PRED or (t.is_floating and t.bits not in (4, *_UNSIGNED)):
        raise UnsupportedError(
            codes.EXPANSION,
            f"random bits are integers or floating-point numbers of whole bytes, given {bits.to_text(layout=False)}",
        )
    if bits.is_dynamic:
        raise UnsupportedError(
            codes.EXPANSION, f"random bits fill static dimensions, given {bits.to_text(layout=False)}"
        )
    if state.element_type is not U64 or state.dimensions not in ((2,), (3,)):
        raise UnsupportedError(
            codes.EXPANSION, f"random bits come from a state of u64[2] or u64[3], given {state.to_text(layout=False)}"
        )


def _elements(write: Writer, words: Instruction, bits: Shape) -> Instruction:
    """Reinterprets the lowest bits of each word as an element."""
    t = bits.element_type
    if t.is_integral:
        return write.convert(words, t)
    narrow = write.convert(words, PrimitiveType.U4 if t.bits == 4 else _UNSIGNED[t.bits])
    return write.add(opcodes.BITCAST_CONVERT, narrow, shape=bits)


# -- Threefry

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def _three_fry(
    words: _Words, state: Instruction, dimensions: Sequence[int], bits: int
) -> tuple[Instruction, Instruction]:
    """Returns the next state and an array of words, u64 for elements of 64 bits, else u32.

    The two words of a block form one element of 64 bits. For narrower elements they are adjacent in the first dimension
    of even size or, if there is none, in the first of the largest dimensions, where the last word is dropped.
    """
    key, counter = words.entry(state, 0), words.entry(state, 1)
    if bits == 64:
        count = math.prod(dimensions)
        low, high = _three_fry_blocks(words, key, counter, count)
        result = words.write.reshape(words.join(low, high), Shape.array(U64, dimensions))
        return words.state([key, words.add(counter, count)]), result
    sizes = list(dimensions) or [1]
    even = [d for d, size in enumerate(sizes) if size % 2 == 0]
    split = even[0] if even else sizes.index(max(sizes))
    halves = [(size + 1) // 2 if d == split else size for d, size in enumerate(sizes)]
    count = math.prod(halves)
    parted = Shape.array(U32, (*halves[: split + 1], 1, *halves[split + 1 :]))
    blocks = _three_fry_blocks(words, key, counter, count)
    pairs = concatenate(words.write, [words.write.reshape(word, parted) for word in blocks], split + 1)
    doubled = [2 * size if d == split else size for d, size in enumerate(halves)]
    whole = words.write.reshape(pairs, Shape.array(U32, doubled))
    result = words.write.reshape(
        slice_dimension(words.write, whole, split, 0, sizes[split]), Shape.array(U32, dimensions)
    )
    return words.state([key, words.add(counter, count)]), result


def _three_fry_blocks(
    words: _Words, key: Instruction, counter: Instruction, count: int
) -> tuple[Instruction, Instruction]:
    """Returns both words, u32[count] each, of the blocks of `count` consecutive counters."""
    first, second = words.split(words.counters(counter, count))
    low, high = words.split(key)
    keys = [words.repeat(word, first) for word in (low, high, words.xor(words.xor(low, high), _PARITY))]
    first, second = words.add(first, keys[0]), words.add(second, keys[1])
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            first = words.add(first, second)
            second = words.xor(first, words.rotate(second, distance))
        first = words.add(first, keys[(group + 1) % 3])
        second = words.add(words.add(second, keys[(group + 2) % 3]), group + 1)
    return first, second


# -- Philox

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10


def _philox(words: _Words, state: Instruction, dimensions: Sequence[int], bits: int) -> tuple[Instruction, Instruction]:
    """Returns the next state and an array of words, u64 for elements of 64 bits, else u32.

    The state is (key, lower half of the counter, upper half); without the upper half, the key takes its place.
    """
    write, size = words.write, state.shape.dimensions[0]
    key, low = words.entry(state, 0), words.entry(state, 1)
    high = words.entry(state, 2) if size == 3 else key
    count = math.prod(dimensions)
    blocks = philox_block_count(count, bits)
    rows = _philox_blocks(words, key, low, high, blocks)
    if bits == 64:
        rows = [words.join(rows[0], rows[1]), words.join(rows[2], rows[3])]
    random = slice_dimension(write, words.interleaved(rows), 0, 0, count)
    next_low = words.add(low, blocks)
    entries = [key, next_low, words.add(high, _carry(words, next_low, low))]
    return words.state(entries[:size]), write.reshape(random, random.shape.with_dimensions(dimensions))


def _carry(words: _Words, total: Instruction, part: Instruction) -> Instruction:
    """Returns 1 where a sum of u64 numbers overflowed, else 0. part: one of the summands."""
    return words.write.convert(compare(words.write, total, part, ComparisonDirection.LT), U64)


def _philox_blocks(
    words: _Words, key: Instruction, low: Instruction, high: Instruction, count: int
) -> list[Instruction]:
    """Returns the four words, u32[count] each, of the blocks of `count` consecutive counters."""
    lows = words.counters(low, count)
    highs = words.add(words.repeat(high, lows), _carry(words, lows, words.repeat(low, lows)))
    block = [*words.split(lows), *words.split(highs)]
    keys = list(words.split(key))
    for _ in range(_ROUNDS):
        products = [
            words.split(words.apply(opcodes.MULTIPLY, words.write.convert(block[place], U64), multiplier))
            for place, multiplier in zip((0, 2), _MULTIPLIERS, strict=True)
        ]
        (first_low, first_high), (second_low, second_high) = products
        spread = [words.repeat(key, first_low) for key in keys]
        block = [
            words.xor(words.xor(second_high, block[1]), spread[0]),
            second_low,
            words.xor(words.xor(first_high, block[3]), spread[1]),
            first_low,
        ]
        keys = [words.add(key, step) for key, step in zip(keys, _KEY_STEPS, strict=True)]
    return block


# -- stochastic rounding


@EXPANSIONS.rule(opcodes.STOCHASTIC_CONVERT)
def stochastic_convert(write: Writer, instruction: Instruction) -> Instruction:
    """sign(x) (floor(|x|) + 1 if random < fraction(|x|) 2^bits else 0), saturated; 0 for NaN."""
    operand, random = instruction.operands
    target = instruction.shape.element_type
    if not (target.is_integral and target.is_signed):
        raise UnsupportedError(
            codes.EXPANSION,
            f"stochastic rounding is to signed integers, not to {instruction.shape.to_text(layout=False)}",
        )
    number = write.convert(operand, wide_type(operand.shape.element_type))
    size = write.add(opcodes.ABS, number)
    whole = write.add(opcodes.FLOOR, size)
    scale = write.splat(2.0**random.shape.element_type.bits, number.shape)
    threshold = write.add(opcodes.MULTIPLY, write.add(opcodes.SUBTRACT, size, whole), scale)
    zero = write.splat(0, number.shape)
    finite = write.add(opcodes.IS_FINITE, number)
    threshold = write.convert(write.add(opcodes.SELECT, finite, threshold, zero), random.shape.element_type)
    up = compare(write, random, threshold, ComparisonDirection.LT)
    return write.convert(_saturated(write, number, whole, up, target), target)


def _saturated(
    write: Writer, number: Instruction, whole: Instruction, up: Instruction, target: PrimitiveType
) -> Instruction:
    """Returns `whole + up` with the sign of `number`, saturated; in s32 for narrower targets.

    A sum that overflows is that of the least number, which negation turns it into.
    """
    t = target if target.bits >= S32.bits else S32
    low, high = -(2 ** (target.bits - 1)), 2 ** (target.bits - 1) - 1
    zero = write.splat(0, number.shape)
    below = compare(write, number, write.splat(float(low), number.shape), ComparisonDirection.LE)
    above = compare(write, number, write.splat(float(high), number.shape), ComparisonDirection.GE)
    inside = write.add(opcodes.AND, write.add(opcodes.NOT, below), write.add(opcodes.NOT, above))
    kept = write.convert(
        write.add(opcodes.SELECT, write.add(opcodes.AND, inside, _is_number(write, number)), whole, zero), t
    )
    size = write.add(opcodes.ADD, kept, write.convert(up, t))
    is_negative = compare(write, number, zero, ComparisonDirection.LT)
    signed = write.add(opcodes.SELECT, is_negative, write.add(opcodes.NEGATE, size), size)
    raised = write.add(opcodes.SELECT, below, write.splat(low, signed.shape), signed)
    return write.add(opcodes.SELECT, above, write.splat(high, signed.shape), raised)


def _is_number(write: Writer, number: Instruction) -> Instruction:
    return compare(write, number, number, ComparisonDirection.EQ)
