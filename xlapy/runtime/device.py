"""One device of a client, as the host sees it: `Device`, and what the host exchanges with the programs that run on it.

Owns: the queues of infeed, outfeed and host channels. Must not know: programs, other devices.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from xlapy.base import flags
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.shape import Shape
from xlapy.runtime.buffer import Buffer
from xlapy.runtime.collectives.host_queues import HostQueue, InfeedQueue, OutfeedQueue
from xlapy.runtime.engine.arguments import fits, shape_of, wrap_result


class Device:
    """A device; `id` counts from 0 within its client.

    Infeeds and outfeeds of a device take place in the order of the calls, in any thread; what is fed in may be there
    before a program asks for it or come while it waits. A channel is the `channel_id` of a send or recv with
    `is_host_transfer=true`; each has an order of its own. A `timeout` is in seconds, by default the flag
    `collective_timeout`.

    >>> device.transfer_to_infeed(np.ones(3, np.float32))
    >>> device.transfer_from_outfeed()
    """

    def __init__(self, id: int, platform: str = "interpreter") -> None:
        self.id = id
        self.platform = platform
        self.infeed = InfeedQueue()
        self.outfeed = OutfeedQueue()
        self._lock = threading.Lock()
        self._to_device: dict[int, HostQueue] = {}
        self._from_device: dict[int, HostQueue] = {}

    def transfer_to_infeed(self, value: Any) -> None:
        """Feeds in a value: an array, or a tuple of arrays, of exactly the shape that the program's infeed declares.

        Python numbers and lists take the infeed's element type. Arrays are copied.
        """
        self.infeed.put(_copied(value))

    def transfer_from_outfeed(self, shape: Shape | None = None, timeout: float | None = None) -> Any:
        """The next value that a program feeds out: a `Buffer` or tuples of them; waits for it.

        `ExecutionError` if none comes in time, `InvalidArgumentError` if it is not of `shape`.
        """
        return self._taken(self.outfeed, f"outfeed of device {self.id}", shape, timeout)

    def transfer_to_channel(self, channel: int, value: Any) -> None:
        """Sends a value, as for an infeed, to the program's recv from the host on a channel."""
        self.to_device(channel).put(_copied(value))

    def transfer_from_channel(self, channel: int, shape: Shape | None = None, timeout: float | None = None) -> Any:
        """The next value, as from an outfeed, that a program sends to the host on a channel."""
        return self._taken(self.from_device(channel), f"channel {channel} of device {self.id}", shape, timeout)

    def to_device(self, channel: int) -> HostQueue:
        """The values on their way to the device on a channel."""
        with self._lock:
            return self._to_device.setdefault(channel, HostQueue())

    def from_device(self, channel: int) -> HostQueue:
        """The values on their way to the host on a channel."""
        with self._lock:
            return self._from_device.setdefault(channel, HostQueue())

    def wake(self) -> None:
        """Makes programs that wait for the host look whether they are cancelled."""
        with self._lock:
            queues = [self.infeed, *self._to_device.values()]
        for queue in queues:
            queue.wake()

    def _taken(self, queue: HostQueue, what: str, shape: Shape | None, timeout: float | None) -> Any:
        value = queue.take(what, collective_timeout() if timeout is None else timeout)
        if shape is not None and not fits(value, shape):
            raise InvalidArgumentError(
                f"{what} gives {shape_of(value).to_text(layout=False)}, expected {shape.to_text(layout=False)}"
            )
        return wrap_result(value, ())

    def __repr__(self) -> str:
        return f"<Device {self.id} of {self.platform}>"


def collective_timeout() -> float:
    """How long devices wait for each other and for the host, in seconds."""
    return float(flags.get("collective_timeout"))


def _copied(value: Any) -> Any:
    """Arrays as they are now, whatever becomes of them."""
    if isinstance(value, tuple):
        return tuple(map(_copied, value))
    if isinstance(value, Buffer):
        return value
    return np.array(value) if hasattr(value, "__array__") else value
