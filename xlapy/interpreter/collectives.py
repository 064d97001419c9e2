"""Collective operations: which device this is; the exchanges are not evaluated yet and say what they wait for.

Owns: replica-id and partition-id, and those refusals. Must not know: text, builders.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import ops
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import RULES, Context, Value

RULES.refuse(
    "needs devices that exchange values",
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


@RULES.rule(ops.REPLICA_ID)
def _replica_id(context: Context, _: Instruction, __: Sequence[Value]) -> Value:
    return np.array(context.replica_id, np.uint32)


@RULES.rule(ops.PARTITION_ID)
def _partition_id(context: Context, _: Instruction, __: Sequence[Value]) -> Value:
    return np.array(context.partition_id, np.uint32)
