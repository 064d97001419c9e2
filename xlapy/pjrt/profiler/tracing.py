"""What a trace notes: the runs of programs on each device, and the steps inside of them.

Twins of executables run while a trace is taken; runs by native code are noted there, others here. There is one trace
at a time. Runs that go on when it ends are told of as far as they have come.

Owns: the one trace, its clock, which steps belong to which run. Must not know: how profiles are written.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlapy.base.errors import InvalidArgumentError
from xlapy.pjrt.c_api.loaded import native
from xlapy.pjrt.objects.executable import Loaded, put_in, put_twins_in
from xlapy.pjrt.objects.records import SIZES, WORD
from xlapy.pjrt.profiler.instrumented import Twin, twin_of
from xlapy.runtime.engine.counts import Counts

Array = np.ndarray[Any, Any]

MOST_RUNS = 1 << 16
"""Runs by native code, on each device, that a trace has places for."""

_HEAD, _ROW = SIZES["times"] // WORD, SIZES["time"] // WORD
_ENOUGH = 0.01
"""Seconds that the processor's clock is compared with the system's at least."""


@dataclass(eq=False)
class Run:
    """A run of a program on one device, from `begin` to `end` in ticks."""

    twin: Twin
    device: int
    begin: int
    end: int
    is_whole: bool = True
    """Whether it had ended when the trace did."""
    steps: Array = field(default_factory=lambda: np.zeros((0, 5), np.int64))
    """As `Counts.events` has them."""


@dataclass(frozen=True)
class Clock:
    """From ticks to nanoseconds since the epoch: those of the first tick, and how many a tick takes."""

    first: int
    nanoseconds: int
    rate: float

    def picoseconds(self, ticks: Array) -> Array:
        """Since the first tick."""
        return np.rint((ticks - self.first) * (self.rate * 1e3)).astype(np.int64)


class Trace:
    """A trace, from when it is made to `stop`."""

    def __init__(self) -> None:
        self._twins: dict[int, Twin] = {}
        self._lock = threading.Lock()
        self._runs: list[Run] = []
        self.lost: dict[Twin, int] = {}
        """Steps for which there was no place."""
        self.lost_runs = 0
        self._first, self._began, self._epoch = native().ticks(), time.perf_counter_ns(), time.time_ns()
        self.clock = Clock(self._first, self._epoch, 1.0)

    # -- while it is taken

    def meet(self, loaded: Loaded) -> tuple[Twin, bool]:
        """The twin of an executable that is to run, and whether native code runs that from now on."""
        twin = twin_of(loaded)
        with self._lock:
            is_new = twin.number not in self._twins
            if is_new:
                self._begin(loaded, twin)
        return twin, is_new and bool(twin.parts)

    def _begin(self, loaded: Loaded, twin: Twin) -> None:
        self._twins[twin.number] = twin
        if twin.program is not None:
            twin.program.call.counted = functools.partial(self._note, twin)
        for counts in twin.counts.values():
            counts.clear()
        if twin.parts:
            put_in(loaded, twin.loaded.record)

    def note_whole(self, twin: Twin, begin: int, end: int) -> None:
        """Notes a run of what is not instrumented, from and to ticks."""
        self._runs += [Run(twin, device, begin, end) for device in twin.devices]

    def _note(self, twin: Twin, counts: Counts, device: int) -> None:
        """Notes a run by way of Python on one of the program's devices: it takes as long as its steps."""
        steps = self._taken(twin, counts)
        counts.clear()
        now = native().ticks()
        begin, end = (int(steps[:, 3].min()), int(steps[:, 4].max())) if len(steps) else (now, now)
        self._runs.append(Run(twin, twin.devices[device], begin, end, steps=steps))

    def _taken(self, twin: Twin, counts: Counts) -> Array:
        """The events of what was noted since the beginning; what was not is lost."""
        clocks = twin.clocks
        assert clocks is not None, "it is instrumented"
        events = counts.events
        known = (events[:, 0] >= 0) & (events[:, 0] < len(clocks.all)) & (events[:, 3] >= self._first)
        events = events[known]
        timed = [clock.number for clock in clocks.all if clock.is_timed]
        lost = int(counts.figures[timed, 1].sum()) - int((events[:, 1] == 0).sum())
        with self._lock:
            self.lost[twin] = self.lost.get(twin, 0) + max(lost, 0)
        return events

    # -- its end

    def stop(self) -> None:
        """Takes what native code has noted so far."""
        table = _table()
        while time.perf_counter_ns() - self._began < _ENOUGH * 1e9:
            time.sleep(_ENOUGH / 10)
        ticks, now = native().ticks(), time.perf_counter_ns()
        self.clock = Clock(self._first, self._epoch, (now - self._began) / (ticks - self._first))
        self.lost_runs = max(0, int(table[1]) - MOST_RUNS)
        rows = table[_HEAD:].reshape(-1, _ROW)[: min(int(table[1]), MOST_RUNS)]
        rows = rows[rows[:, 2] >= self._first]
        rows = rows[np.argsort(rows[:, 2])]
        for twin in self._twins.values():
            if twin.program is not None:
                twin.program.call.counted = None
            for number, counts in twin.counts.items():
                self._runs += self._runs_of(twin, number, rows[rows[:, 0] == number], self._taken(twin, counts))

    def _runs_of(self, twin: Twin, number: int, rows: Array, events: Array) -> list[Run]:
        """The runs of a part by native code, with the steps of their thread, and pieces, between their ends."""
        device = twin.parts[number]
        runs = [Run(twin, device, begin, end) for _, _, begin, end in rows.tolist()]
        owner = np.full(len(events), -1)
        for thread in np.unique(rows[:, 1]):
            mine = np.flatnonzero(rows[:, 1] == thread)
            of_it = np.flatnonzero((events[:, 2] == thread) & (events[:, 1] == 0))
            owner[of_it] = _containing(rows[mine], mine, events[of_it])
        pieces = np.flatnonzero(events[:, 1])
        owner[pieces] = _containing(rows, np.arange(len(rows)), events[pieces])
        order = np.argsort(owner, kind="stable")
        left, *steps = np.split(events[order], np.searchsorted(owner[order], np.arange(len(runs))))
        for run, own in zip(runs, steps, strict=True):
            run.steps = own
        if len(left):
            begin, end = int(left[:, 3].min()), int(left[:, 4].max())
            runs.append(Run(twin, device, begin, end, is_whole=False, steps=left))
        return runs

    def dropped(self) -> list[str]:
        """What there was no place for: `1200 steps of jit_f`."""
        runs = [f"{self.lost_runs} runs"] if self.lost_runs else []
        return runs + [f"{lost} steps of {twin.name}" for twin, lost in self.lost.items() if lost]

    def runs(self) -> Sequence[Run]:
        """In the order of their beginnings."""
        return sorted(self._runs, key=lambda run: run.begin)


