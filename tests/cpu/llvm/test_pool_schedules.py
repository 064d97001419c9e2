"""The thread pool under all schedules: each chunk runs once, by the description of its own job."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from xlapy.cpu.llvm.jit import compile_unoptimized
from xlapy.cpu.llvm.pool import (
    _NO_CHUNK,
    AFFINITY,
    BUSY,
    DONE,
    JOB,
    MASK_WORDS,
    MISSING,
    TICKET,
    FutexWord,
    chunk_size,
    run_chunks,
    serve,
    worker,
    xlapy_await_task,
    xlapy_finish_task,
    xlapy_parallel,
    xlapy_reset_pool,
)
from xlapy.native.checker.explore import Exploration, explore
from xlapy.native.checker.machine import Execution
from xlapy.native.checker.memory import UNINITIALIZED, ScheduleError
from xlapy.native.function import Function, NativeFunction, Static, external, native
from xlapy.native.ir import ACQUIRE, RELAXED, RELEASE
from xlapy.native.records import Owned, Record
from xlapy.native.threads import ThreadId
from xlapy.native.values import Address, Int32, Nullable, Word

FIRST, SECOND = 2, 3
"""The number of chunks of each job. The second has more: a thread that is late finds an index that is too large for
the first job and not for the second."""

MODE = 7
"""The floating-point mode of those that call."""


class Cell(Record):
    """A word: how often an iteration has run, or the mode of a thread."""

    value: Owned[Word]


CELLS = Static("cells", Cell, 8 * (FIRST + 2 * SECOND))
"""The iterations of the first job, and those of the second, whose chunks have two."""


MODES = Static("modes", Cell, 8 * 3)
"""The floating-point mode of each thread. Threads begin with different ones."""


@external
def this_thread(f: Function) -> Word:  # type: ignore[empty-body]
    """The number of this thread."""


def mode(f: Function) -> Cell:
    return f.static(MODES).offset(this_thread(f) * 8).cast(Cell)


@native
def save_mode(f: Function, place: Address) -> None:
    """In place of the external function."""
    place.cast(Cell).value = mode(f).value


@native
def load_mode(f: Function, place: Address) -> None:
    mode(f).value = place.cast(Cell).value


STARTED = Static("started", Cell, 8 * 2)
"""How many threads were started, and how many of them nobody waits for."""


@native
def pthread_create(
    f: Function, thread: Address, attributes: Nullable[Address], function: Address, argument: Address
) -> Int32:
    """In place of the C library's function."""
    thread.cast(ThreadId).number = f.constant(Word, 1)
    f.static(STARTED).value = f.static(STARTED).value + 1
    return f.constant(Int32, 0)


@native
def pthread_detach(f: Function, thread: Word) -> Int32:
    detached = f.static(STARTED).offset(8).cast(Cell)
    detached.value = detached.value + 1
    return f.constant(Int32, 0)


def cell(f: Function, number: Word | int) -> Cell:
    return f.static(CELLS).offset(number * 8).cast(Cell)


def check_call(f: Function, argument: Nullable[Address]) -> None:
    f.check(argument == f.static(CELLS).offset(0), "the job gets its argument")
    f.check(mode(f).value == MODE, "the thread has the mode of the caller")


@native
def first_job(f: Function, argument: Nullable[Address], begin: Word, end: Word) -> None:
    """Two threads that run the same iteration would race."""
    check_call(f, argument)
    with f.count(end - begin) as one:
        target = cell(f, begin + one.index)
        target.value = target.value + 1


@native
def second_job(f: Function, argument: Nullable[Address], begin: Word, end: Word) -> None:
    check_call(f, argument)
    with f.count(end - begin) as one:
        target = cell(f, begin + one.index + FIRST)
        target.value = target.value + 1


def call(f: Function, job: NativeFunction, chunks: int, grain: int, polls: bool = False) -> None:
    call_with_grain(f, job, chunks * grain, grain, polls)


def call_with_grain(f: Function, job: NativeFunction, iterations: int, grain: int, polls: bool = False) -> None:
    zero, none = f.constant(Word, 0), f.null(Address)
    extent, argument = f.constant(Word, iterations), f.static(CELLS).offset(0).maybe()
    table = f.static(JOB).offset(0).maybe() if polls else none
    mode(f).value = MODE
    xlapy_parallel(f, f.address_of(job), argument, extent, f.constant(Word, grain), table, zero, zero)


