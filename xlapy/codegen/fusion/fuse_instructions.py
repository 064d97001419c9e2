"""Instruction fusion: instructions that can be computed element by element together become one `fusion`, one kernel.

Instructions are visited from the last to the first. An instruction joins the fusion group of its users if all of its
users are in one group. Only two kinds of instructions are computed by several groups: those whose elements cost nothing
(broadcasts, constants, iotas), and those that are cheaper to compute again than to store and load.

Does not depend on kernels. What one kernel can compute is decided in `groups`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.codegen.emitters.matmul.ragged_problem import has_ragged_problem
from xlapy.codegen.epilogue import CONTRACTIONS
from xlapy.codegen.fusion.decisions import Decision, DecisionKind, Explain, ignore_decision
from xlapy.codegen.fusion.elementwise_loops import is_fused
from xlapy.codegen.fusion.exchanges import PendingExchanges
from xlapy.codegen.fusion.groups import ALWAYS_DUPLICATED, FusionGroup, is_profitable_to_duplicate
from xlapy.codegen.fusion.multi_output import fuse_multi_output
from xlapy.codegen.plan import has_plan
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.inlining import inline_call
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.lower import LOWERINGS
from xlapy.lower.scalar_computations import applies_unlowerable_computation
from xlapy.lower.sources import uniform_value
from xlapy.opcodes.control import FusionAttributes, FusionKind
from xlapy.opcodes.sources import ParameterAttributes
from xlapy.opcodes.tuples import GetTupleElementAttributes
from xlapy.passes.rewrite import update_schedule

MAX_FUSION_INSTRUCTIONS = 120
"""The largest number of instructions of one fusion, because compile time grows faster than the length of a function."""

_CALLERS = frozenset({opcodes.CALL, opcodes.CONDITIONAL, opcodes.WHILE})
_NEVER_FUSED = frozenset(
    {opcodes.CALL, opcodes.TUPLE, opcodes.GET_TUPLE_ELEMENT, opcodes.COPY, opcodes.DYNAMIC_UPDATE_SLICE}
)


@dataclass(frozen=True)
class Unfuse:
    """Inlines the fusions of a module: fusions of another compiler do not fit the kernels of this one.

    Fusions with a kernel plan stay as they are.
    """

    name: ClassVar[str] = "unfuse"

    def run(self, module: Module) -> bool:
        fusions = [i for i in module.instructions() if i.op is opcodes.FUSION and not has_plan(i)]
        for fusion in fusions:
            fused = fusion.computations[0]
            inline_call(fusion)
            if not fused.callers:
                edit.remove_computation(fused)
        return update_schedule(module, bool(fusions))


@dataclass(frozen=True)
class Fuse:
    """Replaces groups of instructions by loop fusions."""

    name: ClassVar[str] = "fuse"
    max_instructions: int = MAX_FUSION_INSTRUCTIONS
    explain: Explain | None = None
    """Called with each decision and its reason."""
    on_copy: Callable[[Instruction, Instruction], None] | None = None
    """Called with each instruction that a fusion computes, and its copy in the fused computation."""
    overlaps: bool = False
    """Whether what can run during an exchange between devices stays out of kernels that run before or after it."""

    def run(self, module: Module) -> bool:
        changed = False
        for computation in module.computations:
            if _runs_on_arrays(computation):
                changed |= _Fuser(module, computation, self).run()
        return update_schedule(module, changed)


class _Fuser:
    def __init__(self, module: Module, computation: Computation, options: Fuse) -> None:
        self.explain = options.explain or ignore_decision
        self.on_copy = options.on_copy
        self.module = module
        self.computation = computation
        self.max_instructions = options.max_instructions
        self.groups: dict[Instruction, dict[FusionGroup, None]] = {}
        """The groups that compute each instruction: several if that is cheaper than to keep its value in memory."""
        self.replacements = edit.Replacements()
        self.fused: list[Instruction] = []
        """The members of fusions that still have users when their fusion is built."""
        self.order = post_order(computation)
        self._position = {instruction: n for n, instruction in enumerate(self.order)}
        self._exchanges = PendingExchanges(self.order if options.overlaps else ())

    def run(self) -> bool:
        for instruction in reversed(self.order):
            if _can_fuse(instruction):
                self.assign(instruction)
        root = self.computation.root_instruction
        fuse_multi_output(self.order, self.groups, root, self.max_instructions, self.explain, self._exchanges)
        changed = False
        for group in dict.fromkeys(group for groups in self.groups.values() for group in groups):
            changed |= self.build_fusion(group)
        self.replacements.finish()
        self.remove_unused(self.fused)
        return changed

    def assign(self, instruction: Instruction) -> None:
        """Adds an instruction to the groups of its users, or to a new group."""
        groups, reason = self.groups_of_users(instruction)
        if not groups and instruction.op not in ALWAYS_DUPLICATED:
            contractions = [user for user in instruction.users if user.op in CONTRACTIONS]
            self.decide(instruction, DecisionKind.KERNEL, f"gets a kernel: {reason}", contractions)
            group = FusionGroup.of(instruction)
            self.groups[instruction] = {group: None}
            return
        for group in groups:
            group.add(instruction)
        self.groups[instruction] = dict.fromkeys(groups)
        if instruction.op in ALWAYS_DUPLICATED:
            self.decide(
                instruction, DecisionKind.ALWAYS_DUPLICATED, "is computed by each of its users: it costs nothing"
            )
        elif len(groups) > 1:
            names = ", ".join(group.root.name for group in groups)
            text = f"is computed in each of {names}: that takes less memory traffic than storing it"
            self.decide(instruction, DecisionKind.DUPLICATED, text)
        else:
            self.decide(instruction, DecisionKind.FUSED, f"is fused into {groups[0].root.name}, which alone needs it")

    def decide(
        self, instruction: Instruction, kind: DecisionKind, text: str, others: Sequence[Instruction] = ()
    ) -> None:
        """Reports a decision. others: further instructions that the decision is about, such as a dot that reads an
        operand from memory."""
        what = f"{instruction.name} ({instruction.op.name})"
        subjects = (instruction.name, *(other.name for other in others))
        self.explain(Decision(subjects, kind, f"{what} {text}"))

    def groups_of_users(self, instruction: Instruction) -> tuple[list[FusionGroup], str]:
        """The groups that can compute an instruction for all of its users; or no groups, and the reason."""
        found = dict.fromkeys(group for user in instruction.users for group in self.groups.get(user, ()))
        if instruction.op in ALWAYS_DUPLICATED:
            return list(found), ""
        if instruction is self.computation.root_instruction or not instruction.has_users:
            return [], "it is a result"
        if has_plan(instruction):
            return [], "the module demands a plan for its kernel"
        outside = [user for user in instruction.users if not self.groups.get(user)]
        if outside:
            names = ", ".join(f"{user.name} ({user.op.name})" for user in outside)
            return [], f"{names} needs it in memory"
        if len(found) > 1:
            names = ", ".join(sorted(group.root.name for group in found))
            reason = f"its users are in different kernels ({names})"
            if not is_profitable_to_duplicate(instruction, len(found)):
                return [], reason
            if any(self.reason_not_to_fuse(group, instruction) for group in found):
                return [], reason
            return list(found), ""
        (group,) = found
        reason = self.reason_not_to_fuse(group, instruction)
        return ([], reason) if reason else ([group], "")

    def reason_not_to_fuse(self, group: FusionGroup, instruction: Instruction) -> str:
        """Why a group cannot compute an instruction that its members use; "" if it can."""
        if len(group.members) >= self.max_instructions:
            return f"the kernel of {group.root.name} has {self.max_instructions} instructions, the maximum"
        if self._exchanges.may_delay(instruction, group.results):
            return f"it can run during an exchange between devices for which {group.root.name} waits"
        return group.reason_not_to_fuse(instruction)

    def build_fusion(self, group: FusionGroup) -> bool:
        """Replaces the results of a group by a fusion, and removes members without users; returns whether it did."""
        members = sorted(group.members, key=lambda i: self._position[i])
        if len(members) == 1:
            return False
        for instruction in members:
            self.replacements.finish(instruction)
        fused = edit.add_computation(self.module, "fused_computation")
        copies: dict[Instruction, Instruction] = {}
        operands: list[Instruction] = []
        for instruction in members:
            for operand in instruction.operands:
                if operand not in copies:
                    attributes = ParameterAttributes.make(number=len(operands))
                    copies[operand] = edit.create(
                        fused, opcodes.PARAMETER, (), attributes, shape=operand.shape, name="param"
                    )
                    operands.append(operand)
            copies[instruction] = edit.clone_instruction(instruction, fused, [copies[o] for o in instruction.operands])
            if has_plan(instruction):
                copies[instruction].backend_config = ""  # it is that of the fusion
            if self.on_copy is not None:
                self.on_copy(instruction, copies[instruction])
        results = [copies[result] for result in group.results]
        edit.set_root(fused, results[0] if len(results) == 1 else edit.create(fused, opcodes.TUPLE, results))
        self.replace_results(group, operands, fused)
        self.remove_unused(members)
        self.fused += [instruction for instruction in members if instruction in self.computation]
        return True

    def remove_unused(self, members: list[Instruction]) -> None:
        """Removes those members of fusions that have no users any more."""
        for instruction in reversed(members):
            if instruction in self.computation and not instruction.has_users:
                edit.remove(instruction)

    def replace_results(self, group: FusionGroup, operands: list[Instruction], fused: Computation) -> None:
        """Creates the fusion instruction, whose results take the place of those of the group."""
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
            fusion.backend_config = root.backend_config if has_plan(root) else ""
            self.replacements.replace_uses(root, fusion)
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
            self.replacements.replace_uses(result, element)


def _runs_on_arrays(computation: Computation) -> bool:
    """Whether a computation works on whole arrays, so that its instructions can be fused. Reducers do not, and neither
    do loops that are kernels."""
    is_called = any(caller.op in _CALLERS for caller in computation.callers)
    return computation.is_entry or (is_called and not is_fused(computation))


def _can_fuse(instruction: Instruction) -> bool:
    has_kernel = (
        has_ragged_problem(instruction) if instruction.op is opcodes.RAGGED_DOT else instruction.op in LOWERINGS
    )
    if not has_kernel or instruction.op in _NEVER_FUSED or applies_unlowerable_computation(instruction):
        return False
    if instruction.has_control_edges:
        return False
    if instruction.op is opcodes.CONSTANT:
        return instruction.shape.is_array and uniform_value(instruction) is not None
    return instruction.shape.is_array or instruction.op is opcodes.REDUCE
