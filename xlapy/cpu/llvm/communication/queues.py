"""Message queues between two devices, or between a device and the host, in the memory that the devices of a run share.

A queue is a list of messages. Only the sender appends to the list. Only the receiver takes messages, in any order; it
frees those before the first one that it has not taken yet. A message has a header of `MESSAGE_HEADER_BYTES`, followed
by its arrays, each in cache lines of its own.

The host is the receiver of the queues of outfeeds, and of all queues after a run. Its functions follow those of
devices.

Responsible for the records of queues and for what both ends do. Does not depend on which device sends to which.
"""

from __future__ import annotations

from xlapy.cpu.llvm.communication.waits import (
    SLICE,
    AwaitedWord,
    CancellationWord,
    Sleepers,
    await_change,
    host_callback,
)
from xlapy.cpu.program.shared_records import MESSAGE_HEADER_BYTES, QUEUE_BYTES, QUEUE_SENT_OFFSET
from xlapy.native.function import Function, free, malloc, native
from xlapy.native.ir import ACQUIRE, RELAXED, RELEASE, SEQ_CST
from xlapy.native.records import Atomic, Final, Owned, Record
from xlapy.native.values import Address, Bool, Int32, Nullable, Word

RECEIVER_OFFSET = 64
"""The offset of `ReceivingEnd` in a queue: a cache line of its own."""

NOTIFIED = 1 << 29
"""The bit of the number of messages that the host inverts to wake the threads that wait for messages. Cancellation
inverts another bit, so that both together are a change as well."""


class Link(Record):
    """The common first field of a queue and of a message. next: the first message, or the one after this message."""

    next: Atomic[Nullable[Message]]


class Message(Record):
    """number: counts the messages of the queue from 1 on. is_taken: whether the receiver has taken it. thunk, device:
    those that sent it."""

    next: Atomic[Nullable[Message]]
    number: Final[Word]
    is_taken: Owned[Word]
    thunk: Final[Word]
    device: Final[Word]


class QueueEnd(Record):
    """device: the number of the device that uses this end of a queue, plus one; 0 if no device has claimed it."""

    device: Atomic[Int32]


class Queue(Record):
    """The sender's end. last: null before the first message. sent: number of messages. sleepers: how many threads sleep
    until it changes. sender: a `QueueEnd`. is_joined: whether the host is at the other end, for feeds. `ReceivingEnd`
    follows at `RECEIVER_OFFSET`."""

    first: Atomic[Nullable[Message]]
    last: Owned[Nullable[Message]]
    sent: Atomic[Int32]
    sleepers: Atomic[Int32]
    sender: Atomic[Int32]
    is_joined: Atomic[Int32]


class ReceivingEnd(Record):
    """finished: the last message of those at the start of the list that have all been taken; null before the first.
    announced: number of messages that the receiver has begun to wait for. receiver: a `QueueEnd`. taken, is_busy: of
    infeeds (`infeeds`)."""

    finished: Owned[Nullable[Message]]
    announced: Owned[Word]
    receiver: Atomic[Int32]
    taken: Atomic[Int32]
    is_busy: Atomic[Int32]


assert Queue.byte_size() <= RECEIVER_OFFSET and RECEIVER_OFFSET + ReceivingEnd.byte_size() <= QUEUE_BYTES
assert Queue.offsets()["sent"] == QUEUE_SENT_OFFSET
assert Message.byte_size() <= MESSAGE_HEADER_BYTES


def receiving_end(queue: Queue) -> ReceivingEnd:
    """The receiver's end of a queue."""
    return queue.offset(RECEIVER_OFFSET).cast(ReceivingEnd)


def sent_word(queue: Queue) -> AwaitedWord:
    """The word that changes with each message."""
    return queue.sent.address.cast(AwaitedWord)


# --- both ends


@native
def claim_end(f: Function, table: Address, device: Word, number: Word, end: QueueEnd) -> Int32:
    """Checks that no other device uses an end of a queue; returns 0, or 1 if the run is to end.

    Only the device that the host has granted the end stores its number, so the host is asked once.
    """
    own = device.to(Int32) + 1
    with f.when(end.device.load(RELAXED) == own):
        f.ret(0)
    with f.when(host_callback(f, table, number) != 0):
        f.ret(1)
    end.device.store(own, RELAXED)
    return f.constant(Int32, 0)


# --- the sender


@native
def claim_sender(f: Function, table: Address, device: Word, number: Word, queue: Queue) -> Int32:
    """`claim_end` for the sender."""
    return claim_end(f, table, device, number, queue.sender.address.cast(QueueEnd))


@native
def new_message(f: Function, table: Address, device: Word, number: Word, size: Word) -> Nullable[Message]:
    """A message of a number of bytes, its header included. If memory is exhausted, calls the host with the complement
    of the thunk's number, and returns null."""
    made = malloc(f, size)
    with f.when(made.is_null()):
        host_callback(f, table, number ^ -1)
        f.ret(None)
    message = f.exclusive_access(made.value.cast(Message), "the memory was just allocated")
    message.next.store(None, RELAXED)
    message.is_taken = 0
    message.thunk = number
    message.device = device
    return message.maybe()


