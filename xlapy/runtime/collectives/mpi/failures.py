"""Cliques that have failed: their requests end, and their other processes are notified.

Memory of a failed request may still be in use by MPI, so the request is complete only once MPI has given it back. If a
process has died, that may never happen; then the request is given up after `GRACE_NANOSECONDS`, and its receives are
canceled. Announced data of a failed clique is received and discarded, because its sender waits for that.

Responsible for failing cliques and requests, and for completing requests. Does not depend on why they fail.
"""

from __future__ import annotations

from xlapy.cpu.program.communication.exchange_records import (
    PROGRAM_IDENTITY_BYTES,
    PROGRAM_NAME_BYTES,
    ExchangeRequest,
    ExchangeStatus,
    ProgramIdentity,
    Transfer,
)
from xlapy.native.function import Function, free, native, native_holding
from xlapy.native.ir import ACQUIRE, RELAXED, RELEASE
from xlapy.native.values import Address, Int32, Nullable, Word
from xlapy.runtime.collectives.mpi.operations import new_message, now, send_message, transfer_at
from xlapy.runtime.collectives.mpi.records import (
    FAILURE_TEXT_BYTES,
    INLINE_BYTES,
    LOCK,
    TRANSPORT,
    CliqueRecord,
    FailureReason,
    Message,
    MessageKind,
    MPI_Cancel,
    Operation,
    OperationKind,
    PeerState,
    PeerWord,
    TransferState,
    memcpy,
)

GRACE_NANOSECONDS = 1_000_000_000
"""How long a failed request waits for MPI to give its memory back: long against the time that a process which lives
takes to finish a transfer that it has started."""


# --- requests


@native_holding(LOCK)
def complete(f: Function, request: ExchangeRequest, status: Int32) -> None:
    """Completes a request and wakes those that wait for it. Its memory must not be accessed afterwards."""
    transport = f.static(TRANSPORT)
    unlink_request(f, request)
    for_word, value = request.word, request.value
    with f.when(request.failed_at != 0):
        transport.failing = transport.failing - 1
    request.status.store(status, RELEASE)
    with f.when(for_word.is_present()):
        for_word.value.value.store(value, RELEASE)
        for_word.value.value.wake()


@native_holding(LOCK)
def unlink_request(f: Function, request: ExchangeRequest) -> None:
    """Removes a request from the pending ones."""
    transport = f.static(TRANSPORT)
    previous = f.variable(Nullable[ExchangeRequest], None)
    following = f.variable(Nullable[ExchangeRequest], transport.pending)
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        with f.when(found.value == request):
            before = previous.get()
            with f.when(before.is_null()) as is_first:
                transport.pending = request.next
            with is_first.otherwise():
                before.known("it is not the first").next = request.next
            loop.leave()
        previous.set(found)
        following.set(found.value.next)


@native_holding(LOCK)
def finish_part(f: Function, request: ExchangeRequest) -> None:
    """Notes that a transfer of a request is complete or, in a failed one, an operation."""
    remaining = request.remaining - 1
    request.remaining = remaining
    with f.when(remaining == 0):
        failed = f.constant(Int32, ExchangeStatus.FAILED)
        done = f.constant(Int32, ExchangeStatus.DONE)
        complete(f, request, f.select(request.failed_at != 0, failed, done))


@native_holding(LOCK)
def fail_request(f: Function, request: ExchangeRequest) -> None:
    """Fails a pending request. From here on, `remaining` counts its operations, and the calls that hold it."""
    transport = f.static(TRANSPORT)
    with f.when(request.failed_at != 0):
        f.ret()
    request.failed_at = now(f)
    transport.failing = transport.failing + 1
    with f.count(request.transfer_count) as one:
        transfer = transfer_at(request, one.index)
        with f.when(transfer.state == TransferState.WAITING):
            transfer.state = TransferState.ABANDONED
    request.remaining = request.holds + 1
    with f.count(transport.used) as one:
        operation = transport.operations.known("requests exist").items[one.index]
        with f.when(operation.is_present()), f.when(operation.value.request == request.maybe()):
            request.remaining = request.remaining + 1
    following = f.variable(Nullable[Operation], transport.finished)
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        with f.when(found.value.request == request.maybe()):
            request.remaining = request.remaining + 1
        following.set(found.value.next)
    finish_part(f, request)


