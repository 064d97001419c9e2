"""The thread pool under all schedules: each chunk runs once, by the description of its own job."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from xlapy.cpu.llvm.jit import compile_unoptimized
from xlapy.cpu.llvm.pool import (
    _JOB,
    BUSY,
    DONE,
    JOB,
    LEAVE_PROCESSOR,
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
    serve(f, f.variable(Int32, 0))


@native
def the_pool_is_free(f: Function) -> None:
    f.check(f.static(BUSY).value.load(RELAXED) == 0, "no thread uses the pool")


MODELS = {
    "save_mode": lambda execution, arguments: None,
    "load_mode": lambda execution, arguments: None,
    "sched_yield": lambda execution, arguments: 0,
    "sched_getcpu": lambda execution, arguments: 0,
    "leave_processor": lambda execution, arguments: None,
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


def test_a_thread_on_the_processor_of_the_caller_leaves_it() -> None:
    left: list[int] = []

    def leave(execution: object, arguments: Sequence[Any]) -> None:
        left.append(arguments[0])

    models: Mapping[str, Any] = {**MODELS, "sched_getcpu": lambda execution, arguments: 3, "leave_processor": leave}
    explore(None, [first_loop, wait_and_help], the_pool_is_free, also=[first_job], models=models)
    assert set(left) == {3}


def test_leaving_a_processor_keeps_the_processors_that_a_thread_may_use() -> None:
    current = ctypes.CDLL(None).sched_getcpu
    text = LEAVE_PROCESSOR.replace("define internal", "define")
    code = compile_unoptimized(text, ["leave_processor"], {})
    leave = ctypes.CFUNCTYPE(None, ctypes.c_int32)(code.addresses["leave_processor"])
    allowed, moves = os.sched_getaffinity(0), 0
    for _ in range(50):
        before = current()
        leave(before)
        moves += current() != before
        assert os.sched_getaffinity(0) == allowed
    assert moves or len(allowed) == 1
    for invalid in (-1, 1024, 2**31 - 1):
        leave(invalid)
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
