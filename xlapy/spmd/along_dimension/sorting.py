"""Sorts along a split dimension.

`sort_plan.py` chooses how devices sort together. Responsible for the operands and results of these sorts. Does not
depend on how an array is resharded.
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.hlo.instruction import Instruction
from xlapy.hlo.traverse import ancestors
from xlapy.interpreter.kernels.sort_keys import partially_ordered_keys
from xlapy.opcodes.sorting import SortAttributes
from xlapy.opcodes.sources import IotaAttributes
from xlapy.passes.expand.blocks import iota
from xlapy.spmd.along_dimension.distributed_sort import sort_by_boundaries
from xlapy.spmd.along_dimension.merge_network import sort_by_merging
from xlapy.spmd.along_dimension.operation import SplitOperation
from xlapy.spmd.along_dimension.ordered_rows import DistributedSort, TiledRows, sort_ordered_rows, sort_tiles
from xlapy.spmd.along_dimension.sort_plan import (
    ExchangeRows,
    Gather,
    MergeTiles,
    SearchBoundaries,
    SortPlan,
    SplitRows,
    choose_sort_plan,
)
from xlapy.spmd.along_dimension.tile_group import Rows, TileGroup
from xlapy.spmd.array_sharding import ArraySharding
from xlapy.spmd.resharding import PartitionedArray


def sort_along_split_dimension(split: SplitOperation) -> list[PartitionedArray] | None:
    """Writes a sort along a split dimension."""
    dimension = split.instruction.dimension
    sharding = split.sharding_along(dimension)
    if sharding is None:
        return None
    group, rows = split.group(sharding, dimension), Rows(split.local_sizes(sharding), dimension)
    if not rows.count:
        return None
    partial_keys = partially_ordered_keys(split.instruction.to_apply)
    needs_whole = split.needs_whole
    plan = choose_sort_plan(_sizes(split.instruction, rows, group), partial_keys is not None, needs_whole)
    if isinstance(plan, Gather):
        return None
    if isinstance(plan, ExchangeRows):
        return split.results(_sort_exchanged_rows(split, sharding, group, rows), sharding)
    assert partial_keys is not None
    tiled = TiledRows(
        group, split.instruction.to_apply, partial_keys, split.instruction.operands[0].shape.dimensions[dimension]
    )
    return split.results(_sort_tiled_rows(split, sharding, rows, tiled, distributed_sort_of(plan)), sharding)


def distributed_sort_of(plan: SortPlan) -> DistributedSort:
    """Returns the algorithm of a plan that sorts tiles."""
    if isinstance(plan, SearchBoundaries):
        return sort_by_boundaries(plan.probes)
    assert isinstance(plan, MergeTiles)
    return sort_by_merging


def _sizes(instruction: Instruction, rows: Rows, group: TileGroup) -> SplitRows:
    shapes = [operand.shape for operand in instruction.operands]
    comparator = instruction.to_apply
    read = ancestors([comparator.root_instruction])
    keys = {parameter.parameter_number // 2 for parameter in comparator.parameters if parameter in read}
    sizes = [shape.element_type.byte_size for shape in shapes]
    length = shapes[0].dimensions[instruction.dimension]
    key_bytes = sum(sizes[number] for number in keys)
    return SplitRows(rows.count, length, group.size, len(shapes), sum(sizes), key_bytes)


def _sort_tiled_rows(
    split: SplitOperation, sharding: ArraySharding, rows: Rows, tiled: TiledRows, algorithm: DistributedSort
) -> list[Instruction]:
    """Sorts rows by an algorithm that exchanges parts of them."""
    write, dimension = split.resharder.write, split.instruction.dimension
    tiles: list[Instruction] = []
    for number in range(len(split.operands)):
        local = split.local(number, sharding)
        zero = write.scalar(0, local.shape.element_type)
        tiles.append(rows.of(write, split.fill(local, sharding, dimension, zero)))
    return [rows.restore(write, each) for each in sort_ordered_rows(tiled, tiles, algorithm)]


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
