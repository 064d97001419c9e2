"""The other processes of a program, as its launches see them.

Responsible for the connection of a program to a process group, and for exchanges of the host. Does not depend on how a
transport moves bytes, or on what devices compute.
"""

from __future__ import annotations

import hashlib
import pickle
import threading
import time
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from xlapy.base.concurrency.process_topology import ProcessTopology
from xlapy.base.error_codes.execution import devices as device_codes
from xlapy.base.errors import InvalidArgumentError, XlaError, message_of
from xlapy.cpu.program.communication.wait_state import SharedMemory, exchanges_are_pending
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.cpu.program.shared_records import LAUNCH_NUMBER_OFFSET
from xlapy.runtime.collectives.process_group import ExchangeKey, ProcessGroup

_MAX_LISTED_DEVICES = 8
"""The number of devices of a process that errors list one by one."""

_POLL_SECONDS = 0.001
"""Seconds between polls for exchanges that end because their clique has failed."""


class RemoteProcesses:
    """Connects a program to the processes that run its other devices.

    device_ids: the global id of each logical device, by which all processes find the same clique: launches on the same
    devices have the same order. fingerprint: tells programs apart, the same in all processes.
    """

    def __init__(
        self, group: ProcessGroup, topology: ProcessTopology, device_ids: Sequence[int], fingerprint: int, name: str
    ) -> None:
        if len(device_ids) != topology.device_count or topology.process_index != group.process_index:
            raise InvalidArgumentError(
                device_codes.RUN_DEVICES,
                f"{name}: {len(device_ids)} global ids for {topology.device_count} devices, as process "
                f"{topology.process_index} sees them, given in process {group.process_index}",
            )
        transport = group.transport
        self.topology = topology
        self._transport = transport
        key = b"devices " + ",".join(map(str, device_ids)).encode()
        self._clique = transport.clique(topology.processes, key, _device_names(topology))
        self.transport, self.clique = transport.address, self._clique.address
        self.program = transport.program_identity(fingerprint, name)
        self.post_exchange, self.begin_launch = transport.post_exchange_address, transport.begin_launch_address
        self.start_exchange, self.drive_exchanges = transport.start_exchange_address, transport.drive_exchanges_address
        self.fail_clique = transport.fail_clique_address

    def missing_processes(self, request: int) -> tuple[int, ...]:
        """The processes that the pending request at an address waits for."""
        return tuple(self._transport.missing_processes(request))

    @property
    def failure(self) -> XlaError | None:
        """Why the processes can run no more launches on these devices, or None."""
        return self._clique.failure

    def start_launch(self) -> RemoteLaunch:
        """Begins a launch in this process; raises the clique's failure."""
        return RemoteLaunch(self, self._clique.begin_launch(self.program))

    def fail(self, error: BaseException) -> None:
        """Fails the launches in all processes, because of an error in this one."""
        if self._clique.failure is None:
            self._clique.fail(message_of(error))

    def exchange(
        self, key: ExchangeKey, messages: Mapping[int, bytes], sources: Sequence[int], what: str
    ) -> dict[int, bytes]:
        """Sends a message to each process of `messages`, and waits for one from each of `sources`."""
        return self._transport.exchange_messages(self._clique, self.program, key, messages, sources, what=what)


def _device_names(topology: ProcessTopology) -> dict[int, str]:
    """Returns the logical devices of each process, for errors: `device 3`, `devices 0, 1`, `32 devices from 64 on`."""
    numbers: dict[int, list[int]] = {process: [] for process in topology.processes}
    for device, process in enumerate(topology.process_of_device):
        numbers[process].append(device)
    names = {}
    for process, some in numbers.items():
        listed = f"device{'s' if len(some) > 1 else ''} {', '.join(map(str, some))}"
        names[process] = listed if len(some) <= _MAX_LISTED_DEVICES else f"{len(some)} devices from {some[0]} on"
    return names


def begin_remote_launch(program: NativeProgram) -> RemoteLaunch | None:
    """Begins a launch of a native program in the processes that run its devices; None if this process runs them all.

    Raises the clique's failure.
    """
    placement = program.placement
    if placement is None or not placement.exchanges:
        return None
    check_connected(program)
    connection: RemoteProcesses = placement.connection
    return connection.start_launch()