@native
def first_loop(f: Function) -> None:
    call(f, first_job, FIRST, 1)
    for number in range(FIRST):
        f.check(cell(f, number).value == 1, "each iteration has run once when the loop ends")


@native
def second_loop(f: Function) -> None:
    call(f, second_job, SECOND, 2)
    for number in range(FIRST, FIRST + 2 * SECOND):
        f.check(cell(f, number).value == 1, "each iteration has run once when the loop ends")


@native
def help_once(f: Function) -> None:
    """A thread of the pool that looks for chunks at any time, as one that is late does."""
    run_chunks(f, f.constant(Word, 0), f.null(Address), f.constant(Word, 0), f.constant(Word, 0))


@native
def wait_and_help(f: Function) -> None:
    """A thread of the pool that waits for a job."""
    serve(f, f.stack(8 * MASK_WORDS), f.variable(Int32, 0), f.variable(Int32, -1))


@native
def the_pool_is_free(f: Function) -> None:
    f.check(f.static(BUSY).value.load(RELAXED) == 0, "no thread uses the pool")


MODELS = {
    "this_thread": lambda execution, arguments: execution.thread.actor.number,
    "load_processors": lambda execution, arguments: None,
    "sched_yield": lambda execution, arguments: 0,
    "sched_getcpu": lambda execution, arguments: 0,
    "avoid_processor": lambda execution, arguments: None,
    "xlapy_poll": lambda execution, arguments: 0,
}


def explored(*threads: NativeFunction, setup: NativeFunction | None = None) -> Exploration:
    return explore(setup, threads, the_pool_is_free, also=FUNCTIONS, models=MODELS)


def test_each_chunk_runs_once() -> None:
    assert explored(first_loop, help_once).ends >= 1


def test_a_loop_of_one_chunk_runs_in_the_caller() -> None:
    @native
    def run_one_chunk(f: Function) -> None:
        call(f, first_job, 1, 2)
        for number in range(2):
            f.check(cell(f, number).value == 1, "each iteration has run once")

    assert explored(run_one_chunk).ends == 1


@native
def second_loop_alone(f: Function) -> None:
    """Another thread uses the pool: this one polls between chunks."""
    f.static(BUSY).value.store(1, RELAXED)
    call(f, second_job, SECOND, 2, polls=True)
    for number in range(FIRST, FIRST + 2 * SECOND):
        f.check(cell(f, number).value == 1, "each iteration has run once")
    f.static(BUSY).value.store(0, RELAXED)


def test_a_loop_that_polls_runs_alone() -> None:
    assert explored(second_loop_alone).ends == 1


def stop(execution: Execution, arguments: Sequence[Any]) -> int:
    """A poll that ends the run."""
    assert execution.thread.actor.number == 0, "only the caller polls"
    return 1


@native
def stopped_loop(f: Function) -> None:
    """After the loop, no thread runs a chunk of it: another loop may use the pool."""
    call(f, first_job, FIRST, 1, polls=True)
    ran = cell(f, 0).value + cell(f, 1).value
    f.check((cell(f, 0).value <= 1) & (cell(f, 1).value <= 1) & (ran != 0), "each chunk runs at most once")
    for number in range(FIRST):
        cell(f, number).value = 0


@native
def stopped_loop_without_help(f: Function) -> None:
    call(f, first_job, FIRST, 1, polls=True)
    f.check((cell(f, 0).value == 1) & (cell(f, 1).value == 0), "only the first chunk has run")


@native
def stopped_loop_alone(f: Function) -> None:
    f.static(BUSY).value.store(1, RELAXED)
    call(f, second_job, SECOND, 2, polls=True)
    for number in range(2 * SECOND):
        f.check(cell(f, FIRST + number).value == int(number < 2), "only the first chunk has run")
    f.static(BUSY).value.store(0, RELAXED)


