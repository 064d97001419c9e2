"""Fuses the gradient of max-pooling: a pad, a select-and-scatter and a slice become one fusion.

Front ends pad the operand themselves, with the smallest number, and slice the result. The elements of the padding take
part in the selection (a NaN, or a window of infinities, selects one of them), so that they are not the same as padding
of the select-and-scatter. Runs before `Fuse`. Does not depend on the kernel.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.codegen.fusion.decisions import Decision, DecisionKind, Explain, ignore_decision
from xlapy.codegen.plan import has_plan
from xlapy.hlo import edit
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.opcodes.control import FusionAttributes, FusionKind
from xlapy.opcodes.sources import ParameterAttributes
from xlapy.passes.rewrite import editable_computations, update_schedule


@dataclass(frozen=True)
class FusePoolingGradients:
    """Replaces a select-and-scatter, the pad before it and the slice after it by one fusion."""

    name: ClassVar[str] = "fuse-pooling-gradients"
    has_kernel: Callable[[Instruction], bool]
    """Whether a fusion is a gradient of pooling that has a kernel."""
    explain: Explain | None = None

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            for instruction in computation.instructions:
                if instruction.op is opcodes.SELECT_AND_SCATTER:
                    changed |= self._fuse(module, _parts(instruction))
        return update_schedule(module, changed)

    def _fuse(self, module: Module, parts: list[Instruction]) -> bool:
        if len(parts) == 1 or any(has_plan(p) or p.has_control_edges or p.shape.is_dynamic for p in parts):
            return False
        fusion = _fused(module, parts)
        fused = fusion.computations[0]
        if not self.has_kernel(fusion):
            edit.remove(fusion)
            edit.remove_computation(fused)
            return False
        names = tuple(part.name for part in parts)
        text = f"{', '.join(names[:-1])} and {names[-1]} become one kernel: the gradient of pooling with its padding"
        (self.explain or ignore_decision)(Decision(names, DecisionKind.POOLING_GRADIENT, text))
        edit.replace_uses(parts[-1], fusion)
        for part in reversed(parts):
            edit.remove(part)
        return True


def _parts(scatter: Instruction) -> list[Instruction]:
    """The pad before a select-and-scatter, itself, and the slice after it, if nothing else needs their values."""
    operand, users = scatter.operands[0], list(scatter.users)
    before = [operand] if operand.op is opcodes.PAD and operand.user_count == 1 and not operand.is_root else []
    is_sliced = len(users) == 1 and users[0].op is opcodes.SLICE and scatter.user_count == 1 and not scatter.is_root
    return [*before, scatter, *(users if is_sliced else ())]


def _fused(module: Module, parts: list[Instruction]) -> Instruction:
    """Writes a fusion of instructions and of the scalar constants that they read."""
    fused = edit.add_computation(module, "fused_computation")
    copies: dict[Instruction, Instruction] = {}
    operands: list[Instruction] = []
    for part in parts:
        for operand in part.operands:
            if operand in copies:
                continue
            if operand.op is opcodes.CONSTANT and not operand.shape.rank:
                copies[operand] = edit.clone_instruction(operand, fused, [])
                continue
            attributes = ParameterAttributes.make(number=len(operands))
            copies[operand] = edit.create(fused, opcodes.PARAMETER, (), attributes, shape=operand.shape, name="param")
            operands.append(operand)
        copies[part] = edit.clone_instruction(part, fused, [copies[o] for o in part.operands])
    last = parts[-1]
    assert last.parent is not None
    edit.set_root(fused, copies[last])
    kind = FusionAttributes.make(kind=FusionKind.LOOP)
    name = f"{parts[0].name}.fusion"
    return edit.create(
        last.parent, opcodes.FUSION, operands, kind, [fused], shape=last.shape, name=name, metadata=last.metadata
    )
