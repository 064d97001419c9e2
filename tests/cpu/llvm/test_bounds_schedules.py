"""Reports of accesses out of bounds under all schedules: the first one is kept, whole."""

from __future__ import annotations

import pytest

from xlapy.cpu.llvm.instrumentation.bounds import BoundsRecord, clear_access, has_access, store_access
from xlapy.native.checker.explore import explore
from xlapy.native.checker.memory import ScheduleError
from xlapy.native.function import Function, NativeFunction, Static, native
from xlapy.native.ir import RELAXED
from xlapy.native.values import Word

RECORD = Static("bounds_record", BoundsRecord)


def reporting(access: int) -> NativeFunction[[], None]:
    """A thread whose access is out of bounds, at an element of ten times its number."""

    def report(f: Function) -> None:
        store_access(f, f.static(RECORD), f.constant(Word, access), f.constant(Word, 10 * access))

    report.__name__ = f"report{access}"
    return native(report)


@native
def the_record_is_whole(f: Function) -> None:
    record = f.static(RECORD)
    f.check(has_access(f, record), "an access was stored")
    f.check(record.element == record.access.load(RELAXED) * 10, "the element is that of the access")


def test_one_of_several_accesses_is_kept() -> None:
    assert explore(None, [reporting(1), reporting(2), reporting(3)], the_record_is_whole).ends >= 1


def test_a_record_that_is_cleared_is_empty() -> None:
    @native
    def report_and_clear(f: Function) -> None:
        record = f.static(RECORD)
        store_access(f, record, f.constant(Word, 1), f.constant(Word, 10))
        clear_access(f, record)
        f.check(~has_access(f, record), "the record is empty")

    assert explore(None, [report_and_clear]).ends == 1


def test_a_check_before_the_store_is_found() -> None:
    @native
    def careless(f: Function) -> None:
        record = f.static(RECORD)
        with f.when(record.access.load(RELAXED) == 0):
            record.access.store(4, RELAXED)
            record.element = 40

    with pytest.raises(ScheduleError) as caught:
        explore(None, [careless, reporting(1)], the_record_is_whole)
    assert caught.value.kind == "race"
