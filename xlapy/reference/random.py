"""Definitions of the operations that generate random bits.

The generators are those of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011):
Threefry-2x32 with 20 rounds and Philox-4x32 with 10. Each maps a counter and a key to a block of 32-bit words; counters
n, n + 1, ... give consecutive blocks. An element of 64 bits takes two words, lower half first, and others one, of which
they use the lowest bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from math import prod
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import U64, Array, PrimitiveType
from xlapy.base.error_codes.execution import interpreting as codes
from xlapy.base.error_codes.operations import operands as shared
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Shape
from xlapy.base.value import Value
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.opcodes.random import (
    RandomAlgorithm,
    RandomDistribution,
    RngAttributes,
    RngBitGeneratorAttributes,
    RngGetAndUpdateStateAttributes,
)
from xlapy.reference.core import Device, defines, defines_on_device
from xlapy.reference.elements import Index, array_of_shape, element, element_of_bits, indices, number, type_of

WORD = 1 << 32
LONG = 1 << 64


# -- bits that depend on a state


@defines(opcodes.RNG_BIT_GENERATOR)
def rng_bit_generator(instruction: Instruction, state: Array) -> Value:
    """(next state, bits) of a generator; the default one is Philox."""
    shape = instruction.shape.tuple_shapes[1] if instruction.shape.is_tuple else instruction.shape
    algorithm = instruction.attributes_as(RngBitGeneratorAttributes).algorithm
    generate = three_fry if algorithm is RandomAlgorithm.THREE_FRY else philox
    _check(instruction, shape, state)
    next_state, words = generate([number(word) for word in state], shape)
    bits = array_of_shape(shape, lambda index: element_of_bits(words[index], shape.element_type))
    return (np.array(next_state, np.uint64), bits) if instruction.shape.is_tuple else bits


def _check(instruction: Instruction, shape: Shape, state: Array) -> None:
    algorithm = instruction.attributes_as(RngBitGeneratorAttributes).algorithm
    sizes = (2,) if algorithm is RandomAlgorithm.THREE_FRY else (2, 3)
    if type_of(state) is not U64 or state.ndim != 1 or state.size not in sizes:
        raise UnsupportedError(
            codes.RANDOM_STATE, f"{describe_instruction(instruction)} takes a state of u64, of {sizes} elements"
        )
    if not (shape.element_type.is_floating or shape.element_type.is_integral):
        raise UnsupportedError(
            shared.ELEMENT_TYPE,
            f"{describe_instruction(instruction)} returns integers or floating-point numbers, declared {shape}",
        )


def three_fry(state: list[int], shape: Shape) -> tuple[list[int], dict[Index, int]]:
    """Returns the next state (key, counter) and the words of each element.

    Elements of less than 64 bits are paired along one dimension, the first of even size or else the largest: a block
    has the words of two neighbors there. A last word without an element is dropped.
    """
    key, counter = state
    sizes, words = list(shape.dimensions), dict[Index, int]()
    if shape.element_type.bits == 64:
        for n, index in enumerate(indices(sizes)):
            low, high = three_fry_block(key, (counter + n) % LONG)
            words[index] = low + high * WORD
        return [key, (counter + len(words)) % LONG], words
    if not sizes:
        return [key, (counter + 1) % LONG], {(): three_fry_block(key, counter)[0]}
    paired = next((d for d, size in enumerate(sizes) if size % 2 == 0), sizes.index(max(sizes)))
    blocks = [(size + 1) // 2 if d == paired else size for d, size in enumerate(sizes)]
    for n, index in enumerate(indices(blocks)):
        for half, word in enumerate(three_fry_block(key, (counter + n) % LONG)):
            words[(*index[:paired], 2 * index[paired] + half, *index[paired + 1 :])] = word
    return [key, (counter + prod(blocks)) % LONG], words


def three_fry_block(key: int, counter: int) -> tuple[int, int]:
    """Returns the two words of a block: five groups of four rounds, each followed by the addition of a key."""
    keys = [key % WORD, key // WORD]
    keys.append(keys[0] ^ keys[1] ^ 0x1BD11BDA)
    x, y = (counter % WORD + keys[0]) % WORD, (counter // WORD + keys[1]) % WORD
    for group in range(5):
        for distance in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            x = (x + y) % WORD
            y = x ^ ((y << distance | y >> (32 - distance)) % WORD)
        x = (x + keys[(group + 1) % 3]) % WORD
        y = (y + keys[(group + 2) % 3] + group + 1) % WORD
    return x, y


def philox(state: list[int], shape: Shape) -> tuple[list[int], dict[Index, int]]:
    """Returns the next state and the words of each element; elements take the words of the blocks in order.

    The state is (key, lower half, upper half of the counter); of two numbers, the first is both the key and the upper
    half, and does not change.
    """
    key, counter = state[0], state[1] + LONG * state[2 if len(state) == 3 else 0]
    per_element = 2 if shape.element_type.bits == 64 else 1
    blocks = -(-prod(shape.dimensions) * per_element // 4)
    stream = iter([word for n in range(blocks) for word in philox_block(key, (counter + n) % (LONG * LONG))])
    words = {index: sum(next(stream) * WORD**k for k in range(per_element)) for index in indices(shape.dimensions)}
    counter = (counter + blocks) % (LONG * LONG)
    return [key, counter % LONG, counter // LONG][: len(state)], words


def philox_block(key: int, counter: int) -> list[int]:
    """Returns the four words of a block: ten rounds, between which the key grows."""
    words = [counter // WORD**k % WORD for k in range(4)]
    keys = [key % WORD, key // WORD]
    for _ in range(10):
        first, second = words[0] * 0xD2511F53, words[2] * 0xCD9E8D57
        words = [
            second // WORD ^ words[1] ^ keys[0],
            second % WORD,
            first // WORD ^ words[3] ^ keys[1],
            first % WORD,
        ]
        keys = [(keys[0] + 0x9E3779B9) % WORD, (keys[1] + 0xBB67AE85) % WORD]
    return words


# -- numbers that depend on the run


@defines_on_device(opcodes.RNG_GET_AND_UPDATE_STATE)
def rng_get_and_update_state(device: Device, instruction: Instruction) -> Array:
    """The counter of the run, lower half first, which then grows by `delta`."""
    before = device.random_counter
    device.random_counter = (before + instruction.attributes_as(RngGetAndUpdateStateAttributes).delta) % LONG**2
    return np.array([before % LONG, before // LONG], np.uint64)


@defines_on_device(opcodes.RNG)
def rng(device: Device, instruction: Instruction, a: Array, b: Array) -> Array:
    """Numbers from the half-open interval [a, b), or normally distributed ones of mean a and standard deviation b.

    XLA specifies the distribution, not the numbers. Here each comes from one word of Philox (a normal one from two, by
    the Box-Muller transform), with the upper half of the run's counter as key. An empty interval gives its lower limit.
    """
    t, low, high = type_of(a), number(a), number(b)
    draw_of = words_of_run(device, instruction)
    if instruction.attributes_as(RngAttributes).distribution is RandomDistribution.NORMAL:

        def normal(index: Index) -> Any:
            one, other = (unit(draw_of((part, *index)), t) for part in (0, 1))
            return element(low + high * (np.sqrt(-2 * np.log(1 - one)) * np.cos(2 * math.pi * other)), t)

        return array_of_shape(instruction.shape, normal)

    def uniform(index: Index) -> Any:
        if not t.is_floating:
            size = max(0, int(high) - int(low))
            return element(int(low) + (draw_of(index) * size >> (64 if t.bits == 64 else 32)), t)
        if not low < high:
            return a[()]
        share = unit(draw_of(index), t)
        drawn = element(np.maximum(low * (1 - share) + high * share, low), t)
        return drawn if number(drawn) < high else np.nextafter(b, a)[()]

    return array_of_shape(instruction.shape, uniform)


def words_of_run(device: Device, instruction: Instruction) -> Callable[[Index], int]:
    """Returns the function that gives the word of each index, of 64 bits for elements of 64 bits; moves the counter on.

    Normal numbers have two words; the first component of the index tells which.
    """
    is_normal = instruction.attributes_as(RngAttributes).distribution is RandomDistribution.NORMAL
    sizes = (2, *instruction.shape.dimensions) if is_normal else instruction.shape.dimensions
    words = Shape.array(U64 if instruction.shape.element_type.bits == 64 else PrimitiveType.U32, sizes)
    key, low = device.random_counter // LONG, device.random_counter % LONG
    _, drawn = philox([key, low], words)
    blocks = -(-prod(sizes) * (2 if words.element_type is U64 else 1) // 4)
    device.random_counter = (device.random_counter + blocks) % LONG**2
    return lambda index: drawn[index]


def unit(word: int, t: PrimitiveType) -> np.float64:
    """Returns a word as a number in [0, 1): the upper 53 of 64 bits, or all of 32."""
    return np.float64((word >> 11) * 2.0**-53 if t.bits == 64 else word * 2.0**-32)
