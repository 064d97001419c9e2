"""Parts of arrays brought from one placement to another, with collectives.

Owns: the instructions of each step of a route. Must not know: why it is taken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from xlapy import opcodes
from xlapy.base.element_types import PRED
from xlapy.base.literal import Literal
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.replica_groups import GroupList
from xlapy.opcodes.collectives import (
    AllGatherAttributes,
    AllReduceAttributes,
    AllToAllAttributes,
    CollectiveBroadcastAttributes,
    CollectivePermuteAttributes,
    ReduceScatterAttributes,
)
from xlapy.opcodes.movement import DynamicSliceAttributes
from xlapy.passes.expand.blocks import reducer
from xlapy.passes.rewrite import Writer
from xlapy.spmd.routes import AddUp, AddUpTiles, Cut, Exchange, Gather, Keep, Permute, Spread, Step, route
from xlapy.spmd.splits import Placement, Split, tiles_of


@dataclass(frozen=True)
class Local:
    """What a device has of an array: an instruction, and where its part lies.

    apart: the place of each device along the axes that the program computes by hand there: arrays of devices that
    differ in it are different ones.
    """

    instruction: Instruction
    placement: Placement
    apart: tuple[Split, ...] = ()


class Mover:
    """Writes the moves of one computation. channels: numbers of collectives that are still free."""

    def __init__(self, write: Writer, devices: int, channels: Iterator[int]) -> None:
        self.write = write
        self.devices = devices
        self.channels = channels
        self._moved: dict[tuple[Local, Placement], Local] = {}

    def moved(self, value: Local, target: Placement) -> Local:
        """The array at another placement."""
        if not value.instruction.shape.is_array or value.placement == target:
            return value
        key = (value, target)
        if key not in self._moved:
            instruction = value.instruction
            for step in route(value.placement, target, value.apart):
                instruction = _STEPS[type(step)](self, instruction, step)
            self._moved[key] = Local(instruction, target, value.apart)
        return self._moved[key]

    # -- steps

    def _add_up(self, value: Instruction, step: AddUp) -> Instruction:
        return self.combined(value, reducer(self.write, opcodes.ADD, value.shape.element_type), step.groups)

    def _add_up_tiles(self, value: Instruction, step: AddUpTiles) -> Instruction:
        attributes = ReduceScatterAttributes.make(
            channel_id=next(self.channels), replica_groups=step.groups, scatter_dimension=step.dimension,
            use_global_device_ids=True,
        )  # fmt: skip
        shape = _resized(value.shape, step.dimension, lambda size: size // step.members)
        add = reducer(self.write, opcodes.ADD, shape.element_type)
        return self.write.add(opcodes.REDUCE_SCATTER, value, attributes=attributes, computations=[add], shape=shape)

    def _gather(self, value: Instruction, step: Gather) -> Instruction:
        attributes = AllGatherAttributes.make(
            channel_id=next(self.channels), replica_groups=step.groups, all_gather_dimension=step.dimension,
            use_global_device_ids=True,
        )  # fmt: skip
        shape = _resized(value.shape, step.dimension, lambda size: size * step.members)
        return self.write.add(opcodes.ALL_GATHER, value, attributes=attributes, shape=shape)

    def _exchange(self, value: Instruction, step: Exchange) -> Instruction:
        """The tiles to be sent get a dimension of their own, which then tells where they came from."""
        count, cut = step.members, step.cut
        sizes = value.shape.dimensions
        rows = value.shape.with_dimensions([*sizes[:cut], count, sizes[cut] // count, *sizes[cut + 1 :]])
        attributes = AllToAllAttributes.make(
            channel_id=next(self.channels), replica_groups=step.groups, split_dimension=cut
        )
        sent = self.write.add(opcodes.ALL_TO_ALL, self.write.reshape(value, rows), attributes=attributes, shape=rows)
        rest = [dimension for dimension in range(rows.rank) if dimension != cut]
        place = step.joined + (step.joined > cut)
        order = [dimension for kept in rest for dimension in ((cut, kept) if kept == place else (kept,))]
        joined = _resized(value.shape, step.joined, lambda size: size * count)
        joined = _resized(joined, cut, lambda size: size // count)
        return self.write.reshape(self.write.transpose(sent, order), joined)

    def _permute(self, value: Instruction, step: Permute) -> Instruction:
        return self.sent(value, step.pairs)

    def _cut(self, value: Instruction, step: Cut) -> Instruction:
        sizes = [n // tiles_of(split) for n, split in zip(value.shape.dimensions, step.tiles, strict=True)]
        result = value.shape.with_dimensions(sizes)
        attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=result.dimensions)
        starts = self._starts(step.tiles, sizes)
        return self.write.add(opcodes.DYNAMIC_SLICE, value, *starts, attributes=attributes, shape=result)

    def _spread(self, value: Instruction, step: Spread) -> Instruction:
        sizes = value.shape.dimensions
        counts = [n * tiles_of(split) for n, split in zip(sizes, step.tiles, strict=True)]
        zeros = self.write.filled(0, value.shape.with_dimensions(counts))
        return self.write.add(opcodes.DYNAMIC_UPDATE_SLICE, zeros, value, *self._starts(step.tiles, sizes))

    def _keep(self, value: Instruction, step: Keep) -> Instruction:
        mask = self.write.broadcast(self.own(np.asarray(step.keeps)), value.shape.with_element_type(PRED))
        return self.write.add(opcodes.SELECT, mask, value, self.write.filled(0, value.shape))

    def _starts(self, tiles: Sequence[Split | None], sizes: Sequence[int]) -> list[Instruction]:
        """Where this device's tile begins along each dimension; the first one where there is no choice."""
        return [
            self.own(np.asarray(split or [0], np.int32) * np.int32(size))
            for split, size in zip(tiles, sizes, strict=True)
        ]

    # -- what each device has of its own

    def own(self, values: np.ndarray[Any, Any]) -> Instruction:
        """The row that each device has of an array of one each; that of all devices, if there is one."""
        if (values == values[0]).all():
            return self.write.literal(Literal.array_of(np.asarray(values[0])))
        table = self.write.literal(Literal.array_of(values))
        row = table.shape.with_dimensions([1, *values.shape[1:]])
        attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=row.dimensions)
        first = self.write.literal(Literal.array_of(np.asarray(0, np.uint32)))
        starts = [self.number(), *[first] * (values.ndim - 1)]
        picked = self.write.add(opcodes.DYNAMIC_SLICE, table, *starts, attributes=attributes, shape=row)
        return self.write.reshape(picked, row.with_dimensions(values.shape[1:]))

    def number(self) -> Instruction:
        """This device's number."""
        return self.write.add(opcodes.PARTITION_ID)

    # -- what is sent

    def sent(self, value: Instruction, pairs: Sequence[tuple[int, ...]]) -> Instruction:
        """What another device has; zeros without a pair that tells which."""
        attributes = CollectivePermuteAttributes.make(channel_id=next(self.channels), source_target_pairs=tuple(pairs))
        return self.write.add(opcodes.COLLECTIVE_PERMUTE, value, attributes=attributes)

    def combined(self, value: Instruction, combine: Computation, groups: GroupList) -> Instruction:
        """What the members of each group have, combined."""
        attributes = AllReduceAttributes.make(
            channel_id=next(self.channels), replica_groups=groups, use_global_device_ids=True
        )
        return self.write.add(opcodes.ALL_REDUCE, value, attributes=attributes, computations=[combine])

    def sent_by(self, device: int, values: Sequence[Instruction]) -> list[Instruction]:
        """What one device has, on every device."""
        order = (device, *[other for other in range(self.devices) if other != device])
        sent = []
        for value in values:
            attributes = CollectiveBroadcastAttributes.make(
                channel_id=next(self.channels), replica_groups=GroupList((order,))
            )
            is_array = value.shape.is_array
            sent.append(
                self.write.add(opcodes.COLLECTIVE_BROADCAST, value, attributes=attributes) if is_array else value
            )
        return sent


_STEPS: dict[type[Step], Callable[[Mover, Instruction, Any], Instruction]] = {
    AddUp: Mover._add_up,
    AddUpTiles: Mover._add_up_tiles,
    Gather: Mover._gather,
    Exchange: Mover._exchange,
    Permute: Mover._permute,
    Cut: Mover._cut,
    Spread: Mover._spread,
    Keep: Mover._keep,
}


def _resized(shape: Shape, dimension: int, size_of: Callable[[int], int]) -> Shape:
    sizes = [size_of(size) if d == dimension else size for d, size in enumerate(shape.dimensions)]
    return shape.with_dimensions(sizes)
