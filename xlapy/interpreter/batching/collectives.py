"""Collectives in a batch: each batch element takes part separately; replica and partition ids are equal for all."""

from __future__ import annotations

from xlapy import opcodes
from xlapy.interpreter.batching.core import BATCHING_RULES, apply_ordinary_rule

BATCHING_RULES.rule(opcodes.PARTITION_ID, opcodes.REPLICA_ID)(apply_ordinary_rule)
BATCHING_RULES.refuse(
    "each batch element takes part in the collective separately, in order",
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
