"""Local ragged dots: a device's tile of the ragged dimension, or its groups.

Along the ragged dimension, a device has a tile of the rows; its group sizes are how many rows of each group are in the
tile. Along the groups, a device has some of the matrices and all rows; those of earlier groups form one more group, the
matrix of which is zero, and later rows belong to no group, so that the sum over the devices is the result.

Example: groups of 3, 0 and 4 rows over two tiles of 4 rows have the sizes 3, 0, 1 and 0, 0, 3.

Responsible for what each device computes. Does not depend on why a ragged dot is split that way (`strategy.py`).
"""

from __future__ import annotations

from xlapy import opcodes
from xlapy.base.element_types import S64
from xlapy.hlo.instruction import Instruction
from xlapy.opcodes.contraction import RaggedDotAttributes
from xlapy.opcodes.elementwise import ComparisonDirection
from xlapy.opcodes.movement import DynamicSliceAttributes
from xlapy.passes.expand.blocks import compare, concatenate, index_type, iota, reduce_dimensions
from xlapy.passes.expand.contraction import ends_of_groups
from xlapy.spmd.local_operations import LocalOperation
from xlapy.spmd.tiling import Tiling


def local_ragged_dot(local: LocalOperation) -> Instruction:
    """Writes the ragged dot of local operands."""
    attributes = local.instruction.attributes_as(RaggedDotAttributes)
    lhs, rhs, sizes = local.operands
    ragged = attributes.lhs_ragged_dims[0]
    rows = local.operand_shardings[0].tilings[ragged]
    if rows is not None:
        sizes = _sizes_in_tile(local, rows, lhs.shape.dimensions[ragged])
    for group in attributes.rhs_group_dims:
        groups = local.operand_shardings[1].tilings[group]
        if groups is not None:
            sizes = _sizes_of_own_groups(local, groups, sizes, rhs.shape.dimensions[group])
            one = [1 if d == group else size for d, size in enumerate(rhs.shape.dimensions)]
            rhs = concatenate(local.resharder.write, [_zeros(local, rhs, one), rhs], group)
    return local.write([lhs, rhs, sizes])


def _zeros(local: LocalOperation, like: Instruction, dimensions: list[int]) -> Instruction:
    return local.resharder.write.splat(0, like.shape.with_dimensions(dimensions))


def _sizes_in_tile(local: LocalOperation, tiling: Tiling, size: int) -> Instruction:
    """Returns how many rows of each group are in the device's tile of `size` rows."""
    write, sizes = local.resharder.write, local.operands[2]
    first = local.resharder.tile_offset(tiling, size, S64)
    limit = write.add(opcodes.ADD, first, write.scalar(size, S64))
    ends = ends_of_groups(write, sizes)
    starts = write.add(opcodes.SUBTRACT, ends, write.convert(sizes, S64))
    inside = [write.add(opcodes.CLAMP, first, each, limit) for each in (ends, starts)]
    return write.convert(write.add(opcodes.SUBTRACT, *inside), index_type(size))


def _sizes_of_own_groups(local: LocalOperation, tiling: Tiling, sizes: Instruction, count: int) -> Instruction:
    """Returns the rows of all earlier groups together, and those of each of the `count` groups of the device."""
    write, axis = local.resharder.write, sizes.shape.rank - 1
    attributes = local.instruction.attributes_as(RaggedDotAttributes)
    rows = local.operands[0].shape.dimensions[attributes.lhs_ragged_dims[0]]
    numbers = write.convert(sizes, index_type(rows))
    integer = numbers.shape.element_type
    first = local.resharder.tile_offset(tiling, count, index_type(count * tiling.tiles))
    positions = iota(write, numbers.shape.with_element_type(first.shape.element_type), axis)
    is_before = compare(write, positions, write.broadcast(first, positions.shape), ComparisonDirection.LT)
    before = write.add(opcodes.SELECT, is_before, numbers, write.splat(0, numbers.shape))
    total = reduce_dimensions(write, opcodes.ADD, before, [axis])
    leading = numbers.shape.dimensions[:-1]
    zero = write.scalar(0, first.shape.element_type)
    own = write.add(
        opcodes.DYNAMIC_SLICE, numbers, *[zero] * axis, first,
        attributes=DynamicSliceAttributes.make(dynamic_slice_sizes=(*leading, count)),
    )  # fmt: skip
    column = numbers.shape.with_dimensions([*leading, 1]).with_element_type(integer)
    return concatenate(write, [write.reshape(total, column), own], axis)
