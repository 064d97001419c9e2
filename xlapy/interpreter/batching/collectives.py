"""Collectives in a scalar computation: each instance takes part on its own; the ids of the device are all instances'.

Must not know: what is exchanged.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.batching.core import BATCHING_RULES, apply_ordinary_rule

BATCHING_RULES.rule(opcodes.PARTITION_ID, opcodes.REPLICA_ID)(apply_ordinary_rule)
BATCHING_RULES.refuse(
    "each instance meets the other devices, in its turn",
    opcodes.ALL_GATHER,
    opcodes.ALL_GATHER_DONE,
    opcodes.ALL_GATHER_START,
    opcodes.ALL_REDUCE,
    opcodes.ALL_REDUCE_DONE,
    opcodes.ALL_REDUCE_START,
    opcodes.ALL_TO_ALL,
    opcodes.COLLECTIVE_BROADCAST,
    opcodes.COLLECTIVE_PERMUTE,
    opcodes.COLLECTIVE_PERMUTE_DONE,
    opcodes.COLLECTIVE_PERMUTE_START,
    opcodes.COLLECTIVE_REDUCE,
    opcodes.RAGGED_ALL_TO_ALL,
    opcodes.REDUCE_SCATTER,
)
