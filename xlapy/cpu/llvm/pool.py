"""The thread pool of the process that runs parallel loops.

    void @xlapy_parallel(ptr function, ptr argument, i64 extent, i64 grain, ptr table, i64 shared, i64 poll)

calls `function(argument, begin, end)` for chunks of `grain` iterations on all threads, and returns when all chunks are
done. Chunks depend only on the extent and the grain, so results do not depend on the number of threads. One word, the
ticket, hands out chunks: its upper half is the number of the job, its lower half how many chunks were taken from the
front and from the back. The caller takes chunks from the front, other threads from the back: so of two loops over the
same array, the same processor has the same part in its cache. A loop of kernels on arrays of 1 MB to 4 MB takes 0.5 to
0.7 times as long as if all threads take the next chunk (two processors with 2 MiB of level-2 cache). A thread takes a
chunk by compare-and-swap, which fails if the job is not the one that the thread has read about. Before the description
of a job is written, the ticket of the previous one is closed: otherwise a thread that has read this ticket could take
chunks of that job because the next one has more. Closing acquires what those released who took chunks before, so the
number of chunks that they read is not the one that is written afterwards. The caller takes chunks too, so a job
finishes even if no other thread runs. The threads of the pool keep away from the caller's processor if there is another
one: the operating system likes to wake a thread where the caller runs, and there it would start after the caller's last
chunk. The first job starts the threads, also in the child of a fork, which has none. While one thread of the process
uses the pool, other threads run their loops alone. With a table, the caller polls after each of its chunks
(`safepoints`); if the run should stop, no thread takes another chunk.

    void @xlapy_await_task(ptr task)
    void @xlapy_finish_task(ptr state, ptr task, i32 status)

If the grain is 0, chunks are single iterations, and all threads take the next one from the front. Such chunks may be
tasks that wait for each other: a task waits until the word of another one is 1, which has
been handed out before it. When it has run, its own word becomes 1; its status, if not 0, is added to those of others.

Responsible for the pool. Does not depend on what the functions do.
"""

from __future__ import annotations

import ctypes
import os
import platform

from xlapy.base import flags
from xlapy.base.concurrency.forking import call_in_child
from xlapy.base.concurrency.single_flight import SingleFlight
from xlapy.cpu.llvm.jit import Code, Symbol
from xlapy.cpu.llvm.shared_code import POLL, compile_shared_object, shared_function
from xlapy.native.function import Function, Static, Variable, external, native
from xlapy.native.ir import ACQ_REL, ACQUIRE, RELAXED, RELEASE
from xlapy.native.llvm import library_text
from xlapy.native.records import Atomic, Owned, Record
from xlapy.native.threads import start_thread
from xlapy.native.values import Address, Int32, Nullable, Word

SPINS = 400
"""The number of iterations that a thread spins before it yields: some ten microseconds."""

ROUNDS = 10
"""How often an idle thread spins and yields before it sleeps."""

MASK_WORDS = 16
"""The words of a set of processors as the C library has it: 1,024 processors."""

_FRONT, _BACK = 1, 1 << 16
"""What a chunk from the front, or from the back, adds to the ticket."""

_MAX_CHUNKS = 2**16 - 2
"""The largest number of chunks of a job. Those of a loop that would have more are larger."""

_NO_CHUNK = 2**32 - 1
"""The lower half of a ticket under which no chunk is left."""

POOL = "pool"
"""The name of the object file of the pool."""


PARALLEL, AWAIT_TASK, FINISH_TASK = "xlapy_parallel", "xlapy_await_task", "xlapy_finish_task"
"""The functions that programs call."""


@SingleFlight
def parallel_function() -> Symbol:
    """Returns `xlapy_parallel`. The first parallel loop starts the threads."""
    code = _code()
    reset = ctypes.PYFUNCTYPE(None, ctypes.c_int64)(code.addresses["xlapy_reset_pool"])
    reset(thread_count() - 1)
    call_in_child(lambda: reset(thread_count() - 1))
    return code.symbol(PARALLEL)


def task_function(name: str) -> Symbol:
    """Returns `xlapy_await_task` or `xlapy_finish_task`."""
    return _code().symbol(name)


def thread_count() -> int:
    """Returns the flag `num_threads` or, if that is 0, the number of processors that the process may use."""
    return int(flags.get("num_threads")) or len(os.sched_getaffinity(0))


