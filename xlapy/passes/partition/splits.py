"""How an array lies on the devices: which tile of each dimension each of them has.

Owns: splits and placements, what shardings mean in them, groups of devices. Must not know: instructions.

Worked example: on four devices `{devices=[2,1,2]<=[4] last_tile_dim_replicate}` is the placement
`((0, 0, 1, 1), None)`: devices 0 and 1 have the first half of the rows, devices 2 and 3 the second; columns are whole.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Ints, Shape
from xlapy.hlo.named_sharding import NamedForm, NamedSharding
from xlapy.hlo.sharding import Sharding, ShardingKind, tiled
from xlapy.hlo.tiles import TileAssignment
from xlapy.ops.mesh import AxisRef, Mesh
from xlapy.ops.replica_groups import GroupList

Split: TypeAlias = tuple[int, ...]
"""Of one dimension: the tile that each device has."""

Placement: TypeAlias = tuple[Split | None, ...]
"""Of an array: the split of each dimension, None for one that every device has the whole of."""


def whole(shape: Shape) -> Placement:
    """Every device has all of it."""
    return (None,) * shape.rank if shape.is_array else ()


def tiles_of(split: Split | None) -> int:
    return 1 if split is None else max(split) + 1


def part_of(shape: Shape, placement: Placement) -> Shape:
    """The shape of what each device has."""
    if not any(placement):
        return shape
    sizes = [size // tiles_of(split) for size, split in zip(shape.dimensions, placement, strict=True)]
    return shape.with_dimensions(sizes)


def fits(size: int, split: Split) -> bool:
    """Whether the tiles are of one size."""
    return size % tiles_of(split) == 0


def are_independent(splits: Iterable[Split | None]) -> bool:
    """Whether each combination of tiles is on as many devices as every other."""
    cuts = [split for split in splits if split is not None]
    met = Counter(zip(*cuts, strict=True))
    return not cuts or (len(met) == math.prod(map(tiles_of, cuts)) and len(set(met.values())) == 1)


def groups_along(split: Split, others: Iterable[Split | None]) -> GroupList:
    """Groups of devices with one of each tile, in order, and the same tiles of the other splits."""
    cuts = [other for other in others if other is not None]
    by_place: dict[Ints, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for device, tile in enumerate(split):
        by_place[tuple(cut[device] for cut in cuts)][tile].append(device)
    rows = [row for tiles in by_place.values() for row in zip(*(tiles[tile] for tile in sorted(tiles)), strict=True)]
    return GroupList(tuple(rows))


# -- what shardings mean


def placement_of(sharding: Sharding | None, shape: Shape, devices: int) -> Placement:
    """Of an array; dimensions that tiles of one size do not fit are whole. `UnsupportedError` for partial sums."""
    if sharding is None or not shape.is_array:
        return whole(shape)
    if _is_partial(sharding):
        raise UnsupportedError(f"sharding {sharding} of {shape.brief}: devices would have sums still to be reduced")
    if sharding.named is not None:
        splits = _of_mesh(sharding.named, devices)
    elif sharding.kind is ShardingKind.TILED and sharding.tiles is not None:
        splits = _of_tiles(sharding.tiles, sharding.data_rank, devices)
    else:
        splits = ()
    if len(splits) != shape.rank:
        return whole(shape)
    cut = [split if split and fits(size, split) else None for size, split in zip(shape.dimensions, splits, strict=True)]
    return tuple([split if tiles_of(split) > 1 else None for split in cut])


def _is_partial(sharding: Sharding) -> bool:
    named = sharding.named
    if named is not None:
        return named.form is NamedForm.UNREDUCED or bool(named.unreduced_axes)
    return sharding.kind is ShardingKind.UNREDUCED or "unreduced" in sharding.subgroup_types


def _of_tiles(tiles: TileAssignment, rank: int, devices: int) -> Placement:
    ids = tiles.device_ids()
    if sorted(ids) != list(range(devices)):
        return ()
    place = {device: number for number, device in enumerate(ids)}
    strides = [math.prod(tiles.dimensions[d + 1 :]) for d in range(rank)]
    return tuple(
        [
            tuple([place[device] // stride % size for device in range(devices)])
            for stride, size in zip(strides, tiles.dimensions, strict=False)
        ]
    )


def _of_mesh(named: NamedSharding, devices: int) -> Placement:
    mesh = named.mesh
    ids = mesh.device_ids()
    if named.form is not NamedForm.DIMENSIONS or sorted(ids) != list(range(devices)):
        return ()
    place = {device: number for number, device in enumerate(ids)}
    return tuple([tuple([_tile(d.axes, mesh, place[n]) for n in range(devices)]) for d in named.dimensions])


def _tile(axes: Sequence[AxisRef], mesh: Mesh, place: int) -> int:
    """The tile of the device at a place of the mesh, counted over the axes, major first."""
    tile = 0
    for axis in axes:
        full = mesh.axis_sizes[axis.axis]
        along = place // math.prod(mesh.axis_sizes[axis.axis + 1 :]) % full
        extent = axis.extent(mesh)
        tile = tile * extent + along // (full // (axis.pre_size * extent)) % extent
    return tile


def along_axes(sharding: Sharding, marked: Sharding | None) -> Sharding:
    """The sharding without the axes that are not by hand in a region, which is marked so."""
    named, axes = sharding.named, () if marked is None or marked.named is None else marked.named.manual_axes
    if named is None or not axes:
        return sharding
    numbers = {axis.axis for axis in axes}
    dimensions = [
        dataclasses.replace(each, axes=tuple([axis for axis in each.axes if axis.axis in numbers]))
        for each in named.dimensions
    ]
    return dataclasses.replace(sharding, named=dataclasses.replace(named, dimensions=tuple(dimensions)))


def other_axes(marked: Sharding | None, devices: int) -> list[Split]:
    """The place of each device along the axes that are not by hand in a region."""
    if marked is None or marked.named is None:
        return []
    mesh, numbers = marked.named.mesh, {axis.axis for axis in marked.named.manual_axes}
    place = {device: number for number, device in enumerate(mesh.device_ids())}
    others = [AxisRef(number) for number in range(len(mesh.axis_names)) if number not in numbers]
    return [tuple([_tile([axis], mesh, place[n]) for n in range(devices)]) for axis in others]


def sharding_of(placement: Placement, devices: int) -> Sharding:
    """The sharding of tiles that says the same."""
    if not any(placement):
        return Sharding(ShardingKind.REPLICATED)
    counts = [tiles_of(split) for split in placement]
    order = sorted(range(devices), key=lambda device: [split[device] if split else 0 for split in placement])
    sizes = [*counts, devices // math.prod(counts)]
    ids = None if order == list(range(devices)) else order
    return tiled(TileAssignment.make(sizes, ids), ("replicated",))
