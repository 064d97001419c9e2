"""Sends and receives between devices of different processes.

A send copies its arrays to a `RemoteMessage`, posts a request to the transport, and goes on. A receive posts a request
with a new message when it starts, and waits for it when it is done. The thread of the transport moves the data in the
meantime. A message belongs to its device until the device releases it, and to the transport until its request
completes; released messages are freed by later transfers. They are no part of the memory of a launch, which ends
without waiting for them.

The queue of a pair of devices in different processes holds nothing but the `RemoteEnd` of the local device.

Responsible for these messages. Does not depend on which device sends to which, or on the transport.
"""

from __future__ import annotations

from xlapy.cpu.llvm.communication.process_rendezvous import ProcessTable, await_cancellation, launch_number
from xlapy.cpu.llvm.communication.queues import RECEIVER_OFFSET, Message, Queue, ReceivingEnd, finish, post, receive
from xlapy.cpu.llvm.communication.waits import (
    SLICE,
    AwaitedWord,
    CancellationWord,
    Sleepers,
    await_change,
    host_callback,
)
from xlapy.cpu.program.communication.exchange_records import ExchangeRequest, ExchangeStatus, Transfer, Word32
from xlapy.cpu.program.shared_records import QUEUE_BYTES, TRANSFER_BYTES
from xlapy.native.function import Function, free, malloc, native
from xlapy.native.ir import ACQ_REL, ACQUIRE, RELAXED, RELEASE
from xlapy.native.llvm import function_text
from xlapy.native.records import Atomic, Final, Owned, Record
from xlapy.native.values import Address, Bool, Int32, Nullable, Word


class ArrayPlace(Record):
    """An array of a message: its place and its size in bytes."""

    place: Final[Word]
    size: Final[Word]


class QueuePlan(Record):
    """The other end of a queue. peer: its process, or -1 if it is local. exchange: number of the exchange."""

    peer: Final[Word]
    exchange: Final[Word]


class TransferRecord(Record):
    """What a device does in a send or a receive: the arrays of its messages, and its queues."""

    message_bytes: Final[Word]
    array_count: Final[Word]
    arrays: Final[ArrayPlace]
    queues: Final[QueuePlan]


class RemoteMessage(Record):
    """A message on its way. next: link in the list of the process table. following: link in the list of the receiving
    end. word: changes when the request completes. step: how many messages were before it. users: the device, and the
    transport. The request, its transfers and the arrays follow."""

    next: Owned[Nullable[RemoteMessage]]
    following: Owned[Nullable[RemoteMessage]]
    step: Owned[Word]
    word: Atomic[Int32]
    sleepers: Atomic[Int32]
    is_released: Atomic[Word]
    data: Owned[Address]


REQUEST_OFFSET = 64
TRANSFERS_OFFSET = 192
"""Where the request and its transfers are in a message."""

assert RemoteMessage.byte_size() <= REQUEST_OFFSET
assert REQUEST_OFFSET + ExchangeRequest.byte_size() <= TRANSFERS_OFFSET


class RemoteEnd(Record):
    """The local end of a queue to another process. launch: the last one that used it. step: number of messages in this
    launch. first: the messages that were announced and not taken."""

    launch: Owned[Word]
    step: Owned[Word]
    first: Owned[Nullable[RemoteMessage]]


REMOTE_END_OFFSET = 104
"""The offset of the `RemoteEnd` in a queue."""

assert RECEIVER_OFFSET + ReceivingEnd.byte_size() <= REMOTE_END_OFFSET
assert REMOTE_END_OFFSET + RemoteEnd.byte_size() <= QUEUE_BYTES


class Messages(Record):
    """The list of messages in a process table."""

    first: Atomic[Nullable[RemoteMessage]]


def remote_request(message: RemoteMessage) -> ExchangeRequest:
    """The request of a message."""
    return message.offset(REQUEST_OFFSET).cast(ExchangeRequest)


def messages_of(processes: ProcessTable) -> Messages:
    """The messages of a program that are not freed."""
    return processes.field_address("messages").cast(Messages)


@native
def queue_plan(f: Function, processes: ProcessTable, index: Word, position: Word) -> QueuePlan:
    """The plan of a queue of a device."""
    record = processes.groups[index].cast(TransferRecord)
    return record.queues.offset(position * QueuePlan.byte_size()).cast(QueuePlan)


@native
def remote_end(f: Function, shared: CancellationWord, queue: Queue) -> RemoteEnd:
    """The local end of a queue to another process, which starts anew with each launch."""
    end = f.exclusive_access(queue.offset(REMOTE_END_OFFSET).cast(RemoteEnd), "only one device uses this end")
    launch = launch_number(shared).number
    with f.when(end.launch != launch):
        end.launch = launch
        end.step = 0
        end.first = None
    return end


