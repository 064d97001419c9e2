"""Requests of MPI: starting sends and receives, and the arrays in which they are.

Responsible for the arrays, for chunks, and for blocks with strides. Does not depend on what a request is for.
"""

from __future__ import annotations

from xlapy.cpu.program.communication.exchange_records import ExchangeRequest, Transfer
from xlapy.native.function import Function, free, malloc, native, native_holding
from xlapy.native.records import Record
from xlapy.native.values import Address, Bool, Int32, Nullable, Word
from xlapy.runtime.collectives.mpi.records import (
    CHUNK_BYTES,
    LINK_BYTES,
    LOCK,
    MESSAGE_BYTES,
    MESSAGE_RECEIVES,
    MONOTONIC_CLOCK,
    TRANSPORT,
    CInt,
    Message,
    MessageKind,
    MPI_Irecv,
    MPI_Isend,
    Operation,
    OperationKind,
    Operations,
    TimeSpec,
    abort,
    clock_gettime,
    memcpy,
    realloc,
)

_INITIAL_CAPACITY = 256


@native
def now(f: Function) -> Word:
    """The time in nanoseconds."""
    time = f.stack(TimeSpec.byte_size()).cast(TimeSpec)
    clock_gettime(f, f.constant(Int32, MONOTONIC_CLOCK), time)
    return time.seconds * 1_000_000_000 + time.nanoseconds


@native
def new_memory(f: Function, size: Word) -> Address:
    """Allocates memory for the transport itself, some kilobytes; without memory, the process ends."""
    made = malloc(f, size)
    with f.when(made.is_null()):
        abort(f)
    return made.known("the process has ended otherwise")


@native
def resized(f: Function, memory: Nullable[Address], size: Word) -> Nullable[Address]:
    """Changes the size of an array of the transport; without memory, the process ends."""
    made = realloc(f, memory, size)
    with f.when(made.is_null()):
        abort(f)
    return made


def c_int(array: Address, index: Word) -> CInt:
    """An element of an array of C's `int`."""
    return array.offset(index * 4).cast(CInt)


# --- the arrays of requests


@native_holding(LOCK)
def reserve(f: Function) -> Address:
    """Makes room for a request; returns where MPI stores its handle."""
    transport = f.static(TRANSPORT)
    with f.when(transport.used == transport.capacity):
        capacity = f.variable(Word, transport.capacity * 2)
        with f.when(capacity.get() == 0):
            capacity.set(_INITIAL_CAPACITY)
        transport.requests = resized(f, transport.requests, capacity.get() * transport.handle_bytes)
        transport.operations = resized(f, transport.operations.as_memory(), capacity.get() * 8).cast(Operations)
        transport.statuses = resized(f, transport.statuses, capacity.get() * transport.status_bytes)
        transport.indices = resized(f, transport.indices, capacity.get() * 4)
        transport.capacity = capacity.get()
    requests = transport.requests.known("there is room")
    return requests.offset(transport.used * transport.handle_bytes)


@native_holding(LOCK)
def add_operation(
    f: Function,
    kind: Word,
    request: Nullable[ExchangeRequest],
    transfer: Nullable[Transfer],
    memory: Nullable[Address],
) -> None:
    """Adds what the request is for whose handle MPI has stored where `reserve` said."""
    transport = f.static(TRANSPORT)
    operation = new_memory(f, f.constant(Word, Operation.byte_size())).cast(Operation)
    operation.kind = kind
    operation.request = request
    operation.transfer = transfer
    operation.memory = memory
    operation.error = 0
    transport.operations.known("there is room").items[transport.used] = operation.maybe()
    transport.used = transport.used + 1
    with f.when(kind != OperationKind.RECEIVE_MESSAGE):
        transport.moving = transport.moving + 1


@native_holding(LOCK)
def remove_completed(f: Function) -> None:
    """Moves requests to where completed ones were, whose operations are null."""
    transport = f.static(TRANSPORT)
    operations, requests = transport.operations.known("requests exist"), transport.requests.known("requests exist")
    size = transport.handle_bytes
    index = f.variable(Word, 0)
    with f.loop() as loop:
        with f.when(index.get() >= transport.used):
            loop.leave()
        with f.when(operations.items[index.get()].is_null()) as is_completed:
            last = transport.used - 1
            transport.used = last
            operations.items[index.get()] = operations.items[last]
            memcpy(f, requests.offset(index.get() * size), requests.offset(last * size), size)
        with is_completed.otherwise():
            index.set(index.get() + 1)


# --- messages


@native
def new_message(f: Function) -> Message:
    """Allocates a message of the largest size."""
    return new_memory(f, f.constant(Word, MESSAGE_BYTES)).cast(Message)


@native_holding(LOCK)
def receive_message(f: Function) -> None:
    """Posts the receive of a message from any process."""
    transport = f.static(TRANSPORT)
    message = new_message(f)
    error = MPI_Irecv(
        f,
        message.offset(LINK_BYTES),
        f.constant(Word, MESSAGE_BYTES - LINK_BYTES),
        transport.byte_type,
        transport.any_source,
        transport.message_tag,
        transport.communicator,
        reserve(f),
    )
    with f.when(error == 0) as is_posted:
        kind = f.constant(Word, OperationKind.RECEIVE_MESSAGE)
        add_operation(f, kind, f.null(ExchangeRequest), f.null(Transfer), message.as_memory())
    with is_posted.otherwise():
        free(f, message.as_memory())


