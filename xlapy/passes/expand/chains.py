"""Replaces asynchronous chains of start, updates and done by one synchronous instruction.

Instructions that must run before a part of the chain run before the new instruction. Instructions that must run after a
part of the chain run after the new one, unless the new one depends on them: those could run during the operation, and
now run before it.

Responsible for the instructions of a chain and for its control edges. Does not depend on the operation.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.traverse import ancestors


def chain_of(done: Instruction) -> list[Instruction]:
    """Returns the instructions of a chain before its done, the start first.

    Raises `UnsupportedError` if an instruction outside of the chain uses one of them.
    """
    chain = [done.operands[0]]
    while chain[-1].op is opcodes.ASYNC_UPDATE:
        chain.append(chain[-1].operands[0])
    for member in chain:
        if member.user_count != 1:
            raise UnsupportedError(
                codes.EXPANSION, f"{describe_instruction(member)} has users outside of the chain of {done.name}"
            )
    return chain[::-1]


def remove_chain(chain: Sequence[Instruction], done: Instruction, replacement: Instruction) -> None:
    """Removes the chain before `done`, which stays without operands; moves control edges to `replacement`."""
    members = {*chain, done}
    for member in chain:
        for before in member.control_predecessors:
            if before not in members:
                edit.add_control_edge(before, replacement)
    needed = ancestors([replacement, *(before for before in done.control_predecessors if before not in members)])
    for member in chain:
        for after in member.control_successors:
            if after not in members and after not in needed:
                edit.add_control_edge(replacement, after)
    edit.set_operands(done, ())
    for member in reversed(chain):
        edit.remove_control_edges(member)
        edit.remove(member)
