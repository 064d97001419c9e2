"""Counter-based random bits: Threefry-2x32 and Philox-4x32, with the same bits as XLA.

Responsible for both generators, and for the order in which their blocks of 32-bit words fill an array. Does not depend
on instructions.
Source: Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3 (SC 2011), with 20 and 10 rounds.

A generator maps a counter to a block of 32-bit words by a bijection that the key selects. The counters `n`, `n + 1`,
... give consecutive blocks, so that an array of any size is computed at once. Elements of less than 32 bits use the
lowest bits of one word each; elements of 64 bits use two words, lower half first.

States may have leading dimensions, which the results then have too: one generator per index.

Example: Philox fills u32[6] with the blocks of two counters, of four words each; the last two words are dropped, and
the counter advances by 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy.interpreter.core import Array

_WORD = np.uint64(32)
_MASK = np.uint64(0xFFFFFFFF)

Words = Sequence[Array]
"""uint32 arrays of one shape: the words of many blocks."""

# Threefry

_ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
_PARITY = 0x1BD11BDA


def three_fry(state: Array, dimensions: Sequence[int], bits: int) -> tuple[Array, Array]:
    """Returns the next state, uint64[..., 2] (key, counter), and an array `[..., *dimensions]` of random words.

    The words are uint64 if `bits`, the width of an element, is 64, else uint32, whose lowest bits are used.
    """
    leading = state.shape[:-1]
    if bits == 64:
        words = _three_fry_blocks(state, dimensions)
        random, count = _join(words[0], words[1]), math.prod(dimensions)
    else:
        split, halves = _halves(dimensions)
        words = _three_fry_blocks(state, halves)
        padded = list(halves)
        padded[split] *= 2
        pairs = np.stack(words, axis=len(leading) + split + 1).reshape(*leading, *padded)
        wanted: Any = (..., *map(slice, dimensions)) if dimensions else (..., 0)
        random = pairs[wanted]
        count = math.prod(halves)
    return np.stack([state[..., 0], state[..., 1] + np.uint64(count)], axis=-1), np.asarray(random)


def _halves(dimensions: Sequence[int]) -> tuple[int, list[int]]:
    """Returns the dimension along which the two words of a block are neighbors, and the sizes of the array of blocks.

    It is the first dimension of even size, or else the first of the largest, where the last word of the last blocks is
    then dropped.
    """
    sizes = list(dimensions) or [1]
    even = [d for d, size in enumerate(sizes) if size % 2 == 0]
    split = even[0] if even else sizes.index(max(sizes))
    sizes[split] = (sizes[split] + 1) // 2
    return split, sizes


def _three_fry_blocks(state: Array, dimensions: Sequence[int]) -> Words:
    """Returns both words of one block per element; the element's row-major position is added to the counter."""
    positions = np.arange(math.prod(dimensions), dtype=np.uint64).reshape(dimensions)
    column = (*state.shape[:-1], *[1] * len(dimensions))
    key, counter = state[..., 0].reshape(column), state[..., 1].reshape(column)
    low, high = _split(key)
    keys = (low, high, low ^ high ^ np.uint32(_PARITY))
    first, second = _split(counter + positions)
    first, second = first + keys[0], second + keys[1]
    for group in range(5):
        for distance in _ROTATIONS[group % 2]:
            first = first + second
            second = first ^ _rotate(second, distance)
        first = first + keys[(group + 1) % 3]
        second = second + keys[(group + 2) % 3] + np.uint32(group + 1)
    return first, second


def _rotate(word: Array, distance: int) -> Array:
    return (word << np.uint32(distance)) | (word >> np.uint32(32 - distance))


# Philox

_MULTIPLIERS = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
_KEY_INCREMENTS = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))
_ROUNDS = 10


def philox_block_count(count: int, bits: int) -> int:
    """Returns the number of blocks of four words for `count` elements, by which the counter advances."""
    return -(-count * (2 if bits == 64 else 1) // 4)


def philox(state: Array, dimensions: Sequence[int], bits: int) -> tuple[Array, Array]:
    """Returns the next state and an array of random words, as `three_fry` does.

    The state is uint64[..., 3] (key, lower and upper half of the counter) or uint64[..., 2], where the key is also the
    upper half and does not change.
    """
    leading, size = state.shape[:-1], state.shape[-1]
    key, low, high = state[..., 0], state[..., 1], state[..., 2 if size == 3 else 0]
    count = math.prod(dimensions)
    words_of_element, blocks = 2 if bits == 64 else 1, philox_block_count(count, bits)
    rows = _philox_blocks(key[..., np.newaxis], low[..., np.newaxis], high[..., np.newaxis], blocks)
    words = np.stack(rows, axis=-1).reshape(*leading, 4 * blocks)
    words = words[..., : count * words_of_element]
    random = words if bits != 64 else _join(words[..., 0::2], words[..., 1::2])
    next_low = low + np.uint64(blocks)
    next_high = high + (next_low < low).astype(np.uint64)
    return np.stack([key, next_low, next_high][:size], axis=-1), random.reshape((*leading, *dimensions))


def _philox_blocks(key: Array, low: Array, high: Array, blocks: int) -> Words:
    """Returns the four words `[..., blocks]` of each block, for keys and counters `[..., 1]`."""
    lows = low + np.arange(blocks, dtype=np.uint64)
    highs = high + (lows < low).astype(np.uint64)
    words = [*_split(lows), *_split(highs)]
    keys = list(_split(key))
    for _ in range(_ROUNDS):
        first_low, first_high = _split(words[0] * _MULTIPLIERS[0])
        second_low, second_high = _split(words[2] * _MULTIPLIERS[1])
        words = [second_high ^ words[1] ^ keys[0], second_low, first_high ^ words[3] ^ keys[1], first_low]
        keys = [k + increment for k, increment in zip(keys, _KEY_INCREMENTS, strict=True)]
    return words


# 64-bit numbers as pairs of 32-bit words


def _split(numbers: Array) -> tuple[Array, Array]:
    """Returns the lower and the upper half of uint64 numbers, as uint32 words."""
    return (numbers & _MASK).astype(np.uint32), (numbers >> _WORD).astype(np.uint32)


def _join(low: Array, high: Array) -> Array:
    return low.astype(np.uint64) | (high.astype(np.uint64) << _WORD)
