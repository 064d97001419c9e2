"""Message queues under all schedules: between two devices, to the host, and when a run ends early."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from xlapy.cpu.llvm.communication.infeeds import join_feed
from xlapy.cpu.llvm.communication.queues import (
    Link,
    Message,
    Queue,
    ReceivingEnd,
    announce_receipt,
    await_message,
    claim_receiver,
    claim_sender,
    clear_queue,
    finish,
    is_joined,
    link_after_finished,
    new_message,
    notify,
    post,
    receive,
    receiving_end,
    sent_count,
    sent_word,
    take_message,
)
from xlapy.cpu.llvm.communication.waits import (
    CancellationWord,
    Sleepers,
    WordOffsets,
    await_change,
    cancel_waits,
    wait_record,
)
from xlapy.cpu.program.shared_records import MESSAGE_HEADER_BYTES, QUEUE_BYTES, QUEUE_SENT_OFFSET, WAIT_RECORD_BYTES
from xlapy.native.checker.explore import Exploration, explore
from xlapy.native.checker.machine import Execution
from xlapy.native.checker.memory import ScheduleError
from xlapy.native.function import Function, NativeFunction, Static, free, native
from xlapy.native.ir import ACQUIRE, RELAXED, RELEASE, SEQ_CST, StoreOrdering
from xlapy.native.records import Atomic, Owned, Record
from xlapy.native.values import Address, Int32, Nullable, Word

DEVICES = 3
QUEUE = WAIT_RECORD_BYTES * (1 + DEVICES)
"""Offset of the queue: the cancellation word and the wait records precede it."""
SENDER, RECEIVER = 0, 1
SEND_THUNK, RECEIVE_THUNK = 4, 5
MESSAGE_BYTES = MESSAGE_HEADER_BYTES + 8


class SharedMemory(Record):
    """The memory that the devices of a run share."""

    is_over: Atomic[Int32]


class Payload(Record):
    """The array of a message."""

    value: Owned[Word]


SHARED = Static("shared_memory", SharedMemory, QUEUE + QUEUE_BYTES)
OFFSETS = Static("offsets", WordOffsets, 8)

Post = NativeFunction[[Queue, Message], None]


def queue(f: Function) -> Queue:
    return f.static(SHARED).offset(QUEUE).cast(Queue)


def sender(
    count: int, first: int = 1, device: int = SENDER, posts: Post = post, last: str = ""
) -> NativeFunction[[], None]:
    """A device that sends messages, each with its own number, as long as the host grants it the end of the queue."""

    def run(f: Function) -> None:
        table = f.static(SHARED)
        place, thunk = f.constant(Word, device), f.constant(Word, SEND_THUNK)
        for number in range(first, first + count):
            with f.when(claim_sender(f, table, place, thunk, queue(f)) != 0):
                f.ret()
            message = new_message(f, table, place, thunk, f.constant(Word, MESSAGE_BYTES)).known("memory suffices")
            message.offset(MESSAGE_HEADER_BYTES).cast(Payload).value = number
            posts(f, queue(f), message)

    run.__name__ = f"sender{device}{last}"
    return native(run)


Finish = NativeFunction[[Queue, Message], None]


def receiver(
    *order: int, finishes: Finish = finish, gets: NativeFunction = receive, is_stopped: bool = False
) -> NativeFunction[[], None]:
    """A device that announces receipts, and then waits for the messages in an order, until the run ends.

    is_stopped: whether the host may stop the device.
    """

    def run(f: Function) -> None:
        table = f.static(SHARED)
        device, thunk = f.constant(Word, RECEIVER), f.constant(Word, RECEIVE_THUNK)
        with f.when(claim_receiver(f, table, device, thunk, queue(f)) != 0):
            f.ret()
        for number in range(len(order)):
            f.check(announce_receipt(f, queue(f)) == number + 1, "receipts are numbered")
        for number in order:
            wanted = f.constant(Int32, number)
            found = gets(f, table, table.cast(CancellationWord), device, thunk, queue(f), wanted)
            with f.when(found.is_null()):
                if not is_stopped:
                    f.check(table.is_over.load(RELAXED) != 0, "a message arrives unless the run ends")
                f.ret()
            message = found.value
            f.check(message.offset(MESSAGE_HEADER_BYTES).cast(Payload).value == number, "the message has its number")
            f.check((message.thunk == SEND_THUNK) & (message.device == SENDER), "the message names its sender")
            finishes(f, queue(f), message)

    run.__name__ = "receiver"
    return native(run)


@native
def end_run(f: Function) -> None:
    """Ends the run early."""
    offsets = f.static(OFFSETS)
    offsets.items[0] = f.constant(Word, QUEUE + QUEUE_SENT_OFFSET)
    cancel_waits(f, f.static(SHARED).cast(CancellationWord), offsets, f.constant(Word, 1))


@native
def clear(f: Function) -> None:
    """What the host does after a run: it frees all messages."""
    f.check(queue(f).sleepers.load(RELAXED) == 0, "no thread counts as asleep")
    clear_queue(f, queue(f))
    f.check(take_message(f, queue(f)).is_null(), "the queue is empty")


def explored(
    *threads: NativeFunction[[], None],
    answer: int = 0,
    setup: NativeFunction[[], None] | None = None,
) -> Exploration:
    """Also if waits never time out, unless the host stops those that wait: no wake-up is lost."""
    models = {"host_callback": lambda execution, arguments: answer}
    result = explore(setup, threads, clear, models=models)
    if not answer:
        explore(setup, threads, clear, models=models, times_out=False)
    return result


# --- between devices


def test_messages_in_order() -> None:
    """Each message arrives whole and once, nobody sleeps forever, and what was received is freed."""
    assert explored(sender(2), receiver(1, 2)).ends >= 1


def test_messages_in_another_order() -> None:
    """The second message is received first: the first must stay, with the link to the second."""
    assert explored(sender(2), receiver(2, 1)).ends >= 1


def test_a_run_that_ends_wakes_the_receiver() -> None:
    """Whether the run ends before, while or after the receiver waits for a message that never comes."""
    assert explored(receiver(1), end_run).ends >= 1


def test_a_sender_a_receiver_and_the_end_of_the_run() -> None:
    """The end of the run changes the number of messages while the sender does: no wake-up is lost."""

    @native
    def post_one(f: Function) -> None:
        table, place = f.static(SHARED), f.constant(Word, SENDER)
        message = new_message(f, table, place, place, f.constant(Word, MESSAGE_BYTES)).known("memory suffices")
        post(f, queue(f), message)

    @native
    def receive_another(f: Function) -> None:
        table, place, wanted = f.static(SHARED), f.constant(Word, RECEIVER), f.constant(Int32, 2)
        careless_receive(f, table, table.cast(CancellationWord), place, place, queue(f), wanted)

    @native
    def no_spins(f: Function) -> None:
        wait_record(f.static(SHARED).cast(CancellationWord), f.constant(Word, RECEIVER)).skips = 3

    assert explored(post_one, receive_another, end_run, setup=no_spins).ends >= 1
    assert explored(sender(1), receiver(1), end_run, setup=no_spins).ends >= 1


def test_a_receiver_that_the_host_stops_leaves() -> None:
    assert explored(receiver(1, is_stopped=True), answer=1).ends >= 1


def test_only_one_of_two_devices_sends() -> None:
    """The host grants the sender's end to one device. The other one never touches what the sender owns."""

    def grant(execution: Execution, arguments: Sequence[int]) -> int:
        return int(execution.thread.actor.number == 1)

    threads = sender(1), sender(1, device=2), receiver(1)
    assert explore(None, threads, clear, models={"host_callback": grant}).ends >= 1


