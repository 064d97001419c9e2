"""Sorts and top-k along a split dimension.

Several rows are distributed: each device receives whole rows, sorts them and sends the tiles back. One row is sorted
by all devices together (`distributed_sort.py`), if the comparator is a strict weak order. A top-k selects k elements on
each device, and the k largest of these.

Responsible for these choices. Does not depend on how an array is resharded.
"""

from __future__ import annotations

from collections.abc import Sequence

from xlapy import opcodes
from xlapy.base.element_types import S32
from xlapy.hlo.instruction import Instruction
from xlapy.interpreter.kernels.sort_keys import partially_ordered_keys
from xlapy.opcodes.indexing import GatherAttributes
from xlapy.opcodes.sorting import SortAttributes, TopKAttributes
from xlapy.opcodes.sources import IotaAttributes
from xlapy.passes.expand.blocks import iota
from xlapy.passes.rewrite import Writer
from xlapy.spmd.along_dimension.distributed_sort import sort_split_row, sort_tiles
from xlapy.spmd.along_dimension.operation import SplitOperation
from xlapy.spmd.along_dimension.tile_group import Rows, TileGroup
from xlapy.spmd.array_sharding import ArraySharding, are_independent
from xlapy.spmd.resharding import PartitionedArray

DISTRIBUTED_SORT_MIN_ELEMENTS = 1 << 14
"""The smallest row that devices sort together. Shorter rows are gathered, because the search of boundaries takes some
ten small collectives."""


def sort_along_split_dimension(split: SplitOperation) -> list[PartitionedArray] | None:
    """Writes a sort along a split dimension."""
    dimension = split.instruction.dimension
    sharding = split.sharding_along(dimension)
    if sharding is None:
        return None
    group, rows = split.group(sharding, dimension), Rows(split.local_sizes(sharding), dimension)
    if rows.count > 1:
        found = _sort_exchanged_rows(split, sharding, group, rows)
    elif rows.count == 1 and split.is_even(sharding, dimension) and _is_long(split.instruction, group.size):
        partial_keys = partially_ordered_keys(split.instruction.to_apply)
        if partial_keys is None:
            return None
        found = _sort_one_row(split, sharding, group, rows, partial_keys)
    else:
        return None
    return split.results(found, sharding)


def _sort_one_row(
    split: SplitOperation, sharding: ArraySharding, group: TileGroup, rows: Rows, partial_keys: Sequence[Instruction]
) -> list[Instruction]:
    write, comparator = split.resharder.write, split.instruction.to_apply
    tiles = [rows.of(write, split.local(number, sharding)) for number in range(len(split.operands))]
    flat = [write.reshape(tile, tile.shape.with_dimensions(tile.shape.dimensions[1:])) for tile in tiles]
    found = sort_split_row(group, comparator, partial_keys, flat)
    return [rows.restore(write, write.reshape(each, tile.shape)) for each, tile in zip(found, tiles, strict=True)]


