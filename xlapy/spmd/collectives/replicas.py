"""Extends the collectives of a partitioned program to several replicas.

The partitioner writes collectives among the partitions of one replica, whose groups name partitions. Where ids are
those of devices (`use_global_device_ids`), each replica needs groups of its own: the ids of replica r are those of
replica 0 plus r times the number of partitions. XLA's counterpart is ExpandPartitionGroupListAcrossReplicas.

Responsible for these groups. Does not depend on what a collective computes.
"""

from __future__ import annotations

from xlapy.hlo.module import Module
from xlapy.opcodes.attributes.replica_groups import GroupList, GroupMode, IotaGroups, ReplicaGroups
from xlapy.opcodes.collectives import GroupedAttributes, group_mode_of


def add_groups_of_replicas(module: Module, replicas: int, partitions: int) -> None:
    """Adds the groups of the other replicas to collectives whose groups name the devices of replica 0.

    Collectives that name the devices of all replicas, as manual regions may, stay as they are.
    """
    if replicas == 1 or partitions == 1:
        return
    for instruction in module.instructions():
        attributes = instruction.attributes
        if not isinstance(attributes, GroupedAttributes) or group_mode_of(attributes) is not GroupMode.FLATTENED_ID:
            continue
        groups = attributes.replica_groups
        if sum(map(len, groups.groups)) == partitions:
            instruction.attributes = attributes.replace(replica_groups=_of_replicas(groups, replicas, partitions))


def _of_replicas(groups: ReplicaGroups, replicas: int, partitions: int) -> ReplicaGroups:
    """Example: `[1,2]<=[2]` for two replicas is `[2,2]<=[4]`."""
    if isinstance(groups, IotaGroups):
        iota = groups.iota
        permutation = (0, *[dimension + 1 for dimension in iota.transpose_perm])
        return IotaGroups.make(
            groups.group_count * replicas, groups.group_size, (replicas, *iota.reshape_dims), permutation
        )
    rows = [tuple([replica * partitions + id for id in row]) for replica in range(replicas) for row in groups.groups]
    return GroupList(tuple(rows))
