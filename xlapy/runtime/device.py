"""`Device`: one device of a client, as the host sees it.

Responsible for the infeed, outfeed and host-channel queues of a device. Does not depend on programs or other devices.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from xlapy.base import flags
from xlapy.base.arguments.checking import eager_class
from xlapy.base.arguments.copying import copied_by_reference
from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.error_codes.execution import calls as codes
from xlapy.base.error_codes.execution import devices as device_codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.base.shape import Shape
from xlapy.runtime.buffer import Buffer
from xlapy.runtime.collectives.host_queues import HostQueue, InfeedQueue, OutfeedQueue
from xlapy.runtime.engine.arguments import matches_shape, shape_of, wrap_result


@copied_by_reference("it belongs to a Client of this process")
@eager_class
class Device:
    """A device; `id` counts from 0 within its client, over all processes.

    `process_index` is the process that the device belongs to, and `local_hardware_id` its number among the devices of
    that process. `is_addressable` is whether that is this process: others feed and launch their own devices only.

    Infeeds and outfeeds of a device happen in the order of the calls, from any thread. A value may be fed in before a
    program asks for it or while the program waits. A channel is the `channel_id` of a send or recv with
    `is_host_transfer=true`; each channel is a queue of its own. A `timeout` is in seconds, by default the flag
    `collective_timeout`.

    >>> infeed = "t = token[] after-all()  i = (s32[], token[]) infeed(t)"
    >>> program = xla.Client().compile(f"ENTRY e {{ {infeed}  ROOT x = s32[] get-tuple-element(i), index=0 }}")
    >>> program.devices[0].transfer_to_infeed(7)
    >>> program()
    Buffer(s32[], 7)
    """

    def __init__(
        self,
        id: int,
        platform: str = "interpreter",
        process_index: int = 0,
        local_hardware_id: int | None = None,
        is_addressable: bool = True,
        client_number: int = 0,
    ) -> None:
        self.id = id
        self.platform = platform
        self.process_index = process_index
        self.local_hardware_id = id if local_hardware_id is None else local_hardware_id
        self.is_addressable = is_addressable
        self.client_number = client_number
        """Whose streams run launches on the device: those of a client of several processes, which count from 1, or 0
        for those that all clients of this process alone share."""
        self.infeed = InfeedQueue()
        self.outfeed = OutfeedQueue()
        self._lock = fork_safe_lock()
        self._to_device: dict[int, HostQueue] = {}
        self._from_device: dict[int, HostQueue] = {}

    def transfer_to_infeed(self, value: Any) -> None:
        """Feeds in a value: an array, or a tuple of arrays, of exactly the shape that the program's infeed declares.

        Python numbers and lists are converted to the infeed's element type. Arrays are copied.
        """
        self._require_addressable("transfer_to_infeed")
        self.infeed.put(_copy(value))

    def transfer_from_outfeed(self, shape: Shape | None = None, timeout: float | None = None) -> Any:
        """Waits for the next value that a program feeds out; returns a `Buffer` or tuples of buffers.

        `ExecutionError` if none arrives in time, `InvalidArgumentError` if it is not of `shape`.
        """
        self._require_addressable("transfer_from_outfeed")
        return self._take(self.outfeed, f"outfeed of device {self.id}", shape, timeout)

    def transfer_to_channel(self, channel: int, value: Any) -> None:
        """Sends a value, as for an infeed, to the program's recv from the host on a channel."""
        self._require_addressable("transfer_to_channel")
        self.to_device(channel).put(_copy(value))

    def transfer_from_channel(self, channel: int, shape: Shape | None = None, timeout: float | None = None) -> Any:
        """Waits for the next value, as of an outfeed, that a program sends to the host on a channel."""
        self._require_addressable("transfer_from_channel")
        return self._take(self.from_device(channel), f"channel {channel} of device {self.id}", shape, timeout)

    def to_device(self, channel: int) -> HostQueue:
        """The queue of values from the host to the device on a channel."""
        with self._lock:
            return self._to_device.setdefault(channel, HostQueue())

    def from_device(self, channel: int) -> HostQueue:
        """The queue of values from the device to the host on a channel."""
        with self._lock:
            return self._from_device.setdefault(channel, HostQueue())

    def wake(self) -> None:
        """Makes programs that wait for the host poll for cancellation."""
        with self._lock:
            queues = [self.infeed, *self._to_device.values()]
        for queue in queues:
            queue.wake()

    def _require_addressable(self, call: str) -> None:
        if not self.is_addressable:
            raise InvalidArgumentError(
                device_codes.ADDRESSABLE_DEVICE,
                f"Device.{call}: device {self.id} belongs to process {self.process_index}; only that process can "
                "exchange values with it",
            )

    def _take(self, queue: HostQueue, what: str, shape: Shape | None, timeout: float | None) -> Any:
        seconds = collective_timeout() if timeout is None else timeout
        if not seconds >= 0:
            raise InvalidArgumentError(
                codes.TIMEOUT_RANGE, f"{what}: the timeout must be at least 0 seconds, given {timeout}"
            )
        value = queue.take(what, min(seconds, threading.TIMEOUT_MAX))
        if shape is not None and not matches_shape(value, shape):
            raise InvalidArgumentError(
                codes.OUTFEED_SHAPE,
                f"{what} gives {shape_of(value).to_text(layout=False)}, expected {shape.to_text(layout=False)}",
            )
        return wrap_result(value, ())

    def __repr__(self) -> str:
        owner = "" if self.is_addressable else f", in process {self.process_index}"
        return f"<Device {self.id} of {self.platform}{owner}>"


def collective_timeout() -> float:
    """Seconds that devices wait for each other and for the host."""
    return float(flags.get("collective_timeout"))


def _copy(value: Any) -> Any:
    """Copies arrays, so that later changes to them have no effect."""
    if isinstance(value, tuple):
        return tuple(map(_copy, value))
    if isinstance(value, Buffer):
        return value
    return np.array(value) if hasattr(value, "__array__") else value
