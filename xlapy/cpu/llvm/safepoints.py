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

from xlapy.analysis.cost.reference_machine import CYCLES_PER_MICROSECOND
from xlapy.cpu.llvm.communication.waits import CancellationWord
from xlapy.cpu.llvm.text import IrBuilder
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import WhileThunk
from xlapy.native.function import Function, external, native
from xlapy.native.ir import RELAXED
from xlapy.native.llvm import function_text
from xlapy.native.records import SLOT, Atomic, Final, Record, Trailing
from xlapy.native.values import Address, Int32, Word

POLL_INTERVAL = 8 * CYCLES_PER_MICROSECOND
"""Cycles between two polls: eight microseconds, of which a poll takes some nanoseconds."""

MIN_POLLED_PARALLEL_CYCLES = 4096 * CYCLES_PER_MICROSECOND
"""Parallel loops that take longer, four milliseconds on one core, poll between their chunks."""

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

POLL_HELPERS = """define internal i64 @read_ticks() alwaysinline {
  %now = call i64 @llvm.readcyclecounter()
  ret i64 %now
}
define internal i64 @current_thread() alwaysinline {
  %own = load i64, ptr addrspace(257) null
  ret i64 %own
}
define internal i32 @call_host_poll(ptr %host) #0 {
entry:
  %old = alloca i32
  call void @reset_mxcsr(ptr %old)
  %answer = call i32 %host()
  call void @llvm.x86.sse.ldmxcsr(ptr %old)
  ret i32 %answer
}"""
"""The text of the functions that `xlapy_poll` calls, which call `reset_mxcsr`."""


class PollState(Record):
    """The entries of an address table for polls. thread: the one that calls the host. last: the time of its last call.
    stopped: the host's answer, which ends the run if it is not 0."""

    host: Final[Address]
    thread: Final[Word]
    last: Atomic[Word]
    stopped: Atomic[Word]


class AddressTable(Record):
    """The address table of a run, of which polls read the address of shared memory."""

    entries: Trailing[CancellationWord]


@external
def read_ticks(f: Function) -> Word:  # type: ignore[empty-body]
    """The time-stamp counter."""


@external
def current_thread(f: Function) -> Word:  # type: ignore[empty-body]
    """The identity of this thread."""


@external
def call_host_poll(f: Function, host: Address) -> Int32:  # type: ignore[empty-body]
    """Calls the host in the default floating-point mode; returns its answer."""


@native
def xlapy_poll(f: Function, table: AddressTable, shared_index: Word, poll_index: Word) -> Int32:
    """Polls; see above. Called by any thread of a run."""
    with f.when(table.entries[shared_index].is_canceled.load(RELAXED) != 0):
        f.ret(1)
    state = table.offset(poll_index * SLOT).cast(PollState)
    with f.when(state.stopped.load(RELAXED) != 0):
        f.ret(1)
    now = read_ticks(f)
    with f.when(now - state.last.load(RELAXED) < _TICKS_BETWEEN_HOST_CALLS):
        f.ret(0)
    with f.when(current_thread(f) != state.thread):
        f.ret(0)
    state.last.store(now, RELAXED)
    answer = call_host_poll(f, state.host)
    state.stopped.store(answer.to(Word), RELAXED)
    return answer


def poll_text() -> str:
    """The LLVM text of `xlapy_poll` and of the functions that it calls."""
    return "\n".join([*function_text(xlapy_poll.built(), is_exported=True, attributes="#0"), POLL_HELPERS])


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