@SingleFlight
def _code() -> Code:
    imports = {POLL: shared_function(POLL)}
    exports = [PARALLEL, AWAIT_TASK, FINISH_TASK, "xlapy_reset_pool"]
    return compile_shared_object(POOL, lambda: pool_text(platform.machine()), exports, imports)


class Counter(Record):
    """A word of 64 bits."""

    value: Atomic[Word]


class FutexWord(Record):
    """A word of 32 bits."""

    value: Atomic[Int32]


class Job(Record):
    """The job that the ticket announces. grain: the iterations of a chunk; 0: one, and all threads take chunks from the
    front. processor: that of the caller. mode: the floating-point mode of the caller."""

    function: Atomic[Nullable[Address]]
    argument: Atomic[Nullable[Address]]
    extent: Atomic[Word]
    grain: Atomic[Word]
    chunks: Atomic[Word]
    processor: Atomic[Int32]
    mode: Owned[Word]


TICKET = Static("ticket", Counter)
"""The number of the job and the next chunk."""
DONE = Static("done", Counter)
"""How many chunks of the job have run."""
WAKE = Static("wake", FutexWord)
"""The number of the job, on which idle threads sleep."""
BUSY = Static("busy", FutexWord)
"""Whether a thread of the process uses the pool."""
MISSING = Static("missing", Counter)
"""How many threads are to be started before the next job."""
JOB = Static("job", Job)


@external
def xlapy_poll(f: Function, table: Nullable[Address], shared: Word, poll: Word) -> Int32:  # type: ignore[empty-body]
    """Polls whether the run should stop; not 0 if so."""


@external
def sched_yield(f: Function) -> Int32:  # type: ignore[empty-body]
    """Lets another thread run."""


@external
def sched_getcpu(f: Function) -> Int32:  # type: ignore[empty-body]
    """The processor that runs this thread."""


@external
def load_processors(f: Function, allowed: Address) -> None:
    """Stores the set of processors that this thread may use; the empty set if it is not known."""


@external
def avoid_processor(f: Function, allowed: Address, processor: Int32) -> None:
    """Lets this thread use only the other processors of a set, if there are others."""


@external
def save_mode(f: Function, mode: Address) -> None:
    """Stores the floating-point mode of this thread."""


@external
def load_mode(f: Function, mode: Address) -> None:
    """Sets the floating-point mode of this thread."""


def chunk_size(f: Function, extent: Word, grain: Word) -> Word:
    """The iterations of a chunk: the grain, or more where a ticket could not count the chunks."""
    least = (extent + _MAX_CHUNKS - 1) // _MAX_CHUNKS
    return f.select(grain < least, least, grain)


def taken_chunks(ticket: Word) -> Word:
    """How many chunks were taken; more than any job has if it is closed."""
    return (ticket & (_BACK - 1)) + ((ticket >> 16) & (_BACK - 1))


@native
def run_chunks(f: Function, is_caller: Word, table: Nullable[Address], shared: Word, poll: Word) -> Word:
    """Runs chunks of the current job until none is left. The caller of the loop, which passes a table, also polls; if
    the run should stop, it closes the job. Returns the number of chunks that all threads take, which only the caller
    uses."""
    job, next_ticket = f.static(JOB), f.static(TICKET).value
    with f.loop():
        ticket = next_ticket.load(ACQUIRE)
        chunks = job.chunks.load(RELAXED)
        grain = job.grain.load(RELAXED)
        side = f.select((is_caller != 0) | (grain == 0), f.constant(Word, _FRONT), f.constant(Word, _BACK))
        with f.when(taken_chunks(ticket) >= chunks):
            f.ret(chunks)
        index = f.select(side == _FRONT, ticket & (_BACK - 1), chunks - 1 - ((ticket >> 16) & (_BACK - 1)))
        _, is_taken = next_ticket.compare_exchange(ticket, ticket + side, ACQ_REL, RELAXED)
        with f.when(is_taken):
            # The fields describe the job of the ticket until the caller knows that the chunk is done.
            function, argument = job.function.load(RELAXED), job.argument.load(RELAXED)
            extent, size = job.extent.load(RELAXED), f.select(grain == 0, f.constant(Word, 1), grain)
            load_mode(f, job.offset(Job.offsets()["mode"]))
            begin = index * size
            end = f.select(begin + size > extent, extent, begin + size)
            f.call_address(function.known("an open job has a function"), argument, begin, end)
            f.static(DONE).value.fetch_add(1, ACQ_REL)
            with f.when(table.is_present()), f.when(xlapy_poll(f, table, shared, poll) != 0):
                given = taken_chunks(next_ticket.fetch_or(_NO_CHUNK, RELAXED))
                f.ret(f.select(given < chunks, given, chunks))
    return f.constant(Word, 0)


