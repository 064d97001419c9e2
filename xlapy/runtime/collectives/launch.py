"""Launches a program on several devices at once, in one thread per device, and collects their errors.

Responsible for the threads of a launch. Does not depend on how a program is executed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

from xlapy.base.error_codes.execution import devices as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.hlo.module import Module
from xlapy.runtime.collectives.communicator import DeviceCommunicator
from xlapy.runtime.collectives.device_names import device_names
from xlapy.runtime.collectives.remote_processes import RemoteLaunch
from xlapy.runtime.collectives.rendezvous import LaunchRendezvous
from xlapy.runtime.device import Device, collective_timeout
from xlapy.runtime.values import Value

DeviceBody = Callable[[DeviceCommunicator], Value]
"""What one device executes. The communicator carries the device's number and connects it to the other devices."""


def run_on_devices(
    devices: Sequence[Device],
    replica_count: int,
    partition_count: int,
    body: DeviceBody,
    cancel: Callable[[], None] = lambda: None,
    end: Callable[[], Sequence[tuple[int, str]]] = tuple,
    remote: RemoteLaunch | None = None,
) -> list[Value]:
    """Returns the value of `body` for each device. Device i runs as replica i // partition_count.

    remote: the other processes, if they run some of the devices; `devices` are then those of this process.

    `cancel` is called when the run has failed, to stop running native code. `end` is called when all devices have
    finished; it returns what native code has sent without a matching receive: the sender's number and the instruction.

    The first error of any device cancels the others and is raised, with the device's name if there are several. A
    single device runs in the calling thread.
    """
    timeout = collective_timeout()
    topology = None if remote is None else remote.topology
    numbers = range(len(devices)) if topology is None else topology.local_devices
    names = device_names(replica_count, partition_count, topology)

    def wake() -> None:
        cancel()
        for device in devices:
            device.wake()

    rendezvous = LaunchRendezvous(names, timeout, wake, remote=remote)
    communicators = [
        DeviceCommunicator(rendezvous, device, number, replica_count, partition_count, timeout, row)
        for row, (number, device) in enumerate(zip(numbers, devices, strict=True))
    ]
    results: list[Value] = [None] * len(devices)

    def run(communicator: DeviceCommunicator) -> None:
        try:
            results[communicator.row] = body(communicator)
        except BaseException as error:  # any error must release the devices that wait for this one
            rendezvous.fail(communicator.number, error)
        finally:
            rendezvous.finish(communicator.number)

    if len(communicators) == 1:
        run(communicators[0])
    else:
        _run_threads(rendezvous, communicators, run)
    unreceived = rendezvous.unreceived_error(end())
    failure = rendezvous.failure or unreceived
    if failure is not None:
        raise failure
    return results


def _run_threads(
    rendezvous: LaunchRendezvous, communicators: Sequence[DeviceCommunicator], run: Callable[[DeviceCommunicator], None]
) -> None:
    threads = [threading.Thread(target=run, args=(e,), name=f"device {e.number}", daemon=True) for e in communicators]
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    except BaseException as error:  # Ctrl-C: stop the run and wait until its threads have finished
        rendezvous.fail(None, error)
        for thread in threads:
            if thread.ident is not None:
                thread.join()


def replica_and_partition_counts(
    module: Module, num_replicas: int | None, num_partitions: int | None, available: int, processes: int = 1
) -> tuple[int, int]:
    """Numbers of replicas and partitions to run, by default the module's own; `InvalidArgumentError` for too few
    devices. available: the number of devices of all processes."""
    replicas = module.config.replica_count if num_replicas is None else int(num_replicas)
    partitions = module.config.num_partitions if num_partitions is None else int(num_partitions)
    return check_device_counts(module.name, replicas, partitions, available, processes)


def check_device_counts(
    program: str, replicas: int, partitions: int, available: int, processes: int = 1
) -> tuple[int, int]:
    """Returns the numbers themselves; `InvalidArgumentError` if one is below 1 or if there are too few devices."""
    if replicas < 1 or partitions < 1:
        raise InvalidArgumentError(
            codes.RUN_DEVICES, f"{program}: needs at least 1 replica and 1 partition, given {replicas} and {partitions}"
        )
    needed = replicas * partitions
    if needed > available:
        of_processes = "" if processes == 1 else f" in {processes} processes"
        in_each = "" if processes == 1 else " in each process"
        raise InvalidArgumentError(
            codes.RUN_DEVICES,
            f"{program} runs on {needed} devices (replica_count={replicas}, num_partitions={partitions}), the client "
            f"has {available}{of_processes}; make it with Client(..., devices={-(-needed // processes)}){in_each}",
        )
    return replicas, partitions
