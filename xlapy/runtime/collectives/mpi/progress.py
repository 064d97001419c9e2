"""Progress: posting requests, polling MPI, and the thread that does so while others sleep.

A thread that waits for a request polls MPI itself for `DRIVE_NANOSECONDS`, because most small exchanges are complete by
then. Otherwise the progress thread polls: after that time, and from the start of an asynchronous operation until a
thread waits for its end. It sleeps in growing slices as long as nothing happens, and without limit
while nothing is in progress, or while another thread polls.

Responsible for which thread calls MPI, and when. Does not depend on what is exchanged.
"""

from __future__ import annotations

from collections.abc import Callable

from xlapy.cpu.program.communication.exchange_records import ExchangeRequest, ExchangeStatus, ProgramIdentity, Word32
from xlapy.native.function import Function, free, native, native_holding
from xlapy.native.ir import ACQUIRE, RELAXED, RELEASE, SEQ_CST
from xlapy.native.values import Address, Bool, Int32, Nullable, Word
from xlapy.runtime.collectives.mpi.failures import (
    clique_failure,
    complete,
    fail_clique,
    finish_part,
    give_up_requests,
    peer_word,
    request_clique,
    wake_progress,
)
from xlapy.runtime.collectives.mpi.matching import accept, deliver_early, finish_chunk, launch_program, start_send
from xlapy.runtime.collectives.mpi.operations import (
    c_int,
    now,
    receive_message,
    remove_completed,
    start_transport,
    transfer_at,
)
from xlapy.runtime.collectives.mpi.peers import (
    announce_end,
    fail_deserted,
    fail_if_lost,
    leave,
    lose_process,
    report_error,
)
from xlapy.runtime.collectives.mpi.records import (
    DRIVE_NANOSECONDS,
    LOCK,
    SET_TIMER_SLACK,
    TRANSPORT,
    CInt,
    CliqueRecord,
    Message,
    MPI_Cancel,
    MPI_Testsome,
    Operation,
    OperationKind,
    TransferState,
    prctl,
    sched_yield,
)

FIRST_SLICE = 20_000
"""Nanoseconds of the progress thread's first sleep."""

LAST_SLICE = 1_000_000
"""Nanoseconds of its longest sleep while something is in progress. A poll takes some microseconds, so that a process
that waits for long needs less than a hundredth of a processor."""

CANCEL_NANOSECONDS = 5_000_000_000
"""How long canceling receives may take at the end of the transport, which needs no other process: on a busy machine, a
process that gives up ends the others, too, which finalize MPI."""

_UNDEFINED = 1 << 31
"""Larger than any number of completed requests. MPI's `MPI_UNDEFINED` is negative."""


# --- polling


@native_holding(LOCK)
def poll(f: Function) -> Bool:
    """Completes what MPI has completed. Returns whether that is anything."""
    transport = f.static(TRANSPORT)
    give_up_requests(f)
    fail_deserted(f)
    with f.when(transport.has_retired != 0):
        transport.has_retired = 0
        deliver_early(f)
    with f.when(transport.used == 0):
        f.ret(False)
    completed = f.stack(CInt.byte_size()).cast(CInt)
    statuses = transport.statuses.known("requests exist")
    indices = transport.indices.known("requests exist")
    requests = transport.requests.known("requests exist")
    returned = MPI_Testsome(f, transport.used, requests, completed, indices, statuses)
    count = completed.value.to(Word)
    with f.when((count == 0) | (count >= _UNDEFINED)):
        f.ret(False)
    operations = transport.operations.known("requests exist")
    with f.count(count) as one:
        index = c_int(indices, one.index).value.to(Word)
        operation = operations.items[index].known("its request has just completed")
        operation.error = 0
        with f.when(returned.to(Word) == transport.error_in_status):
            status = statuses.offset(one.index * transport.status_bytes + transport.error_offset)
            operation.error = status.cast(CInt).value
        operation.next = transport.finished
        transport.finished = operation.maybe()
        operations.items[index] = None
    remove_completed(f)
    with f.loop() as loop:
        found = transport.finished
        with f.when(found.is_null()):
            loop.leave()
        transport.finished = found.value.next
        finish_operation(f, found.value)
    return f.constant(Bool, True)


