"""Applies a computation of scalars (reducer, comparator, map or scatter body) to whole arrays at once.

Owns: evaluation in which every scalar of the computation stands for an array of independent instances. Rules of
elementwise ops serve unchanged, since they broadcast; what decides per instance (conditional, while) is evaluated on
the instances concerned only, so that a loop ends when its last instance is done.
Must not know: which op applies the computation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from xlapy import ops
from xlapy.base.errors import ExecutionError
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import Array, Context, Value, evaluate_computation
from xlapy.interpreter.elementwise_conversion import bitcast_array
from xlapy.ops.registry import OpDef

BatchedRule = Callable[[Context, Instruction, Sequence[Value]], Value]


def apply_scalars(context: Context, computation: Computation, arguments: Sequence[Array]) -> Value:
    """The computation's result for each instance.

    Arguments are arrays that broadcast together, one a scalar parameter; the result is an array of their common shape
    (a tuple of such arrays if the root is a tuple), of the root's element type.
    """
    shape = np.broadcast_shapes(*(argument.shape for argument in arguments))
    applies = context.batchable.get(computation)
    if applies is None:
        applies = context.batchable[computation] = _is_batchable(computation)
    if not applies:
        return _apply_one_by_one(context, computation, arguments, shape)
    with np.errstate(all="ignore"):
        return _spread(_evaluate(context, computation, arguments), shape)


def _evaluate(context: Context, computation: Computation, arguments: Sequence[Value]) -> Value:
    if context.cancelled.is_set():
        raise ExecutionError(f"execution cancelled in {computation.name}")
    plan = context.plan(computation)
    values: list[Value] = [None] * plan.slots
    for number, slot in plan.parameters:
        values[slot] = arguments[number]
    for step in plan.steps:
        rule = _RULES.get(step.instruction.op, step.rule)
        values[step.result] = rule(context, step.instruction, [values[i] for i in step.operands])
        for dead in step.dead:
            values[dead] = None
    return values[plan.root]


def monoid(computation: Computation) -> OpDef | None:
    """The op if the computation is just `op(parameter 0, parameter 1)` in either order, op commutative; else None."""
    root = computation.root_instruction
    if not root.op.commutative or len(computation.parameters) != 2 or len(root.operands) != 2:
        return None
    return root.op if set(root.operands) == set(computation.parameters) else None


def _is_batchable(computation: Computation) -> bool:
    """Whether each instruction, in called computations too, makes scalars and has a rule that serves many instances."""
    reached = {computation: None}
    pending = [computation]
    while pending:
        for instruction in pending.pop():
            if any(leaf.rank for _, leaf in instruction.shape.leaves()):
                return False
            if not (instruction.op.elementwise or instruction.op in _SHARED or instruction.op in _RULES):
                return False
            pending += [called for called in instruction.computations if called not in reached]
            reached |= dict.fromkeys(instruction.computations)
    return True


def _apply_one_by_one(
    context: Context, computation: Computation, arguments: Sequence[Array], shape: tuple[int, ...]
) -> Value:
    """The rare computation with arrays, random numbers or effects inside: each instance runs on its own, in order."""
    columns = [np.broadcast_to(argument, shape).reshape(-1) for argument in arguments]
    rows = [
        evaluate_computation(context, computation, [column[i : i + 1].reshape(()) for column in columns])
        for i in range(math.prod(shape))
    ]
    return _stack(rows, computation.root_instruction.shape, shape)


def _stack(rows: list[Value], declared: Shape, shape: tuple[int, ...]) -> Value:
    if declared.is_tuple:
        return tuple(
            _stack([row[i] for row in rows], element, shape) for i, element in enumerate(declared.tuple_shapes)
        )
    return np.array(rows, dtype=declared.dtype).reshape(shape)


# -- values of many instances: arrays, or tuples of them


def _spread(value: Value, shape: tuple[int, ...]) -> Value:
    if isinstance(value, tuple):
        return tuple(_spread(element, shape) for element in value)
    return np.broadcast_to(value, shape) if isinstance(value, np.ndarray) else value


def _shape_of(values: Sequence[Value]) -> tuple[int, ...]:
    shapes = [_shape_of(v) if isinstance(v, tuple) else getattr(v, "shape", ()) for v in values]
    return np.broadcast_shapes(*shapes)


def _take(value: Value, chosen: Array) -> Value:
    """The instances chosen by a mask, as vectors."""
    if isinstance(value, tuple):
        return tuple(_take(element, chosen) for element in value)
    return value[chosen] if isinstance(value, np.ndarray) else value


def _put(target: Value, chosen: Array, value: Value) -> Value:
    """Writes the chosen instances; a target of None is made first."""
    if isinstance(value, tuple):
        targets = target if target is not None else (None,) * len(value)
        return tuple(_put(t, chosen, v) for t, v in zip(targets, value, strict=True))
    if not isinstance(value, np.ndarray):
        return value
    if target is None:
        target = np.zeros(chosen.shape, value.dtype)
    target[chosen] = value
    return target


# -- ops whose rule on single values would not do


def _bitcast(_: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return bitcast_array(values[0], instruction.shape.element_type)


def _identity(_: Context, __: Instruction, values: Sequence[Value]) -> Value:
    return values[0]


def _call(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return _evaluate(context, instruction.computations[0], values)


def _conditional(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Each branch runs on the instances that take it; an index out of range takes the last."""
    shape = _shape_of(values)
    branches = instruction.computations
    last = len(branches) - 1
    selector = values[0]
    if selector.dtype == np.bool_:
        index = np.where(selector, 0, 1)
    else:
        index = np.where((selector < 0) | (selector > last), last, selector)
    index = np.broadcast_to(index, shape)
    result: Value = None
    for number, branch in enumerate(branches):
        chosen = index == number
        if chosen.any() or (number == last and result is None):
            argument = _take(_spread(values[1 + number], shape), chosen)
            result = _put(result, chosen, _spread(_evaluate(context, branch, [argument]), (int(chosen.sum()),)))
    return result


def _while(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Runs the body on the instances whose condition still holds until there are none."""
    condition, body = instruction.computations
    shape = _shape_of(values)
    everything = np.ones(shape, np.bool_)
    state = _put(None, everything, _take(_spread(values[0], shape), everything))
    while True:
        active = np.broadcast_to(_evaluate(context, condition, [state]), shape)
        if not active.any():
            return state
        changed = _evaluate(context, body, [_take(state, active)])
        state = _put(state, active, _spread(changed, (int(active.sum()),)))


_RULES: dict[OpDef, BatchedRule] = {
    ops.BITCAST: _bitcast,
    ops.BITCAST_CONVERT: _bitcast,
    ops.BROADCAST: _identity,
    ops.CALL: _call,
    ops.CONDITIONAL: _conditional,
    ops.COPY: _identity,
    ops.FUSION: _call,
    ops.MAP: _call,
    ops.RESHAPE: _identity,
    ops.TRANSPOSE: _identity,
    ops.WHILE: _while,
}

_SHARED: frozenset[OpDef] = frozenset({
    ops.ADD_DEPENDENCY, ops.AFTER_ALL, ops.CONSTANT, ops.DOMAIN, ops.GET_TUPLE_ELEMENT, ops.OPT_BARRIER, ops.PARAMETER,
    ops.PARTITION_ID, ops.REPLICA_ID, ops.TUPLE,
})  # fmt: skip
"""Ops beside the elementwise ones whose ordinary rule serves many instances as well as one."""
