"""Changes the mesh of a program that is written for all devices: shardings keep their axes, and axes get other sizes.

Example: over the mesh `data=2,model=4`, `{devices=[2,1,4]<=[8] last_tile_dim_replicate}` splits dimension 0 along
`data`. Over `data=4,model=2` it is `{devices=[4,1,2]<=[8] last_tile_dim_replicate}`.

Responsible for the axes of shardings and their new form. Does not depend on partitioning.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from math import prod

from xlapy import opcodes
from xlapy.base.error_codes.interfaces import simulation as codes
from xlapy.base.errors import InvalidArgumentError
from xlapy.hlo.instruction import describe_instruction
from xlapy.hlo.module import Module
from xlapy.hlo.named_sharding import NamedSharding
from xlapy.hlo.sharding import Sharding, ShardingKind, tiled_sharding
from xlapy.hlo.tiles import TileAssignment
from xlapy.opcodes.attributes.mesh import Iota, Mesh

_AXIS = re.compile(r"([A-Za-z_]\w*)=(\d{1,9})")
_MAX_AXES = 5
_PER_DEVICE_CALLS = frozenset({"SPMDFullToShardShape", "SPMDShardToFullShape"})


@dataclass(frozen=True, slots=True)
class MeshShape:
    """The names and the sizes of the axes of a mesh, the slowest first."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]

    @property
    def devices(self) -> int:
        return prod(self.sizes)

    def __str__(self) -> str:
        return ",".join(f"{name}={size}" for name, size in zip(self.names, self.sizes, strict=True))


def parse_mesh(text: str) -> MeshShape:
    """Returns the mesh of a text such as `data=2,model=4`; `InvalidArgumentError` if it is malformed."""
    matches = [_AXIS.fullmatch(entry.strip()) for entry in text.split(",")]
    found = [(match[1], int(match[2])) for match in matches if match is not None]
    names = tuple(name for name, _ in found)
    if len(found) < len(matches) or len(set(names)) < len(names) or len(names) > _MAX_AXES or not all(
        size for _, size in found
    ):  # fmt: skip
        raise InvalidArgumentError(
            codes.MESH_AXES, f"mesh {text!r} is not a list of at most {_MAX_AXES} axes such as data=2,model=4"
        )
    return MeshShape(names, tuple(size for _, size in found))


def mesh_of(module: Module) -> MeshShape | None:
    """Returns the mesh of the first sharding that names one."""
    for instruction in module.instructions():
        for sharding in _parts(instruction.sharding):
            if sharding.named is not None and sharding.named.mesh.axis_names:
                mesh = sharding.named.mesh
                return MeshShape(tuple(mesh.axis_names), tuple(mesh.axis_sizes))
    return None


def mesh_shapes(mesh: MeshShape, devices: int) -> Iterator[MeshShape]:
    """Yields the meshes of a number of devices with the same axes."""
    return (MeshShape(mesh.names, sizes) for sizes in _factorizations(devices, len(mesh.names)))


def change_mesh(module: Module, before: MeshShape, after: MeshShape) -> None:
    """Changes the shardings of a module. `InvalidArgumentError` if the module is partitioned, or a sharding is not one
    over the axes of `before`."""
    for instruction in module.instructions():
        is_call = instruction.op is opcodes.CUSTOM_CALL and instruction.custom_call_target in _PER_DEVICE_CALLS
        if instruction.op.family == "collectives" or is_call:
            raise InvalidArgumentError(
                codes.GLOBAL_PROGRAM, f"{describe_instruction(instruction)} is a part of a program for one mesh"
            )
        if instruction.sharding is not None:
            try:
                instruction.sharding = _changed(instruction.sharding, before, after)
            except _OtherAxes as error:
                raise InvalidArgumentError(
                    codes.MESH_SHARDING,
                    f"{describe_instruction(instruction)}: {instruction.sharding.to_text(metadata=False)} is not a "
                    f"sharding over the axes of the mesh {before}",
                ) from error
    module.config.num_partitions = after.devices


