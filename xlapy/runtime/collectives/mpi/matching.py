"""Matching messages with the receives that they are for, and with the programs that this process executes.

Each transfer begins with a message, which carries its data or announces it. A receive starts with MPI only after its
message has come and names the same program and size. So data of another program never reaches memory of this one.

Responsible for transfers from their start to their end. Does not depend on when MPI is polled.
"""

from __future__ import annotations

from xlapy.cpu.program.communication.exchange_records import ExchangeRequest, ProgramIdentity, Transfer
from xlapy.native.function import Function, free, malloc, native_holding
from xlapy.native.ir import RELAXED
from xlapy.native.values import Address, Bool, Int32, Nullable, Word
from xlapy.runtime.collectives.mpi.failures import (
    fail_by_message,
    fail_by_mpi,
    finish_part,
    free_staging,
    request_clique,
    retire,
)
from xlapy.runtime.collectives.mpi.operations import (
    discard,
    is_contiguous,
    new_message,
    pack,
    send_message,
    start_data,
    total_bytes,
    transfer_at,
    unpack,
)
from xlapy.runtime.collectives.mpi.peers import note_gone, note_left, note_lost, note_report
from xlapy.runtime.collectives.mpi.records import (
    INLINE_BYTES,
    LAUNCH_RING,
    LOCK,
    TRANSPORT,
    CliqueRecord,
    FailureReason,
    LaunchProgram,
    Message,
    MessageKind,
    OperationKind,
    TransferState,
    memcpy,
)

# --- ends of transfers


@native_holding(LOCK)
def finish_transfer(f: Function, request: ExchangeRequest, transfer: Transfer) -> None:
    """Ends a transfer whose data has moved."""
    staging = transfer.staging
    with f.when(staging.is_present()):
        with f.when(transfer.is_receive != 0):
            unpack(f, transfer, staging.value)
        free_staging(f, transfer)
    transfer.state = TransferState.COMPLETE
    finish_part(f, request)


@native_holding(LOCK)
def finish_chunk(f: Function, request: ExchangeRequest, transfer: Transfer, error: Int32) -> None:
    """Notes that MPI has completed an operation of a transfer. error: what it says about it."""
    with f.when((error != 0) & (request.failed_at == 0)):
        request.holds = 1
        fail_by_mpi(f, request_clique(request), error, transfer.peer)
        request.holds = 0
    transfer.operations = transfer.operations - 1
    with f.when(request.failed_at != 0):
        with f.when(transfer.operations == 0):
            free_staging(f, transfer)
        finish_part(f, request)
        f.ret()
    with f.when(transfer.operations == 0):
        finish_transfer(f, request, transfer)


# --- sends


@native_holding(LOCK)
def start_send(f: Function, request: ExchangeRequest, transfer: Transfer) -> None:
    """Sends the message of a transfer, and its data."""
    transport = f.static(TRANSPORT)
    size = total_bytes(f, transfer)
    message = new_message(f)
    program = request.program.known("each request has a program")
    message.source = transport.process
    message.clique = request_clique(request).number
    message.launch = request.launch
    message.exchange = request.exchange
    message.step = request.step
    message.tag = transfer.tag
    message.size = size
    message.fingerprint = program.fingerprint
    memcpy(f, message.offset(Message.offsets()["name0"]), program.name, f.constant(Word, 48))
    with f.when(size <= INLINE_BYTES):
        message.kind = MessageKind.INLINE
        message.data_tag = 0
        pack(f, transfer, message.data)
        error = send_message(f, message, transfer.peer, size)
        with f.when(error != 0):
            fail_by_mpi(f, request_clique(request), error, transfer.peer)
            f.ret()
        finish_transfer(f, request, transfer)
        f.ret()
    tag = transport.next_tag
    transport.next_tag = f.select(tag == transport.last_tag, f.constant(Word, 1), tag + 1)
    message.kind = MessageKind.ANNOUNCED
    message.data_tag = tag
    peer = transfer.peer
    error = send_message(f, message, peer, f.constant(Word, 0))
    with f.when(error != 0):
        fail_by_mpi(f, request_clique(request), error, transfer.peer)
        f.ret()
    move_data(f, request, transfer, f.constant(Word, OperationKind.SEND_DATA), tag)


@native_holding(LOCK)
def move_data(f: Function, request: ExchangeRequest, transfer: Transfer, kind: Word, tag: Word) -> None:
    """Starts to move announced data."""
    data = f.variable(Nullable[Address], transfer.address)
    with f.when(~is_contiguous(f, transfer)):
        staging = malloc(f, total_bytes(f, transfer))
        with f.when(staging.is_null()):
            retire(f, request_clique(request), f.constant(Int32, FailureReason.MEMORY))
            f.ret()
        with f.when(kind == OperationKind.SEND_DATA):
            pack(f, transfer, staging.value)
        transfer.staging = staging
        data.set(staging)
    transfer.state = TransferState.MOVING
    address = data.get().known("data that is not empty has an address")
    error = start_data(f, kind, request, transfer, address, transfer.peer, tag)
    with f.when(error != 0):
        fail_by_mpi(f, request_clique(request), error, transfer.peer)


# --- receives