@native_holding(LOCK)
def finish_operation(f: Function, operation: Operation) -> None:
    """Ends an operation that MPI has completed."""
    transport = f.static(TRANSPORT)
    kind, memory, error = operation.kind, operation.memory, operation.error
    request, transfer = operation.request, operation.transfer
    free(f, operation.as_memory())
    with f.when(kind == OperationKind.RECEIVE_MESSAGE):
        message = memory.known("a message has memory").cast(Message)
        is_stopping = transport.is_stopping.load(RELAXED) != 0  # then the receive may have been canceled
        with f.when(~is_stopping):
            receive_message(f)
        with f.when((error == 0) & ~is_stopping) as is_received:
            accept(f, message)
        with is_received.otherwise():
            free(f, memory)
        f.ret()
    transport.moving = transport.moving - 1
    with f.when(kind == OperationKind.SEND_MESSAGE):
        free(f, memory)
        f.ret()
    free(f, memory)
    with f.when(request.is_present()):
        finish_chunk(f, request.value, transfer.known("data is that of a transfer"), error)


@native_holding(LOCK)
def has_work(f: Function) -> Bool:
    """Whether anything is in progress, beside the receives of messages."""
    transport = f.static(TRANSPORT)
    return transport.pending.is_present() | (transport.moving != 0)


# --- requests


@native_holding(LOCK)
def start_request(f: Function, request: ExchangeRequest) -> None:
    """Starts the transfers of a request."""
    transport = f.static(TRANSPORT)
    count = request.transfer_count
    request.failed_at = 0
    request.holds = 1
    request.next = transport.pending
    transport.pending = request.maybe()
    with f.when(request_clique(request).failure.load(RELAXED) != 0):
        complete(f, request, f.constant(Int32, ExchangeStatus.FAILED))
        f.ret()
    request.remaining = count + 1
    with f.count(count) as one:
        transfer = transfer_at(request, one.index)
        transfer.operations = 0
        transfer.staging = None
        is_receive = transfer.is_receive != 0
        new, waiting = f.constant(Word, TransferState.NEW), f.constant(Word, TransferState.WAITING)
        transfer.state = f.select(is_receive, waiting, new)
    with f.count(count) as one:
        transfer = transfer_at(request, one.index)
        with f.when((transfer.is_receive == 0) & (request.failed_at == 0)):
            start_send(f, request, transfer)
    deliver_early(f)
    request.holds = 0
    finish_part(f, request)


@native
def start_exchange(f: Function, transport: Address, request: ExchangeRequest) -> None:
    """Starts a request. The progress thread continues it."""
    is_pending = f.variable(Bool, False)
    with f.locked(f.static(TRANSPORT).lock):
        start_request(f, request)
        is_pending.set(has_work(f))
    with f.when(is_pending.get()):
        wake_progress(f)


@native
def post_exchange(f: Function, transport: Address, request: ExchangeRequest) -> None:
    """Starts a request, and polls MPI for a short time until it is complete."""
    f.static(TRANSPORT).drivers.fetch_add(1, SEQ_CST)
    with f.locked(f.static(TRANSPORT).lock):
        start_request(f, request)
    _drive(f, lambda: request.status.load(ACQUIRE) != ExchangeStatus.PENDING)


@native
def drive_exchanges(f: Function, transport: Address, word: Word32, seen: Int32) -> None:
    """Polls MPI for a short time until a word differs from the value seen, because a request is complete."""
    f.static(TRANSPORT).drivers.fetch_add(1, SEQ_CST)
    _drive(f, lambda: word.value.load(ACQUIRE) != seen)


