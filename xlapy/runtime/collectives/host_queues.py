"""Queues between the host and a device, on which infeeds, outfeeds and transfers to and from the host wait.

A native program that runs on the device joins the queues of its infeeds and outfeeds: it takes and leaves values
without asking the host. It leaves them when it ends, or when somebody else takes from the infeed. Of several programs
at a time one can join.

Owns: the queues. Must not know: what travels on them, how native programs take it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from xlapy.base.errors import ExecutionError

_SLICE = 0.05
"""Seconds of sleep on a native program, which handlers of signals may have to wait."""


class HostQueue:
    """Values in the order in which they were put; any number of threads put and take."""

    def __init__(self) -> None:
        self._values: deque[Any] = deque()
        self._changed = threading.Condition()

    def put(self, value: Any) -> None:
        with self._changed:
            self._values.append(value)
            self._changed.notify()

    def take(self, what: str, timeout: float, cancelled: threading.Event | None = None) -> Any:
        """The first value, waited for at most `timeout` seconds; `ExecutionError` naming `what` if none comes.

        Who sets `cancelled` calls `wake` afterwards, and the wait ends with an error.
        """
        deadline = time.monotonic() + timeout
        with self._changed:
            while not self._has_values():
                if cancelled is not None and cancelled.is_set():
                    raise ExecutionError(f"{what}: cancelled")
                if not self._wait(max(0.0, deadline - time.monotonic())) and not self._has_values():
                    raise ExecutionError(f"{what}: nothing came within {timeout:g} seconds")
            return self._values.popleft()

    def _has_values(self) -> bool:
        """Whether there is something to take; the lock is held, as in `_wait`."""
        return bool(self._values)

    def _wait(self, seconds: float) -> bool:
        """For a change, at most so long; whether there is time left."""
        return self._changed.wait(seconds)

    def wake(self) -> None:
        """Makes whoever waits look whether it is cancelled."""
        with self._changed:
            self._changed.notify_all()

    def __len__(self) -> int:
        with self._changed:
            self._has_values()
            return len(self._values)


class Source(Protocol):
    """How a native program is fed in values."""

    def join(self) -> None: ...
    def add(self, value: Any) -> None: ...
    def newly_taken(self) -> int: ...
    def end(self) -> None: ...


class InfeedQueue(HostQueue):
    """Values on their way into a device; those that a native program may take itself it has as well."""

    def __init__(self) -> None:
        super().__init__()
        self._source: Source | None = None

    def put(self, value: Any) -> None:
        with self._changed:
            self._settle()
            self._values.append(value)
            if self._source is not None:
                self._source.add(value)
            self._changed.notify()

    def join(self, source: Source) -> None:
        """Feeds a program, if none is fed yet."""
        with self._changed:
            if self._source is None:
                self._source = source
                for value in self._values:
                    source.add(value)
                source.join()

    def leave(self, source: Source) -> None:
        """The program has ended."""
        with self._changed:
            if self._source is source:
                self._part()

    def _has_values(self) -> bool:
        self._part()
        return bool(self._values)

    def _part(self) -> None:
        """Nothing is taken any more but from here."""
        if self._source is not None:
            self._source.end()
            self._settle()
            self._source = None

    def _settle(self) -> None:
        for _ in range(0 if self._source is None else self._source.newly_taken()):
            self._values.popleft()

    def __len__(self) -> int:
        with self._changed:
            self._settle()
            return len(self._values)


class Sink(Protocol):
    """How a native program feeds out values."""

    def join(self) -> None: ...
    def take(self) -> Sequence[Any]: ...
    def count(self) -> int: ...
    def add_sleepers(self, count: int) -> None: ...
    def sleep(self, seen: int, seconds: float) -> None: ...
    def wake(self) -> None: ...
    def end(self) -> None: ...


class OutfeedQueue(HostQueue):
    """Values on their way out of a device; those of a native program are fetched when somebody asks."""

    def __init__(self) -> None:
        super().__init__()
        self._sink: Sink | None = None

    def put(self, value: Any) -> None:
        with self._changed:
            self._has_values()
            self._values.append(value)
            self._changed.notify()
            if self._sink is not None:
                self._sink.wake()

    def join(self, sink: Sink) -> None:
        """Takes from a program, if none is taken from yet."""
        with self._changed:
            if self._sink is None:
                self._sink = sink
                sink.join()
                self._changed.notify_all()

    def leave(self, sink: Sink) -> None:
        """The program has ended."""
        with self._changed:
            if self._sink is sink:
                self._has_values()
                self._sink = None
                sink.end()
                self._changed.notify_all()

    def _has_values(self) -> bool:
        if self._sink is not None:
            self._values.extend(self._sink.take())
        return bool(self._values)

    def _wait(self, seconds: float) -> bool:
        sink = self._sink
        if sink is None:
            return self._changed.wait(seconds)
        sink.add_sleepers(1)
        seen = sink.count()
        has_values = self._has_values()
        self._changed.release()
        try:
            if not has_values:
                sink.sleep(seen, min(seconds, _SLICE))
        finally:
            self._changed.acquire()
            sink.add_sleepers(-1)
        return seconds > _SLICE
