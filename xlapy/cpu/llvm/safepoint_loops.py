"""Selects the loops of kernels that poll for cancellation: those that run too long for a program to stop in time.

Most kernels need no polls: a long computation consists of iterations of a parallel loop, which run in chunks with polls
between them. A single iteration may still be long, such as the sum or the sort of a very long row.

Responsible for which loops poll, how often, and for the emitted code. Does not depend on what happens when a program
stops.
"""

from __future__ import annotations

from typing import NamedTuple

from xlapy.cpu.llvm.safepoints import POLL_INTERVAL
from xlapy.cpu.llvm.shared_code import POLL
from xlapy.cpu.llvm.text import IrBuilder
from xlapy.loops import AxisKind, For, Kernel, While
from xlapy.loops.cost import KernelCost

MIN_POLLED_LOOP_CYCLES = 1 << 23
"""Loops that take more cycles poll. That many take some hundredths of a second on memory that is touched for the first
time."""

LEAVE = "leave"
"""The label of the end of the function, to which a poll jumps if the program should stop."""


class PollEntries(NamedTuple):
    """The entries of the address table that the poll function receives."""

    shared: int
    poll: int


def may_poll(kernel: Kernel, cycles: float) -> bool:
    """Whether a loop of a kernel may poll, whose estimated cost is `cycles`. Only loops whose end depends on data take
    longer than the kernel is estimated to take."""
    return cycles > MIN_POLLED_LOOP_CYCLES or any(isinstance(statement, While) for statement in kernel.statements())


def loops_with_polls(kernel: Kernel) -> dict[For | While, int]:
    """Returns the loops of a kernel that poll, each with the iterations between polls, a power of two."""
    return {
        loop: 1 << (max(1, int(POLL_INTERVAL / cycles)).bit_length() - 1)
        for loop, (iterations, cycles) in KernelCost(kernel, while_iterations=None).loops.items()
        if not _is_divided(loop) and iterations * cycles > MIN_POLLED_LOOP_CYCLES
    }


def _is_divided(loop: For | While) -> bool:
    """Whether the caller of the kernel divides the loop into chunks, or the loop is unrolled."""
    return isinstance(loop, For) and loop.kind in (AxisKind.PARALLEL, AxisKind.UNROLL)


def emit_poll(ir: IrBuilder, entries: PollEntries, counter: str, step: int, period: int) -> None:
    """Emits a poll once in `period` iterations, each of which adds `step` to the counter; jumps to LEAVE to stop."""
    due, on = ir.new_label("due"), ir.new_label("on")
    phase = ir.assign(f"and i64 {counter}, {period * (1 << (step - 1).bit_length()) - 1}")
    ir.cond_br(ir.assign(f"icmp ult i64 {phase}, {step}"), due, on)
    ir.start_block(due)
    arguments = [("ptr", "%table"), ("i64", str(entries.shared)), ("i64", str(entries.poll))]
    status = ir.call("i32", POLL, arguments)
    ir.cond_br(ir.assign(f"icmp eq i32 {status}, 0"), on, LEAVE)
    ir.start_block(on)