@native_holding(LOCK)
def give_up_requests(f: Function) -> None:
    """Completes failed requests whose memory MPI has not given back in time."""
    transport = f.static(TRANSPORT)
    with f.when(transport.failing == 0):
        f.ret()
    deadline = now(f) - GRACE_NANOSECONDS
    following = f.variable(Nullable[ExchangeRequest], transport.pending)
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        request = found.value
        following.set(request.next)
        with f.when((request.failed_at != 0) & (request.failed_at < deadline)):
            orphan_operations(f, request)
            complete(f, request, f.constant(Int32, ExchangeStatus.FAILED))


@native_holding(LOCK)
def orphan_operations(f: Function, request: ExchangeRequest) -> None:
    """Cancels the receives of a request, and makes its operations those of no request."""
    transport = f.static(TRANSPORT)
    with f.count(transport.used) as one:
        operation = transport.operations.known("requests exist").items[one.index]
        with f.when(operation.is_present()), f.when(operation.value.request == request.maybe()):
            operation.value.request = None
            operation.value.transfer = None
            with f.when(operation.value.kind == OperationKind.RECEIVE_DATA):
                requests = transport.requests.known("requests exist")
                MPI_Cancel(f, requests.offset(one.index * transport.handle_bytes))
    following = f.variable(Nullable[Operation], transport.finished)
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        with f.when(found.value.request == request.maybe()):
            found.value.request = None
            found.value.transfer = None
        following.set(found.value.next)


# --- cliques


@native_holding(LOCK)
def retire(f: Function, clique: CliqueRecord, reason: Int32) -> None:
    """Marks a clique as failed and fails its requests."""
    transport = f.static(TRANSPORT)
    clique.failure.store(reason, RELEASE)
    transport.has_retired = 1
    begin = f.variable(Nullable[ExchangeRequest], transport.pending)
    with f.loop() as loop:
        found = begin.get()
        with f.when(found.is_null()):
            loop.leave()
        request = found.value
        begin.set(request.next)
        with f.when(request.clique == clique.as_memory()):
            fail_request(f, request)


@native_holding(LOCK)
def announce_failure(
    f: Function, clique: CliqueRecord, reason: Word, culprit: Word, text: Nullable[Address], length: Word
) -> None:
    """Tells the other processes of a clique that it has failed. reason: a `FailureReason`. culprit: the process that
    is to blame. text: why the sender has failed the clique, or the identity of its program if that differs."""
    transport = f.static(TRANSPORT)
    kept = clique.failed_message.known("each clique has memory for it")
    with f.count(clique.member_count) as one:
        peer = clique.members[one.index]
        is_present = peer_word(f, peer).state == PeerState.PRESENT
        with f.when((peer != transport.process) & is_present):
            message = new_message(f)
            message.kind = MessageKind.FAILURE
            message.source = transport.process
            message.clique = clique.number
            message.launch = kept.launch
            message.exchange = culprit
            message.step = 0
            message.tag = 0
            message.size = length
            message.data_tag = reason
            message.fingerprint = kept.fingerprint
            name = Message.offsets()["name0"]
            memcpy(f, message.offset(name), kept.offset(name), f.constant(Word, PROGRAM_NAME_BYTES))
            with f.when(length != 0):
                memcpy(f, message.data, text.known("text that is not empty has an address"), length)
            send_message(f, message, peer, length)


