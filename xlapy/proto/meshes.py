"""Meshes, replica groups and shardings as messages.

Responsible for MeshProto, AxisRefProto, the three forms of replica groups, OpSharding and NamedShardingProto. Does not
depend on instructions.
Source: xla_data.proto.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xlapy.base.error_codes.formats import hlo_text as text_codes
from xlapy.base.error_codes.formats import protos as proto_codes
from xlapy.base.error_codes.structure import annotations as annotation_codes
from xlapy.base.errors import ProtoError
from xlapy.hlo.named_sharding import DimensionSharding, NamedForm, NamedSharding, short_form
from xlapy.hlo.sharding import Sharding, ShardingKind, tiled_sharding
from xlapy.hlo.tiles import TileAssignment
from xlapy.opcodes.attributes.mesh import AxisRef, Iota, Mesh, check_axes
from xlapy.opcodes.attributes.replica_groups import GroupList, IotaGroups, MeshGroups, ReplicaGroups
from xlapy.proto.messages import Message
from xlapy.proto.metadata import Payloads, read_metadata, write_metadata

MAX_DEPTH = 64


# -- meshes


def write_mesh(target: Message, mesh: Mesh) -> None:
    for name, size in zip(mesh.axis_names, mesh.axis_sizes, strict=True):
        target.axes.add(name=name, size=size)
    if not isinstance(mesh.devices, Iota):
        target.device_ids.extend(mesh.devices)
    elif len(mesh.devices.reshape_dims) > 1:
        target.iota_transform.reshape_dims.extend(mesh.devices.reshape_dims)
        target.iota_transform.transpose_perm.extend(mesh.devices.transpose_perm)


def read_mesh(source: Message) -> Mesh:
    names, sizes = [axis.name for axis in source.axes], [axis.size for axis in source.axes]
    if not names:
        return Mesh.maximal(source.device_ids[0]) if source.device_ids else Mesh()
    devices: Iota | Sequence[int] | None = list(source.device_ids) or None
    if source.HasField("iota_transform"):
        iota = source.iota_transform
        devices = Iota.make(list(iota.reshape_dims), list(iota.transpose_perm))
    return Mesh.make(names, sizes, devices)


def write_axes(target: Any, axes: Sequence[AxisRef]) -> None:
    """Appends axis references to a repeated field."""
    for axis in axes:
        added = target.add(mesh_axis_index=axis.axis)
        if axis.size is not None:
            added.sub_axis_info.pre_size = axis.pre_size
            added.sub_axis_info.size = axis.size


def read_axes(source: Any, mesh: Mesh) -> tuple[AxisRef, ...]:
    axes = tuple(
        AxisRef(axis.mesh_axis_index, axis.sub_axis_info.pre_size, axis.sub_axis_info.size)
        if axis.HasField("sub_axis_info")
        else AxisRef(axis.mesh_axis_index)
        for axis in source
    )
    check_axes(axes, mesh)
    return axes


# -- replica groups


def write_groups(target: Message, groups: ReplicaGroups) -> None:
    """Writes replica groups to an HloInstructionProto."""
    if isinstance(groups, MeshGroups):
        write_mesh(target.mesh_axes_replica_group_list.mesh, groups.mesh)
        write_axes(target.mesh_axes_replica_group_list.axes, groups.axes)
    elif isinstance(groups, IotaGroups):
        chosen = target.iota_collective_device_list
        chosen.num_replica_groups, chosen.num_devices_per_group = groups.group_count, groups.group_size
        chosen.iota_reshape_dims.extend(groups.iota.reshape_dims)
        chosen.iota_transpose_perm.extend(groups.iota.transpose_perm)
    else:
        target.collective_device_list.SetInParent()
        for group in groups.groups:
            target.collective_device_list.replica_groups.add(replica_ids=group)


def read_groups(source: Message) -> ReplicaGroups:
    """Reads replica groups in any of their forms, including the field of older XLA versions."""
    if source.HasField("mesh_axes_replica_group_list"):
        mesh = read_mesh(source.mesh_axes_replica_group_list.mesh)
        return MeshGroups.make(mesh, read_axes(source.mesh_axes_replica_group_list.axes, mesh))
    if source.HasField("iota_collective_device_list"):
        given = source.iota_collective_device_list
        return IotaGroups.make(
            given.num_replica_groups,
            given.num_devices_per_group,
            list(given.iota_reshape_dims),
            list(given.iota_transpose_perm),
        )
    listed = source.collective_device_list.replica_groups or source.replica_groups
    return GroupList(tuple(tuple(group.replica_ids) for group in listed))


# -- shardings

_WHOLE = {
    ShardingKind.REPLICATED: 0,
    ShardingKind.MANUAL: 4,
    ShardingKind.UNKNOWN: 5,
    ShardingKind.UNREDUCED: 6,
}
_MAXIMAL, _TUPLE, _OTHER = 1, 2, 3
_KINDS = {number: kind for kind, number in _WHOLE.items()}
_SUBGROUPS = {"replicated": 0, "maximal": 1, "manual": 4, "unreduced": 6}
_SUBGROUP_TYPES = {number: word for word, number in _SUBGROUPS.items()}
_GROUP_WORDS = ("shard_as", "shard_like")


def write_sharding(target: Message, sharding: Sharding) -> None:
    """Writes a sharding to an OpSharding."""
    target.SetInParent()
    if sharding.named is not None:
        target.type = _OTHER
        _write_named(target.named_sharding, sharding.named)
    elif sharding.tiles is not None:
        _write_tiles(target, sharding, sharding.tiles)
    elif sharding.kind is ShardingKind.MAXIMAL:
        target.type = _MAXIMAL
        target.tile_assignment_devices.append(sharding.device)
    elif sharding.kind is ShardingKind.TUPLE:
        target.type = _TUPLE
    else:
        target.type = _WHOLE[sharding.kind]
    for element in sharding.elements:
        write_sharding(target.tuple_shardings.add(), element)
    for metadata in sharding.metadata:
        write_metadata(target.metadata.add(), metadata)
    if sharding.shard_group is not None:
        target.is_shard_group = True
        target.shard_group_type = _GROUP_WORDS.index(sharding.shard_group[0])
        target.shard_group_id = sharding.shard_group[1]


def _write_tiles(target: Message, sharding: Sharding, tiles: TileAssignment) -> None:
    target.type = _OTHER
    target.tile_assignment_dimensions.extend(tiles.dimensions)
    if isinstance(tiles.devices, Iota):
        target.iota_reshape_dims.extend(tiles.devices.reshape_dims)
        target.iota_transpose_perm.extend(tiles.devices.transpose_perm)
    else:
        target.tile_assignment_devices.extend(tiles.devices)
    target.replicate_on_last_tile_dim = sharding.replicate_on_last_tile_dim
    target.last_tile_dims.extend([_SUBGROUPS[word] for word in sharding.subgroup_types])


def _write_named(target: Message, named: NamedSharding) -> None:
    write_mesh(target.mesh, named.mesh)
    for dimension in named.dimensions:
        added = target.dim_shardings.add(is_closed=dimension.is_closed)
        write_axes(added.axes, dimension.axes)
    every = tuple(AxisRef(number) for number in range(len(named.mesh.axis_names)))
    unreduced, manual = named.unreduced_axes, named.manual_axes
    if named.form is NamedForm.UNREDUCED:
        unreduced = unreduced or every
    write_axes(target.replicated_axes, named.replicated_axes)
    write_axes(target.unreduced_axes, unreduced)
    write_axes(target.manual_axes, every if named.form is NamedForm.MANUAL else manual)
    for metadata in named.metadata:
        write_metadata(target.metadata.add(), metadata)


def read_sharding(source: Message, payloads: Payloads = (), depth: int = 0) -> Sharding:
    """Reads an OpSharding."""
    if depth > MAX_DEPTH:
        raise ProtoError(text_codes.NESTING, f"shardings nest deeper than {MAX_DEPTH} levels")
    metadata = tuple(read_metadata(each, payloads) for each in source.metadata)
    group = (_GROUP_WORDS[source.shard_group_type & 1], source.shard_group_id) if source.is_shard_group else None
    if source.HasField("named_sharding"):
        return Sharding(ShardingKind.NAMED, named=_read_named(source.named_sharding, payloads))
    if source.type == _TUPLE:
        elements = tuple(read_sharding(each, payloads, depth + 1) for each in source.tuple_shardings)
        return Sharding(ShardingKind.TUPLE, elements=elements)
    base = _read_array(source)
    return Sharding(
        base.kind,
        base.device,
        base.tiles,
        base.subgroup_types,
        base.replicate_on_last_tile_dim,
        shard_group=group,
        metadata=metadata,
    )


def _read_array(source: Message) -> Sharding:
    if source.type in _KINDS:
        return Sharding(_KINDS[source.type])
    if source.type == _MAXIMAL:
        devices = list(source.tile_assignment_devices)
        if len(devices) != 1:
            raise ProtoError(proto_codes.PROTO_COUNT, f"a maximal sharding names one device, here {len(devices)}")
        return Sharding(ShardingKind.MAXIMAL, device=devices[0])
    if source.type != _OTHER:
        raise ProtoError(proto_codes.PROTO_VALUE, f"there is no sharding of type {source.type}")
    devices_or_iota: Iota | list[int] = list(source.tile_assignment_devices)
    if source.iota_reshape_dims:
        devices_or_iota = Iota.make(list(source.iota_reshape_dims), list(source.iota_transpose_perm))
    tiles = TileAssignment.make(list(source.tile_assignment_dimensions), devices_or_iota)
    unknown = [number for number in source.last_tile_dims if number not in _SUBGROUP_TYPES]
    if unknown:
        raise ProtoError(proto_codes.PROTO_VALUE, f"there is no subgroup of type {unknown[0]}")
    types = tuple(_SUBGROUP_TYPES[number] for number in source.last_tile_dims)
    types = ("replicated",) if source.replicate_on_last_tile_dim else types
    if len(types) > len(tiles.dimensions):
        raise ProtoError(
            annotation_codes.SHARDING_PARTS, f"{len(types)} subgroup types for {len(tiles.dimensions)} tile dimensions"
        )
    return tiled_sharding(tiles, types)


def _read_named(source: Message, payloads: Payloads) -> NamedSharding:
    mesh = read_mesh(source.mesh)
    metadata = tuple(read_metadata(each, payloads) for each in source.metadata)
    if not mesh.axis_names and mesh.devices:
        return NamedSharding(mesh, NamedForm.DEVICE, metadata=metadata)
    dimensions = tuple(DimensionSharding(read_axes(each.axes, mesh), each.is_closed) for each in source.dim_shardings)
    replicated, unreduced, manual = (
        read_axes(axes, mesh) for axes in (source.replicated_axes, source.unreduced_axes, source.manual_axes)
    )
    form = NamedForm.DIMENSIONS if dimensions else short_form(mesh, replicated, unreduced, manual)
    if form is not NamedForm.DIMENSIONS:
        return NamedSharding(mesh, form, metadata=metadata)
    return NamedSharding(mesh, form, dimensions, replicated, unreduced, manual, metadata=metadata)