def test_a_poll_that_ends_the_run_ends_the_loop() -> None:
    models = {**MODELS, "xlapy_poll": stop}
    assert explore(None, [stopped_loop, help_once], the_pool_is_free, also=FUNCTIONS, models=models).ends >= 1
    assert explore(None, [stopped_loop_without_help], the_pool_is_free, also=FUNCTIONS, models=models).ends == 1
    assert explore(None, [stopped_loop_alone], the_pool_is_free, also=FUNCTIONS, models=models).ends == 1


WORDS = Static("words", FutexWord, 4 * 3)
"""The status of tasks, and the word of each of two tasks."""


def word(f: Function, number: int) -> FutexWord:
    return f.static(WORDS).offset(4 * number).cast(FutexWord)


def dependent_tasks(waits: bool) -> tuple[NativeFunction, NativeFunction]:
    """The second chunk reads what the first one has written."""

    @native
    def tasks(f: Function, argument: Nullable[Address], begin: Word, end: Word) -> None:
        with f.when(begin == 0):
            cell(f, 0).value = 5
            xlapy_finish_task(f, word(f, 0), word(f, 1), f.constant(Int32, 4))
        with f.when(begin == 1):
            if waits:
                xlapy_await_task(f, word(f, 1))
            f.check(cell(f, 0).value == 5, "the first task has run")
            xlapy_finish_task(f, word(f, 0), word(f, 2), f.constant(Int32, 1))

    @native
    def loop(f: Function) -> None:
        zero = f.constant(Word, 0)
        none, one = f.null(Address), f.constant(Word, 1)
        xlapy_parallel(f, f.address_of(tasks), none, one + one, zero, none, zero, zero)
        f.check(word(f, 0).value.load(RELAXED) == 5, "the state has the status of both tasks")

    return loop, tasks


def test_a_task_waits_for_another() -> None:
    loop, tasks = dependent_tasks(True)
    also = [*FUNCTIONS, tasks]
    assert explore(None, [loop, help_once], the_pool_is_free, also=also, models=MODELS).ends >= 1


def test_a_task_that_does_not_wait_is_a_race() -> None:
    loop, tasks = dependent_tasks(False)
    with pytest.raises(ScheduleError):
        explore(None, [loop, help_once], the_pool_is_free, also=[*FUNCTIONS, tasks], models=MODELS)


def test_a_loop_without_a_table_is_not_polled() -> None:
    @native
    def loops_without_table(f: Function) -> None:
        first_loop(f)
        f.static(BUSY).value.store(1, RELAXED)
        second_loop(f)
        f.static(BUSY).value.store(0, RELAXED)

    models = {**MODELS, "xlapy_poll": stop}
    assert explore(None, [loops_without_table], the_pool_is_free, also=FUNCTIONS, models=models).ends == 1


def test_a_thread_of_the_pool_takes_part() -> None:
    ran: set[int] = set()

    @external
    def this_thread_runs(f: Function) -> None:
        """Notes that this thread runs a chunk."""

    @native
    def job_of_threads(f: Function, argument: Nullable[Address], begin: Word, end: Word) -> None:
        this_thread_runs(f)

    @native
    def loop_over_threads(f: Function) -> None:
        call(f, job_of_threads, FIRST, 1)

    models = {**MODELS, "this_thread_runs": lambda execution, arguments: ran.add(execution.thread.actor.number)}
    explore(None, [loop_over_threads, wait_and_help], also=[*FUNCTIONS, job_of_threads], models=models)
    assert ran == {0, 1}


# --- starting and resetting


@native
def lost_pool(f: Function) -> None:
    """What the child of a fork finds: another thread used the pool, and its job is open."""
    job = f.static(JOB)
    job.function.store(f.address_of(second_job).maybe(), RELAXED)
    job.extent.store(2 * SECOND, RELAXED)
    job.grain.store(2, RELAXED)
    job.chunks.store(SECOND, RELAXED)
    f.static(DONE).value.store(1, RELAXED)
    f.static(TICKET).value.store((7 << 32) + 1, RELAXED)
    f.static(BUSY).value.store(1, RELAXED)
    f.static(MISSING).value.store(5, RELAXED)
    xlapy_reset_pool(f, f.constant(Word, 3))