@native
def new_remote_message(
    f: Function, table: Address, number: Word, processes: ProcessTable, record: TransferRecord
) -> Nullable[RemoteMessage]:
    """A message for the arrays of a transfer, in the list of messages. If memory is exhausted, calls the host with the
    complement of the thunk's number, and returns null."""
    free_messages(f, processes)
    head = record.array_count * TRANSFER_BYTES + TRANSFERS_OFFSET
    made = malloc(f, head + record.message_bytes)
    with f.when(made.is_null()):
        host_callback(f, table, number ^ -1)
        f.ret(None)
    message = f.exclusive_access(made.value.cast(RemoteMessage), "the memory was just allocated")
    message.following = None
    message.word.store(0, RELAXED)
    message.sleepers.store(0, RELAXED)
    message.is_released.store(0, RELAXED)
    message.data = message.offset(head)
    add_message(f, processes, message)
    return message.maybe()


@native
def add_message(f: Function, processes: ProcessTable, message: RemoteMessage) -> None:
    """Adds a message to the list."""
    messages = messages_of(processes)
    first = f.variable(Nullable[RemoteMessage], messages.first.load(RELAXED))
    added = f.exclusive_access(message, "the message is in no list")
    with f.loop() as loop:
        added.next = first.get()
        found, is_added = messages.first.compare_exchange(first.get(), message.maybe(), RELEASE, RELAXED)
        with f.when(is_added):
            loop.leave()
        first.set(found)


@native
def free_messages(f: Function, processes: ProcessTable) -> None:
    """Frees the messages that neither a device nor the transport uses."""
    taken = messages_of(processes).first.exchange(None, ACQ_REL)
    following = f.variable(Nullable[RemoteMessage], taken)
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        message = f.exclusive_access(found.value, "the list was taken")
        following.set(message.next)
        is_free = (message.is_released.load(ACQUIRE) != 0) & (message.word.load(ACQUIRE) != 0)
        with f.when(is_free) as unused:
            free(f, message.as_memory())
        with unused.otherwise():
            add_message(f, processes, message)


@native
def post_message(
    f: Function,
    shared: CancellationWord,
    processes: ProcessTable,
    record: TransferRecord,
    plan: QueuePlan,
    message: RemoteMessage,
    step: Word,
    is_receive: Word,
) -> None:
    """Posts the request of a message."""
    made = f.exclusive_access(message, "the transport does not know it yet")
    made.step = step
    request = f.exclusive_access(remote_request(message), "as the message")
    first = message.offset(TRANSFERS_OFFSET).cast(Transfer)
    request.clique = processes.clique
    request.program = processes.program
    request.launch = launch_number(shared).number
    request.exchange = plan.exchange
    request.step = step
    request.transfers = first.maybe()
    request.transfer_count = record.array_count
    request.word = message.word.address.cast(Word32).maybe()
    request.value = 1
    request.status.store(int(ExchangeStatus.PENDING), RELAXED)
    with f.count(record.array_count) as one:
        array = record.arrays.offset(one.index * ArrayPlace.byte_size()).cast(ArrayPlace)
        transfer = f.exclusive_access(first.offset(one.index * TRANSFER_BYTES).cast(Transfer), "as the message")
        transfer.is_receive = is_receive
        transfer.peer = plan.peer
        transfer.tag = one.index
        transfer.address = made.data.offset(array.place).maybe()
        transfer.count = 1
        transfer.block_bytes = array.size
        transfer.stride_bytes = array.size
        transfer.state = 0
    f.call_address(processes.start_exchange, processes.transport, request)


@native
def post_over_processes(
    f: Function,
    table: Address,
    shared: CancellationWord,
    number: Word,
    queue: Queue,
    message: Message,
    processes: ProcessTable,
    index: Word,
    position: Word,
) -> Int32:
    """Appends a message to a queue, or sends a copy of it to another process; returns 0, or 1 if the run is to end."""
    plan = queue_plan(f, processes, index, position)
    with f.when(plan.peer.is_negative()):
        post(f, queue, message)
        f.ret(0)
    record = processes.groups[index].cast(TransferRecord)
    made = new_remote_message(f, table, number, processes, record)
    with f.when(made.is_null()):
        free(f, message.as_memory())
        f.ret(1)
    copy_bytes(f, made.value.data, message, record.message_bytes)
    free(f, message.as_memory())
    end = remote_end(f, shared, queue)
    made.value.is_released.store(1, RELEASE)
    step = end.step
    owned = f.exclusive_access(end, "only one device uses this end")
    owned.step = step + 1
    post_message(f, shared, processes, record, plan, made.value, step, f.constant(Word, 0))
    return f.constant(Int32, 0)


