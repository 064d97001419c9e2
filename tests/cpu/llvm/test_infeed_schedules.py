"""Infeeds under all schedules: the host adds values, joins and leaves, and the run may end early."""

from __future__ import annotations

import pytest

from xlapy.cpu.llvm.communication.infeeds import (
    TAKE,
    InfeedMessage,
    add_infeed,
    finish_infeed,
    infeed_array,
    join_feed,
    leave_infeed,
    next_infeed,
    taken_count,
)
from xlapy.cpu.llvm.communication.queues import Link, Queue, notify, receiving_end, sent_word
from xlapy.cpu.llvm.communication.waits import (
    CHANGED,
    CancellationWord,
    Sleepers,
    WordOffsets,
    await_change,
    cancel_waits,
)
from xlapy.cpu.program.shared_records import QUEUE_BYTES, QUEUE_SENT_OFFSET, WAIT_RECORD_BYTES
from xlapy.native.checker.explore import Exploration, explore
from xlapy.native.checker.memory import ScheduleError
from xlapy.native.function import Function, NativeFunction, Static, free, native
from xlapy.native.ir import RELAXED, RELEASE, SEQ_CST
from xlapy.native.records import Atomic, Owned, Record
from xlapy.native.values import Address, Int32, Nullable, Word

QUEUE = WAIT_RECORD_BYTES * 2
"""Offset of the queue: the cancellation word and the wait record of the device precede it."""
KIND = 3


class SharedMemory(Record):
    """The memory that the devices of a run share."""

    is_over: Atomic[Int32]


class Cell(Record):
    """An array that is fed in."""

    value: Owned[Word]


class Host(Record):
    """What the host's thread knows. last: the message that it added last; first: the oldest that it has not freed."""

    last: Owned[Nullable[InfeedMessage]]
    first: Owned[Nullable[InfeedMessage]]


SHARED = Static("shared_memory", SharedMemory, QUEUE + QUEUE_BYTES)
CELLS = Static("cells", Cell, 8 * 4)
HOST = Static("host", Host)
OFFSETS = Static("offsets", WordOffsets, 8)

Leave = NativeFunction[[Queue], None]


def queue(f: Function) -> Queue:
    return f.static(SHARED).offset(QUEUE).cast(Queue)


def cell(f: Function, number: Word | int) -> Cell:
    return f.static(CELLS).offset(number * 8).cast(Cell)


def add(f: Function, number: int, kind: int = KIND) -> None:
    """Adds a message whose array is that cell."""
    cell(f, number).value = 10 + number
    message = f.allocate(InfeedMessage, 8).known("memory suffices")
    message.kind = kind
    message.arrays[0] = cell(f, number)
    host = f.static(HOST)
    last = f.variable(Link, queue(f).cast(Link))
    before = host.last
    with f.when(before.is_present()):
        last.set(before.value.cast(Link))
    with f.when(host.first.is_null()):
        host.first = message.maybe()
    host.last = message.maybe()
    add_infeed(f, queue(f), last.get(), message)


def free_taken(f: Function, before: Word | int) -> Word:
    """Frees the messages that the device does not access any more, and overwrites their arrays: all that were taken but
    the last. before: how many had been taken at the last call. Returns how many are taken now."""
    taken = taken_count(f, queue(f)).to(Word)
    with f.count(taken) as one, f.when(~(one.index < before)):
        cell(f, one.index).value = 99
    return taken


def clear(f: Function) -> None:
    """Frees all messages."""
    host = f.static(HOST)
    following = f.variable(Nullable[InfeedMessage], host.first)
    with f.loop() as loop:
        message = following.get()
        with f.when(message.is_null()):
            loop.leave()
        following.set(message.value.next.load(RELAXED))
        free(f, message.as_memory())


@native
def device(f: Function) -> None:
    """A device that takes values until it is to call the host, or the run ends."""
    take_all(f, 3)


def take_all(f: Function, count: int) -> None:
    table, number, place = f.static(SHARED), f.constant(Word, 1), f.constant(Word, 0)
    for taken in range(count):
        shared, kind = table.cast(CancellationWord), f.constant(Word, KIND)
        with f.when(next_infeed(f, table, shared, place, number, queue(f), kind) != TAKE):
            f.ret()
        value = infeed_array(f, queue(f), place).cast(Cell).value
        f.check(value == 10 + taken, "values arrive in order, and whole")
        finish_infeed(f, queue(f))