@native
def two_loops(f: Function) -> None:
    first_loop(f)
    f.check(f.static(STARTED).value == 3, "the first loop starts the threads")
    f.check(f.static(STARTED).offset(8).cast(Cell).value == 3, "nobody waits for their end")
    second_loop(f)
    f.check(f.static(STARTED).value == 3, "the second one starts none")


def test_a_pool_that_is_reset_starts_its_threads_anew() -> None:
    assert explored(two_loops, setup=lost_pool).ends == 1


def test_a_loop_of_more_chunks_than_a_ticket_counts_has_longer_ones() -> None:
    @native
    def sizes(f: Function) -> None:
        given = {(7, 2): 2, (7, 0): 1, (65534, 1): 1, (65535, 1): 2, (2**33, 2): 131077, (2**33, 2**20): 2**20}
        for (extent, grain), size in given.items():
            f.check(chunk_size(f, f.constant(Word, extent), f.constant(Word, grain)) == size, f"{extent} by {grain}")

    assert explore(None, [sizes], the_pool_is_free, also=FUNCTIONS, models=MODELS).ends == 1


def chunks_of_the_helper(grain: int) -> set[tuple[int, ...]]:
    """The chunks of two that the second thread may take, in order, in any schedule."""
    found: set[tuple[int, ...]] = set()

    @external
    def helper_has_run(f: Function, last: Word, chunk: Word) -> None:
        """Notes a chunk that the second thread runs, and the one that it has run before: 0, or its number plus 1."""

    @native
    def noting_job(f: Function, argument: Nullable[Address], begin: Word, end: Word) -> None:
        with f.when(this_thread(f) == 1):
            helper_has_run(f, cell(f, 0).value, begin)
            cell(f, 0).value = begin + 1

    @native
    def noted_loop(f: Function) -> None:
        call_with_grain(f, noting_job, FIRST, grain)

    def note(execution: Execution, arguments: Sequence[Any]) -> None:
        last, chunk = arguments
        found.add((chunk,) if not last else (last - 1, chunk))

    models = {**MODELS, "helper_has_run": note}
    explore(None, [noted_loop, help_once], the_pool_is_free, also=[*FUNCTIONS, noting_job], models=models)
    return found


def test_other_threads_than_the_caller_take_chunks_from_the_back() -> None:
    assert chunks_of_the_helper(1) == {(1,), (1, 0)}


def test_tasks_are_handed_out_in_order() -> None:
    assert chunks_of_the_helper(0) == {(0,), (1,), (0, 1)}


def test_a_job_of_a_lost_thread_is_not_run() -> None:
    @native
    def look(f: Function) -> None:
        help_once(f)
        f.check(cell(f, FIRST).value == 0, "no chunk of the lost job runs")

    assert explored(look, setup=lost_pool).ends == 1


def test_a_thread_that_is_late_never_takes_chunks_by_the_description_of_another_job() -> None:
    assert explored(second_loop, help_once, setup=first_loop).ends >= 1


@native
def closed_ticket(f: Function) -> None:
    f.static(TICKET).value.store(_NO_CHUNK, RELAXED)


@native
def loop_after_a_longer_one(f: Function) -> None:
    f.static(JOB).chunks.store(SECOND, RELAXED)
    first_loop(f)


def test_a_thread_that_is_late_never_takes_chunks_that_the_job_does_not_have() -> None:
    """It may have read how many the previous job had."""
    assert explored(loop_after_a_longer_one, help_once, setup=closed_ticket).ends >= 1


def test_the_thread_of_the_pool_sleeps_between_jobs() -> None:
    """It keeps to the processors that it had when it began."""

    def load(execution: Execution, arguments: Sequence[Any]) -> None:
        place = arguments[0]
        execution.state.memory.write(execution.thread.actor, place, UNINITIALIZED, 3, "the processors")

    def avoid(execution: Execution, arguments: Sequence[Any]) -> None:
        place = arguments[0]
        assert execution.state.memory.read(execution.thread.actor, place, UNINITIALIZED, "the processors") == 3

    @native
    def serve_for_ever(f: Function) -> None:
        worker(f, f.static(JOB))

    models = {**MODELS, "load_processors": load, "avoid_processor": avoid}
    assert explore(None, [first_loop], the_pool_is_free, also=FUNCTIONS, models=models, services=[serve_for_ever]).ends


