"""The order of what acts on the world: custom calls, collectives, transfers, draws of random numbers.

Two that do not depend on each other run in the order that the module gives them as it comes, whatever later passes make
of what lies between; control edges say so.

Owns: which instructions these are, the edges. Must not know: how they are carried out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from xlapy import opcodes
from xlapy.cpu.lapack.targets import calls_lapack
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import called_computations, computation_post_order, post_order
from xlapy.passes.rewrite import settle

_FAMILIES = frozenset({"collectives", "custom", "transfer"})
_QUIET = frozenset({opcodes.COPY_DONE, opcodes.COPY_START, opcodes.PARTITION_ID, opcodes.REPLICA_ID})
DRAWS = frozenset({opcodes.RNG, opcodes.RNG_GET_AND_UPDATE_STATE})
"""What moves the counter of the run."""


def acts(instruction: Instruction) -> bool:
    """Whether the instruction, or one in a computation that it calls, acts on more than its result."""
    return _acts_itself(instruction) or any(map(_acts_itself, called_instructions(instruction)))


def called_instructions(instruction: Instruction) -> Iterator[Instruction]:
    """The instructions of the computations that one calls, and of those that they call."""
    pending, met = list(instruction.computations), set[Computation]()
    while pending:
        computation = pending.pop()
        if computation not in met:
            met.add(computation)
            yield from computation
            pending += called_computations(computation)


def _acts_itself(instruction: Instruction) -> bool:
    return instruction.op in DRAWS or (instruction.op.family in _FAMILIES and not _is_quiet(instruction))


def _is_quiet(instruction: Instruction) -> bool:
    return instruction.op in _QUIET or calls_lapack(instruction)


@dataclass(frozen=True)
class OrderSideEffects:
    """Joins the instructions that act, in each computation, by control edges."""

    name: ClassVar[str] = "order-effects"

    def run(self, module: Module) -> bool:
        changed = False
        acting: set[Computation] = set()
        for computation in computation_post_order(module):
            effects = [i for i in post_order(computation) if _acts_itself(i) or not acting.isdisjoint(i.computations)]
            if effects:
                acting.add(computation)
            for earlier, later in pairwise(effects):
                if earlier not in (*later.operands, *later.control_predecessors):
                    edit.add_control_edge(earlier, later)
                    changed = True
        return settle(module, changed)
