"""Keeps what can be computed while an exchange is pending out of kernels that run before or after the exchange.

An instruction that neither leads to an asynchronous operation nor depends on its done can run while the operation is
pending. In one kernel with an instruction that depends on the done, it would run after the done; with one that leads
to the start, it would delay the start.

Responsible for which instructions can run while which operations are pending. Does not depend on kernels.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.registry import AsyncRole


class PendingExchanges:
    """The asynchronous operations of a computation: sets of them are bits of an integer.

    order: the instructions, operands before users.
    """

    def __init__(self, order: Sequence[Instruction]) -> None:
        dones = [instruction for instruction in order if instruction.op.async_role is AsyncRole.DONE]
        own = {done: 1 << number for number, done in enumerate(dones)}
        self._after: dict[Instruction, int] = {}
        """The operations on whose dones each instruction depends."""
        self._before: dict[Instruction, int] = {}
        """The operations that depend on each instruction."""
        for instruction in order if dones else ():
            found = own.get(instruction, 0)
            for other in (*instruction.operands, *instruction.control_predecessors):
                found |= self._after[other]
            self._after[instruction] = found
        for instruction in reversed(order if dones else ()):
            found = own.get(instruction, 0)
            for other in (*instruction.users, *instruction.control_successors):
                found |= self._before.get(other, 0)
            self._before[instruction] = found

    def may_delay(self, instruction: Instruction, users: Iterable[Instruction]) -> bool:
        """Whether an instruction can run while an operation is pending for which its users wait."""
        free = _union(self._after, users) & ~self._after.get(instruction, 0)
        return bool(free & ~self._before.get(instruction, 0))

    def overlap_alike(self, left: Iterable[Instruction], right: Iterable[Instruction]) -> bool:
        """Whether some instructions wait for the same operations as others, and lead to the same ones."""
        return all(_union(side, left) == _union(side, right) for side in (self._after, self._before))


def _union(sets: Mapping[Instruction, int], instructions: Iterable[Instruction]) -> int:
    found = 0
    for instruction in instructions:
        found |= sets.get(instruction, 0)
    return found