def test_a_thread_that_sleeps_is_woken() -> None:
    assert explored(first_loop, wait_and_help).ends >= 1


def test_loops_of_two_threads_at_once() -> None:
    """One of them runs alone if the other uses the pool."""
    assert explored(first_loop, second_loop).ends >= 1


def test_a_thread_keeps_away_from_the_processor_of_the_caller() -> None:
    """Only a caller that has moved costs a system call."""

    @native
    def wait_and_help_again(f: Function) -> None:
        serve(f, f.stack(8 * MASK_WORDS), f.variable(Int32, 0), f.variable(Int32, 3))

    def avoided_by(helper: NativeFunction, caller: int) -> set[int]:
        calls: set[int] = set()
        models = {
            **MODELS,
            "sched_getcpu": lambda execution, arguments: caller,
            "avoid_processor": lambda execution, arguments: calls.add(arguments[1]),
        }
        explore(None, [first_loop, helper], the_pool_is_free, also=FUNCTIONS, models=models)
        return calls

    assert avoided_by(wait_and_help, 3) == {3}
    assert avoided_by(wait_and_help_again, 3) == set()
    assert avoided_by(wait_and_help_again, 5) == {5}


def test_avoiding_a_processor_keeps_the_others() -> None:
    current = ctypes.CDLL(None).sched_getcpu
    text = AFFINITY.replace("define internal", "define")
    code = compile_unoptimized(text, ["load_processors", "avoid_processor"], {})
    load = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(code.addresses["load_processors"])
    avoid = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)(code.addresses["avoid_processor"])
    allowed = os.sched_getaffinity(0)
    mask = (ctypes.c_uint64 * MASK_WORDS)(*[2**64 - 1] * MASK_WORDS)

    def run() -> None:
        load(mask)
        given = {number for number in range(64 * MASK_WORDS) if mask[number // 64] >> number % 64 & 1}
        assert given == allowed
        for processor in sorted(allowed):
            avoid(mask, processor)
            others = allowed - {processor} or allowed
            assert os.sched_getaffinity(0) == others
            assert current() in others
        for invalid in (-1, 64 * MASK_WORDS, 2**31 - 1):
            before = os.sched_getaffinity(0)
            avoid(mask, invalid)
            assert os.sched_getaffinity(0) == before
        empty = (ctypes.c_uint64 * MASK_WORDS)()
        avoid(empty, 0)
        assert os.sched_getaffinity(0) == before

    with ThreadPoolExecutor(1) as thread:
        thread.submit(run).result()
    assert os.sched_getaffinity(0) == allowed


FUNCTIONS = [first_job, second_job, save_mode, load_mode, pthread_create, pthread_detach]


def careless(job: NativeFunction, chunks: int, grain: int, number: int) -> NativeFunction:
    """A loop that announces its job without a ticket that closes the previous one."""

    def loop(f: Function) -> None:
        record = f.static(JOB)
        record.function.store(f.address_of(job).maybe(), RELEASE)
        record.argument.store(f.static(CELLS).offset(0).maybe(), RELEASE)
        mode(f).value = MODE
        save_mode(f, record.offset(record.offsets()["mode"]))
        record.extent.store(chunks * grain, RELEASE)
        record.grain.store(grain, RELEASE)
        record.chunks.store(chunks, RELEASE)
        f.static(DONE).value.store(0, RELEASE)
        f.static(TICKET).value.store(number << 32, RELEASE)
        taken = run_chunks(f, f.constant(Word, 1), f.null(Address), f.constant(Word, 0), f.constant(Word, 0))
        with f.loop() as waiting, f.when(f.static(DONE).value.load(ACQUIRE) == taken):
            waiting.leave()

    loop.__name__ = f"careless{number}"
    return native(loop)


def test_a_job_that_is_announced_under_an_open_ticket_is_found() -> None:
    """A thread that has read the old ticket takes a chunk of the old job by the description of the new one."""
    with pytest.raises(ScheduleError):
        explored(careless(second_job, SECOND, 2, 2), help_once, setup=careless(first_job, FIRST, 1, 1))
