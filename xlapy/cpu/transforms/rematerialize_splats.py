"""Rematerializes broadcasts of scalars (splats) for every user that overwrites them.

After common subexpression elimination, several states of a loop may start as the same array of zeros. They would have
to be copied from a further array of zeros; with a splat for each of them, they are filled in place.

Does not depend on memory or thunks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.analysis.aliasing import IN_PLACE_OPS
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.passes.rewrite import update_schedule


@dataclass(frozen=True)
class RematerializeSplats:
    """Copies splats until each user that overwrites its operand has a splat of its own."""

    name: ClassVar[str] = "rematerialize-splats"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in module.computations:
            splats = [i for i in computation if i.op is opcodes.BROADCAST and not i.operands[0].shape.rank]
            for splat in splats:
                changed |= _rematerialize(computation, splat)
        return update_schedule(module, changed)


def _rematerialize(computation: Computation, splat: Instruction) -> bool:
    """Copies a splat for every user that overwrites it, except for one if all do; returns whether anything changed."""
    uses = [(user, n) for user in splat.users for n, operand in enumerate(user.operands) if operand is splat]
    writes = [use for use in uses if _overwrites(*use)]
    for user, n in writes if len(writes) < len(uses) else writes[1:]:
        copy = edit.clone_instruction(splat, computation, splat.operands)
        edit.replace_operand(user, n, copy)
    return len(uses) > 1 and bool(writes)


def _overwrites(user: Instruction, number: int) -> bool:
    if user.op is opcodes.TUPLE:
        return any(
            reader.op is opcodes.WHILE and _changes_leaf(reader.computation("body"), number) for reader in user.users
        )
    return user.op in IN_PLACE_OPS and number == 0


def _changes_leaf(body: Computation, number: int) -> bool:
    """Whether the body of a loop passes on a leaf of its state that differs from the one that it receives."""
    root = body.root_instruction
    if root.op is not opcodes.TUPLE:
        return True
    after = root.operands[number]
    return (
        after.op is not opcodes.GET_TUPLE_ELEMENT
        or after.operands[0].op is not opcodes.PARAMETER
        or after.tuple_index != number
    )
