"""Rendezvous of groups whose members belong to several processes.

Local members arrive as in `rendezvous`. The last one does not complete the rendezvous: it posts a request to the
transport, whose completion increments the number of completed rendezvous and wakes all local members. A process table,
whose address is in the address table, says what the group exchanges, so machine code is the same for all topologies.

The request of an asynchronous collective is posted when the last local member starts it, and left to the thread of the
transport. Its members wait for it in another thunk, whose entry in the process table is the same group.

If the processes have failed, the members call the host until it has canceled the launch.

Responsible for filling requests and for waiting for them. Does not depend on which devices are where
(`cpu.program.communication.process_plans`) or on the transport.
"""

from __future__ import annotations

from xlapy.cpu.llvm.communication.rendezvous import (
    ARRIVALS_OFFSET,
    Arrivals,
    RendezvousRecord,
    await_rendezvous,
    begun_count,
    complete_rendezvous,
    member_counter,
)
from xlapy.cpu.llvm.communication.waits import (
    SLICE,
    AwaitedWord,
    CancellationWord,
    Sleepers,
    await_change,
    host_callback,
    wait_record,
)
from xlapy.cpu.program.communication.exchange_records import (
    ExchangeRequest,
    ExchangeStatus,
    ProgramIdentity,
    Transfer,
    Word32,
)
from xlapy.cpu.program.communication.process_plans import Base
from xlapy.cpu.program.shared_records import (
    EXCHANGE_SLOT_HEADER_BYTES,
    LAUNCH_NUMBER_OFFSET,
    TRANSFER_BYTES,
)
from xlapy.native.function import Function, native
from xlapy.native.ir import ACQ_REL, ACQUIRE, RELAXED, RELEASE, SEQ_CST
from xlapy.native.llvm import function_text
from xlapy.native.records import Final, Owned, Record, Trailing
from xlapy.native.values import Address, Bool, Int32, Nullable, Word

CANCELLATION_SLICE = 1_000_000
"""The nanoseconds between two calls of the host by a device whose exchange has failed."""


class TransferPlan(Record):
    """A transfer of a group. base: a `Base`, from which the block is `distance` bytes away. slot: of the published
    address. The other fields are those of `Transfer`."""

    is_receive: Final[Word]
    peer: Final[Word]
    tag: Final[Word]
    base: Final[Word]
    slot: Final[Word]
    distance: Final[Word]
    count: Final[Word]
    block_bytes: Final[Word]
    stride_bytes: Final[Word]


class AddressPlan(Record):
    """The address that a remote member would publish in a slot; see `PublishedAddress`."""

    slot: Final[Word]
    base: Final[Word]
    distance: Final[Word]


class GroupRecord(Record):
    """What a process does for a group in a rendezvous; see `GroupPlan`."""

    local_count: Final[Word]
    exchange: Final[Word]
    slot_offset: Final[Word]
    transfer_count: Final[Word]
    transfers: Final[TransferPlan]
    address_count: Final[Word]
    addresses: Final[AddressPlan]


class ProcessTable(Record):
    """What native code needs to exchange data with other processes. transport, clique: their addresses. post_exchange,
    start_exchange, drive_exchanges, begin_launch, fail_clique: native functions of the transport. received_offset: of
    received memory, in the memory that the devices of a launch share. messages: see `process_transfers`. groups: for
    each thunk and device, the record of its group, or of its transfer."""

    transport: Owned[Address]
    clique: Owned[Nullable[Address]]
    program: Owned[Nullable[ProgramIdentity]]
    post_exchange: Owned[Address]
    start_exchange: Owned[Address]
    drive_exchanges: Owned[Address]
    begin_launch: Owned[Address]
    fail_clique: Owned[Address]
    received_offset: Final[Word]
    messages: Owned[Word]
    groups: Trailing[GroupRecord]


class ExchangeSlot(Record):
    """The request of a group in the memory of a launch. launch, step: those of the last request. The request and its
    transfers follow."""

    launch: Owned[Word]
    step: Owned[Word]


REQUEST_OFFSET = 64
"""The offset of the request in an exchange slot."""

assert REQUEST_OFFSET + ExchangeRequest.byte_size() <= EXCHANGE_SLOT_HEADER_BYTES
assert Transfer.byte_size() == TRANSFER_BYTES


class AddressSlot(Record):
    """An address in the staging memory of a direct rendezvous."""

    address: Owned[Address]


class LaunchNumber(Record):
    """The number of a launch, which all processes have agreed on."""

    number: Owned[Word]


def request_of(slot: ExchangeSlot) -> ExchangeRequest:
    """The request of a group."""
    return slot.offset(REQUEST_OFFSET).cast(ExchangeRequest)


def launch_number(shared: Address) -> LaunchNumber:
    """The number of the launch to which shared memory belongs."""
    return shared.offset(LAUNCH_NUMBER_OFFSET).cast(LaunchNumber)


