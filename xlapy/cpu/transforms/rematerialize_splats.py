"""A broadcast of its own for everything that overwrites one: arrays that begin as zeros are filled where they lie.

Common subexpressions are one instruction; a loop whose state begins with the same zeros several times would need them
in memory once more, to copy them from.

Must not know: memory, steps.
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
    """Copies broadcasts of scalars until each use that overwrites what it is given has one alone."""

    name: ClassVar[str] = "separate-fills"

    def run(self, module: Module) -> bool:
        changed = False
        for computation in module.computations:
            fills = [i for i in computation if i.op is opcodes.BROADCAST and not i.operands[0].shape.rank]
            for fill in fills:
                changed |= _separate(computation, fill)
        return update_schedule(module, changed)


def _separate(computation: Computation, fill: Instruction) -> bool:
    """Whether the broadcast has got copies: for all uses but one, if all of them overwrite it."""
    uses = [(user, n) for user in fill.users for n, operand in enumerate(user.operands) if operand is fill]
    writes = [use for use in uses if _overwrites(*use)]
    for user, n in writes if len(writes) < len(uses) else writes[1:]:
        copy = edit.clone_instruction(fill, computation, fill.operands)
        edit.replace_operand(user, n, copy)
    return len(uses) > 1 and bool(writes)


def _overwrites(user: Instruction, number: int) -> bool:
    if user.op is opcodes.TUPLE:
        return any(reader.op is opcodes.WHILE and _changes(reader.computation("body"), number) for reader in user.users)
    return user.op in IN_PLACE_OPS and number == 0


def _changes(body: Computation, number: int) -> bool:
    """Whether the body of a loop hands on another element of its state than it was given."""
    root = body.root_instruction
    if root.op is not opcodes.TUPLE:
        return True
    after = root.operands[number]
    return (
        after.op is not opcodes.GET_TUPLE_ELEMENT
        or after.operands[0].op is not opcodes.PARAMETER
        or after.tuple_index != number
    )
