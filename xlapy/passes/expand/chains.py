"""Asynchronous operations done at once: what replaces a chain of start, updates and done.

Owns: which instructions make a chain, what becomes of the order that its control edges demand.
Must not know: what the operation does.

What is ordered before a part of the chain runs before the one instruction. What is ordered after a part of it runs
after the one instruction, unless this needs it: what was to run beside the operation runs before it then.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.errors import UnsupportedError
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import ancestors


def chain_of(done: Instruction) -> list[Instruction]:
    """The instructions that lead to the end of a chain, the start first; `UnsupportedError` if others read them."""
    chain = [done.operands[0]]
    while chain[-1].op is opcodes.ASYNC_UPDATE:
        chain.append(chain[-1].operands[0])
    for member in chain:
        if len(tuple(member.users)) != 1:
            raise UnsupportedError(f"{member.name} ({member.op.name}) is read by others than {done.name} too")
    return chain[::-1]


def remove_chain(chain: Sequence[Instruction], done: Instruction, made: Instruction) -> None:
    """Removes what leads to `done`, which stays without operands; `made` takes over the control edges."""
    members = {*chain, done}
    for member in chain:
        for before in member.control_predecessors:
            if before not in members:
                edit.add_control_edge(before, made)
    needed = ancestors([made, *(before for before in done.control_predecessors if before not in members)])
    for member in chain:
        for after in member.control_successors:
            if after not in members and after not in needed:
                edit.add_control_edge(made, after)
    edit.set_operands(done, ())
    for member in reversed(chain):
        edit.remove_control_edges(member)
        edit.remove(member)
