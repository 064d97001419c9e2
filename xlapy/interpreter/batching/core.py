"""Evaluates a computation for a batch of independent argument sets at once, as `jax.vmap` does.

Responsible for the representation of batched values, for their evaluation, and for the table of batching rules. Does
not depend on which op applies the computation or on what any op means: batching rules pass a batched instruction to the
op's ordinary rule.

A value is *batched* if its array has one dimension more than its shape declares: dimension 0, with one batch element
per index. An array of the declared rank has the same value for all batch elements, as constants do. An instruction
without a batched operand is evaluated once, by its ordinary rule. Other instructions are evaluated by `BATCHING_RULES`,
whose rules have the same signature; most of them call the ordinary rule with an instruction of one dimension more.

Example: `f32[2,3] transpose(f32[3,2])` on a batch of 5 takes an array [5,3,2] and transposes it by {0,2,1} to [5,2,3].
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import RULES, Array, Context, InterpreterRule, Value
from xlapy.opcodes.registry import Rules

BATCHING_RULES: Rules[InterpreterRule] = Rules("interpreter on batches")
"""Rules for instructions with at least one batched operand. A computation that contains an op without such a rule (its
reason is in `refusals`) is evaluated for one batch element after the other."""


def evaluate_batch(context: Context, computation: Computation, arguments: Sequence[Value]) -> Value:
    """Returns the value of the root for arguments that are unbatched or have the same positive batch size.

    The result is batched if it depends on a batched argument. Raises `ExecutionError` if the run was canceled.
    """
    if context.canceled.is_set():
        raise ExecutionError(codes.CANCELED, f"execution canceled in {computation.name}")
    plan = context.plan(computation)
    values: list[Value] = [None] * plan.slots
    for number, slot in plan.parameters:
        values[slot] = arguments[number]
    for step in plan.steps:
        instruction, operands = step.instruction, [values[i] for i in step.operands]
        rule = BATCHING_RULES.find(instruction.op) if any_operand_batched(instruction, operands) else step.rule
        values[step.result] = rule(context, instruction, operands)
        for dead in step.dead:
            values[dead] = None
    return values[plan.root]


# -- batched values


def is_batched(value: Value, shape: Shape) -> bool:
    """Returns whether a value of the declared shape, or any element of a tuple, is batched."""
    if isinstance(value, tuple):
        return any(map(is_batched, value, shape.tuple_shapes))
    return getattr(value, "ndim", 0) > shape.rank


def any_operand_batched(instruction: Instruction, values: Sequence[Value]) -> bool:
    """Returns whether any of an instruction's operands is batched."""
    return any(is_batched(value, operand.shape) for value, operand in zip(values, instruction.operands, strict=True))


def batch_size(instruction: Instruction, values: Sequence[Value]) -> int:
    """Returns the batch size of the operands, of which at least one is batched."""
    operands = zip(values, instruction.operands, strict=True)
    return next(count for value, operand in operands for count in _batch_sizes(value, operand.shape))


def _batch_sizes(value: Value, shape: Shape) -> Iterable[int]:
    if isinstance(value, tuple):
        return [count for part in map(_batch_sizes, value, shape.tuple_shapes) for count in part]
    return [len(value)] if is_batched(value, shape) else []


def broadcast_to_batch(value: Array, shape: Shape, count: int) -> Array:
    """Returns a batched array: the given one if it is batched, else the same array for each batch element."""
    return value if is_batched(value, shape) else np.broadcast_to(value, (count, *shape.dimensions))


def broadcast_operands_to_batch(instruction: Instruction, values: Sequence[Array], count: int) -> list[Array]:
    """Returns all operands, which must be arrays, as batched arrays."""
    pairs = zip(values, instruction.operands, strict=True)
    return [broadcast_to_batch(value, operand.shape, count) for value, operand in pairs]


