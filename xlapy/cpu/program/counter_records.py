"""Profiling counters of an instrumented program, and the layout of the table that native code updates.

The table of a run is an array of i64. A header holds the capacity for events, the number of events recorded, and the
address of the events. Then each counter has three words: the ticks between its starts and its ends, the number of
starts, and the ticks that threads spent in chunks of its parallel loop. An event has four words: the address of the
counter's first word (of its third word for a chunk), the thread, and the ticks at the start and at the end.

Responsible for these records. Does not decide which thunks are counted, and does not depend on LLVM.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from xlapy.cpu.program.thunks import Thunk

HEADER_WORDS: Final = 4
"""The number of i64 words in the header of the table."""
COUNTER_WORDS: Final = 3
"""The number of i64 words per counter."""
EVENT_WORDS: Final = 4
"""The number of i64 words per event."""

MAX_EVENTS: Final = 1 << 18
"""The largest capacity for events."""
MAX_EVENTS_IN_LOOPS: Final = MAX_EVENTS // 2
"""Once this many events are recorded, those of thunks in loops are dropped, so that others still fit."""
MAX_EVENTS_WITH_CHUNKS: Final = MAX_EVENTS // 4
"""Once this many events are recorded, those of chunks of parallel loops are dropped, so that others still fit."""

_MAX_NAMES = 4
"""The number of instructions that the title of a counter lists."""


@dataclass(eq=False, slots=True)
class ProfilingCounter:
    """Counts and times the thunks between its start and its end."""

    number: int
    thunks: list[Thunk]
    in_loop: bool
    is_timed: bool = True
    """False if only the number of starts is counted."""
    nested: list[list[ProfilingCounter]] = field(default_factory=list["list[ProfilingCounter]"])
    """The counters inside a loop (condition, body) or a conditional (one list per branch)."""

    @property
    def offset(self) -> int:
        """The offset in bytes of the counter's words in the table."""
        return 8 * (HEADER_WORDS + COUNTER_WORDS * self.number)

    @property
    def names(self) -> list[str]:
        """What the thunks compute: names of instructions of the optimized module, or `copy of` such a name."""
        return list(dict.fromkeys(thunk.label for thunk in self.thunks))

    @property
    def instructions(self) -> list[str]:
        """The names of the instructions that the thunks compute or copy."""
        return list(dict.fromkeys(thunk.subject for thunk in self.thunks))

    @property
    def title(self) -> str:
        """The first few names and the number of the remaining ones."""
        names = self.names
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        return ", ".join(names[:_MAX_NAMES]) + more


@dataclass(slots=True)
class ProfilingCounters:
    """All counters of a program. records_events: whether native code also records each start and end as an event."""

    top_level: list[ProfilingCounter]
    """The counters of thunks outside loops and conditionals."""
    records_events: bool
    starts: dict[Thunk, ProfilingCounter] = field(default_factory=dict["Thunk", ProfilingCounter])
    """The counter that starts at a thunk."""
    ends: dict[Thunk, ProfilingCounter] = field(default_factory=dict["Thunk", ProfilingCounter])
    """The counter that ends after a thunk."""
    all: list[ProfilingCounter] = field(default_factory=list[ProfilingCounter])
    """The counters by number."""

    @property
    def table_words(self) -> int:
        """The number of i64 words in the table of a run, without events."""
        return HEADER_WORDS + COUNTER_WORDS * len(self.all)