@native
def post(f: Function, queue: Queue, message: Message) -> None:
    """Appends a message to a queue, and wakes the threads that wait for it."""
    message = f.exclusive_access(message, "it is in no queue yet")
    message.number = (queue.sent.load(RELAXED) + 1).to(Word)
    tail = queue.last
    before = f.variable(Link, queue.cast(Link))
    with f.when(tail.is_present()):
        before.set(tail.value.cast(Link))
    queue.last = message.maybe()
    before.get().next.store(message.maybe(), RELEASE)
    queue.sent.fetch_add(1, SEQ_CST)
    with f.when(queue.sleepers.load(SEQ_CST) != 0):
        queue.sent.wake()


@native
def is_joined(f: Function, queue: Queue) -> Bool:
    """Whether the host is at the other end of a feed."""
    return queue.is_joined.load(ACQUIRE) != 0


# --- the receiver


@native
def claim_receiver(f: Function, table: Address, device: Word, number: Word, queue: Queue) -> Int32:
    """`claim_end` for the receiver."""
    return claim_end(f, table, device, number, receiving_end(queue).receiver.address.cast(QueueEnd))


@native
def announce_receipt(f: Function, queue: Queue) -> Int32:
    """Returns the number of the next message that the receiver has not begun to wait for."""
    end = receiving_end(queue)
    number = end.announced + 1
    end.announced = number
    return number.to(Int32)


def link_after_finished(f: Function, queue: Queue) -> Link:
    """The link to the first message that is not finished."""
    found = f.variable(Link, queue.cast(Link))
    finished = receiving_end(queue).finished
    with f.when(finished.is_present()):
        found.set(finished.value.cast(Link))
    return found.get()


@native
def receive(
    f: Function, table: Address, shared: CancellationWord, device: Word, number: Word, queue: Queue, wanted: Int32
) -> Nullable[Message]:
    """Waits for the message with a number; null if the run has ended."""
    sleepers = queue.sleepers.address.cast(Sleepers)
    with f.loop() as waiting:
        sent = queue.sent.load(ACQUIRE)
        with f.when(~(sent - wanted).is_negative()):
            waiting.leave()
        slice, aim = f.constant(Word, SLICE), wanted.to(Word)
        status = await_change(f, table, shared, device, number, sent_word(queue), sent, aim, sleepers, slice)
        with f.when(status != 0):
            f.ret(None)
    before = f.variable(Link, link_after_finished(f, queue))
    with f.loop():
        message = before.get().next.load(ACQUIRE)
        with f.when(message.is_null()):
            f.ret(None)
        with f.when(message.value.number.to(Int32) == wanted):
            f.ret(message)
        before.set(message.value.cast(Link))
    return f.null(Message)


@native
def finish(f: Function, queue: Queue, message: Message) -> None:
    """Notes that a message was taken, and frees those before the first one that was not. The last of them stays,
    because it links to the next one."""
    message.is_taken = 1
    end = receiving_end(queue)
    with f.loop():
        following = link_after_finished(f, queue).next.load(ACQUIRE)
        with f.when(following.is_null()):
            f.ret()
        with f.when(following.value.is_taken == 0):
            f.ret()
        done = end.finished
        end.finished = following
        free(f, done.as_memory())


# --- the host


@native
def take_message(f: Function, queue: Queue) -> Nullable[Message]:
    """Finishes and returns the first message that is not finished; null if there is none. The message is valid until
    the next one is taken. The host is the receiver."""
    following = link_after_finished(f, queue).next.load(ACQUIRE)
    with f.when(following.is_present()):
        end = receiving_end(queue)
        done = end.finished
        end.finished = following
        free(f, done.as_memory())
    return following


@native
def clear_queue(f: Function, queue: Queue) -> None:
    """Frees the messages of a queue to which no device sends, and empties it. The host is the receiver. Threads may
    still sleep."""
    with f.loop() as loop, f.when(take_message(f, queue).is_null()):
        loop.leave()
    end = receiving_end(queue)
    free(f, end.finished.as_memory())
    end.finished = None
    queue.first.store(None, RELAXED)
    queue.last = None
    queue.is_joined.store(0, RELAXED)
    notify(f, queue)


@native
def notify(f: Function, queue: Queue) -> None:
    """Wakes the threads that wait for messages, although there is none."""
    queue.sent.fetch_xor(NOTIFIED, RELEASE)
    queue.sent.wake()


@native
def sent_count(f: Function, queue: Queue) -> Int32:
    """A number that differs after each message, and after each notification."""
    return queue.sent.load(ACQUIRE)


@native
def await_message(f: Function, queue: Queue, seen: Int32, nanoseconds: Word) -> Bool:
    """Sleeps until `sent_count` differs from the value seen, or for a time of less than a second; returns whether it
    differs."""
    queue.sleepers.fetch_add(1, SEQ_CST)
    queue.sent.wait(seen, nanoseconds)
    queue.sleepers.fetch_sub(1, RELAXED)
    return queue.sent.load(ACQUIRE) != seen
