"""The pass that rewrites operations to simpler ones, one at a time, until no rule fires.

Owns: the order in which instructions are visited. The rules are in `algebra/<family>.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.base.errors import PassError
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.passes.algebra import REWRITES, RewriteRule
from xlapy.passes.rewrite import (
    Writer,
    can_replace,
    editable_computations,
    has_control_edges,
    is_dead,
    replace_with_existing,
    replace_with_new,
    update_schedule,
)

_REWRITES_AN_INSTRUCTION = 100


@dataclass(frozen=True)
class Simplify:
    """Rewrites operations to simpler ones with the same results.

    layout_sensitive: nothing may stand in for a value of another layout (after layouts were assigned).
    """

    name: ClassVar[str] = "simplify"
    layout_sensitive: bool = False

    def run(self, module: Module) -> bool:
        changed = False
        for computation in editable_computations(module):
            changed |= simplify_computation(computation, self.layout_sensitive)
        return update_schedule(module, changed)


def simplify_computation(
    computation: Computation, layout_sensitive: bool = False, rules: Iterable[RewriteRule] | None = None
) -> bool:
    """Applies rules (default: all) to a computation until none fires; `PassError` if they seem to go in circles."""
    only = None if rules is None else frozenset(rules)
    pending = _Pending(post_order(computation))
    left = _REWRITES_AN_INSTRUCTION * (len(computation) + 10)
    changed = False
    while pending:
        instruction = pending.pop()
        if not _may_change(instruction):
            continue
        for rule in REWRITES.of(instruction.op):
            if only is not None and rule not in only:
                continue
            made = _apply(rule, instruction, layout_sensitive)
            if made is not None:
                changed, left = True, left - 1
                pending.add(made)
                break
        if left < 0:
            raise PassError(f"rewrites of {computation.name} lead in circles, last of {instruction.name}")
    return changed


class _Pending:
    """Instructions to look at, first come first served, each once at a time."""

    def __init__(self, instructions: Iterable[Instruction]) -> None:
        self._queue: deque[Instruction] = deque()
        self._waiting: set[Instruction] = set()
        self.add(instructions)

    def add(self, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            if instruction not in self._waiting:
                self._waiting.add(instruction)
                self._queue.append(instruction)

    def pop(self) -> Instruction:
        instruction = self._queue.popleft()
        self._waiting.discard(instruction)
        return instruction

    def __bool__(self) -> bool:
        return bool(self._queue)


def _may_change(instruction: Instruction) -> bool:
    """Dead code, control edges and dynamic dimensions are others' business."""
    if instruction.parent is None or is_dead(instruction) or has_control_edges(instruction):
        return False
    if instruction.op in (opcodes.PARAMETER, opcodes.CONSTANT):
        return False
    return not (instruction.shape.is_dynamic or any(operand.shape.is_dynamic for operand in instruction.operands))


def _apply(rule: RewriteRule, instruction: Instruction, layout_sensitive: bool) -> list[Instruction] | None:
    """Applies a rule; the instructions to look at again if it fired and its result may stand for the instruction."""
    write = Writer(instruction)
    result = rule(write, instruction)
    if result is None:
        return None
    operands = instruction.operands
    if result in write.created:
        replace_with_new(instruction, result)
    elif can_replace(result, instruction, layout_sensitive):
        replace_with_existing(instruction, result)
    else:
        write.discard()
        return None
    return [*(i for i in (*write.created, result) if i.parent is not None), *result.users, *_lone_readers(operands)]


def _lone_readers(operands: Iterable[Instruction]) -> Iterator[Instruction]:
    """The last users left of former operands: some rules fire where an operand has one user."""
    for operand in operands:
        if operand.parent is not None and len(operand.users) == 1:
            yield operand.users[0]
