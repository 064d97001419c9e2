"""Partitions copies of whole modules: for the number of partitions that is given, or that a module says itself.

Responsible for what `Client.compile` and the commands have in common. Does not depend on clients or devices.
"""

from __future__ import annotations

from xlapy.hlo.edit import clone_module
from xlapy.hlo.module import Module
from xlapy.spmd.entry.partition_count import check_partition_count, needs_partitioning, partition_count_of
from xlapy.spmd.entry.shardings import EntryShardings
from xlapy.spmd.partitioner import partition


def partitioned_copy(module: Module, replicas: int, partitions: int) -> tuple[Module, EntryShardings]:
    """Returns the module that each device runs, and the shardings of its entry; leaves the module itself as it is.

    `InvalidArgumentError` for shardings of another number of devices; also raises the errors of `partition`.
    """
    check_partition_count(module, partitions)
    copy = clone_module(module)
    copy.config.replica_count, copy.config.num_partitions = replicas, partitions
    return copy, partition(copy, partitions)


def module_of_each_device(module: Module) -> Module:
    """Returns the module that each device runs: a partitioned copy of a module that is written for all partitions
    together, or the module itself."""
    partitions = partition_count_of(module)
    if partitions == 1 or not needs_partitioning(module):
        return module
    return partitioned_copy(module, module.config.replica_count, partitions)[0]
