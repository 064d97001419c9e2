"""Emits rendezvous: each member copies what it sends to staging memory and waits there for the other members.

A rendezvous record consists of i32 words: the number of completed rendezvous, the number of members that have arrived
for the next one, and the number of members that sleep. The last member to arrive increments the first word; all others
wait for it to change. There are two areas of staging memory, used alternately: a member that arrives at a rendezvous
has read everything of the previous one, so no member waits to leave.

In a direct rendezvous, members send the addresses of their arrays; the arrays are read in place until all members meet
again.

Responsible for rendezvous records. Does not depend on what is exchanged or on how devices wait.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xlapy.cpu.llvm.communication.device_tables import Row, table_text
from xlapy.cpu.llvm.text import IrBuilder
from xlapy.cpu.program.buffer_slices import BufferSlice
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import RENDEZVOUS_HEADER_BYTES, rendezvous_header_bytes
from xlapy.cpu.program.thunks import CollectiveThunk, RendezvousParticipant
from xlapy.native import futex


def participant_table_text(thunk: CollectiveThunk) -> str:
    """Returns the constant table of what each device does in a rendezvous."""
    return table_text(f"rows{thunk.number}", _rows(thunk))


def _rows(thunk: CollectiveThunk) -> list[list[int]]:
    return [_numbers(thunk, row) for row in thunk.participants]


def _numbers(thunk: CollectiveThunk, row: RendezvousParticipant) -> list[int]:
    staging = row.rendezvous_offset + rendezvous_header_bytes(len(row.members))
    given = [*row.send_offsets, *row.receive_offsets, *row.peer_offsets] or [0] * (_width(thunk) - 4)
    return [row.rendezvous_offset, staging, row.rank, len(row.members), *given]


def _width(thunk: CollectiveThunk) -> int:
    return 4 + len(thunk.operands) + len(thunk.received) * (2 if thunk.direct else 1)


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
    completed = ir.assign(f"load atomic i32, ptr {rendezvous} monotonic, align 4")
    area = ir.assign(f"zext i32 {ir.assign(f'and i32 {completed}, 1')} to i64")
    first = row.address(row.shared, row.number(1))
    staging = row.address(first, ir.assign(f"mul i64 {area}, {thunk.staging_size}"))
    for position, (slice_, pointer) in enumerate(operands):
        if thunk.direct:
            ir.emit(f"store ptr {pointer}, ptr {row.address(staging, row.number(4 + position))}")
        elif slice_.size:
            ir.emit(copy(row.address(staging, row.number(4 + position)), pointer, slice_.size))
    rank, count = [ir.assign(f"trunc i64 {row.number(n)} to i32") for n in (2, 3)]
    met = ir.assign(
        f"call i32 @rendezvous(ptr %table, ptr {row.shared}, i64 {row.device}, i64 {thunk.number}, ptr {rendezvous}, "
        f"i32 {completed}, i32 {rank}, i32 {count})"
    )
    for position, slice_ in enumerate(thunk.received):
        taken = _received_address(row, thunk, staging, position)
        ir.emit(f"store ptr {taken}, ptr {row.entry(program.table_index(slice_))}")
    ir.br(after)
    ir.start_block(after)
    return ir.assign(f"phi i32 [ {refused}, %{outside} ], [ {met}, %{inside} ]")


def _received_address(row: Row, thunk: CollectiveThunk, staging: str, position: int) -> str:
    """Returns a register with the address of a received array; null stands for zeros."""
    ir, begin = row.ir, 4 + len(thunk.operands)
    offset = row.number(begin + position)
    absent = ir.assign(f"icmp slt i64 {offset}, 0")
    taken = row.address(staging, ir.assign(f"select i1 {absent}, i64 0, i64 {offset}"))
    if thunk.direct:
        address = ir.assign(f"load ptr, ptr {taken}")
        taken = row.address(address, row.number(begin + len(thunk.received) + position))
    return ir.assign(f"select i1 {absent}, ptr null, ptr {taken}")


RENDEZVOUS_FUNCTION = f"""\
define internal i32 @rendezvous(ptr %table, ptr %shared, i64 %device, i64 %number, ptr %record, i32 %completed,
  i32 %rank, i32 %count) noinline #0 {{
entry:
  %following = add i32 %completed, 1
  %members = getelementptr inbounds i8, ptr %record, i64 {RENDEZVOUS_HEADER_BYTES}
  %own = getelementptr inbounds i32, ptr %members, i32 %rank
  store atomic i32 %following, ptr %own monotonic, align 4
  %arrived = getelementptr inbounds i8, ptr %record, i64 64
  %asleep = getelementptr inbounds i8, ptr %record, i64 68
  %before = atomicrmw add ptr %arrived, i32 1 acq_rel, align 4
  %now = add i32 %before, 1
  %last = icmp eq i32 %now, %count
  br i1 %last, label %open, label %wait
open:
  store atomic i32 0, ptr %arrived monotonic, align 4
  store atomic i32 %following, ptr %record seq_cst, align 4
  %sleepers = load atomic i32, ptr %asleep seq_cst, align 4
  %some = icmp ne i32 %sleepers, 0
  br i1 %some, label %wake, label %met
wake:
  %woken = {futex.wake_text("%record")}
  br label %met
met:
  ret i32 0
wait:
  %first = icmp eq i32 %before, 0
  %slice = select i1 %first, ptr @slice, ptr null
  %passed = zext i32 %completed to i64
  %status = call i32 @await(ptr %table, ptr %shared, i64 %device, i64 %number, ptr %record, i32 %completed, i64 %passed,
    ptr %asleep, ptr %slice)
  ret i32 %status
}}"""
"""The function that waits for all members. It returns 0, or 1 if the run has ended, and calls `await`. The member that
arrives first calls the host for all while it waits."""
