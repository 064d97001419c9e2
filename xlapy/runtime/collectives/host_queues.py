"""Queues between the host and a device: infeeds, outfeeds and transfers to and from the host.

A native program that runs on the device attaches to the queues of its infeeds and outfeeds, and then takes and adds
values without calling the host. It detaches when it ends, or when another thread takes from the infeed. One program at
a time can be attached.

Responsible for the queues. Does not depend on the values in them, or on how native programs take them.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.error_codes.execution import running as codes
from xlapy.base.errors import ExecutionError

_MAX_WAIT_SECONDS = 0.05
"""Longest wait in seconds for a native program, after which Python can run signal handlers."""


class HostQueue:
    """A FIFO of values. Any number of threads may put and take."""

    def __init__(self) -> None:
        self._values: deque[Any] = deque()
        self._changed = threading.Condition(fork_safe_lock())

    def put(self, value: Any) -> None:
        with self._changed:
            self._values.append(value)
            self._changed.notify()

    def take(self, what: str, timeout: float, canceled: threading.Event | None = None) -> Any:
        """Returns the first value, waiting at most `timeout` seconds; `ExecutionError` naming `what` if none arrives.

        A thread that sets `canceled` must call `wake` afterwards; the wait then ends with an error.
        """
        deadline = time.monotonic() + timeout
        with self._changed:
            while not self._has_values():
                if canceled is not None and canceled.is_set():
                    raise ExecutionError(codes.CANCELED, f"{what}: canceled")
                if not self._wait(max(0.0, deadline - time.monotonic())) and not self._has_values():
                    raise ExecutionError(codes.WAIT_TIMEOUT, f"{what}: nothing came within {timeout:g} seconds")
            return self._values.popleft()

    def _has_values(self) -> bool:
        """Whether there is a value to take. The lock is held, as in `_wait`."""
        return bool(self._values)

    def _wait(self, seconds: float) -> bool:
        """Waits for a change, at most so long; returns whether there is time left."""
        return self._changed.wait(seconds)

    def wake(self) -> None:
        """Makes waiting threads check whether they are canceled."""
        with self._changed:
            self._changed.notify_all()

    def __len__(self) -> int:
        with self._changed:
            self._has_values()
            return len(self._values)


class InfeedConsumer(Protocol):
    """How a native program receives the values of an infeed."""

    def attach(self) -> None: ...
    def add(self, value: Any) -> None: ...
    def newly_taken(self) -> int: ...
    def detach(self) -> None: ...


class InfeedQueue(HostQueue):
    """Values on their way into a device. An attached native program gets a copy of each value that it may take
    itself."""

    def __init__(self) -> None:
        super().__init__()
        self._consumer: InfeedConsumer | None = None

    def put(self, value: Any) -> None:
        with self._changed:
            self._drop_taken()
            self._values.append(value)
            if self._consumer is not None:
                self._consumer.add(value)
            self._changed.notify()

    def attach(self, consumer: InfeedConsumer) -> None:
        """Attaches a program, if none is attached."""
        with self._changed:
            if self._consumer is None:
                self._consumer = consumer
                for value in self._values:
                    consumer.add(value)
                consumer.attach()

    def detach(self, consumer: InfeedConsumer) -> None:
        """Detaches a program that has ended."""
        with self._changed:
            if self._consumer is consumer:
                self._detach_consumer()

    def _has_values(self) -> bool:
        self._detach_consumer()
        return bool(self._values)

    def _detach_consumer(self) -> None:
        """Detaches the attached program, so that values are taken from this queue only."""
        if self._consumer is not None:
            self._consumer.detach()
            self._drop_taken()
            self._consumer = None

    def _drop_taken(self) -> None:
        """Removes the values that the attached program has taken."""
        for _ in range(0 if self._consumer is None else self._consumer.newly_taken()):
            self._values.popleft()

    def __len__(self) -> int:
        with self._changed:
            self._drop_taken()
            return len(self._values)


class OutfeedProducer(Protocol):
    """How a native program delivers the values of an outfeed."""

    def attach(self) -> None: ...
    def take(self) -> Sequence[Any]: ...
    def count(self) -> int: ...
    def sleep(self, seen: int, seconds: float) -> None: ...
    def wake(self) -> None: ...
    def detach(self) -> None: ...


class OutfeedQueue(HostQueue):
    """Values on their way out of a device. Those of an attached native program are fetched on demand."""

    def __init__(self) -> None:
        super().__init__()
        self._producer: OutfeedProducer | None = None

    def put(self, value: Any) -> None:
        with self._changed:
            self._has_values()
            self._values.append(value)
            self._changed.notify()
            if self._producer is not None:
                self._producer.wake()

    def attach(self, producer: OutfeedProducer) -> None:
        """Attaches a program, if none is attached."""
        with self._changed:
            if self._producer is None:
                self._producer = producer
                producer.attach()
                self._changed.notify_all()

    def detach(self, producer: OutfeedProducer) -> None:
        """Detaches a program that has ended."""
        with self._changed:
            if self._producer is producer:
                self._has_values()
                self._producer = None
                producer.detach()
                self._changed.notify_all()

    def _has_values(self) -> bool:
        if self._producer is not None:
            self._values.extend(self._producer.take())
        return bool(self._values)

    def _wait(self, seconds: float) -> bool:
        producer = self._producer
        if producer is None:
            return self._changed.wait(seconds)
        seen = producer.count()
        has_values = self._has_values()
        self._changed.release()
        try:
            if not has_values:
                producer.sleep(seen, min(seconds, _MAX_WAIT_SECONDS))
        finally:
            self._changed.acquire()
        return seconds > _MAX_WAIT_SECONDS
