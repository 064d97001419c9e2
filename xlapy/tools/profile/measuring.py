"""Runs a program and its instrumented executable alternately, and collects the times of the thunks.

The fastest tenth of the runs counts, because other processes may use the processor. The times of all thunks come from
the same runs as the time of the whole, so that the difference is the time outside of thunks.

Responsible for the number of runs, for choosing the times that count, and for the cost of reading the clock. Does not
depend on instructions or on output.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy.cpu.compiler import Compiled, Instrument
from xlapy.runtime import Executable
from xlapy.runtime.backends.cpu import CpuProgram
from xlapy.runtime.engine.counters import CounterTable
from xlapy.runtime.instrumented import compile_instrumented
from xlapy.runtime.machine import ticks

Array = np.ndarray[Any, Any]
Run = Callable[[Executable], None]
"""Runs an executable once on the user's arguments."""

DEFAULT_MEASUREMENT_SECONDS = 1.0
"""Seconds of measurement per program, if the number of runs is not given."""

MIN_RUNS, MAX_RUNS = 5, 1000

RUNS_PER_COUNTED_RUN = 10
"""Of this many runs one counts: figures are means over the fastest tenth."""

MAX_CLOCK_READING_SECONDS = 60e-9
"""Upper bound in seconds of the cost of reading the clock and counting; a larger difference has another cause."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of a measurement. Times are in seconds, means over the fastest tenth of the runs with or without
    instruments."""

    compiled: Compiled
    figures: Array
    """f64[counters, 3] per device: seconds of a counter, how often it started, seconds of threads in its loop."""
    wall: float
    """A call of the program without instruments."""
    instrumented_wall: float
    clock_reading_seconds: float
    """The cost of reading the clock and counting once."""
    runs: int


def compiled_form(program: CpuProgram) -> Compiled:
    """Returns the compiled program with its thunks."""
    assert isinstance(program.compiled, Compiled), "instrumented programs are compiled anew"
    return program.compiled


def measure(executable: Executable, run: Run, repeat: int | None) -> Measured:
    """Runs the program and its instrumented executable alternately after a warm-up run.

    Measures `repeat` runs or, if it is None, for about `DEFAULT_MEASUREMENT_SECONDS` each.
    """
    clock = _ClockRate()
    instrumented, program = compile_instrumented(executable, Instrument.COUNTS)
    run(executable)
    run(instrumented)
    begin = time.perf_counter()
    plain: list[float] = []
    slower: list[float] = []
    figures: list[Array] = []
    while _needs_another_run(len(plain), repeat, time.perf_counter() - begin):
        plain.append(_timed(executable, run))
        _clear(program.call.counter_tables())
        slower.append(_timed(instrumented, run))
        figures.append(np.sum([table.figures for table in program.call.counter_tables()], axis=0).astype(np.float64))
    wall, _ = fastest_runs(plain, plain)
    instrumented_wall, mean = fastest_runs(slower, figures)
    found = mean / len(executable.devices)
    found[:, (0, 2)] /= clock.ticks_per_second()
    compiled = compiled_form(program)
    clock_reading_seconds = _clock_reading_seconds(compiled, found, instrumented_wall - wall)
    return Measured(compiled, found, wall, instrumented_wall, clock_reading_seconds, len(plain))


def fastest_runs(seconds: Sequence[float], figures: Sequence[Any]) -> tuple[float, Array]:
    """Returns the means over the fastest tenth of the runs: of their times, and of the figures of the same runs."""
    chosen = np.argsort(seconds, kind="stable")[: -(-len(seconds) // RUNS_PER_COUNTED_RUN)]
    return float(np.mean([seconds[n] for n in chosen])), np.mean([figures[n] for n in chosen], axis=0)


def _clock_reading_seconds(compiled: Compiled, figures: Array, slower: float) -> float:
    """Returns the cost of reading the clock once, given the total cost of all readings."""
    clocks = compiled.program.counters
    assert clocks is not None, "the program is instrumented"
    readings = sum(float(figures[clock.number, 1]) for clock in clocks.all if clock.is_timed)
    return min(max(slower / max(readings, 1.0), 0.0), MAX_CLOCK_READING_SECONDS)


def traced(executable: Executable, run: Run) -> tuple[CpuProgram, Sequence[CounterTable], float]:
    """Returns one run, after a warm-up run, with the events of each device, and the clock's ticks per second."""
    clock = _ClockRate()
    instrumented, program = compile_instrumented(executable, Instrument.EVENTS)
    run(instrumented)
    _clear(program.call.counter_tables())
    run(instrumented)
    return program, program.call.counter_tables(), clock.ticks_per_second()


class _ClockRate:
    """The rate of the processor's clock, measured from now on; a longer measurement is more exact."""

    def __init__(self) -> None:
        self._ticks, self._begin = ticks(), time.perf_counter()

    def ticks_per_second(self) -> float:
        return (ticks() - self._ticks) / (time.perf_counter() - self._begin)


def _clear(tables: Sequence[CounterTable]) -> None:
    for table in tables:
        table.clear()


def _needs_another_run(runs: int, repeat: int | None, spent: float) -> bool:
    if repeat is not None:
        return runs < repeat
    return (
        runs < MAX_RUNS
        and (runs < MIN_RUNS or spent < 2 * DEFAULT_MEASUREMENT_SECONDS)
        and not (runs and spent > 10 * DEFAULT_MEASUREMENT_SECONDS)
    )


def _timed(executable: Executable, run: Run) -> float:
    begin = time.perf_counter()
    run(executable)
    return time.perf_counter() - begin