@native
def copy_bytes(f: Function, target: Address, source: Address, size: Word) -> None:
    """Copies a multiple of 64 bytes."""
    with f.count(size >> 3) as one:
        word = f.exclusive_access(target.offset(one.index * 8).cast(CopiedWord), "the message is new")
        word.value = source.offset(one.index * 8).cast(CopiedWord).value


class CopiedWord(Record):
    """Eight bytes of a message."""

    value: Owned[Word]


@native
def announce_over_processes(
    f: Function,
    table: Address,
    shared: CancellationWord,
    number: Word,
    queue: Queue,
    processes: ProcessTable,
    index: Word,
) -> Int32:
    """Begins to receive the next message of a queue to another process; returns its number, from 1 on, or 0 if the run
    is to end."""
    plan = queue_plan(f, processes, index, f.constant(Word, 0))
    record = processes.groups[index].cast(TransferRecord)
    made = new_remote_message(f, table, number, processes, record)
    with f.when(made.is_null()):
        f.ret(0)
    end = f.exclusive_access(remote_end(f, shared, queue), "only one device uses this end")
    step = end.step
    end.step = step + 1
    message = f.exclusive_access(made.value, "the transport does not know it yet")
    message.following = end.first
    end.first = made
    post_message(f, shared, processes, record, plan, made.value, step, f.constant(Word, 1))
    return (step + 1).to(Int32)


@native
def is_remote_queue(f: Function, processes: ProcessTable, index: Word) -> Bool:
    """Whether the first queue of a device leads to another process."""
    return ~queue_plan(f, processes, index, f.constant(Word, 0)).peer.is_negative()


@native
def receive_over_processes(
    f: Function,
    table: Address,
    shared: CancellationWord,
    device: Word,
    number: Word,
    queue: Queue,
    wanted: Int32,
    processes: ProcessTable,
    index: Word,
) -> Nullable[Message]:
    """Waits for a message, and returns it; null if the run has ended. The message of another process lies in a
    `RemoteMessage`, which `finish_over_processes` releases."""
    with f.when(~is_remote_queue(f, processes, index)):
        f.ret(receive(f, table, shared, device, number, queue, wanted))
    end = remote_end(f, shared, queue)
    found = f.variable(Nullable[RemoteMessage], end.first)
    with f.loop() as search:
        one = found.get()
        with f.when(one.is_null()):
            f.ret(None)
        with f.when((one.value.step + 1).to(Int32) == wanted):
            search.leave()
        found.set(one.value.following)
    message = found.get().known("the search has found it")
    with f.when(message.word.load(ACQUIRE) == 0):
        unset = f.constant(Int32, 0)
        f.call_address(processes.drive_exchanges, processes.transport, message.word.address, unset)
    with f.loop() as waiting:
        with f.when(message.word.load(ACQUIRE) != 0):
            waiting.leave()
        sleepers, word = message.sleepers.address.cast(Sleepers), message.word.address.cast(AwaitedWord)
        unset, slice = f.constant(Int32, 0), f.constant(Word, SLICE)
        with f.when(await_change(f, table, shared, device, number, word, unset, wanted.to(Word), sleepers, slice) != 0):
            f.ret(None)
    with f.when(remote_request(message).status.load(ACQUIRE) == int(ExchangeStatus.FAILED)):
        await_cancellation(f, table, shared, device, number, wanted.to(Word))
        f.ret(None)
    return message.data.cast(Message).maybe()


@native
def finish_over_processes(
    f: Function, shared: CancellationWord, queue: Queue, message: Message, processes: ProcessTable, index: Word
) -> None:
    """Releases a message that was received."""
    with f.when(~is_remote_queue(f, processes, index)):
        finish(f, queue, message)
        f.ret()
    end = f.exclusive_access(remote_end(f, shared, queue), "only one device uses this end")
    before = f.variable(Nullable[RemoteMessage], None)
    found = f.variable(Nullable[RemoteMessage], end.first)
    with f.loop() as search:
        one = found.get().known("the message was announced")
        with f.when(one.data == message):
            search.leave()
        before.set(found.get())
        found.set(one.following)
    taken = found.get().known("the message was announced")
    previous = before.get()
    with f.when(previous.is_null()) as is_first:
        end.first = taken.following
    with is_first.otherwise():
        f.exclusive_access(previous.value, "the list of this end").following = taken.following
    taken.is_released.store(1, RELEASE)


def process_transfer_functions() -> str:
    """The LLVM text of the functions that transfers call in programs that span processes."""
    functions = (
        queue_plan, remote_end, add_message, free_messages, new_remote_message, copy_bytes, post_message,
        post_over_processes, announce_over_processes, is_remote_queue, receive_over_processes, finish_over_processes,
    )  # fmt: skip
    return "\n\n".join("\n".join(function_text(one.built(), attributes="noinline #0")) for one in functions)
