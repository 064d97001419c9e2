"""The sharding of one array, in the form that the partitioner computes with: which tile each device holds.

An HLO sharding (`xlapy.hlo.sharding`) has several notations: tile assignments, mesh axes, replicated, unreduced. This
module translates them to `ArraySharding` and back, and derives replica groups from them.

Responsible for tilings and array shardings, their translation, and groups of devices. Does not depend on instructions.

Worked example: on four devices `{devices=[2,1,2]<=[4] last_tile_dim_replicate}` is the array sharding with the tilings
`((0, 0, 1, 1), None)`: devices 0 and 1 hold the first half of the rows, devices 2 and 3 the second half; the columns
are not split. With `last_tile_dims={unreduced}` its partial sums are `(0, 1, 0, 1)`: the first half of the rows is the
sum of what devices 0 and 1 hold.
"""

from __future__ import annotations

import dataclasses
import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from xlapy.base.error_codes.compilation import partitioner as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Ints, Shape
from xlapy.hlo.named_sharding import NamedForm, NamedSharding
from xlapy.hlo.sharding import Sharding, ShardingKind, tiled_sharding
from xlapy.hlo.tiles import TileAssignment
from xlapy.opcodes.attributes.mesh import AxisRef, Mesh
from xlapy.opcodes.attributes.replica_groups import GroupList

Tiling: TypeAlias = tuple[int, ...]
"""For one dimension: the index of the tile that each device holds. `tiling[device]` counts from 0."""


@dataclass(frozen=True)
class ArraySharding:
    """How an array is distributed over the devices.

    tilings: the tiling of each dimension; None for a dimension that is not split.
    partial_sums: the number of the partial sum that each device holds, if the array is unreduced: the array is the sum
    of the arrays with different numbers. Numbers count in the order of devices. None if nothing is left to be summed.
    """

    tilings: tuple[Tiling | None, ...] = ()
    partial_sums: Tiling | None = None

    @property
    def is_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return self.partial_sums is None and not any(self.tilings)

    @property
    def all_tilings(self) -> tuple[Tiling | None, ...]:
        """The tilings of the dimensions and the partial sums: all in which the contents of devices may differ."""
        return (*self.tilings, self.partial_sums)

    def with_tiling(self, dimension: int, tiling: Tiling | None) -> ArraySharding:
        """Returns the same sharding with another tiling of one dimension."""
        tilings = (*self.tilings[:dimension], tiling, *self.tilings[dimension + 1 :])
        return ArraySharding(tilings, self.partial_sums)

    def with_partial_sums(self, partial_sums: Tiling | None) -> ArraySharding:
        """Returns the same sharding with other partial sums, or with none."""
        return ArraySharding(self.tilings, partial_sums)


def replicated(shape: Shape) -> ArraySharding:
    """Returns the sharding with which every device holds the whole array."""
    return ArraySharding((None,) * shape.rank if shape.is_array else ())


def tile_count(tiling: Tiling | None) -> int:
    """Returns the number of tiles of a dimension, 1 if it is not split."""
    return 1 if tiling is None else max(tiling) + 1


