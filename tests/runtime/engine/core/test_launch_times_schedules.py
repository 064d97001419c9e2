"""Launch times are read and cleared while launches record them."""

from __future__ import annotations

from xlapy.native.checker.explore import explore
from xlapy.native.function import Function, Static, native
from xlapy.native.ir import RELAXED
from xlapy.native.records import Atomic, Record
from xlapy.native.values import Address, Nullable, Word
from xlapy.runtime.engine.core.launch_times import (
    CopiedTimes,
    TimeRow,
    TimeTable,
    clear_times,
    record_time,
    recorded_times,
    request_count,
    set_time_table,
)


class Board(Record):
    """What the threads share."""

    table: Atomic[Nullable[TimeTable]]


BOARD = Static("times_board", Board)


def the_table(f: Function) -> TimeTable:
    return f.static(BOARD).table.load(RELAXED).known("prepared")


@native
def set_new_table(f: Function) -> None:
    """A table of one row, in which times are recorded from now on."""
    table = f.allocate(TimeTable, TimeRow.byte_size()).known("memory suffices")
    table.capacity = 1
    table.count.store(0, RELAXED)
    table.offset(TimeTable.byte_size()).cast(TimeRow).trace_id.store(0, RELAXED)
    f.static(BOARD).table.store(table.maybe(), RELAXED)
    set_time_table(f, table.maybe())


@native
def record(f: Function) -> None:
    record_time(f, f.constant(Word, 7), f.constant(Word, 1), f.constant(Word, 2))


@native
def read(f: Function) -> None:
    """A row is read as a whole or not at all."""
    rows = f.allocate(Address, CopiedTimes.byte_size()).known("memory suffices")
    with f.when(recorded_times(f, the_table(f), rows) == 1):
        copied = rows.cast(CopiedTimes)
        f.check((copied.trace_id == 7) & (copied.begin == 1) & (copied.end == 2), "the row is whole")


@native
def one_row_of_two_is_kept(f: Function) -> None:
    rows = f.allocate(Address, CopiedTimes.byte_size()).known("memory suffices")
    f.check(recorded_times(f, the_table(f), rows) == 1, "the table holds one row")
    f.check(request_count(f, the_table(f)) == 2, "two launches requested a row")
    clear_times(f, the_table(f))
    f.check(recorded_times(f, the_table(f), rows) == 0, "the table is empty")
    f.check(request_count(f, the_table(f)) == 0, "no row is requested")
    record(f)
    f.check(recorded_times(f, the_table(f), rows) == 1, "the table has room again")


def test_rows_are_read_while_they_are_written():
    explore(set_new_table, [record, record, read], one_row_of_two_is_kept, allows_leaks=True)


@native
def a_row_is_kept_if_it_was_requested(f: Function) -> None:
    rows = f.allocate(Address, CopiedTimes.byte_size()).known("memory suffices")
    f.check(recorded_times(f, the_table(f), rows) == request_count(f, the_table(f)), "each request has its row")


def test_times_are_recorded_while_a_table_is_set():
    explore(None, [record, set_new_table], a_row_is_kept_if_it_was_requested, allows_leaks=True)
