"""Common subexpression elimination: the pass that merges equal instructions.

Responsible for which instructions are equal. Does not depend on the meaning of operations.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.analysis.constants import has_all_elements
from xlapy.analysis.effects import Effects
from xlapy.analysis.structural_numbering import StructuralNumbering
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.passes.rewrite import (
    can_replace,
    editable_computations,
    replace_with_existing,
    update_schedule,
)


@dataclass(frozen=True)
class MergeCommonSubexpressions:
    """Replaces instructions by equal ones of the same computation.

    Two pure instructions are equal if they have the same op and equal operands (in any order if the op is commutative),
    attributes, layouts, shardings and, except for names, called computations. Constants are compared bit by bit.
    """

    name: ClassVar[str] = "merge-common-subexpressions"

    def run(self, module: Module) -> bool:
        effects, numbering = Effects(module), StructuralNumbering()
        changed = False
        for computation in editable_computations(module):
            changed |= _merge(computation, effects, numbering)
        return update_schedule(module, changed)


def _merge(computation: Computation, effects: Effects, numbering: StructuralNumbering) -> bool:
    first: dict[Hashable, Instruction] = {}
    changed = False
    for instruction in post_order(computation):
        if instruction.has_control_edges or not effects.is_pure(instruction) or _has_unknown_value(instruction):
            continue
        key = (numbering.instruction_key(instruction), _operands_key(instruction))
        equal = first.setdefault(key, instruction)
        if equal is not instruction and can_replace(equal, instruction):
            replace_with_existing(instruction, equal)
            changed = True
    return changed


def _has_unknown_value(instruction: Instruction) -> bool:
    """Returns whether equal attributes do not imply equal values: for parameters and elided constants."""
    return instruction.op is opcodes.PARAMETER or (
        instruction.op is opcodes.CONSTANT and not has_all_elements(instruction.literal)
    )


def _operands_key(instruction: Instruction) -> Hashable:
    operands = instruction.operands
    return frozenset(operands) if instruction.op.commutative and len(operands) == 2 else operands
