"""Dead code elimination: the pass that removes instructions and computations on which no result depends.

Unused elements of loop states are removed by `simplify_loops.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlapy.analysis.effects import Effects
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import computation_post_order
from xlapy.passes.rewrite import editable_computations, is_dead, is_unneeded, update_schedule


@dataclass(frozen=True)
class RemoveDeadCode:
    """Removes instructions that nothing uses and computations that nothing calls.

    Side effects, also those of called computations, control edges and parameters keep an instruction alive, and an
    asynchronous operation that is alive keeps its done.
    """

    name: ClassVar[str] = "remove-dead-code"

    def run(self, module: Module) -> bool:
        effects = Effects(module)
        changed = False
        for computation in editable_computations(module):
            changed |= _remove_instructions(computation, effects)
        changed |= _remove_computations(module)
        return update_schedule(module, changed)


def _remove_instructions(computation: Computation, effects: Effects) -> bool:
    pending = [instruction for instruction in computation if is_dead(instruction)]
    changed = False
    while pending:
        instruction = pending.pop()
        if instruction.parent is None or not is_unneeded(instruction, effects.has_side_effect):
            continue
        pending += dict.fromkeys(instruction.operands)
        edit.remove(instruction)
        changed = True
    return changed


def _remove_computations(module: Module) -> bool:
    """Removes computations without callers; callers first, so that computations that only they call follow."""
    changed = False
    for computation in reversed(computation_post_order(module)):
        if not computation.callers and not computation.is_entry:
            edit.remove_computation(computation)
            changed = True
    return changed
