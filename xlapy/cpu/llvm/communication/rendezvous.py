"""Emits rendezvous: each member copies what it sends to staging memory and waits there for the other members.

A rendezvous record consists of i32 words: the number of completed rendezvous, the number of members that have arrived
for the next one, and the number of members that sleep. The last member to arrive increments the first word; all others
wait for it to change. There are two areas of staging memory, used alternately: a member that arrives at a rendezvous
has read everything of the previous one, so no member waits to leave.

In a direct rendezvous, members send the addresses of their arrays; the arrays are read in place until all members meet
again.

A rendezvous of an asynchronous collective is in two thunks: members arrive in the first and go on, and wait in the
second. Each of them waits before it arrives at the same record again, so at most one rendezvous of a record is pending,
and the member's own counter says which one.

Responsible for rendezvous records. Does not depend on what is exchanged or on how devices wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from xlapy.cpu.llvm.communication.device_tables import Row, table_text
from xlapy.cpu.llvm.communication.waits import SLICE, AwaitedWord, CancellationWord, Sleepers, await_change
from xlapy.cpu.llvm.text import IrBuilder
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import RENDEZVOUS_HEADER_BYTES, rendezvous_header_bytes
from xlapy.cpu.program.thunks import CollectiveThunk, RendezvousPart, RendezvousParticipant
from xlapy.native.function import Function, NativeFunction, native
from xlapy.native.ir import ACQ_REL, ACQUIRE, RELAXED, SEQ_CST
from xlapy.native.llvm import function_text
from xlapy.native.records import Atomic, Record
from xlapy.native.values import Address, Int32, Word

ARRIVALS_OFFSET = 64
"""The offset of `Arrivals` in a rendezvous record: a cache line of their own."""


def participant_table_text(thunk: CollectiveThunk) -> str:
    """Returns the constant table of what each device does in a rendezvous."""
    return table_text(f"rows{thunk.number}", _rows(thunk))


def _rows(thunk: CollectiveThunk) -> list[list[int]]:
    return [_numbers(thunk, row) for row in thunk.participants]


def _numbers(thunk: CollectiveThunk, row: RendezvousParticipant) -> list[int]:
    staging = row.rendezvous_offset + rendezvous_header_bytes(len(row.members))
    given = _offsets(row) or [0] * max(len(_offsets(other)) for other in thunk.participants)
    return [row.rendezvous_offset, staging, row.rank, len(row.members), *given]


def _offsets(row: RendezvousParticipant) -> list[int]:
    return [*row.send_offsets, *row.receive_offsets, *row.peer_offsets]


def emit_rendezvous(
    ir: IrBuilder,
    thunk: CollectiveThunk,
    program: NativeProgram,
    copy: Callable[[str, str, int], str],
    operands: Sequence[tuple[BufferSlice, str]],
) -> str:
    """Emits the copies of the operands, the rendezvous, and the stores of the addresses of received arrays.

    Returns a register with the status. A device without a rendezvous calls the host, which raises the error.
    """
    row = Row(ir, program, f"rows{thunk.number}", _rows(thunk))
    outside, inside, after = [ir.new_label(p) for p in ("outside", "inside", "met")]
    ir.cond_br(ir.assign(f"icmp slt i64 {row.number(0)}, 0"), outside, inside)
    ir.start_block(outside)
    refused = ir.assign(f"call i32 @host_callback(ptr %table, i64 {thunk.number})")
    ir.br(after)
    ir.start_block(inside)
    rendezvous = row.address(row.shared, row.number(0))
    begins, waits = thunk.part is not RendezvousPart.DONE, thunk.part is not RendezvousPart.START
    counted = f"@{completed_count.name}(ptr {rendezvous})"
    begun = f"@{begun_count.name}(ptr {rendezvous}, i64 {row.number(2)})"
    completed = ir.assign(f"call i32 {counted if begins else begun}")
    area = ir.assign(f"zext i32 {ir.assign(f'and i32 {completed}, 1')} to i64")
    first = row.address(row.shared, row.number(1))
    staging = row.address(first, ir.assign(f"mul i64 {area}, {thunk.staging_size}"))
    for position, (slice_, pointer) in enumerate(operands if begins else ()):
        if thunk.direct:
            ir.emit(f"store ptr {pointer}, ptr {row.address(staging, row.number(4 + position))}")
        elif slice_.size:
            ir.emit(copy(row.address(staging, row.number(4 + position)), pointer, slice_.size))
    met = ir.assign(f"call i32 {_call_text(row, thunk, program, (rendezvous, completed, staging))}")
    for position, slice_ in enumerate(thunk.results if waits else ()):
        taken = _received_address(row, thunk, staging, position)
        ir.emit(f"store ptr {taken}, ptr {row.entry(program.table_index(slice_))}")
    ir.br(after)
    ir.start_block(after)
    return ir.assign(f"phi i32 [ {refused}, %{outside} ], [ {met}, %{inside} ]")


def _call_text(row: Row, thunk: CollectiveThunk, program: NativeProgram, registers: tuple[str, str, str]) -> str:
    """Returns the call of the function that carries out a part of a rendezvous, whose members may belong to several
    processes. registers: the record, the number of completed rendezvous, and the staging memory."""
    record, completed, staging = registers
    device = f"ptr %table, ptr {row.shared}, i64 {row.device}, i64 {thunk.number}, ptr {record}"
    rank = f"i64 {row.number(2)}"
    if not program.spans_processes:
        count = f"i32 {row.ir.assign(f'trunc i64 {row.number(3)} to i32')}"
        if thunk.part is RendezvousPart.START:
            return f"@{start_rendezvous.name}(ptr {record}, i32 {completed}, {rank}, {count})"
        if thunk.part is RendezvousPart.DONE:
            return f"@{await_rendezvous.name}({device}, {rank})"
        return f"@{rendezvous.name}({device}, i32 {completed}, {rank}, {count})"
    processes = row.ir.assign(f"load ptr, ptr {row.entry(program.processes_index)}")
    index = row.ir.assign(f"add i64 {row.device}, {thunk.number * program.replica_count * program.partition_count}")
    group = f"ptr {processes}, i64 {index}"
    if thunk.part is RendezvousPart.START:
        arrival = f"ptr {row.shared}, ptr {record}, i32 {completed}, {rank}, ptr {staging}"
        return f"@start_rendezvous_over_processes({arrival}, {group})"
    if thunk.part is RendezvousPart.DONE:
        return f"@await_rendezvous_over_processes({device}, {rank}, {group})"
    return f"@rendezvous_over_processes({device}, i32 {completed}, {rank}, ptr {staging}, {group})"


def _received_address(row: Row, thunk: CollectiveThunk, staging: str, position: int) -> str:
    """Returns a register with the address of a received array; null stands for zeros."""
    ir, begin = row.ir, 4 + len(thunk.operands)
    offset = row.number(begin + position)
    absent = ir.assign(f"icmp slt i64 {offset}, 0")
    taken = row.address(staging, ir.assign(f"select i1 {absent}, i64 0, i64 {offset}"))
    if thunk.direct:
        address = ir.assign(f"load ptr, ptr {taken}")
        taken = row.address(address, row.number(begin + len(thunk.results) + position))
    return ir.assign(f"select i1 {absent}, ptr null, ptr {taken}")


class RendezvousRecord(Record):
    """completed: number of completed rendezvous. `Arrivals` follow at an offset of 64 bytes, and the members' counters
    at one of `RENDEZVOUS_HEADER_BYTES`."""

    completed: Atomic[Int32]


class Arrivals(Record):
    """arrived: how many members have arrived for the next rendezvous. sleepers: how many of them sleep."""

    arrived: Atomic[Int32]
    sleepers: Atomic[Int32]


class MemberCounter(Record):
    """begun: for how many rendezvous a member has arrived. The host reads it to find who is missing."""

    begun: Atomic[Int32]


@native
def arrive(f: Function, record: RendezvousRecord, completed: Int32, rank: Word, count: Int32) -> Int32:
    """Arrives at a rendezvous, which the last member to arrive completes; returns how many have arrived before."""
    member_counter(record, rank).begun.store(completed + 1, RELAXED)
    arrivals = record.offset(ARRIVALS_OFFSET).cast(Arrivals)
    before = arrivals.arrived.fetch_add(1, ACQ_REL)
    with f.when(before + 1 == count):
        complete_rendezvous(f, record, arrivals, completed)
    return before


def complete_rendezvous(f: Function, record: RendezvousRecord, arrivals: Arrivals, completed: Int32) -> None:
    """Emits the end of a rendezvous at which all members have arrived."""
    arrivals.arrived.store(0, RELAXED)
    record.completed.store(completed + 1, SEQ_CST)
    with f.when(arrivals.sleepers.load(SEQ_CST) != 0):
        record.completed.wake()


def member_counter(record: RendezvousRecord, rank: Word) -> MemberCounter:
    """The counter of a member."""
    return record.offset(rank * 4 + RENDEZVOUS_HEADER_BYTES).cast(MemberCounter)


@native
def rendezvous(
    f: Function,
    table: Address,
    shared: CancellationWord,
    device: Word,
    number: Word,
    record: RendezvousRecord,
    completed: Int32,
    rank: Word,
    count: Int32,
) -> Int32:
    """Waits for all members; returns 0, or 1 if the run has ended. The member that arrives first calls the host for all
    while it waits."""
    before = arrive(f, record, completed, rank, count)
    with f.when(before + 1 == count):
        f.ret(0)
    slice = f.select(before == 0, f.constant(Word, SLICE), f.constant(Word, 0))
    sleepers = record.offset(ARRIVALS_OFFSET).cast(Arrivals).sleepers.address.cast(Sleepers)
    word = record.cast(AwaitedWord)
    return await_change(f, table, shared, device, number, word, completed, completed.to(Word), sleepers, slice)


@native
def start_rendezvous(f: Function, record: RendezvousRecord, completed: Int32, rank: Word, count: Int32) -> Int32:
    """Arrives without waiting for the other members; returns 0. `await_rendezvous` follows."""
    arrive(f, record, completed, rank, count)
    return f.constant(Int32, 0)


@native
def await_rendezvous(
    f: Function,
    table: Address,
    shared: CancellationWord,
    device: Word,
    number: Word,
    record: RendezvousRecord,
    rank: Word,
) -> Int32:
    """Waits for all members of the rendezvous at which this one has arrived last; returns 0, or 1 if the run has ended.

    Every member that waits calls the host: the one that arrived first may not be waiting here.
    """
    begun = begun_count(f, record, rank)
    with f.when(record.completed.load(ACQUIRE) != begun):
        f.ret((shared.is_canceled.load(RELAXED) != 0).to(Int32))
    sleepers = record.offset(ARRIVALS_OFFSET).cast(Arrivals).sleepers.address.cast(Sleepers)
    word, slice = record.cast(AwaitedWord), f.constant(Word, SLICE)
    return await_change(f, table, shared, device, number, word, begun, begun.to(Word), sleepers, slice)


@native
def completed_count(f: Function, record: RendezvousRecord) -> Int32:
    """The number of completed rendezvous, as a member finds it that has not arrived for the next one. If the end of the
    run has changed it, the member finds that the run is canceled, too."""
    return record.completed.load(ACQUIRE)


@native
def begun_count(f: Function, record: RendezvousRecord, rank: Word) -> Int32:
    """`completed_count` as it was when a member arrived last, which only that member may ask."""
    return member_counter(record, rank).begun.load(RELAXED) - 1


def rendezvous_text(spans_processes: bool = False) -> str:
    """The LLVM text of the functions of rendezvous, which call `await_change`; those for one process are left out in
    programs that span processes."""
    functions: list[NativeFunction[..., Any]] = [completed_count, begun_count, await_rendezvous]
    functions += [] if spans_processes else [arrive, rendezvous, start_rendezvous]
    short = (completed_count, begun_count, arrive)
    attributes = ["#0" if one in short else "noinline #0" for one in functions]
    return "\n\n".join(
        "\n".join(function_text(one.built(), attributes=text)) for one, text in zip(functions, attributes, strict=True)
    )
