"""Parts of arrays brought from one placement to another, with collectives.

Owns: what is sent for that. Must not know: why.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from xlapy import ops
from xlapy.base.literal import Literal
from xlapy.base.records import dataclass
from xlapy.base.shape import Shape
from xlapy.hlo.computation import Computation
from xlapy.hlo.instruction import Instruction
from xlapy.ops.collectives import AllGatherAttributes, AllReduceAttributes, CollectiveBroadcastAttributes
from xlapy.ops.movement import DynamicSliceAttributes
from xlapy.ops.replica_groups import GroupList
from xlapy.passes.partition.splits import Placement, Split, groups_along, part_of, tiles_of
from xlapy.passes.rewrite import Writer


@dataclass(frozen=True)
class Local:
    """What a device has of an array: an instruction, and where its part lies. Without a placement it is computed by
    hand, `depth` regions deep: the program says itself what each device has."""

    instruction: Instruction
    placement: Placement | None
    depth: int = 0


class Mover:
    """Writes the moves of one computation. channels: numbers of collectives that are still free."""

    def __init__(self, write: Writer, devices: int, channels: Iterator[int]) -> None:
        self.write = write
        self.devices = devices
        self.channels = channels
        self._moved: dict[tuple[Local, Placement], Local] = {}

    def moved(self, value: Local, target: Placement) -> Local:
        """The array at another placement: what is cut otherwise is gathered, and then cut."""
        if value.placement is None or value.placement == target:
            return Local(value.instruction, target)
        key = (value, target)
        if key not in self._moved:
            common = tuple([old if old == new else None for old, new in zip(value.placement, target, strict=True)])
            self._moved[key] = self.cut(self.gathered(value, common), target)
        return self._moved[key]

    def gathered(self, value: Local, target: Placement, apart: Sequence[Split] = ()) -> Local:
        """With some of the dimensions whole again; devices on different tiles of the splits `apart` do not meet."""
        instruction, placement = value.instruction, list(value.placement or ())
        for dimension, split in enumerate(tuple(placement)):
            if split is None or target[dimension] is not None:
                continue
            placement[dimension] = None
            attributes = AllGatherAttributes.make(
                channel_id=next(self.channels), replica_groups=groups_along(split, [*placement, *apart]),
                all_gather_dimension=dimension, use_global_device_ids=True,
            )  # fmt: skip
            shape = _times(instruction.shape, dimension, tiles_of(split))
            instruction = self.write.add(ops.ALL_GATHER, instruction, attributes=attributes, shape=shape)
        return Local(instruction, tuple(placement))

    def cut(self, value: Local, target: Placement) -> Local:
        """Each device's own tiles of dimensions that were whole."""
        fresh = [None if old == new else new for old, new in zip(value.placement or (), target, strict=True)]
        if not any(fresh):
            return value
        shape = value.instruction.shape
        result = part_of(shape, tuple(fresh))
        starts = [self._start(split, size) for split, size in zip(fresh, result.dimensions, strict=True)]
        attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=result.dimensions)
        made = self.write.add(ops.DYNAMIC_SLICE, value.instruction, *starts, attributes=attributes, shape=result)
        return Local(made, target)

    def _start(self, split: Split | None, size: int) -> Instruction:
        """Where this device's tile begins."""
        if split is None:
            return self.write.literal(Literal.array_of(np.asarray(0, np.int32)))
        table = self.write.literal(Literal.array_of(np.asarray(split, np.int32) * np.int32(size)))
        row = Shape.array(table.shape.element_type, (1,))
        attributes = DynamicSliceAttributes.make(dynamic_slice_sizes=(1,))
        picked = self.write.add(ops.DYNAMIC_SLICE, table, self.number(), attributes=attributes, shape=row)
        return self.write.reshape(picked, Shape.scalar(table.shape.element_type))

    def number(self) -> Instruction:
        """This device's number."""
        return self.write.add(ops.PARTITION_ID)

    def combined(
        self, value: Instruction, reducer: Computation, split: Split, others: Iterable[Split | None]
    ) -> Instruction:
        """The results of the tiles of a summed dimension put together, on each device."""
        attributes = AllReduceAttributes.make(
            channel_id=next(self.channels), replica_groups=groups_along(split, others), use_global_device_ids=True
        )
        return self.write.add(ops.ALL_REDUCE, value, attributes=attributes, computations=[reducer])

    def sent_by(self, device: int, values: Sequence[Instruction]) -> list[Instruction]:
        """What one device has, on every device."""
        order = (device, *[other for other in range(self.devices) if other != device])
        sent = []
        for value in values:
            attributes = CollectiveBroadcastAttributes.make(
                channel_id=next(self.channels), replica_groups=GroupList((order,))
            )
            is_array = value.shape.is_array
            sent.append(self.write.add(ops.COLLECTIVE_BROADCAST, value, attributes=attributes) if is_array else value)
        return sent


def _times(shape: Shape, dimension: int, factor: int) -> Shape:
    """So many of an array, one behind the other."""
    return shape.with_dimensions([n * factor if d == dimension else n for d, n in enumerate(shape.dimensions)])
