"""Fusion: instructions that can be computed element by element together become one `fusion`, one kernel.

From the last instruction to the first: an instruction joins the fusion of its users if all of them are in one, so that
nothing is computed twice but what costs nothing (broadcasts, constants, iotas, which every user gets for itself).

Owns: the decision, and its reasons. Must not know: kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

from xlapy import ops
from xlapy.hlo import edit
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.lower import LOWERINGS
from xlapy.lower.sources import uniform_value
from xlapy.ops.control import FusionAttributes, FusionKind
from xlapy.ops.sources import ParameterAttributes

MOST_INSTRUCTIONS = 120
"""In one fusion: the time to compile a function grows faster than its length."""

_HEAVY = frozenset({ops.DOT, ops.CONVOLUTION, ops.REDUCE_WINDOW, ops.CONCATENATE})
_FREE = frozenset({ops.BROADCAST, ops.IOTA, ops.CONSTANT})
_CALLERS = frozenset({ops.CALL, ops.CONDITIONAL, ops.WHILE})
_ALONE = frozenset({ops.CALL, ops.TUPLE, ops.GET_TUPLE_ELEMENT, ops.COPY, ops.DYNAMIC_UPDATE_SLICE})


@dataclass(frozen=True)
class Unfuse:
    """Takes fusions apart: those in a module that another compiler printed are not ours."""

    name: ClassVar[str] = "unfuse"

    def run(self, module: Module) -> bool:
        fusions = [i for i in module.instructions() if i.op is ops.FUSION]
        for fusion in fusions:
            fused = fusion.computations[0]
            edit.inline(fusion)
            if not fused.callers:
                edit.remove_computation(fused)
        return bool(fusions)


@dataclass(frozen=True)
class Fuse:
    """Groups instructions into loop fusions."""

    name: ClassVar[str] = "fuse"
    most: int = MOST_INSTRUCTIONS
    explain: Callable[[str], None] | None = None
    """Told each decision and its reason."""

    def run(self, module: Module) -> bool:
        changed = False
        for computation in module.computations:
            if _runs_on_arrays(computation):
                changed |= _Fuser(module, computation, self.most, self.explain or _silent).run()
        return changed


@dataclass(eq=False)
class _Group:
    root: Instruction
    members: dict[Instruction, None] = field(default_factory=dict[Instruction, None])


class _Fuser:
    def __init__(self, module: Module, computation: Computation, most: int, explain: Callable[[str], None]) -> None:
        self.explain = explain
        self.module = module
        self.computation = computation
        self.most = most
        self.groups: dict[Instruction, _Group] = {}
        self.order = post_order(computation)
        self._place = {instruction: n for n, instruction in enumerate(self.order)}

    def run(self) -> bool:
        for instruction in reversed(self.order):
            if _can_fuse(instruction):
                self.place(instruction)
        groups = dict.fromkeys(self.groups.values())
        changed = False
        for group in groups:
            changed |= self.make(group)
        return changed

    def place(self, instruction: Instruction) -> None:
        """Into the group of its users, or into one of its own."""
        what = f"{instruction.name} ({instruction.op.name})"
        group, reason = self.group_of_users(instruction)
        if group is not None:
            self.explain(f"{what} is computed with {group.root.name}, which alone needs it")
        elif instruction.op in _FREE:
            self.explain(f"{what} is computed by each of its users: it costs nothing")
            return
        else:
            self.explain(f"{what} gets a kernel: {reason}")
            group = _Group(instruction)
        group.members[instruction] = None
        self.groups[instruction] = group

    def group_of_users(self, instruction: Instruction) -> tuple[_Group | None, str]:
        """The one group that all users are in, if the instruction may be computed there; else why not."""
        if instruction is self.computation.root_instruction or not instruction.has_users:
            return None, "it is a result"
        found = {self.groups.get(user) for user in instruction.users}
        group = next(iter(found))
        if len(found) > 1:
            names = ", ".join(sorted(g.root.name if g else "an instruction that is no kernel" for g in found))
            return None, f"its users are in different kernels ({names})"
        if group is None:
            names = ", ".join(f"{user.name} ({user.op.name})" for user in instruction.users)
            return None, f"{names} needs it in memory"
        if len(group.members) >= self.most:
            return None, f"the kernel of {group.root.name} has {self.most} instructions, the most there may be"
        reason = _reason_apart(group, instruction)
        return (None, reason) if reason else (group, "")

    def make(self, group: _Group) -> bool:
        """A fusion in place of the group's root; members whose users are all inside go."""
        inside = sorted(_with_free_operands(group), key=lambda i: self._place[i])
        if len(inside) == 1:
            return False
        fused = edit.add_computation(self.module, "fused_computation")
        made: dict[Instruction, Instruction] = {}
        operands: list[Instruction] = []
        for instruction in inside:
            for operand in instruction.operands:
                if operand not in made:
                    attributes = ParameterAttributes.make(number=len(operands))
                    made[operand] = edit.create(fused, ops.PARAMETER, (), attributes, shape=operand.shape, name="param")
                    operands.append(operand)
            made[instruction] = edit.clone_instruction(instruction, fused, [made[o] for o in instruction.operands])
        edit.set_root(fused, made[group.root])
        kind, root = FusionAttributes.make(kind=FusionKind.LOOP), group.root
        name = f"{root.name}.fusion"
        fusion = edit.create(
            self.computation, ops.FUSION, operands, kind, [fused], shape=root.shape, name=name, metadata=root.metadata
        )
        edit.replace_uses(root, fusion)
        for instruction in reversed(inside):
            if instruction in self.computation and not instruction.has_users:
                edit.remove(instruction)
        return True


