"""Instrumented copies of executables, which run instead of the originals while a trace is taken.

An instrumented executable is compiled from the original's optimized module when the first launch needs it, and is kept
with the original. Native code runs it where it would run the original. All launches on a device record their thunks in
one table of counters.

Responsible for making instrumented executables. Does not depend on traces or profiles.
"""

from __future__ import annotations

import ctypes
import itertools

from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.errors import XlaError
from xlapy.base.logging import logger
from xlapy.cpu.compiler import Instrument
from xlapy.cpu.program.counter_records import MAX_EVENTS, ProfilingCounters
from xlapy.pjrt.c_api.native_library import native
from xlapy.pjrt.objects.executable import load_executable
from xlapy.pjrt.objects.loaded_executable import InstrumentedExecutable, LoadedExecutable
from xlapy.runtime.backends.cpu import CpuProgram
from xlapy.runtime.engine.counters import CounterTable
from xlapy.runtime.instrumented import compile_instrumented

_MAX_TRACED_LAUNCHES = 1 << 14
"""Launches of a program without loops whose events fit in its table."""

_numbers = itertools.count(1)
_lock = fork_safe_lock()


def instrumented_executable_of(loaded: LoadedExecutable) -> InstrumentedExecutable:
    """Returns the instrumented copy of an executable; makes it on first use."""
    with _lock:
        if loaded.instrumented is None:
            loaded.instrumented = _make_instrumented(loaded)
        return loaded.instrumented


def _make_instrumented(loaded: LoadedExecutable) -> InstrumentedExecutable:
    executable, original = loaded.executable, loaded.executable.program
    if not isinstance(original, CpuProgram) or original.has_checks or loaded.topology is not None:
        return InstrumentedExecutable(next(_numbers), loaded, None)
    try:
        copy, program = compile_instrumented(executable, Instrument.EVENTS)
        loaded_copy = load_executable(copy, loaded.assignment, loaded.options_bytes, loaded.placement, loaded.traits)
        instrumented = InstrumentedExecutable(next(_numbers), loaded_copy, program)
    except (XlaError, MemoryError) as error:
        logger.warning("traces show only whole runs of %s: %s", executable.name, error)
        return InstrumentedExecutable(next(_numbers), loaded, None)
    _enable_recording(instrumented, program)
    return instrumented


def _enable_recording(instrumented: InstrumentedExecutable, program: CpuProgram) -> None:
    """If native code runs the program, makes it record the times of launches and of their thunks on each device."""
    native_program = program.compiled.program
    assert native_program.counters is not None, "it is instrumented"
    for device, device_program in zip(instrumented.devices, instrumented.loaded.device_programs, strict=True):
        trace_id = next(_numbers)
        native().set_trace_id(device_program.address, trace_id)
        counters = CounterTable(native_program.counters, _event_capacity(native_program.counters))
        instrumented.devices_by_trace_id[trace_id] = device
        instrumented.counters_by_trace_id[trace_id] = counters
        entry = device_program["table"] + ctypes.sizeof(ctypes.c_int64) * native_program.counters_index
        ctypes.c_int64.from_address(entry).value = counters.address


def _event_capacity(clocks: ProfilingCounters) -> int:
    """Number of events, of all launches in a trace, for which the table has rows."""
    in_loops = any(clock.in_loop for clock in clocks.all)
    return MAX_EVENTS if in_loops else min(MAX_EVENTS, _MAX_TRACED_LAUNCHES * max(1, len(clocks.all)))
