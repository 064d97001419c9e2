"""Places the profiling counters of an instrumented program: decides which thunks are counted and timed together.

Every thunk has a counter, with these exceptions. An outlined function has none: the counters of the thunks in it
suffice. Consecutive short unrolled kernels share one counter, because reading the clock takes as long as they do. A
short loop condition has no counter: its time is that of the loop. If the whole iteration of a loop is short, its thunks
are counted but not timed, because they overlap with those of the next iteration: their time is that of the loop.

Responsible for this placement. Does not depend on LLVM or on how the figures are used.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from xlapy.cpu.program.counter_records import ProfilingCounter, ProfilingCounters
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.thunks import Thunk

MAX_SHARED_STATEMENTS: Final = 256
"""Unrolled kernels share a counter until they have this many statements together."""


def place_counters(program: NativeProgram, *, records_events: bool = False) -> ProfilingCounters:
    """Returns the counters of a program whose thunks have been outlined."""
    counters = ProfilingCounters([], records_events)
    counters.top_level = list(_place(counters, program.thunks, in_loop=False))
    return counters


def _place(counters: ProfilingCounters, thunks: list[Thunk], *, in_loop: bool) -> Iterator[ProfilingCounter]:
    together: list[Thunk] = []
    for thunk in thunks:
        is_full = sum(t.shared_statements or 0 for t in together) >= MAX_SHARED_STATEMENTS
        if together and (thunk.shared_statements is None or is_full):
            yield _add_counter(counters, together, in_loop)
            together = []
        if thunk.function is not None:
            yield from _place(counters, thunk.function.thunks, in_loop=in_loop)
        elif thunk.shared_statements is not None:
            together.append(thunk)
        else:
            yield _place_single(counters, thunk, in_loop=in_loop)
    if together:
        yield _add_counter(counters, together, in_loop)


def _place_single(counters: ProfilingCounters, thunk: Thunk, *, in_loop: bool) -> ProfilingCounter:
    """Adds the counter of one thunk and those of the thunks that it contains."""
    counter = _add_counter(counters, [thunk], in_loop)
    in_loop = in_loop or thunk.is_loop
    counter.nested = [
        [] if _is_short_condition(thunk, nested) else list(_place(counters, nested, in_loop=in_loop))
        for nested in thunk.nested
    ]
    for body in _short_bodies(counter):
        body.is_timed = False
    return counter


def _add_counter(counters: ProfilingCounters, thunks: list[Thunk], in_loop: bool) -> ProfilingCounter:
    counter = ProfilingCounter(len(counters.all), thunks, in_loop)
    counters.all.append(counter)
    counters.starts[thunks[0]] = counters.ends[thunks[-1]] = counter
    return counter


def _short_bodies(counter: ProfilingCounter) -> list[ProfilingCounter]:
    """Returns the counter of a loop's body if the body's thunks and the condition are all short, else nothing."""
    if not counter.thunks[0].is_loop or counter.nested[0] or len(counter.nested[1]) != 1:
        return []
    (body,) = counter.nested[1]
    return [body] if all(thunk.shared_statements is not None for thunk in body.thunks) else []


def _is_short_condition(loop: Thunk, thunks: list[Thunk]) -> bool:
    if not loop.is_loop or thunks is not loop.nested[0]:
        return False
    counts = [thunk.shared_statements for thunk in thunks]
    return all(count is not None for count in counts) and sum(filter(None, counts)) < MAX_SHARED_STATEMENTS
