"""Fusion: instructions that can be computed element by element together become one `fusion`, one kernel.

From the last instruction to the first: an instruction joins the fusion of its users if all of them are in one. Nothing
is computed twice but what costs nothing (broadcasts, constants, iotas, which every user gets for itself), and what
costs less than its way through memory.

Owns: the order of decisions, the fusions made of them. Must not know: kernels, what one may compute (`groups`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.codegen.fusion.decisions import Decision, DecisionKind, Explain, silent
from xlapy.codegen.fusion.groups import FREE, Group, worth_computing_again
from xlapy.codegen.fusion.multi_output import merge_groups
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.lower import LOWERINGS
from xlapy.lower.scalar_computations import applies_unlowerable_computation
from xlapy.lower.sources import uniform_value
from xlapy.opcodes.control import FusionAttributes, FusionKind
from xlapy.opcodes.sources import ParameterAttributes
from xlapy.opcodes.tuples import GetTupleElementAttributes
from xlapy.passes.rewrite import settle

MOST_INSTRUCTIONS = 120
"""In one fusion: the time to compile a function grows faster than its length."""

_CALLERS = frozenset({opcodes.CALL, opcodes.CONDITIONAL, opcodes.WHILE})
_ALONE = frozenset({opcodes.CALL, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, opcodes.COPY, opcodes.DYNAMIC_UPDATE_SLICE})


@dataclass(frozen=True)
class Unfuse:
    """Takes fusions apart: those in a module that another compiler printed are not ours."""

    name: ClassVar[str] = "unfuse"

    def run(self, module: Module) -> bool:
        fusions = [i for i in module.instructions() if i.op is opcodes.FUSION]
        for fusion in fusions:
            fused = fusion.computations[0]
            edit.inline(fusion)
            if not fused.callers:
                edit.remove_computation(fused)
        return settle(module, bool(fusions))


@dataclass(frozen=True)
class Fuse:
    """Groups instructions into loop fusions."""

    name: ClassVar[str] = "fuse"
    most: int = MOST_INSTRUCTIONS
    explain: Explain | None = None
    """Told each decision and its reason."""
    copied: Callable[[Instruction, Instruction], None] | None = None
    """Told each instruction that a fusion computes, and its copy inside."""

    def run(self, module: Module) -> bool:
        changed = False
        for computation in module.computations:
            if _runs_on_arrays(computation):
                changed |= _Fuser(module, computation, self).run()
        return settle(module, changed)


class _Fuser:
    def __init__(self, module: Module, computation: Computation, options: Fuse) -> None:
        self.explain = options.explain or silent
        self.copied = options.copied
        self.module = module
        self.computation = computation
        self.most = options.most
        self.groups: dict[Instruction, list[Group]] = {}
        """Those that compute an instruction: several, if it costs less than to keep it in memory."""
        self.order = post_order(computation)
        self._place = {instruction: n for n, instruction in enumerate(self.order)}

    def run(self) -> bool:
        for instruction in reversed(self.order):
            if _can_fuse(instruction):
                self.place(instruction)
        root = self.computation.root_instruction
        merge_groups(self.order, self.groups, root, self.most, self.explain)
        changed = False
        for group in dict.fromkeys(group for groups in self.groups.values() for group in groups):
            changed |= self.make(group)
        return changed

    def place(self, instruction: Instruction) -> None:
        """Into the groups of its users, or into one of its own."""
        groups, reason = self.groups_of_users(instruction)
        if not groups and instruction.op not in FREE:
            self.decide(instruction, DecisionKind.KERNEL, f"gets a kernel: {reason}")
            group = Group.of(instruction)
            self.groups[instruction] = [group]
            return
        for group in groups:
            group.add(instruction)
        self.groups[instruction] = groups
        names = ", ".join(group.root.name for group in groups)
        if instruction.op in FREE:
            self.decide(instruction, DecisionKind.FREE, "is computed by each of its users: it costs nothing")
        elif len(groups) > 1:
            text = f"is computed in each of {names}: that takes less memory traffic than to keep it"
            self.decide(instruction, DecisionKind.REPEATED, text)
        else:
            self.decide(instruction, DecisionKind.JOINED, f"is computed with {names}, which alone needs it")

    def decide(self, instruction: Instruction, kind: DecisionKind, text: str) -> None:
        what = f"{instruction.name} ({instruction.op.name})"
        self.explain(Decision((instruction.name,), kind, f"{what} {text}"))

    def groups_of_users(self, instruction: Instruction) -> tuple[list[Group], str]:
        """The groups that may compute the instruction for its users, if that serves all of them; else why not."""
        found = dict.fromkeys(group for user in instruction.users for group in self.groups.get(user, []))
        if instruction.op in FREE:
            return list(found), ""
        if instruction is self.computation.root_instruction or not instruction.has_users:
            return [], "it is a result"
        outside = [user for user in instruction.users if not self.groups.get(user)]
        if outside:
            names = ", ".join(f"{user.name} ({user.op.name})" for user in outside)
            return [], f"{names} needs it in memory"
        if len(found) > 1:
            names = ", ".join(sorted(group.root.name for group in found))
            reason = f"its users are in different kernels ({names})"
            if not worth_computing_again(instruction, len(found)):
                return [], reason
            if any(self.reason_apart(group, instruction) for group in found):
                return [], reason
            return list(found), ""
        (group,) = found
        reason = self.reason_apart(group, instruction)
        return ([], reason) if reason else ([group], "")

    def reason_apart(self, group: Group, instruction: Instruction) -> str:
        """Why the group may not compute an instruction that its members need; "" if it may."""
        if len(group.members) >= self.most:
            return f"the kernel of {group.root.name} has {self.most} instructions, the most there may be"
        return group.reason_apart(instruction)

    def make(self, group: Group) -> bool:
        """A fusion in place of the group's root; members whose users are all inside go."""
        inside = sorted(group.members, key=lambda i: self._place[i])
        if len(inside) == 1:
            return False
        fused = edit.add_computation(self.module, "fused_computation")
        made: dict[Instruction, Instruction] = {}
        operands: list[Instruction] = []
        for instruction in inside:
            for operand in instruction.operands:
                if operand not in made:
                    attributes = ParameterAttributes.make(number=len(operands))
                    made[operand] = edit.create(
                        fused, opcodes.PARAMETER, (), attributes, shape=operand.shape, name="param"
                    )
                    operands.append(operand)
            made[instruction] = edit.clone_instruction(instruction, fused, [made[o] for o in instruction.operands])
            if self.copied is not None:
                self.copied(instruction, made[instruction])
        results = [made[result] for result in group.results]
        edit.set_root(fused, results[0] if len(results) == 1 else edit.create(fused, opcodes.TUPLE, results))
        self.replace(group, operands, fused)
        for instruction in reversed(inside):
            if instruction in self.computation and not instruction.has_users:
                edit.remove(instruction)
        return True

    def replace(self, group: Group, operands: list[Instruction], fused: Computation) -> None:
        """A call of the fused computation, and its results in place of the group's."""
        kind, root = FusionAttributes.make(kind=FusionKind.LOOP), group.root
        shape = fused.root_instruction.shape
        fusion = edit.create(
            self.computation,
            opcodes.FUSION,
            operands,
            kind,
            [fused],
            shape=shape,
            name=f"{root.name}.fusion",
            metadata=root.metadata,
        )
        if len(group.results) == 1:
            edit.replace_uses(root, fusion)
            return
        for number, result in enumerate(group.results):
            attributes = GetTupleElementAttributes.make(index=number)
            element = edit.create(
                self.computation,
                opcodes.GET_TUPLE_ELEMENT,
                [fusion],
                attributes,
                name=result.name,
                metadata=result.metadata,
            )
            edit.replace_uses(result, element)


def _runs_on_arrays(computation: Computation) -> bool:
    """Whether the program runs the computation by itself: reducers and the like are parts of kernels already."""
    return computation.is_entry or any(caller.op in _CALLERS for caller in computation.callers)


def _can_fuse(instruction: Instruction) -> bool:
    if instruction.op not in LOWERINGS or instruction.op in _ALONE or applies_unlowerable_computation(instruction):
        return False
    if instruction.control_predecessors or instruction.control_successors:
        return False
    if instruction.op is opcodes.CONSTANT:
        return instruction.shape.is_array and uniform_value(instruction) is not None
    return instruction.shape.is_array or instruction.op is opcodes.REDUCE
