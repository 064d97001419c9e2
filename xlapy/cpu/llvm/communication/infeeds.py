"""The queue of an infeed: the host sends addresses of arrays that it keeps, and the device copies from them.

The host may leave at any time, and then knows which messages were taken: a device marks itself busy before it
checks whether the host is there and takes a message. The host first leaves, and then waits until the device is not
busy.

Responsible for both ends of infeeds. Does not depend on the values, or on how devices wait.
"""

from __future__ import annotations

from xlapy.cpu.llvm.communication.queues import Link, Queue, link_after_finished, notify, receiving_end, sent_word
from xlapy.cpu.llvm.communication.waits import SLICE, CancellationWord, Sleepers, await_change
from xlapy.cpu.program.shared_records import HOST_WAIT_OFFSET
from xlapy.native.function import Function, external, native
from xlapy.native.ir import ACQUIRE, RELAXED, RELEASE, SEQ_CST
from xlapy.native.records import Atomic, Final, Record, Trailing
from xlapy.native.values import Address, Int32, Nullable, Word

TAKE, FAILED, ASK_HOST = 0, 1, 2
"""What a device does next: take the message, end, or call the host for the value."""


class InfeedMessage(Record):
    """kind: the number of the shape of the values; 0 if no infeed of the program takes them. arrays: their
    addresses. The host owns the message and the arrays."""

    next: Atomic[Nullable[InfeedMessage]]
    kind: Final[Word]
    arrays: Trailing[Address]


@external
def sched_yield(f: Function) -> Int32:  # type: ignore[empty-body]
    """Lets another thread run."""


# --- the device


@native
def next_infeed(
    f: Function,
    table: Address,
    shared: CancellationWord,
    device: Word,
    number: Word,
    queue: Queue,
    kind: Word,
) -> Int32:
    """Waits for the next message. After `TAKE`, the device is busy until `finish_infeed`. While the device waits, it
    calls the host with the number of the thunk plus `HOST_WAIT_OFFSET`."""
    end = receiving_end(queue)
    sleepers = queue.sleepers.address.cast(Sleepers)
    with f.loop() as waiting:
        end.is_busy.store(1, SEQ_CST)
        with f.when(queue.is_joined.load(SEQ_CST) == 0):
            end.is_busy.store(0, RELEASE)
            f.ret(ASK_HOST)
        sent, taken = queue.sent.load(ACQUIRE), end.taken.load(RELAXED)
        with f.when(sent != taken):
            waiting.leave()
        end.is_busy.store(0, RELEASE)
        waits, slice = number + HOST_WAIT_OFFSET, f.constant(Word, SLICE)
        word, aim = sent_word(queue), taken.to(Word)
        with f.when(await_change(f, table, shared, device, waits, word, sent, aim, sleepers, slice) != 0):
            f.ret(FAILED)
    found = first_infeed(f, queue)
    with f.when(found.is_present()), f.when(found.known("tested above").kind == kind):
        f.ret(TAKE)
    end.is_busy.store(0, RELEASE)
    return f.constant(Int32, ASK_HOST)


def first_infeed(f: Function, queue: Queue) -> Nullable[InfeedMessage]:
    """The first message that was not taken."""
    return link_after_finished(f, queue).next.load(ACQUIRE).cast(InfeedMessage)


@native
def infeed_array(f: Function, queue: Queue, number: Word) -> Address:
    """The address of an array of the message that the device takes."""
    return first_infeed(f, queue).known("the device is taking a message").arrays[number]


@native
def finish_infeed(f: Function, queue: Queue) -> None:
    """Notes that the device has copied the arrays of the message. The host may free the messages before it."""
    end = receiving_end(queue)
    end.finished = link_after_finished(f, queue).next.load(RELAXED)  # `first_infeed` has acquired it
    end.taken.store(end.taken.load(RELAXED) + 1, RELEASE)
    end.is_busy.store(0, RELEASE)


# --- the host


@native
def join_feed(f: Function, queue: Queue) -> None:
    """Lets the device use the queue of an infeed or outfeed instead of calling the host."""
    queue.is_joined.store(1, RELEASE)


@native
def add_infeed(f: Function, queue: Queue, last: Link, message: InfeedMessage) -> None:
    """Appends a message. last: the message before it, or the queue."""
    message.next.store(None, RELAXED)
    last.cast(InfeedMessage).next.store(message.maybe(), RELEASE)
    queue.sent.fetch_add(1, SEQ_CST)
    with f.when(queue.sleepers.load(SEQ_CST) != 0):
        queue.sent.wake()


@native
def taken_count(f: Function, queue: Queue) -> Int32:
    """How many messages the device has taken. Of these, only the last is still accessed."""
    return receiving_end(queue).taken.load(ACQUIRE)


@native
def leave_infeed(f: Function, queue: Queue) -> None:
    """Makes the device call the host from now on. Returns when it has taken what it was about to take."""
    queue.is_joined.store(0, SEQ_CST)
    notify(f, queue)
    is_busy = receiving_end(queue).is_busy
    with f.loop() as loop:
        with f.when(is_busy.load(SEQ_CST) == 0):
            loop.leave()
        sched_yield(f)
