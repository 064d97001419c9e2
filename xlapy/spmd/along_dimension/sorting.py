"""Sorts and top-k along a split dimension.

Several rows are distributed: each device receives whole rows, sorts them and sends the tiles back. One row is sorted
by all devices together (`distributed_sort.py`), if the comparator is a strict weak order. A top-k selects k elements on
each device, and the k largest of these.

Responsible for these choices. Does not depend on how an array is resharded.
"""

from __future__ import annotations

from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.kernels.sort_keys import is_strict_weak_order
from xlapy.opcodes.sorting import SortAttributes
from xlapy.spmd.along_dimension.distributed_sort import sort_split_row, sort_tiles
from xlapy.spmd.along_dimension.operation import SplitOperation
from xlapy.spmd.along_dimension.tile_group import Rows
from xlapy.spmd.resharding import PartitionedArray

DISTRIBUTED_SORT_MIN_ELEMENTS = 1 << 14
"""The smallest row that devices sort together. Shorter rows are gathered, because the search of boundaries takes some
ten small collectives."""


def sort_along_split_dimension(split: SplitOperation) -> list[PartitionedArray] | None:
    """Writes a sort along a split dimension."""
    instruction = split.instruction
    dimension = instruction.dimension
    sharding = split.sharding_along(dimension)
    if sharding is None:
        return None
    group = split.group(sharding, dimension)
    write, comparator = split.resharder.write, instruction.to_apply
    rows = Rows(split.local_sizes(sharding), dimension)
    alone = rows.count == 1
    if not rows.count or (alone and not _is_sorted_together(instruction, group.size)):
        return None
    tiles = [rows.of(write, split.local(number, sharding)) for number in range(len(instruction.operands))]
    if alone:
        flat = [write.reshape(tile, tile.shape.with_dimensions(tile.shape.dimensions[1:])) for tile in tiles]
        found = sort_split_row(group, comparator, flat)
        sorted_tiles = [write.reshape(each, tile.shape) for each, tile in zip(found, tiles, strict=True)]
    else:
        exchanged = [group.exchange_for_whole_rows(write, tile) for tile in tiles]
        is_stable = instruction.attributes_as(SortAttributes).is_stable
        found = sort_tiles(write, comparator, exchanged, 1, is_stable)
        sorted_tiles = [group.exchange_for_tiles(write, each, rows.count) for each in found]
    return [split.result(rows.restore(write, each), sharding) for each in sorted_tiles]


def _is_sorted_together(instruction: Instruction, members: int) -> bool:
    """Returns whether devices sort one row together. A tile has to be longer than the proposals of all devices."""
    size = instruction.operands[0].shape.dimensions[instruction.dimension]
    is_long = size >= DISTRIBUTED_SORT_MIN_ELEMENTS and members**3 <= size
    return is_long and is_strict_weak_order(instruction.to_apply)
