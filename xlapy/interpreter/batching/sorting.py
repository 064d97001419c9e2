"""Batched sorts: the batch adds rows.

Does not depend on how rows are sorted.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.batching.core import (
    BATCHING_RULES,
    apply_ordinary_rule,
    batch_size,
    broadcast_operands_to_batch,
    evaluate_batched,
)
from xlapy.interpreter.core import Context, Value
from xlapy.opcodes.sorting import SortAttributes

BATCHING_RULES.rule(opcodes.TOPK)(apply_ordinary_rule)


@BATCHING_RULES.rule(opcodes.SORT)
def sort(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    count = batch_size(instruction, values)
    operands = broadcast_operands_to_batch(instruction, values, count)
    return evaluate_batched(
        context, instruction, operands, count, dimension=instruction.attributes_as(SortAttributes).dimension + 1
    )
