"""The thread pool under all schedules: each chunk runs once, by the description of its own job."""

from __future__ import annotations

import ctypes
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from xlapy.cpu.llvm.jit import compile_unoptimized
from xlapy.cpu.llvm.pool import (
    _JOB,
    AFFINITY,
    BUSY,
    DONE,
    JOB,
    MASK_WORDS,
    TICKET,
    run_chunks,
    serve,
    xlapy_parallel,
)
from xlapy.native.checker.explore import Exploration, explore
from xlapy.native.checker.memory import ScheduleError
from xlapy.native.function import Function, NativeFunction, Static, native
from xlapy.native.ir import ACQUIRE, RELAXED, RELEASE
from xlapy.native.records import Owned, Record
from xlapy.native.values import Address, Int32, Nullable, Word

FIRST, SECOND = 2, 3
"""The number of chunks of each job. The second has more: a thread that is late finds an index that is too large for
the first job and not for the second."""


class Cell(Record):
    """How often an iteration has run."""

    value: Owned[Word]


CELLS = Static("cells", Cell, 8 * (FIRST + 2 * SECOND))
"""The iterations of the first job, and those of the second, whose chunks have two."""


def cell(f: Function, number: Word | int) -> Cell:
    return f.static(CELLS).offset(number * 8).cast(Cell)


@native
def first_job(f: Function, argument: Nullable[Address], begin: Word, end: Word) -> None:
    """Two threads that run the same iteration would race."""
    with f.count(end - begin) as one:
        target = cell(f, begin + one.index)
        target.value = target.value + 1


@native
def second_job(f: Function, argument: Nullable[Address], begin: Word, end: Word) -> None:
    with f.count(end - begin) as one:
        target = cell(f, begin + one.index + FIRST)
        target.value = target.value + 1


def call(f: Function, job: NativeFunction, chunks: int, grain: int) -> None:
    zero, none = f.constant(Word, 0), f.null(Address)
    extent = f.constant(Word, chunks * grain)
    xlapy_parallel(f, f.address_of(job), none, extent, f.constant(Word, grain), none, zero, zero)


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
    run_chunks(f, f.null(Address), f.constant(Word, 0), f.constant(Word, 0))


@native
def wait_and_help(f: Function) -> None:
    """A thread of the pool that waits for a job."""
    serve(f, f.stack(8 * MASK_WORDS), f.variable(Int32, 0), f.variable(Int32, -1))


@native
def the_pool_is_free(f: Function) -> None:
    f.check(f.static(BUSY).value.load(RELAXED) == 0, "no thread uses the pool")


MODELS = {
    "save_mode": lambda execution, arguments: None,
    "load_mode": lambda execution, arguments: None,
    "sched_yield": lambda execution, arguments: 0,
    "sched_getcpu": lambda execution, arguments: 0,
    "avoid_processor": lambda execution, arguments: None,
    "xlapy_poll": lambda execution, arguments: 0,
}


def explored(*threads: NativeFunction, setup: NativeFunction | None = None) -> Exploration:
    return explore(setup, threads, the_pool_is_free, also=[first_job, second_job], models=MODELS)


def test_each_chunk_runs_once() -> None:
    assert explored(first_loop, help_once).ends >= 1


def test_a_thread_that_is_late_never_takes_chunks_by_the_description_of_another_job() -> None:
    assert explored(second_loop, help_once, setup=first_loop).ends >= 1


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
        explore(None, [first_loop, helper], the_pool_is_free, also=[first_job], models=models)
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


def careless(job: NativeFunction, chunks: int, grain: int, number: int) -> NativeFunction:
    """A loop that announces its job without a ticket that closes the previous one."""

    def loop(f: Function) -> None:
        record = f.static(JOB)
        record.function.store(f.address_of(job).maybe(), RELEASE)
        record.extent.store(chunks * grain, RELEASE)
        record.grain.store(grain, RELEASE)
        record.chunks.store(chunks, RELEASE)
        f.static(DONE).value.store(0, RELEASE)
        f.static(TICKET).value.store(_JOB * number, RELEASE)
        taken = run_chunks(f, f.null(Address), f.constant(Word, 0), f.constant(Word, 0))
        with f.loop() as waiting, f.when(f.static(DONE).value.load(ACQUIRE) == taken):
            waiting.leave()

    loop.__name__ = f"careless{number}"
    return native(loop)


def test_a_job_that_is_announced_under_an_open_ticket_is_found() -> None:
    """A thread that has read the old ticket takes a chunk of the old job by the description of the new one."""
    with pytest.raises(ScheduleError):
        explored(careless(second_job, SECOND, 2, 2), help_once, setup=careless(first_job, FIRST, 1, 1))
