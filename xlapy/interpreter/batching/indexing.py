"""Batched gather and scatter, which use the ops' own batching dimensions if operand and indices are both batched.

Does not depend on how index vectors are applied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.batching.core import (
    BATCHING_RULES,
    batch_size,
    broadcast_to_batch,
    evaluate_batched,
    is_batched,
    shift_dimensions,
)
from xlapy.interpreter.core import Context, Value
from xlapy.opcodes.indexing import GatherAttributes, ScatterAttributes


@BATCHING_RULES.rule(opcodes.GATHER)
def gather(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Makes the batch a batching dimension if operand and indices are batched.

    If only the operand is batched, each slice covers the batch; if only the indices are, there are more index vectors.
    """
    attrs: GatherAttributes = instruction.attributes_as(GatherAttributes)
    operand, indices = (is_batched(v, o.shape) for v, o in zip(values, instruction.operands, strict=True))
    count = batch_size(instruction, values)
    both = (0,) if operand and indices else ()
    whole = (0,) if operand and not indices else ()
    changes: dict[str, Any] = {"offset_dims": (*whole, *shift_dimensions(attrs.offset_dims))}
    if operand:
        changes["slice_sizes"] = (1 if indices else count, *attrs.slice_sizes)
        changes["start_index_map"] = shift_dimensions(attrs.start_index_map)
        changes["collapsed_slice_dims"] = shift_dimensions(attrs.collapsed_slice_dims)
        changes["operand_batching_dims"] = (*both, *shift_dimensions(attrs.operand_batching_dims))
    if indices:
        changes["index_vector_dim"] = attrs.index_vector_dim + 1
        changes["start_indices_batching_dims"] = (*both, *shift_dimensions(attrs.start_indices_batching_dims))
    return evaluate_batched(context, instruction, values, count, **changes)


@BATCHING_RULES.rule(opcodes.SCATTER)
def scatter(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Makes the batch a batching dimension; if the indices are not batched, each window covers the batch instead."""
    attrs: ScatterAttributes = instruction.attributes_as(ScatterAttributes)
    count, operands = batch_size(instruction, values), len(values) // 2
    shapes = instruction.operand_shapes
    arguments = [broadcast_to_batch(value, shape, count) for value, shape in zip(values, shapes, strict=True)]
    changes: dict[str, Any] = {
        "inserted_window_dims": shift_dimensions(attrs.inserted_window_dims),
        "scatter_dims_to_operand_dims": shift_dimensions(attrs.scatter_dims_to_operand_dims),
        "input_batching_dims": shift_dimensions(attrs.input_batching_dims),
        "update_window_dims": shift_dimensions(attrs.update_window_dims),
    }
    if is_batched(values[operands], shapes[operands]):
        changes["index_vector_dim"] = attrs.index_vector_dim + 1
        changes["input_batching_dims"] = (0, *changes["input_batching_dims"])
        changes["scatter_indices_batching_dims"] = (0, *shift_dimensions(attrs.scatter_indices_batching_dims))
    else:
        arguments[operands] = values[operands]
        changes["update_window_dims"] = (0, *changes["update_window_dims"])
    return evaluate_batched(context, instruction, arguments, count, **changes)