@native_holding(LOCK)
def start_receive(f: Function, request: ExchangeRequest, transfer: Transfer, message: Message) -> None:
    """Takes the data of a message, or starts to receive what it announces."""
    size = message.size
    is_allocated = transfer.address.is_null() & (transfer.count == 0)
    with f.when(is_allocated):
        allocated = malloc(f, size + 1)
        with f.when(allocated.is_null()):
            retire(f, request_clique(request), f.constant(Int32, FailureReason.MEMORY))
            f.ret()
        transfer.address = allocated
        transfer.count = 1
        transfer.block_bytes = size
    expected = total_bytes(f, transfer)
    with f.when(expected != size):
        reason = f.constant(Int32, FailureReason.SIZE)
        discard(f, message)
        fail_by_message(f, request_clique(request), reason, message, expected, f.null(ProgramIdentity))
        f.ret()
    with f.when(message.kind == MessageKind.INLINE):
        unpack(f, transfer, message.data)
        finish_transfer(f, request, transfer)
        f.ret()
    move_data(f, request, transfer, f.constant(Word, OperationKind.RECEIVE_DATA), message.data_tag)


@native_holding(LOCK)
def launch_program(f: Function, clique: CliqueRecord, launch: Word) -> LaunchProgram:
    """Where the program of a launch is, if it is one of the last."""
    programs = clique.programs.known("each clique has memory for them")
    return programs.offset((launch & (LAUNCH_RING - 1)) * LaunchProgram.byte_size()).cast(LaunchProgram)


@native_holding(LOCK)
def find_clique(f: Function, number: Word) -> Nullable[CliqueRecord]:
    """The clique of a number; null if this process does not have it yet."""
    following = f.variable(Nullable[CliqueRecord], f.static(TRANSPORT).cliques)
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        with f.when(found.value.number == number):
            loop.leave()
        following.set(found.value.next)
    return following.get()


@native_holding(LOCK)
def deliver(f: Function, message: Message) -> Bool:
    """Passes a message to its request, clique or process. Returns whether the message can be freed."""
    with f.when(message.kind == MessageKind.LEAVING):
        note_left(f, message.source)
        f.ret(True)
    with f.when(message.kind == MessageKind.GONE):
        note_gone(f, message.source)
        f.ret(True)
    with f.when(message.kind == MessageKind.LOST):
        note_lost(f, message.exchange)
        f.ret(True)
    with f.when(message.kind == MessageKind.REPORT):
        note_report(f, message.source, message.exchange)
        f.ret(True)
    transport = f.static(TRANSPORT)
    with f.when((transport.is_leaving != 0) & transport.pending.is_null()):
        discard(f, message)  # the sender may not be able to leave before its data is received
        f.ret(True)
    known = find_clique(f, message.clique)
    with f.when(known.is_null()):
        f.ret(False)
    clique = known.value
    with f.when(clique.failure.load(RELAXED) != 0):
        discard(f, message)
        f.ret(True)
    with f.when(message.kind == MessageKind.FAILURE):
        with f.when(message.data_tag == FailureReason.LOST):
            note_lost(f, message.exchange)
        reason = f.constant(Int32, FailureReason.REMOTE)
        fail_by_message(f, clique, reason, message, f.constant(Word, 0), f.null(ProgramIdentity))
        f.ret(True)
    begun = launch_program(f, clique, message.launch)
    with f.when((begun.launch == message.launch) & begun.program.is_present()):
        program = begun.program.known("it is present")
        with f.when(program.fingerprint != message.fingerprint):
            reason = f.constant(Int32, FailureReason.PROGRAM)
            fail_by_message(f, clique, reason, message, f.constant(Word, 0), begun.program)
            discard(f, message)
            f.ret(True)
    following = f.variable(Nullable[ExchangeRequest], f.static(TRANSPORT).pending)
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        with f.when(take_message(f, found.value, clique, message)):
            f.ret(True)
        following.set(found.value.next)
    return f.constant(Bool, False)


@native_holding(LOCK)
def take_message(f: Function, request: ExchangeRequest, clique: CliqueRecord, message: Message) -> Bool:
    """Starts the receive of a request that a message is for. Returns whether there is one."""
    is_other = (request.clique != clique.as_memory()) | (request.launch != message.launch)
    with f.when(is_other | (request.exchange != message.exchange) | (request.step != message.step)):
        f.ret(False)
    with f.count(request.transfer_count) as one:
        transfer = transfer_at(request, one.index)
        is_waiting = transfer.state == TransferState.WAITING
        with f.when(is_waiting & (transfer.peer == message.source) & (transfer.tag == message.tag)):
            start_receive(f, request, transfer, message)
            f.ret(True)
    return f.constant(Bool, False)


# --- messages that come early


@native_holding(LOCK)
def accept(f: Function, message: Message) -> None:
    """Delivers a message that has come, or keeps it for later."""
    transport = f.static(TRANSPORT)
    with f.when(deliver(f, message)) as is_done:
        free(f, message.as_memory())
    with is_done.otherwise():
        message.next = transport.early
        transport.early = message.maybe()


@native_holding(LOCK)
def deliver_early(f: Function) -> None:
    """Delivers early messages whose request, launch or clique exists by now."""
    transport = f.static(TRANSPORT)
    following = f.variable(Nullable[Message], transport.early)
    transport.early = None
    with f.loop() as loop:
        found = following.get()
        with f.when(found.is_null()):
            loop.leave()
        following.set(found.value.next)
        accept(f, found.value)
