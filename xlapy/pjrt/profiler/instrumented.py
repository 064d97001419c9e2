"""Instrumented twins of executables, which run in their stead while a trace is taken.

A twin is compiled from the executable's optimised module when it is first to run, and kept with it. Native code runs it
where it runs the executable, and all runs of it on a device note their steps in one table.

Owns: making twins. Must not know: traces, profiles.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from dataclasses import dataclass, field

from xlapy.base.errors import XlaError
from xlapy.base.logging import logger
from xlapy.cpu.compiler import Instrument
from xlapy.cpu.program.profiling_counters import MOST_EVENTS, Clocks
from xlapy.hlo.module import Module
from xlapy.pjrt.objects.executable import Loaded, load
from xlapy.runtime.backends.cpu import CpuProgram
from xlapy.runtime.engine.counts import Counts
from xlapy.runtime.instrumented import instrumented

_RUNS = 1 << 14
"""Of a program without loops, for whose steps there is a place."""

_numbers = itertools.count(1)
_lock = threading.Lock()


@dataclass(eq=False)
class Twin:
    """What runs instead of an executable: the instrumented one, or itself if there is none."""

    number: int
    loaded: Loaded
    program: CpuProgram | None
    """The instrumented one; None if only whole runs can be told of."""
    parts: dict[int, int] = field(default_factory=dict[int, int])
    """The device of each number under which native code notes times."""
    counts: dict[int, Counts] = field(default_factory=dict[int, Counts])
    """What its runs note on each device, by the same numbers."""

    @property
    def name(self) -> str:
        return self.loaded.executable.name

    @property
    def module(self) -> Module:
        """The optimised one."""
        return self.loaded.executable.program.optimised

    @property
    def devices(self) -> list[int]:
        return [device.number for device in self.loaded.devices]

    @property
    def clocks(self) -> Clocks | None:
        return None if self.program is None else self.program.compiled.program.clocks


def twin_of(loaded: Loaded) -> Twin:
    """The twin of an executable, made if there is none yet."""
    with _lock:
        if loaded.twin is None:
            loaded.twin = _made(loaded)
        return loaded.twin


def _made(loaded: Loaded) -> Twin:
    executable, given = loaded.executable, loaded.executable.program
    if not isinstance(given, CpuProgram) or given.is_watched:
        return Twin(next(_numbers), loaded, None)
    try:
        copy, program = instrumented(executable, Instrument.EVENTS)
        own = load(copy, loaded.options, loaded.options_bytes, loaded.placement, loaded.traits)
        twin = Twin(next(_numbers), own, program)
    except (XlaError, MemoryError) as error:
        logger.warning("traces show only whole runs of %s: %s", executable.name, error)
        return Twin(next(_numbers), loaded, None)
    _have_noted(twin, program)
    return twin


def _have_noted(twin: Twin, program: CpuProgram) -> None:
    """Has native code note the times of each part, and its steps note theirs, if native code runs it."""
    native_program = program.compiled.program
    assert native_program.clocks is not None, "it is instrumented"
    for part in twin.loaded.parts:
        number = part["instrumented"] = next(_numbers)
        twin.parts[number] = twin.devices[part["number"]]
        twin.counts[number] = Counts(native_program.clocks, _places(native_program.clocks))
        place = part["table"] + ctypes.sizeof(ctypes.c_int64) * native_program.counters_index
        ctypes.c_int64.from_address(place).value = twin.counts[number].address


def _places(clocks: Clocks) -> int:
    """Places for the events of all runs in a trace."""
    in_loops = any(clock.in_loop for clock in clocks.all)
    return MOST_EVENTS if in_loops else min(MOST_EVENTS, _RUNS * max(1, len(clocks.all)))
