"""Safepoint polls under all schedules: several threads of a run poll while it is canceled."""

from __future__ import annotations

import pytest

from xlapy.cpu.llvm.communication.waits import CancellationWord
from xlapy.cpu.llvm.safepoints import AddressTable, PollState, xlapy_poll
from xlapy.native.checker.explore import Exploration, explore
from xlapy.native.checker.machine import Execution
from xlapy.native.checker.memory import ScheduleError
from xlapy.native.function import Function, NativeFunction, Static, native
from xlapy.native.ir import SEQ_CST
from xlapy.native.records import Owned, Record
from xlapy.native.values import Address, Int32, Word

SHARED = Static("shared_memory", CancellationWord)
TABLE = Static("address_table", AddressTable, 8 * 5)
"""The address of shared memory, and the four entries for polls."""


@native
def prepare(f: Function) -> None:
    """The first thread is the one that calls the host."""
    f.static(TABLE).entries[0] = f.static(SHARED)
    state = f.exclusive_access(f.static(TABLE).offset(8).cast(PollState), "no thread runs")
    state.host = f.static(SHARED)
    state.thread = 1


def polls(f: Function, times: int) -> None:
    for _ in range(times):
        xlapy_poll(f, f.static(TABLE), f.constant(Word, 0), f.constant(Word, 1))


@native
def main_thread(f: Function) -> None:
    polls(f, 2)


@native
def pool_thread(f: Function) -> None:
    polls(f, 2)


@native
def canceled(f: Function) -> None:
    """Ends the run. Afterwards every poll of the thread that ended it says so."""
    f.static(SHARED).is_canceled.store(1, SEQ_CST)
    status = xlapy_poll(f, f.static(TABLE), f.constant(Word, 0), f.constant(Word, 1))
    f.check(status == 1, "the run ends")


MODELS = {
    "read_ticks": lambda execution, arguments: 1 << 40,
    "current_thread": lambda execution, arguments: int(execution.thread.actor.number == 0),
}


def explored(*threads: NativeFunction[[], None]) -> Exploration:
    """Explores schedules in which only the first thread may call the host, whose answer ends the run."""

    def host(execution: Execution, arguments: object) -> int:
        assert execution.thread.actor.number == 0, "only the main thread calls the host"
        return 1

    return explore(prepare, threads, None, models={**MODELS, "call_host_poll": host})


def test_threads_poll_while_the_run_ends() -> None:
    """The time of the last call and the answer are read by all threads, and written by one."""
    assert explored(main_thread, pool_thread, canceled).ends >= 1


class Calls(Record):
    """How often the host was called."""

    times: Owned[Word]


CALLS = Static("calls", Calls)


@native
def call_host_poll(f: Function, host: Address) -> Int32:
    """In place of the external function: the host lets the run go on."""
    f.static(CALLS).times = f.static(CALLS).times + 1
    return f.constant(Int32, 0)


def test_the_host_is_called_once_in_a_while() -> None:
    @native
    def poll_twice(f: Function) -> None:
        polls(f, 2)
        f.check(f.static(CALLS).times == 1, "no time has passed since the first call")

    assert explore(prepare, [poll_twice], also=[call_host_poll], models=MODELS).ends == 1


def test_all_threads_know_that_the_host_ends_the_run() -> None:
    @native
    def poll_after_the_end(f: Function) -> None:
        polls(f, 1)
        for _ in range(2):
            status = xlapy_poll(f, f.static(TABLE), f.constant(Word, 0), f.constant(Word, 1))
            f.check(status == 1, "the run ends")

    assert explored(poll_after_the_end).ends == 1


def test_a_time_that_is_written_without_synchronization_is_found() -> None:
    class PlainState(Record):
        host: Owned[Word]
        thread: Owned[Word]
        last: Owned[Word]

    @native
    def careless(f: Function) -> None:
        f.static(TABLE).offset(8).cast(PlainState).last = 5

    with pytest.raises(ScheduleError) as caught:
        explored(careless, pool_thread)
    assert caught.value.kind == "race"
