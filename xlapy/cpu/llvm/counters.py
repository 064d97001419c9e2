"""Reading the clock in LLVM text: what an instrumented program does around its steps.

Owns: the instructions. Must not know: which steps are timed, what the figures are for.
"""

from __future__ import annotations

from xlapy.cpu.llvm.text import Writer
from xlapy.cpu.program.counter_records import MAX_EVENTS, MAX_EVENTS_IN_LOOPS, MAX_EVENTS_WITH_CHUNKS, ProfilingCounter

READ_CLOCK = "call i64 @llvm.readcyclecounter()"
"""Ticks of the processor's clock, which run alike on all of its cores."""

CLOCK_DECLARATIONS = {"declare i64 @llvm.readcyclecounter()", "declare ptr @llvm.thread.pointer.p0()"}

NOTE = """define internal void @note(ptr %table, i64 %which, i64 %begin, i64 %end, i64 %most) #0 {
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


def stamp(writer: Writer, clock: ProfilingCounter, table: str, begin: str, *, notes: bool) -> str:
    """Counts an end of a clock and the time since `begin`; returns the ticks now."""
    figures = writer.let(f"getelementptr inbounds i8, ptr {table}, i64 {clock.offset}")
    increase(writer, writer.let(f"getelementptr inbounds i64, ptr {figures}, i64 1"), "1")
    end = writer.let(READ_CLOCK)
    increase(writer, figures, writer.let(f"sub i64 {end}, {begin}"))
    if notes:
        which = writer.let(f"ptrtoint ptr {figures} to i64")
        most = MAX_EVENTS_IN_LOOPS if clock.in_loop else MAX_EVENTS
        writer.do(f"call void @note(ptr {table}, i64 {which}, i64 {begin}, i64 {end}, i64 {most})")
    return end


def increase(writer: Writer, place: str, amount: str) -> None:
    """Adds to an i64 in memory."""
    before = writer.let(f"load i64, ptr {place}")
    writer.do(f"store i64 {writer.let(f'add i64 {before}, {amount}')}, ptr {place}")


def task_lines(call: str, place: int, *, notes: bool) -> list[str]:
    """The call of a kernel for a piece of its loop, timed; from a place on the block has the figures, the table."""
    note = [
        f"  %table_place = getelementptr inbounds ptr, ptr %block, i64 {place + 1}",
        "  %table = load ptr, ptr %table_place",
        "  %which = ptrtoint ptr %busy to i64",
        f"  call void @note(ptr %table, i64 %which, i64 %from, i64 %to, i64 {MAX_EVENTS_WITH_CHUNKS})",
    ]
    return [
        f"  %from = {READ_CLOCK}",
        f"  {call}",
        f"  %to = {READ_CLOCK}",
        f"  %figures_place = getelementptr inbounds ptr, ptr %block, i64 {place}",
        "  %figures = load ptr, ptr %figures_place",
        "  %busy = getelementptr inbounds i64, ptr %figures, i64 2",
        "  %spent = sub i64 %to, %from",
        "  %unused = atomicrmw add ptr %busy, i64 %spent monotonic, align 8",
        *(note if notes else []),
    ]
