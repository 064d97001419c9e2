"""How an array lies on the devices: which tile of each dimension each of them has.

Owns: splits and placements, what shardings mean in them, groups of devices. Must not know: instructions.

Worked example: on four devices `{devices=[2,1,2]<=[4] last_tile_dim_replicate}` is the placement with the splits
`((0, 0, 1, 1), None)`: devices 0 and 1 have the first half of the rows, devices 2 and 3 the second; columns are whole.
With `last_tile_dims={unreduced}` its addends are `(0, 1, 0, 1)`: the rows are the sum of what devices 0 and 1 have.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Ints, Shape
from xlapy.hlo.named_sharding import NamedForm, NamedSharding
from xlapy.hlo.sharding import Sharding, ShardingKind, tiled
from xlapy.hlo.tiles import TileAssignment
from xlapy.opcodes.attributes.mesh import AxisRef, Mesh
from xlapy.opcodes.attributes.replica_groups import GroupList

Split: TypeAlias = tuple[int, ...]
"""Of one dimension: the tile that each device has."""


@dataclass(frozen=True)
class Placement:
    """Of an array: the split of each dimension, None for one that every device has the whole of.

    addends: which of the arrays that are still to be added up each device has, numbered in the order of devices; None
    if there is one.
    """

    splits: tuple[Split | None, ...] = ()
    addends: Split | None = None

    @property
    def is_whole(self) -> bool:
        return self.addends is None and not any(self.splits)

    @property
    def cuts(self) -> tuple[Split | None, ...]:
        """All that tells devices apart."""
        return (*self.splits, self.addends)

    def with_split(self, dimension: int, split: Split | None) -> Placement:
        splits = (*self.splits[:dimension], split, *self.splits[dimension + 1 :])
        return Placement(splits, self.addends)

    def with_addends(self, addends: Split | None) -> Placement:
        return Placement(self.splits, addends)


def whole(shape: Shape) -> Placement:
    """Every device has all of it."""
    return Placement((None,) * shape.rank if shape.is_array else ())


def tiles_of(split: Split | None) -> int:
    return 1 if split is None else max(split) + 1


def part_of(shape: Shape, placement: Placement) -> Shape:
    """The shape of what each device has."""
    if not any(placement.splits):
        return shape
    sizes = [size // tiles_of(split) for size, split in zip(shape.dimensions, placement.splits, strict=True)]
    return shape.with_dimensions(sizes).with_layout(shape.layout)


def fits(size: int, split: Split) -> bool:
    """Whether the tiles are of one size."""
    return size % tiles_of(split) == 0


def are_independent(splits: Iterable[Split | None]) -> bool:
    """Whether each combination of tiles is on as many devices as every other."""
    cuts = [split for split in splits if split is not None]
    met = Counter(zip(*cuts, strict=True))
    return not cuts or (len(met) == math.prod(map(tiles_of, cuts)) and len(set(met.values())) == 1)


def labels(splits: Iterable[Split | None]) -> Split | None:
    """Numbers for the combinations of tiles, in the order of devices; None if there is one."""
    numbers: dict[Ints, int] = {}
    cuts = [split for split in splits if split is not None]
    found = tuple([numbers.setdefault(combination, len(numbers)) for combination in zip(*cuts, strict=True)])
    return found if len(numbers) > 1 else None


def follows(coarse: Split | None, fine: Split | None) -> bool:
    """Whether the label of the one tells that of the other."""
    return labels([fine, coarse]) == labels([fine])


def refines(fine: Split | None, coarse: Split | None) -> bool:
    """Whether tiles are cut into as many tiles each, in their order."""
    if fine is None or coarse is None:
        return coarse is None
    count = tiles_of(fine) // tiles_of(coarse)
    return count > 0 and tuple([tile // count for tile in fine]) == coarse


def minor(fine: Split, coarse: Split | None) -> Split:
    """Of a split that refines another one: the tile inside of a tile."""
    count = tiles_of(fine) // tiles_of(coarse)
    return tuple([tile % count for tile in fine])


def coarser(split: Split | None, tiles: int) -> Split | None:
    """The split in fewer tiles that it refines."""
    if split is None or tiles == 1:
        return None
    count = tiles_of(split) // tiles
    return tuple([tile // count for tile in split])


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
    """Of an array; dimensions that tiles of one size do not fit are whole.

    `UnsupportedError` for addends that are to be put together by anything but a sum.
    """
    if sharding is None or not shape.is_array:
        return whole(shape)
    splits, addends = _cuts(sharding, devices)
    if len(splits) != shape.rank:
        return whole(shape).with_addends(addends)
    cut = [split if split and fits(size, split) else None for size, split in zip(shape.dimensions, splits, strict=True)]
    return Placement(tuple([split if tiles_of(split) > 1 else None for split in cut]), addends)


def _cuts(sharding: Sharding, devices: int) -> tuple[tuple[Split, ...], Split | None]:
    """The tiles along each dimension, and the addends."""
    named, tiles = sharding.named, sharding.tiles
    if named is not None:
        return _of_mesh(named, devices)
    if sharding.kind is ShardingKind.UNREDUCED:
        return (), labels([tuple(range(devices))])
    if tiles is None or sorted(tiles.device_ids()) != list(range(devices)):
        return (), None
    places = _tiles_along(tiles, devices)
    types = sharding.subgroup_types
    addends = [places[sharding.data_rank + number] for number, one in enumerate(types) if one == "unreduced"]
    return places[: sharding.data_rank], labels(addends)


def _tiles_along(tiles: TileAssignment, devices: int) -> tuple[Split, ...]:
    place = {device: number for number, device in enumerate(tiles.device_ids())}
    strides = [math.prod(tiles.dimensions[d + 1 :]) for d in range(len(tiles.dimensions))]
    return tuple(
        [
            tuple([place[device] // stride % size for device in range(devices)])
            for stride, size in zip(strides, tiles.dimensions, strict=True)
        ]
    )


def _of_mesh(named: NamedSharding, devices: int) -> tuple[tuple[Split, ...], Split | None]:
    mesh = named.mesh
    ids = mesh.device_ids()
    if sorted(ids) != list(range(devices)):
        return (), None
    place = {device: number for number, device in enumerate(ids)}

    def split(axes: Sequence[AxisRef]) -> Split:
        return tuple([_tile(axes, mesh, place[device]) for device in range(devices)])

    axes = named.unreduced_axes
    if named.form is NamedForm.UNREDUCED and not axes:
        axes = tuple(map(AxisRef, range(len(mesh.axis_names))))
    if axes and named.reduction != "sum":
        raise UnsupportedError(
            f"sharding {{{named.to_text()}}}: devices have values whose {named.reduction} is still to be taken; only "
            f"sums may be left so"
        )
    return tuple([split(dimension.axes) for dimension in named.dimensions]), labels([split(axes)])


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
    unreduced = tuple([axis for axis in named.unreduced_axes if axis.axis in numbers])
    return dataclasses.replace(
        sharding, named=dataclasses.replace(named, dimensions=tuple(dimensions), unreduced_axes=unreduced)
    )


def axes_by_hand(region: Sharding | None, mesh: Mesh | None, devices: int) -> tuple[Split, ...]:
    """The place of each device along the axes that are by hand in a region: those that its sharding marks so, or all
    of a mesh."""
    if mesh is None or sorted(mesh.device_ids()) != list(range(devices)):
        return (tuple(range(devices)),)
    marked = region.named.manual_axes if region is not None and region.named is not None else ()
    place = {device: number for number, device in enumerate(mesh.device_ids())}
    axes = [axis.axis for axis in marked] or range(len(mesh.axis_names))
    return tuple([tuple([_tile([AxisRef(axis)], mesh, place[n]) for n in range(devices)]) for axis in axes])


def sharding_of(placement: Placement, devices: int) -> Sharding:
    """The sharding of tiles that says the same."""
    cuts = [split for split in placement.cuts if split is not None]
    counts = [tiles_of(split) for split in placement.cuts]
    order = sorted(range(devices), key=lambda device: [split[device] for split in cuts])
    sizes = [*counts, devices // math.prod(counts)]
    ids = None if order == list(range(devices)) else order
    return tiled(TileAssignment.make(sizes, ids), ("unreduced", "replicated"))