def _sort_exchanged_rows(
    split: SplitOperation, sharding: ArraySharding, group: TileGroup, rows: Rows
) -> list[Instruction]:
    """Sorts whole rows. Operands that count along the rows are not sent, nor are results that nothing uses."""
    write, instruction = split.resharder.write, split.instruction
    row_size = instruction.operands[0].shape.dimensions[instruction.dimension]
    given: list[Instruction] = []
    for number, operand in enumerate(instruction.operands):
        if operand.op is opcodes.IOTA and operand.attributes_as(IotaAttributes).iota_dimension == instruction.dimension:
            counted = operand.shape.with_dimensions((-(-rows.count // group.size), row_size))
            given.append(iota(write, counted, 1))
        else:
            tiles = rows.of(write, split.local(number, sharding))
            given.append(group.exchange_for_whole_rows(write, tiles, row_size))
    is_stable = instruction.attributes_as(SortAttributes).is_stable
    found = sort_tiles(write, instruction.to_apply, given, 1, is_stable)
    used = _used_results(instruction)
    return [
        rows.restore(write, group.exchange_for_tiles(write, each, rows.count))
        if number in used
        else write.splat(0, each.shape.with_dimensions(split.local_sizes(sharding)))
        for number, each in enumerate(found)
    ]


def _used_results(instruction: Instruction) -> set[int]:
    """Returns the numbers of the results that other instructions, or the caller of the computation, read."""
    users = instruction.users
    is_whole = instruction.is_root or any(user.op is not opcodes.GET_TUPLE_ELEMENT for user in users)
    if is_whole or not instruction.shape.is_tuple:
        return set(range(len(instruction.operands)))
    return {user.tuple_index for user in users if user.users or user.is_root}


def _is_long(instruction: Instruction, members: int) -> bool:
    """Returns whether devices may sort one row together: a tile is longer than the proposals of all devices."""
    size = instruction.operands[0].shape.dimensions[instruction.dimension]
    return size >= DISTRIBUTED_SORT_MIN_ELEMENTS and members**3 <= size


def top_k_along_split_dimension(split: SplitOperation) -> list[PartitionedArray] | None:
    """Writes a top-k of split rows: k elements of each tile, gathered, and the k largest of these.

    Equal elements are taken in the order of the row: tiles are gathered in their order, and each selection is stable.
    """
    instruction, write = split.instruction, split.resharder.write
    (operand,) = split.operands
    dimension, shape = instruction.operands[0].shape.rank - 1, instruction.operands[0].shape
    sharding = operand.sharding.with_partial_sums(None)
    if sharding.tilings[dimension] is None or not are_independent([*sharding.all_tilings, *split.manual_axes]):
        return None
    if not split.is_even(sharding, dimension):
        return None
    group, k = split.group(sharding, dimension), instruction.attributes_as(TopKAttributes).k
    size = shape.dimensions[dimension] // group.size
    taken = min(k, size)
    if not k or taken * (shape.element_type.byte_size + S32.byte_size) > size * shape.element_type.byte_size:
        return None  # gathering the rows takes fewer bytes
    values, places = _top_k(write, split.local(0, sharding), instruction, taken)
    offset = write.add(opcodes.MULTIPLY, group.tile_index(), write.scalar(size, S32))
    indices = write.add(opcodes.ADD, places, write.broadcast(offset, places.shape))
    rows = Rows(values.shape.dimensions, dimension)
    gathered = [_joined(write, group, rows.of(write, each)) for each in (values, indices)]
    best, order = _top_k(write, gathered[0], instruction, k)
    found = [rows.restore(write, each) for each in (best, _taken_along(write, gathered[1], order))]
    return split.results(found, sharding.with_tiling(dimension, None))


def _top_k(write: Writer, operand: Instruction, like: Instruction, k: int) -> list[Instruction]:
    """Writes a stable top-k of another operand; returns the values and their indices."""
    attributes = like.attributes_as(TopKAttributes).replace(k=k, is_stable=True)
    result = write.add(opcodes.TOPK, operand, attributes=attributes)
    return [write.get_tuple_element(result, number) for number in range(2)]


def _joined(write: Writer, group: TileGroup, rows: Instruction) -> Instruction:
    """Gathers rows of all members: `[rows, k]` becomes `[rows, members * k]`."""
    count, size = rows.shape.dimensions
    stacked = write.transpose(group.stack(write, rows), (1, 0, 2))
    return write.reshape(stacked, rows.shape.with_dimensions([count, group.size * size]))


def _taken_along(write: Writer, rows: Instruction, order: Instruction) -> Instruction:
    """Returns `rows[i, order[i, j]]`."""
    attributes = GatherAttributes.make(
        offset_dims=(), collapsed_slice_dims=(1,), start_index_map=(1,), operand_batching_dims=(0,),
        start_indices_batching_dims=(0,), index_vector_dim=2, slice_sizes=(1, 1),
    )  # fmt: skip
    return write.add(opcodes.GATHER, rows, order, attributes=attributes)