def _drive(f: Function, is_complete: Callable[[], Bool]) -> None:
    """Emits the polls of a thread that counts as a driver, until something is complete or nothing has happened for
    `DRIVE_NANOSECONDS`. Then the progress thread goes on."""
    state = f.static(TRANSPORT)
    is_pending = f.variable(Bool, False)
    begin = f.variable(Word, now(f))
    with f.loop() as loop:
        with f.when(is_complete()):
            loop.leave()
        has_progressed = f.variable(Bool, False)
        with f.locked(state.lock):
            has_progressed.set(poll(f))
        time = now(f)
        with f.when(has_progressed.get()):
            begin.set(time)
            loop.again()
        with f.when(time - begin.get() > DRIVE_NANOSECONDS):
            loop.leave()
        sched_yield(f)
    state.drivers.fetch_sub(1, SEQ_CST)
    with f.locked(state.lock):
        is_pending.set(has_work(f))
    with f.when(is_pending.get()):
        wake_progress(f)


@native
def begin_launch(f: Function, transport: Address, clique: CliqueRecord, program: ProgramIdentity) -> Word:
    """Begins a launch; returns its number, or 0 if the clique has failed."""
    with f.locked(f.static(TRANSPORT).lock):
        with f.when(clique.failure.load(RELAXED) != 0):
            f.ret(0)
        launch = clique.launches + 1
        clique.launches = launch
        begun = launch_program(f, clique, launch)
        begun.launch = launch
        begun.program = program.maybe()
        poll(f)
        deliver_early(f)
        with f.when(clique.failure.load(RELAXED) != 0):
            f.ret(0)
    return launch


@native
def await_exchange(f: Function, transport: Address, request: ExchangeRequest) -> None:
    """Waits until the transport no longer accesses a request."""
    state = f.static(TRANSPORT)
    with f.loop():
        is_pending = f.variable(Bool, False)
        with f.locked(state.lock):
            poll(f)
            is_pending.set(is_request_pending(f, request))
        with f.when(~is_pending.get()):
            f.ret()
        state.wakeups.wait(state.wakeups.load(RELAXED), FIRST_SLICE)


@native_holding(LOCK)
def is_request_pending(f: Function, request: ExchangeRequest) -> Bool:
    """Whether the transport still accesses a request."""
    following = f.variable(Nullable[ExchangeRequest], f.static(TRANSPORT).pending)
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        with f.when(found.value == request):
            f.ret(True)
        following.set(found.value.next)
    return f.constant(Bool, False)


@native
def missing_processes(f: Function, request: ExchangeRequest, processes: Address, room: Word) -> Word:
    """Stores the processes, at most `room`, whose data or whose acceptance a pending request waits for, or a failed one
    has waited for. Returns their number; a process may be named several times."""
    count = f.variable(Word, 0)
    with f.locked(f.static(TRANSPORT).lock):
        has_failed = request.status.load(ACQUIRE) == ExchangeStatus.FAILED
        with f.when(~has_failed), f.when(~is_request_pending(f, request)):
            f.ret(0)
        with f.count(request.transfer_count) as one:
            transfer = transfer_at(request, one.index)
            with f.when((transfer.state != TransferState.COMPLETE) & (count.get() < room)):
                place = processes.offset(count.get() * 8).cast(CInt)
                place.value = transfer.peer.to(Int32)
                count.set(count.get() + 1)
    return count.get()


@native
def await_word(f: Function, request: ExchangeRequest, timeout_nanoseconds: Word) -> Int32:
    """Sleeps until a request is complete, or for a time below a second; returns its status."""
    word = request.word.known("the request has a word").value
    seen = word.load(ACQUIRE)
    with f.when(seen != request.value):
        word.wait(seen, timeout_nanoseconds)
    return request.status.load(ACQUIRE)