class _OtherAxes(Exception):
    """A sharding is not over the axes of a mesh."""


def _changed(sharding: Sharding, before: MeshShape, after: MeshShape) -> Sharding:
    if sharding.kind is ShardingKind.TUPLE:
        return replace(sharding, elements=tuple(_changed(one, before, after) for one in sharding.elements))
    if sharding.named is not None:
        return replace(sharding, named=_changed_named(sharding.named, before, after))
    if sharding.tiles is None:
        if sharding.kind is ShardingKind.REPLICATED or before == after:
            return sharding
        raise _OtherAxes
    return _changed_tiles(sharding, sharding.tiles, before, after)


def _changed_named(named: NamedSharding, before: MeshShape, after: MeshShape) -> NamedSharding:
    mesh = named.mesh
    if not mesh.axis_names:
        return named
    dimensions = [axis for dimension in named.dimensions for axis in dimension.axes]
    axes = [*dimensions, *named.replicated_axes, *named.unreduced_axes, *named.manual_axes]
    is_whole = all(axis.size is None for axis in axes) and mesh.devices == Mesh.make(before.names, before.sizes).devices
    if (tuple(mesh.axis_names), tuple(mesh.axis_sizes)) != (before.names, before.sizes) or not is_whole:
        raise _OtherAxes
    return replace(named, mesh=Mesh.make(after.names, after.sizes))


def _changed_tiles(sharding: Sharding, tiles: TileAssignment, before: MeshShape, after: MeshShape) -> Sharding:
    if any(subgroup != "replicated" for subgroup in sharding.subgroup_types):
        raise _OtherAxes
    per_dimension = _axes_of(tiles, sharding.data_rank, before)
    used = [axis for axes in per_dimension for axis in axes]
    unused = [axis for axis in range(len(before.sizes)) if axis not in used]
    sizes = [prod(after.sizes[axis] for axis in axes) for axes in per_dimension]
    copies = prod(after.sizes[axis] for axis in unused)
    devices = Iota.make(after.sizes, (*used, *unused))
    return tiled_sharding(TileAssignment.make([*sizes, copies], devices), ("replicated",))


def _axes_of(tiles: TileAssignment, rank: int, mesh: MeshShape) -> list[list[int]]:
    """Returns the axes along which tiles split each dimension. Raises `_OtherAxes` if no axes give their devices."""
    if tiles.size != mesh.devices:
        raise _OtherAxes
    copies = prod(tiles.dimensions[rank:])
    wanted = _sorted_copies(tiles.device_ids(), copies)
    for order in permutations(range(len(mesh.sizes))):
        axes = _divided(order, tiles.dimensions[:rank], mesh)
        if axes is not None and _sorted_copies(Iota.make(mesh.sizes, order).ids(), copies) == wanted:
            return axes
    raise _OtherAxes


def _divided(order: Sequence[int], sizes: Sequence[int], mesh: MeshShape) -> list[list[int]] | None:
    """Divides axes in an order between dimensions with given numbers of tiles; None if they do not fit."""
    left, found = list(order), list[list[int]]()
    for size in sizes:
        axes: list[int] = []
        while prod(mesh.sizes[axis] for axis in axes) < size and left:
            axes.append(left.pop(0))
        if prod(mesh.sizes[axis] for axis in axes) != size:
            return None
        found.append(axes)
    return found


def _sorted_copies(devices: Sequence[int], copies: int) -> list[list[int]]:
    return [sorted(devices[start : start + copies]) for start in range(0, len(devices), copies)]


def _parts(sharding: Sharding | None) -> Iterator[Sharding]:
    if sharding is not None:
        yield sharding
        for element in sharding.elements:
            yield from _parts(element)


def _factorizations(number: int, count: int) -> Iterator[tuple[int, ...]]:
    if count == 1:
        yield (number,)
        return
    for first in range(1, number + 1):
        if number % first == 0:
            yield from ((first, *rest) for rest in _factorizations(number // first, count - 1))
