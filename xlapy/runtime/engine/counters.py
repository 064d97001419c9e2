"""The memory in which an instrumented program records its profiling counters, and its contents as arrays.

Responsible for this memory. Does not depend on how programs are called or what the figures are used for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy.cpu.program.counter_records import COUNTER_WORDS, EVENT_WORDS, HEADER_WORDS, MAX_EVENTS, ProfilingCounters

Array = np.ndarray[Any, Any]


class CounterTable:
    """The counters of one run at a time, in the layout of `xlapy.cpu.program.profiling_counters`."""

    def __init__(self, clocks: ProfilingCounters, event_capacity: int = MAX_EVENTS) -> None:
        """places: number of events for which the table has rows, if the program records events."""
        event_capacity = event_capacity if clocks.records_events else 0
        self._table = np.zeros(clocks.table_words, np.int64)
        self._events = np.zeros((event_capacity, EVENT_WORDS), np.int64)
        self._table[0], self._table[2] = event_capacity, self._events.ctypes.data

    @property
    def address(self) -> int:
        return self._table.ctypes.data

    @property
    def figures(self) -> Array:
        """s64[counters, 3]: the ticks of each counter, how often it started, and the ticks of threads in its parallel
        loop."""
        return self._table[HEADER_WORDS:].reshape(-1, COUNTER_WORDS)

    @property
    def events(self) -> Array:
        """s64[events, 5]: the counter, whether the event is a piece of its parallel loop, the thread, ticks at begin
        and at end."""
        events = self._events[: min(int(self._table[1]), len(self._events))]
        clocks, which = np.divmod((events[:, 0] - self.address) // 8 - HEADER_WORDS, COUNTER_WORDS)
        return np.column_stack([clocks, which == 2, events[:, 1:]])

    def clear(self) -> None:
        """Resets all counters and events."""
        self._table[1] = 0
        self._table[HEADER_WORDS:] = 0
