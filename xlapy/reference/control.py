"""Definitions of the operations that call computations or order others."""

from __future__ import annotations

from typing import Any

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.base.shape import Shape
from xlapy.hlo.instruction import Instruction
from xlapy.reference.core import TOKEN, Function, Value, defines
from xlapy.reference.elements import number, type_of, zeros


@defines(opcodes.CALL, opcodes.FUSION)
def call(instruction: Instruction, function: Function, *operands: Value) -> Value:
    """The result of the called computation."""
    return function(*operands)


@defines(opcodes.WHILE)
def while_(instruction: Instruction, condition: Function, body: Function, state: Value) -> Value:
    """Replaces the state by body(state) as long as condition(state) is true."""
    while number(condition(state)):
        state = body(state)
    return state


@defines(opcodes.CONDITIONAL)
def conditional(instruction: Instruction, *functions_and_operands: Any) -> Value:
    """The result of one branch, for its own operand: branch 0 for true, and the last one for an index out of range."""
    count = len(instruction.computations)
    branches, (selector, *arguments) = functions_and_operands[:count], functions_and_operands[count:]
    branch = number(selector)
    if type_of(selector) is PRED:
        branch = 0 if branch else 1
    if not 0 <= branch < count:
        branch = count - 1
    return branches[branch](arguments[branch])


@defines(opcodes.OPT_BARRIER, opcodes.DOMAIN)
def identity(instruction: Instruction, operand: Value) -> Value:
    """The operand."""
    return operand


@defines(opcodes.ADD_DEPENDENCY)
def add_dependency(instruction: Instruction, operand: Value, token: Value) -> Value:
    """The operand, once the token exists."""
    return operand


@defines(opcodes.AFTER_ALL)
def after_all(instruction: Instruction, *tokens: Value) -> Value:
    """A token that exists once all operands do."""
    return TOKEN


@defines(opcodes.ASYNC_START)
def async_start(instruction: Instruction, function: Function, *operands: Value) -> Value:
    """(operands, result, contexts...); the result exists once there is an operand for every parameter."""
    is_complete = len(operands) == len(instruction.computations[0].parameters)
    contexts = [zeros_of(shape) for shape in instruction.shape.tuple_shapes[2:]]
    return operands, function(*operands) if is_complete else None, *contexts


@defines(opcodes.ASYNC_UPDATE)
def async_update(instruction: Instruction, function: Function, started: Value, *added: Value) -> Value:
    """Adds operands to those of the start; without further operands, nothing changes."""
    if not added:
        return started
    start = instruction
    while start.op is opcodes.ASYNC_UPDATE:
        start = start.operands[0]
    return async_start(start, function, *started[0], *added)


@defines(opcodes.ASYNC_DONE)
def async_done(instruction: Instruction, started: Value) -> Value:
    """The result of the called computation."""
    return started[1]


def zeros_of(shape: Shape) -> Value:
    """Returns a value of a shape in which every element is 0."""
    if shape.is_tuple:
        return tuple(map(zeros_of, shape.tuple_shapes))
    return zeros(shape) if shape.is_array else TOKEN
