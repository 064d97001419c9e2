"""Programs that are watched for NaN and infinities while they run: steps that let the host look at values.

Behind each step that computes, the host looks at what it gave and at its operands, which are still there: such programs
overwrite nothing that an instruction reads. Programs that are not watched have no such steps.

Owns: these steps and where they stand. Must not know: what counts as made (`interpreter.checks`), what the host does,
LLVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlapy import opcodes
from xlapy.cpu.program.thunks import CallbackStep, Step, WhileStep
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.checks import looks_at

if TYPE_CHECKING:
    from xlapy.cpu.program.builder import Scope

_CALLERS = frozenset({opcodes.CALL, opcodes.CONDITIONAL, opcodes.WHILE})


@dataclass(eq=False, slots=True)
class LookStep(CallbackStep):
    """The host looks at the value of an instruction: its operands' arrays and, behind them, its own."""


@dataclass(eq=False, slots=True)
class TurnStep(CallbackStep):
    """A loop begins, or a turn of it does."""

    begins: bool = False


def add_checks(scope: Scope, instruction: Instruction) -> None:
    """Appends what lets the host look at the value of an instruction, whose steps are the last of the scope."""
    if instruction.op is opcodes.WHILE:
        _count_turns(scope, instruction)
    elif instruction.op not in _CALLERS and looks_at(instruction):
        operands = [slot for operand in instruction.operands for slot in scope.slots_of(operand)]
        slots = [*operands, *scope.slots_of(instruction)]
        callbacks = scope.maker.program.callbacks
        step = LookStep(len(callbacks), instruction, slots, [], instruction.name)
        callbacks.append(step)
        scope.steps.append(step)


def _count_turns(scope: Scope, loop: Instruction) -> None:
    found = scope.steps[-1]
    assert isinstance(found, WhileStep)
    scope.steps.insert(-1, _turn(scope, loop, begins=True))
    found.body.insert(0, _turn(scope, loop, begins=False))


def _turn(scope: Scope, loop: Instruction, *, begins: bool) -> Step:
    callbacks = scope.maker.program.callbacks
    step = TurnStep(len(callbacks), loop, [], [], loop.name, begins=begins)
    callbacks.append(step)
    return step
