"""Orders the instructions of programs with asynchronous operations, so that others run between starts and dones.

Between its start and its done, an exchange with other devices makes progress without the device. The order that needs
the least memory says nothing about that: it may place a done right after its start. Here, starts run as soon as they
can, together with what leads to them, and dones run when nothing else can. All other instructions keep their order.

Responsible for the order of starts and dones. Does not depend on what is exchanged, or on how.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from heapq import heapify, heappop, heappush
from typing import ClassVar

from xlapy.analysis.aliasing import is_alias
from xlapy.analysis.memory.computations import runs_in_program
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import ancestors
from xlapy.opcodes.registry import AsyncRole


@dataclass(frozen=True)
class OverlapExchanges:
    """Orders each computation that runs as a part of the program and has asynchronous operations. The module is
    scheduled, and stays so."""

    name: ClassVar[str] = "overlap-exchanges"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in module.computations:
            order = list(computation)
            if runs_in_program(computation) and any(i.op.async_role is AsyncRole.START for i in order):
                found = _overlapping(order, computation.root_instruction)
                changed |= found != order
                edit.reorder(computation, found)
        return changed


class _Priority(IntEnum):
    """What runs first of the instructions whose operands are ready. Arrays that only get another name cost nothing."""

    START = 0
    LEADS_TO_START = 1
    OTHER = 2
    DONE = 3
    ROOT = 4


def _overlapping(order: Sequence[Instruction], root: Instruction) -> list[Instruction]:
    """Returns the instructions of a computation in an order in which those of higher priority run as soon as they can,
    and of equals those that come first in the given order."""
    leading = ancestors([i for i in order if i.op.async_role is AsyncRole.START])

    def priority(instruction: Instruction) -> _Priority:
        role = instruction.op.async_role
        if instruction is root:
            return _Priority.ROOT
        if role is AsyncRole.DONE:
            return _Priority.DONE
        if role in (AsyncRole.START, AsyncRole.UPDATE) or is_alias(instruction):
            return _Priority.START
        return _Priority.LEADS_TO_START if instruction in leading else _Priority.OTHER

    keys = {instruction: (priority(instruction), rank) for rank, instruction in enumerate(order)}
    missing = {i: len({*i.operands, *i.control_predecessors}) for i in order}
    ready = [keys[instruction] for instruction, count in missing.items() if not count]
    heapify(ready)
    found: list[Instruction] = []
    while ready:
        _, rank = heappop(ready)
        found.append(order[rank])
        for user in {*order[rank].users, *order[rank].control_successors}:
            missing[user] -= 1
            if not missing[user]:
                heappush(ready, keys[user])
    return found
