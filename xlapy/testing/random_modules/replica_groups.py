"""Draws the group attributes of collectives: group mode, replica groups and channel.

Responsible for `Devices`, the state that all op generators of one module share. Does not depend on any particular
collective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.mesh import AxisRef, Iota, Mesh
from xlapy.opcodes.attributes.replica_groups import (
    ALL_REPLICAS,
    GroupList,
    GroupMode,
    IotaGroups,
    MeshGroups,
    ReplicaGroups,
)
from xlapy.testing.random_modules.generator import ModuleGenerator

MODES_WITH_GLOBAL_IDS = (GroupMode.CROSS_REPLICA, GroupMode.CROSS_REPLICA_AND_PARTITION, GroupMode.FLATTENED_ID)
"""Group modes of collectives that have the attribute use_global_device_ids."""

MODES_WITHOUT_GLOBAL_IDS = (GroupMode.CROSS_REPLICA, GroupMode.CROSS_PARTITION)
"""Group modes of other collectives."""


@dataclass(slots=True)
class Devices:
    """The devices for which a random module is drawn, and the state that its op generators share.

    portable: draw only collectives that XLA:CPU runs. asynchronous: draw -start and -done operations. exact: draw only
    operations whose results have the same bits in every implementation. max_elements: the largest number of elements
    of a result. channels: the last channel id in use. large_values: values that depend on sums and thus may be larger
    than arguments. transfers: the pairs of send and recv between replicas, in order.
    """

    replicas: int
    partitions: int
    portable: bool = True
    asynchronous: bool = False
    exact: bool = True
    max_elements: int = 4096
    channels: int = 0
    large_values: set[Instruction] = field(default_factory=set[Instruction])
    transfers: list[tuple[Instruction, Instruction]] = field(default_factory=list[tuple[Instruction, Instruction]])

    def ids(self, mode: GroupMode) -> int:
        """Returns the number of ids that the replica groups of a mode contain."""
        if mode is GroupMode.FLATTENED_ID:
            return self.replicas * self.partitions
        return self.partitions if mode is GroupMode.CROSS_PARTITION else self.replicas

    def members(self, mode: GroupMode, group_size: int) -> int:
        """Returns the number of devices that communicate in a group of `group_size` ids."""
        return group_size * (self.partitions if mode is GroupMode.CROSS_REPLICA_AND_PARTITION else 1)

    def channel(self, mode: GroupMode) -> int | None:
        """Returns an unused channel id; None for a mode that needs none."""
        if mode is GroupMode.CROSS_REPLICA:
            return None
        self.channels += 1
        return self.channels


def _random_groups(generator: ModuleGenerator, devices: Devices, mode: GroupMode) -> tuple[ReplicaGroups, int]:
    """Draws groups of equal size that contain every id, in any textual form; returns them and the devices per group."""
    count = devices.ids(mode)
    form = generator.choice(("none", "list", "list", "iota", "mesh"))
    if form == "none" and mode is not GroupMode.FLATTENED_ID:
        return ALL_REPLICAS, devices.members(mode, count)
    if form == "mesh" and count > 1:  # XLA's parser requires at least two devices in a mesh group
        groups: ReplicaGroups = _mesh_groups(generator, count)
    else:
        size = generator.choice([n for n in range(1, count + 1) if count % n == 0])
        dims = random_factors(generator, count)
        order = generator.shuffled(range(len(dims)))
        groups = IotaGroups.make(count // size, size, dims, order)
        if form != "iota":
            groups = _listed_groups(generator.shuffled(range(count)), size)
    return groups, devices.members(mode, groups.group_size)


def _listed_groups(ids: Sequence[int], size: int) -> GroupList:
    return GroupList(tuple(tuple(ids[i : i + size]) for i in range(0, len(ids), size)))


def random_factors(generator: ModuleGenerator, count: int) -> list[int]:
    """Draws factors of a number; their product is the number."""
    sizes: list[int] = []
    while count > 1:
        size = generator.choice([n for n in range(2, count + 1) if count % n == 0])
        sizes.append(size)
        count //= size
    return sizes or [1]


def _mesh_groups(generator: ModuleGenerator, count: int) -> MeshGroups:
    sizes = random_factors(generator, count)
    names = [chr(ord("a") + number) for number in range(len(sizes))]
    order = Iota.make(sizes, generator.shuffled(range(len(sizes)))) if generator.chance(0.5) else None
    axes = generator.shuffled(generator.random_subset(range(len(sizes)), 0.6)) or [0]
    references = [AxisRef(axis) for axis in axes]
    if len(axes) == 1 and sizes[axes[0]] % 4 == 0 and generator.chance(0.5):
        references = [AxisRef(axes[0], generator.choice((1, 2)), 2)]
    return MeshGroups.make(Mesh.make(names, sizes, order), references)


def random_group_attributes(
    generator: ModuleGenerator,
    devices: Devices,
    modes: Sequence[GroupMode] = MODES_WITH_GLOBAL_IDS,
    explicit: bool = False,
) -> tuple[dict[str, Any], int]:
    """Draws the group attributes of a collective; returns them and the number of devices per group.

    explicit: list the ids even if one group contains all of them, instead of leaving the groups empty.
    """
    mode = generator.choice(modes)
    groups, members = _random_groups(generator, devices, mode)
    if explicit and groups is ALL_REPLICAS:
        groups = GroupList((tuple(range(devices.ids(mode))),))
    chosen: dict[str, Any] = {"channel_id": devices.channel(mode), "replica_groups": groups}
    if modes is MODES_WITH_GLOBAL_IDS:
        chosen["use_global_device_ids"] = mode is GroupMode.FLATTENED_ID
    return chosen, members
