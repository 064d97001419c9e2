"""Keeps side-effecting instructions in module order: custom calls, collectives, transfers and random draws.

A control edge connects consecutive side-effecting instructions that have no data dependence, so that later passes
cannot reorder them. The order is the post-order of the module as it was given, which the interpreter follows; dead code
takes part in it, so that it is removed between the order and the edges, which would keep it alive.

Responsible for which instructions have side effects, and for the edges. Does not depend on how they run.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

from xlapy.cpu.lapack.targets import calls_lapack
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.ordering import is_acting_operation
from xlapy.hlo.traverse import computation_post_order, post_order
from xlapy.passes.remove_dead_code import RemoveDeadCode
from xlapy.passes.rewrite import update_schedule


def _has_side_effect(instruction: Instruction) -> bool:
    return is_acting_operation(instruction) and not calls_lapack(instruction)


@dataclass(frozen=True)
class OrderSideEffects:
    """Removes dead code, and adds control edges between consecutive side-effecting instructions of each computation.

    Runs before passes that change the order of instructions.
    """

    name: ClassVar[str] = "order-side-effects"

    def run(self, module: Module) -> bool:
        effects_of = _effects(module)
        changed = RemoveDeadCode().run(module)
        for computation, effects in effects_of.items():
            if computation.module is None:
                continue
            alive = [instruction for instruction in effects if instruction.parent is not None]
            for earlier, later in pairwise(alive):
                if earlier not in (*later.operands, *later.control_predecessors):
                    edit.add_control_edge(earlier, later)
                    changed = True
        return update_schedule(module, changed)


def _effects(module: Module) -> dict[Computation, list[Instruction]]:
    """Returns the side-effecting instructions of each computation that has any, in post-order."""
    found: dict[Computation, list[Instruction]] = {}
    for computation in computation_post_order(module):
        effects = [
            i for i in post_order(computation) if _has_side_effect(i) or not found.keys().isdisjoint(i.computations)
        ]
        if effects:
            found[computation] = effects
    return found
