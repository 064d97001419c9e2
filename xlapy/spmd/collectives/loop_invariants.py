"""Moves collectives whose operands are the same in every iteration of a loop before the loop.

An array that a loop only reads keeps the sharding that it has before the loop. If an operation of the body needs it
whole, each iteration would gather it again, as the search of elements in a sorted array would, one gather for each
step of the bisection. The gathered array becomes an element of the loop's state instead.

Responsible for which collectives are moved. Does not depend on what wrote them.
"""

from __future__ import annotations

from typing import Final

from xlapy import opcodes
from xlapy.analysis.loops import TupleLoop
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.passes.control_flow.hoist_loop_invariants import carry_values, extensible_loop, rewrite_loops

_COLLECTIVES: Final = frozenset(
    {opcodes.ALL_GATHER, opcodes.ALL_REDUCE, opcodes.ALL_TO_ALL, opcodes.COLLECTIVE_PERMUTE, opcodes.REDUCE_SCATTER}
)
_MOVEMENT: Final = frozenset(
    {opcodes.BROADCAST, opcodes.CONVERT, opcodes.COPY, opcodes.PAD, opcodes.RESHAPE, opcodes.SLICE, opcodes.TRANSPOSE}
)
"""Operations between an element of the state and a collective that are moved with it."""


def hoist_collectives(module: Module) -> None:
    """Moves invariant collectives out of all loops, also out of several nested ones."""
    while rewrite_loops(module, _hoist):
        pass


def _hoist(loop: Instruction) -> bool:
    view = extensible_loop(loop)
    if view is None:
        return False
    invariants: dict[Instruction, bool] = {}
    for instruction in post_order(view.body):
        if _is_invariant(view, instruction, invariants):
            operands = [invariants[operand] for operand in instruction.operands if operand in invariants]
            invariants[instruction] = instruction.op in _COLLECTIVES or any(operands)
    moved = _needed([each for each, sends in invariants.items() if sends], invariants, view)
    carried = [each for each in moved if invariants[each] and any(user not in moved for user in each.users)]
    if not carried:
        return False
    carry_values(view, moved, carried)
    return True


def _is_invariant(view: TupleLoop, instruction: Instruction, invariants: dict[Instruction, bool]) -> bool:
    """Returns whether an instruction is an invariant element of the state, or computed from such ones alone."""
    if _is_element(view, instruction):
        return view.is_invariant(instruction.tuple_index)
    if instruction.op is opcodes.CONSTANT:
        return True
    if instruction.op not in _COLLECTIVES | _MOVEMENT or instruction is view.body.root_instruction:
        return False
    if instruction.has_control_edges or not instruction.shape.is_array:
        return False
    return all(operand in invariants for operand in instruction.operands)


def _needed(wanted: list[Instruction], invariants: dict[Instruction, bool], view: TupleLoop) -> dict[Instruction, None]:
    """Returns some invariant instructions and those that they are computed from, operands first."""
    needed: set[Instruction] = set()
    while wanted:
        current = wanted.pop()
        if current not in needed and not _is_element(view, current):
            needed.add(current)
            wanted += current.operands
    return {each: None for each in invariants if each in needed}


def _is_element(view: TupleLoop, instruction: Instruction) -> bool:
    reads = instruction.op is opcodes.GET_TUPLE_ELEMENT
    return reads and instruction.operands[0] is view.body.parameters[0]
