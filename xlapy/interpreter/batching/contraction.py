"""Batched contractions: one contraction with an additional batch or free dimension.

Does not depend on the arithmetic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import BF16
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.batching.core import (
    BATCHING_RULES,
    batch_size,
    broadcast_operands_to_batch,
    broadcast_to_batch,
    evaluate_batched,
    is_batched,
    shift_dimensions,
)
from xlapy.interpreter.core import Array, Context, Value
from xlapy.opcodes.contraction import ContractionAttributes, RaggedDotAttributes, RaggedMode, group_prefix, ragged_mode


@BATCHING_RULES.rule(opcodes.DOT)
def dot(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Makes the batch a batch dimension if both operands are batched, else the first free dimension of the batched one.

    Example: f32[5] times f32[5,3], of which only the first is batched, is one product of [count,5] and [5,3].
    """
    attrs: ContractionAttributes = instruction.attributes_as(ContractionAttributes)
    lhs, rhs = instruction.operands
    count = batch_size(instruction, values)
    left, right = (is_batched(value, operand.shape) for value, operand in zip(values, (lhs, rhs), strict=True))
    if left and right:
        return evaluate_batched(context, instruction, values, count, **_batched(attrs))
    batch = len(attrs.lhs_batch_dims)
    if left:
        return evaluate_batched(context, instruction, values, count, batch, **_shifted_side(attrs, "lhs"))
    at = batch + len(attrs.lhs_free_dims(lhs.shape.rank))
    return evaluate_batched(context, instruction, values, count, at, **_shifted_side(attrs, "rhs"))


def _shifted_side(attrs: ContractionAttributes, side: str, batch: tuple[int, ...] = ()) -> dict[str, tuple[int, ...]]:
    """Returns the dimension numbers of a batched operand; its dimension 0 is a batch dimension if `batch` is (0,)."""
    return {
        f"{side}_batch_dims": (*batch, *shift_dimensions(getattr(attrs, f"{side}_batch_dims"))),
        f"{side}_contracting_dims": shift_dimensions(getattr(attrs, f"{side}_contracting_dims")),
    }


def _batched(attrs: ContractionAttributes) -> dict[str, Any]:
    return _shifted_side(attrs, "lhs", (0,)) | _shifted_side(attrs, "rhs", (0,))


@BATCHING_RULES.rule(opcodes.SCALED_DOT)
def scaled_dot(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Batches all operands; a scale that means "none" is passed as a scalar, which the rule ignores."""
    count = batch_size(instruction, values)
    arguments = broadcast_operands_to_batch(instruction, values, count)
    for side in (0, 1):
        operand, scale = instruction.operands[side].shape, instruction.operands[side + 2].shape
        if scale.size == 1 and operand.size != 1 and scale.element_type is operand.element_type is BF16:
            arguments[side + 2] = np.ones((), scale.dtype)
    return evaluate_batched(
        context, instruction, arguments, count, **_batched(instruction.attributes_as(ContractionAttributes))
    )


@BATCHING_RULES.rule(opcodes.RAGGED_DOT)
def ragged_dot(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Batches all operands; groups of a contracting dimension precede the batch dimensions in the result."""
    attrs: RaggedDotAttributes = instruction.attributes_as(RaggedDotAttributes)
    lhs, rhs, group_sizes = (operand.shape for operand in instruction.operands)
    count = batch_size(instruction, values)
    groups: Array = values[2]
    if is_batched(groups, group_sizes):
        prefix = [lhs.dimensions[d] for d in group_prefix(attrs, lhs.rank)] if group_sizes.rank == 1 else []
        unlisted = groups.reshape(count, *[1] * len(prefix), *group_sizes.dimensions)
        groups = np.broadcast_to(unlisted, (count, *prefix, *group_sizes.dimensions))
    elif group_sizes.rank > 1:
        groups = broadcast_to_batch(groups, group_sizes, count)
    return evaluate_batched(
        context,
        instruction,
        [broadcast_to_batch(values[0], lhs, count), broadcast_to_batch(values[1], rhs, count), groups],
        count,
        1 if ragged_mode(attrs) is RaggedMode.CONTRACTING else 0,
        lhs_ragged_dims=shift_dimensions(attrs.lhs_ragged_dims),
        rhs_group_dims=shift_dimensions(attrs.rhs_group_dims),
        **_batched(attrs),
    )
