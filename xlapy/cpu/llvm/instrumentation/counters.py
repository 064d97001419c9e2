"""Emits the code that updates the profiling counters of an instrumented program.

Responsible for these instructions. Does not decide which thunks are timed, or how the figures are used.
"""

from __future__ import annotations

from xlapy.cpu.llvm.text import IrBuilder
from xlapy.cpu.program.counter_records import MAX_EVENTS, MAX_EVENTS_IN_LOOPS, MAX_EVENTS_WITH_CHUNKS, ProfilingCounter
from xlapy.native.function import Function, external, native
from xlapy.native.ir import RELAXED
from xlapy.native.llvm import function_text
from xlapy.native.records import Atomic, Final, Owned, Record
from xlapy.native.values import Address, Word

READ_CLOCK = "call i64 @llvm.readcyclecounter()"
"""Reads the time-stamp counter, which runs at the same rate on all cores."""

COUNTER_DECLARATIONS = {"declare i64 @llvm.readcyclecounter()", "declare ptr @llvm.thread.pointer.p0()"}


class EventTable(Record):
    """The begin of a counter table. places: how many events fit. next: the number of the next event; more may have been
    counted than fit."""

    places: Final[Word]
    next: Atomic[Word]
    events: Final[Address]


class ThunkEvent(Record):
    """An event. which: the address of its counter. The host reads it after the run."""

    which: Owned[Word]
    thread: Owned[Word]
    begin: Owned[Word]
    end: Owned[Word]


class BusyTicks(Record):
    """The ticks that all threads have spent in a kernel."""

    ticks: Atomic[Word]


@external
def thread_identity(f: Function) -> Word:  # type: ignore[empty-body]
    """A number that differs from thread to thread."""


@native
def record_event(f: Function, table: EventTable, which: Word, begin: Word, end: Word, most: Word) -> None:
    """Records an event, if there is room and no more than `most` were recorded. Called by any thread of a run."""
    places = table.places
    room = f.select(places < most, places, most)
    with f.when(table.next.load(RELAXED) >= room):
        f.ret()
    number = table.next.fetch_add(1, RELAXED)
    with f.when(number >= places):
        f.ret()
    event = table.events.offset(number * ThunkEvent.byte_size()).cast(ThunkEvent)
    event.which = which
    event.thread = thread_identity(f)
    event.begin = begin
    event.end = end


@native
def add_busy_ticks(f: Function, busy: BusyTicks, spent: Word) -> None:
    """Adds the ticks of a chunk."""
    busy.ticks.fetch_add(spent, RELAXED)


_THREAD_IDENTITY = """define internal i64 @thread_identity() alwaysinline {
  %thread = call ptr @llvm.thread.pointer.p0()
  %id = ptrtoint ptr %thread to i64
  ret i64 %id
}"""


def counter_functions() -> str:
    """The LLVM text of the functions that instrumented programs call."""
    functions = (record_event, add_busy_ticks)
    return "\n".join([_THREAD_IDENTITY, *("\n".join(function_text(one.built(), attributes="#0")) for one in functions)])


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
        ir.emit(f"call void @{record_event.name}(ptr {table}, i64 {which}, i64 {begin}, i64 {end}, i64 {most})")
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
        f"  call void @{record_event.name}(ptr %table, i64 %which, i64 %from, i64 %to, i64 {MAX_EVENTS_WITH_CHUNKS})",
    ]
    return [
        f"  %from = {READ_CLOCK}",
        f"  {call}",
        f"  %to = {READ_CLOCK}",
        f"  %counter_entry = getelementptr inbounds ptr, ptr %block, i64 {place}",
        "  %counter = load ptr, ptr %counter_entry",
        "  %busy = getelementptr inbounds i64, ptr %counter, i64 2",
        "  %spent = sub i64 %to, %from",
        f"  call void @{add_busy_ticks.name}(ptr %busy, i64 %spent)",
        *(record if records_events else []),
    ]