def local_shape(shape: Shape, sharding: ArraySharding) -> Shape:
    """Returns the shape of the part of an array that each device holds."""
    if not any(sharding.tilings):
        return shape
    sizes = [size // tile_count(tiling) for size, tiling in zip(shape.dimensions, sharding.tilings, strict=True)]
    return shape.with_dimensions(sizes).with_layout(shape.layout)


def divides_evenly(size: int, tiling: Tiling) -> bool:
    """Returns whether the tiles of a dimension of `size` elements all have the same size."""
    return size % tile_count(tiling) == 0


def are_independent(tilings: Iterable[Tiling | None]) -> bool:
    """Returns whether each combination of tiles is on the same number of devices, as on different axes of a mesh."""
    given = [tiling for tiling in tilings if tiling is not None]
    devices_per_combination = Counter(zip(*given, strict=True))
    return not given or (
        len(devices_per_combination) == math.prod(map(tile_count, given))
        and len(set(devices_per_combination.values())) == 1
    )


def combined_tiling(tilings: Iterable[Tiling | None]) -> Tiling | None:
    """Returns a number for each device's combination of tiles, counted in the order of devices.

    None if all devices hold the same combination. Example: `(0, 0, 1, 1)` and `(0, 1, 0, 1)` give `(0, 1, 2, 3)`.
    """
    numbers: dict[Ints, int] = {}
    given = [tiling for tiling in tilings if tiling is not None]
    found = tuple([numbers.setdefault(combination, len(numbers)) for combination in zip(*given, strict=True)])
    return found if len(numbers) > 1 else None


def is_determined_by(coarse: Tiling | None, fine: Tiling | None) -> bool:
    """Returns whether devices on the same tile of `fine` are always on the same tile of `coarse`."""
    return combined_tiling([fine, coarse]) == combined_tiling([fine])


def refines(fine: Tiling | None, coarse: Tiling | None) -> bool:
    """Returns whether `fine` splits each tile of `coarse` into the same number of consecutive tiles."""
    if fine is None or coarse is None:
        return coarse is None
    count = tile_count(fine) // tile_count(coarse)
    return count > 0 and tuple([tile // count for tile in fine]) == coarse


def minor_tiling(fine: Tiling, coarse: Tiling | None) -> Tiling:
    """Returns the index of each device's tile of `fine` within its tile of `coarse`; `fine` must refine `coarse`."""
    count = tile_count(fine) // tile_count(coarse)
    return tuple([tile % count for tile in fine])


def coarsened(tiling: Tiling | None, tiles: int) -> Tiling | None:
    """Returns the tiling of `tiles` tiles that a tiling refines; `tiles` must divide its number of tiles."""
    if tiling is None or tiles == 1:
        return None
    count = tile_count(tiling) // tiles
    return tuple([tile // count for tile in tiling])


def replica_groups_along(tiling: Tiling, others: Iterable[Tiling | None]) -> GroupList:
    """Returns the replica groups of a collective that combines the tiles of one tiling.

    Each group has one device for each tile, in the order of tiles; its members hold the same tile of all `others`.
    """
    fixed = [other for other in others if other is not None]
    by_coordinates: dict[Ints, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
    for device, tile in enumerate(tiling):
        by_coordinates[tuple(other[device] for other in fixed)][tile].append(device)
    groups = [
        group
        for tiles in by_coordinates.values()
        for group in zip(*(tiles[tile] for tile in sorted(tiles)), strict=True)
    ]
    return GroupList(tuple(groups))


# -- from and to HLO shardings


def array_sharding_of(sharding: Sharding | None, shape: Shape, devices: int) -> ArraySharding:
    """Translates the HLO sharding of an array. A dimension that does not divide evenly is not split.

    Raises `UnsupportedError` for unreduced values that are to be combined by anything but a sum.
    """
    if sharding is None or not shape.is_array:
        return replicated(shape)
    tilings, partial_sums = _tilings_and_partial_sums(sharding, devices)
    if len(tilings) != shape.rank:
        return replicated(shape).with_partial_sums(partial_sums)
    pairs = zip(shape.dimensions, tilings, strict=True)
    even = [tiling if tiling and divides_evenly(size, tiling) else None for size, tiling in pairs]
    return ArraySharding(tuple([tiling if tile_count(tiling) > 1 else None for tiling in even]), partial_sums)


def _tilings_and_partial_sums(sharding: Sharding, devices: int) -> tuple[tuple[Tiling, ...], Tiling | None]:
    named, tiles = sharding.named, sharding.tiles
    if named is not None:
        return _mesh_tilings_and_partial_sums(named, devices)
    if sharding.kind is ShardingKind.UNREDUCED:
        return (), combined_tiling([tuple(range(devices))])
    if tiles is None or sorted(tiles.device_ids()) != list(range(devices)):
        return (), None
    tilings = _tilings_of_assignment(tiles, devices)
    types = sharding.subgroup_types
    unreduced = [tilings[sharding.data_rank + number] for number, one in enumerate(types) if one == "unreduced"]
    return tilings[: sharding.data_rank], combined_tiling(unreduced)


def _tilings_of_assignment(tiles: TileAssignment, devices: int) -> tuple[Tiling, ...]:
    position = {device: number for number, device in enumerate(tiles.device_ids())}
    strides = [math.prod(tiles.dimensions[d + 1 :]) for d in range(len(tiles.dimensions))]
    return tuple(
        [
            tuple([position[device] // stride % size for device in range(devices)])
            for stride, size in zip(strides, tiles.dimensions, strict=True)
        ]
    )


def _mesh_tilings_and_partial_sums(named: NamedSharding, devices: int) -> tuple[tuple[Tiling, ...], Tiling | None]:
    mesh = named.mesh
    ids = mesh.device_ids()
    if sorted(ids) != list(range(devices)):
        return (), None
    position = {device: number for number, device in enumerate(ids)}

    def tiling_along(axes: Sequence[AxisRef]) -> Tiling:
        return tuple([_tile_along(axes, mesh, position[device]) for device in range(devices)])

    axes = named.unreduced_axes
    if named.form is NamedForm.UNREDUCED and not axes:
        axes = tuple(map(AxisRef, range(len(mesh.axis_names))))
    if axes and named.reduction != "sum":
        raise UnsupportedError(
            codes.UNREDUCED_SUMS,
            f"sharding {{{named.to_text()}}}: devices hold values whose {named.reduction} is still to be computed; "
            f"only sums may be left unreduced",
        )
    tilings = tuple([tiling_along(dimension.axes) for dimension in named.dimensions])
    return tilings, combined_tiling([tiling_along(axes)])


def _tile_along(axes: Sequence[AxisRef], mesh: Mesh, position: int) -> int:
    """Returns the tile of the device at a position of the mesh, counted over the axes, major first."""
    tile = 0
    for axis in axes:
        full = mesh.axis_sizes[axis.axis]
        along = position // math.prod(mesh.axis_sizes[axis.axis + 1 :]) % full
        extent = axis.extent(mesh)
        tile = tile * extent + along // (full // (axis.pre_size * extent)) % extent
    return tile


def restricted_to_manual_axes(sharding: Sharding, region: Sharding | None) -> Sharding:
    """Returns a named sharding without the axes that are not manual in a region.

    region: the sharding of a value inside the region; its manual axes are those of the region. Without manual axes, or
    for a sharding that is not named, returns the sharding itself.
    """
    named, axes = sharding.named, () if region is None or region.named is None else region.named.manual_axes
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


def manual_axis_tilings(region: Sharding | None, mesh: Mesh | None, devices: int) -> tuple[Tiling, ...]:
    """Returns the coordinate of each device along each manual axis of a region.

    The manual axes are those that the region's sharding marks, or all axes of the mesh if it marks none.
    """
    if mesh is None or sorted(mesh.device_ids()) != list(range(devices)):
        return (tuple(range(devices)),)
    marked = region.named.manual_axes if region is not None and region.named is not None else ()
    position = {device: number for number, device in enumerate(mesh.device_ids())}
    axes = [axis.axis for axis in marked] or range(len(mesh.axis_names))
    return tuple([tuple([_tile_along([AxisRef(axis)], mesh, position[n]) for n in range(devices)]) for axis in axes])


def hlo_sharding_of(sharding: ArraySharding, devices: int) -> Sharding:
    """Translates an array sharding to a tiled HLO sharding."""
    given = [tiling for tiling in sharding.all_tilings if tiling is not None]
    counts = [tile_count(tiling) for tiling in sharding.all_tilings]
    order = sorted(range(devices), key=lambda device: [tiling[device] for tiling in given])
    sizes = [*counts, devices // math.prod(counts)]
    ids = None if order == list(range(devices)) else order
    return tiled_sharding(TileAssignment.make(sizes, ids), ("unreduced", "replicated"))
