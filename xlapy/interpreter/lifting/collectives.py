"""Collectives in a scalar computation: each instance takes part on its own; the ids of the device are all instances'.

Must not know: what is exchanged.
"""

from __future__ import annotations

from xlapy import ops
from xlapy.interpreter.lifting.core import LIFTED, ordinary

LIFTED.rule(ops.PARTITION_ID, ops.REPLICA_ID)(ordinary)
LIFTED.refuse(
    "each instance meets the other devices, in its turn",
    ops.ALL_GATHER,
    ops.ALL_GATHER_DONE,
    ops.ALL_GATHER_START,
    ops.ALL_REDUCE,
    ops.ALL_REDUCE_DONE,
    ops.ALL_REDUCE_START,
    ops.ALL_TO_ALL,
    ops.COLLECTIVE_BROADCAST,
    ops.COLLECTIVE_PERMUTE,
    ops.COLLECTIVE_PERMUTE_DONE,
    ops.COLLECTIVE_PERMUTE_START,
    ops.COLLECTIVE_REDUCE,
    ops.RAGGED_ALL_TO_ALL,
    ops.REDUCE_SCATTER,
)
