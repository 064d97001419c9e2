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


class CopiedTimes(Record):
    """A copy of a `TimeRow`, which one thread reads."""

    trace_id: Owned[Word]
    thread: Owned[Address]
    begin: Owned[Word]
    end: Owned[Word]


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


@native
def request_count(f: Function, table: TimeTable) -> Word:
    """The number of rows that launches have requested of a table, including those that did not fit."""
    return table.count.load(RELAXED)


@native
def recorded_times(f: Function, table: TimeTable, rows: Address) -> Word:
    """Copies the rows of a table that are written, `trace_id`, thread, begin and end; returns their number.

    rows: memory for as many rows as the table holds. A launch that is writing its row at this moment is left out.
    """
    count = f.variable(Word, 0)
    with f.count(table.capacity) as one:
        row = table.offset(one.index * TimeRow.byte_size() + TimeTable.byte_size()).cast(TimeRow)
        number = row.trace_id.load(ACQUIRE)
        with f.when(number != 0):
            copy = rows.offset(count.get() * TimeRow.byte_size()).cast(CopiedTimes)
            copy.trace_id, copy.thread, copy.begin, copy.end = number, row.thread, row.begin, row.end
            count.set(count.get() + 1)
    return count.get()


@native
def clear_times(f: Function, table: TimeTable) -> None:
    """Removes all rows of a table in which no times are recorded. A launch that is finishing may still write a row."""
    with f.count(table.capacity) as one:
        row = table.offset(one.index * TimeRow.byte_size() + TimeTable.byte_size()).cast(TimeRow)
        row.trace_id.store(0, RELAXED)
    table.count.store(0, RELAXED)
