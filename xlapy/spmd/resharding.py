"""Reshards arrays: writes the collectives and slices of a resharding plan.

Responsible for the instructions of each step of a plan, and for values that differ from device to device. Does not
depend on why an array is resharded, or on how the steps are chosen (`resharding_plan.py`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PRED, S32, PrimitiveType
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import PaddingConfig, PaddingDimension
from xlapy.opcodes.attributes.replica_groups import ReplicaGroups
from xlapy.opcodes.collectives import (
    AllGatherAttributes,
    AllReduceAttributes,
    AllToAllAttributes,
    CollectiveBroadcastAttributes,
    CollectivePermuteAttributes,
    ReduceScatterAttributes,
)
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.movement import DynamicSliceAttributes, PadAttributes
from xlapy.passes.expand.blocks import compare, index_type, reducer_computation, slice_dimension
from xlapy.passes.rewrite import Writer
from xlapy.spmd.array_sharding import ArraySharding, tile_size, uneven_dimensions
from xlapy.spmd.resharding_plan import (
    AllGather,
    AllReduce,
    AllToAll,
    CollectivePermute,
    LocalSlice,
    PadWithZeros,
    ReduceScatter,
    Step,
    ZeroOnOtherDevices,
    resharding_stages,
)
from xlapy.spmd.tiling import Tiling, tile_count, tile_numbers
from xlapy.spmd.time_model import cheapest_plan

FILLING_VALUE = 0.0
"""The value of the elements that fill up the last tiles of a dimension. No result depends on it."""


@dataclass(frozen=True)
class PartitionedArray:
    """An array of the original program, as the partitioned program holds it. XLA's counterpart is PartitionedHlo.

    instruction: computes the local array of the device that executes it. sharding: how the array is distributed.
    manual_axes: the coordinates of each device along the manual axes of the region that the array is in. Devices with
    different coordinates hold different arrays. shape: the shape of the whole array; None if all of its dimensions that
    are split divide evenly.
    """

    instruction: Instruction
    sharding: ArraySharding
    manual_axes: tuple[Tiling, ...] = ()
    shape: Shape | None = None

    @property
    def whole_shape(self) -> Shape:
        """The shape of the whole array."""
        if self.shape is not None:
            return self.shape
        local = self.instruction.shape
        pairs = zip(local.dimensions, self.sharding.tilings, strict=True)
        return local.with_dimensions([size * tile_count(tiling) for size, tiling in pairs])


class Resharder:
    """Writes the resharding instructions of one computation, each resharded array once.

    channels: yields channel numbers that no collective of the module has yet. tile_values: the values that depend on
    the device's tile and are written already, by tiling, type and the values of all tiles.
    """

    def __init__(self, write: Writer, devices: int, channels: Iterator[int]) -> None:
        self.write = write
        self.devices = devices
        self.channels = channels
        self.tile_values: dict[tuple[Tiling, str, bytes], Instruction] = {}
        self._offsets: dict[tuple[Tiling | None, int, PrimitiveType], Instruction] = {}
        self._resharded: dict[tuple[PartitionedArray, ArraySharding], PartitionedArray] = {}

    def reshard(self, value: PartitionedArray, target: ArraySharding) -> PartitionedArray:
        """Returns the array with another sharding. Tokens, which have none, are returned as they are."""
        if not value.instruction.shape.is_array or value.sharding == target:
            return value
        key = (value, target)
        if key not in self._resharded:
            instruction, current = value.instruction, value.sharding
            shape = value.whole_shape
            for stage in resharding_stages(shape, current, target):
                instruction = self._filled_up(instruction, shape, current, stage)
                for step in cheapest_plan(shape, current, stage, value.manual_axes)[0]:
                    instruction = _STEP_WRITERS[type(step)](self, instruction, step)
                instruction = self._without_filling(instruction, shape, current, stage)
                current = stage
            self._resharded[key] = PartitionedArray(instruction, target, value.manual_axes, shape)
        return self._resharded[key]

    # -- uneven sizes

    def _filled_up(
        self, array: Instruction, shape: Shape, current: ArraySharding, target: ArraySharding
    ) -> Instruction:
        """Extends whole dimensions that are to be split unevenly, so that the tiles are equal."""
        for dimension in uneven_dimensions(shape, target):
            tiling, size = target.tilings[dimension], array.shape.dimensions[dimension]
            if current.tilings[dimension] is None:
                missing = tile_size(size, tiling) * tile_count(tiling) - size
                config = [PaddingDimension(0, missing if d == dimension else 0) for d in range(array.shape.rank)]
                attributes = PadAttributes.make(padding=PaddingConfig(tuple(config)))
                value = self.write.scalar(FILLING_VALUE, array.shape.element_type)
                array = self.write.add(opcodes.PAD, array, value, attributes=attributes)
        return array

    def _without_filling(
        self, array: Instruction, shape: Shape, current: ArraySharding, target: ArraySharding
    ) -> Instruction:
        """Cuts dimensions that were split unevenly and are whole now to their size."""
        for dimension in uneven_dimensions(shape, current):
            if target.tilings[dimension] is None:
                array = slice_dimension(self.write, array, dimension, 0, shape.dimensions[dimension])
        return array

    # -- the steps of a plan

    def _all_reduce(self, value: Instruction, step: AllReduce) -> Instruction:
        return self.all_reduce(
            value, reducer_computation(self.write, opcodes.ADD, value.shape.element_type), step.groups
        )

    def _reduce_scatter(self, value: Instruction, step: ReduceScatter) -> Instruction:
        attributes = ReduceScatterAttributes.make(
            channel_id=next(self.channels), replica_groups=step.groups, scatter_dimension=step.dimension,
            use_global_device_ids=True,
        )  # fmt: skip
        shape = _resized(value.shape, step.dimension, lambda size: size // step.group_size)
        add = reducer_computation(self.write, opcodes.ADD, shape.element_type)
        return self.write.add(opcodes.REDUCE_SCATTER, value, attributes=attributes, computations=[add], shape=shape)

    def _all_gather(self, value: Instruction, step: AllGather) -> Instruction:
        attributes = AllGatherAttributes.make(
            channel_id=next(self.channels), replica_groups=step.groups, all_gather_dimension=step.dimension,
            use_global_device_ids=True,
        )  # fmt: skip
        shape = _resized(value.shape, step.dimension, lambda size: size * step.group_size)
        return self.write.add(opcodes.ALL_GATHER, value, attributes=attributes, shape=shape)

    def _all_to_all(self, value: Instruction, step: AllToAll) -> Instruction:
        """Writes an all-to-all between two reshapes.

        The split dimension becomes two, (tiles, tile size). After the all-to-all, the dimension of tiles tells which
        device a tile came from; it is transposed in front of the concatenated dimension and merged with it.
        Example: on two devices f32[4,3] (split 0, concatenate 1) -> f32[2,2,3] -> all-to-all -> f32[2,2,3] ->
        transpose f32[2,2,3] with the sender second -> f32[2,6].
        """
        count, split = step.group_size, step.split_dimension
        sizes = value.shape.dimensions
        tiled = value.shape.with_dimensions([*sizes[:split], count, sizes[split] // count, *sizes[split + 1 :]])
        attributes = AllToAllAttributes.make(
            channel_id=next(self.channels), replica_groups=step.groups, split_dimension=split
        )
        sent = self.write.add(opcodes.ALL_TO_ALL, self.write.reshape(value, tiled), attributes=attributes, shape=tiled)
        rest = [dimension for dimension in range(tiled.rank) if dimension != split]
        concat = step.concat_dimension + (step.concat_dimension > split)
        order = [dimension for kept in rest for dimension in ((split, kept) if kept == concat else (kept,))]
        result = _resized(value.shape, step.concat_dimension, lambda size: size * count)
        result = _resized(result, split, lambda size: size // count)
        return self.write.reshape(self.write.transpose(sent, order), result)

    def _collective_permute(self, value: Instruction, step: CollectivePermute) -> Instruction:
        attributes = CollectivePermuteAttributes.make(channel_id=next(self.channels), source_target_pairs=step.pairs)
        return self.write.add(opcodes.COLLECTIVE_PERMUTE, value, attributes=attributes)

    def _local_slice(self, value: Instruction, step: LocalSlice) -> Instruction:
        sizes = [n // tile_count(tiling) for n, tiling in zip(value.shape.dimensions, step.tiles, strict=True)]
        result = value.shape.with_dimensions(sizes)
        attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=result.dimensions)
        starts = self._tile_offsets(step.tiles, sizes)
        return self.write.add(opcodes.DYNAMIC_SLICE, value, *starts, attributes=attributes, shape=result)

    def _pad_with_zeros(self, value: Instruction, step: PadWithZeros) -> Instruction:
        sizes = value.shape.dimensions
        padded = [n * tile_count(tiling) for n, tiling in zip(sizes, step.tiles, strict=True)]
        zeros = self.write.splat(0, value.shape.with_dimensions(padded))
        return self.write.add(opcodes.DYNAMIC_UPDATE_SLICE, zeros, value, *self._tile_offsets(step.tiles, sizes))

    def _zero_on_other_devices(self, value: Instruction, step: ZeroOnOtherDevices) -> Instruction:
        mask = self.write.broadcast(self.is_on_first_tile(step.tiling), value.shape.with_element_type(PRED))
        return self.write.add(opcodes.SELECT, mask, value, self.write.splat(0, value.shape))

    def _tile_offsets(self, tiles: Sequence[Tiling | None], sizes: Sequence[int]) -> list[Instruction]:
        """Returns the offset of this device's tile in each dimension; 0 in a dimension that is not split."""
        of_largest = index_type(*[tile_count(tiling) * size for tiling, size in zip(tiles, sizes, strict=True)])
        return [self.tile_offset(tiling, size, of_largest) for tiling, size in zip(tiles, sizes, strict=True)]

    # -- values that differ from device to device

    def tile_index(self, tiling: Tiling | None) -> Instruction:
        """Returns the index of this device's tile, an s32."""
        return self.tile_offset(tiling, 1, S32)

    def tile_offset(self, tiling: Tiling | None, size: int, element_type: PrimitiveType) -> Instruction:
        """Returns the index of this device's tile times the size of a tile. It is 0 without a tiling.

        element_type: the type of the result, a signed integer that holds the size of all tiles.
        """
        key = (tiling, size, element_type)
        if key not in self._offsets:
            self._offsets[key] = self._tile_offset(tiling, size, element_type)
        return self._offsets[key]

    def _tile_offset(self, tiling: Tiling | None, size: int, element_type: PrimitiveType) -> Instruction:
        write, scalar = self.write, Shape.array(element_type, ())
        if tiling is None:
            return write.splat(0, scalar)
        if tiling.numbers is not None:
            dtype = scalar.dtype.type
            return self.per_device_constant(np.asarray(tiling.numbers, dtype) * dtype(size))
        device = write.convert(self.partition_id(), element_type)
        weight, terms = size, list[Instruction]()
        for stride, count in reversed(tiling.digits):
            digit = device if stride == 1 else write.add(opcodes.DIVIDE, device, write.splat(stride, scalar))
            if stride * count < tiling.devices:
                digit = write.add(opcodes.REMAINDER, digit, write.splat(count, scalar))
            terms.append(digit if weight == 1 else write.add(opcodes.MULTIPLY, digit, write.splat(weight, scalar)))
            weight *= count
        return functools.reduce(functools.partial(write.add, opcodes.ADD), terms)

    def is_on_first_tile(self, tiling: Tiling | None) -> Instruction:
        """Returns whether this device holds tile 0, a pred."""
        index = self.tile_index(tiling)
        return compare(self.write, index, self.write.splat(0, index.shape), ComparisonDirection.EQ)

    def per_device_constant(self, values: np.ndarray[Any, Any]) -> Instruction:
        """Returns `values[d]` on device d: a row of a table, or a plain constant if all rows are equal."""
        if (values == values[0]).all():
            return self.write.constant(Literal.array_of(np.asarray(values[0])))
        table = self.write.constant(Literal.array_of(values))
        row = table.shape.with_dimensions([1, *values.shape[1:]])
        attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=row.dimensions)
        first = self.write.constant(Literal.array_of(np.asarray(0, np.uint32)))
        starts = [self.partition_id(), *[first] * (values.ndim - 1)]
        picked = self.write.add(opcodes.DYNAMIC_SLICE, table, *starts, attributes=attributes, shape=row)
        return self.write.reshape(picked, row.with_dimensions(values.shape[1:]))

    def per_tile_constant(self, tiling: Tiling, values: np.ndarray[Any, Any]) -> Instruction:
        """Returns `values[tile]` on a device that holds that tile of a tiling."""
        return self.per_device_constant(values[tile_numbers(tiling)])

    def partition_id(self) -> Instruction:
        """Returns the number of the device that executes the program."""
        return self.write.add(opcodes.PARTITION_ID)

    # -- collectives of others

    def all_reduce(self, value: Instruction, combine: Computation, groups: ReplicaGroups) -> Instruction:
        """Combines the local arrays of the members of each group by a reducer."""
        attributes = AllReduceAttributes.make(
            channel_id=next(self.channels), replica_groups=groups, use_global_device_ids=True
        )
        return self.write.add(opcodes.ALL_REDUCE, value, attributes=attributes, computations=[combine])

    def broadcast_from_first(self, groups: ReplicaGroups, values: Sequence[Instruction]) -> list[Instruction]:
        """Sends the arrays of the first device of each group to the others; tokens are returned as they are."""
        return [self._broadcast_one(value, groups) if value.shape.is_array else value for value in values]

    def _broadcast_one(self, value: Instruction, groups: ReplicaGroups) -> Instruction:
        attributes = CollectiveBroadcastAttributes.make(channel_id=next(self.channels), replica_groups=groups)
        return self.write.add(opcodes.COLLECTIVE_BROADCAST, value, attributes=attributes)


_STEP_WRITERS: dict[type[Step], Callable[[Resharder, Instruction, Any], Instruction]] = {
    AllReduce: Resharder._all_reduce,
    ReduceScatter: Resharder._reduce_scatter,
    AllGather: Resharder._all_gather,
    AllToAll: Resharder._all_to_all,
    CollectivePermute: Resharder._collective_permute,
    LocalSlice: Resharder._local_slice,
    PadWithZeros: Resharder._pad_with_zeros,
    ZeroOnOtherDevices: Resharder._zero_on_other_devices,
}


def _resized(shape: Shape, dimension: int, size_of: Callable[[int], int]) -> Shape:
    sizes = [size_of(size) if d == dimension else size for d, size in enumerate(shape.dimensions)]
    return shape.with_dimensions(sizes)