@native_holding(LOCK)
def fail_by_message(
    f: Function,
    clique: CliqueRecord,
    reason: Int32,
    message: Message,
    expected: Word,
    program: Nullable[ProgramIdentity],
) -> None:
    """Fails a clique because of a message, which is copied. expected: the size that it should have had. program: what
    this process executes, if the message is of another program."""
    with f.when(clique.failure.load(RELAXED) != 0):
        f.ret()
    copy_message(f, clique, message)
    clique.expected_size = expected
    retire(f, clique, reason)
    with f.when(reason != FailureReason.REMOTE):
        size = f.select(program.is_present(), f.constant(Word, PROGRAM_IDENTITY_BYTES), f.constant(Word, 0))
        announce_failure(f, clique, reason.to(Word), message.source, program.as_memory(), size)


@native_holding(LOCK)
def copy_message(f: Function, clique: CliqueRecord, message: Message) -> None:
    """Keeps the message that makes a clique fail."""
    kept = clique.failed_message.known("each clique has memory for it")
    size = f.variable(Word, message.size)
    with f.when(size.get() > FAILURE_TEXT_BYTES):
        size.set(FAILURE_TEXT_BYTES)
    with f.when(message.kind != MessageKind.FAILURE):
        size.set(0)
    memcpy(f, kept, message, size.get() + Message.byte_size())


@native_holding(LOCK)
def fail_by_mpi(f: Function, clique: CliqueRecord, error: Int32, peer: Word) -> None:
    """Fails a clique because a call of MPI for a transfer with a process has returned an error."""
    with f.when(clique.failure.load(RELAXED) != 0):
        f.ret()
    clique.mpi_error = error
    fail_by_peer(f, clique, f.constant(Int32, FailureReason.MPI), peer)


@native_holding(LOCK)
def fail_by_peer(f: Function, clique: CliqueRecord, reason: Int32, peer: Word) -> None:
    """Fails a clique because a process has left, is lost, or cannot be reached."""
    with f.when(clique.failure.load(RELAXED) != 0):
        f.ret()
    kept = clique.failed_message.known("each clique has memory for it")
    kept.source = peer
    kept.size = 0
    retire(f, clique, reason)
    announce_failure(f, clique, reason.to(Word), peer, f.null(Address), f.constant(Word, 0))


@native
def fail_clique(f: Function, transport: Address, clique: CliqueRecord, text: Address, length: Word) -> None:
    """Fails a clique in all of its processes. text: why; at most `FAILURE_TEXT_BYTES` of it are kept."""
    size = f.select(length < FAILURE_TEXT_BYTES, length, f.constant(Word, FAILURE_TEXT_BYTES))
    with f.locked(f.static(TRANSPORT).lock):
        with f.when(clique.failure.load(RELAXED) != 0):
            f.ret()
        kept = clique.failed_message.known("each clique has memory for it")
        kept.source = f.static(TRANSPORT).process
        kept.size = size
        memcpy(f, kept.data, text, size)
        retire(f, clique, f.constant(Int32, FailureReason.LOCAL))
        process = f.static(TRANSPORT).process
        announce_failure(f, clique, f.constant(Word, FailureReason.LOCAL), process, text.maybe(), size)
    wake_progress(f)


@native
def wake_progress(f: Function) -> None:
    """Wakes the progress thread, which then polls MPI."""
    transport = f.static(TRANSPORT)
    transport.wakeups.fetch_add(1, RELEASE)
    transport.wakeups.wake(1)


@native
def clique_failure(f: Function, clique: CliqueRecord) -> Int32:
    """Why a clique has failed: a `FailureReason`."""
    return clique.failure.load(ACQUIRE)


@native_holding(LOCK)
def peer_word(f: Function, process: Word) -> PeerWord:
    """The state of a process."""
    peers = f.static(TRANSPORT).peers.known("the transport has started")
    return peers.offset(process * PeerWord.byte_size()).cast(PeerWord)


def request_clique(request: ExchangeRequest) -> CliqueRecord:
    """The clique of a request."""
    return request.clique.known("each request has a clique").cast(CliqueRecord)


@native
def free_staging(f: Function, transfer: Transfer) -> None:
    """Frees the contiguous copy of a transfer with strides."""
    free(f, transfer.staging)
    transfer.staging = None


assert FAILURE_TEXT_BYTES <= INLINE_BYTES
