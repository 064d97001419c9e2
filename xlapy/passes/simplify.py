"""Algebraic simplification: the pass that applies rewrite rules until none matches.

Responsible for the order in which instructions are visited. The rules are in `algebra/<family>.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import ClassVar

from xlapy import opcodes
from xlapy.base.error_codes.compilation import passes as codes
from xlapy.base.errors import PassError
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction, describe_instruction
from xlapy.hlo.module import Module
from xlapy.hlo.traverse import post_order
from xlapy.passes.algebra import REWRITES, RewriteRule
from xlapy.passes.rewrite import (
    Writer,
    can_replace,
    editable_computations,
    is_dead,
    replace_with_existing,
    replace_with_new,
    update_schedule,
)

_MAX_REWRITES_PER_INSTRUCTION = 100
"""If a computation takes more rewrites on average, its rewriting is assumed not to end."""


@dataclass(frozen=True)
class Simplify:
    """Rewrites operations to simpler ones with the same results.

    layout_sensitive: do not replace a value by one with another layout; set it after layout assignment.
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
    """Applies rules (default: all) to a computation until none matches. Raises `PassError` if that does not end."""
    only = None if rules is None else frozenset(rules)
    pending = _Worklist(post_order(computation))
    left = _MAX_REWRITES_PER_INSTRUCTION * (len(computation) + 10)
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
            raise PassError(
                codes.PASSES_END,
                f"rewriting of {computation.name} does not end; the last rewrite was of "
                f"{describe_instruction(instruction)}",
            )
    return changed


class _Worklist:
    """A queue of instructions to visit that holds each at most once."""

    def __init__(self, instructions: Iterable[Instruction]) -> None:
        self._queue: deque[Instruction] = deque()
        self._queued: set[Instruction] = set()
        self.add(instructions)

    def add(self, instructions: Iterable[Instruction]) -> None:
        for instruction in instructions:
            if instruction not in self._queued:
                self._queued.add(instruction)
                self._queue.append(instruction)

    def pop(self) -> Instruction:
        instruction = self._queue.popleft()
        self._queued.discard(instruction)
        return instruction

    def __bool__(self) -> bool:
        return bool(self._queue)


def _may_change(instruction: Instruction) -> bool:
    """Returns whether rules may be tried; dead code, control edges and dynamic dimensions are left unchanged."""
    if instruction.parent is None or is_dead(instruction) or instruction.has_control_edges:
        return False
    if instruction.op in (opcodes.PARAMETER, opcodes.CONSTANT):
        return False
    return not (instruction.shape.is_dynamic or any(operand.shape.is_dynamic for operand in instruction.operands))


def _apply(rule: RewriteRule, instruction: Instruction, layout_sensitive: bool) -> list[Instruction] | None:
    """Applies a rule; returns the instructions to visit again if it replaced the instruction, else None."""
    write = Writer(instruction)
    result = rule(write, instruction)
    if result is None:
        return None
    operands, users = instruction.operands, instruction.users
    if result in write.created:
        replace_with_new(instruction, result)
    elif can_replace(result, instruction, layout_sensitive):
        replace_with_existing(instruction, result)
    else:
        write.discard()
        return None
    return [*(i for i in (*write.created, result) if i.parent is not None), *users, *_single_users(operands)]


def _single_users(operands: Iterable[Instruction]) -> Iterator[Instruction]:
    """Yields the only users of former operands, because some rules match operands with a single user."""
    for operand in operands:
        if operand.parent is not None and operand.user_count == 1:
            yield operand.users[0]
