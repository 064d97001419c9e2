"""Evaluates a computation for many independent instances at once, whatever arrays it makes inside.

Owns: how a value stands for many instances, the evaluation of such values, the table of rules for them. Must not know:
which op applies the computation, what any op means (the rules hand lifted instructions to the ordinary ones).

A value *carries* instances if its array has one dimension more than its shape declares: the first, an instance each.
An array of the declared rank is the same for all instances, as constants are. An instruction none of whose operands
carries anything is evaluated once, by its ordinary rule. For the others `LIFTED` has a rule of the same form: most of
them give the ordinary rule an instruction with one dimension more.

Example: 5 instances of `f32[2,3] transpose(f32[3,2])` are an array [5,3,2], transposed by {0,2,1} to [5,2,3].
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from xlapy.base.errors import ExecutionError
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import RULES, Array, Context, InterpreterRule, Value
from xlapy.opcodes.registry import Rules

LIFTED: Rules[InterpreterRule] = Rules("lifting")
"""Rules for operands of which at least one carries instances. An op that has none, but a reason in `refusals`, makes
the scalar computation that it stands in run instance by instance."""


def evaluate_instances(context: Context, computation: Computation, arguments: Sequence[Value]) -> Value:
    """The value of the root for arguments that carry instances, the same positive number of them, or none.

    The result carries instances if it depends on an argument that does. `ExecutionError` if the run was cancelled.
    """
    if context.cancelled.is_set():
        raise ExecutionError(f"execution cancelled in {computation.name}")
    plan = context.plan(computation)
    values: list[Value] = [None] * plan.slots
    for number, slot in plan.parameters:
        values[slot] = arguments[number]
    for step in plan.steps:
        instruction, operands = step.instruction, [values[i] for i in step.operands]
        rule = LIFTED.find(instruction.op) if any_carries(instruction, operands) else step.rule
        values[step.result] = rule(context, instruction, operands)
        for dead in step.dead:
            values[dead] = None
    return values[plan.root]


# -- values of many instances


def carries(value: Value, shape: Shape) -> bool:
    """Whether a value of the declared shape, or any part of a tuple, carries instances."""
    if isinstance(value, tuple):
        return any(map(carries, value, shape.tuple_shapes))
    return getattr(value, "ndim", 0) > shape.rank


def any_carries(instruction: Instruction, values: Sequence[Value]) -> bool:
    """Whether any of an instruction's operands carries instances."""
    return any(carries(value, operand.shape) for value, operand in zip(values, instruction.operands, strict=True))


def instance_count(instruction: Instruction, values: Sequence[Value]) -> int:
    """How many instances the operands carry, one of which does."""
    operands = zip(values, instruction.operands, strict=True)
    return next(count for value, operand in operands for count in _counts(value, operand.shape))


def _counts(value: Value, shape: Shape) -> Iterable[int]:
    if isinstance(value, tuple):
        return [count for part in map(_counts, value, shape.tuple_shapes) for count in part]
    return [len(value)] if carries(value, shape) else []


def spread(value: Array, shape: Shape, count: int) -> Array:
    """An array that carries instances, whether or not the given one does."""
    return value if carries(value, shape) else np.broadcast_to(value, (count, *shape.dimensions))


def spread_all(instruction: Instruction, values: Sequence[Array], count: int) -> list[Array]:
    """All operands, arrays, as arrays that carry instances."""
    pairs = zip(values, instruction.operands, strict=True)
    return [spread(value, operand.shape, count) for value, operand in pairs]


def aligned(value: Array, shape: Shape, rank: int) -> Array:
    """A scalar of each instance made to broadcast against arrays of the rank; anything else as it is."""
    if shape.rank >= rank or not carries(value, shape):
        return value
    return value.reshape(len(value), *[1] * (rank - shape.rank), *shape.dimensions)


def take(value: Value, shape: Shape, chosen: Array) -> Value:
    """The instances chosen by a mask or by their numbers."""
    if isinstance(value, tuple):
        parts = zip(value, shape.tuple_shapes, strict=False)
        return tuple(take(part, part_shape, chosen) for part, part_shape in parts)
    return value[chosen] if carries(value, shape) else value


def put(target: Value, chosen: Array, value: Value, shape: Shape, count: int) -> Value:
    """Writes the values of the chosen instances into those of all; a target of None is made first."""
    if isinstance(value, tuple):
        targets = (None,) * len(value) if target is None else target
        parts = zip(targets, value, shape.tuple_shapes, strict=False)
        return tuple(put(into, chosen, part, part_shape, count) for into, part, part_shape in parts)
    if not shape.is_array or value is None:
        return value
    if target is None:
        target = np.zeros((count, *shape.dimensions), value.dtype)
    target[chosen] = value
    return target


def merge(array: Array, dimension: int, groups: int = 1) -> Array:
    """`[count, *dimensions]` with the instances made part of a dimension: of each of its groups, the outer part.

    Example: instances a, b of a dimension [x, y] in one group give [ax, ay, bx, by], in two [ax, bx, ay, by].
    """
    moved = np.moveaxis(array, 0, dimension)
    (*before, count, size), after = moved.shape[: dimension + 2], moved.shape[dimension + 2 :]
    grouped = moved.reshape(*before, count, groups, size // groups, *after).swapaxes(dimension, dimension + 1)
    return grouped.reshape(*before, count * size, *after)


def split(array: Array, dimension: int, count: int) -> Array:
    """`[count, *dimensions]` of an array with the instances as the outer part of a dimension: undoes `merge`."""
    before, size, after = array.shape[:dimension], array.shape[dimension], array.shape[dimension + 1 :]
    return np.moveaxis(array.reshape(*before, count, size // count, *after), dimension, 0)


# -- instructions for many instances


def shifted(dimensions: Iterable[int]) -> tuple[int, ...]:
    """Dimension numbers of an array that carries instances."""
    return tuple(dimension + 1 for dimension in dimensions)


def lifted_shape(shape: Shape, count: int, at: int = 0) -> Shape:
    """The shape, of each element of a tuple, with a dimension for instances inserted."""
    if shape.is_tuple:
        return Shape.tuple(lifted_shape(element, count, at) for element in shape.tuple_shapes)
    sizes = shape.dimensions
    return Shape.array(shape.element_type, (*sizes[:at], count, *sizes[at:]))


def lift(
    context: Context, instruction: Instruction, values: Sequence[Value], count: int, at: int = 0, **changes: Any
) -> Value:
    """What the ordinary rule gives for an instruction whose result has the instances as its dimension `at`.

    `changes` are to its attributes. Its operands stay: ordinary rules read no more of them than their element types.
    """
    lifted = Instruction(
        instruction.op,
        lifted_shape(instruction.shape, count, at),
        instruction.operands,
        instruction.attributes.replace(**changes),
        instruction.computations,
        instruction.name,
    )
    result = RULES.find(instruction.op)(context, lifted, values)
    return np.moveaxis(result, at, 0) if at else result


def ordinary(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """The ordinary rule, for ops that only hand values on, or whose rule keeps to the last dimensions."""
    return RULES.find(instruction.op)(context, instruction, values)
