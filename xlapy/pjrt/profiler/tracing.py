"""Traces: which launches of programs ran on each device, and the thunks inside them.

While a trace is taken, instrumented executables run instead of the original ones. Native code records its launches in a
table; launches through Python are recorded here. There is one trace at a time. A launch that still runs when the trace
stops is reported up to that point.

Responsible for the active trace, its clock, and for assigning thunks to launches. Does not depend on the profile
format.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.error_codes.interfaces import pjrt as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.objects.executable import run_instrumented, set_tracing
from xlapy.pjrt.objects.loaded_executable import InstrumentedExecutable, LoadedExecutable
from xlapy.pjrt.objects.records import SIZES, WORD
from xlapy.pjrt.profiler.instrumented import instrumented_executable_of
from xlapy.runtime.engine.counters import CounterTable

Array = np.ndarray[Any, Any]

MAX_TRACED_LAUNCHES = 1 << 16
"""Native launches, on all devices together, that a trace can record."""

_HEAD, _ROW = SIZES["time_table"] // WORD, SIZES["time_row"] // WORD
_MIN_CALIBRATION_SECONDS = 0.01
"""Seconds over which the processor's tick counter is compared with the system clock, at least."""


@dataclass(eq=False)
class TracedLaunch:
    """A launch of a program on one device, from tick `begin` to tick `end`."""

    executable: InstrumentedExecutable
    device: int
    begin: int
    end: int
    is_complete: bool = True
    """Whether the launch had finished when the trace stopped."""
    thunk_events: Array = field(default_factory=lambda: np.zeros((0, 5), np.int64))
    """The events of its thunks, in the format of `CounterTable.events`."""


@dataclass(frozen=True)
class TickClock:
    """Converts ticks to time. first: the first tick. nanoseconds: time of the first tick since the epoch. rate:
    nanoseconds per tick."""

    first: int
    nanoseconds: int
    rate: float

    def picoseconds(self, ticks: Array) -> Array:
        """Picoseconds since the first tick."""
        return np.rint((ticks - self.first) * (self.rate * 1e3)).astype(np.int64)


