"""Queues between the host and a device, on which infeeds, outfeeds and transfers to and from the host wait.

Owns: the queue. Must not know: what travels on it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import Any

from xlapy.base.errors import ExecutionError


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
            while not self._values:
                if cancelled is not None and cancelled.is_set():
                    raise ExecutionError(f"{what}: cancelled")
                if not self._changed.wait(max(0.0, deadline - time.monotonic())) and not self._values:
                    raise ExecutionError(f"{what}: nothing came within {timeout:g} seconds")
            return self._values.popleft()

    def wake(self) -> None:
        """Makes whoever waits look whether it is cancelled."""
        with self._changed:
            self._changed.notify_all()

    def __len__(self) -> int:
        return len(self._values)
