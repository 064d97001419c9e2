"""What an instrumented program has counted: the memory it counts in, and the figures as arrays.

Owns: that memory. Must not know: how programs are called, what the figures are for.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from xlapy.cpu.program.profiling_counters import EVENT, FIGURES, HEADER, MOST_EVENTS, Clocks

Array = np.ndarray[Any, Any]


class CounterTable:
    """The table of one run at a time, laid out as `xlapy.cpu.program.profiling_counters` says."""

    def __init__(self, clocks: Clocks, places: int = MOST_EVENTS) -> None:
        """places: for events, if there are any."""
        places = places if clocks.has_events else 0
        self._table = np.zeros(clocks.table_size, np.int64)
        self._events = np.zeros((places, EVENT), np.int64)
        self._table[0], self._table[2] = places, self._events.ctypes.data

    @property
    def address(self) -> int:
        return self._table.ctypes.data

    @property
    def figures(self) -> Array:
        """s64[clocks, 3]: the ticks of each clock, how often it began, the ticks of threads in its parallel loop."""
        return self._table[HEADER:].reshape(-1, FIGURES)

    @property
    def events(self) -> Array:
        """s64[events, 5]: the clock, whether it is a piece of its parallel loop, the thread, ticks at begin and end."""
        found = self._events[: min(int(self._table[1]), len(self._events))]
        clocks, which = np.divmod((found[:, 0] - self.address) // 8 - HEADER, FIGURES)
        return np.column_stack([clocks, which == 2, found[:, 1:]])

    def clear(self) -> None:
        """Begins anew."""
        self._table[1] = 0
        self._table[HEADER:] = 0