@native
def add_clique(f: Function, clique: CliqueRecord) -> None:
    """Makes a clique known to the transport."""
    transport = f.static(TRANSPORT)
    with f.locked(transport.lock):
        clique.next = transport.cliques
        transport.cliques = clique.maybe()
        fail_if_lost(f, clique)
        deliver_early(f)


# --- the progress thread


@native
def run_progress(f: Function) -> None:
    """Polls MPI until the transport stops. The function of the progress thread."""
    state = f.static(TRANSPORT)
    prctl(f, f.constant(Int32, SET_TIMER_SLACK), f.constant(Word, 1))
    slice, idle_since = f.variable(Word, FIRST_SLICE), f.variable(Word, 0)
    with f.loop() as loop:
        seen = state.wakeups.load(SEQ_CST)
        with f.when(state.is_stopping.load(ACQUIRE) != 0):
            f.ret()
        has_progressed, is_busy = f.variable(Bool, False), f.variable(Bool, False)
        is_driven = state.drivers.load(SEQ_CST) != 0
        with f.when(~is_driven):
            with f.locked(state.lock):
                has_progressed.set(poll(f))
                is_busy.set(has_work(f))
        with f.when(~is_busy.get()):
            slice.set(FIRST_SLICE)
            idle_since.set(0)
            state.wakeups.wait(seen)
            loop.again()
        with f.when(has_progressed.get()):
            slice.set(FIRST_SLICE)
            idle_since.set(now(f))
            loop.again()
        with f.when(now(f) - idle_since.get() < DRIVE_NANOSECONDS):
            sched_yield(f)
            loop.again()
        state.wakeups.wait(seen, slice.get())
        following = slice.get() + slice.get() // 4
        slice.set(f.select(following > LAST_SLICE, f.constant(Word, LAST_SLICE), following))


@native
def stop_progress(f: Function) -> None:
    """Makes the progress thread return."""
    f.static(TRANSPORT).is_stopping.store(1, RELEASE)
    wake_progress(f)


@native
def cancel_receives(f: Function) -> Bool:
    """Cancels the receives of messages, once the progress thread has stopped; returns whether none is left."""
    transport = f.static(TRANSPORT)
    with f.locked(transport.lock):
        with f.count(transport.used) as one:
            operation = transport.operations.known("requests exist").items[one.index]
            requests = transport.requests.known("requests exist")
            with f.when(operation.is_present()), f.when(operation.value.kind == OperationKind.RECEIVE_MESSAGE):
                MPI_Cancel(f, requests.offset(one.index * transport.handle_bytes))
        begin = now(f)
        with f.loop() as loop:
            with f.when((transport.used == 0) | (now(f) - begin > CANCEL_NANOSECONDS)):
                loop.leave()
            poll(f)
        return transport.used == 0


@native
def peer_state(f: Function, process: Word) -> Word:
    """The `PeerState` of a process, after a poll."""
    with f.locked(f.static(TRANSPORT).lock):
        poll(f)
        return peer_word(f, process).state


@native
def peer_report(f: Function, process: Word) -> Word:
    """The `PeerWord.report` of a process, after a poll."""
    with f.locked(f.static(TRANSPORT).lock):
        poll(f)
        return peer_word(f, process).report


@native
def is_idle(f: Function) -> Bool:
    """Whether nothing is in progress."""
    result = f.variable(Bool, False)
    with f.locked(f.static(TRANSPORT).lock):
        result.set(~has_work(f))
    return result.get()


@native
def transport_address(f: Function) -> Address:
    """The record of the transport."""
    return f.static(TRANSPORT)


FUNCTIONS = (
    add_clique,
    announce_end,
    await_exchange,
    await_word,
    begin_launch,
    cancel_receives,
    clique_failure,
    drive_exchanges,
    fail_clique,
    is_idle,
    leave,
    lose_process,
    missing_processes,
    peer_report,
    peer_state,
    post_exchange,
    report_error,
    run_progress,
    start_exchange,
    start_transport,
    stop_progress,
    transport_address,
)