class Asked(Record):
    """How often devices have asked the host, and for which thunk at last."""

    times: Owned[Word]
    thunk: Owned[Word]


ASKED = Static("asked", Asked)


@native
def host_callback(f: Function, table: Address, number: Word) -> Int32:
    """In place of the external function."""
    asked = f.static(ASKED)
    asked.times = asked.times + 1
    asked.thunk = number
    return f.constant(Int32, 0)


def test_a_device_asks_once_for_the_end_of_a_queue() -> None:
    @native
    def claim_both_twice(f: Function) -> None:
        place, thunk = f.constant(Word, SENDER), f.constant(Word, SEND_THUNK)
        for _ in range(2):
            f.check(claim_sender(f, f.static(SHARED), place, thunk, queue(f)) == 0, "it is granted")
            f.check(claim_receiver(f, f.static(SHARED), place, thunk, queue(f)) == 0, "it is granted")
        f.check(f.static(ASKED).times == 2, "the host is asked once for each end")

    assert explore(None, [claim_both_twice], clear, also=[host_callback]).ends == 1


def test_a_message_without_memory_is_reported() -> None:
    @native
    def make_message(f: Function) -> None:
        place, thunk = f.constant(Word, SENDER), f.constant(Word, SEND_THUNK)
        made = new_message(f, f.static(SHARED), place, thunk, f.constant(Word, MESSAGE_BYTES))
        with f.when(made.is_null()):
            f.check((f.static(ASKED).times == 1) & (f.static(ASKED).thunk == ~SEND_THUNK), "the host knows the thunk")
            f.ret()
        f.check(f.static(ASKED).times == 0, "the host is not called")
        free(f, made.value.as_memory())

    assert explore(None, [make_message], clear, also=[host_callback], exhausts_memory=True).ends == 2


