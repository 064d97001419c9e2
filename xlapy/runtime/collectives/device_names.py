"""The names of devices in errors.

Responsible for how a device of a launch is called. Does not depend on launches.
"""

from __future__ import annotations


def device_name(number: int, replica_count: int, partition_count: int) -> str:
    """`device 3`; `device 3 (replica 1, partition 1)` if there are several replicas and several partitions."""
    if partition_count == 1 or replica_count == 1:
        return f"device {number}"
    return f"device {number} (replica {number // partition_count}, partition {number % partition_count})"
