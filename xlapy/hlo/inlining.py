"""Inlines a call, and orders the instructions that replace one with control edges.

Responsible for the copies of a called computation and for their control edges. Does not depend on which calls are
inlined.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product

from xlapy.base.error_codes.structure import editing as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.shape import Shape
from xlapy.hlo import edit
from xlapy.hlo.computation import is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.ordering import acts
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.tuples import TUPLE


def inline_call(call: Instruction) -> Instruction:
    """Replaces a call or fusion by copies of the instructions of the called computation.

    Moves the control edges of the call to the copies that act (`order_copies`). Returns the copy of the called
    computation's root.
    """
    computation = call.parent
    if computation is None or len(call.computations) != 1:
        raise InvalidArgumentError(codes.INLINED_CALL, f"{call.name} is not a call inside a computation")
    callee = call.computations[0]
    made: dict[Instruction, Instruction] = {}
    for instruction in post_order(callee):
        if is_parameter(instruction):
            made[instruction] = call.operands[instruction.parameter_number]
        else:
            made[instruction] = edit.clone_instruction(
                instruction, computation, [made[o] for o in instruction.operands]
            )
    for original in callee:
        if not is_parameter(original):
            for predecessor in original.control_predecessors:
                edit.add_control_edge(made[predecessor], made[original])
    result = made[callee.root_instruction]
    edit.replace_uses(call, result)
    if call.has_control_edges:
        before, after = call.control_predecessors, call.control_successors
        edit.remove_control_edges(call)
        copies = [copy for original, copy in made.items() if not is_parameter(original)]
        _add_control_edges(order_copies(before, copies, len(after)), after)
    edit.remove(call)
    return result


def order_copies(
    before: Sequence[Instruction], copies: Sequence[Instruction], successors: int
) -> Sequence[Instruction]:
    """Adds control edges for the copies that replace an instruction with the control predecessors `before`.

    Returns the instructions after which its control successors run; successors: how many these are. copies: each after
    those that it depends on. If copies act, only these are ordered, as a chain; else all are. The number of edges is
    linear in either case.
    """
    acting = [copy for copy in copies if acts(copy)]
    for first, second in pairwise(acting):
        edit.add_control_edge(first, second)
    if acting:
        _add_control_edges(before, acting[:1])
        return acting[-1:]
    before = _joined(before, len(copies))
    _add_control_edges(before, copies)
    return _joined(copies or before, successors)


def _joined(before: Sequence[Instruction], count: int) -> Sequence[Instruction]:
    """Returns instructions that are to have edges to `count` others, or one that runs after them and has those edges.

    It is an empty tuple, and saves edges if there are several instructions and several others.
    """
    if len(before) < 2 or count < 2:
        return before
    computation = before[0].parent
    assert computation is not None
    join = edit.create(computation, TUPLE, shape=Shape.tuple([]))
    _add_control_edges(before, [join])
    return [join]


def _add_control_edges(before: Sequence[Instruction], after: Sequence[Instruction]) -> None:
    for first, second in product(before, after):
        edit.add_control_edge(first, second)
