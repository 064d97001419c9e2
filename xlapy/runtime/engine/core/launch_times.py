"""Launch times of instrumented programs: when each device started and finished a launch, and on which thread.

Rows of the time table are taken in order. Its count includes the rows that did not fit.

Responsible for recording times. Must not know their readers, or the thunk events that instrumented programs record
themselves.
"""

from __future__ import annotations

from xlapy.native.function import Function, Static, external, native
from xlapy.native.ir import ACQUIRE, RELAXED, RELEASE
from xlapy.native.records import Atomic, Final, Owned, Record
from xlapy.native.values import Address, Nullable, Word


class TimeRow(Record):
    """The times of a launch on a device. trace_id: of its program; 0 until the row is written."""

    trace_id: Atomic[Word]
    thread: Owned[Address]
    begin: Owned[Word]
    end: Owned[Word]


class TimeTable(Record):
    """capacity: number of rows that follow. count: number of rows requested."""

    capacity: Final[Word]
    count: Atomic[Word]


class CurrentTimes(Record):
    """The table in which times are recorded; null for none."""

    table: Atomic[Nullable[TimeTable]]


CURRENT_TIMES = Static("current_times", CurrentTimes)


@external
def ticks(f: Function) -> Word:  # type: ignore[empty-body]
    """The processor's tick counter."""


@external
def thread_pointer(f: Function) -> Address:  # type: ignore[empty-body]
    """An address that differs from thread to thread."""


@native
def set_time_table(f: Function, table: Nullable[TimeTable]) -> None:
    """Sets the table in which times are recorded; null for none. Launches that are finishing may still write to the
    previous table."""
    f.static(CURRENT_TIMES).table.store(table, RELEASE)


@native
def record_time(f: Function, program: Word, begin: Word, end: Word) -> None:
    """Records the times of a launch, if a table is set and has room."""
    current = f.static(CURRENT_TIMES).table.load(ACQUIRE)
    with f.when(current.is_null()):
        f.ret()
    table = current.value
    number = table.count.fetch_add(1, RELAXED)
    with f.when(number >= table.capacity):
        f.ret()
    row = table.offset(number * TimeRow.byte_size() + TimeTable.byte_size()).cast(TimeRow)
    row.thread = thread_pointer(f)
    row.begin = begin
    row.end = end
    row.trace_id.store(program, RELEASE)
