"""Replica groups: the sets of devices that take part in a collective together, in each form that HLO text has.

Responsible for `GroupList`, `IotaGroups` and `MeshGroups`, their codec, the four interpretations of their ids, and the
devices that they name. Does not depend on the IR or on any particular collective. The id of a device is
replica * partitions + partition. Source: AllReduce and "Replica groups" of the specification.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from xlapy.base.arguments.checking import checked_class
from xlapy.base.error_codes.operations import attributes as codes
from xlapy.base.error_codes.operations import collectives as collectives_codes
from xlapy.base.errors import ShapeError
from xlapy.base.hlo_cursor import HloCursor
from xlapy.opcodes.attributes.codecs import INTEGER_LISTS, AttributeCodec, integers_from_text
from xlapy.opcodes.attributes.mesh import AxisRef, Iota, Mesh, check_axes, read_axes, read_iota, read_mesh

Groups: TypeAlias = tuple[tuple[int, ...], ...]


@checked_class
@dataclass(frozen=True, slots=True)
class GroupList:
    """`{{0,1},{2,3}}`: an explicit list of groups; an empty list means one group of all participants."""

    groups: Groups = ()

    @property
    def group_count(self) -> int:
        return len(self.groups)

    @property
    def group_size(self) -> int:
        """The number of ids in the first group; 0 if there are no groups."""
        return len(self.groups[0]) if self.groups else 0

    def to_text(self) -> str:
        return INTEGER_LISTS.write(self.groups)


@checked_class
@dataclass(frozen=True, slots=True)
class IotaGroups:
    """`[2,4]<=[4,2]T(1,0)`: `group_count` groups of `group_size` ids each, in the order of an `Iota`."""

    group_count: int
    group_size: int
    iota: Iota

    @staticmethod
    def make(
        group_count: int, group_size: int, reshape_dims: Sequence[int] = (), transpose_perm: Sequence[int] = ()
    ) -> IotaGroups:
        """By default the ids are ascending. Raises `ShapeError` if the number of ids does not fit the groups."""
        count = group_count * group_size
        if group_count < 1 or group_size < 1:
            raise ShapeError(
                codes.GROUPS_OF_IOTA, f"replica groups [{group_count},{group_size}] need sizes of at least 1"
            )
        iota = Iota.make(reshape_dims or (count,), transpose_perm)
        if iota.size != count:
            raise ShapeError(
                codes.GROUPS_OF_IOTA,
                f"replica groups [{group_count},{group_size}] hold {count} ids, {iota.to_text()} gives {iota.size}",
            )
        return IotaGroups(group_count, group_size, iota)

    @property
    def groups(self) -> Groups:
        return _split(self.iota.ids(), self.group_size)

    def to_text(self) -> str:
        return f"[{self.group_count},{self.group_size}]<={self.iota.to_text()}"


@checked_class
@dataclass(frozen=True, slots=True)
class MeshGroups:
    """`mesh['a'=2,'b'=4] {'b'}`: groups along the named axes, one for each coordinate of the other axes.

    Example: the groups of `mesh['a'=2,'b'=2] {'a'}` are {0,2} and {1,3}.
    """

    mesh: Mesh
    axes: tuple[AxisRef, ...]

    @staticmethod
    def make(mesh: Mesh, axes: Sequence[AxisRef]) -> MeshGroups:
        """Raises `ShapeError` if an axis is not in the mesh, overlaps another, or can be merged with the next."""
        check_axes(axes, mesh)
        return MeshGroups(mesh, tuple(axes))

    @property
    def group_size(self) -> int:
        size = 1
        for axis in self.axes:
            size *= axis.extent(self.mesh)
        return size

    @property
    def group_count(self) -> int:
        devices = self.mesh.devices
        return (devices.size if isinstance(devices, Iota) else len(devices)) // self.group_size

    @property
    def groups(self) -> Groups:
        ids = self.mesh.device_ids()
        dims, grouped = self._split_axes()
        rest = tuple(d for d in range(len(dims)) if d not in grouped)
        order = Iota(tuple(dims), (*rest, *grouped)).ids() if dims else (0,)
        return _split(tuple(ids[i] for i in order), self.group_size) if ids else ()

    def _split_axes(self) -> tuple[list[int], tuple[int, ...]]:
        """The mesh's sizes with axes split at the bounds of sub-axes, and the numbers of the grouped dimensions."""
        dims: list[int] = []
        position: dict[AxisRef, int] = {}
        for number, full in enumerate(self.mesh.axis_sizes):
            before = 1
            for axis in sorted((a for a in self.axes if a.axis == number), key=lambda a: a.pre_size):
                if axis.pre_size != before:
                    dims.append(axis.pre_size // before)
                position[axis] = len(dims)
                dims.append(axis.extent(self.mesh))
                before = axis.pre_size * axis.extent(self.mesh)
            if before != full:
                dims.append(full // before)
        return dims, tuple(position[axis] for axis in self.axes)

    def to_text(self) -> str:
        return f"{self.mesh.to_text()} {{{','.join(axis.to_text(self.mesh) for axis in self.axes)}}}"


ReplicaGroups: TypeAlias = GroupList | IotaGroups | MeshGroups
"""All forms have `groups`, `group_count`, `group_size` and `to_text`. Different forms are not equal."""

ALL_REPLICAS = GroupList()
"""An empty list of groups: all participants form one group."""


def _split(ids: tuple[int, ...], size: int) -> Groups:
    return tuple(ids[i : i + size] for i in range(0, len(ids), size))


class GroupMode(Enum):
    """What the ids in replica groups identify, which depends on `channel_id` and `use_global_device_ids`."""

    CROSS_REPLICA = "cross_replica"
    """Ids are replicas; a group exists in each partition."""
    CROSS_PARTITION = "cross_partition"
    """Ids are partitions; a group exists in each replica."""
    CROSS_REPLICA_AND_PARTITION = "cross_replica_and_partition"
    """Ids are replicas; a group contains all partitions of them."""
    FLATTENED_ID = "flattened_id"
    """Ids are devices: replica * partitions + partition."""


def group_mode(channel_id: int | None, use_global_device_ids: bool | None) -> GroupMode:
    """The mode of a collective; `use_global_device_ids` is None if the op lacks it. Raises `ShapeError`."""
    if channel_id is None:
        if use_global_device_ids:
            raise ShapeError(
                collectives_codes.CHANNEL_GIVEN, "use_global_device_ids=true needs a channel_id, none is given"
            )
        return GroupMode.CROSS_REPLICA
    if use_global_device_ids is None:
        return GroupMode.CROSS_PARTITION
    return GroupMode.FLATTENED_ID if use_global_device_ids else GroupMode.CROSS_REPLICA_AND_PARTITION


def participants(
    groups: ReplicaGroups, mode: GroupMode, replicas: int, partitions: int, device: int
) -> tuple[int, ...]:
    """The devices in the group of `device`, including itself, in group order; empty if it is in no group.

    Example: with 2 replicas of 2 partitions, device 3 is partition 1 of replica 1. Without groups its group is (1, 3)
    across replicas, (2, 3) across partitions, (0, 1, 2, 3) across both. Raises `ShapeError` for ids that do not exist
    or occur twice.
    """
    table = _device_groups(groups, mode, replicas, partitions)
    return next((row for row in table if device in row), ())


@functools.lru_cache(maxsize=256)
def _device_groups(groups: ReplicaGroups, mode: GroupMode, replicas: int, partitions: int) -> Groups:
    """All groups as devices."""
    limit, what = {
        GroupMode.CROSS_PARTITION: (partitions, "partitions"),
        GroupMode.FLATTENED_ID: (replicas * partitions, "devices"),
    }.get(mode, (replicas, "replicas"))
    rows = groups.groups or (tuple(range(limit)),)
    ids = [identifier for row in rows for identifier in row]
    for identifier in (min(ids, default=0), max(ids, default=0)):
        if not 0 <= identifier < limit:
            raise ShapeError(
                collectives_codes.PARTICIPANTS,
                f"replica_groups {groups.to_text()} name id {identifier}, but there are {limit} {what}",
            )
    if len(set(ids)) < len(ids):
        raise ShapeError(collectives_codes.GROUP_IDS, f"replica_groups {groups.to_text()} name an id twice")
    if mode is GroupMode.FLATTENED_ID:
        return rows
    if mode is GroupMode.CROSS_PARTITION:
        return tuple(tuple(r * partitions + p for p in row) for row in rows for r in range(replicas))
    if mode is GroupMode.CROSS_REPLICA:
        return tuple(tuple(r * partitions + p for r in row) for row in rows for p in range(partitions))
    return tuple(tuple(r * partitions + p for r in row for p in range(partitions)) for row in rows)


_BRACE = re.compile(r"(?=\{)")
_SIZES = re.compile(r"\[\s*(\d+(?:\s*,\s*\d+)*)\s*\]\s*<=")


class ReplicaGroupsCodec(AttributeCodec[ReplicaGroups]):
    """`replica_groups={{0,1},{2,3}}`, `[2,4]<=[8]`, `[2,4]<=[4,2]T(1,0)` or `mesh['a'=2,'b'=4] {'b'}`"""

    def read(self, cursor: HloCursor) -> ReplicaGroups:
        if cursor.match(_BRACE):
            return GroupList(INTEGER_LISTS.read(cursor))
        sizes = cursor.match(_SIZES)
        try:
            if sizes is not None:
                return _read_iota_groups(cursor, integers_from_text(sizes[1]))
            mesh = read_mesh(cursor)
            return MeshGroups.make(mesh, read_axes(cursor, mesh))
        except ShapeError as error:
            cursor.fail(error.code, error.message)

    def write(self, value: ReplicaGroups) -> str:
        return value.to_text()


def _read_iota_groups(cursor: HloCursor, sizes: tuple[int, ...]) -> IotaGroups:
    if len(sizes) != 2:
        cursor.fail(
            codes.ATTRIBUTE_FORM, f"expected the number of groups and their size before <=, found {len(sizes)} sizes"
        )
    iota = read_iota(cursor)
    if iota is None:
        cursor.fail(codes.ATTRIBUTE_FORM, "expected the dimensions of the ids, such as [8], after <=")
    return IotaGroups.make(sizes[0], sizes[1], iota.reshape_dims, iota.transpose_perm)


REPLICA_GROUPS = ReplicaGroupsCodec()
