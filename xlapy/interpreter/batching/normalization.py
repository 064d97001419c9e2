"""Batched batch normalization: the batch is merged into the features, which are independent of each other.

Does not depend on the statistics.
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
    merge_batch,
    split_batch,
)
from xlapy.interpreter.core import Array, Context, Value
from xlapy.opcodes.normalization import BatchNormAttributes


@BATCHING_RULES.rule(opcodes.BATCH_NORM_TRAINING, opcodes.BATCH_NORM_INFERENCE, opcodes.BATCH_NORM_GRAD)
def batch_norm(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Merges the batch into the feature dimension of arrays and into the only dimension of per-feature vectors."""
    rank, feature = instruction.operands[0].shape.rank, instruction.attributes_as(BatchNormAttributes).feature_index
    count = batch_size(instruction, values)

    def dimension(array_rank: int) -> int:
        return feature if array_rank == rank else 0

    def separated(array: Array) -> Array:
        return split_batch(array, dimension(array.ndim), count)

    arrays = broadcast_operands_to_batch(instruction, values, count)
    result = apply_ordinary_rule(
        context, instruction, [merge_batch(array, dimension(array.ndim - 1)) for array in arrays]
    )
    return tuple(map(separated, result)) if isinstance(result, tuple) else separated(result)
