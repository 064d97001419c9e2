"""Records of the transport over MPI, and the external functions that it calls.

`TRANSPORT` is static memory: MPI is initialized once per process. Its lock is held during each call of MPI, as
`MPI_THREAD_SERIALIZED` requires, and guards the other records of this module and the requests that are pending.

MPI's handles are passed as words: an `int` takes the lower half of a register, a pointer all of it.

Responsible for the memory of the transport. Does not depend on the order of events.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from xlapy.cpu.program.communication.exchange_records import ExchangeRequest, ProgramIdentity, Transfer
from xlapy.native.function import Function, Static, external
from xlapy.native.records import Atomic, Guarded, Lock, LockSource, Owned, Record, Trailing
from xlapy.native.values import Address, Byte, Int32, Nullable, Word

LOCK: Final = LockSource("mpi_transport", "lock")
"""The lock of the transport."""

INLINE_BYTES: Final = 3840
"""The largest data that a message carries itself. With its header, the message is smaller than 4096 bytes, from which
on Open MPI no longer sends over shared memory at once."""

CHUNK_BYTES: Final = 1 << 30
"""The largest data of one call of MPI, whose counts have 31 bits."""

MESSAGE_RECEIVES: Final = 8
"""The number of receives of messages that are always posted. Messages beyond them wait within MPI."""

DRIVE_NANOSECONDS: Final = 50_000
"""How long a thread polls without progress before it sleeps: some ten times what a small all-reduce takes."""

LAUNCH_RING: Final = 64
"""The number of last launches of a clique whose programs are compared with those of other processes. Streams queue 32
launches, so processes differ by fewer."""

FAILURE_TEXT_BYTES: Final = 2048
"""The size of the text that a process sends to the others when it fails a clique."""


class OperationKind(IntEnum):
    """What an MPI request is for."""

    RECEIVE_MESSAGE = 0
    SEND_MESSAGE = 1
    SEND_DATA = 2
    RECEIVE_DATA = 3


class MessageKind(IntEnum):
    """What follows the header of a message: the data; nothing, because the data comes as messages of their own; or the
    text that says why the sender has failed the clique. LEAVING: nothing; the sender sends no further message.
    LOST: nothing; the process `exchange` has ended without leaving. REPORT: nothing; an error ends the sender, and
    `exchange` is the `PeerWord.report` of it. GONE: nothing; the sender, which has left, ends without waiting for
    others, and nothing can be sent to it any more."""

    INLINE = 0x786C6101
    ANNOUNCED = 0x786C6102
    FAILURE = 0x786C6103
    LEAVING = 0x786C6104
    LOST = 0x786C6105
    REPORT = 0x786C6106
    GONE = 0x786C6107


class TransferState(IntEnum):
    """WAITING: a receive whose message has not arrived. MOVING: MPI moves the data. ABANDONED: the request failed while
    the message had not arrived."""

    NEW = 0
    WAITING = 1
    MOVING = 2
    COMPLETE = 3
    ABANDONED = 4


class FailureReason(IntEnum):
    """Why a clique has failed. 0: it has not.

    LOCAL: this process has failed it. REMOTE: another process has. PROGRAM, SIZE: a message of another program, or with
    data of another size. MPI: a call of MPI has failed. MEMORY: there is no memory for staging. LEFT: a process has
    left the process group before it has sent what is awaited. LOST: a process has ended without leaving.
    """

    NONE = 0
    LOCAL = 1
    REMOTE = 2
    PROGRAM = 3
    SIZE = 4
    MPI = 5
    MEMORY = 6
    LEFT = 7
    LOST = 8


class PeerState(IntEnum):
    """What is known of another process. LEFT: it sends no data, and waits until the others leave. LOST: it has ended
    without leaving. GONE: it has left, and has not waited for the others. A send to a process that is lost or gone may
    crash the MPI library."""

    PRESENT = 0
    LEFT = 1
    LOST = 2
    GONE = 3


class Message(Record):
    """A message: `next` is a link of the list of messages that have come too early; what follows is sent.

    source: the process that sends. clique, launch, exchange, step, tag: what the transfer is matched by. size: that of
    the data. data_tag: the tag of MPI with which announced data follows; in a FAILURE, the `FailureReason` of the
    sender, and `exchange` is the process that is to blame. fingerprint, name: the program that the sender executes; in
    a FAILURE, the one that the process to blame executes.
    """

    next: Owned[Nullable[Message]]
    kind: Owned[Word]
    source: Owned[Word]
    clique: Owned[Word]
    launch: Owned[Word]
    exchange: Owned[Word]
    step: Owned[Word]
    tag: Owned[Word]
    size: Owned[Word]
    data_tag: Owned[Word]
    fingerprint: Owned[Word]
    name0: Owned[Word]
    name1: Owned[Word]
    name2: Owned[Word]
    name3: Owned[Word]
    name4: Owned[Word]
    name5: Owned[Word]
    data: Trailing[Byte]


LINK_BYTES: Final = 8
"""The size of the field of a message that is not sent."""

MESSAGE_BYTES: Final = Message.byte_size() + INLINE_BYTES


class Operation(Record, lock=LOCK):
    """A request of MPI that is in progress. request, transfer: what it is a part of; null for messages, and once the
    request has been given up. memory: of a message, or of data that is discarded. next: a link of the list of those
    that have completed."""

    kind: Guarded[Word]
    request: Guarded[Nullable[ExchangeRequest]]
    transfer: Guarded[Nullable[Transfer]]
    memory: Guarded[Nullable[Address]]
    error: Guarded[Int32]
    next: Guarded[Nullable[Operation]]


class Operations(Record, lock=LOCK):
    """An array of operations."""

    items: Trailing[Nullable[Operation]]


class LaunchProgram(Record, lock=LOCK):
    """The program that a launch executes."""

    launch: Guarded[Word]
    program: Guarded[Nullable[ProgramIdentity]]


class CliqueRecord(Record, lock=LOCK):
    """A clique. number: the same in all of its processes. launches: how many have begun. programs: of the last
    launches, at the number of the launch modulo `LAUNCH_RING`. failure: a `FailureReason`.

    failed_message: the message that made the clique fail, with `FAILURE_TEXT_BYTES`. expected_size: the size that it
    should have had. mpi_error: what the call of MPI returned. members: the indices of the processes.
    """

    number: Guarded[Word]
    failure: Atomic[Int32]
    launches: Guarded[Word]
    programs: Guarded[Nullable[Address]]
    failed_message: Guarded[Nullable[Message]]
    expected_size: Guarded[Word]
    mpi_error: Guarded[Int32]
    next: Guarded[Nullable[CliqueRecord]]
    member_count: Guarded[Word]
    members: Trailing[Word]


class Transport(Record, lock="lock"):
    """The state of the transport.

    wakeups: a word on which the progress thread sleeps. drivers: how many threads poll MPI while they wait for a
    request of their own. is_stopping: whether the progress thread is to end.

    requests: the handles of MPI; operations: what they are for; statuses, indices: where MPI stores which have
    completed. capacity: the size of these arrays. used: how many requests are in progress. moving: how many of those
    are not receives of messages. finished: operations that MPI has completed and that are looked at next.

    pending: the requests that are not complete. failing: how many of them have failed. early: messages that have come
    before what they match. next_tag: of the next announced data, up to `last_tag`. peers: the `PeerState` of each
    process. left_at: when the last process has left, or has told that it ends with an error, or 0. is_leaving: 1 once
    this process has sent its last message. has_retired: 1 if early messages are to be looked at again: since the last
    poll, a clique has failed, or this process has left.

    The other fields describe the library. Python writes them before any other thread reaches the transport.
    """

    lock: Lock
    wakeups: Atomic[Int32]
    drivers: Atomic[Int32]
    is_stopping: Atomic[Int32]
    process: Guarded[Word]
    communicator: Guarded[Word]
    byte_type: Guarded[Word]
    any_source: Guarded[Word]
    message_tag: Guarded[Word]
    last_tag: Guarded[Word]
    handle_bytes: Guarded[Word]
    status_bytes: Guarded[Word]
    error_offset: Guarded[Word]
    error_in_status: Guarded[Word]
    requests: Guarded[Nullable[Address]]
    operations: Guarded[Nullable[Operations]]
    statuses: Guarded[Nullable[Address]]
    indices: Guarded[Nullable[Address]]
    capacity: Guarded[Word]
    used: Guarded[Word]
    moving: Guarded[Word]
    pending: Guarded[Nullable[ExchangeRequest]]
    failing: Guarded[Word]
    finished: Guarded[Nullable[Operation]]
    early: Guarded[Nullable[Message]]
    cliques: Guarded[Nullable[CliqueRecord]]
    next_tag: Guarded[Word]
    peers: Guarded[Nullable[Address]]
    peer_count: Guarded[Word]
    left_at: Guarded[Word]
    is_leaving: Guarded[Word]
    has_retired: Guarded[Word]


TRANSPORT: Final = Static("mpi_transport", Transport)


class PeerWord(Record):
    """The state of a process. report: the error that ends it: twice its key, plus 1 once the process has shown it; 0
    without an error."""

    state: Owned[Word]
    report: Owned[Word]


class CInt(Record):
    """An `int` of C."""

    value: Owned[Int32]


class TimeSpec(Record):
    """A time of C."""

    seconds: Owned[Word]
    nanoseconds: Owned[Word]


MONOTONIC_CLOCK: Final = 1


@external
def clock_gettime(f: Function, clock: Int32, time: TimeSpec) -> Int32:  # type: ignore[empty-body]
    """Stores the time of a clock."""


@external
def memcpy(f: Function, destination: Address, source: Address, size: Word) -> Address:  # type: ignore[empty-body]
    """Copies bytes."""


@external
def realloc(f: Function, memory: Nullable[Address], size: Word) -> Nullable[Address]:  # type: ignore[empty-body]
    """Changes the size of memory of `malloc`."""


@external
def abort(f: Function) -> None:
    """Ends the process."""


SET_TIMER_SLACK: Final = 29
"""Linux wakes threads up to 50 microseconds late, to wake several at once; the option says how much is allowed."""


@external
def prctl(f: Function, option: Int32, value: Word) -> Int32:  # type: ignore[empty-body]
    """Sets an option of the thread."""


@external
def sched_yield(f: Function) -> Int32:  # type: ignore[empty-body]
    """Lets other threads run on this processor first."""


@external
def MPI_Isend(  # type: ignore[empty-body] # noqa: N802
    f: Function,
    data: Address,
    count: Word,
    kind: Word,
    process: Word,
    tag: Word,
    communicator: Word,
    request: Address,
) -> Int32:
    """Starts a send; returns 0 or an error."""


@external
def MPI_Irecv(  # type: ignore[empty-body] # noqa: N802
    f: Function,
    data: Address,
    count: Word,
    kind: Word,
    process: Word,
    tag: Word,
    communicator: Word,
    request: Address,
) -> Int32:
    """Starts a receive; returns 0 or an error."""


@external
def MPI_Testsome(  # type: ignore[empty-body] # noqa: N802
    f: Function, count: Word, requests: Address, completed: Address, indices: Address, statuses: Address
) -> Int32:
    """Stores which requests have completed, and replaces those by the null request; returns 0 or an error."""


@external
def MPI_Cancel(f: Function, request: Address) -> Int32:  # type: ignore[empty-body] # noqa: N802
    """Cancels a receive that has not been matched."""


MPI_FUNCTIONS: Final = ("MPI_Isend", "MPI_Irecv", "MPI_Testsome", "MPI_Cancel")