def _silent(_: str) -> None:
    """For whoever does not ask why."""


def _runs_on_arrays(computation: Computation) -> bool:
    """Whether the program runs the computation by itself: reducers and the like are parts of kernels already."""
    return computation.is_entry or any(caller.op in _CALLERS for caller in computation.callers)


def _can_fuse(instruction: Instruction) -> bool:
    if instruction.op not in LOWERINGS or instruction.op in _ALONE:
        return False
    if instruction.control_predecessors or instruction.control_successors:
        return False
    if instruction.op is ops.CONSTANT:
        return instruction.shape.is_array and uniform_value(instruction) is not None
    return instruction.shape.is_array or instruction.op is ops.REDUCE


def _reason_apart(group: _Group, instruction: Instruction) -> str:
    """Why an instruction may not be computed where its users need it; "" if it may."""
    if instruction.op in _HEAVY or not instruction.shape.is_array:
        return f"{instruction.op.name} would be computed again for every element of {group.root.name}"
    if instruction.op is ops.REDUCE:
        if _reduces_rows_of(group, instruction):
            return ""
        return f"it does not reduce rows along which {group.root.name} goes, and would be computed for every element"
    heavy = next((m for m in group.members if m.op in _HEAVY), None)
    if heavy is None or instruction.op in _FREE or instruction.op in (ops.CONVERT, ops.RESHAPE, ops.TRANSPOSE):
        return ""
    return f"{heavy.name} ({heavy.op.name}) reads its elements more than once"


def _reduces_rows_of(group: _Group, reduction: Instruction) -> bool:
    """Whether the reduction has one result for each row of the group's result, along which all its users go.

    Its value is then computed once for the row, before the elements of the row that need it.
    """
    root, operand = group.root.shape, reduction.operands[0].shape
    if not root.is_array or len(reduction.operands) != 2:
        return False
    kept = reduction.shape.rank
    trailing = sorted(reduction.dimensions) == list(range(kept, operand.rank))
    if not trailing or not kept or root.dimensions[:kept] != reduction.shape.dimensions or root.rank <= kept:
        return False
    if root.dimensions[-1] < 16:
        return False
    return all(_goes_along_rows(member, root.dimensions, kept) for member in group.members)


def _goes_along_rows(member: Instruction, dimensions: tuple[int, ...], kept: int) -> bool:
    """Whether an instruction of the group keeps rows where they are."""
    shape = member.shape.dimensions
    if member.op is ops.BROADCAST:
        return member.dimensions == tuple(range(len(member.dimensions))) or not member.operands[0].shape.rank
    if member.op is ops.REDUCE:
        return shape == dimensions[:kept]
    return (member.op.elementwise or member.op in (ops.CONSTANT, ops.IOTA)) and shape in (
        dimensions, dimensions[:kept], (),
    )  # fmt: skip


def _with_free_operands(group: _Group) -> set[Instruction]:
    """The members, and the free instructions that feed them."""
    inside = set(group.members)
    stack = list(group.members)
    while stack:
        for operand in stack.pop().operands:
            if operand not in inside and operand.op in _FREE and _can_fuse(operand):
                inside.add(operand)
                stack.append(operand)
    return inside