class LaunchTrace:
    """A trace, which records from its construction until `stop`."""

    def __init__(self) -> None:
        self._executables: dict[int, InstrumentedExecutable] = {}
        self._lock = fork_safe_lock()
        self._launches: list[TracedLaunch] = []
        self.lost: dict[InstrumentedExecutable, int] = {}
        """Number of thunk events that did not fit into the table of counters, by executable."""
        self.lost_launches = 0
        self._first, self._began, self._epoch = native().ticks(), time.perf_counter_ns(), time.time_ns()
        self.clock = TickClock(self._first, self._epoch, 1.0)

    # -- recording

    def register(self, loaded: LoadedExecutable) -> tuple[InstrumentedExecutable, bool]:
        """Registers an executable that is about to run. Returns its instrumented copy, and whether native code runs
        that from now on."""
        executable = instrumented_executable_of(loaded)
        with self._lock:
            is_new = executable.number not in self._executables
            if is_new:
                self._begin(loaded, executable)
        return executable, is_new and bool(executable.devices_by_trace_id)

    def _begin(self, loaded: LoadedExecutable, executable: InstrumentedExecutable) -> None:
        self._executables[executable.number] = executable
        if executable.program is not None:
            executable.program.call.on_counted = functools.partial(self._record_counted, executable)
        for counters in executable.counters_by_trace_id.values():
            counters.clear()
        if executable.devices_by_trace_id:
            run_instrumented(loaded, executable.loaded.record)

    def record_whole_launch(self, executable: InstrumentedExecutable, begin: int, end: int) -> None:
        """Records a launch of a program that is not instrumented, from tick `begin` to tick `end`."""
        self._launches += [TracedLaunch(executable, device, begin, end) for device in executable.devices]

    def _record_counted(self, executable: InstrumentedExecutable, counters: CounterTable, device: int) -> None:
        """Records a launch through Python on one of the program's devices. Its duration is that of its thunks."""
        thunk_events = self._collect_events(executable, counters)
        counters.clear()
        now = native().ticks()
        begin, end = (int(thunk_events[:, 3].min()), int(thunk_events[:, 4].max())) if len(thunk_events) else (now, now)
        self._launches.append(
            TracedLaunch(executable, executable.devices[device], begin, end, thunk_events=thunk_events)
        )

    def _collect_events(self, executable: InstrumentedExecutable, counters: CounterTable) -> Array:
        """Returns the events recorded since the trace began. Events that did not fit are counted in `lost`."""
        clocks = executable.clocks
        assert clocks is not None, "it is instrumented"
        events = counters.events
        known = (events[:, 0] >= 0) & (events[:, 0] < len(clocks.all)) & (events[:, 3] >= self._first)
        events = events[known]
        timed = [clock.number for clock in clocks.all if clock.is_timed]
        lost = int(counters.figures[timed, 1].sum()) - int((events[:, 1] == 0).sum())
        with self._lock:
            self.lost[executable] = self.lost.get(executable, 0) + max(lost, 0)
        return events

    # -- the result

    def stop(self) -> None:
        """Collects what native code has recorded."""
        table = _table()
        while time.perf_counter_ns() - self._began < _MIN_CALIBRATION_SECONDS * 1e9:
            time.sleep(_MIN_CALIBRATION_SECONDS / 10)
        ticks, now = native().ticks(), time.perf_counter_ns()
        self.clock = TickClock(self._first, self._epoch, (now - self._began) / (ticks - self._first))
        self.lost_launches = max(0, native().request_count(table.ctypes.data) - MAX_TRACED_LAUNCHES)
        rows = np.empty((MAX_TRACED_LAUNCHES, _ROW), np.int64)
        rows = rows[: native().recorded_times(table.ctypes.data, rows.ctypes.data)]
        rows = rows[rows[:, 2] >= self._first]
        rows = rows[np.argsort(rows[:, 2])]
        for executable in self._executables.values():
            if executable.program is not None:
                executable.program.call.on_counted = None
            for number, counters in executable.counters_by_trace_id.items():
                self._launches += self._native_launches(
                    executable, number, rows[rows[:, 0] == number], self._collect_events(executable, counters)
                )

    def _native_launches(
        self, executable: InstrumentedExecutable, number: int, rows: Array, events: Array
    ) -> list[TracedLaunch]:
        """Returns the native launches on one device. Each gets what its thread ran between its begin and its end, and
        the pieces of parallel loops that threads of the pool ran."""
        device = executable.devices_by_trace_id[number]
        launches = [TracedLaunch(executable, device, begin, end) for _, _, begin, end in rows.tolist()]
        owner = np.full(len(events), -1)
        for thread in np.unique(rows[:, 1]):
            mine = np.flatnonzero(rows[:, 1] == thread)
            of_it = np.flatnonzero(events[:, 2] == thread)
            owner[of_it] = _enclosing_rows(rows[mine], mine, events[of_it])
        pieces = np.flatnonzero((events[:, 1] != 0) & (owner < 0))
        owner[pieces] = _enclosing_rows(rows, np.arange(len(rows)), events[pieces])
        order = np.argsort(owner, kind="stable")
        left, *thunk_events = np.split(events[order], np.searchsorted(owner[order], np.arange(len(launches))))
        for launch, own in zip(launches, thunk_events, strict=True):
            launch.thunk_events = own
        if len(left):
            begin, end = int(left[:, 3].min()), int(left[:, 4].max())
            launches.append(TracedLaunch(executable, device, begin, end, is_complete=False, thunk_events=left))
        return launches

    def dropped(self) -> list[str]:
        """Describes what did not fit into the tables: `1200 thunks of jit_f`."""
        launches = [f"{self.lost_launches} launches"] if self.lost_launches else []
        return launches + [f"{lost} thunks of {executable.name}" for executable, lost in self.lost.items() if lost]

    def launches(self) -> Sequence[TracedLaunch]:
        """The launches by begin time."""
        return sorted(self._launches, key=lambda launch: launch.begin)


def _enclosing_rows(rows: Array, numbers: Array, events: Array) -> Array:
    """For each event, returns the number of the last row whose interval contains it, or -1. Rows are sorted by begin,
    and may overlap: one that began later than the right one may have ended before the event."""
    found = np.full(len(events), -1)
    if not len(rows):
        return found
    latest_end = np.maximum.accumulate(rows[:, 3])
    at = np.searchsorted(rows[:, 2], events[:, 3], side="right") - 1
    pending = np.flatnonzero(at >= 0)
    while len(pending):
        row, end = at[pending], events[pending, 4]
        inside = end <= rows[row, 3]
        found[pending[inside]] = numbers[row[inside]]
        at[pending] -= 1
        pending = pending[~inside & (row > 0) & (end <= latest_end[row])]
    return found


# -- the active trace

_current: LaunchTrace | None = None
_lock = fork_safe_lock()
_tables: list[Array] = []
"""The table of launch times, in a list once it exists. It is never freed, because native code may still write to it
after a trace."""


def _table() -> Array:
    if not _tables:
        table = np.zeros(_HEAD + _ROW * MAX_TRACED_LAUNCHES, np.int64)
        table[0] = MAX_TRACED_LAUNCHES
        _tables.append(table)
    return _tables[0]


def start() -> LaunchTrace:
    """Starts a trace. `InvalidArgumentError` if one is active."""
    global _current
    with _lock:
        if _current is not None:
            raise InvalidArgumentError(
                codes.PROFILER_STATE, "a trace is being taken: there is one at a time in a process"
            )
        table = _table()
        native().clear_times(table.ctypes.data)
        _current = LaunchTrace()
        native().set_time_table(table.ctypes.data)
        set_tracing(True)
        return _current


def stop() -> None:
    """Stops the active trace."""
    global _current
    with _lock:
        set_tracing(False)
        native().set_time_table(0)
        if _current is not None:
            _current.stop()
        _current = None


def current() -> LaunchTrace | None:
    """The active trace, or None."""
    return _current