@native
def run_alone(
    f: Function,
    function: Address,
    argument: Nullable[Address],
    extent: Word,
    grain: Word,
    table: Nullable[Address],
    shared: Word,
    poll: Word,
) -> None:
    """Runs the whole loop on this thread."""
    with f.when(table.is_null()):
        f.call_address(function, argument, f.constant(Word, 0), extent)
        f.ret()
    begin = f.variable(Word, 0)
    with f.loop() as loop:
        first = begin.get()
        end = f.select(first + grain > extent, extent, first + grain)
        f.call_address(function, argument, first, end)
        with f.when(end >= extent):
            loop.leave()
        with f.when(xlapy_poll(f, table, shared, poll) != 0):
            loop.leave()
        begin.set(end)


@native
def xlapy_parallel(
    f: Function,
    function: Address,
    argument: Nullable[Address],
    extent: Word,
    grain: Word,
    table: Nullable[Address],
    shared: Word,
    poll: Word,
) -> None:
    """Runs a loop on all threads; see above. A loop of one chunk runs alone."""
    size = chunk_size(f, extent, grain)
    chunks = (extent + size - 1) // size
    with f.when(chunks < 2):
        run_alone(f, function, argument, extent, size, table, shared, poll)
        f.ret()
    busy = f.static(BUSY).value
    _, is_free = busy.compare_exchange(0, 1, ACQ_REL, RELAXED)
    with f.when(~is_free):
        run_alone(f, function, argument, extent, size, table, shared, poll)
        f.ret()
    open_job(f, function, argument, extent, f.select(grain == 0, grain, size), chunks)
    taken = run_chunks(f, f.constant(Word, 1), table, shared, poll)
    spins = f.variable(Word, 0)
    with f.loop() as loop:
        with f.when(f.static(DONE).value.load(ACQUIRE) == taken):
            loop.leave()
        spins.set(spins.get() + 1)
        f.pause()
        with f.when(spins.get() > f.spins(SPINS)):
            spins.set(0)
            sched_yield(f)
    busy.store(0, RELEASE)


@native
def xlapy_await_task(f: Function, task: FutexWord) -> None:
    """Waits until a task has run; see above."""
    spins = f.variable(Word, 0)
    with f.loop():
        with f.when(task.value.load(ACQUIRE) != 0):
            f.ret()
        spins.set(spins.get() + 1)
        f.pause()
        with f.when(spins.get() > f.spins(SPINS)):
            spins.set(0)
            sched_yield(f)


@native
def xlapy_finish_task(f: Function, state: FutexWord, task: FutexWord, status: Int32) -> None:
    """Notes that a task has run; see above."""
    with f.when(status != 0):
        state.value.fetch_or(status, RELAXED)
    task.value.store(1, RELEASE)


@native
def open_job(
    f: Function, function: Address, argument: Nullable[Address], extent: Word, grain: Word, chunks: Word
) -> None:
    """Announces a job, and wakes the threads. The caller uses the pool."""
    job, ticket = f.static(JOB), f.static(TICKET).value
    save_mode(f, job.offset(Job.offsets()["mode"]))
    missing = f.static(MISSING).value.load(RELAXED)
    with f.when(missing != 0):
        f.static(MISSING).value.store(0, RELAXED)
        start_threads(f, missing)
    job.processor.store(sched_getcpu(f), RELAXED)
    following = (ticket.fetch_or(_NO_CHUNK, ACQ_REL) | _NO_CHUNK) + 1
    job.function.store(function.maybe(), RELAXED)
    job.argument.store(argument, RELAXED)
    job.extent.store(extent, RELAXED)
    job.grain.store(grain, RELAXED)
    job.chunks.store(chunks, RELAXED)
    f.static(DONE).value.store(0, RELAXED)
    ticket.store(following, RELEASE)
    wake = f.static(WAKE).value
    wake.store((following >> 32).to(Int32), RELEASE)
    wake.wake()


@native
def worker(f: Function, argument: Address) -> Nullable[Address]:
    """A thread of the pool: waits for a job that it has not seen, first spinning, then sleeping."""
    allowed = f.stack(8 * MASK_WORDS)
    load_processors(f, allowed)
    seen, avoided = f.variable(Int32, 0), f.variable(Int32, -1)
    with f.loop():
        serve(f, allowed, seen, avoided)
    return f.null(Address)


