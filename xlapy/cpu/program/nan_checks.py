"""Adds thunks that let the host check values for NaN and infinities while a program runs.

After each instruction, the host checks its result and its operands, which are still available because such programs do
not reuse the memory of operands. Other programs contain no such thunks.

Responsible for these thunks and their positions. Does not depend on what counts as a defect (`interpreter.checks`), on
what the host does, or on LLVM.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.cpu.program.builder import LoweringContext
from xlapy.cpu.program.thunks import IterationThunk, ValueCheckThunk
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.checks import may_hold_nan_or_infinity

_CONTROL_FLOW = frozenset({opcodes.CALL, opcodes.CONDITIONAL, opcodes.WHILE})


def add_value_check(context: LoweringContext, instruction: Instruction) -> None:
    """Appends the thunk that checks an instruction, whose own thunks are the last ones of the context."""
    if instruction.op is opcodes.WHILE:
        _count_iterations(context, instruction)
    elif instruction.op not in _CONTROL_FLOW and may_hold_nan_or_infinity(instruction):
        operands = [slice_ for operand in instruction.operands for slice_ in context.slices_of(operand)]
        slices = [*operands, *context.slices_of(instruction)]
        number = len(context.builder.program.host_calling_thunks)
        context.append_callback(ValueCheckThunk(number, instruction, slices, [], instruction.name))


def _count_iterations(context: LoweringContext, loop: Instruction) -> None:
    _, body = context.thunks[-1].nested
    context.thunks.insert(-1, _iteration_thunk(context, loop, starts_loop=True))
    body.insert(0, _iteration_thunk(context, loop, starts_loop=False))


def _iteration_thunk(context: LoweringContext, loop: Instruction, *, starts_loop: bool) -> IterationThunk:
    thunks = context.builder.program.host_calling_thunks
    thunk = IterationThunk(len(thunks), loop, [], [], loop.name, starts_loop=starts_loop)
    thunks.append(thunk)
    return thunk