@native
def rendezvous_over_processes(
    f: Function,
    table: Address,
    shared: CancellationWord,
    device: Word,
    number: Word,
    record: RendezvousRecord,
    completed: Int32,
    rank: Word,
    staging: Address,
    processes: ProcessTable,
    index: Word,
) -> Int32:
    """Waits for all members; returns 0, or 1 if the run has ended. index: of the group in the process table."""
    group = processes.groups[index]
    before = arrive_over_processes(
        f, shared, record, completed, rank, staging, processes, index, processes.post_exchange
    )
    with f.when((before + 1 == group.local_count.to(Int32)) & (group.transfer_count == 0)):
        f.ret(0)
    slice = f.select(before == 0, f.constant(Word, SLICE), f.constant(Word, 0))
    sleepers = record.offset(ARRIVALS_OFFSET).cast(Arrivals).sleepers.address.cast(Sleepers)
    word = record.cast(AwaitedWord)
    is_over = await_change(f, table, shared, device, number, word, completed, completed.to(Word), sleepers, slice)
    return checked_status(f, table, shared, device, number, group, completed, is_over)


@native
def arrive_over_processes(
    f: Function,
    shared: CancellationWord,
    record: RendezvousRecord,
    completed: Int32,
    rank: Word,
    staging: Address,
    processes: ProcessTable,
    index: Word,
    post: Address,
) -> Int32:
    """Arrives at a rendezvous; returns how many local members have arrived before. The last of them posts what the
    group exchanges by the function `post` of the transport, or completes the rendezvous if that is nothing."""
    group = processes.groups[index]
    member_counter(record, rank).begun.store(completed + 1, RELAXED)
    arrivals = record.offset(ARRIVALS_OFFSET).cast(Arrivals)
    before = arrivals.arrived.fetch_add(1, ACQ_REL)
    with f.when(before + 1 == group.local_count.to(Int32)):
        publish_remote_addresses(f, shared, processes, group, staging)
        with f.when(group.transfer_count == 0) as is_local:
            complete_rendezvous(f, record, arrivals, completed)
        with is_local.otherwise():
            arrivals.arrived.store(0, RELAXED)
            slot = shared.offset(group.slot_offset).cast(ExchangeSlot)
            post_group(f, shared, processes, group, slot, record, completed, staging, post)
    return before


@native
def checked_status(
    f: Function,
    table: Address,
    shared: CancellationWord,
    device: Word,
    number: Word,
    group: GroupRecord,
    completed: Int32,
    is_over: Int32,
) -> Int32:
    """Returns 0 if a completed rendezvous has succeeded, and 1 if the run has ended. After a failure of the processes,
    that is once the host has canceled the run."""
    with f.when((is_over != 0) | (group.transfer_count == 0)):
        f.ret(is_over)
    slot = shared.offset(group.slot_offset).cast(ExchangeSlot)
    with f.when(request_of(slot).status.load(ACQUIRE) == int(ExchangeStatus.FAILED)):
        await_cancellation(f, table, shared, device, number, completed.to(Word))
        f.ret(1)
    return f.constant(Int32, 0)


@native
def start_rendezvous_over_processes(
    f: Function,
    shared: CancellationWord,
    record: RendezvousRecord,
    completed: Int32,
    rank: Word,
    staging: Address,
    processes: ProcessTable,
    index: Word,
) -> Int32:
    """Arrives without waiting for anything; returns 0. `await_rendezvous_over_processes` follows."""
    arrive_over_processes(f, shared, record, completed, rank, staging, processes, index, processes.start_exchange)
    return f.constant(Int32, 0)


@native
def await_rendezvous_over_processes(
    f: Function,
    table: Address,
    shared: CancellationWord,
    device: Word,
    number: Word,
    record: RendezvousRecord,
    rank: Word,
    processes: ProcessTable,
    index: Word,
) -> Int32:
    """Waits for all members of the rendezvous at which this one has arrived last; returns 0, or 1 if the run has ended.
    The thread moves data itself for a short time before it sleeps."""
    group = processes.groups[index]
    begun = begun_count(f, record, rank)
    with f.when((group.transfer_count != 0) & (record.completed.load(ACQUIRE) == begun)):
        f.call_address(processes.drive_exchanges, processes.transport, record, begun)
    is_over = await_rendezvous(f, table, shared, device, number, record, rank)
    return checked_status(f, table, shared, device, number, group, begun, is_over)


@native
def publish_remote_addresses(
    f: Function, shared: CancellationWord, processes: ProcessTable, group: GroupRecord, staging: Address
) -> None:
    """Stores the addresses at which local members read the arrays of remote ones."""
    received = shared.offset(processes.received_offset)
    with f.count(group.address_count) as one:
        plan = group.addresses.offset(one.index * AddressPlan.byte_size()).cast(AddressPlan)
        slot = f.exclusive_access(staging.offset(plan.slot).cast(AddressSlot), "the last local member fills it")
        with f.when(plan.base == int(Base.RECEIVED)) as is_received:
            slot.address = received.offset(plan.distance)
        with is_received.otherwise():
            slot.address = staging.offset(plan.distance).cast(AddressSlot).address


