"""Batched reductions, windows, maps and scans.

Does not depend on how elements are combined: the called computations are scalar and apply to any number of elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.batching.core import (
    BATCHING_RULES,
    align_scalar,
    batch_size,
    broadcast_to_batch,
    evaluate_batch,
    evaluate_batched,
    is_batched,
    shift_dimensions,
)
from xlapy.interpreter.core import Array, Context, Value
from xlapy.opcodes.attributes.dimensions import Window, WindowDimension
from xlapy.opcodes.reduction import ScanAttributes, WindowAttributes
from xlapy.opcodes.requirements import elements_of


def _with_inits(instruction: Instruction, values: Sequence[Array], arrays: int, rank: int) -> list[Array]:
    """Batches the first `arrays` operands and reshapes the others, initial values, to broadcast with them.

    `rank` is the rank of the arrays that the initial values are combined with, without the batch dimension.
    """
    shapes, count = instruction.operand_shapes, batch_size(instruction, values)
    operands = [
        broadcast_to_batch(value, shape, count) for value, shape in zip(values[:arrays], shapes[:arrays], strict=True)
    ]
    return operands + [align_scalar(value, shapes[-1], rank) for value in values[arrays:]]


@BATCHING_RULES.rule(opcodes.REDUCE)
def reduce(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    rank = elements_of(instruction.shape)[0].rank
    arguments = _with_inits(instruction, values, len(values) // 2, rank)
    return evaluate_batched(
        context, instruction, arguments, len(arguments[0]), dimensions=shift_dimensions(instruction.dimensions)
    )


@BATCHING_RULES.rule(opcodes.REDUCE_WINDOW)
def reduce_window(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Adds a window of size 1 over the batch dimension; with rank 0, the result is the operand."""
    rank = instruction.operands[0].shape.rank
    arguments = _with_inits(instruction, values, len(values) // 2, rank)
    if not rank:
        operands = tuple(arguments[: len(values) // 2])
        return operands if instruction.shape.is_tuple else operands[0]
    return evaluate_batched(
        context,
        instruction,
        arguments,
        len(arguments[0]),
        window=_batched_window(instruction.attributes_as(WindowAttributes).window),
    )


@BATCHING_RULES.rule(opcodes.SELECT_AND_SCATTER)
def select_and_scatter(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    arguments = _with_inits(instruction, values, 2, instruction.shape.rank)
    return evaluate_batched(
        context,
        instruction,
        arguments,
        len(arguments[0]),
        window=_batched_window(instruction.attributes_as(WindowAttributes).window),
    )


def _batched_window(window: Window) -> Window:
    return Window((WindowDimension(1), *window.dimensions))


@BATCHING_RULES.rule(opcodes.MAP)
def map_(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Aligns scalar operands with array operands: one scalar per batch element."""
    rank = elements_of(instruction.shape)[0].rank
    pairs = zip(values, instruction.operands, strict=True)
    arguments = [align_scalar(value, operand.shape, rank) for value, operand in pairs]
    return evaluate_batched(context, instruction, arguments, batch_size(instruction, values))


@BATCHING_RULES.rule(opcodes.SCAN)
def scan(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Evaluates the body once per slice, on the whole batch."""
    count, axis = batch_size(instruction, values), instruction.dimensions[0]
    attributes = instruction.attributes_as(ScanAttributes)
    sources = len(values) - attributes.num_carries
    inputs = list(zip(values[:sources], instruction.operands[:sources], strict=True))
    results = elements_of(instruction.shape)[: len(elements_of(instruction.shape)) - attributes.num_carries]
    outputs = [np.empty((count, *s.dimensions), s.dtype) for s in results]
    state = list(values[sources:])
    size = [*(operand.shape for _, operand in inputs), *results][0].dimensions[axis]
    for i in reversed(range(size)) if attributes.is_reverse else range(size):
        slices = [value[_slice_index(axis + is_batched(value, operand.shape), i)] for value, operand in inputs]
        returned = evaluate_batch(context, instruction.to_apply, [*slices, *state])
        parts = returned if isinstance(returned, tuple) else (returned,)
        for output, part in zip(outputs, parts, strict=False):
            output[_slice_index(axis + 1, i)] = part
        state = list(parts[len(outputs) :])
    packed = (*outputs, *state)
    return packed if instruction.shape.is_tuple else packed[0]


def _slice_index(axis: int, index: int) -> Any:
    return (*[slice(None)] * axis, index, ...)
