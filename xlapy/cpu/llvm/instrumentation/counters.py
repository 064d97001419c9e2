"""Emits the code that updates the profiling counters of an instrumented program.

Responsible for these instructions. Does not decide which thunks are timed, or how the figures are used.
"""

from __future__ import annotations

from xlapy.cpu.llvm.text import IrBuilder
from xlapy.cpu.program.counter_records import MAX_EVENTS, MAX_EVENTS_IN_LOOPS, MAX_EVENTS_WITH_CHUNKS, ProfilingCounter

READ_CLOCK = "call i64 @llvm.readcyclecounter()"
"""Reads the time-stamp counter, which runs at the same rate on all cores."""

COUNTER_DECLARATIONS = {"declare i64 @llvm.readcyclecounter()", "declare ptr @llvm.thread.pointer.p0()"}

RECORD_EVENT = """define internal void @record_event(ptr %table, i64 %which, i64 %begin, i64 %end, i64 %most) #0 {
entry:
  %places = load i64, ptr %table
  %room = call i64 @llvm.umin.i64(i64 %places, i64 %most)
  %next = getelementptr inbounds i64, ptr %table, i64 1
  %seen = load atomic i64, ptr %next monotonic, align 8
  %fits = icmp ult i64 %seen, %room
  br i1 %fits, label %take, label %full
take:
  %number = atomicrmw add ptr %next, i64 1 monotonic, align 8
  %still = icmp ult i64 %number, %places
  br i1 %still, label %write, label %full
write:
  %list = getelementptr inbounds i64, ptr %table, i64 2
  %events = load ptr, ptr %list
  %event = getelementptr inbounds [4 x i64], ptr %events, i64 %number
  store i64 %which, ptr %event
  %thread = call ptr @llvm.thread.pointer.p0()
  %id = ptrtoint ptr %thread to i64
  %second = getelementptr inbounds i64, ptr %event, i64 1
  store i64 %id, ptr %second
  %third = getelementptr inbounds i64, ptr %event, i64 2
  store i64 %begin, ptr %third
  %fourth = getelementptr inbounds i64, ptr %event, i64 3
  store i64 %end, ptr %fourth
  br label %full
full:
  ret void
}
declare i64 @llvm.umin.i64(i64, i64)"""


def emit_counter_update(
    ir: IrBuilder, counter: ProfilingCounter, table: str, begin: str, *, records_events: bool
) -> str:
    """Counts one execution of a counter and the ticks since `begin`; returns the current ticks."""
    words = ir.assign(f"getelementptr inbounds i8, ptr {table}, i64 {counter.offset}")
    emit_add(ir, ir.assign(f"getelementptr inbounds i64, ptr {words}, i64 1"), "1")
    end = ir.assign(READ_CLOCK)
    emit_add(ir, words, ir.assign(f"sub i64 {end}, {begin}"))
    if records_events:
        which = ir.assign(f"ptrtoint ptr {words} to i64")
        most = MAX_EVENTS_IN_LOOPS if counter.in_loop else MAX_EVENTS
        ir.emit(f"call void @record_event(ptr {table}, i64 {which}, i64 {begin}, i64 {end}, i64 {most})")
    return end


def emit_add(ir: IrBuilder, place: str, amount: str) -> None:
    """Adds an amount to an i64 in memory."""
    before = ir.assign(f"load i64, ptr {place}")
    ir.emit(f"store i64 {ir.assign(f'add i64 {before}, {amount}')}, ptr {place}")


def timed_task_lines(call: str, place: int, *, records_events: bool) -> list[str]:
    """Returns the timed call of a kernel for a chunk of its loop. Entries `place` and `place + 1` of the block hold the
    addresses of the counter and of the counter table."""
    record = [
        f"  %table_entry = getelementptr inbounds ptr, ptr %block, i64 {place + 1}",
        "  %table = load ptr, ptr %table_entry",
        "  %which = ptrtoint ptr %busy to i64",
        f"  call void @record_event(ptr %table, i64 %which, i64 %from, i64 %to, i64 {MAX_EVENTS_WITH_CHUNKS})",
    ]
    return [
        f"  %from = {READ_CLOCK}",
        f"  {call}",
        f"  %to = {READ_CLOCK}",
        f"  %counter_entry = getelementptr inbounds ptr, ptr %block, i64 {place}",
        "  %counter = load ptr, ptr %counter_entry",
        "  %busy = getelementptr inbounds i64, ptr %counter, i64 2",
        "  %spent = sub i64 %to, %from",
        "  %unused = atomicrmw add ptr %busy, i64 %spent monotonic, align 8",
        *(record if records_events else []),
    ]
