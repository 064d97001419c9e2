"""Runs a program and its instrumented executable alternately, and collects the times of the thunks.

Of the times of a thunk, and of those of whole runs, the lowest tenth counts, because other processes may use the
processor.

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

ENOUGH = 1.0
"""Seconds of measurement per program, if the number of runs is not given."""

LEAST_RUNS, MOST_RUNS = 5, 1000

PART = 10
"""The lowest 1/PART of the times counts."""

DEAREST_STAMP = 60e-9
"""Upper bound in seconds of the cost of reading the clock and counting; a larger difference has another cause."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The result of a measurement. Times are in seconds, means over the lowest tenth."""

    compiled: Compiled
    figures: Array
    """f64[counters, 3] per device: seconds of a counter, how often it started, seconds of threads in its loop."""
    wall: float
    """A call of the program without instruments."""
    instrumented_wall: float
    stamp: float
    """The cost of reading the clock and counting once."""
    runs: int


def compiled_form(program: CpuProgram) -> Compiled:
    """Returns the compiled program with its thunks."""
    assert isinstance(program.compiled, Compiled), "instrumented programs are compiled anew"
    return program.compiled


def measure(executable: Executable, run: Run, repeat: int | None) -> Measured:
    """Runs the program and its instrumented executable alternately after a warm-up run, `repeat` times or for `ENOUGH`
    seconds.
    """
    clock = _Rate()
    instrumented, program = compile_instrumented(executable, Instrument.COUNTS)
    run(executable)
    run(instrumented)
    begin = time.perf_counter()
    plain: list[float] = []
    slower: list[float] = []
    figures: list[Array] = []
    while _is_worth(len(plain), repeat, time.perf_counter() - begin):
        plain.append(_timed(executable, run))
        _clear(program.call.counter_tables())
        slower.append(_timed(instrumented, run))
        figures.append(np.sum([table.figures for table in program.call.counter_tables()], axis=0).astype(np.float64))
    found = _least(figures) / len(executable.devices)
    found[:, (0, 2)] /= clock.ticks_a_second()
    wall, instrumented_wall = float(_least(plain)), float(_least(slower))
    compiled = compiled_form(program)
    stamp = _stamp(compiled, found, instrumented_wall - wall)
    return Measured(compiled, found, wall, instrumented_wall, stamp, len(plain))


def _least(values: Sequence[Any]) -> Array:
    """Returns the mean of the lowest tenth of each figure."""
    ordered = np.sort(np.stack(values), axis=0)
    return np.asarray(ordered[: -(-len(values) // PART)].mean(axis=0))


def _stamp(compiled: Compiled, figures: Array, slower: float) -> float:
    """Returns the cost of reading the clock once, given the total cost of all readings."""
    clocks = compiled.program.counters
    assert clocks is not None, "the program is instrumented"
    readings = sum(float(figures[clock.number, 1]) for clock in clocks.all if clock.is_timed)
    return min(max(slower / max(readings, 1.0), 0.0), DEAREST_STAMP)


def traced(executable: Executable, run: Run) -> tuple[CpuProgram, Sequence[CounterTable], float]:
    """Returns one run, after a warm-up run, with the events of each device, and the clock's ticks per second."""
    clock = _Rate()
    instrumented, program = compile_instrumented(executable, Instrument.EVENTS)
    run(instrumented)
    _clear(program.call.counter_tables())
    run(instrumented)
    return program, program.call.counter_tables(), clock.ticks_a_second()


class _Rate:
    """The rate of the processor's clock, measured from now on; a longer measurement is more exact."""

    def __init__(self) -> None:
        self._ticks, self._begin = ticks(), time.perf_counter()

    def ticks_a_second(self) -> float:
        return (ticks() - self._ticks) / (time.perf_counter() - self._begin)


def _clear(tables: Sequence[CounterTable]) -> None:
    for table in tables:
        table.clear()


def _is_worth(runs: int, repeat: int | None, spent: float) -> bool:
    if repeat is not None:
        return runs < repeat
    return runs < MOST_RUNS and (runs < LEAST_RUNS or spent < 2 * ENOUGH) and not (runs and spent > 10 * ENOUGH)


def _timed(executable: Executable, run: Run) -> float:
    begin = time.perf_counter()
    run(executable)
    return time.perf_counter() - begin
