"""Rendezvous of devices under all schedules: what members exchange, how they sleep, and how a run ends early."""

from __future__ import annotations

import pytest

from xlapy.cpu.llvm.communication.rendezvous import (
    ARRIVALS_OFFSET,
    Arrivals,
    MemberCounter,
    RendezvousRecord,
    await_rendezvous,
    completed_count,
    rendezvous,
    start_rendezvous,
)
from xlapy.cpu.llvm.communication.waits import (
    AwaitedWord,
    CancellationWord,
    Sleepers,
    WordOffsets,
    await_change,
    cancel_waits,
    wait_record,
)
from xlapy.cpu.program.shared_records import RENDEZVOUS_HEADER_BYTES, WAIT_RECORD_BYTES
from xlapy.native.checker.explore import Exploration, explore
from xlapy.native.checker.memory import ScheduleError
from xlapy.native.function import Function, NativeFunction, Static, native
from xlapy.native.ir import ACQ_REL, RELAXED, SEQ_CST, Ordering, StoreOrdering
from xlapy.native.records import Atomic, Owned, Record
from xlapy.native.values import Address, Int32, Word

MEMBERS = 3
RECORD = WAIT_RECORD_BYTES * (1 + MEMBERS)
"""Offset of the rendezvous record: the cancellation word and the wait records precede it."""
STAGING = RECORD + RENDEZVOUS_HEADER_BYTES + 64
"""Offset of the staging memory: two areas with a word for each member."""


class SharedMemory(Record):
    """The memory that the devices of a run share."""

    is_over: Atomic[Int32]


class Sent(Record):
    """What a member sends."""

    value: Owned[Word]


SHARED = Static("shared_memory", SharedMemory, STAGING + 2 * 8 * MEMBERS)
OFFSETS = Static("offsets", WordOffsets, 8)


def record(f: Function) -> RendezvousRecord:
    return f.static(SHARED).offset(RECORD).cast(RendezvousRecord)


def sent(f: Function, number: int, member: int) -> Sent:
    return f.static(SHARED).offset(STAGING + (number % 2 * MEMBERS + member) * 8).cast(Sent)


Meet = NativeFunction[..., Int32]


def member(rank: int, count: int, rounds: int = 1, meet: Meet = rendezvous) -> NativeFunction[[], None]:
    """A member, which sends a value in each rendezvous and reads those of all others, until the run ends."""

    def run(f: Function) -> None:
        shared = f.static(SHARED)
        for number in range(rounds):
            sent(f, number, rank).value = 10 * number + rank
            completed = completed_count(f, record(f))
            device, members = f.constant(Word, rank), f.constant(Int32, count)
            zero, place = f.constant(Word, 0), shared.cast(CancellationWord)
            status = meet(f, shared, place, device, zero, record(f), completed, device, members)
            with f.when(status != 0):
                f.ret()
            for other in range(count):
                f.check(sent(f, number, other).value == 10 * number + other, f"member {other} has sent its value")

    run.__name__ = f"member{rank}"
    return native(run)


Await = NativeFunction[..., Int32]


def asynchronous_member(
    rank: int, count: int, rounds: int = 1, await_all: Await = await_rendezvous
) -> NativeFunction[[], None]:
    """A member that does something else between its arrival and the end of each rendezvous."""

    def run(f: Function) -> None:
        shared = f.static(SHARED)
        device, members, zero = f.constant(Word, rank), f.constant(Int32, count), f.constant(Word, 0)
        for number in range(rounds):
            sent(f, number, rank).value = 10 * number + rank
            completed = completed_count(f, record(f))
            start_rendezvous(f, record(f), completed, device, members)
            status = await_all(f, shared, shared.cast(CancellationWord), device, zero, record(f), device)
            with f.when(status != 0):
                f.ret()
            for other in range(count):
                f.check(sent(f, number, other).value == 10 * number + other, f"member {other} has sent its value")

    run.__name__ = f"member{rank}"
    return native(run)


@native
def end_run(f: Function) -> None:
    """Ends the run, as a launch that fails does: all words change, and all devices wake up."""
    offsets = f.static(OFFSETS)
    offsets.items[0] = f.constant(Word, RECORD)
    cancel_waits(f, f.static(SHARED).cast(CancellationWord), offsets, f.constant(Word, 1))


@native
def no_spins(f: Function) -> None:
    """The first member sleeps at once, as after waits that were long."""
    wait_record(f.static(SHARED).cast(CancellationWord), f.constant(Word, 0)).skips = 3


@native
def nobody_sleeps(f: Function) -> None:
    arrivals = record(f).offset(ARRIVALS_OFFSET).cast(Arrivals)
    f.check(arrivals.sleepers.load(RELAXED) == 0, "no member counts as asleep")


@native
def both_have_begun_once(f: Function) -> None:
    nobody_sleeps(f)
    for rank in range(2):
        counter = record(f).offset(rank * 4 + RENDEZVOUS_HEADER_BYTES).cast(MemberCounter)
        f.check(counter.begun.load(RELAXED) == 1, "a member that has arrived is known")


def explored(
    *threads: NativeFunction[[], None],
    answer: int = 0,
    setup: NativeFunction[[], None] | None = None,
    finish: NativeFunction[[], None] = nobody_sleeps,
) -> Exploration:
    """Also if waits never time out, unless the host stops those that wait: no wake-up is lost.

    answer: of the host, which a member asks after each slice of time.
    """
    host = {"host_callback": lambda execution, arguments: answer}
    result = explore(setup, threads, finish, models=host)
    if not answer:
        explore(setup, threads, finish, models=host, times_out=False)
    return result


