"""The state of the random numbers of one run on one device, which `rng` and `rng-get-and-update-state` advance.

Responsible for the initial state and for advancing it. Does not depend on instructions, shapes or distributions.

The initial state depends on the seed and the device alone, so that a run can be repeated and devices draw different
numbers.

Example: on the first device, seed 0 starts at 0x7012395 and seed 5 at 0x7012395 + 5 * 2^64.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from xlapy.base.element_types import Array

FIRST_COUNTER = 0x7012395
"""XLA's initial counter; any number except 0 would work."""

_COUNTER_BITS = 128
_REPLICA_STEP = 0x9E3779B97F4A7C15
_PARTITION_STEP = 0xD1B54A32D192ED03
"""Odd, and far from small multiples of each other, so that devices with nearby seeds do not draw the same numbers."""


@dataclass(slots=True)
class RandomState:
    """A counter of 128 bits: the upper half identifies run and device, the lower half counts the numbers drawn."""

    counter: int = FIRST_COUNTER

    @staticmethod
    def initial(seed: int, replica_id: int, partition_id: int) -> RandomState:
        """Returns the state at the beginning of a run; `seed` is any integer, taken modulo 2^64."""
        stream = (seed + replica_id * _REPLICA_STEP + partition_id * _PARTITION_STEP) % 2**64
        return RandomState(FIRST_COUNTER + (stream << 64))

    def words(self) -> Array:
        """Returns the counter as u64[2], lower half first."""
        return np.array([self.counter % 2**64, self.counter >> 64], np.uint64)

    def set_words(self, words: Array) -> None:
        """Sets the counter to `words`, u64[2] with the lower half first."""
        low, high = map(int, words)
        self.counter = low + (high << 64)

    def advance(self, delta: int) -> Array:
        """Advances the counter by `delta`, modulo 2^128, and returns its words before that."""
        before = self.words()
        self.counter = (self.counter + delta) % 2**_COUNTER_BITS
        return before
