"""Batched random numbers: a generator with an explicit state accepts a batch of states.

Ops that advance the state of the run are evaluated for one batch element after the other.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.batching.core import BATCHING_RULES, apply_ordinary_rule

BATCHING_RULES.rule(opcodes.RNG_BIT_GENERATOR)(apply_ordinary_rule)
BATCHING_RULES.refuse(
    "each batch element draws its own numbers, in order", opcodes.RNG, opcodes.RNG_GET_AND_UPDATE_STATE
)
