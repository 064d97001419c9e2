"""Keeps side-effecting instructions in module order: custom calls, collectives, transfers and random draws.

A control edge connects consecutive side-effecting instructions that have no data dependence, so that later passes
cannot reorder them. The order is the post-order of the module as it was given, which the interpreter follows; dead code
takes part in it, so that it is removed between the order and the edges, which would keep it alive.

The done of an exchange between devices comes after the side effects before it, as others may wait for those, but later
side effects need not wait for the done: several exchanges may be pending.

Responsible for which instructions have side effects, and for the edges. Does not depend on how they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xlapy.cpu.lapack.targets import calls_lapack
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.ordering import is_acting_operation
from xlapy.hlo.traverse import computation_post_order, post_order
from xlapy.opcodes.registry import AsyncRole
from xlapy.opcodes.transfer import ChannelAttributes
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
            for earlier, later in _ordered_pairs(alive):
                if earlier not in (*later.operands, *later.control_predecessors):
                    edit.add_control_edge(earlier, later)
                    changed = True
        return update_schedule(module, changed)


def _ordered_pairs(effects: Sequence[Instruction]) -> Iterator[tuple[Instruction, Instruction]]:
    """Yields each side-effecting instruction but the first, with the last one before it that is no done."""
    earlier: Instruction | None = None
    for later in effects:
        if earlier is not None:
            yield earlier, later
        if not _ends_exchange(later):
            earlier = later


def _ends_exchange(instruction: Instruction) -> bool:
    """Whether an instruction is the done of an exchange between devices."""
    attributes = instruction.attributes
    is_host_transfer = isinstance(attributes, ChannelAttributes) and attributes.is_host_transfer
    return instruction.op.async_role is AsyncRole.DONE and not is_host_transfer


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
