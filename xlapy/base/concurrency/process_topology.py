"""`ProcessTopology`: the processes of the devices that a program runs on.

Three numbers of a device are different. The *logical number* counts the devices of a program, replica by replica: it is
what `replica-id` and `partition-id` are computed from, and what groups of collectives name. The *row* counts the
devices of this process within a launch: the n-th row of arguments and results belongs to the n-th local device. The
global id of a device is a client's own, and no part of a program.

Example: a program of 4 partitions on two processes, where process 1 has the logical devices 1 and 3:

    ProcessTopology(process_index=1, process_of_device=(0, 1, 0, 1)).local_devices == (1, 3)

Responsible for which devices are local. Does not depend on how processes communicate.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from xlapy.base.error_codes.execution import devices as codes
from xlapy.base.errors import InvalidArgumentError


@dataclass(frozen=True)
class ProcessTopology:
    """The process of each logical device of a program, as one of the processes sees it.

    process_index: this process. process_of_device: the process of each logical device, in any order.
    """

    process_index: int
    process_of_device: tuple[int, ...]
    local_devices: tuple[int, ...] = field(init=False, compare=False, repr=False)
    """The logical numbers of the devices of this process, in ascending order: device `local_devices[n]` has row n of a
    launch."""
    processes: tuple[int, ...] = field(init=False, compare=False, repr=False)
    """The processes that run the program, in ascending order."""

    def __post_init__(self) -> None:
        devices = tuple(self.process_of_device)
        local = tuple(number for number, process in enumerate(devices) if process == self.process_index)
        object.__setattr__(self, "process_of_device", devices)
        object.__setattr__(self, "local_devices", local)
        object.__setattr__(self, "processes", tuple(sorted(set(devices))))
        if self.process_index < 0 or min(self.process_of_device, default=-1) < 0:
            raise InvalidArgumentError(
                codes.RUN_DEVICES,
                "a program runs on at least 1 device, and processes are numbered from 0, given process "
                f"{self.process_index} and devices of processes {list(self.process_of_device)}",
            )

    @classmethod
    def single_process(cls, device_count: int, process_index: int = 0) -> ProcessTopology:
        """The topology of a program that runs on devices of one process."""
        return cls(process_index, (process_index,) * device_count)

    @property
    def device_count(self) -> int:
        """The number of devices of the program in all processes."""
        return len(self.process_of_device)

    @property
    def spans_processes(self) -> bool:
        """Whether other processes run devices of the program."""
        return self.processes != (self.process_index,)

    def is_local(self, device: int) -> bool:
        """Whether a logical device belongs to this process."""
        return self.process_of_device[device] == self.process_index

    def remote_processes(self, devices: Iterable[int]) -> tuple[int, ...]:
        """The other processes to which some of these logical devices belong, in ascending order."""
        return tuple(sorted({self.process_of_device[device] for device in devices} - {self.process_index}))