def _containing(rows: Array, numbers: Array, events: Array) -> Array:
    """For each event the number of the row between whose ends it is; -1 for none. Rows are in order."""
    if not len(rows) or not len(events):
        return np.full(len(events), -1)
    at = np.searchsorted(rows[:, 2], events[:, 3], side="right") - 1
    inside = (at >= 0) & (events[:, 4] <= rows[at, 3])
    return np.where(inside, numbers[at], -1)


# -- the one that is taken

_current: Trace | None = None
_lock = threading.Lock()
_tables: list[Array] = []
"""The table of times, made with the first trace: native code may write there after each of them."""


def _table() -> Array:
    if not _tables:
        _tables.append(np.zeros(_HEAD + _ROW * MOST_RUNS, np.int64))
    return _tables[0]


def start() -> Trace:
    """Begins a trace; `InvalidArgumentError` if one is being taken."""
    global _current
    with _lock:
        if _current is not None:
            raise InvalidArgumentError("a trace is being taken: there is one at a time in a process")
        table = _table()
        table[:] = 0
        table[0] = MOST_RUNS
        _current = Trace()
        native().note_times(table.ctypes.data)
        put_twins_in(True)
        return _current


def stop() -> None:
    """Ends the trace."""
    global _current
    with _lock:
        put_twins_in(False)
        native().note_times(0)
        if _current is not None:
            _current.stop()
        _current = None


def current() -> Trace | None:
    """The trace that is being taken."""
    return _current
