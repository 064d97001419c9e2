"""The watchdog: finds launches whose devices wait for each other in native code and can never finish.

Native code records in shared memory which device waits in which collective or transfer. The watchdog reads these
records and passes them to a `LaunchRendezvous`, which searches the wait graph for deadlocks and enforces the timeout.

Responsible for the wait state of active launches. Does not depend on how programs are launched or how devices wait.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlapy.base.errors import ExecutionError
from xlapy.cpu.program.communication.wait_state import SharedMemory, Wait, waiting_devices
from xlapy.cpu.program.native_program import NativeProgram
from xlapy.hlo.instruction import describe_instruction
from xlapy.runtime.collectives.remote_processes import RemoteLaunch, RemoteProcesses
from xlapy.runtime.collectives.rendezvous import ExternalWait, LaunchRendezvous
from xlapy.runtime.device import collective_timeout

NOT_STARTED, RUNNING, FINISHED = 0, 1, 2
"""States of one device within a launch, as native code stores them."""


@dataclass(frozen=True)
class ActiveLaunch:
    """One launch of a native program that has not finished on all of its devices.

    number: unique per launch. shared: the memory that the devices share, with their wait records. device_states:
    `NOT_STARTED`, `RUNNING` or `FINISHED` for each device; devices of other processes count as running. fail: ends the
    launch with an error. remote: the other processes, if they run some of the devices.
    """

    number: int
    device_names: Sequence[str]
    program: NativeProgram
    shared: SharedMemory
    device_states: Sequence[int]
    fail: Callable[[BaseException], None]
    remote: RemoteProcesses | None = None


class Watchdog:
    """Checks active launches for deadlocks; remembers since when each device of a launch has been waiting."""

    def __init__(self) -> None:
        self._rendezvous: dict[int, LaunchRendezvous] = {}

    def check(self, launches: Sequence[ActiveLaunch]) -> None:
        """Fails the launches that can never finish or that exceed the timeout. `launches` are all that are active."""
        try:
            for launch in launches:
                self._check(launch)
        finally:
            numbers = {launch.number for launch in launches}
            for number in set(self._rendezvous) - numbers:
                del self._rendezvous[number]

    def _check(self, launch: ActiveLaunch) -> None:
        rendezvous = self._rendezvous.get(launch.number)
        if rendezvous is None:
            remote = None if launch.remote is None else RemoteLaunch(launch.remote, 0)
            rendezvous = LaunchRendezvous(launch.device_names, collective_timeout(), remote=remote)
            self._rendezvous[launch.number] = rendezvous
        for device, state in enumerate(launch.device_states):
            if state == FINISHED:
                rendezvous.finish(device)
        waits = _waits_of(launch)
        try:
            if not waits and launch.remote is not None:  # the other processes may have failed
                rendezvous.check_external_waits(-1, functools.partial(_waits_of, launch))
            for device, wait in waits.items():
                # A device that has not started this launch still executes earlier ones: it is busy, not missing.
                is_due = all(launch.device_states[missing] != NOT_STARTED for missing in wait.missing)
                rendezvous.check_external_waits(device if is_due else -1, functools.partial(dict, waits))
        except ExecutionError as error:
            launch.fail(rendezvous.failure or error)


def _waits_of(launch: ActiveLaunch) -> dict[int, ExternalWait]:
    """What each waiting device of a launch waits for."""
    waits = waiting_devices(launch.program, launch.shared)
    return {device: external_wait(wait) for device, wait in waits.items()}


def external_wait(wait: Wait) -> ExternalWait:
    """Describes to a `LaunchRendezvous` what a device waits for in native code."""
    what = describe_instruction(wait.thunk.instruction)
    if wait.thunk.waits_for_host:
        what = f"{what} for the host"
    return ExternalWait(what, wait.missing, wait.count, any_of=wait.thunk.waits_for_any)
