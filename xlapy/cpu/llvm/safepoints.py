"""Looks in LLVM text: whether a program that has run for long is to end early, as another device failed or by a signal.

    i32 @xlapy_look(ptr %table, i64 %shared, i64 %asking)

is 0 to go on; the numbers are places in the table. It is called between thunks that together take about as long as
`LOOK`, from loops at their heads, every so many iterations, between the pieces of long parallel loops (`pool`), and
inside of long kernels (`pauses`), there on any thread. The run may be cancelled by what its devices share; and about
twenty times a second the thread whose identity the table has (Python's main thread, the only one that handles signals)
asks the host. What that says is noted in the table, for those who look afterwards.

Owns: when to look, this text. Must not know: what the host does there.
"""

from __future__ import annotations

from xlapy.cpu.llvm.text import Writer
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import (
    CallbackThunk,
    CollectiveThunk,
    ConditionalThunk,
    CopyThunk,
    KernelThunk,
    LibraryCallThunk,
    OutlinedThunk,
    Thunk,
    WhileThunk,
    nested_thunks,
)

LOOK = 1 << 16
"""Operations, some ten microseconds."""

LONG = 1 << 25
"""Operations, some milliseconds: parallel loops that take longer look between their pieces."""

_MOST = 1 << 10
"""Iterations of a loop between looks."""

_CALLED = 1 << 12
"""Operations that a call of foreign code is taken for."""

_TICKS = 1 << 27
"""Of the processor's clock between questions to the host: a twentieth of a second, more or less."""


def duration(thunk: Thunk) -> int:
    """About how many operations a thunk takes; of loops inside, which look themselves, one iteration."""
    if isinstance(thunk, KernelThunk):
        loop = thunk.kernel.parallel_loop
        extent = loop.extent if loop is not None and isinstance(loop.extent, int) else 1
        return extent * thunk.work
    if isinstance(thunk, CopyThunk):
        return thunk.source.size >> 4
    if isinstance(thunk, ConditionalThunk):
        return max((sum(map(duration, branch)) for branch in thunk.branches), default=0)
    if isinstance(thunk, LibraryCallThunk):
        return thunk.batch * thunk.work
    if isinstance(thunk, CallbackThunk | CollectiveThunk):
        return _CALLED
    assert isinstance(thunk, WhileThunk | OutlinedThunk)
    return sum(duration(inner) for thunks in nested_thunks(thunk) for inner in thunks)


def period(thunk: WhileThunk) -> int:
    """How many iterations of a loop go between looks: a power of two."""
    fitting = max(1, LOOK // max(1, duration(thunk)))
    return min(_MOST, 1 << (fitting.bit_length() - 1))


def write_due(writer: Writer, counter: str, every: int) -> str:
    """Counts an iteration in memory; a register that says whether it is time to look."""
    number = writer.let(f"add i32 {writer.let(f'load i32, ptr {counter}')}, 1")
    writer.do(f"store i32 {number}, ptr {counter}")
    return writer.let(f"icmp eq i32 {writer.let(f'and i32 {number}, {every - 1}')}, 0")


# In the segment 257, that of the register fs, a thread's own address comes first: by that pthread_self knows it.

LOOK_TEXT = f"""define i32 @xlapy_look(ptr %table, i64 %shared.index, i64 %asking.index) #0 {{
entry:
  %old = alloca i32
  %shared.at = getelementptr inbounds ptr, ptr %table, i64 %shared.index
  %shared = load ptr, ptr %shared.at
  %cancelled = load atomic i32, ptr %shared monotonic, align 4
  %is.cancelled = icmp ne i32 %cancelled, 0
  br i1 %is.cancelled, label %end, label %time
end:
  ret i32 1
time:
  %host.at = getelementptr inbounds ptr, ptr %table, i64 %asking.index
  %ended.at = getelementptr inbounds i64, ptr %host.at, i64 3
  %ended = load atomic i64, ptr %ended.at monotonic, align 8
  %is.ended = icmp ne i64 %ended, 0
  br i1 %is.ended, label %end, label %clock
clock:
  %now = call i64 @llvm.readcyclecounter()
  %last.at = getelementptr inbounds i64, ptr %host.at, i64 2
  %last = load i64, ptr %last.at
  %passed = sub i64 %now, %last
  %soon = icmp ult i64 %passed, {_TICKS}
  br i1 %soon, label %go.on, label %who
who:
  %own = load i64, ptr addrspace(257) null
  %thread.at = getelementptr inbounds i64, ptr %host.at, i64 1
  %thread = load i64, ptr %thread.at
  %asks = icmp eq i64 %own, %thread
  br i1 %asks, label %ask, label %go.on
ask:
  store i64 %now, ptr %last.at
  call void @reset_mxcsr(ptr %old)
  %host = load ptr, ptr %host.at
  %answer = call i32 %host()
  call void @llvm.x86.sse.ldmxcsr(ptr %old)
  %no = zext i32 %answer to i64
  store atomic i64 %no, ptr %ended.at monotonic, align 8
  ret i32 %answer
go.on:
  ret i32 0
}}"""
"""The function. It needs `reset_mxcsr`."""

DECLARATIONS = frozenset({"declare i64 @llvm.readcyclecounter()"})


def begin_looking(program: NativeProgram) -> list[str]:
    """Notes the beginning of a run."""
    return [
        f"  %looking.at = getelementptr inbounds i64, ptr %table, i64 {program.poll_index + 2}",
        "  %looking.now = call i64 @llvm.readcyclecounter()",
        "  store i64 %looking.now, ptr %looking.at",
        "  %ended.at = getelementptr inbounds i64, ptr %looking.at, i64 1",
        "  store i64 0, ptr %ended.at",
    ]
