"""Control flow and ordering ops in a batch.

Responsible for the choice of batch elements that a branch or loop body is evaluated on: only those that take the branch
or are still in the loop. Does not depend on what the computations do.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.batching.core import (
    BATCHING_RULES,
    apply_ordinary_rule,
    batch_size,
    evaluate_batch,
    is_batched,
    put_batch_elements,
    take_batch_elements,
)
from xlapy.interpreter.control import bind, called_computation
from xlapy.interpreter.core import Array, Context, Value

BATCHING_RULES.rule(opcodes.ADD_DEPENDENCY, opcodes.AFTER_ALL, opcodes.ASYNC_DONE, opcodes.DOMAIN, opcodes.OPT_BARRIER)(
    apply_ordinary_rule
)


@BATCHING_RULES.rule(opcodes.CALL, opcodes.FUSION)
def call(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    return evaluate_batch(context, instruction.computations[0], values)


@BATCHING_RULES.rule(opcodes.ASYNC_START, opcodes.ASYNC_UPDATE)
def bind_operands(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Binds operands to the parameters of the called computation, which runs when all parameters are bound."""
    bound, added = ((), values) if instruction.op is opcodes.ASYNC_START else (values[0][0], values[1:])
    if not added:
        return values[0]
    computation = called_computation(instruction)
    return bind(context, computation, (*bound, *added), instruction.shape, evaluate_batch)


@BATCHING_RULES.rule(opcodes.CONDITIONAL)
def conditional(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Evaluates each branch on the batch elements that take it."""
    branches = instruction.computations
    selector = _branch_numbers(values[0], len(branches))
    if not is_batched(selector, instruction.operands[0].shape):
        number = int(selector)
        return evaluate_batch(context, branches[number], [values[1 + number]])
    result: Value = None
    for number, branch in enumerate(branches):
        chosen = np.flatnonzero(selector == number)
        argument, shape = values[1 + number], instruction.operands[1 + number].shape
        if chosen.size == selector.size:
            return evaluate_batch(context, branch, [argument])
        if chosen.size:
            value = evaluate_batch(context, branch, [take_batch_elements(argument, shape, chosen)])
            result = put_batch_elements(result, chosen, value, instruction.shape, selector.size)
    return result


def _branch_numbers(selector: Array, count: int) -> Array:
    """Returns the branch of each batch element: true is the first branch, an index out of range the last one."""
    if selector.dtype == np.bool_:
        return np.where(selector, 0, 1)
    return np.where((selector < 0) | (selector >= count), count - 1, selector)


@BATCHING_RULES.rule(opcodes.WHILE)
def while_(context: Context, instruction: Instruction, values: Sequence[Value]) -> Value:
    """Evaluates the body on the batch elements whose condition still holds, and keeps the results of the others."""
    condition, body = instruction.computations
    shape, count = instruction.shape, batch_size(instruction, values)
    state, running, finished = values[0], np.arange(count), None
    while True:
        holds = np.asarray(evaluate_batch(context, condition, [state]))
        if not holds.any():
            return state if finished is None else put_batch_elements(finished, running, state, shape, count)
        if not holds.all():
            finished = put_batch_elements(
                finished, running[~holds], take_batch_elements(state, shape, ~holds), shape, count
            )
            running, state = running[holds], take_batch_elements(state, shape, holds)
        state = evaluate_batch(context, body, [state])