def align_scalar(value: Array, shape: Shape, rank: int) -> Array:
    """Reshapes a batched scalar so that it broadcasts with batched arrays of `rank`; returns other values unchanged."""
    if shape.rank >= rank or not is_batched(value, shape):
        return value
    return value.reshape(len(value), *[1] * (rank - shape.rank), *shape.dimensions)


def take_batch_elements(value: Value, shape: Shape, chosen: Array) -> Value:
    """Returns the batch elements that `chosen` selects, by a mask or by indices."""
    if isinstance(value, tuple):
        parts = zip(value, shape.tuple_shapes, strict=False)
        return tuple(take_batch_elements(part, part_shape, chosen) for part, part_shape in parts)
    return value[chosen] if is_batched(value, shape) else value


def put_batch_elements(target: Value, chosen: Array, value: Value, shape: Shape, count: int) -> Value:
    """Writes `value` to the chosen batch elements of `target` and returns it; a target of None starts as zeros."""
    if isinstance(value, tuple):
        targets = (None,) * len(value) if target is None else target
        parts = zip(targets, value, shape.tuple_shapes, strict=False)
        return tuple(put_batch_elements(into, chosen, part, part_shape, count) for into, part, part_shape in parts)
    if not shape.is_array or value is None:
        return value
    if target is None:
        target = np.zeros((count, *shape.dimensions), value.dtype)
    target[chosen] = value
    return target


def merge_batch(array: Array, dimension: int, groups: int = 1) -> Array:
    """Merges the batch dimension of `[count, *dimensions]` into a dimension, as the outer part of each of its groups.

    Example: batch elements a and b with a dimension [x, y] give [ax, ay, bx, by] in one group, [ax, bx, ay, by] in two.
    """
    moved = np.moveaxis(array, 0, dimension)
    (*before, count, size), after = moved.shape[: dimension + 2], moved.shape[dimension + 2 :]
    grouped = moved.reshape(*before, count, groups, size // groups, *after).swapaxes(dimension, dimension + 1)
    return grouped.reshape(*before, count * size, *after)


def split_batch(array: Array, dimension: int, count: int) -> Array:
    """Splits the batch off the outer part of a dimension and returns `[count, *dimensions]`: undoes `merge_batch`."""
    before, size, after = array.shape[:dimension], array.shape[dimension], array.shape[dimension + 1 :]
    return np.moveaxis(array.reshape(*before, count, size // count, *after), dimension, 0)


# -- batched instructions


def shift_dimensions(dimensions: Iterable[int]) -> tuple[int, ...]:
    """Returns dimension numbers for a batched array: each is one higher than in the unbatched array."""
    return tuple(dimension + 1 for dimension in dimensions)


def batched_shape(shape: Shape, count: int, at: int = 0) -> Shape:
    """Returns the shape with a batch dimension inserted at `at`, in every element of a tuple."""
    if shape.is_tuple:
        return Shape.tuple(batched_shape(element, count, at) for element in shape.tuple_shapes)
    sizes = shape.dimensions
    return Shape.array(shape.element_type, (*sizes[:at], count, *sizes[at:]))


def evaluate_batched(
    context: Context, instruction: Instruction, values: Sequence[Value], count: int, at: int = 0, **changes: Any
) -> Value:
    """Applies the ordinary rule to an instruction whose result has the batch as its dimension `at`.

    `changes` replace attributes. The operands stay: ordinary rules read only their element types.
    """
    batched = Instruction(
        instruction.op,
        batched_shape(instruction.shape, count, at),
        instruction.operands,
        instruction.attributes.replace(**changes),
        instruction.computations,
        instruction.name,
    )
    result = RULES.find(instruction.op)(context, batched, values)
    return np.moveaxis(result, at, 0) if at else result


def apply_ordinary_rule(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Applies the ordinary rule: for ops that only pass values on, or whose rule works on the last dimensions."""
    return RULES.find(instruction.op)(context, instruction, values)
