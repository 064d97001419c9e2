"""Programs that are watched for NaN and infinities while they run: thunks that let the host look at values.

Behind each thunk that computes, the host looks at what it gave and at its operands, which are still there: such programs
overwrite nothing that an instruction reads. Programs that are not watched have no such thunks.

Owns: these thunks and where they stand. Must not know: what counts as made (`interpreter.checks`), what the host does,
LLVM.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xlapy import opcodes
from xlapy.cpu.program.thunks import CallbackThunk, Thunk, WhileThunk
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.checks import may_hold_nan_or_infinity

if TYPE_CHECKING:
    from xlapy.cpu.program.builder import Scope

_CALLERS = frozenset({opcodes.CALL, opcodes.CONDITIONAL, opcodes.WHILE})


@dataclass(eq=False, slots=True)
class ValueCheckThunk(CallbackThunk):
    """The host looks at the value of an instruction: its operands' arrays and, behind them, its own."""


@dataclass(eq=False, slots=True)
class IterationThunk(CallbackThunk):
    """A loop begins, or a turn of it does."""

    begins: bool = False


def add_checks(scope: Scope, instruction: Instruction) -> None:
    """Appends what lets the host look at the value of an instruction, whose thunks are the last of the scope."""
    if instruction.op is opcodes.WHILE:
        _count_turns(scope, instruction)
    elif instruction.op not in _CALLERS and may_hold_nan_or_infinity(instruction):
        operands = [slice_ for operand in instruction.operands for slice_ in scope.slices_of(operand)]
        slices = [*operands, *scope.slices_of(instruction)]
        callbacks = scope.maker.program.callbacks
        thunk = ValueCheckThunk(len(callbacks), instruction, slices, [], instruction.name)
        callbacks.append(thunk)
        scope.thunks.append(thunk)


def _count_turns(scope: Scope, loop: Instruction) -> None:
    found = scope.thunks[-1]
    assert isinstance(found, WhileThunk)
    scope.thunks.insert(-1, _turn(scope, loop, begins=True))
    found.body.insert(0, _turn(scope, loop, begins=False))


def _turn(scope: Scope, loop: Instruction, *, begins: bool) -> Thunk:
    callbacks = scope.maker.program.callbacks
    thunk = IterationThunk(len(callbacks), loop, [], [], loop.name, begins=begins)
    callbacks.append(thunk)
    return thunk
