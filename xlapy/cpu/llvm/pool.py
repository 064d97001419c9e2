"""The thread pool of the process that runs parallel loops, written in LLVM text: no C compiler, no OpenMP.

    void @xlapy_parallel(ptr function, ptr argument, i64 extent, i64 grain, ptr table, i64 shared, i64 poll)

calls `function(argument, begin, end)` for chunks of `grain` iterations on all threads, and returns when all chunks are
done. Chunks depend only on the extent and the grain, so results do not depend on the number of threads. One word, the
ticket, hands out chunks: its upper half is the number of the job, its lower half the next chunk. A thread takes a chunk
by compare-and-swap, which fails if the job is not the one that the thread has read about. Before the description of a
job is written, the ticket is closed under a number of its own: otherwise a thread that has read the previous ticket
could take chunks of that job by the description of the next one. The caller takes chunks too, so a job finishes even if
no other thread runs. The first job starts the threads, also in the child of a fork, which has none. While one thread of
the process uses the pool, other threads run their loops alone. With a table, the caller polls after each of its chunks
(`safepoints`); if the run should stop, no thread takes another chunk.

Responsible for the pool. Does not depend on what the functions do.
"""

from __future__ import annotations

import ctypes
import os
import platform

from xlapy.base import flags
from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.cpu.llvm.jit import Code, Symbol
from xlapy.cpu.llvm.shared_code import POLL, compile_shared_object, shared_function
from xlapy.native import futex

_MAX_SPINS = 4000
"""The number of iterations that a thread spins before it sleeps or yields."""

POOL = "pool"
"""The name of the object file of the pool."""


@SingleFlight
def parallel_function() -> Symbol:
    """Returns `xlapy_parallel`. The first parallel loop starts the threads."""
    code = _code()
    reset = ctypes.PYFUNCTYPE(None, ctypes.c_int64)(code.addresses["xlapy_reset_pool"])
    reset(thread_count() - 1)
    os.register_at_fork(after_in_child=lambda: reset(thread_count() - 1))
    return code.symbol("xlapy_parallel")


def thread_count() -> int:
    """Returns the flag `num_threads` or, if that is 0, the number of processors that the process may use."""
    return int(flags.get("num_threads")) or len(os.sched_getaffinity(0))


@SingleFlight
def _code() -> Code:
    imports = {POLL: shared_function(POLL)}
    return compile_shared_object(POOL, pool_text(platform.machine()), ["xlapy_parallel", "xlapy_reset_pool"], imports)


def pool_text(machine: str) -> str:
    """Returns the LLVM module of the pool for a machine architecture."""
    is_x86 = machine == "x86_64"
    return _TEXT.format(
        declare_futex=futex.DECLARATION,
        wake=futex.wake_text("@wake", machine),
        wait=futex.wait_text("@wake", "%seen", machine=machine),
        spins=_MAX_SPINS,
        pause="call void @llvm.x86.sse2.pause()" if is_x86 else 'call void asm sideeffect "yield", ""()',
        declare_pause="declare void @llvm.x86.sse2.pause()" if is_x86 else "",
        save_mode="call void @llvm.x86.sse.stmxcsr(ptr @mode)" if is_x86 else "",
        load_mode="call void @llvm.x86.sse.ldmxcsr(ptr @mode)" if is_x86 else "",
        declare_mode="declare void @llvm.x86.sse.stmxcsr(ptr)\ndeclare void @llvm.x86.sse.ldmxcsr(ptr)"
        if is_x86
        else "",
    )


