"""Fuses attention: the kernels of two dots and of the row reductions between them become one fusion.

Runs after `Fuse`, which has given each of the three a kernel with its epilogue. Does not depend on what a region that
is attention looks like (`emitters.attention.problem`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.codegen.fusion.decisions import Decision, DecisionKind, Explain, ignore_decision
from xlapy.hlo import edit
from xlapy.hlo.computation import is_parameter
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.opcodes.control import FusionAttributes, FusionKind
from xlapy.opcodes.sources import ParameterAttributes
from xlapy.passes.rewrite import update_schedule


@dataclass(frozen=True)
class FuseAttention:
    """Replaces a dot, row reductions of its result, and a dot with theirs by one fusion."""

    name: ClassVar[str] = "fuse-attention"
    is_attention: Callable[[Instruction], bool]
    """Whether a fusion is attention that has a kernel."""
    explain: Explain | None = None

    def run(self, module: Module) -> bool:
        changed = False
        for computation in module.computations:
            if computation.module is not module:  # a part of attention, whose fused computation is gone
                continue
            for mixing in post_order(computation):
                parts = _parts(mixing)
                if parts is not None:
                    changed |= self._fuse(module, parts)
        return update_schedule(module, changed)

    def _fuse(self, module: Module, parts: Sequence[Instruction]) -> bool:
        fusion = _merged(module, parts)
        fused = fusion.computations[0]
        if not self.is_attention(fusion):
            edit.remove(fusion)
            edit.remove_computation(fused)
            return False
        *producers, mixing = parts
        names = tuple(part.name for part in parts)
        text = f"{', '.join(names[:-1])} and {names[-1]} become attention: the scores of a block stay in the cache"
        (self.explain or ignore_decision)(Decision(names, DecisionKind.ATTENTION, text))
        edit.replace_uses(mixing, fusion)
        for part in (mixing, *reversed(producers)):
            inner = part.computations
            edit.remove(part)
            for computation in inner:
                if not computation.callers:
                    edit.remove_computation(computation)
        return True


def _parts(mixing: Instruction) -> list[Instruction] | None:
    """The kernels that may be attention, of which the given one is the last: scores, row reductions, mixing."""
    if not mixing.shape.is_array or not _has_one(mixing, opcodes.DOT):
        return None
    for weights in mixing.operands:
        if weights.op is not opcodes.FUSION or not _is_only_for(weights, mixing) or _has_one(weights, opcodes.DOT):
            continue
        for scores in weights.operands:
            if _has_one(scores, opcodes.DOT) and _is_only_for(scores, weights):
                return [scores, weights, mixing]
    return None


def _is_only_for(instruction: Instruction, user: Instruction) -> bool:
    return instruction.shape.is_array and list(instruction.users) == [user] and not instruction.is_root


def _has_one(instruction: Instruction, op: opcodes.OpDef) -> bool:
    inner = instruction.computations[0].instructions if instruction.op is opcodes.FUSION else [instruction]
    return sum(i.op is op for i in inner) == 1


def _merged(module: Module, parts: Sequence[Instruction]) -> Instruction:
    """Writes one fusion with the instructions of several fusions or single instructions, in their order."""
    fused = edit.add_computation(module, "fused_computation")
    copies: dict[Instruction, Instruction] = {}
    operands = list(dict.fromkeys(o for part in parts for o in part.operands if o not in parts))
    for number, operand in enumerate(operands):
        attributes = ParameterAttributes.make(number=number)
        copies[operand] = edit.create(fused, opcodes.PARAMETER, (), attributes, shape=operand.shape, name="param")
    for part in parts:
        if part.op is not opcodes.FUSION:
            copies[part] = edit.clone_instruction(part, fused, [copies[o] for o in part.operands])
            continue
        inner = {p: copies[part.operands[p.parameter_number]] for p in part.computations[0].parameters}
        for instruction in post_order(part.computations[0]):
            if not is_parameter(instruction):
                inner[instruction] = edit.clone_instruction(
                    instruction, fused, [inner[o] for o in instruction.operands]
                )
        copies[part] = inner[part.computations[0].root_instruction]
    mixing, parent = parts[-1], parts[-1].parent
    assert parent is not None
    edit.set_root(fused, copies[mixing])
    kind = FusionAttributes.make(kind=FusionKind.LOOP)
    return edit.create(
        parent,
        opcodes.FUSION,
        operands,
        kind,
        [fused],
        shape=mixing.shape,
        name="attention.fusion",
        metadata=mixing.metadata,
    )