@native
def post_group(
    f: Function,
    shared: CancellationWord,
    processes: ProcessTable,
    group: GroupRecord,
    slot: ExchangeSlot,
    record: RendezvousRecord,
    completed: Int32,
    staging: Address,
    post: Address,
) -> None:
    """Fills the request of a group and posts it. The last local member of a group to arrive calls this."""
    slot = f.exclusive_access(slot, "the last local member fills it, and the last request has completed")
    launch = launch_number(shared).number
    with f.when(slot.launch == launch) as is_repeated:
        slot.step = slot.step + 1
    with is_repeated.otherwise():
        slot.launch = launch
        slot.step = 0
    request = f.exclusive_access(request_of(slot), "as the slot")
    first = slot.offset(EXCHANGE_SLOT_HEADER_BYTES).cast(Transfer)
    request.clique = processes.clique
    request.program = processes.program
    request.launch = launch
    request.exchange = group.exchange
    request.step = slot.step
    request.transfers = first.maybe()
    request.transfer_count = group.transfer_count
    request.word = record.completed.address.cast(Word32).maybe()
    request.value = completed + 1
    request.status.store(int(ExchangeStatus.PENDING), RELAXED)
    with f.count(group.transfer_count) as one:
        plan = group.transfers.offset(one.index * TransferPlan.byte_size()).cast(TransferPlan)
        transfer = first.offset(one.index * TRANSFER_BYTES).cast(Transfer)
        fill_transfer(f, shared, processes, staging, plan, transfer)
    f.call_address(post, processes.transport, request)


@native
def fill_transfer(
    f: Function,
    shared: CancellationWord,
    processes: ProcessTable,
    staging: Address,
    plan: TransferPlan,
    transfer: Transfer,
) -> None:
    """Fills a transfer of a request."""
    made = f.exclusive_access(transfer, "a transfer of a request that is not posted yet")
    made.is_receive = plan.is_receive
    made.peer = plan.peer
    made.tag = plan.tag
    made.count = plan.count
    made.block_bytes = plan.block_bytes
    made.stride_bytes = plan.stride_bytes
    made.state = 0
    made.address = staging.offset(plan.distance).maybe()
    with f.when(plan.base == int(Base.PUBLISHED)):
        published = staging.offset(plan.slot).cast(AddressSlot).address
        made.address = published.offset(plan.distance).maybe()
    with f.when(plan.base == int(Base.RECEIVED)):
        made.address = shared.offset(processes.received_offset).offset(plan.distance).maybe()


@native
def await_cancellation(
    f: Function, table: Address, shared: CancellationWord, device: Word, number: Word, aim: Word
) -> None:
    """Calls the host until the run is canceled, or the host has failed it. The wait record says meanwhile what the
    device has waited for: the error names it."""
    record = wait_record(shared, device)
    record.aim.store(aim, RELAXED)
    record.thunk.store(number + 1, RELEASE)
    with f.loop() as loop:
        with f.when(shared.is_canceled.load(RELAXED) != 0):
            loop.leave()
        with f.when(host_callback(f, table, number) != 0):
            loop.leave()
        shared.is_canceled.wait(0, CANCELLATION_SLICE)
    record.thunk.store(0, SEQ_CST)


def process_rendezvous_text() -> str:
    """The LLVM text of the functions of rendezvous over processes and of what they call, except `await_change`,
    `await_cancellation` and the functions of `rendezvous_text`."""
    functions = (
        rendezvous_over_processes, start_rendezvous_over_processes, await_rendezvous_over_processes,
        arrive_over_processes, checked_status, publish_remote_addresses, post_group, fill_transfer,
    )  # fmt: skip
    return "\n\n".join("\n".join(function_text(one.built(), attributes="noinline #0")) for one in functions)


def cancellation_text() -> str:
    """The LLVM text of `await_cancellation`, which calls `host_callback`."""
    return "\n".join(function_text(await_cancellation.built(), attributes="noinline #0"))


# --- the host


@native
def has_exchange_failed(f: Function, shared: CancellationWord, slot_offset: Word) -> Bool:
    """Whether the last request of a group in this launch has failed."""
    slot = shared.offset(slot_offset).cast(ExchangeSlot)
    with f.when(slot.launch != launch_number(shared).number):
        f.ret(False)
    return request_of(slot).status.load(ACQUIRE) == int(ExchangeStatus.FAILED)


@native
def is_exchange_pending(f: Function, shared: CancellationWord, slot_offset: Word) -> Bool:
    """Whether the last request of a group in this launch has not completed."""
    slot = shared.offset(slot_offset).cast(ExchangeSlot)
    launch = launch_number(shared).number  # 0 if no launch has begun
    with f.when((launch == 0) | (slot.launch != launch)):
        f.ret(False)
    return request_of(slot).status.load(ACQUIRE) == int(ExchangeStatus.PENDING)