@native
def start_transport(f: Function) -> None:
    """Posts the first receives of messages."""
    with f.locked(f.static(TRANSPORT).lock):
        with f.count(f.constant(Word, MESSAGE_RECEIVES)):
            receive_message(f)


@native_holding(LOCK)
def send_message(f: Function, message: Message, peer: Word, size: Word) -> Int32:
    """Sends a message with some bytes of data, and frees it afterwards; returns MPI's error."""
    transport = f.static(TRANSPORT)
    error = MPI_Isend(
        f,
        message.offset(LINK_BYTES),
        size + (Message.byte_size() - LINK_BYTES),
        transport.byte_type,
        peer,
        transport.message_tag,
        transport.communicator,
        reserve(f),
    )
    with f.when(error == 0) as is_posted:
        kind = f.constant(Word, OperationKind.SEND_MESSAGE)
        add_operation(f, kind, f.null(ExchangeRequest), f.null(Transfer), message.as_memory())
    with is_posted.otherwise():
        free(f, message.as_memory())
    return error


# --- data


@native
def is_contiguous(f: Function, transfer: Transfer) -> Bool:
    """Whether the blocks of a transfer follow each other in memory."""
    return (transfer.count <= 1) | (transfer.block_bytes == transfer.stride_bytes)


@native
def total_bytes(f: Function, transfer: Transfer) -> Word:
    """The size of the data of a transfer."""
    return transfer.count * transfer.block_bytes


@native
def pack(f: Function, transfer: Transfer, destination: Address) -> None:
    """Copies the blocks of a transfer to contiguous memory."""
    size = transfer.block_bytes
    with f.when(size == 0):
        f.ret()
    source = transfer.address.known("data that is not empty has an address")
    with f.count(transfer.count) as one:
        memcpy(f, destination.offset(one.index * size), source.offset(one.index * transfer.stride_bytes), size)


@native
def unpack(f: Function, transfer: Transfer, source: Address) -> None:
    """Copies contiguous data to the blocks of a transfer."""
    size = transfer.block_bytes
    with f.when(size == 0):
        f.ret()
    destination = transfer.address.known("data that is not empty has an address")
    with f.count(transfer.count) as one:
        memcpy(f, destination.offset(one.index * transfer.stride_bytes), source.offset(one.index * size), size)


@native_holding(LOCK)
def start_data(
    f: Function, kind: Word, request: ExchangeRequest, transfer: Transfer, data: Address, peer: Word, tag: Word
) -> Int32:
    """Starts the sends or receives of announced data, in chunks; returns MPI's error."""
    transport = f.static(TRANSPORT)
    total = total_bytes(f, transfer)
    chunks = (total + (CHUNK_BYTES - 1)) // CHUNK_BYTES
    with f.count(chunks) as chunk:
        begin = chunk.index * CHUNK_BYTES
        rest = total - begin
        size = f.select(rest < CHUNK_BYTES, rest, f.constant(Word, CHUNK_BYTES))
        address, handle = data.offset(begin), reserve(f)
        error = f.variable(Int32, 0)
        arguments = (address, size, transport.byte_type, peer, tag, transport.communicator, handle)
        with f.when(kind == OperationKind.SEND_DATA) as is_send:
            error.set(MPI_Isend(f, *arguments))
        with is_send.otherwise():
            error.set(MPI_Irecv(f, *arguments))
        with f.when(error.get() != 0):
            f.ret(error.get())
        transfer.operations = transfer.operations + 1
        add_operation(f, kind, request.maybe(), transfer.maybe(), f.null(Address))
    return f.constant(Int32, 0)


@native_holding(LOCK)
def discard(f: Function, message: Message) -> None:
    """Receives the data that a message announces, for nothing."""
    transport = f.static(TRANSPORT)
    with f.when(message.kind != MessageKind.ANNOUNCED):
        f.ret()
    chunks = (message.size + (CHUNK_BYTES - 1)) // CHUNK_BYTES
    with f.count(chunks) as chunk:
        rest = message.size - chunk.index * CHUNK_BYTES
        size = f.select(rest < CHUNK_BYTES, rest, f.constant(Word, CHUNK_BYTES))
        memory = malloc(f, size)
        with f.when(memory.is_null()):
            f.ret()
        process, tag = message.source, message.data_tag
        handle = reserve(f)
        error = MPI_Irecv(f, memory.value, size, transport.byte_type, process, tag, transport.communicator, handle)
        with f.when(error != 0):
            free(f, memory)
            f.ret()
        kind = f.constant(Word, OperationKind.RECEIVE_DATA)
        add_operation(f, kind, f.null(ExchangeRequest), f.null(Transfer), memory)


def transfer_at(request: ExchangeRequest, index: Word) -> Transfer:
    """A transfer of a request that has some."""
    transfers = request.transfers.known("a request with transfers has an array of them")
    return element(transfers, index)


def element(first: Record, index: Word) -> Transfer:
    """An element of an array of transfers."""
    return first.offset(index * Transfer.byte_size()).cast(Transfer)