def host(values: int, leave: Leave = leave_infeed, joins: bool = True, name: str = "") -> NativeFunction[[], None]:
    """The host: adds values, one of them before it joins, and leaves. What the device has not taken then, the host may
    overwrite."""

    def feed(f: Function) -> None:
        add(f, 0)
        if joins:
            join_feed(f, queue(f))
        before = free_taken(f, 0)
        for number in range(1, values):
            add(f, number)
        leave(f, queue(f))
        taken = free_taken(f, before)
        with f.count(f.constant(Word, values) - taken) as one:
            cell(f, one.index + taken).value = 98
        f.check(receiving_end(queue(f)).taken.load(SEQ_CST).to(Word) == taken, "the device takes nothing more")

    feed.__name__ = f"host{values}{name}"
    return native(feed)


@native
def end_run(f: Function) -> None:
    """Ends the run early."""
    offsets = f.static(OFFSETS)
    offsets.items[0] = f.constant(Word, QUEUE + QUEUE_SENT_OFFSET)
    cancel_waits(f, f.static(SHARED).cast(CancellationWord), offsets, f.constant(Word, 1))


@native
def clear_all(f: Function) -> None:
    f.check(queue(f).sleepers.load(RELAXED) == 0, "the device does not count as asleep")
    clear(f)


MODELS = {"host_callback": lambda execution, arguments: 0, "sched_yield": lambda execution, arguments: 0}


def explored(*threads: NativeFunction[[], None], setup: NativeFunction[[], None] | None = None) -> Exploration:
    """Also if waits never time out: no wake-up is lost."""
    explore(setup, threads, clear_all, models=MODELS, times_out=False)
    return explore(setup, threads, clear_all, models=MODELS, max_states=20_000_000)


def test_the_host_feeds_and_leaves() -> None:
    """Whatever the device has taken when the host has left, it has taken whole, and it takes nothing afterwards."""
    assert explored(device, host(1)).ends >= 1


@native
def device_of_one_value(f: Function) -> None:
    """A device that does not come back."""
    take_all(f, 1)


def test_the_host_leaves_after_the_last_value() -> None:
    assert explored(device_of_one_value, host(1)).ends >= 1


@native
def join(f: Function) -> None:
    join_feed(f, queue(f))


def test_the_host_leaves_while_the_device_waits() -> None:
    @native
    def leave(f: Function) -> None:
        leave_infeed(f, queue(f))

    assert explored(device_of_one_value, leave, setup=join).ends >= 1


def test_the_host_frees_what_the_device_has_taken_but_the_last() -> None:
    @native
    def device_of_two_values(f: Function) -> None:
        take_all(f, 2)

    @native
    def add_two(f: Function) -> None:
        add(f, 0)
        add(f, 1)
        join(f)

    @native
    def free_first(f: Function) -> None:
        host = f.static(HOST)
        with f.when(taken_count(f, queue(f)) == 2):
            first = host.first.known("it was added")
            host.first = first.next.load(RELAXED)
            free(f, first.as_memory())

    assert explored(device_of_two_values, free_first, end_run, setup=add_two).ends >= 1


@native
def add_one(f: Function) -> None:
    add(f, 0)


@native
def device_that_gets_a_value(f: Function) -> None:
    table, number, place = f.static(SHARED), f.constant(Word, 1), f.constant(Word, 0)
    shared, kind = table.cast(CancellationWord), f.constant(Word, KIND)
    status = next_infeed(f, table, shared, place, number, queue(f), kind)
    f.check(status == TAKE, "a value that is added is taken")
    f.check(infeed_array(f, queue(f), place).cast(Cell).value == 10, "the value is whole")
    finish_infeed(f, queue(f))


def test_a_device_that_waits_gets_the_value() -> None:
    assert explored(device_that_gets_a_value, add_one, setup=join).ends >= 1


def test_the_run_ends_while_the_host_adds_a_value() -> None:
    """The device may find the message in the list before it is counted."""
    assert explored(device_of_one_value, add_one, end_run, setup=join).ends >= 1