def test_two_members_exchange_values() -> None:
    """A member that left before the other arrived would read what was not sent: a race on the staging memory."""
    assert explored(member(0, 2), member(1, 2), finish=both_have_begun_once).ends >= 1


def test_two_members_meet_again_and_again() -> None:
    """The areas of staging memory alternate: a member that is ahead must not overwrite what the other still reads."""
    assert explored(member(0, 2, 2), member(1, 2, 2)).ends >= 1


def test_a_run_that_ends_wakes_its_members() -> None:
    """Whether the run ends before, while or after the members meet: nobody sleeps forever."""
    assert explored(member(0, 2), end_run).ends >= 1
    assert explored(member(0, 2), end_run, setup=no_spins).ends >= 1


def test_a_member_that_the_host_stops_leaves() -> None:
    assert explored(member(0, 2), answer=1).ends >= 1


@pytest.mark.parametrize("rounds", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_asynchronous_members_exchange_values(rounds: int) -> None:
    """Whichever arrives first, and whether it waits before or after the other one arrives."""
    assert explored(asynchronous_member(0, 2, rounds), asynchronous_member(1, 2, rounds)).ends >= 1


def test_an_asynchronous_member_meets_one_that_waits() -> None:
    """As in different branches: the first member to arrive may be the one that goes on."""
    assert explored(asynchronous_member(0, 2), member(1, 2)).ends >= 1


def test_a_run_that_ends_wakes_asynchronous_members() -> None:
    assert explored(asynchronous_member(0, 2), end_run).ends >= 1
    assert explored(asynchronous_member(0, 2), end_run, setup=no_spins).ends >= 1
    assert explored(asynchronous_member(0, 2), answer=1).ends >= 1


# --- protocols that are broken in one place each


def broken(
    arrival: Ordering = ACQ_REL, completion: StoreOrdering = SEQ_CST, wakes: bool = True, areas: int = 2
) -> Meet:
    @native
    def meet(
        f: Function,
        table: Address,
        shared: CancellationWord,
        device: Word,
        number: Word,
        record: RendezvousRecord,
        completed: Int32,
        rank: Word,
        count: Int32,
    ) -> Int32:
        counter = record.offset(rank * 4 + RENDEZVOUS_HEADER_BYTES).cast(MemberCounter)
        counter.begun.store(completed + 1, RELAXED)
        arrivals = record.offset(ARRIVALS_OFFSET).cast(Arrivals)
        before = arrivals.arrived.fetch_add(1, arrival)
        with f.when(before + 1 == count):
            arrivals.arrived.store(0, RELAXED)
            record.completed.store(completed + 1, completion)
            if wakes:
                with f.when(arrivals.sleepers.load(SEQ_CST) != 0):
                    record.completed.wake()
            f.ret(0)
        sleepers = arrivals.sleepers.address.cast(Sleepers)
        word, aim, forever = record.cast(AwaitedWord), completed.to(Word), f.constant(Word, 0)
        return await_change(f, table, shared, device, number, word, completed, aim, sleepers, forever)

    return meet


def test_members_that_arrive_without_ordering_race() -> None:
    meet = broken(arrival=RELAXED)
    with pytest.raises(ScheduleError) as caught:
        explored(member(0, 2, meet=meet), member(1, 2, meet=meet))
    assert caught.value.kind == "race"


def test_a_member_that_wakes_nobody_is_found() -> None:
    meet = broken(wakes=False)
    with pytest.raises(ScheduleError) as caught:
        explored(member(0, 2, meet=meet), member(1, 2, meet=meet))
    assert caught.value.kind == "deadlock"


def test_a_run_that_ends_without_changing_the_words_is_found() -> None:
    @native
    def end_quietly(f: Function) -> None:
        f.static(SHARED).is_over.store(1, SEQ_CST)

    meet = broken()
    with pytest.raises(ScheduleError) as caught:
        explored(member(0, 2, meet=meet), end_quietly)
    assert caught.value.kind == "deadlock"


def test_a_member_that_reads_before_the_rendezvous_is_complete_races() -> None:
    @native
    def await_nothing(
        f: Function,
        table: Address,
        shared: CancellationWord,
        device: Word,
        number: Word,
        record: RendezvousRecord,
        rank: Word,
    ) -> Int32:
        return f.constant(Int32, 0)

    with pytest.raises(ScheduleError) as caught:
        explored(*(asynchronous_member(rank, 2, await_all=await_nothing) for rank in range(2)))
    assert caught.value.kind == "race"


def test_an_asynchronous_member_that_sees_the_end_without_acquiring_it_races() -> None:
    @native
    def await_relaxed(
        f: Function,
        table: Address,
        shared: CancellationWord,
        device: Word,
        number: Word,
        record: RendezvousRecord,
        rank: Word,
    ) -> Int32:
        with f.when(record.completed.load(RELAXED) != 0):
            f.ret(0)
        return await_rendezvous(f, table, shared, device, number, record, rank)

    with pytest.raises(ScheduleError) as caught:
        explored(*(asynchronous_member(rank, 2, await_all=await_relaxed) for rank in range(2)))
    assert caught.value.kind == "race"