# --- to the host


@native
def join(f: Function) -> None:
    join_feed(f, queue(f))


@native
def outfeed(f: Function) -> None:
    """A device that gives the host two values, if it has joined."""
    table, place, thunk = f.static(SHARED), f.constant(Word, SENDER), f.constant(Word, SEND_THUNK)
    for number in (1, 2):
        with f.when(~is_joined(f, queue(f))):
            f.ret()
        message = new_message(f, table, place, thunk, f.constant(Word, MESSAGE_BYTES)).known("memory suffices")
        message.offset(MESSAGE_HEADER_BYTES).cast(Payload).value = number
        post(f, queue(f), message)


def host_receiver(waits: NativeFunction) -> NativeFunction[[], None]:
    """The host, which takes two values, and sleeps while there is none."""

    def take_both(f: Function) -> None:
        for number in (1, 2):
            with f.loop() as loop:
                seen = sent_count(f, queue(f))
                message = take_message(f, queue(f))
                with f.when(message.is_present()):
                    payload = message.value.offset(MESSAGE_HEADER_BYTES).cast(Payload)
                    f.check(payload.value == number, "values arrive in order")
                    loop.leave()
                waits(f, queue(f), seen)

    return native(take_both)


@native
def sleep(f: Function, queue: Queue, seen: Int32) -> None:
    await_message(f, queue, seen, f.constant(Word, 1000))


def test_the_host_takes_what_a_device_feeds_out() -> None:
    """It sleeps until it is woken: the times that pass would be states without end."""
    assert explore(join, [outfeed, host_receiver(sleep)], clear, times_out=False).ends >= 1


def test_the_host_waits_for_a_time() -> None:
    @native
    def wait_once(f: Function) -> None:
        with f.when(await_message(f, queue(f), f.constant(Int32, 0), f.constant(Word, 1000))):
            f.check(queue(f).first.load(ACQUIRE).is_present(), "a message that was counted is in the list")

    assert explored(sender(1), wait_once).ends >= 1


@native
def sleep_until_woken(f: Function) -> None:
    is_woken = await_message(f, queue(f), f.constant(Int32, 0), f.constant(Word, 1000))
    f.check(is_woken, "the time does not pass")


@native
def wake(f: Function) -> None:
    """A thread that puts a value into the host's queue wakes another one, which sleeps on the device's."""
    notify(f, queue(f))


@native
def clear_joined(f: Function) -> None:
    clear_queue(f, queue(f))


@native
def the_host_has_left(f: Function) -> None:
    f.check(~is_joined(f, queue(f)), "the host is at no queue that it has cleared")
    clear(f)


@pytest.mark.parametrize("waker", [wake, clear_joined])
def test_a_notification_wakes_the_host(waker: NativeFunction[[], None]) -> None:
    assert explore(None, [sleep_until_woken, waker], clear, times_out=False).ends >= 1


