"""The random numbers of one run on one device, which `rng` and `rng-get-and-update-state` draw.

Owns: where they begin and how they go on. Must not know: instructions, shapes, distributions.

They follow from the seed and the device alone and begin anew with every run: a run can be repeated, devices differ.

Example: seed 0 on the first device begins at 0x7012395, seed 5 there at 0x7012395 + 5 * 2^64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlapy.base.element_types import Array

FIRST_COUNTER = 0x7012395
"""Where XLA's counter begins: any number but 0 would do."""

_COUNTER_BITS = 128
_REPLICA_STEP = 0x9E3779B97F4A7C15
_PARTITION_STEP = 0xD1B54A32D192ED03
"""Odd, and far from small multiples of each other: devices do not meet the numbers of others under a near seed."""


@dataclass(slots=True)
class RandomState:
    """A counter of 128 bits: the upper half tells runs and devices apart, the lower half counts what is drawn."""

    counter: int = FIRST_COUNTER

    @staticmethod
    def of(seed: int, replica_id: int, partition_id: int) -> RandomState:
        """The state at the beginning of a run; `seed` is any integer, taken modulo 2^64."""
        stream = (seed + replica_id * _REPLICA_STEP + partition_id * _PARTITION_STEP) % 2**64
        return RandomState(FIRST_COUNTER + (stream << 64))

    def words(self) -> Array:
        """The counter as u64[2], lower half first."""
        return np.array([self.counter % 2**64, self.counter >> 64], np.uint64)

    def take(self, words: Array) -> None:
        """Goes on from the counter of `words`."""
        low, high = map(int, words)
        self.counter = low + (high << 64)

    def advance(self, delta: int) -> Array:
        """The words of the counter as it was; it moves on by `delta`, modulo 2^128."""
        before = self.words()
        self.counter = (self.counter + delta) % 2**_COUNTER_BITS
        return before
