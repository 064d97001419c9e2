"""The devices that hold the tiles of one dimension, and the collectives among them.

Operations along a dimension that is split (sorts, cumulative sums, FFTs ...) exchange data between these devices. Each
group has one device for each tile, in the order of tiles.

Worked example: f32[6,32] is split along dimension 1 over 4 devices, so that each one holds 6 rows of 8 elements. To
work on whole rows, they exchange tiles: `exchange_for_whole_rows` pads the 6 rows to 8, sends 2 rows to each device
and returns f32[2,32]; `exchange_for_tiles` is the inverse. A device sends and receives 2 * 6/8 of its tile, instead of
receiving the tiles of 3 other devices.

Responsible for groups, their collectives, and the transposition to rows and back. Does not depend on what is computed
along the dimension.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from xlapy import opcodes
from xlapy.base.shape import Ints, Shape
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.attributes.dimensions import PaddingDimension
from xlapy.opcodes.attributes.replica_groups import ReplicaGroups
from xlapy.opcodes.collectives import AllGatherAttributes, AllToAllAttributes, CollectivePermuteAttributes
from xlapy.passes.expand.blocks import new_computation, slice_dimension
from xlapy.passes.rewrite import Writer
from xlapy.spmd.array_sharding import ArraySharding, Tiling, replica_groups_along, tile_count
from xlapy.spmd.collectives.device_pairs import pairs_in_groups
from xlapy.spmd.halo.exchange import pad_dimension
from xlapy.spmd.resharding import Resharder


@dataclass(frozen=True)
class TileGroup:
    """The groups of devices that differ only in their tile of one dimension.

    tiling: the tiling of that dimension. groups: one device for each tile, in the order of tiles.
    """

    resharder: Resharder
    tiling: Tiling
    groups: ReplicaGroups

    @staticmethod
    def along(
        resharder: Resharder, sharding: ArraySharding, dimension: int, manual_axes: Sequence[Tiling]
    ) -> TileGroup:
        """Returns the groups of a dimension that the sharding splits."""
        tiling = sharding.tilings[dimension]
        assert tiling is not None
        others = sharding.with_tiling(dimension, None).all_tilings
        return TileGroup(resharder, tiling, replica_groups_along(tiling, [*others, *manual_axes]))

    @property
    def size(self) -> int:
        """The number of tiles, and of members of each group."""
        return tile_count(self.tiling)

    def tile_index(self) -> Instruction:
        """Writes the number of the tile that the device holds, as s32[]."""
        return self.resharder.tile_index(self.tiling)

    # -- collectives. They are written by `write`, which may write into the body of a loop.

    def stack(self, write: Writer, value: Instruction) -> Instruction:
        """Gathers the arrays of all members: `[...]` becomes `[members, ...]`."""
        attributes = AllGatherAttributes.make(
            channel_id=next(self.resharder.channels), replica_groups=self.groups, all_gather_dimension=0,
            use_global_device_ids=True,
        )  # fmt: skip
        dimensions = value.shape.dimensions
        one = write.reshape(value, value.shape.with_dimensions([1, *dimensions]))
        return write.add(
            opcodes.ALL_GATHER, one, attributes=attributes, shape=one.shape.with_dimensions([self.size, *dimensions])
        )

    def joined(self, write: Writer, tiles: Instruction) -> Instruction:
        """Gathers the tiles of all members: `[rows, tile size]` becomes `[rows, members * tile size]`."""
        rows, size = tiles.shape.dimensions
        stacked = write.transpose(self.stack(write, tiles), (1, 0, 2))
        return write.reshape(stacked, tiles.shape.with_dimensions([rows, self.size * size]))

    def swap_blocks(self, write: Writer, value: Instruction) -> Instruction:
        """Sends block i of `[members, ...]` to member i; block i of the result comes from member i."""
        attributes = AllToAllAttributes.make(
            channel_id=next(self.resharder.channels), replica_groups=self.groups, split_dimension=0
        )
        return write.add(opcodes.ALL_TO_ALL, value, attributes=attributes, shape=value.shape)

    def permute(self, write: Writer, value: Instruction, moves: tuple[tuple[int, int], ...]) -> Instruction:
        """Sends the array of the first tile of each pair to the device of the second; all others receive zeros."""
        attributes = CollectivePermuteAttributes.make(
            channel_id=next(self.resharder.channels), source_target_pairs=pairs_in_groups(self.groups, moves)
        )
        return write.add(opcodes.COLLECTIVE_PERMUTE, value, attributes=attributes)

    # -- whole rows for tiles of rows

    def exchange_for_whole_rows(self, write: Writer, tiles: Instruction, row_size: int) -> Instruction:
        """Sends rows to members: `[rows, tile size]` becomes `[padded rows / members, row size]`.

        The elements that fill up the last tiles are cut off.
        """
        rows, size = tiles.shape.dimensions
        each = -(-rows // self.size)
        padded = pad_end(write, tiles, 0, each * self.size - rows)
        blocks = write.reshape(padded, tiles.shape.with_dimensions([self.size, each, size]))
        received = write.transpose(self.swap_blocks(write, blocks), (1, 0, 2))
        whole = write.reshape(received, tiles.shape.with_dimensions([each, self.size * size]))
        return slice_dimension(write, whole, 1, 0, row_size)

    def exchange_for_tiles(self, write: Writer, rows: Instruction, count: int) -> Instruction:
        """Sends tiles back: the inverse of `exchange_for_whole_rows` for `count` rows."""
        each, size = rows.shape.dimensions
        tile = -(-size // self.size)
        padded = pad_end(write, rows, 1, self.size * tile - size)
        blocks = write.reshape(padded, rows.shape.with_dimensions([each, self.size, tile]))
        received = self.swap_blocks(write, write.transpose(blocks, (1, 0, 2)))
        flat = write.reshape(received, rows.shape.with_dimensions([self.size * each, tile]))
        return flat if self.size * each == count else write.slice(flat, (0, 0), (count, tile))


@dataclass(frozen=True)
class Rows:
    """The transposition of an array to rows along one of its dimensions: `[rows, size]`."""

    dimensions: Ints
    dimension: int

    @property
    def count(self) -> int:
        """The number of rows."""
        return math.prod(self.dimensions) // max(1, self.dimensions[self.dimension])

    def _order(self) -> list[int]:
        return [*[d for d in range(len(self.dimensions)) if d != self.dimension], self.dimension]

    def of(self, write: Writer, value: Instruction) -> Instruction:
        """Writes the rows of an array of these dimensions."""
        turned = write.transpose(value, self._order())
        return write.reshape(
            turned, Shape.array(value.shape.element_type, (self.count, value.shape.dimensions[self.dimension]))
        )

    def restore(self, write: Writer, rows: Instruction) -> Instruction:
        """Writes the array of given rows, whose size along the dimension may have changed."""
        order = self._order()
        sizes = [*[self.dimensions[d] for d in order[:-1]], rows.shape.dimensions[1]]
        split = write.reshape(rows, Shape.array(rows.shape.element_type, sizes))
        return write.transpose(split, [order.index(d) for d in range(len(order))])


def pad_end(write: Writer, value: Instruction, dimension: int, count: int) -> Instruction:
    """Appends `count` zeros along a dimension."""
    if not count:
        return value
    zero = write.scalar(0, value.shape.element_type)
    return pad_dimension(write.add, value, dimension, PaddingDimension(0, count), zero)


def while_loop(
    write: Writer,
    state: Sequence[Instruction],
    condition: Callable[[Writer, list[Instruction]], Instruction],
    body: Callable[[Writer, list[Instruction]], Sequence[Instruction]],
    name: str,
) -> list[Instruction]:
    """Writes a loop over a state of several arrays; returns the state at its end."""
    initial = write.add(opcodes.TUPLE, *state)

    def elements(into: Writer, given: list[Instruction]) -> list[Instruction]:
        return [into.get_tuple_element(given[0], number) for number in range(len(state))]

    def decision(into: Writer, given: list[Instruction]) -> Instruction:
        return condition(into, elements(into, given))

    def iteration(into: Writer, given: list[Instruction]) -> Instruction:
        return into.add(opcodes.TUPLE, *body(into, elements(into, given)))

    computations = [
        new_computation(write, f"{name}_condition", [initial.shape], decision),
        new_computation(write, f"{name}_body", [initial.shape], iteration),
    ]
    looped = write.add(opcodes.WHILE, initial, computations=computations)
    return [write.get_tuple_element(looped, number) for number in range(len(state))]