_TEXT = """
@ticket = internal global i64 0, align 64
@done = internal global i64 0, align 64
@wake = internal global i32 0, align 64
@busy = internal global i32 0, align 64
@function = internal global ptr null, align 64
@argument = internal global ptr null
@extent = internal global i64 0
@grain = internal global i64 1
@chunks = internal global i64 0
@mode = internal global i32 0
@missing = internal global i64 0

declare i32 @xlapy_poll(ptr, i64, i64)
{declare_futex}
declare i32 @sched_yield()
declare i32 @pthread_create(ptr, ptr, ptr, ptr)
declare i32 @pthread_detach(i64)
{declare_pause}
{declare_mode}

; Runs chunks of the current job until none is left. The caller of the loop, which passes a table, also polls; if the
; run should stop, it closes the job. Returns the number of chunks that all threads take, which only the caller uses.
define internal i64 @run_chunks(ptr %table, i64 %shared, i64 %poll) {{
entry:
  %no.polls = icmp eq ptr %table, null
  br label %next
next:
  %ticket = load atomic i64, ptr @ticket acquire, align 8
  %index = and i64 %ticket, 4294967295
  %chunks = load atomic i64, ptr @chunks acquire, align 8
  %function = load atomic ptr, ptr @function acquire, align 8
  %argument = load atomic ptr, ptr @argument acquire, align 8
  %extent = load atomic i64, ptr @extent acquire, align 8
  %grain = load atomic i64, ptr @grain acquire, align 8
  %some = icmp ult i64 %index, %chunks
  br i1 %some, label %try, label %end
try:
  %following = add i64 %ticket, 1
  %pair = cmpxchg ptr @ticket, i64 %ticket, i64 %following acq_rel monotonic, align 8
  %taken = extractvalue {{ i64, i1 }} %pair, 1
  br i1 %taken, label %run, label %next
run:
  {load_mode}
  %begin = mul i64 %index, %grain
  %beyond = add i64 %begin, %grain
  %over = icmp ugt i64 %beyond, %extent
  %stop = select i1 %over, i64 %extent, i64 %beyond
  call void %function(ptr %argument, i64 %begin, i64 %stop)
  %before = atomicrmw add ptr @done, i64 1 acq_rel, align 8
  br i1 %no.polls, label %next, label %poll.chunk
poll.chunk:
  %status = call i32 @xlapy_poll(ptr %table, i64 %shared, i64 %poll)
  %goes.on = icmp eq i32 %status, 0
  br i1 %goes.on, label %next, label %close
close:
  %open = atomicrmw or ptr @ticket, i64 4294967295 acq_rel, align 8
  %given = and i64 %open, 4294967295
  %fewer = icmp ult i64 %given, %chunks
  %taken.all = select i1 %fewer, i64 %given, i64 %chunks
  ret i64 %taken.all
end:
  ret i64 %chunks
}}

; Runs the whole loop on this thread.
define internal void @run_alone(ptr %function, ptr %argument, i64 %extent, i64 %grain, ptr %table, i64 %shared,
  i64 %poll) {{
entry:
  %no.polls = icmp eq ptr %table, null
  %step = select i1 %no.polls, i64 %extent, i64 %grain
  br label %run
run:
  %begin = phi i64 [ 0, %entry ], [ %stop, %poll.chunk ]
  %beyond = add i64 %begin, %step
  %over = icmp ugt i64 %beyond, %extent
  %stop = select i1 %over, i64 %extent, i64 %beyond
  call void %function(ptr %argument, i64 %begin, i64 %stop)
  %last = icmp uge i64 %stop, %extent
  br i1 %last, label %end, label %poll.chunk
poll.chunk:
  %status = call i32 @xlapy_poll(ptr %table, i64 %shared, i64 %poll)
  %goes.on = icmp eq i32 %status, 0
  br i1 %goes.on, label %run, label %end
end:
  ret void
}}

define void @xlapy_parallel(ptr %function, ptr %argument, i64 %extent, i64 %grain, ptr %table, i64 %shared,
  i64 %poll) {{
entry:
  %up = add i64 %extent, %grain
  %less = sub i64 %up, 1
  %chunks = udiv i64 %less, %grain
  %few = icmp ult i64 %chunks, 2
  br i1 %few, label %alone, label %enter
enter:
  %pair = cmpxchg ptr @busy, i32 0, i32 1 acq_rel monotonic, align 4
  %free = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %free, label %begin, label %alone
alone:
  call void @run_alone(ptr %function, ptr %argument, i64 %extent, i64 %grain, ptr %table, i64 %shared, i64 %poll)
  ret void
begin:
  {save_mode}
  %missing = load atomic i64, ptr @missing acquire, align 8
  %complete = icmp eq i64 %missing, 0
  br i1 %complete, label %publish, label %start
start:
  store atomic i64 0, ptr @missing release, align 8
  call void @start_threads(i64 %missing)
  br label %publish
publish:
  %old = load atomic i64, ptr @ticket monotonic, align 8
  %job = or i64 %old, 4294967295
  %closed = add i64 %job, 4294967296
  store atomic i64 %closed, ptr @ticket monotonic, align 8
  store atomic ptr %function, ptr @function release, align 8
  store atomic ptr %argument, ptr @argument release, align 8
  store atomic i64 %extent, ptr @extent release, align 8
  store atomic i64 %grain, ptr @grain release, align 8
  store atomic i64 %chunks, ptr @chunks release, align 8
  store atomic i64 0, ptr @done release, align 8
  %ticket = add i64 %closed, 1
  store atomic i64 %ticket, ptr @ticket release, align 8
  %shifted = lshr i64 %ticket, 32
  %number = trunc i64 %shifted to i32
  store atomic i32 %number, ptr @wake seq_cst, align 4
  %woken = {wake}
  %taken = call i64 @run_chunks(ptr %table, i64 %shared, i64 %poll)
  br label %wait
wait:
  %spins = phi i64 [ 0, %publish ], [ %more, %pause ], [ 0, %yield ]
  %done = load atomic i64, ptr @done acquire, align 8
  %all = icmp eq i64 %done, %taken
  br i1 %all, label %leave, label %spin
spin:
  %more = add i64 %spins, 1
  %long = icmp ugt i64 %more, {spins}
  br i1 %long, label %yield, label %pause
pause:
  {pause}
  br label %wait
yield:
  %yielded = call i32 @sched_yield()
  br label %wait
leave:
  store atomic i32 0, ptr @busy release, align 4
  ret void
}}

; A thread of the pool: waits for a job that it has not seen, first spinning, then sleeping.
define internal ptr @worker(ptr %unused) {{
entry:
  br label %wait
wait:
  %seen = phi i32 [ 0, %entry ], [ %seen, %pause ], [ %seen, %sleep ], [ %now, %found ]
  %spins = phi i64 [ 0, %entry ], [ %more, %pause ], [ 0, %sleep ], [ 0, %found ]
  %now = load atomic i32, ptr @wake acquire, align 4
  %same = icmp eq i32 %now, %seen
  br i1 %same, label %spin, label %found
spin:
  %more = add i64 %spins, 1
  %long = icmp ugt i64 %more, {spins}
  br i1 %long, label %sleep, label %pause
pause:
  {pause}
  br label %wait
sleep:
  %slept = {wait}
  br label %wait
found:
  %unused.count = call i64 @run_chunks(ptr null, i64 0, i64 0)
  br label %wait
}}

; Closes the current job, of which only other threads know, and lets the next one start threads. Called when no other
; thread uses the pool: before the first job, and in the child of a fork.
define void @xlapy_reset_pool(i64 %threads) {{
  %closed = atomicrmw or ptr @ticket, i64 4294967295 acq_rel, align 8
  store atomic i64 0, ptr @done release, align 8
  store atomic i64 %threads, ptr @missing release, align 8
  store atomic i32 0, ptr @busy release, align 4
  ret void
}}

define internal void @start_threads(i64 %count) {{
entry:
  %thread = alloca i64, align 8
  br label %next
next:
  %number = phi i64 [ 0, %entry ], [ %following, %made ]
  %some = icmp ult i64 %number, %count
  br i1 %some, label %make, label %end
make:
  %failed = call i32 @pthread_create(ptr %thread, ptr null, ptr @worker, ptr null)
  %good = icmp eq i32 %failed, 0
  br i1 %good, label %made, label %end
made:
  %id = load i64, ptr %thread, align 8
  %detached = call i32 @pthread_detach(i64 %id)
  %following = add i64 %number, 1
  br label %next
end:
  ret void
}}
"""
