"""The sharding of one array, in the form that the partitioner computes with: which tile each device holds.

An HLO sharding (`xlapy.hlo.sharding`) has several notations: tile assignments, mesh axes, replicated, unreduced. This
module translates them to `ArraySharding` and back, and derives replica groups from them.

A `Tiling` is symbolic: it names the digits of the device number that a tile number is made of, as iota tile
assignments and the sub-axes of Shardy do. So the work per operation does not depend on the number of devices.

Responsible for tilings and array shardings, their translation, and groups of devices. Does not depend on instructions.

Worked example: on four devices `{devices=[2,1,2]<=[4] last_tile_dim_replicate}` is the array sharding with the tilings
`(Tiling(4, ((2, 2),)), None)`: the tile of device d along the rows is `d // 2 % 2`, so that devices 0 and 1 hold the
first half of the rows, devices 2 and 3 the second half; the columns are not split. With `last_tile_dims={unreduced}`
its partial sums are `Tiling(4, ((1, 2),))`, `d // 1 % 2`: the first half of the rows is the sum of what devices 0 and 1
hold.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from dataclasses import dataclass

from xlapy.base.error_codes.compilation import partitioner as codes
from xlapy.base.errors import UnsupportedError
from xlapy.base.shape import Ints, Shape
from xlapy.hlo.named_sharding import NamedForm, NamedSharding
from xlapy.hlo.sharding import Sharding, ShardingKind, tiled_sharding
from xlapy.hlo.tiles import TileAssignment
from xlapy.opcodes.attributes.mesh import AxisRef, Iota, Mesh
from xlapy.spmd.tiling import (
    Tiling,
    are_independent,
    coarsened,
    combined_tiling,
    cut_digits,
    devices_by_tile,
    each_device,
    is_determined_by,
    minor_tiling,
    nested_tiling,
    refines,
    replica_groups_along,
    tile_count,
    tiling_of_digits,
    tiling_of_numbers,
)

__all__ = [
    "ArraySharding",
    "Tiling",
    "are_independent",
    "array_sharding_of",
    "coarsened",
    "combined_tiling",
    "cut_digits",
    "devices_by_tile",
    "divides_evenly",
    "each_device",
    "hlo_sharding_of",
    "is_determined_by",
    "local_shape",
    "manual_axis_tilings",
    "minor_tiling",
    "nested_tiling",
    "refines",
    "replica_groups_along",
    "replicated",
    "restricted_to_manual_axes",
    "tile_count",
    "tile_size",
    "tiling_of_digits",
    "tiling_of_numbers",
    "uneven_dimensions",
]
"""The functions on tilings are used together with those on array shardings."""


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


def divides_evenly(size: int, tiling: Tiling) -> bool:
    """Returns whether the tiles of a dimension of `size` elements all have the same size."""
    return size % tile_count(tiling) == 0


def tile_size(size: int, tiling: Tiling | None) -> int:
    """Returns the size of the tiles of a dimension of `size` elements, of which the last ones may not be full."""
    return -(-size // tile_count(tiling))


def uneven_dimensions(shape: Shape, sharding: ArraySharding) -> list[int]:
    """Returns the dimensions whose last tiles are not full."""
    pairs = enumerate(zip(shape.dimensions, sharding.tilings, strict=True))
    return [dimension for dimension, (size, tiling) in pairs if tiling and not divides_evenly(size, tiling)]


def replicated(shape: Shape) -> ArraySharding:
    """Returns the sharding with which every device holds the whole array."""
    return ArraySharding((None,) * shape.rank if shape.is_array else ())


def local_shape(shape: Shape, sharding: ArraySharding) -> Shape:
    """Returns the shape of the part of an array that each device holds.

    If a dimension does not divide evenly, the last tiles are filled up with elements of any value.
    """
    if not any(sharding.tilings):
        return shape
    sizes = [tile_size(size, tiling) for size, tiling in zip(shape.dimensions, sharding.tilings, strict=True)]
    return shape.with_dimensions(sizes).with_layout(shape.layout)


# -- from and to HLO shardings


def array_sharding_of(
    sharding: Sharding | None, shape: Shape, devices: int, allow_uneven: bool = False
) -> ArraySharding:
    """Translates the HLO sharding of an array. A dimension that does not divide evenly is not split unless allowed.

    Raises `UnsupportedError` for unreduced values that are to be combined by anything but a sum.
    """
    if sharding is None or not shape.is_array:
        return replicated(shape)
    tilings, partial_sums = _tilings_and_partial_sums(sharding, devices)
    if len(tilings) != shape.rank:
        return replicated(shape).with_partial_sums(partial_sums)
    pairs = zip(shape.dimensions, tilings, strict=True)
    allowed = [tiling if tiling and _is_allowed(size, tiling, allow_uneven) else None for size, tiling in pairs]
    return ArraySharding(tuple([tiling if tile_count(tiling) > 1 else None for tiling in allowed]), partial_sums)


def _is_allowed(size: int, tiling: Tiling, allow_uneven: bool) -> bool:
    return divides_evenly(size, tiling) or (allow_uneven and size > 1)


def _tilings_and_partial_sums(sharding: Sharding, devices: int) -> tuple[tuple[Tiling | None, ...], Tiling | None]:
    named, tiles = sharding.named, sharding.tiles
    if named is not None:
        return _mesh_tilings_and_partial_sums(named, devices)
    if sharding.kind is ShardingKind.UNREDUCED:
        return (), each_device(devices)
    if tiles is None or not _names_all(tiles.devices, devices):
        return (), None
    tilings = _tilings_of_positions(tiles.dimensions, tiles.devices)
    types = sharding.subgroup_types
    unreduced = [tilings[sharding.data_rank + number] for number, one in enumerate(types) if one == "unreduced"]
    return tilings[: sharding.data_rank], combined_tiling(unreduced)


def _names_all(listed: Iota | Ints, devices: int) -> bool:
    """Returns whether a list of devices has each of them once."""
    return listed.size == devices if isinstance(listed, Iota) else sorted(listed) == list(range(devices))


@functools.lru_cache(maxsize=1024)
def _tilings_of_positions(sizes: Ints, listed: Iota | Ints) -> tuple[Tiling | None, ...]:
    """Returns the coordinate of each device along each dimension of an array of devices, listed in row-major order."""
    devices = math.prod(sizes)
    if isinstance(listed, Iota):
        strides = [math.prod(listed.reshape_dims[d + 1 :]) for d in range(len(listed.reshape_dims))]
        parts = cut_digits([(strides[d], listed.reshape_dims[d]) for d in listed.transpose_perm], sizes)
        if parts is not None:
            return tuple([tiling_of_digits(devices, digits) for digits in parts])
    position = [0] * devices
    for number, device in enumerate(listed.ids() if isinstance(listed, Iota) else listed):
        position[device] = number
    strides = [math.prod(sizes[d + 1 :]) for d in range(len(sizes))]
    pairs = zip(strides, sizes, strict=True)
    return tuple([tiling_of_numbers([place // stride % size for place in position]) for stride, size in pairs])


def _mesh_tilings_and_partial_sums(
    named: NamedSharding, devices: int
) -> tuple[tuple[Tiling | None, ...], Tiling | None]:
    mesh = named.mesh
    if not _names_all(mesh.devices, devices):
        return (), None
    axes = named.unreduced_axes
    if named.form is NamedForm.UNREDUCED and not axes:
        axes = tuple(map(AxisRef, range(len(mesh.axis_names))))
    if axes and named.reduction != "sum":
        raise UnsupportedError(
            codes.UNREDUCED_SUMS,
            f"sharding {{{named.to_text()}}}: devices hold values whose {named.reduction} is still to be computed; "
            f"only sums may be left unreduced",
        )
    tilings = tuple([_tiling_along(dimension.axes, mesh) for dimension in named.dimensions])
    return tilings, combined_tiling([_tiling_along(axes, mesh)])


@functools.lru_cache(maxsize=1024)
def _tiling_along(axes: tuple[AxisRef, ...], mesh: Mesh) -> Tiling | None:
    """Returns the coordinate of each device along axes of a mesh, counted over the axes, major first."""
    sizes: list[int] = []
    dimension_of: dict[AxisRef, int] = {}
    for number, full in enumerate(mesh.axis_sizes):
        before = 1
        for axis in sorted([axis for axis in axes if axis.axis == number], key=lambda axis: axis.pre_size):
            dimension_of[axis] = len(sizes) + 1
            sizes += [axis.pre_size // before, axis.extent(mesh)]
            before = axis.pre_size * axis.extent(mesh)
        sizes.append(full // before)
    along = _tilings_of_positions(tuple(sizes), mesh.devices)
    return nested_tiling([along[dimension_of[axis]] for axis in axes])


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
    if mesh is None or not _names_all(mesh.devices, devices):
        along: list[Tiling | None] = [each_device(devices)]
    else:
        marked = region.named.manual_axes if region is not None and region.named is not None else ()
        axes = [axis.axis for axis in marked] or range(len(mesh.axis_names))
        along = [_tiling_along((AxisRef(axis),), mesh) for axis in axes]
    return tuple([tiling or Tiling(devices) for tiling in along])


def hlo_sharding_of(sharding: ArraySharding, devices: int) -> Sharding:
    """Translates an array sharding to a tiled HLO sharding."""
    counts = [tile_count(tiling) for tiling in sharding.all_tilings]
    order = devices_by_tile(sharding.all_tilings, devices)
    tiles = TileAssignment.make([*counts, devices // math.prod(counts)], order)
    return tiled_sharding(tiles, ("unreduced", "replicated"))