def test_a_queue_that_is_cleared_is_left() -> None:
    assert explore(join, [clear_joined], the_host_has_left).ends == 1


def test_a_device_uses_a_queue_after_the_host_has_cleared_it() -> None:
    @native
    def clear_and_join(f: Function) -> None:
        clear_queue(f, queue(f))
        join_feed(f, queue(f))

    assert explored(outfeed, clear_and_join).ends >= 1


# --- protocols that are broken in one place each


def broken_post(link: StoreOrdering = RELEASE, wakes: bool = True, counts_first: bool = False) -> Post:
    @native
    def broken(f: Function, queue: Queue, message: Message) -> None:
        message = f.exclusive_access(message, "it is in no queue yet")
        message.number = (queue.sent.load(RELAXED) + 1).to(Word)
        tail = queue.last
        before = f.variable(Link, queue.cast(Link))
        with f.when(tail.is_present()):
            before.set(tail.value.cast(Link))
        queue.last = message.maybe()
        if counts_first:
            queue.sent.fetch_add(1, SEQ_CST)
        before.get().next.store(message.maybe(), link)
        if not counts_first:
            queue.sent.fetch_add(1, SEQ_CST if link is RELEASE else RELAXED)
        if wakes:
            with f.when(queue.sleepers.load(SEQ_CST) != 0):
                queue.sent.wake()

    return broken


@native
def careless_receive(
    f: Function, table: Address, shared: CancellationWord, device: Word, number: Word, queue: Queue, wanted: Int32
) -> Nullable[Message]:
    """As `receive`, but sleeps without a limit of time, so that lost wake-ups are deadlocks. A message that was counted
    must be in the list, unless the run has ended."""
    sleepers = queue.sleepers.address.cast(Sleepers)
    with f.loop() as waiting:
        sent = queue.sent.load(ACQUIRE)
        with f.when(~(sent - wanted).is_negative()):
            waiting.leave()
        forever, aim = f.constant(Word, 0), wanted.to(Word)
        status = await_change(f, table, shared, device, number, sent_word(queue), sent, aim, sleepers, forever)
        with f.when(status != 0):
            f.ret(None)
    found = link_after_finished(f, queue).next.load(ACQUIRE)
    has_ended = shared.is_canceled.load(ACQUIRE) != 0
    f.check(found.is_present() | has_ended, "a message that was counted is in the list")
    return found


def test_a_receiver_that_sleeps_without_limit_is_woken() -> None:
    """The protocol needs no time-outs."""
    assert explored(sender(2), receiver(1, 2, gets=careless_receive)).ends >= 1


def fails(kind: str, *threads: NativeFunction[[], None]) -> None:
    with pytest.raises(ScheduleError) as caught:
        explored(*threads)
    assert caught.value.kind == kind, caught.value


def test_messages_that_are_linked_without_ordering_race() -> None:
    fails("race", sender(1, posts=broken_post(link=RELAXED)), receiver(1, is_stopped=True))


def test_a_sender_that_wakes_nobody_is_found() -> None:
    fails("deadlock", sender(1, posts=broken_post(wakes=False)), receiver(1, gets=careless_receive))


def test_a_sender_that_counts_before_it_links_is_found() -> None:
    fails("assertion", sender(1, posts=broken_post(counts_first=True)), receiver(1, gets=careless_receive))


@native
def hasty_finish(f: Function, queue: Queue, message: Message) -> None:
    """Frees each message at once, although it links to the next one."""
    end: ReceivingEnd = receiving_end(queue)
    end.finished = message.maybe()
    free(f, message.as_memory())


def test_a_receiver_that_frees_the_last_message_is_found() -> None:
    """The sender still appends to it."""
    fails("use after free", sender(2), receiver(1, finishes=hasty_finish))


def test_two_senders_that_nobody_arbitrates_race() -> None:
    """The host grants both devices the same end."""
    fails("race", sender(1), sender(1, device=2, last="b"))


def test_a_run_that_ends_without_changing_the_word_is_found() -> None:
    @native
    def end_quietly(f: Function) -> None:
        f.static(SHARED).is_over.store(1, SEQ_CST)

    fails("deadlock", receiver(1, gets=careless_receive), end_quietly)
