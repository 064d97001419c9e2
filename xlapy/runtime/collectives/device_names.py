"""The names of devices and processes in errors.

Responsible for how a device of a launch, and a process, is called. Does not depend on launches.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy.base.concurrency.process_topology import ProcessTopology


def device_name(number: int, replica_count: int, partition_count: int) -> str:
    """`device 3`; `device 3 (replica 1, partition 1)` if there are several replicas and several partitions."""
    if partition_count == 1 or replica_count == 1:
        return f"device {number}"
    return f"device {number} (replica {number // partition_count}, partition {number % partition_count})"


def device_names(replica_count: int, partition_count: int, topology: ProcessTopology | None = None) -> list[str]:
    """The names of all devices of a program, with their processes if there are several: `device 3 of process 1`."""
    names = [device_name(n, replica_count, partition_count) for n in range(replica_count * partition_count)]
    if topology is None:
        return names
    return [f"{name} of process {process}" for name, process in zip(names, topology.process_of_device, strict=True)]


def processes_text(processes: Sequence[int]) -> str:
    """Names processes: `process 1`, `processes 0 and 2`; of more than 8, the first 7 and the number of the others."""
    if not processes:
        return "no process"
    if len(processes) == 1:
        return f"process {processes[0]}"
    shown = [str(one) for one in processes[:8]]
    if len(processes) > 8:
        shown[7] = f"{len(processes) - 7} more"
    return f"processes {', '.join(shown[:-1])} and {shown[-1]}"
