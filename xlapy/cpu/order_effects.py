"""The order of what acts on the world: custom calls, collectives, transfers, draws of random numbers.

Two that do not depend on each other run in the order that the module gives them as it comes, whatever later passes make
of what lies between; control edges say so.

Owns: which instructions these are, the edges. Must not know: how they are carried out.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from xlapy import ops
from xlapy.cpu.lapack.targets import calls_lapack
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.passes.rewrite import settle

_FAMILIES = frozenset({"collectives", "custom", "transfer"})
_QUIET = frozenset({ops.COPY_DONE, ops.COPY_START, ops.PARTITION_ID, ops.REPLICA_ID})
DRAWS = frozenset({ops.RNG, ops.RNG_GET_AND_UPDATE_STATE})
"""What moves the counter of the run."""


def acts(instruction: Instruction) -> bool:
    """Whether the instruction, or one in a computation that it calls, acts on more than its result."""
    pending, met = [instruction], set[Computation]()
    while pending:
        current = pending.pop()
        if current.op in DRAWS or (current.op.family in _FAMILIES and not _is_quiet(current)):
            return True
        for called in current.computations:
            if called not in met:
                met.add(called)
                pending += called
    return False


def _is_quiet(instruction: Instruction) -> bool:
    return instruction.op in _QUIET or calls_lapack(instruction)


@dataclass(frozen=True)
class OrderEffects:
    """Joins the instructions that act, in each computation, by control edges."""

    name: ClassVar[str] = "order-effects"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in module.computations:
            for earlier, later in pairwise([i for i in post_order(computation) if acts(i)]):
                if earlier not in (*later.operands, *later.control_predecessors):
                    edit.add_control_edge(earlier, later)
                    changed = True
        return settle(module, changed)
