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
from xlapy.cpu.program.outlining import unrolled_statement_count
from xlapy.cpu.program.thunks import CopyThunk, KernelThunk, OutlinedThunk, Thunk, WhileThunk, nested_thunks

MAX_SHARED_STATEMENTS: Final = 256
"""Unrolled kernels share a counter until they have this many statements together. Larger copies, in bytes, have a
counter of their own."""


def place_counters(program: NativeProgram, *, records_events: bool = False) -> ProfilingCounters:
    """Returns the counters of a program whose thunks have been outlined."""
    counters = ProfilingCounters([], records_events)
    counters.top_level = list(_place(counters, program.thunks, in_loop=False))
    return counters


def _place(counters: ProfilingCounters, thunks: list[Thunk], *, in_loop: bool) -> Iterator[ProfilingCounter]:
    together: list[Thunk] = []
    for thunk in thunks:
        is_full = sum(_shared_statements(t) or 0 for t in together) >= MAX_SHARED_STATEMENTS
        if together and (_shared_statements(thunk) is None or is_full):
            yield _add_counter(counters, together, in_loop)
            together = []
        if isinstance(thunk, OutlinedThunk):
            yield from _place(counters, thunk.thunks, in_loop=in_loop)
        elif _shared_statements(thunk) is not None:
            together.append(thunk)
        else:
            yield _place_single(counters, thunk, in_loop=in_loop)
    if together:
        yield _add_counter(counters, together, in_loop)


def _place_single(counters: ProfilingCounters, thunk: Thunk, *, in_loop: bool) -> ProfilingCounter:
    """Adds the counter of one thunk and those of the thunks that it contains."""
    counter = _add_counter(counters, [thunk], in_loop)
    in_loop = in_loop or isinstance(thunk, WhileThunk)
    counter.nested = [
        [] if _is_short_condition(thunk, nested) else list(_place(counters, nested, in_loop=in_loop))
        for nested in nested_thunks(thunk)
    ]
    for body in _short_bodies(counter):
        body.is_timed = False
    return counter


def _add_counter(counters: ProfilingCounters, thunks: list[Thunk], in_loop: bool) -> ProfilingCounter:
    counter = ProfilingCounter(len(counters.all), thunks, in_loop)
    counters.all.append(counter)
    counters.starts[thunks[0]] = counters.ends[thunks[-1]] = counter
    return counter


def _shared_statements(thunk: Thunk) -> int | None:
    """Returns the statements of a thunk that may share a counter with others; None for any other thunk."""
    if isinstance(thunk, KernelThunk):
        return relative_duration(thunk) if thunk.unrolled else None
    is_short_copy = isinstance(thunk, CopyThunk) and thunk.source.size <= MAX_SHARED_STATEMENTS
    return relative_duration(thunk) if is_short_copy else None


def relative_duration(thunk: Thunk) -> int:
    """Estimates how long a thunk takes, in statements, to divide the time of a counter among its thunks."""
    if isinstance(thunk, KernelThunk):
        return 1 + unrolled_statement_count(thunk.kernel.body)
    return 1 + thunk.source.size // 64 if isinstance(thunk, CopyThunk) else 1


def _short_bodies(counter: ProfilingCounter) -> list[ProfilingCounter]:
    """Returns the counter of a loop's body if the body's thunks and the condition are all short, else nothing."""
    if not isinstance(counter.thunks[0], WhileThunk) or counter.nested[0] or len(counter.nested[1]) != 1:
        return []
    (body,) = counter.nested[1]
    return [body] if all(_shared_statements(thunk) is not None for thunk in body.thunks) else []


def _is_short_condition(loop: Thunk, thunks: list[Thunk]) -> bool:
    if not isinstance(loop, WhileThunk) or thunks is not loop.condition:
        return False
    counts = [_shared_statements(thunk) for thunk in thunks]
    return all(count is not None for count in counts) and sum(filter(None, counts)) < MAX_SHARED_STATEMENTS