def check_connected(program: NativeProgram) -> None:
    """Raises `InvalidArgumentError` if a program on devices of several processes is not connected to the others."""
    placement = program.placement
    if placement is not None and placement.topology.local_devices and placement.connection is None:
        raise InvalidArgumentError(
            device_codes.RUN_DEVICES,
            f"{program.name} runs on devices of processes {list(placement.topology.processes)}, and is not "
            "connected to them; call its method connect before the first launch",
        )


def set_launch_number(shared: SharedMemory, remote: RemoteLaunch | None) -> None:
    """Stores the number of a launch in the memory that its devices share, before they run."""
    if remote is not None:
        shared[LAUNCH_NUMBER_OFFSET : LAUNCH_NUMBER_OFFSET + 8].view(np.int64)[0] = remote.number


def await_exchanges(program: NativeProgram, shared: SharedMemory) -> None:
    """Waits until no exchange of a launch is pending, so that other processes do not access its memory any more.

    The devices of the launch have ended. A launch that was canceled may have pending exchanges.
    """
    while exchanges_are_pending(program, shared):
        time.sleep(_POLL_SECONDS)


@dataclass(slots=True)
class RemoteLaunch:
    """A launch in several processes. number: the same in all of them."""

    processes: RemoteProcesses
    number: int
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _steps: dict[int, int] = field(default_factory=dict[int, int])

    @property
    def topology(self) -> ProcessTopology:
        return self.processes.topology

    @property
    def failure(self) -> XlaError | None:
        return self.processes.failure

    def fail(self, error: BaseException) -> None:
        """See `RemoteProcesses.fail`."""
        self.processes.fail(error)

    def contribute(
        self, name: Hashable, members: Sequence[int], signature: str, values: Mapping[int, Any], what: str
    ) -> dict[int, tuple[str, Any]]:
        """Exchanges the contributions of the local members of a collective for those of the others.

        name: identifies the collective in all processes. values: by device. Returns what the remote members give: the
        signature of their collective, and the value.
        """
        remote = self.topology.remote_processes(members)
        data = pickle.dumps((signature, dict(values)), pickle.HIGHEST_PROTOCOL)
        key = self._key(f"collective {name} {tuple(members)}")
        received = self.processes.exchange(key, dict.fromkeys(remote, data), remote, what)
        found: dict[int, tuple[str, Any]] = {}
        for message in received.values():
            given, contributions = pickle.loads(message)
            found |= {device: (given, value) for device, value in contributions.items()}
        return found

    def send(self, slot: tuple[Hashable, int], target: int, value: Any, what: str) -> None:
        """Sends a message to a device of another process, and does not wait until it is received. slot: identifies the
        message; the same in both processes."""
        key, number = self._message_key(slot)
        messages = {self.topology.process_of_device[target]: pickle.dumps(value, pickle.HIGHEST_PROTOCOL)}

        def post() -> None:
            with suppress(XlaError):  # the failure of the processes ends the launch, which reports it
                self.processes.exchange(ExchangeKey(self.number, key, number), messages, (), what)

        threading.Thread(target=post, name=what, daemon=True).start()

    def receive(self, slot: tuple[Hashable, int], source: int, what: str) -> Any:
        """Waits for a message from a device of another process."""
        key, number = self._message_key(slot)
        process = self.topology.process_of_device[source]
        received = self.processes.exchange(ExchangeKey(self.number, key, number), {}, (process,), what)
        return pickle.loads(received[process])

    def _message_key(self, slot: tuple[Hashable, int]) -> tuple[int, int]:
        return _number_of(f"message {slot[0]}"), slot[1]

    def _key(self, name: str) -> ExchangeKey:
        number = _number_of(name)
        with self._lock:
            step = self._steps[number] = self._steps.get(number, -1) + 1
        return ExchangeKey(self.number, number, step)


def _number_of(name: str) -> int:
    """The number of an exchange of the host."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:7], "little")