def test_a_device_that_calls_the_host_is_not_busy() -> None:
    """The host may leave then, in the same thread."""

    @native
    def host_callback(f: Function, table: Address, number: Word) -> Int32:
        f.check(receiving_end(queue(f)).is_busy.load(RELAXED) == 0, "the host need not wait")
        return f.constant(Int32, 0)

    threads = [device_that_gets_a_value, add_one]
    assert explore(join, threads, clear_all, also=[host_callback], models=MODELS).ends >= 1


def test_a_host_that_has_not_joined_is_called() -> None:
    assert explored(device, host(1, joins=False)).ends >= 1


@native
def sleeping_device(f: Function) -> None:
    """A device that waits for a value without a limit of time."""
    zero, word = f.constant(Word, 0), sent_word(queue(f))
    sleepers = queue(f).sleepers.address.cast(Sleepers)
    shared = f.static(SHARED)
    await_change(f, shared, shared.cast(CancellationWord), zero, zero, word, f.constant(Int32, 0), zero, sleepers, zero)


@native
def wake_device(f: Function) -> None:
    notify(f, queue(f))


def test_the_run_ends_while_the_host_leaves() -> None:
    """Both change the word on which the device sleeps, in different bits: the changes do not cancel out."""
    assert explored(sleeping_device, wake_device, end_run).ends >= 1


def test_a_value_of_another_shape_is_left_to_the_host() -> None:
    @native
    def feed_another(f: Function) -> None:
        add(f, 0, kind=0)
        join_feed(f, queue(f))

    @native
    def nothing_is_taken(f: Function) -> None:
        f.check(taken_count(f, queue(f)) == 0, "the device leaves it")
        clear(f)

    assert explore(None, (device, feed_another), nothing_is_taken, models=MODELS).ends >= 1


# --- protocols that are broken in one place each


@native
def leave_at_once(f: Function, queue: Queue) -> None:
    """Does not wait until the device has taken what it was about to take."""
    queue.is_joined.store(0, SEQ_CST)
    notify(f, queue)


@native
def leave_without_order(f: Function, queue: Queue) -> None:
    """May find the device not busy before the device finds that the host has left."""
    queue.is_joined.store(0, RELEASE)
    is_busy = receiving_end(queue).is_busy
    with f.loop() as loop, f.when(is_busy.load(RELAXED) == 0):
        loop.leave()


@pytest.mark.parametrize("leave", [leave_at_once, leave_without_order], ids=lambda leave: leave.name)
def test_a_host_that_leaves_carelessly_is_found(leave: Leave) -> None:
    """It overwrites what the device reads."""
    with pytest.raises(ScheduleError) as caught:
        explored(device, host(1, leave, name=leave.name))
    assert caught.value.kind in ("race", "assertion"), caught.value


def test_a_host_that_frees_the_last_message_is_found() -> None:
    """It links to the next one, which the device looks up when it comes back."""

    @native
    def greedy(f: Function) -> None:
        add(f, 0)
        join_feed(f, queue(f))
        with f.when(taken_count(f, queue(f)) == 1):
            free(f, f.static(HOST).first.as_memory())
            f.static(HOST).first = None

    with pytest.raises(ScheduleError) as caught:
        explore(None, (device, greedy, end_run), clear_all, models=MODELS)
    assert caught.value.kind == "use after free", caught.value


def test_a_device_that_is_not_busy_while_it_takes_is_found() -> None:
    @native
    def careless_device(f: Function) -> None:
        table, number, place = f.static(SHARED), f.constant(Word, 1), f.constant(Word, 0)
        shared, kind = table.cast(CancellationWord), f.constant(Word, KIND)
        with f.when(next_infeed(f, table, shared, place, number, queue(f), kind) == TAKE):
            receiving_end(queue(f)).is_busy.store(0, RELEASE)
            f.check(infeed_array(f, queue(f), place).cast(Cell).value == 10, "the value is whole")
            finish_infeed(f, queue(f))

    with pytest.raises(ScheduleError) as caught:
        explored(careless_device, host(1))
    assert caught.value.kind in ("race", "assertion"), caught.value


def test_a_host_that_inverts_the_bit_of_the_end_of_the_run_is_found() -> None:
    """The device sleeps on a word that has changed twice."""

    @native
    def invert(f: Function) -> None:
        queue(f).sent.fetch_xor(CHANGED, SEQ_CST)
        queue(f).sent.wake()

    with pytest.raises(ScheduleError) as caught:
        explored(sleeping_device, invert, end_run)
    assert caught.value.kind == "deadlock", caught.value
