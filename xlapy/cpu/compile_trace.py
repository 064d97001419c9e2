"""Records how long each step of a compilation takes, in the format of Chrome's trace viewer and Perfetto.

Responsible for the events and their file format. Does not depend on what is timed.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Span:
    """A step of a compilation: its name, its category, its start and length in seconds, and the thread that made it.
    The start is relative to that of the trace."""

    name: str
    kind: str
    start: float
    seconds: float
    thread: int
    notes: dict[str, str | int] = field(default_factory=dict[str, "str | int"])


class CompileTrace:
    """The spans of one compilation, which starts when the object is created."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self._threads: dict[int, int] = {}
        self._begin = time.perf_counter()

    @contextmanager
    def span(self, name: str, kind: str) -> Iterator[None]:
        """Times the body of a `with` statement."""
        start = time.perf_counter()
        yield
        self.spans.append(Span(name, kind, start - self._begin, time.perf_counter() - start, self._thread()))

    def add(self, name: str, kind: str, seconds: float, **notes: str | int) -> None:
        """Adds a step that has just ended."""
        start = time.perf_counter() - self._begin - seconds
        self.spans.append(Span(name, kind, start, seconds, self._thread(), notes))

    def _thread(self) -> int:
        """The number of the current thread in this trace; that of the first is 1."""
        return self._threads.setdefault(threading.get_ident(), len(self._threads) + 1)

    def to_json(self) -> str:
        """Returns complete events ("X") in microseconds. Spans inside others are shown below them."""
        events = [
            {
                "name": span.name, "cat": span.kind, "ph": "X", "pid": 1, "tid": span.thread,
                "ts": round(span.start * 1e6, 3), "dur": round(span.seconds * 1e6, 3), "args": span.notes,
            }
            for span in sorted(self.spans, key=lambda span: (span.start, -span.seconds))
        ]  # fmt: skip
        return json.dumps({"displayTimeUnit": "ms", "traceEvents": events}, indent=1) + "\n"