def serve(f: Function, allowed: Address, seen: Variable[Int32], avoided: Variable[Int32]) -> None:
    """Waits for a job other than the one seen, and runs chunks of it.

    allowed: the processors that this thread may use. avoided: the one that it keeps away from.
    """
    await_job(f, seen)
    processor = f.static(JOB).processor.load(RELAXED)
    with f.when(processor != avoided.get()):
        avoided.set(processor)
        avoid_processor(f, allowed, processor)
    run_chunks(f, f.constant(Word, 0), f.null(Address), f.constant(Word, 0), f.constant(Word, 0))


def await_job(f: Function, seen: Variable[Int32]) -> None:
    """Waits for a job other than the one seen."""
    wake = f.static(WAKE).value
    with f.count(f.spins(ROUNDS)) as one:
        with f.count(f.spins(SPINS)) as two:
            with f.when(wake.load(RELAXED) != seen.get()):
                two.leave()
            f.pause()
        with f.when(wake.load(RELAXED) != seen.get()):
            one.leave()
        sched_yield(f)
    with f.loop() as loop:
        now = wake.load(ACQUIRE)
        with f.when(now != seen.get()):
            seen.set(now)
            loop.leave()
        wake.wait(seen.get())


@native
def xlapy_reset_pool(f: Function, threads: Word) -> None:
    """Closes the current job, of which only other threads know, and lets the next one start threads. Called when no
    other thread uses the pool: before the first job, and in the child of a fork."""
    f.static(TICKET).value.fetch_or(_NO_CHUNK, RELAXED)
    f.static(MISSING).value.store(threads, RELAXED)
    f.static(BUSY).value.store(0, RELAXED)


@native
def start_threads(f: Function, count: Word) -> None:
    """Starts a number of threads, or as many as there can be."""
    with f.count(count), f.when(~start_thread(f, f.address_of(worker), f.static(JOB))):
        f.ret()


AFFINITY = f"""
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)
define internal void @load_processors(ptr %allowed) noinline {{
  store [{MASK_WORDS} x i64] zeroinitializer, ptr %allowed
  %failed = call i32 @sched_getaffinity(i32 0, i64 {8 * MASK_WORDS}, ptr %allowed)
  ret void
}}
define internal void @avoid_processor(ptr %allowed, i32 %processor) noinline {{
  %others = alloca [{MASK_WORDS} x i64]
  %is_small = icmp ult i32 %processor, {64 * MASK_WORDS}
  br i1 %is_small, label %move, label %stay
move:
  %masks = load [{MASK_WORDS} x i64], ptr %allowed
  store [{MASK_WORDS} x i64] %masks, ptr %others
  %number = lshr i32 %processor, 6
  %word = getelementptr i64, ptr %others, i32 %number
  %bit = and i32 %processor, 63
  %place = zext i32 %bit to i64
  %own = shl i64 1, %place
  %rest = xor i64 %own, -1
  %given = load i64, ptr %word
  %left = and i64 %given, %rest
  store i64 %left, ptr %word
  ; fails, and changes nothing, if no processor is left
  %moved = call i32 @sched_setaffinity(i32 0, i64 {8 * MASK_WORDS}, ptr %others)
  ret void
stay:
  ret void
}}
"""

_MODES = {
    "x86_64": """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define internal void @save_mode(ptr %mode) alwaysinline {
  call void @llvm.x86.sse.stmxcsr(ptr %mode)
  ret void
}
define internal void @load_mode(ptr %mode) alwaysinline {
  call void @llvm.x86.sse.ldmxcsr(ptr %mode)
  ret void
}
"""
}
_NO_MODES = """
define internal void @save_mode(ptr %mode) alwaysinline {
  ret void
}
define internal void @load_mode(ptr %mode) alwaysinline {
  ret void
}
"""


def pool_text(machine: str) -> str:
    """Returns the LLVM module of the pool for a machine architecture."""
    exports = [xlapy_parallel.name, AWAIT_TASK, FINISH_TASK, xlapy_reset_pool.name]
    defined = ["save_mode", "load_mode", "load_processors", "avoid_processor"]
    text = library_text(
        [xlapy_parallel, xlapy_await_task, xlapy_finish_task, xlapy_reset_pool], exports, defined=defined
    )
    return f"{text}\n{AFFINITY}\n{_MODES.get(machine, _NO_MODES)}"
