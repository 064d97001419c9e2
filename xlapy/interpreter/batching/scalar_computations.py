"""Applies a scalar computation (reducer, comparator, map or scatter body) to whole arrays at once.

Responsible for the choice of evaluation. If every value inside is a scalar and there is no control flow, arrays of any
shape take the place of the scalars, and the rules of elementwise ops broadcast them. Other computations are evaluated
on batches (`batching/core.py`), whose size is limited by the memory of the arrays that the computation creates. Does
not depend on which op applies the computation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError
from xlapy.base.literal import MAX_RANK
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.batching.core import BATCHING_RULES, evaluate_batch
from xlapy.interpreter.core import Array, Context, InterpreterRule, Value, evaluate_computation
from xlapy.interpreter.kernels.conversion import bitcast_array
from xlapy.opcodes.registry import OpDef

_MAX_BATCH_ELEMENTS = 1 << 22
"""Bounds the elements of the largest array that a computation creates for one batch (32 MiB of 8-byte elements)."""


def apply_scalar_computation(context: Context, computation: Computation, arguments: Sequence[Array]) -> Value:
    """Applies a scalar computation to each combination of elements of arrays that broadcast together.

    There is one argument per parameter. The result is an array of the common shape and the root's element type, or a
    tuple of such arrays if the root is a tuple.
    """
    shape = np.broadcast_shapes(*(argument.shape for argument in arguments))
    if computation not in context.max_batch_sizes:
        context.max_batch_sizes[computation] = _max_batch_size(computation)
    limit = context.max_batch_sizes[computation]
    with np.errstate(all="ignore"):
        if limit is None:
            return _broadcast(_evaluate_broadcasting(context, computation, arguments), shape)
        return _apply_in_batches(context, computation, arguments, shape, limit)


def apply_reducer(
    context: Context, computation: Computation, left: Sequence[Array], right: Sequence[Array]
) -> list[Array]:
    """Applies a reducer to N accumulators and N values and returns the N new accumulators, also for N = 1."""
    result = apply_scalar_computation(context, computation, [*left, *right])
    return list(result) if isinstance(result, tuple) else [result]


def _evaluate_broadcasting(context: Context, computation: Computation, arguments: Sequence[Value]) -> Value:
    """Evaluates a computation with arrays in place of scalars; the rules of its ops broadcast them."""
    if context.canceled.is_set():
        raise ExecutionError(codes.CANCELED, f"execution canceled in {computation.name}")
    plan = context.plan(computation)
    values: list[Value] = [None] * plan.slots
    for number, slot in plan.parameters:
        values[slot] = arguments[number]
    for step in plan.steps:
        rule = _BROADCASTING_RULES.get(step.instruction.op, step.rule)
        values[step.result] = rule(context, step.instruction, [values[i] for i in step.operands])
        for dead in step.dead:
            values[dead] = None
    return values[plan.root]


# -- batch sizes


def _max_batch_size(computation: Computation) -> int | None:
    """Returns the largest batch to evaluate at once.

    None means that arrays of any shape can take the place of the scalars, 1 that some op has no batching rule.
    """
    instructions = list(_reachable_instructions(computation))
    shapes = [leaf for i in instructions for _, leaf in i.shape.leaves() if leaf.is_array]
    if any(i.op not in BATCHING_RULES for i in instructions) or any(s.is_dynamic or s.rank == MAX_RANK for s in shapes):
        return 1
    if all(_broadcasts(i.op) for i in instructions) and not any(shape.rank for shape in shapes):
        return None
    return max(1, _MAX_BATCH_ELEMENTS // max(1, *(shape.size for shape in shapes)))


def _reachable_instructions(computation: Computation) -> Iterator[Instruction]:
    """Yields the instructions of a computation and of all computations that it calls, directly or not."""
    reached = {computation: None}
    pending = [computation]
    while pending:
        for instruction in pending.pop():
            yield instruction
            pending += [called for called in instruction.computations if called not in reached]
            reached |= dict.fromkeys(instruction.computations)


def _broadcasts(op: OpDef) -> bool:
    """Returns whether a rule of the op accepts arrays of any shape in place of scalars."""
    return op.elementwise or op in _ORDINARY_RULE_BROADCASTS or op in _BROADCASTING_RULES


def _apply_in_batches(
    context: Context, computation: Computation, arguments: Sequence[Array], shape: tuple[int, ...], limit: int
) -> Value:
    """Evaluates at most `limit` elements at once; arguments of one element are passed unbatched."""
    total = math.prod(shape)
    columns = [a.reshape(()) if a.size == 1 else np.broadcast_to(a, shape).reshape(-1) for a in arguments]
    evaluate = evaluate_computation if limit == 1 else evaluate_batch
    pieces: list[Value] = []
    for begin in range(0, total, limit):
        count = min(limit, total - begin)
        elements: int | slice = begin if limit == 1 else slice(begin, begin + count)
        values = [column[elements, ...] if column.ndim else column for column in columns]
        pieces.append(_broadcast(evaluate(context, computation, values), (count,)))
    return _concatenate(pieces, computation.root_instruction.shape, shape)


def _concatenate(pieces: list[Value], declared: Shape, shape: tuple[int, ...]) -> Value:
    if declared.is_tuple:
        elements = enumerate(declared.tuple_shapes)
        return tuple(_concatenate([piece[i] for piece in pieces], element, shape) for i, element in elements)
    joined: Array = np.concatenate(pieces) if pieces else np.zeros(0, declared.dtype)
    return joined.reshape(shape)


def _broadcast(value: Value, shape: tuple[int, ...]) -> Value:
    if isinstance(value, tuple):
        return tuple(_broadcast(element, shape) for element in value)
    return np.broadcast_to(value, shape) if isinstance(value, np.ndarray | np.generic) else value


# -- ops whose ordinary rule does not accept arrays in place of scalars


def _bitcast(_: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return bitcast_array(values[0], instruction.shape.element_type)


def _identity(_: Context, __: Instruction, values: Sequence[Value]) -> Value:
    return values[0]


def _call(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return _evaluate_broadcasting(context, instruction.computations[0], values)


_BROADCASTING_RULES: dict[OpDef, InterpreterRule] = {
    opcodes.BITCAST: _bitcast,
    opcodes.BITCAST_CONVERT: _bitcast,
    opcodes.BROADCAST: _identity,
    opcodes.CALL: _call,
    opcodes.COPY: _identity,
    opcodes.FUSION: _call,
    opcodes.MAP: _call,
    opcodes.RESHAPE: _identity,
    opcodes.TRANSPOSE: _identity,
}

_ORDINARY_RULE_BROADCASTS: frozenset[OpDef] = frozenset(
    {
        opcodes.ADD_DEPENDENCY,
        opcodes.AFTER_ALL,
        opcodes.CONSTANT,
        opcodes.DOMAIN,
        opcodes.GET_TUPLE_ELEMENT,
        opcodes.OPT_BARRIER,
        opcodes.PARAMETER,
        opcodes.PARTITION_ID,
        opcodes.REPLICA_ID,
        opcodes.TUPLE,
    }
)
"""Ops besides the elementwise ones whose ordinary rule accepts arrays in place of scalars."""
