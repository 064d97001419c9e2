"""Runs a program and its instrumented twin in turn, and takes the figures of the steps.

Of the times of a step, and of those of whole runs, the least tenth counts: others may be using the processor.

Owns: how often, which times count, what reading the clock costs. Must not know: instructions, how figures are shown.
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
"""Runs an executable once on the arguments of the user."""

ENOUGH = 1.0
"""Seconds after which there were enough runs of each program, where nobody says how many."""

LEAST_RUNS, MOST_RUNS = 5, 1000

PART = 10
"""The least one of so many times counts."""

DEAREST_STAMP = 60e-9
"""Seconds that reading the clock and counting takes at most: what is slower by more is so for another reason."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What runs took. Times are in seconds, means over the least tenth."""

    compiled: Compiled
    figures: Array
    """f64[clocks, 3]: seconds of a clock, how often it began, seconds of threads in its loop; on each device."""
    wall: float
    """A call of the program as it is."""
    instrumented_wall: float
    stamp: float
    """What reading the clock and counting takes, each time."""
    runs: int


def compiled_form(program: CpuProgram) -> Compiled:
    """What a program was compiled to, with its steps."""
    assert isinstance(program.compiled, Compiled), "instrumented programs are compiled anew"
    return program.compiled


def measure(executable: Executable, run: Run, repeat: int | None) -> Measured:
    """Runs the program and its twin in turn after a run to warm up, `repeat` times or as often as is worth the time."""
    clock = _Rate()
    twin, program = compile_instrumented(executable, Instrument.COUNTS)
    run(executable)
    run(twin)
    begin = time.perf_counter()
    plain: list[float] = []
    slower: list[float] = []
    figures: list[Array] = []
    while _is_worth(len(plain), repeat, time.perf_counter() - begin):
        plain.append(_timed(executable, run))
        _clear(program.call.counter_tables())
        slower.append(_timed(twin, run))
        figures.append(np.sum([table.figures for table in program.call.counter_tables()], axis=0).astype(np.float64))
    found = _least(figures) / len(executable.devices)
    found[:, (0, 2)] /= clock.ticks_a_second()
    wall, instrumented_wall = float(_least(plain)), float(_least(slower))
    compiled = compiled_form(program)
    stamp = _stamp(compiled, found, instrumented_wall - wall)
    return Measured(compiled, found, wall, instrumented_wall, stamp, len(plain))


def _least(values: Sequence[Any]) -> Array:
    """The mean of the least tenth of each figure."""
    ordered = np.sort(np.stack(values), axis=0)
    return np.asarray(ordered[: -(-len(values) // PART)].mean(axis=0))


def _stamp(compiled: Compiled, figures: Array, slower: float) -> float:
    """What a reading of the clock costs, where all of them take so many seconds."""
    clocks = compiled.program.counters
    assert clocks is not None, "the program is instrumented"
    readings = sum(float(figures[clock.number, 1]) for clock in clocks.all if clock.is_timed)
    return min(max(slower / max(readings, 1.0), 0.0), DEAREST_STAMP)


def traced(executable: Executable, run: Run) -> tuple[CpuProgram, Sequence[CounterTable], float]:
    """One run, after one to warm up, with the events of each device, and the ticks of a second."""
    clock = _Rate()
    twin, program = compile_instrumented(executable, Instrument.EVENTS)
    run(twin)
    _clear(program.call.counter_tables())
    run(twin)
    return program, program.call.counter_tables(), clock.ticks_a_second()


class _Rate:
    """The rate of the processor's clock, from now on: the longer, the more exactly."""

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
