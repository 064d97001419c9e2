"""Applies a computation of scalars (reducer, comparator, map or scatter body) to whole arrays at once.

Owns: how instances are laid out for it. Where every value inside is a scalar and no instance goes its own way, each
scalar stands for arrays of any shapes, which the rules of elementwise ops broadcast. Other computations take their
instances along one dimension (`interpreter/lifting`), in pieces that bound the memory of the arrays they make inside.
Must not know: which op applies the computation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.errors import ExecutionError
from xlapy.base.literal import MAX_RANK
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.batching.core import BATCHING_RULES, evaluate_batch
from xlapy.interpreter.core import Array, Context, Value, evaluate_computation
from xlapy.interpreter.kernels.conversion import bitcast_array
from xlapy.opcodes.registry import OpDef

BatchedRule = Callable[[Context, Instruction, Sequence[Value]], Value]

_ELEMENTS_AT_ONCE = 1 << 22
"""How many elements the largest array that a computation makes may have, over the instances evaluated at once."""


def apply_scalar_computation(context: Context, computation: Computation, arguments: Sequence[Array]) -> Value:
    """The computation's result for each instance.

    Arguments are arrays that broadcast together, one a scalar parameter; the result is an array of their common shape
    (a tuple of such arrays if the root is a tuple), of the root's element type.
    """
    shape = np.broadcast_shapes(*(argument.shape for argument in arguments))
    if computation not in context.max_batch_sizes:
        context.max_batch_sizes[computation] = _instances_at_once(computation)
    at_once = context.max_batch_sizes[computation]
    with np.errstate(all="ignore"):
        if at_once is None:
            return _spread(_evaluate(context, computation, arguments), shape)
        return _apply_in_pieces(context, computation, arguments, shape, at_once)


def apply_reducer(
    context: Context, computation: Computation, left: Sequence[Array], right: Sequence[Array]
) -> list[Array]:
    """A reducer of N accumulators and N values: the N new accumulators, be they a tuple or one bare value."""
    result = apply_scalar_computation(context, computation, [*left, *right])
    return list(result) if isinstance(result, tuple) else [result]


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


# -- how many instances at once


def _instances_at_once(computation: Computation) -> int | None:
    """None for any number in arrays of any shapes; 1 if something inside is to happen instance by instance."""
    instructions = list(_reached(computation))
    shapes = [leaf for i in instructions for _, leaf in i.shape.leaves() if leaf.is_array]
    if any(i.op not in BATCHING_RULES for i in instructions) or any(s.is_dynamic or s.rank == MAX_RANK for s in shapes):
        return 1
    if all(_broadcasts(i.op) for i in instructions) and not any(shape.rank for shape in shapes):
        return None
    return max(1, _ELEMENTS_AT_ONCE // max(1, *(shape.size for shape in shapes)))


def _reached(computation: Computation) -> Iterator[Instruction]:
    """The instructions of a computation and of all that it calls."""
    reached = {computation: None}
    pending = [computation]
    while pending:
        for instruction in pending.pop():
            yield instruction
            pending += [called for called in instruction.computations if called not in reached]
            reached |= dict.fromkeys(instruction.computations)


def _broadcasts(op: OpDef) -> bool:
    return op.elementwise or op in _SHARED or op in _RULES


def _apply_in_pieces(
    context: Context, computation: Computation, arguments: Sequence[Array], shape: tuple[int, ...], at_once: int
) -> Value:
    """Arguments of one element are the same for all instances."""
    total = math.prod(shape)
    columns = [a.reshape(()) if a.size == 1 else np.broadcast_to(a, shape).reshape(-1) for a in arguments]
    evaluate = evaluate_computation if at_once == 1 else evaluate_batch
    pieces: list[Value] = []
    for begin in range(0, total, at_once):
        count = min(at_once, total - begin)
        instances: int | slice = begin if at_once == 1 else slice(begin, begin + count)
        values = [column[instances, ...] if column.ndim else column for column in columns]
        pieces.append(_spread(evaluate(context, computation, values), (count,)))
    return _joined(pieces, computation.root_instruction.shape, shape)


def _joined(pieces: list[Value], declared: Shape, shape: tuple[int, ...]) -> Value:
    if declared.is_tuple:
        elements = enumerate(declared.tuple_shapes)
        return tuple(_joined([piece[i] for piece in pieces], element, shape) for i, element in elements)
    joined: Array = np.concatenate(pieces) if pieces else np.zeros(0, declared.dtype)
    return joined.reshape(shape)


def _spread(value: Value, shape: tuple[int, ...]) -> Value:
    if isinstance(value, tuple):
        return tuple(_spread(element, shape) for element in value)
    return np.broadcast_to(value, shape) if isinstance(value, np.ndarray) else value


# -- ops whose rule on single values would not do


def _bitcast(_: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return bitcast_array(values[0], instruction.shape.element_type)


def _identity(_: Context, __: Instruction, values: Sequence[Value]) -> Value:
    return values[0]


def _call(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return _evaluate(context, instruction.computations[0], values)


_RULES: dict[OpDef, BatchedRule] = {
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

_SHARED: frozenset[OpDef] = frozenset(
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
"""Ops beside the elementwise ones whose ordinary rule serves many instances as well as one."""
