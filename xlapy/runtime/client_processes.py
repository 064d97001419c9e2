"""The processes of a client: what they agree on, and which devices of a program belong to which process.

After `xlapy.distributed.initialize`, a client has the devices of all processes: `devices` of process 0, then those of
process 1, and so on. Each process compiles a program for all of its devices and launches it on its own.

Responsible for the agreement of clients and for the placement of programs. Does not depend on how processes
communicate.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from xlapy.base.concurrency.forking import fork_safe_lock
from xlapy.base.concurrency.process_topology import ProcessTopology
from xlapy.base.error_codes.execution import devices as codes
from xlapy.base.errors import InvalidArgumentError, UnsupportedError
from xlapy.runtime.collectives.device_names import processes_text
from xlapy.runtime.collectives.process_group import ProcessGroup, current_process_group
from xlapy.runtime.device import Device

_DEVICE_BITS = 32
"""Bits of a device's id. Those above hold the number of the client in what tells devices of all clients apart."""

_joining = fork_safe_lock()
_client_numbers: weakref.WeakKeyDictionary[ProcessGroup, Iterator[int]] = weakref.WeakKeyDictionary()


@runtime_checkable
class SpanningProgram(Protocol):
    """A program that can run on devices of several processes."""

    @property
    def topology(self) -> ProcessTopology | None:
        """Which devices belong to which process; None if all are devices of this one."""
        ...

    def connect(self, group: ProcessGroup, device_ids: Sequence[int]) -> None:
        """Connects the program to the other processes, before its first launch.

        device_ids: the global id of each logical device, by which programs on different devices are told apart.
        """
        ...


@runtime_checkable
class MovableProgram(SpanningProgram, Protocol):
    """A program whose code can run on other devices."""

    def placed(self, topology: ProcessTopology | None) -> Any:
        """Returns a program of the same code on other devices."""
        ...


@dataclass(frozen=True)
class ClientProcesses:
    """The processes of a client. group: None if this process is alone. number: counts the clients of the group from 1;
    0 if this process is alone."""

    group: ProcessGroup | None = None
    number: int = 0

    @property
    def process_index(self) -> int:
        return 0 if self.group is None else self.group.process_index

    @property
    def process_count(self) -> int:
        return 1 if self.group is None else self.group.process_count

    def make_devices(self, platform: str, count: int) -> tuple[Device, ...]:
        """Makes the devices of all processes, `count` of each."""
        return tuple(
            Device(process * count + local, platform, process, local, process == self.process_index, self.number)
            for process in range(self.process_count)
            for local in range(count)
        )

    def topology(self, devices: Sequence[Device]) -> ProcessTopology | None:
        """Returns the topology of a program on some devices; None if all of them belong to this process."""
        topology = ProcessTopology(self.process_index, tuple(device.process_index for device in devices))
        return topology if topology.spans_processes else None

    def connect(self, program: object, devices: Sequence[Device]) -> None:
        """Connects a program that runs on devices of several processes, this one among them, to the others."""
        if self.group is None or not isinstance(program, SpanningProgram):
            return
        if program.topology is None or not program.topology.local_devices:
            return
        program.connect(self.group, [self.number << _DEVICE_BITS | device.id for device in devices])


def join_processes(platform: str, devices: int) -> ClientProcesses:
    """Makes the processes of a new client agree on its platform and the number of devices of each process.

    All processes of the group call this in the same order. Raises `InvalidArgumentError` with the same message in all
    of them if they differ, and `ExecutionError` if a process does not make a client in time.
    """
    group = current_process_group()
    if group is None:
        return ClientProcesses()
    with _joining:  # threads that make clients at once take their numbers in the order of the exchanges
        number = next(_client_numbers.setdefault(group, itertools.count(1)))
        own = platform, devices, number
        given = group.allgather(own, what="the platform and the number of devices of a client")
    if any(other != own for other in given):
        alike = {one: [process for process, other in enumerate(given) if other == one] for one in given}
        described = "; ".join(
            f"{processes_text(processes)}: {count} on {name}" + (f" (client {place})" if place != number else "")
            for (name, count, place), processes in alike.items()
        )
        raise InvalidArgumentError(
            codes.PROCESS_CLIENTS,
            f"client {number} has a different platform or number of devices in different processes: {described}",
        )
    return ClientProcesses(group, number)


def placed_program(program: object, topology: ProcessTopology | None, name: str) -> Any:
    """Returns a program of the same code with another topology. name: of the program, for errors.

    Raises `UnsupportedError` if the platform of the program cannot move it between processes.
    """
    if isinstance(program, MovableProgram):
        return program.placed(topology)  # a program is bound and connected to its devices, so it is not shared
    if topology is None and getattr(program, "topology", None) is None:
        return program
    raise UnsupportedError(
        codes.PROCESSES, f"{name} cannot move to devices of other processes on its platform: compile it for them"
    )
