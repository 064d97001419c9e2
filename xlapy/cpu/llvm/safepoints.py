"""Emits safepoint polls: checks whether a program that has run for long should stop early.

    i32 @xlapy_poll(ptr %table, i64 %shared, i64 %poll)

returns 0 to continue; the numbers are entries of the address table. Programs poll between thunks that together take
about `POLL_INTERVAL`, at the heads of loops every few iterations, between the chunks of long parallel loops (`pool`),
and inside of long kernels (`safepoint_loops`), there on any thread. A poll checks whether the run was canceled, which
the memory shared by its devices says. About twenty times a second, the thread whose identity is in the table (Python's
main thread, the only one that handles signals) also calls the host. The host's answer is stored in the table for later
polls.

Responsible for when programs poll, and for the poll function. Does not depend on what the host does.
"""

from __future__ import annotations

from xlapy.analysis.cost import OPERATIONS_PER_MICROSECOND
from xlapy.cpu.llvm.text import IrBuilder
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import WhileThunk

POLL_INTERVAL = 8 * OPERATIONS_PER_MICROSECOND
"""Operations between two polls: eight microseconds, of which a poll takes some nanoseconds."""

MIN_POLLED_PARALLEL_OPERATIONS = 4096 * OPERATIONS_PER_MICROSECOND
"""Parallel loops with more operations, four milliseconds, poll between their chunks."""

_MAX_POLL_PERIOD = 1 << 10
"""The largest number of iterations of a loop between polls."""

_TICKS_BETWEEN_HOST_CALLS = 1 << 27
"""The ticks of the time-stamp counter between calls of the host, about a twentieth of a second."""


def poll_period(thunk: WhileThunk) -> int:
    """Returns the number of iterations of a loop between polls, a power of two."""
    fitting = max(1, POLL_INTERVAL // max(1, thunk.cost))
    return min(_MAX_POLL_PERIOD, 1 << (fitting.bit_length() - 1))


def emit_is_poll_due(ir: IrBuilder, counter: str, period: int) -> str:
    """Counts an iteration in memory; returns a register that says whether it is time to poll."""
    number = ir.assign(f"add i32 {ir.assign(f'load i32, ptr {counter}')}, 1")
    ir.emit(f"store i32 {number}, ptr {counter}")
    return ir.assign(f"icmp eq i32 {ir.assign(f'and i32 {number}, {period - 1}')}, 0")


# Address space 257 is the segment of the register fs. The first word of a thread's control block is its own address,
# which is also the value of pthread_self.

POLL_FUNCTION = f"""define i32 @xlapy_poll(ptr %table, i64 %shared.index, i64 %poll.index) #0 {{
entry:
  %old = alloca i32
  %shared.at = getelementptr inbounds ptr, ptr %table, i64 %shared.index
  %shared = load ptr, ptr %shared.at
  %canceled = load atomic i32, ptr %shared monotonic, align 4
  %is.canceled = icmp ne i32 %canceled, 0
  br i1 %is.canceled, label %end, label %time
end:
  ret i32 1
time:
  %host.at = getelementptr inbounds ptr, ptr %table, i64 %poll.index
  %stopped.at = getelementptr inbounds i64, ptr %host.at, i64 3
  %stopped = load atomic i64, ptr %stopped.at monotonic, align 8
  %was.stopped = icmp ne i64 %stopped, 0
  br i1 %was.stopped, label %end, label %clock
clock:
  %now = call i64 @llvm.readcyclecounter()
  %last.at = getelementptr inbounds i64, ptr %host.at, i64 2
  %last = load i64, ptr %last.at
  %passed = sub i64 %now, %last
  %soon = icmp ult i64 %passed, {_TICKS_BETWEEN_HOST_CALLS}
  br i1 %soon, label %go.on, label %which.thread
which.thread:
  %own = load i64, ptr addrspace(257) null
  %thread.at = getelementptr inbounds i64, ptr %host.at, i64 1
  %thread = load i64, ptr %thread.at
  %calls.host = icmp eq i64 %own, %thread
  br i1 %calls.host, label %call.host, label %go.on
call.host:
  store i64 %now, ptr %last.at
  call void @reset_mxcsr(ptr %old)
  %host = load ptr, ptr %host.at
  %answer = call i32 %host()
  call void @llvm.x86.sse.ldmxcsr(ptr %old)
  %no = zext i32 %answer to i64
  store atomic i64 %no, ptr %stopped.at monotonic, align 8
  ret i32 %answer
go.on:
  ret i32 0
}}"""
"""The text of `xlapy_poll`, which calls `reset_mxcsr`."""

DECLARATIONS = frozenset({"declare i64 @llvm.readcyclecounter()"})


def reset_poll_state(program: NativeProgram) -> list[str]:
    """Returns instructions that store the start of a run in the address table."""
    return [
        f"  %poll.at = getelementptr inbounds i64, ptr %table, i64 {program.poll_index + 2}",
        "  %poll.now = call i64 @llvm.readcyclecounter()",
        "  store i64 %poll.now, ptr %poll.at",
        "  %stopped.at = getelementptr inbounds i64, ptr %poll.at, i64 1",
        "  store i64 0, ptr %stopped.at",
    ]
