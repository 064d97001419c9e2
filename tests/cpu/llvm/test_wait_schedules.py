"""Snapshots of waiting devices under all schedules: what is reported as a deadlock is one."""

from __future__ import annotations

import pytest

from xlapy.cpu.llvm.communication.waits import (
    AwaitedWord,
    CancellationWord,
    Sleepers,
    WaitSnapshot,
    await_change,
    read_wait,
    read_word,
    wait_record,
)
from xlapy.cpu.program.shared_records import WAIT_RECORD_BYTES
from xlapy.native.checker.explore import Exploration, explore
from xlapy.native.checker.memory import ScheduleError
from xlapy.native.function import Function, NativeFunction, Static, native
from xlapy.native.ir import RELAXED, SEQ_CST
from xlapy.native.records import Atomic, Record
from xlapy.native.values import Int32, Word

DEVICES = 2
FIRST, SECOND = WAIT_RECORD_BYTES * (1 + DEVICES), WAIT_RECORD_BYTES * (2 + DEVICES)
"""Offsets of the words on which the devices wait. The number of sleepers is at the offset 8 behind each."""


class SharedMemory(Record):
    """The memory that the devices of a run share."""

    is_over: Atomic[Int32]


SHARED = Static("shared_memory", SharedMemory, WAIT_RECORD_BYTES * (3 + DEVICES))
SNAPSHOTS = Static("snapshots", WaitSnapshot, 24 * 2 * DEVICES)

ReadWait = NativeFunction[[CancellationWord, Word, WaitSnapshot], None]


def word(f: Function, offset: int) -> AwaitedWord:
    return f.static(SHARED).offset(offset).cast(AwaitedWord)


def wait(f: Function, device: int, offset: int, seen: int, slice: int = 0) -> None:
    """The device waits until the word differs from the number seen, which is also the aim in its record."""
    shared = f.static(SHARED)
    sleepers, time = shared.offset(offset + 8).cast(Sleepers), f.constant(Word, slice)
    number, value = f.constant(Word, device), f.constant(Int32, seen)
    place, aim = shared.cast(CancellationWord), f.constant(Word, seen)
    await_change(f, shared, place, number, number, word(f, offset), value, aim, sleepers, time)


def signal(f: Function, offset: int) -> None:
    word(f, offset).value.fetch_add(1, SEQ_CST)
    word(f, offset).value.wake()


@native
def first_device(f: Function) -> None:
    """Waits for the second device, and answers."""
    wait(f, 0, FIRST, 0)
    signal(f, SECOND)


@native
def second_device(f: Function) -> None:
    """Signals to the first device, and waits for its answer."""
    signal(f, FIRST)
    wait(f, 1, SECOND, 0)


def watchdog(read: ReadWait = read_wait, looks: int = 2, name: str = "") -> NativeFunction[[], None]:
    """Takes snapshots as the host does. The two devices can always go on, so no two of them may agree that both wait
    for what has not happened."""

    def watch(f: Function) -> None:
        shared = f.static(SHARED).cast(CancellationWord)
        waits = f.constant(Word, 1)
        for look in range(looks):
            for device, offset in enumerate((FIRST, SECOND)):
                snapshot = f.static(SNAPSHOTS).offset(24 * (look * DEVICES + device)).cast(WaitSnapshot)
                read(f, shared, f.constant(Word, device), snapshot)
                has_happened = read_word(f, word(f, offset)).to(Word) != snapshot.aim
                with f.when((snapshot.thunk == 0) | has_happened):
                    f.ret()
        for device in range(DEVICES):
            first, second = (
                f.static(SNAPSHOTS).offset(24 * (look * DEVICES + device)).cast(WaitSnapshot) for look in (0, looks - 1)
            )
            with f.when((first.times != second.times) | (first.thunk != second.thunk)):
                f.ret()
        f.check(waits == 0, "both devices are reported although one can go on")

    watch.__name__ = f"watchdog{name}"
    return native(watch)


@native
def no_spins(f: Function) -> None:
    """Devices sleep at once: spinning is only another way to find that a word has changed."""
    for device in range(DEVICES):
        wait_record(f.static(SHARED).cast(CancellationWord), f.constant(Word, device)).skips = 3


@native
def first_device_waits(f: Function) -> None:
    """The first device waits already, and stays as it is."""
    no_spins(f)
    record = wait_record(f.static(SHARED).cast(CancellationWord), f.constant(Word, 0))
    record.thunk.store(1, RELAXED)
    record.times.store(1, RELAXED)


@native
def all_has_happened(f: Function) -> None:
    """What the first device waits for has happened twice, so its waits end at once."""
    no_spins(f)
    word(f, FIRST).value.store(2, RELAXED)


MODELS = {"host_callback": lambda execution, arguments: 0}


def explored(setup: NativeFunction[[], None], *threads: NativeFunction[[], None], **limits: int) -> Exploration:
    return explore(setup, threads, None, models=MODELS, **limits)


@native
def answer(f: Function) -> None:
    signal(f, SECOND)


def test_devices_that_can_go_on_are_never_reported() -> None:
    """The second device signals to the first one before it waits itself."""
    assert explored(first_device_waits, second_device, watchdog(), answer).ends >= 1


def test_one_device_that_waits_again_and_again() -> None:
    """The fields of two waits are never taken for one: a snapshot that mixes them differs from the next one."""

    @native
    def waits_twice(f: Function) -> None:
        wait(f, 0, FIRST, 0)
        wait(f, 0, FIRST, 1)

    @native
    def watch_one(f: Function) -> None:
        shared, device = f.static(SHARED).cast(CancellationWord), f.constant(Word, 0)
        first, second = (f.static(SNAPSHOTS).offset(24 * look).cast(WaitSnapshot) for look in range(2))
        for snapshot in (first, second):
            read_wait(f, shared, device, snapshot)
            with f.when(snapshot.thunk == 0):
                f.ret()
        is_equal = (first.aim == second.aim) & (first.times == second.times)
        with f.when(is_equal):
            f.check(second.aim + 1 == second.times, "the aim is that of the same wait")

    assert explored(all_has_happened, waits_twice, watch_one).ends >= 1


def test_a_device_sleeps_before_it_calls_the_host() -> None:
    @native
    def waits_for_a_time(f: Function) -> None:
        wait(f, 0, FIRST, 0, slice=1000)

    @native
    def signal_once(f: Function) -> None:
        signal(f, FIRST)

    def host(execution: object, arguments: object) -> int:
        raise ScheduleError("assertion", "the device calls the host before its time is over")

    threads = [waits_for_a_time, signal_once]
    assert explore(None, threads, models={"host_callback": host}, times_out=False).ends >= 1
    assert explore(no_spins, threads, models={"host_callback": host}, times_out=False).ends >= 1
    with pytest.raises(ScheduleError):
        explore(None, threads, models={"host_callback": host})


@native
def read_without_order(f: Function, shared: CancellationWord, device: Word, snapshot: WaitSnapshot) -> None:
    """Reads a record without learning what the device did before it waited."""
    record = wait_record(shared, device)
    snapshot.thunk = record.thunk.load(RELAXED)
    snapshot.aim = record.aim.load(RELAXED)
    snapshot.times = record.times.load(RELAXED)


def test_snapshots_without_order_are_found() -> None:
    """Without order, the watchdog sees that a device waits, and not the signal that it gave before."""
    with pytest.raises(ScheduleError) as caught:
        explored(first_device_waits, second_device, watchdog(read_without_order, name="_without_order"), answer)
    assert caught.value.kind == "assertion", caught.value
