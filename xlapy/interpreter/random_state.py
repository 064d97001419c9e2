"""The random numbers of one run on one device, which `rng` and `rng-get-and-update-state` draw.

Owns: where they begin and how they go on. Must not know: instructions, shapes, distributions.

They follow from the seed and the device alone and begin anew with every run: a run can be repeated, devices differ.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

FIRST_COUNTER = 0x7012395
"""Where XLA's counter begins: any number but 0 would do."""

_COUNTER_BITS = 128


@dataclass(slots=True)
class RandomState:
    """`generator` serves `rng`; `counter`, of 128 bits, is what `rng-get-and-update-state` hands out."""

    generator: np.random.Generator
    counter: int = FIRST_COUNTER

    @staticmethod
    def of(seed: int, replica_id: int, partition_id: int) -> RandomState:
        """The state at the beginning of a run; `seed` is any integer, taken modulo 2^64."""
        return RandomState(np.random.default_rng([seed % 2**64, replica_id, partition_id]))

    def advance(self, delta: int) -> int:
        """The counter as it was; it moves on by `delta`, modulo 2^128."""
        before = self.counter
        self.counter = (before + delta) % 2**_COUNTER_BITS
        return before
