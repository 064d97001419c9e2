"""Operations that call computations or order others.

Does not apply scalar computations to whole arrays; `batching/scalar_computations.py` does.
Source: Call, While, Conditional, OptimizationBarrier, AfterAll, AddDependency, AsyncStart, AsyncUpdate, AsyncDone,
Fusion, Domain of the specification.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from xlapy import opcodes
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.core import RULES, TOKEN, Context, Value, evaluate_computation

Evaluate = Callable[[Context, Computation, Sequence[Value]], Value]
"""Evaluates a computation for given arguments: `evaluate_computation` or `evaluate_batch`."""


@RULES.rule(opcodes.CALL, opcodes.FUSION)
def call(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Evaluates the called computation with the operands as arguments."""
    return evaluate_computation(context, instruction.computations[0], values)


@RULES.rule(opcodes.WHILE)
def while_(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Replaces the state by the result of the body as long as the condition is true for it."""
    condition, body = instruction.computations
    state = values[0]
    while bool(evaluate_computation(context, condition, [state])):
        state = evaluate_computation(context, body, [state])
    return state


@RULES.rule(opcodes.CONDITIONAL)
def conditional(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Evaluates the branch that operand 0 selects, with the operand that belongs to it.

    True selects the first branch, and an index out of range the last one.
    """
    branches = instruction.computations
    index = values[0]
    number = int(not index) if index.dtype == np.bool_ else int(index)
    if not 0 <= number < len(branches):
        number = len(branches) - 1
    return evaluate_computation(context, branches[number], [values[1 + number]])


@RULES.rule(opcodes.OPT_BARRIER, opcodes.ADD_DEPENDENCY, opcodes.DOMAIN)
def pass_on(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns operand 0; the order of evaluation follows from the operands."""
    return values[0]


@RULES.rule(opcodes.AFTER_ALL)
def after_all(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns a token; all operands have been evaluated before."""
    return TOKEN


# An asynchronous computation is evaluated when its last operand is bound. Its value is
# (bound operands, result, contexts...).


@RULES.rule(opcodes.ASYNC_START)
def async_start(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Binds the operands to the first parameters of the called computation."""
    return bind(context, instruction.computations[0], tuple(values), instruction.shape)


@RULES.rule(opcodes.ASYNC_UPDATE)
def async_update(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Binds further operands to the next parameters, if there are any."""
    before, *added = values
    if not added:
        return before
    return bind(context, called_computation(instruction), (*before[0], *added), instruction.shape)


@RULES.rule(opcodes.ASYNC_DONE)
def async_done(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Returns the result of the called computation."""
    return values[0][1]


def called_computation(instruction: Instruction) -> Computation:
    """Returns the computation that the async-start at the head of a chain calls."""
    while instruction.op is not opcodes.ASYNC_START:
        instruction = instruction.operands[0]
    return instruction.computations[0]


def bind(
    context: Context,
    computation: Computation,
    operands: tuple[Value, ...],
    shape: Shape,
    evaluate: Evaluate = evaluate_computation,
) -> Value:
    """Returns the value of an async instruction; the result in it is None until every parameter is bound."""
    complete = len(operands) == len(computation.parameters)
    result = evaluate(context, computation, operands) if complete else None
    return (operands, result, *map(_placeholder, shape.tuple_shapes[2:]))


def _placeholder(shape: Shape) -> Value:
    """Returns zeros for a context, which no rule reads."""
    if shape.is_tuple:
        return tuple(map(_placeholder, shape.tuple_shapes))
    return np.zeros(shape.dimensions, shape.dtype) if shape.is_array else TOKEN
