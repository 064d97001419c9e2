"""Reshapes of split dimensions that every device carries out on its own tile.

A reshape splits and merges dimensions in groups: the dimensions of a group of the operand have the same elements, in
the same order, as those of a group of the result. If the tiles of a group are consecutive elements, they are tiles of
the result, too, possibly of several of its dimensions. The first dimension of a group alone is a factor of the sharding
rule (`sharding_rules`); this module has the others.

Responsible for the sharding of the result and for the local reshape. Does not depend on how arrays are resharded.

Worked example: 8 rows in 4 tiles become (2, 4) rows. The first dimension has 2 tiles, the second one 2 tiles of 2 rows:
a device with tile 3 of the 8 rows has tile 1 of the first dimension and tile 1 of the second one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from xlapy.base.shape import Ints, Shape
from xlapy.hlo.instruction import Instruction
from xlapy.passes.rewrite import Writer
from xlapy.spmd.array_sharding import ArraySharding, local_shape, uneven_dimensions
from xlapy.spmd.resharding import PartitionedArray
from xlapy.spmd.tiling import Tiling, coarsened, minor_tiling, nested_tiling, tile_count


def reshaped_tile(
    write: Writer,
    instruction: Instruction,
    operand: PartitionedArray,
    otherwise: ArraySharding,
    requested: ArraySharding,
) -> PartitionedArray | None:
    """Writes a reshape of each device's own tile; None if it is not possible, or if nothing is resharded anyway.

    otherwise: the sharding to which the operand is resharded otherwise. requested: that of the result.
    """
    is_whole = instruction.sharding is not None and requested.is_replicated
    if is_whole or operand.sharding.partial_sums is not None or operand.sharding == otherwise:
        return None
    sharding = sharding_of_reshaped(operand.whole_shape, operand.sharding, instruction.shape)
    if sharding is None:
        return None
    new = write.reshape(operand.instruction, local_shape(instruction.shape, sharding))
    return PartitionedArray(new, sharding, operand.manual_axes, instruction.shape)


def sharding_of_reshaped(operand: Shape, sharding: ArraySharding, result: Shape) -> ArraySharding | None:
    """Returns the sharding of a reshaped array whose tiles are those of the operand; None if there is none.

    There is none for tiles that are not full, such as those of a split dimension of one element.
    """
    if operand.is_dynamic or result.is_dynamic or 0 in result.dimensions or uneven_dimensions(operand, sharding):
        return None
    tilings: list[Tiling | None] = [None] * result.rank
    for before, after in _groups(operand.dimensions, result.dimensions):
        split = [dimension for dimension in before if sharding.tilings[dimension] is not None]
        if not split:
            continue
        if not _are_consecutive(operand.dimensions, sharding.tilings, before):
            return None
        rest = nested_tiling([sharding.tilings[dimension] for dimension in split])
        for dimension in after:
            size, tiles = result.dimensions[dimension], tile_count(rest)
            count = math.gcd(size, tiles)
            if rest is None or count not in (size, tiles):
                break
            tilings[dimension] = rest if count == tiles else coarsened(rest, count)
            rest = None if count == tiles else minor_tiling(rest, tilings[dimension])
        if rest is not None:
            return None
    return ArraySharding(tuple(tilings), sharding.partial_sums)


def _groups(before: Ints, after: Ints) -> Iterator[tuple[list[int], list[int]]]:
    """Yields the dimensions of operand and result that belong together. Dimensions of one element belong to none."""
    old = [dimension for dimension, size in enumerate(before) if size != 1]
    new = [dimension for dimension, size in enumerate(after) if size != 1]
    while old and new:
        left, right = [old.pop(0)], [new.pop(0)]
        sizes = [before[left[0]], after[right[0]]]
        while sizes[0] != sizes[1]:
            if sizes[0] < sizes[1]:
                left.append(old.pop(0))
                sizes[0] *= before[left[-1]]
            else:
                right.append(new.pop(0))
                sizes[1] *= after[right[-1]]
        yield left, right


def _are_consecutive(sizes: Ints, tilings: Sequence[Tiling | None], group: Sequence[int]) -> bool:
    """Returns whether the tiles of a group are equal numbers of consecutive elements.

    They are if each dimension before a split one has tiles of one element.
    """
    is_single = True
    for dimension in group:
        tiling = tilings[dimension]
        if tiling is not None and not is_single:
            return False
        is_single = is_single and tile_count(tiling) == sizes[dimension]
    return True
